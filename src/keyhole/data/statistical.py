"""SPSS, Stata and SAS files through pyreadstat, in a child process: a damaged file ends the child, not us.

Value labels become a codebook. Codes are written as a user would: 1, not 1.0; Stata's and SAS's letters for
missing values as .a and .A.
"""

import io
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from keyhole.data import statistical_child
from keyhole.data.codebook import code_text
from keyhole.data.columns import find_columns
from keyhole.data.opening import PROGRAMS, OpenedFile
from keyhole.data.variables import Table, Variable
from keyhole.errors import InputError

# Seconds of CPU for a file: some for starting, some for each megabyte. A million records by ten keys take 3 s.
CPU_SECONDS = 5
MEGABYTES_PER_CPU_SECOND = 1
WALL_PER_CPU = 20  # a busy machine is no reason to give up


def read_statistical(opened: OpenedFile, wanted: Sequence[str] | None, keep_user_missing: bool) -> Table:
    """Return the wanted columns (None: all of them) with their labels."""
    where = str(opened.path)
    head, packed = _ask(opened, wanted, keep_user_missing)
    header = head["header"]
    find_columns(header, header if wanted is None else wanted, where)
    frame = pl.read_ipc(io.BytesIO(packed))
    user_missing = {name: _missing_codes(head, name, frame[name]) for name in frame.columns}
    gone = {} if keep_user_missing else user_missing
    labels = {name: _variable(head, name, gone.get(name, frozenset())) for name in head["labels"]}
    return Table(
        where=where,
        header=tuple(header),
        frame=frame,
        fingerprint=opened.fingerprint,
        titles=head["titles"],
        labels={name: variable for name, variable in labels.items() if variable.categories},
        user_missing=user_missing if keep_user_missing else {},
    )


def _ask(opened: OpenedFile, wanted: Sequence[str] | None, keep: bool) -> tuple[dict[str, Any], bytes]:
    """Have the child read the file; return what it says of the variables, and the packed columns."""
    size = opened.path.stat().st_size
    cpu_seconds = CPU_SECONDS + size // (MEGABYTES_PER_CPU_SECOND * 1_000_000)
    order = {
        "path": str(opened.path.absolute()),
        "ending": opened.kind,
        "wanted": None if wanted is None else list(wanted),
        "keep": keep,
        "bytes": size,
        "cpu_seconds": cpu_seconds,
    }
    damaged = InputError(
        f"{opened.path} is not a readable {PROGRAMS[opened.kind]} file: it may be cut off or damaged; "
        "save it again, or save the table as CSV."
    )
    try:
        done = subprocess.run(
            [sys.executable, "-P", str(Path(statistical_child.__file__))],
            input=json.dumps(order).encode() + b"\n",
            capture_output=True,
            timeout=WALL_PER_CPU * cpu_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise damaged from None
    if done.returncode == 1:
        raise InputError(
            f"{opened.path}: pyreadstat cannot be loaded, which reads {PROGRAMS[opened.kind]} files: "
            "install keyhole again."
        )
    if done.returncode != 0:
        raise damaged
    line, _, packed = done.stdout.partition(b"\n")
    return json.loads(line), packed


def _variable(head: dict[str, Any], name: str, gone: frozenset[str]) -> Variable:
    """Turn the value labels of a variable into a codebook, without codes that are blank now."""
    pairs = {_code(head, name, code): label for code, label in head["labels"][name]}
    kept = {code: label for code, label in pairs.items() if code not in gone and code}
    return Variable(name, tuple(kept), tuple(kept.values()))


def _missing_codes(head: dict[str, Any], name: str, column: pl.Series) -> frozenset[str]:
    """Codes that the file declares missing: letters, and what is labelled or observed in a declared range."""
    labelled = [code for code, _ in head["labels"].get(name, ())]
    found = {f".{letter}" for letter in head["letters"].get(name, ())}
    if name not in head["text"]:
        found |= {f".{code}" for code in labelled if isinstance(code, str)}
    spans = head["ranges"].get(name, ())
    if spans:
        for code in (*labelled, *column.drop_nulls().unique().to_list()):
            if any(type(code) is type(span["lo"]) and span["lo"] <= code <= span["hi"] for span in spans):
                found.add(_code(head, name, code))
    return frozenset(found)


def _code(head: dict[str, Any], name: str, code: Any) -> str:
    """Write a code as text; a letter that labels a missing number gets its point."""
    return f".{code}" if isinstance(code, str) and name not in head["text"] else code_text(code)
