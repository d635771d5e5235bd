"""A file with the whole population: its categories, samples of its rows, and population counts of the samples' cells.

Only the key columns are read, in batches of rows, and only the cells of the samples are counted.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from keyhole.data import Variable, read_codebook, settle_missing
from keyhole.data.bands import read_bands
from keyhole.data.categories import encode_column, is_blank, read_counts
from keyhole.data.columns import SourceOptions, check_keys, find_columns
from keyhole.data.microdata import band_column
from keyhole.data.na import blank_keys, blank_na
from keyhole.data.opening import open_file
from keyhole.data.order import mark_order
from keyhole.data.source import read_table, scan_parquet
from keyhole.data.variables import BLANK, Table
from keyhole.errors import CodebookError, InputError
from keyhole.evaluation.allocation import Allocation

BATCH = 4_000_000
"""Rows read at once when samples are drawn."""

FIRST_ROWS = 100_000
"""Rows examined to detect an identifier."""


@dataclass(frozen=True)
class Population:
    """The keys of all people.

    frame: one column for each key and stratum, the index of the category; variables: the keys with their categories;
    na: which texts were taken as missing; strata: the columns of strata with their categories, keys among them.
    """

    where: str
    frame: pl.LazyFrame
    variables: tuple[Variable, ...]
    people: int
    fingerprint: str
    na: Mapping[str, Any]
    strata: tuple[Variable, ...] = ()

    @property
    def keys(self) -> list[str]:
        return [variable.name for variable in self.variables]

    @property
    def codebook(self) -> dict[str, Any]:
        """The categories as a codebook for samples, and whether they are ordered if that is known."""
        found: dict[str, Any] = {}
        for variable in self.variables:
            found[variable.name] = list(variable.categories)
            if variable.labels is not None:
                found[variable.name] = dict(zip(variable.categories, variable.labels, strict=True))
            if variable.marked is not None:
                found[variable.name] = {"categories": found[variable.name], "ordered": variable.marked}
        return found


def open_population(
    source: Path | str,
    keys: str | Sequence[str],
    codebook: str | Path | Mapping[str, Any] | None,
    reading: SourceOptions | None = None,
    drop: bool = False,
    strata: Sequence[str] = (),
) -> Population:
    """Scan the file for its size and categories; drop: drop people with a blank key; strata: columns of strata.

    A Parquet file is scanned lazily, unless its rows are changed by bands, counts or dropped blanks.
    """
    own = check_keys(keys)
    names = (*own, *(name for name in strata if name not in own))
    reading = reading or SourceOptions()
    book = settle_missing(read_codebook(codebook), reading.user_missing)
    reading.check(own)
    where = str(source) if reading.query is None else "the query"
    plain = not (reading.query or reading.bands or reading.count or drop)
    opened = open_file(Path(source)) if reading.query is None else None
    try:
        if opened is not None and opened.kind == "parquet" and plain:
            frame, header = scan_parquet(opened, names)
            find_columns(header, names, where)
            fingerprint = opened.fingerprint
            declared = {name: variable.categories for name, variable in book.items()}
            frame, na = blank_na(frame.select(names), reading.na, declared, book)
        else:
            table, book, na = _read_people(source, names, book, reading, drop)
            frame = table.frame.lazy()
            fingerprint = table.fingerprint or hashlib.sha256(table.frame.write_csv().encode()).hexdigest()
        people = int(frame.select(pl.len()).collect().item())
        if people < 2:
            raise InputError(f"{where} has fewer than two people: use the file of a population.")
        variables = {}
        for name in names:
            frame, variables[name] = _encode_column(frame, name, book.get(name), where)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        raise InputError(f"{where} is not a readable Parquet file: it may be cut off or damaged.") from None
    by_strata = tuple(variables[name] for name in strata)
    for variable in by_strata:
        if BLANK in variable.categories:
            raise InputError(f"{where}: column '{variable.name}' of `strata` is blank for some people: fill it in.")
    return Population(where, frame, tuple(variables[name] for name in own), people, fingerprint, na, by_strata)


def _read_people(
    source: Path | str, names: Sequence[str], book: Mapping[str, Variable], reading: SourceOptions, drop: bool
) -> tuple[Table, dict[str, Variable], dict[str, Any]]:
    """Read the keys, apply bands, and repeat rows by their counts so that each is one person."""
    table = read_table(source, names if reading.count_column is None else (*names, reading.count_column), reading)
    frame, na = blank_keys(table, names, book, reading.na)
    kept = np.ones(frame.height, np.bool_)
    for name in names if drop else ():
        kept &= ~is_blank(frame[name])
    rows = np.flatnonzero(kept)
    frame = frame[rows]
    books = {**table.labels, **book}
    banded = read_bands(reading.bands)
    for name, bands in banded.items():
        column, books[name] = band_column(frame[name], table, book.get(name), bands, rows)
        frame = frame.with_columns(column.alias(name))
    for name in set(names) & set(books):
        books[name] = replace(books[name], marked=mark_order(name, book, table, name in banded))
    if reading.count_column is not None:
        people = read_counts(table.frame[reading.count_column], table.where)[rows]
        frame = frame[np.repeat(np.arange(len(rows)), people)]
    return replace(table, frame=frame.select(names)), books, na


def draw_sample(
    population: Population, size: int, seed: np.random.SeedSequence, plan: Allocation | None = None
) -> NDArray[np.int64]:
    """Draw rows without replacement, ascending: a simple random sample, or one within strata."""
    if plan is not None:
        return plan.draw(np.random.default_rng(seed))
    rows = np.random.default_rng(seed).choice(population.people, size=size, replace=False, shuffle=False)
    return np.sort(rows).astype(np.int64)


def take_rows(population: Population, rows: NDArray[np.int64]) -> pl.DataFrame:
    """Return these rows, which are ascending and distinct."""
    found = []
    for start in range(0, population.people, BATCH):
        low, high = np.searchsorted(rows, [start, start + BATCH])
        if low < high:
            found.append(population.frame.slice(start, BATCH).collect()[rows[low:high] - start])
    return pl.concat(found)


def name_categories(population: Population, rows: pl.DataFrame) -> pl.DataFrame:
    variables = {*population.variables, *population.strata}
    names = {variable.name: pl.Series(variable.categories, dtype=pl.String) for variable in variables}
    return pl.DataFrame({name: names[name][rows[name]] for name in rows.columns})


def count_people(population: Population, frame: pl.DataFrame) -> NDArray[np.int64]:
    """Return the number of people in the cell of each row of the frame."""
    names = population.keys
    frame = frame.select(names)
    counted = (
        population.frame.join(frame.unique().lazy(), on=names, how="semi")
        .group_by(names)
        .agg(pl.len().alias("people of this cell"))
        .collect(engine="streaming")
    )
    joined = frame.join(counted, on=names, how="left", maintain_order="left")
    return joined["people of this cell"].to_numpy().astype(np.int64)


def _encode(column: pl.Series, book: Variable | None, where: str) -> tuple[Variable, NDArray[np.int32]]:
    strict, labels = (None, book) if book is not None and book.partial else (book, None)
    return encode_column(column, strict, labels, where, np.arange(len(column)), len(column), allow_identifier=True)


def _encode_column(frame: pl.LazyFrame, name: str, book: Variable | None, where: str) -> tuple[pl.LazyFrame, Variable]:
    """Find the categories of a key, and replace each value by the index of its category."""
    column = pl.col(name)
    if frame.collect_schema()[name].is_float():
        frame = frame.with_columns(column.fill_nan(None))
    first = frame.select(column).head(FIRST_ROWS).collect()[name]
    if not first.dtype.is_nested() and first.n_unique() > max(50, len(first) / 2):
        raise InputError(f"{where}: key '{name}' looks like an identifier: omit it or group it with `bands`.")
    values = frame.select(column).unique().collect(engine="streaming")[name].sort()
    try:
        variable, codes = _encode(values, book, where)
    except CodebookError:
        raise CodebookError(_unknown(frame, name, values, book, where)) from None
    return frame.with_columns(column.replace_strict(values, pl.Series(codes), return_dtype=pl.Int32)), variable


def _unknown(frame: pl.LazyFrame, name: str, values: pl.Series, book: Variable | None, where: str) -> str:
    """Return the message that locates the first value that is not in the codebook."""
    bad = []
    for index in range(len(values)):
        try:
            _encode(values.slice(index, 1), book, where)
        except CodebookError:
            bad.append(index)
    wrong = frame.select(pl.col(name).is_in(values.gather(bad).implode(), nulls_equal=True).alias("wrong"))
    row = wrong.with_row_index("row").filter(pl.col("wrong")).select("row").head(1).collect()["row"]
    place = f" row {int(row[0]) + 1}" if len(row) else ""
    return (
        f"{where}{place}, column '{name}': the value is not in the codebook ({len(bad)} such values); "
        "add its category to the codebook or correct the rows."
    )
