"""Dataframes of the caller's library: which one it is, and tables converted to it."""

from pathlib import Path
from typing import Any

import polars as pl

from keyhole.errors import KeyholeError, SettingsError

LIBRARIES = ("pandas", "polars", "pyarrow")
"""Dataframe libraries in which records are returned."""


def name_library(source: Any) -> str:
    """Return the name of the library of a dataframe; polars for anything that is none or that is read lazily."""
    if isinstance(source, str | Path):
        return "polars"
    import narwhals.stable.v2 as nw

    frame = nw.from_native(source, eager_only=True, pass_through=True)
    name = frame.implementation.value if isinstance(frame, nw.DataFrame) else "polars"
    return name if name in LIBRARIES else "polars"


def convert_frame(frame: pl.DataFrame, library: str) -> Any:
    """Return a table as a dataframe of the library."""
    if library not in LIBRARIES:
        raise SettingsError(f"`library` must be one of {', '.join(LIBRARIES)}")
    if library == "polars":
        return frame.clone()
    import narwhals.stable.v2 as nw

    try:
        if library == "pyarrow":
            return nw.from_native(frame).to_arrow()
        columns = {name: frame[name].to_numpy() for name in frame.columns}
        return nw.from_dict(columns, backend=nw.Implementation.PANDAS).to_native()
    except ImportError:
        raise KeyholeError(f"{library} is not installed: install it, or use another `library`.") from None
