"""The child process that reads SPSS, Stata and SAS files, run as a script by `statistical.py`.

The underlying C library may crash or loop on a damaged file, which here ends a child rather than the user's session.
It imports nothing from keyhole. The request on standard input is JSON; the response on standard output is a line of
JSON, then the wanted columns as Arrow IPC. Exit status 3: the file cannot be read; messages of the library, which may
quote the file, are not passed on.
"""

import contextlib
import io
import json
import sys
import warnings
from typing import Any

UNREADABLE = 3
VALUES_PER_BYTE = 200
READERS = {".sav": "sav", ".zsav": "sav", ".por": "por", ".dta": "dta", ".xpt": "xport", ".sas7bdat": "sas7bdat"}
# Formats for which the library can return user-missing values; it always blanks those of the others.
KEEPS_USER_MISSING = {".sav", ".zsav", ".dta", ".sas7bdat"}
OLD_ENCODING = "WINDOWS-1252"


def main() -> int:
    request = json.loads(sys.stdin.readline())
    _limit(request["cpu_seconds"])
    with contextlib.suppress(ImportError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import polars as pl
        import pyreadstat

        try:
            head, frame = _read(pyreadstat, request)
        except Exception:
            return UNREADABLE
        columns = [_plain(pl, frame[name]) for name in frame.columns]
        packed = io.BytesIO()
        pl.DataFrame(columns).write_ipc(packed)
        sys.stdout.buffer.write(json.dumps(head).encode() + b"\n")
        sys.stdout.buffer.write(packed.getbuffer())
        sys.stdout.buffer.flush()
        return 0
    return 1


def _read(pyreadstat: Any, request: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    reader = getattr(pyreadstat, f"read_{READERS[request['ending']]}")
    options: dict[str, Any] = {"output_format": "polars"}
    keeps = request["ending"] in KEEPS_USER_MISSING
    if keeps:
        options["user_missing"] = True
    try:
        empty, about = reader(request["path"], metadataonly=True, **options)
    except Exception:
        if request["ending"] == ".por":
            raise
        # The declared encoding may be wrong.
        options["encoding"] = OLD_ENCODING
        empty, about = reader(request["path"], metadataonly=True, **options)
    rows = about.number_rows or 0
    if rows * max(about.number_columns, 1) > VALUES_PER_BYTE * request["bytes"]:
        raise ValueError("declares more values than a file of this size can hold")
    wanted = about.column_names if request["wanted"] is None else request["wanted"]
    if keeps:
        options["user_missing"] = request["keep"]
    present = [name for name in wanted if name in about.column_names]
    if not present or len(present) < len(wanted) or len(set(about.column_names)) < len(about.column_names):
        return _describe(about, about, []), empty.select([])
    data, observed = reader(request["path"], usecols=present, **options)
    return _describe(about, observed, present), data.select(present)


def _describe(about: Any, observed: Any, present: list[str]) -> dict[str, Any]:
    """Return the metadata for JSON; value labels are lists of pairs, since names in JSON cannot be numbers."""
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
        "letters": {name: list(observed.missing_user_values.get(name, ())) for name in present},
    }


def _plain(pl: Any, column: Any) -> Any:
    """Convert a column of numbers and missing letters (Stata's .a to .z, SAS's .A to .Z) to text."""
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
    """Limit the CPU time, in case the library loops on a damaged file, and prevent core files."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))


if __name__ == "__main__":
    sys.exit(main())
