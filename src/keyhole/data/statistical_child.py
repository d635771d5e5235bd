"""The child process that reads SPSS, Stata and SAS files, run as a script by `statistical.py`.

The underlying C library may crash or loop on a damaged file, which here ends a child rather than the user's session.
It imports nothing from keyhole. The request on standard input is JSON. The response on standard output is the wanted
columns of some rows as Arrow IPC, again and again, then JSON, each part after a line with its number of bytes. Exit
status 3: the file cannot be read; 4: there is not enough memory. Messages of the library, which may quote the file, are
not passed on.
"""

import contextlib
import io
import json
import sys
import warnings
from collections.abc import Iterator
from typing import Any

UNREADABLE, NO_MEMORY = 3, 4
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
            head: dict[str, Any] = {}
            for frame in _read(pyreadstat, request, head):
                packed = io.BytesIO()
                pl.DataFrame([_plain(pl, frame[name], name in head["text"]) for name in frame.columns]).write_ipc(
                    packed
                )
                _send(packed.getbuffer())
            _send(json.dumps(head).encode())
        except MemoryError:
            return NO_MEMORY
        except Exception:
            # Of any class: the library has its own, and a damaged file makes it fail in many ways.
            return UNREADABLE
        return 0
    return 1


def _send(part: bytes | memoryview) -> None:
    sys.stdout.buffer.write(b"%d\n" % len(part))
    sys.stdout.buffer.write(part)
    sys.stdout.buffer.flush()


def _read(pyreadstat: Any, request: dict[str, Any], head: dict[str, Any]) -> Iterator[Any]:
    """Yield the wanted columns, `rows_at_once` rows each time, and fill in the metadata."""
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
        head.update(_describe(about, []))
        yield empty.select([])
        return
    head.update(_describe(about, present))
    # A .por file does not say how many rows it has, and is read at once.
    at_once = request["rows_at_once"]
    for start in range(0, max(rows, 1), at_once):
        if rows > at_once:
            options |= {"row_offset": start, "row_limit": at_once}
        data, observed = reader(request["path"], usecols=present, **options)
        for name in present:
            found = head["letters"].setdefault(name, [])
            found += [letter for letter in observed.missing_user_values.get(name, ()) if letter not in found]
        yield data.select(present)


def _describe(about: Any, present: list[str]) -> dict[str, Any]:
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
        "letters": {},
        "ordinal": [name for name in present if (about.variable_measure or {}).get(name) == "ordinal"],
    }


def _plain(pl: Any, column: Any, is_text: bool) -> Any:
    """Convert a column of numbers and missing letters (Stata's .a to .z, SAS's .A to .Z) to text, and numbers to four
    bytes where none of them changes.
    """
    if column.dtype == pl.Float64:
        short = column.cast(pl.Float32)
        return short if short.cast(pl.Float64).equals(column) else column
    letters_alone = column.dtype == pl.String and not is_text and bool((column.str.len_chars() == 1).all())
    if column.dtype != pl.Object and not letters_alone:
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
