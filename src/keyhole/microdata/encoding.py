"""From Microdata to what the sampler reads: levels of answers, and counts of cells."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keyhole.kernels.state import Records
from keyhole.microdata.variables import Microdata

WIDEST_KEY = 2**62


@dataclass(frozen=True)
class CellCounts:
    """How many records share each record's cell.

    cell_count: int64 (n,), f of the cell that record i is in.
    unique_record: int64 (u,), the records that are alone in their cell, ascending.
    distinct: number of cells that are not empty.
    """

    cell_count: NDArray[np.int64]
    unique_record: NDArray[np.int64]
    distinct: int


def encode(microdata: Microdata) -> Records:
    """Number the categories of all variables in one list of levels; -1 stays -1."""
    codes = microdata.codes
    level_start = np.concatenate(([0], np.cumsum(microdata.levels, dtype=np.int64))).astype(np.int64)
    level = np.where(codes >= 0, codes + level_start[:-1].astype(np.int32), np.int32(-1)).astype(np.int32)
    answer_total = (codes >= 0).sum(axis=1, dtype=np.int64)
    return Records(np.ascontiguousarray(level), answer_total, level_start)


def count_cells(codes: NDArray[np.int32]) -> CellCounts:
    """Count the records of each cell; without variables all records share one cell."""
    cell = np.zeros(len(codes), dtype=np.int64)
    span = 1
    for column in codes.T:
        width = int(column.max()) + 2
        if span * width > WIDEST_KEY:
            # Number the cells seen so far anew, so that the next factor fits again.
            cell = np.unique(cell, return_inverse=True)[1].astype(np.int64)
            span = int(cell.max()) + 1
        cell = cell * width + (column + 1)
        span *= width
    _, place, size = np.unique(cell, return_inverse=True, return_counts=True)
    cell_count = size[place].astype(np.int64)
    return CellCounts(cell_count, np.flatnonzero(cell_count == 1).astype(np.int64), len(size))
