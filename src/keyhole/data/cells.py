"""Group records by cell, encode them for the sampler, and count them, also where answers are missing (-1).

From here on the file is its distinct cells, how many records each holds, and the cell of each record: what depends on a
record's answers only is computed once for each distinct cell.

Two records agree if they have equal values on every key that both answered. A record is a sample unique if no other
record agrees with it: then no other record can be in its cell, whatever the missing answers are, and the cells of two
sample uniques are disjoint. A record is *undecided* if others agree with it, but each of them lacks an answer that it
has. Records without any answer would agree with all others; they are excluded from every comparison.

Distinct cells are grouped by the set of keys they answered. A group that answered A is compared in one step with all
groups whose answers have the same intersection with A.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from keyhole.data.variables import Microdata
from keyhole.kernels.state import Records

WIDEST_KEY = 2**62

Codes = NDArray[np.int32]
Columns = Sequence[NDArray[Any]] | NDArray[Any]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class CellCounts:
    """How many records share each record's cell.

    size: int64 (cells,), the records of each distinct cell; with missing answers, those that agree with one in it.
    cell: int32 (n,), the distinct cell of each record.
    unique_record: int64 (u,), the sample uniques, ascending.
    undecided: records that are not unique only because of records that lack an answer.
    blank: records without any answer, which are not compared.
    """

    size: Counts
    cell: NDArray[np.int32]
    unique_record: Counts
    undecided: int = 0
    blank: int = 0

    @property
    def cell_count(self) -> Counts:
        """f of the cell of each record, itself included: int64 (n,)."""
        return self.size[self.cell]

    @property
    def distinct(self) -> int:
        """Number of occupied cells; with missing answers, of distinct rows."""
        return len(self.size)


def encode(microdata: Microdata) -> Records:
    """Index the categories of all variables in one list of levels; -1 stays -1."""
    codes = microdata.cells
    level_start = np.concatenate(([0], np.cumsum(microdata.levels, dtype=np.int64))).astype(np.int64)
    level = np.where(codes >= 0, codes + level_start[:-1].astype(np.int32), np.int32(-1)).astype(np.int32)
    answer_total = (codes >= 0).sum(axis=1, dtype=np.int64)
    ranges = [variable.orderable if variable.ordered else (0, 0) for variable in microdata.variables]
    ordered = np.array(ranges, np.int64).reshape(-1, 2) + level_start[:-1, None]
    return Records(level[microdata.cell], answer_total[microdata.cell], level_start, ordered)


def find_cells(columns: Columns, records: int) -> tuple[Codes, NDArray[np.int32]]:
    """Return the distinct cells, int32 (cells, J) in lexicographic order, and the cell of each record, int32 (n,).

    columns: the categories of all records on each variable, integers (n,) of any type.
    """
    cell = _rank(number_cells(columns, records))
    one_of = np.zeros(int(cell.max(initial=-1)) + 1, np.int64)
    one_of[cell] = np.arange(records)
    cells = np.empty((len(one_of), len(columns)), np.int32)
    for j, column in enumerate(columns):
        cells[:, j] = column[one_of]
    return cells, cell


def count_cells(codes: Codes) -> CellCounts:
    """Count the records of each cell; without variables all records share one cell."""
    return count_records(*find_cells(list(codes.T), len(codes)))


def count_records(cells: Codes, cell: NDArray[np.int32]) -> CellCounts:
    """Count the records of each of these distinct cells; cell: int32 (n,), the cell of each record."""
    size = np.bincount(cell, minlength=len(cells))
    if not cells.size or cells.min() >= 0:
        return CellCounts(size, cell, np.flatnonzero((size == 1)[cell]))
    agree, certain, blank = count_agreements(cells, size)
    alone = (agree == 1) & ~blank
    undecided = int(size[(certain == 1) & (agree > 1) & ~blank].sum())
    return CellCounts(agree, cell, np.flatnonzero(alone[cell]), undecided, int(size[blank].sum()))


def number_cells(columns: Columns, records: int) -> Counts:
    """Return one integer for each record, equal for equal cells and in their lexicographic order."""
    cell = np.zeros(records, dtype=np.int64)
    span = 1
    for column in columns:
        width = int(column.max(initial=-1)) + 2
        if span * width > WIDEST_KEY:
            # Replace the numbers by their ranks, so that the next factor fits.
            cell = _rank(cell).astype(np.int64)
            span = int(cell.max()) + 1
        cell *= width
        cell += column
        cell += 1
        span *= width
    return cell


def _rank(cell: Counts) -> NDArray[np.int32]:
    """Return the rank of each number among the distinct ones, from 0."""
    return pl.Series(cell).rank("dense").to_numpy().astype(np.int32) - np.int32(1)


def count_agreements(cells: Codes, size: Counts) -> tuple[Counts, Counts, NDArray[np.bool_]]:
    """Return for each distinct cell how many records agree with one of its own (itself included), how many of those
    have all its answers, and whether it has no answer at all; size: the records of each cell.
    """
    patterns, pattern = np.unique(cells >= 0, axis=0, return_inverse=True)
    pattern = pattern.reshape(-1)
    of_pattern = [np.flatnonzero(pattern == x) for x in range(len(patterns))]
    blank = np.asarray(~patterns.any(axis=1))
    agree, certain = np.zeros(len(cells), np.int64), np.zeros(len(cells), np.int64)
    for x, has in enumerate(patterns):
        own = of_pattern[x]
        if blank[x]:
            agree[own] = certain[own] = size.sum()
            continue
        common, place = np.unique(patterns & has, axis=0, return_inverse=True)
        for y, shared in enumerate(common):
            others = [of_pattern[z] for z in np.flatnonzero((place.reshape(-1) == y) & ~blank)]
            if not others:
                continue
            other = np.concatenate(others)
            found = count_equal(cells[own][:, shared], cells[other][:, shared], size[other])
            agree[own] += found
            if shared.sum() == has.sum():
                certain[own] += found
    return agree, certain, blank[pattern]


def count_equal(own: Codes, others: Codes, size: Counts) -> Counts:
    """Count for each row of `own` the records of the rows of `others` that equal it; size: those of each row."""
    key = np.concatenate([own, others])
    row = _rank(number_cells(list(key.T), len(key)))
    count = np.zeros(int(row.max(initial=-1)) + 1, np.int64)
    np.add.at(count, row[len(own) :], size)
    return count[row[: len(own)]]
