"""Read the wanted columns of a source of any kind, with the labels it has for them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from keyhole.data.columns import SourceOptions, find_columns
from keyhole.data.database import is_url, read_database
from keyhole.data.delimited import read_delimited
from keyhole.data.opening import OpenedFile, open_file
from keyhole.data.statistical import read_statistical
from keyhole.data.variables import Table
from keyhole.errors import InputError, SettingsError


def read_table(source: Any, wanted: Sequence[str] | None, options: SourceOptions, without_names: bool = False) -> Table:
    """Return the wanted columns, or all of them for None.

    without_names: name columns V1, V2, ... if the first line of a text file looks like a record, rather than refuse it.
    """
    if is_url(source) or options.query is not None:
        if not is_url(source) or options.query is None:
            raise SettingsError("a database needs both its address (`url` sqlite:///survey.db) and a `query`")
        return read_database(source, options.query, wanted)
    if not isinstance(source, str | Path):
        return _read_dataframe(source, wanted)
    opened = open_file(Path(source))
    if opened.kind == "text":
        return read_delimited(opened, wanted, without_names)
    if opened.kind == "parquet":
        return _read_parquet(opened, wanted)
    return read_statistical(opened, wanted, options.user_missing == "keep")


def _read_parquet(opened: OpenedFile, wanted: Sequence[str] | None) -> Table:
    try:
        lazy = pl.scan_parquet(opened.path, glob=False)
        header = lazy.collect_schema().names()
        names = header if wanted is None else list(wanted)
        find_columns(header, names, str(opened.path))
        frame = lazy.select(names).collect(engine="streaming")
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        raise InputError(f"{opened.path} is not a readable Parquet file: it may be cut off or damaged.") from None
    return Table(str(opened.path), tuple(header), frame, opened.fingerprint)


def _read_dataframe(source: Any, wanted: Sequence[str] | None) -> Table:
    """Select the columns of a dataframe of pandas, polars, pyarrow or another library that narwhals supports."""
    import narwhals.stable.v2 as nw

    where = "the dataframe"
    try:
        data = nw.from_native(source)
    except TypeError:
        raise InputError(
            f"data of type {type(source).__name__} cannot be read: give the path of a file or a dataframe."
        ) from None
    except MemoryError:
        raise
    except Exception:
        # For instance duplicate column names in pandas; the library's own message may quote values.
        raise InputError("the dataframe cannot be read: check that its column names are unique.") from None
    header = data.collect_schema().names()
    names = header if wanted is None else list(wanted)
    find_columns(header, names, where)
    try:
        chosen = data.select(*names)
        eager = chosen.collect(backend="polars") if isinstance(chosen, nw.LazyFrame) else chosen
        return Table(where, tuple(header), eager.to_polars())
    except MemoryError:
        raise
    except Exception:
        # For instance columns of mixed Python objects; the library's own message may quote values.
        raise InputError("the dataframe cannot be read: convert its key columns to text or numbers.") from None
