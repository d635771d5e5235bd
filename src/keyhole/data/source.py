"""Read the wanted columns of a source of any kind, with the labels it has for them."""

import importlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from keyhole.data.categories import compact
from keyhole.data.columns import SourceOptions, find_columns
from keyhole.data.database import is_url, read_database
from keyhole.data.delimited import read_delimited
from keyhole.data.opening import OpenedFile, open_file
from keyhole.data.statistical import read_statistical
from keyhole.data.variables import Table
from keyhole.errors import InputError, SettingsError


def read_table(
    source: Any,
    wanted: Sequence[str] | None,
    options: SourceOptions,
    without_names: bool = False,
    keys: Collection[str] = (),
) -> Table:
    """Return the wanted columns, or all of them for None.

    keys: columns with few distinct values; their texts become categories while a file or a query is read.
    without_names: name columns V1, V2, ... if the first line of a text file looks like a record, rather than refuse it.
    """
    if is_url(source) or options.query is not None:
        if not is_url(source) or options.query is None:
            raise SettingsError("a database needs both its address (`url` sqlite:///survey.db) and a `query`")
        return read_database(source, options.query, wanted, keys, options.count_cells)
    if not isinstance(source, str | Path):
        return _read_dataframe(source, wanted)
    opened = open_file(Path(source))
    if opened.kind == "text":
        return read_delimited(opened, wanted, without_names, keys, options.na)
    if opened.kind == "parquet":
        return _read_parquet(opened, wanted, keys)
    return read_statistical(opened, wanted, options.user_missing == "keep", keys)


def holds_text(source: Any) -> bool:
    """Whether this is a text file, of which all columns are read as text."""
    if is_url(source) or not isinstance(source, str | Path):
        return False
    return open_file(Path(source)).kind == "text"


def _read_parquet(opened: OpenedFile, wanted: Sequence[str] | None, keys: Collection[str]) -> Table:
    with refuse_damaged_parquet(opened.path):
        lazy, header = scan_parquet(opened, wanted)
        names = header if wanted is None else list(wanted)
        find_columns(header, names, str(opened.path))
        frame = compact(lazy.select(names), keys).collect(engine="streaming")
    return Table(str(opened.path), tuple(header), frame, opened.fingerprint)


@contextmanager
def refuse_damaged_parquet(path: Path) -> Iterator[None]:
    """Turn what polars says of a damaged file, which may quote values, into an InputError."""
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        raise InputError(f"{path} is not a readable Parquet file: it may be cut off or damaged.") from None


def scan_parquet(opened: OpenedFile, wanted: Sequence[str] | None) -> tuple[pl.LazyFrame, list[str]]:
    """Scan a Parquet file, or the files of a folder in the order of their names; return the header too.

    The files of a folder must agree in the wanted columns; only these are scanned, since others may differ.
    """
    if not opened.parts:
        lazy = pl.scan_parquet(opened.path, glob=False)
        return lazy, lazy.collect_schema().names()
    schemas = []
    for part in opened.parts:
        with refuse_damaged_parquet(part):
            schemas.append(pl.scan_parquet(part, glob=False).collect_schema())
    header = schemas[0].names()
    for part, schema in zip(opened.parts, schemas, strict=True):
        for name in dict.fromkeys([*header, *schema]) if wanted is None else wanted:
            here, first = schema.get(name), schemas[0].get(name)
            if here != first:
                problem = "is in only one of them" if here is None or first is None else "has different types"
                raise InputError(
                    f"{part} and {opened.parts[0].name} differ: column '{name}' {problem}; "
                    "all files of a folder must be parts of one table."
                )
    names = [name for name in header if wanted is None or name in wanted]
    return pl.concat([pl.scan_parquet(part, glob=False).select(names) for part in opened.parts]), header


def _read_dataframe(source: Any, wanted: Sequence[str] | None) -> Table:
    """Select the columns of a dataframe of pandas, polars, pyarrow or another library that narwhals supports."""
    import narwhals.stable.v2 as nw

    where = "the dataframe"
    with refuse_unreadable("check that its column names are unique"):
        try:
            data = nw.from_native(source)
        except TypeError:
            raise InputError(
                f"data of type {type(source).__name__} cannot be read: give the path of a file or a dataframe."
            ) from None
        header = data.collect_schema().names()
    names = header if wanted is None else list(wanted)
    find_columns(header, names, where)
    with refuse_unreadable("convert its key columns to text or numbers"):
        chosen = data.select(*names)
        eager = chosen.collect(backend="polars") if isinstance(chosen, nw.LazyFrame) else chosen
        return Table(where, tuple(header), _to_polars(eager))


@contextmanager
def refuse_unreadable(remedy: str) -> Iterator[None]:
    """Turn whatever another library raises into one line; its message may quote values.

    For instance duplicate names in pandas, columns of mixed objects, or the functions of a user within a lazy frame,
    so that errors of any class may come.
    """
    try:
        yield
    except (InputError, MemoryError):
        raise
    except (Exception, pl.exceptions.PanicException):
        raise InputError(f"the dataframe cannot be read: {remedy}.") from None


def _to_polars(data: Any) -> pl.DataFrame:
    """Convert an eager dataframe of narwhals.

    polars needs pyarrow for the texts, categories and nullable numbers of pandas, although pandas itself does without;
    such columns then pass through Python objects.
    """
    if data.implementation.is_pandas():
        try:
            importlib.import_module("pyarrow")
        except ImportError:
            return pl.DataFrame([_series_to_polars(data[name]) for name in data.columns])
    frame: pl.DataFrame = data.to_polars()
    return frame


def _series_to_polars(column: Any) -> pl.Series:
    """Convert a series of pandas without pyarrow."""
    dtype = column.to_native().dtype
    if isinstance(dtype, np.dtype) and dtype.kind != "O":
        series: pl.Series = column.to_polars()
        return series
    blank = column.is_null().to_list()
    values = [None if is_blank else value for value, is_blank in zip(column.to_list(), blank, strict=True)]
    return pl.Series(column.name, values, strict=True)
