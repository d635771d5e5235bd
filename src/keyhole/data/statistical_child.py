"""The child process that reads SPSS, Stata and SAS files, run as a script by `statistical.py`.

The C library below crashes or runs on when a file is damaged; here that ends a child, not the user's session.
It imports nothing of keyhole. Order on standard input: JSON. Answer on standard output: a line of JSON, then the
wanted columns as Arrow IPC. Exit status 3: the file cannot be read; no message of the library is passed on.
"""

import contextlib
import io
import json
import sys
import warnings
from typing import Any

UNREADABLE = 3
VALUES_PER_BYTE = 200
READERS = {
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".por": "read_por",
    ".dta": "read_dta",
    ".xpt": "read_xport",
    ".sas7bdat": "read_sas7bdat",
}
# Only these let user-missing values through; the library always blanks those of the others.
KEEPS_USER_MISSING = {".sav", ".zsav", ".dta", ".sas7bdat"}
OLD_ENCODING = "WINDOWS-1252"


def main() -> int:
    """Answer one order."""
    order = json.loads(sys.stdin.readline())
    _limit(order["cpu_seconds"])
    with contextlib.suppress(ImportError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import polars as pl
        import pyreadstat

        try:
            head, frame = _read(pyreadstat, order)
        except Exception:
            # The library's own message may quote the file; only the fact is told.
            return UNREADABLE
        columns = [_plain(pl, frame[name]) for name in frame.columns]
        packed = io.BytesIO()
        pl.DataFrame(columns).write_ipc(packed)
        sys.stdout.buffer.write(json.dumps(head).encode() + b"\n")
        sys.stdout.buffer.write(packed.getbuffer())
        sys.stdout.buffer.flush()
        return 0
    return 1


def _read(pyreadstat: Any, order: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """Return what the file says of its variables, and the wanted columns if it has them all."""
    reader = getattr(pyreadstat, READERS[order["ending"]])
    options: dict[str, Any] = {"output_format": "polars"}
    keeps = order["ending"] in KEEPS_USER_MISSING
    if keeps:
        options["user_missing"] = True
    try:
        empty, about = reader(order["path"], metadataonly=True, **options)
    except Exception:
        if order["ending"] == ".por":
            raise
        # The encoding that the file declares is not the one it uses.
        options["encoding"] = OLD_ENCODING
        empty, about = reader(order["path"], metadataonly=True, **options)
    rows = about.number_rows or 0
    if rows * max(about.number_columns, 1) > VALUES_PER_BYTE * order["bytes"]:
        raise ValueError("claims more values than its size can hold")
    wanted = about.column_names if order["wanted"] is None else order["wanted"]
    if keeps:
        options["user_missing"] = order["keep"]
    present = [name for name in wanted if name in about.column_names]
    if not present or len(present) < len(wanted) or len(set(about.column_names)) < len(about.column_names):
        return _describe(about, about, []), empty.select([])
    data, told = reader(order["path"], usecols=present, **options)
    return _describe(about, told, present), data.select(present)


def _describe(about: Any, told: Any, present: list[str]) -> dict[str, Any]:
    """Value labels and user-missing values as lists of pairs, since JSON has no numbers for names."""
    return {
        "header": list(about.column_names),
        "titles": {name: title for name, title in about.column_names_to_labels.items() if title},
        "text": [name for name in present if about.readstat_variable_types.get(name) == "string"],
        "labels": {
            name: [[code, str(label)] for code, label in about.variable_value_labels[name].items()]
            for name in present
            if about.variable_value_labels.get(name)
        },
        "ranges": {name: about.missing_ranges[name] for name in present if name in about.missing_ranges},
        "letters": {name: list(told.missing_user_values.get(name, ())) for name in present},
    }


def _plain(pl: Any, column: Any) -> Any:
    """Write a column of numbers and missing letters (Stata's .a to .z, SAS's .A to .Z) as text."""
    if column.dtype != pl.Object:
        return column
    return pl.Series(column.name, [_text(value) for value in column.to_list()], dtype=pl.String)


def _text(value: Any) -> str | None:
    if value is None or value != value:
        return None
    if isinstance(value, str):
        return f".{value}"
    return str(int(value)) if float(value).is_integer() else str(value)


def _limit(cpu_seconds: int) -> None:
    """Bound the time of a file that sends the library in circles, and leave no core file."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))


if __name__ == "__main__":
    sys.exit(main())
