"""From Microdata to what the sampler reads: levels of answers, and counts of cells."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keyhole.kernels.state import Records
from keyhole.microdata.agreement import count_agreements, number_cells
from keyhole.microdata.variables import Microdata


@dataclass(frozen=True)
class CellCounts:
    """How many records share each record's cell.

    cell_count: int64 (n,), f of the cell that record i is in: with missing answers, how many agree with it, itself too.
    unique_record: int64 (u,), the records that are alone in their cell, ascending.
    distinct: number of cells that are not empty: with missing answers, of different rows.
    undecided: records that are not alone only because of records that lack an answer.
    blank: records without any answer, with which nobody was compared.
    """

    cell_count: NDArray[np.int64]
    unique_record: NDArray[np.int64]
    distinct: int
    undecided: int = 0
    blank: int = 0


def encode(microdata: Microdata) -> Records:
    """Number the categories of all variables in one list of levels; -1 stays -1."""
    codes = microdata.codes
    level_start = np.concatenate(([0], np.cumsum(microdata.levels, dtype=np.int64))).astype(np.int64)
    level = np.where(codes >= 0, codes + level_start[:-1].astype(np.int32), np.int32(-1)).astype(np.int32)
    answer_total = (codes >= 0).sum(axis=1, dtype=np.int64)
    return Records(np.ascontiguousarray(level), answer_total, level_start)


def count_cells(codes: NDArray[np.int32]) -> CellCounts:
    """Count the records of each cell; without variables all records share one cell. -1: agreement.py."""
    cell = number_cells(codes)
    _, place, size = np.unique(cell, return_inverse=True, return_counts=True)
    if codes.size and codes.min() < 0:
        agree, certain, blank = count_agreements(codes)
        alone = (agree == 1) & ~blank
        undecided = int(((certain == 1) & (agree > 1) & ~blank).sum())
        return CellCounts(agree, np.flatnonzero(alone).astype(np.int64), len(size), undecided, int(blank.sum()))
    cell_count = size[place].astype(np.int64)
    return CellCounts(cell_count, np.flatnonzero(cell_count == 1).astype(np.int64), len(size))
