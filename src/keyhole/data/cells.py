"""Encode Microdata for the sampler, and count the records of each cell, also where answers are missing (-1).

Two records agree if they have equal values on every key that both answered. A record is a sample unique if no other
record agrees with it: then no other record can be in its cell, whatever the missing answers are, and the cells of two
sample uniques are disjoint. A record is *undecided* if others agree with it, but each of them lacks an answer that it
has. Records without any answer would agree with all others; they are excluded from every comparison.

Records are grouped by the set of keys they answered. A group that answered A is compared in one step with all groups
whose answers have the same intersection with A.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keyhole.data.variables import Microdata
from keyhole.kernels.state import Records

WIDEST_KEY = 2**62

Codes = NDArray[np.int32]


@dataclass(frozen=True)
class CellCounts:
    """How many records share each record's cell.

    cell_count: int64 (n,), f of the cell of record i; with missing answers, the records that agree with it and itself.
    unique_record: int64 (u,), the sample uniques, ascending.
    distinct: number of occupied cells; with missing answers, of distinct rows.
    undecided: records that are not unique only because of records that lack an answer.
    blank: records without any answer, which are not compared.
    """

    cell_count: NDArray[np.int64]
    unique_record: NDArray[np.int64]
    distinct: int
    undecided: int = 0
    blank: int = 0


def encode(microdata: Microdata) -> Records:
    """Index the categories of all variables in one list of levels; -1 stays -1."""
    codes = microdata.codes
    level_start = np.concatenate(([0], np.cumsum(microdata.levels, dtype=np.int64))).astype(np.int64)
    level = np.where(codes >= 0, codes + level_start[:-1].astype(np.int32), np.int32(-1)).astype(np.int32)
    answer_total = (codes >= 0).sum(axis=1, dtype=np.int64)
    return Records(np.ascontiguousarray(level), answer_total, level_start)


def count_cells(codes: NDArray[np.int32]) -> CellCounts:
    """Count the records of each cell; without variables all records share one cell."""
    cell = number_cells(codes)
    _, place, size = np.unique(cell, return_inverse=True, return_counts=True)
    if codes.size and codes.min() < 0:
        agree, certain, blank = count_agreements(codes)
        alone = (agree == 1) & ~blank
        undecided = int(((certain == 1) & (agree > 1) & ~blank).sum())
        return CellCounts(agree, np.flatnonzero(alone).astype(np.int64), len(size), undecided, int(blank.sum()))
    cell_count = size[place].astype(np.int64)
    return CellCounts(cell_count, np.flatnonzero(cell_count == 1).astype(np.int64), len(size))


def number_cells(codes: Codes) -> NDArray[np.int64]:
    """Return one integer for each row, equal for equal rows and in their lexicographic order."""
    cell = np.zeros(len(codes), dtype=np.int64)
    span = 1
    for column in codes.T:
        width = int(column.max(initial=-1)) + 2
        if span * width > WIDEST_KEY:
            # Replace the numbers by their ranks, so that the next factor fits.
            cell = np.unique(cell, return_inverse=True)[1].astype(np.int64)
            span = int(cell.max()) + 1
        cell = cell * width + (column + 1)
        span *= width
    return cell


def count_agreements(codes: Codes) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Return for each record how many agree with it (itself included), how many of those have all its answers, and
    whether it has no answer at all.
    """
    patterns, pattern = np.unique(codes >= 0, axis=0, return_inverse=True)
    pattern = pattern.reshape(-1)
    of_pattern = [np.flatnonzero(pattern == x) for x in range(len(patterns))]
    blank = np.asarray(~patterns.any(axis=1))
    agree, certain = np.zeros(len(codes), np.int64), np.zeros(len(codes), np.int64)
    for x, has in enumerate(patterns):
        own = of_pattern[x]
        if blank[x]:
            agree[own] = certain[own] = len(codes)
            continue
        common, place = np.unique(patterns & has, axis=0, return_inverse=True)
        for y, shared in enumerate(common):
            others = [of_pattern[z] for z in np.flatnonzero((place.reshape(-1) == y) & ~blank)]
            if not others:
                continue
            found = count_equal(codes[own][:, shared], codes[np.concatenate(others)][:, shared])
            agree[own] += found
            if shared.sum() == has.sum():
                certain[own] += found
    return agree, certain, blank[pattern]


def count_equal(own: Codes, others: Codes) -> NDArray[np.int64]:
    """Count for each row of `own` the rows of `others` that equal it."""
    key = number_cells(np.concatenate([own, others]))
    mine, theirs = key[: len(own)], key[len(own) :]
    if len(theirs) <= len(mine):
        known, count = np.unique(theirs, return_counts=True)
        at = np.searchsorted(known, mine).clip(max=len(known) - 1)
        return np.where(known[at] == mine, count[at], 0).astype(np.int64)
    known, back = np.unique(mine, return_inverse=True)
    at = np.searchsorted(known, theirs).clip(max=len(known) - 1)
    count = np.bincount(at[known[at] == theirs], minlength=len(known))
    return count[back.reshape(-1)].astype(np.int64)
