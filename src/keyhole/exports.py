"""Text for a spreadsheet: a cell that a spreadsheet would take for a formula gets a ' before it (OWASP ASVS 1.2.10).

The prefix is reversible: a cell that starts with one or more ' and then a trigger had one ' added. Numbers are left
alone. `raw` writes the text as it is, for programs.
"""

import io
import re

import polars as pl

TRIGGERS = "=+-@\t\r\0"
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_IN_DANGER = re.compile(rf"'*[{re.escape(TRIGGERS)}]")


def disarm(text: str) -> str:
    """Put a ' before text that starts with a trigger, and before what could be mistaken for text treated so."""
    return f"'{text}" if _IN_DANGER.match(text) and not NUMBER.fullmatch(text) else text


def rearm(text: str) -> str:
    """Return what `disarm` was given."""
    return text[1:] if text.startswith("'") and _IN_DANGER.match(text) else text


def csv_text(frame: pl.DataFrame, raw: bool = False) -> str:
    """Write a table as CSV, names of columns and text cells disarmed unless `raw`."""
    if not raw:
        text = [name for name, dtype in frame.schema.items() if dtype == pl.String]
        frame = frame.with_columns(pl.col(text).map_elements(disarm, return_dtype=pl.String)) if text else frame
        frame = frame.rename({name: disarm(name) for name in frame.columns})
    written = io.StringIO()
    frame.write_csv(written)
    return written.getvalue()
