"""Sparse tables of cells, and iterative proportional fitting to given margins.

Fitting starts from ones and scales the table to each margin in turn until all agree. The limit is the maximum
likelihood fit of the log-linear model with these margins (Deming and Stephan 1940; Bishop, Fienberg and Holland 1975).
A cell has mean 0 if it is impossible or lies in an empty entry of a margin; such cells are not listed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keyhole.classical.sample import Deadline, EstimatorError

CELL_LIMIT = 10_000_000
"""Largest number of cells in a table: 80 MB, and a few times that during the fit."""

TOLERANCE = 1e-3
"""A fit has converged if no entry of a margin differs by more than this many records."""

LOOSE = 0.1
"""Tolerance after the last round (the default of R's loglin), since sparse tables may converge slowly."""

MOST_ROUNDS = 200

Floats = NDArray[np.float64]
Term = tuple[int, ...]
Box = list[NDArray[np.bool_]]
"""For each variable, the categories in the box as booleans."""


@dataclass(frozen=True, eq=False)
class Table:
    """Means of the cells of some variables; cells that are not listed have mean 0.

    levels: number of categories of each variable; place: int64 (A,), the cells in mixed radix, ascending.
    """

    levels: tuple[int, ...]
    place: NDArray[np.int64]
    mean: Floats

    def at(self, codes: NDArray[np.int32]) -> Floats:
        """Return the means of these cells, all of which are listed."""
        return self.mean[np.searchsorted(self.place, number_cells(codes, self.levels))]


def number_cells(codes: NDArray[np.int32], levels: Sequence[int]) -> NDArray[np.int64]:
    """Return the cells in mixed radix, the last variable fastest."""
    return np.asarray(np.ravel_multi_index(tuple(codes.T), tuple(levels)), dtype=np.int64)


def check_size(cells: int) -> None:
    """Refuse a table that is too large for memory."""
    if cells > CELL_LIMIT:
        raise EstimatorError(
            f"its table has at least {cells:,} cells, above the maximum of {CELL_LIMIT:,}: "
            "group categories or omit a key."
        )


def fit_table(
    codes: NDArray[np.int32], levels: tuple[int, ...], terms: Sequence[Term], impossible: Sequence[Box], limit: Deadline
) -> Table:
    """Fit the log-linear model with these terms, of one or two variables, to the records."""
    targets = []
    for term in terms:
        size = int(np.prod([levels[j] for j in term]))
        targets.append(np.bincount(_entry(codes, levels, term), minlength=size).astype(np.float64))
    cells = list_cells(levels, terms, [target > 0 for target in targets], impossible)
    place = number_cells(cells, levels)
    if len(terms) == 1 and len(levels) == len(terms[0]) and not impossible:
        return Table(levels, place, targets[0][targets[0] > 0])
    mean = np.ones(len(cells))
    for _ in range(MOST_ROUNDS):
        worst = 0.0
        for term, target in zip(terms, targets, strict=True):
            limit.check()
            entry = _entry(cells, levels, term)
            found = np.bincount(entry, weights=mean, minlength=len(target))
            worst = max(worst, float(np.abs(target - found).max()))
            mean *= np.divide(target, found, out=np.zeros_like(target), where=found > 0)[entry]
        if worst < TOLERANCE:
            break
    refuse_unconverged(worst)
    return Table(levels, place, mean)


def refuse_unconverged(worst: float) -> None:
    """Refuse a fit whose margins differ after the last round."""
    if worst > LOOSE:
        raise EstimatorError(f"its fit has not converged after {MOST_ROUNDS} rounds.")


def list_cells(
    levels: tuple[int, ...], terms: Sequence[Term], occupied: Sequence[NDArray[np.bool_]], impossible: Sequence[Box]
) -> NDArray[np.int32]:
    """List the possible cells whose margins are all occupied, in order: int32 (A, variables)."""
    cells = np.zeros((1, 0), dtype=np.int32)
    for j, size in enumerate(levels):
        check_size(len(cells))
        cells = np.column_stack([np.repeat(cells, size, axis=0), np.tile(np.arange(size, dtype=np.int32), len(cells))])
        kept = np.ones(len(cells), dtype=np.bool_)
        for term, seen in zip(terms, occupied, strict=True):
            if max(term) == j:
                kept &= seen[_entry(cells, levels, term)]
        for box in impossible:
            fixed = [i for i, admitted in enumerate(box) if not admitted.all()]
            if max(fixed, default=0) == j:
                kept &= ~np.logical_and.reduce([box[i][cells[:, i]] for i in fixed], axis=0, initial=True)
        cells = cells[kept]
    check_size(len(cells))
    return cells


def split_levels(rows: NDArray[np.uint8], levels: Sequence[int]) -> list[Box]:
    """Split rows over all levels by variable."""
    cuts = np.cumsum(levels)[:-1]
    return [[piece.astype(np.bool_) for piece in np.split(row, cuts)] for row in rows]


def _entry(codes: NDArray[np.int32], levels: Sequence[int], term: Term) -> NDArray[np.int64]:
    """Return the entry of the term's margin in which each cell lies."""
    return number_cells(codes[:, term], [levels[j] for j in term])
