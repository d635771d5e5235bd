"""The results of reading: columns of a source, key variables with their categories, and encoded records."""

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from keyhole.data.design import ExtraColumns
from keyhole.files import NUMBER
from keyhole.words import enumerate_words

BLANK = ""  # the code of a blank answer, which no category can have


def fold(text: str) -> str:
    """Return what is left of a category without capitals, spaces and the leading zeros of a number."""
    folded = "".join(text.split()).casefold()
    return folded.lstrip("0") or "0" if folded.isdecimal() else folded


@dataclass(frozen=True)
class Variable:
    """A key variable.

    categories: codes as text, in order; labels: their labels in the codebook, in the same order.
    declared: whether the categories come from a codebook rather than from the records.
    missing: texts that the codebook declares to mean missing.
    marked: whether the codebook or the file says that the categories are ordered; None if it says nothing.
    partial: whether codes may occur that the codebook does not list, as with labels of a file; user_missing: categories
    that it declares missing, such as "not stated".
    orderable: the first of the categories that have an order and the one after the last; (0, 0) if they have none.
    ordered: whether it is taken as ordered.
    """

    name: str
    categories: tuple[str, ...]
    labels: tuple[str, ...] | None = None
    declared: bool = field(default=False, compare=False)
    missing: tuple[str, ...] = field(default=(), compare=False)
    marked: bool | None = field(default=None, compare=False)
    partial: bool = field(default=False, compare=False)
    user_missing: tuple[str, ...] = field(default=(), compare=False)
    orderable: tuple[int, int] = field(default=(0, 0), compare=False)
    ordered: bool = field(default=False, compare=False)

    def hint(self, text: str) -> str:
        """Name the categories nearest to a text that is none, to be put behind a message; empty if none is near.

        Categories found in the records are values of the data: one is named only if the text is the same but for
        capitals, spaces or leading zeros.
        """
        words = list(dict.fromkeys((*self.categories, *(self.labels or ()))))
        same = [word for word in words if word and fold(word) == fold(text)]
        near = same or (difflib.get_close_matches(text, words, n=3) if self.declared else [])
        numbers = [word for word in self.categories if NUMBER.fullmatch(word)]
        if not near and self.declared and NUMBER.fullmatch(text):
            near = sorted(numbers, key=lambda word: abs(float(word) - float(text)))[:2]
        return f" (nearest: {enumerate_words([repr(word) for word in near])})" if near else ""


@dataclass(frozen=True)
class Microdata:
    """The records on the key variables, in the order of the keys.

    cells: int32 (cells, J), the distinct cells of the records in lexicographic order: the index of each category, -1
    for an answer left to the model; cell: int32 (n,), the cell of each record.
    rows: number of input rows; row_used: bool (rows,), which of them are records.
    ignored: keys with one category, which cannot distinguish records; ignored_variables: the same as variables.
    fingerprint: SHA-256 of the input's bytes, or of names, categories and codes for a dataframe or a query.
    row_records: int64 (rows,), the number of records of each row of a table of cells; None: one each.
    reading: how the source was read (bands, count, user_missing, dropped), for summary and manifest.
    extra: weights and households of all input rows.
    strata_columns: columns of strata that are no keys, by name: their categories, and the one of each input row.
    strata_keys: of columns of strata that are keys, the category of each input row, used or not; -1 if it has none.
    """

    variables: tuple[Variable, ...]
    cells: NDArray[np.int32]
    cell: NDArray[np.int32]
    rows: int
    row_used: NDArray[np.bool_]
    ignored: tuple[str, ...]
    fingerprint: str
    ignored_variables: tuple[Variable, ...] = ()
    row_records: NDArray[np.int64] | None = None
    reading: Mapping[str, Any] = field(default_factory=dict)
    extra: ExtraColumns = field(default_factory=ExtraColumns)
    strata_columns: Mapping[str, tuple[Variable, NDArray[np.int32]]] = field(default_factory=dict)
    strata_keys: Mapping[str, NDArray[np.int32]] = field(default_factory=dict)

    @property
    def levels(self) -> tuple[int, ...]:
        return tuple(len(variable.categories) for variable in self.variables)

    @property
    def table_cells(self) -> int:
        """Number of cells of the full table, observed or not."""
        return math.prod(self.levels)

    @property
    def records(self) -> int:
        return len(self.cell)

    @property
    def records_of_rows(self) -> NDArray[np.int64]:
        """Number of records of each input row, used or not: int64 (rows,)."""
        return np.ones(self.rows, np.int64) if self.row_records is None else self.row_records

    @property
    def file_records(self) -> int:
        """Number of records of the file, also of those that are not used."""
        return self.rows if self.row_records is None else int(self.row_records.sum())

    @cached_property
    def cell_size(self) -> NDArray[np.int64]:
        """Number of records of each distinct cell: int64 (cells,)."""
        return np.bincount(self.cell, minlength=len(self.cells))

    @property
    def codes(self) -> NDArray[np.int32]:
        """The categories of each record: int32 (n, J), made anew at each call."""
        return self.cells[self.cell]

    @property
    def record_row(self) -> NDArray[np.int64]:
        """The input row of each record, from 0: int64 (n,)."""
        used = np.flatnonzero(self.row_used)
        return used if self.row_records is None else np.repeat(used, self.row_records[used])

    def keep(self, kept: NDArray[np.bool_]) -> Self:
        """Return the records marked in `kept`, bool (n,), which is equal for all records of a row."""
        row_used = self.row_used.copy()
        row_used[self.record_row[~kept]] = False
        occupied, cell = np.unique(self.cell[kept], return_inverse=True)
        return replace(self, cells=self.cells[occupied], cell=cell.astype(np.int32), row_used=row_used)


@dataclass(frozen=True)
class Table:
    """Columns of a source before they are encoded.

    where: the name of the source in messages; header: all its columns; frame: the wanted ones.
    fingerprint: SHA-256 of the bytes, None for a dataframe or a query.
    titles: variable labels; labels: value labels, as a codebook.
    user_missing: codes that the file declares missing, such as "refused" or "not stated".
    ordinal: columns whose measure the file calls ordinal.
    named: false if the first line looks like a record; the columns are then called V1, V2, ...
    decimal_comma: columns of numbers that have a decimal comma in the file, and a point here.
    """

    where: str
    header: tuple[str, ...]
    frame: pl.DataFrame
    fingerprint: str | None = None
    titles: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, Variable] = field(default_factory=dict)
    user_missing: Mapping[str, frozenset[str]] = field(default_factory=dict)
    ordinal: frozenset[str] = frozenset()
    named: bool = True
    decimal_comma: tuple[str, ...] = ()
