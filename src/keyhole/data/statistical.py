"""Read SPSS, Stata and SAS files through pyreadstat, in a child process that a damaged file can crash safely.

Value labels become a codebook. Codes are formatted as 1 rather than 1.0, the missing-value letters of Stata and SAS
as .a and .A.
"""

import contextlib
import io
import json
import subprocess
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from keyhole.data import statistical_child
from keyhole.data.categories import compact, is_text
from keyhole.data.codebook import code_text
from keyhole.data.columns import find_columns
from keyhole.data.opening import PROGRAMS, OpenedFile
from keyhole.data.variables import Table, Variable
from keyhole.errors import InputError

# Limit of CPU time: a constant for the start of the child, and one second for each megabyte.
CPU_SECONDS = 5
BYTES_PER_CPU_SECOND = 1_000_000
ROWS_AT_ONCE = 1_000_000  # the library takes some 50 bytes for each value that it reads
WALL_PER_CPU = 20  # generous, since the machine may be busy


def read_statistical(
    opened: OpenedFile, wanted: Sequence[str] | None, keep_user_missing: bool, keys: Collection[str] = ()
) -> Table:
    """Return the wanted columns (None: all of them) with their labels; keys: columns with few distinct values."""
    where = str(opened.path)
    head, parts = _run_child(opened, wanted, keep_user_missing, keys)
    header = head["header"]
    find_columns(header, header if wanted is None else wanted, where)
    frame = _join(parts)
    user_missing = {name: _missing_codes(head, name, frame[name]) for name in frame.columns}
    blanked = {} if keep_user_missing else user_missing
    labels = {name: _variable(head, name, blanked.get(name, frozenset())) for name in head["labels"]}
    return Table(
        where=where,
        header=tuple(header),
        frame=frame,
        fingerprint=opened.fingerprint,
        titles=head["titles"],
        labels={name: variable for name, variable in labels.items() if variable.categories},
        user_missing=user_missing if keep_user_missing else {},
        ordinal=frozenset(head["ordinal"]),
    )


def _join(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Join the rows of all parts; numbers become text where another part has letters among them."""
    texts = {name: dtype for part in parts for name, dtype in part.schema.items() if is_text(dtype)}
    written = [part.with_columns(_write(part[name], dtype) for name, dtype in texts.items()) for part in parts]
    return pl.concat(written, how="vertical_relaxed")


def _write(column: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Write numbers as the child does beside letters."""
    if not column.dtype.is_float():
        return column
    values = column.fill_nan(None).drop_nulls().unique()
    texts = [code_text(value) for value in values.to_list()]
    return column.replace_strict(values, texts, default=None, return_dtype=pl.String).cast(dtype)


def _run_child(
    opened: OpenedFile, wanted: Sequence[str] | None, keep: bool, keys: Collection[str]
) -> tuple[dict[str, Any], list[pl.DataFrame]]:
    size = opened.path.stat().st_size
    cpu_seconds = CPU_SECONDS + size // BYTES_PER_CPU_SECOND
    request = {
        "path": str(opened.path.absolute()),
        "ending": opened.kind,
        "wanted": None if wanted is None else list(wanted),
        "keep": keep,
        "bytes": size,
        "cpu_seconds": cpu_seconds,
        "rows_at_once": ROWS_AT_ONCE,
    }
    with subprocess.Popen(
        [sys.executable, "-P", str(Path(statistical_child.__file__))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as child:
        limit = threading.Timer(WALL_PER_CPU * cpu_seconds, child.kill)
        limit.start()
        try:
            head, parts = _receive(child, request, keys)
        finally:
            limit.cancel()
            child.kill()
    if child.returncode == 1:
        raise InputError(
            f"{opened.path}: {PROGRAMS[opened.kind]} files need pyreadstat, which cannot be imported: "
            "install keyhole again."
        )
    if child.returncode == statistical_child.NO_MEMORY:
        raise MemoryError
    if head is None or child.returncode != 0:
        raise InputError(
            f"{opened.path} is not a readable {PROGRAMS[opened.kind]} file: it may be cut off or damaged; "
            "save it again, or save the table as CSV."
        )
    return head, parts


def _receive(
    child: subprocess.Popen[bytes], request: Mapping[str, Any], keys: Collection[str]
) -> tuple[dict[str, Any] | None, list[pl.DataFrame]]:
    """Send the request and receive all parts; None if the child ended before the last one."""
    assert child.stdin is not None
    assert child.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        child.stdin.write(json.dumps(request).encode() + b"\n")
        child.stdin.close()
    parts: list[pl.DataFrame] = []
    categories = pl.Categories.random()
    while (size := child.stdout.readline().strip()).isdigit():
        content = child.stdout.read(int(size))
        if len(content) < int(size):
            break
        if content.startswith(b"{"):
            child.wait()
            return json.loads(content), parts
        parts.append(compact(pl.read_ipc(io.BytesIO(content)).lazy(), keys, categories).collect())
    child.wait()
    return None, parts


def _variable(head: dict[str, Any], name: str, blanked: frozenset[str]) -> Variable:
    """Turn the value labels of a variable into a codebook, without the codes that are read as blank."""
    pairs = {_code(head, name, code): label for code, label in head["labels"][name]}
    kept = {code: label for code, label in pairs.items() if code not in blanked and code}
    return Variable(name, tuple(kept), tuple(kept.values()))


def _missing_codes(head: dict[str, Any], name: str, column: pl.Series) -> frozenset[str]:
    """Return the codes declared missing: letters, and codes labelled or observed in a declared range."""
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
    """Format a code as text; the letter of a missing number gets its leading point."""
    return f".{code}" if isinstance(code, str) and name not in head["text"] else code_text(code)
