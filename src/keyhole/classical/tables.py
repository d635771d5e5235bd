"""Sparse tables of cells, and iterative proportional fitting: the table that has the given margins.

Fitting starts from ones in the cells that can have a mean at all and scales them to one margin after the other until
all agree. The limit is the maximum-likelihood fit of the log-linear model with these margins (Deming and Stephan 1940;
Bishop, Fienberg and Holland 1975). A cell has mean 0 if it is impossible or lies in an entry of a margin that no record
has; such cells are never listed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keyhole.classical.sample import Deadline, EstimatorError

CELL_LIMIT = 10_000_000
"""Cells with a mean above 0 that are held at once: 80 MB, and a few times that while they are fitted."""

TOLERANCE = 1e-3
"""A margin is met when no entry is off by more than this many records."""

LOOSE = 0.1
"""Good enough after the last round (R's loglin stops here at once): sparse tables approach their limit ever slower."""

MOST_ROUNDS = 200

Floats = NDArray[np.float64]
Term = tuple[int, ...]
Box = list[NDArray[np.bool_]]
"""For each variable, which categories are in the box."""


@dataclass(frozen=True, eq=False)
class Table:
    """Means of the cells of some variables; cells that are not listed have mean 0.

    levels: number of categories of each variable; place: int64 (A,), the cells as numbers in mixed radix, ascending.
    """

    levels: tuple[int, ...]
    place: NDArray[np.int64]
    mean: Floats

    def at(self, codes: NDArray[np.int32]) -> Floats:
        """Return the means of the cells with these categories, all of which are listed."""
        return self.mean[np.searchsorted(self.place, number_cells(codes, self.levels))]


def number_cells(codes: NDArray[np.int32], levels: Sequence[int]) -> NDArray[np.int64]:
    """Number cells in mixed radix, the last variable fastest."""
    number = np.zeros(len(codes), dtype=np.int64)
    for j, size in enumerate(levels):
        number = number * size + codes[:, j]
    return number


def check_size(cells: int) -> None:
    """Refuse a table that would not fit in memory."""
    if cells > CELL_LIMIT:
        raise EstimatorError(
            f"its table has at least {cells:,} cells with a mean, and at most {CELL_LIMIT:,} are held: "
            "group categories or leave out a key."
        )


def fit_table(
    codes: NDArray[np.int32], levels: tuple[int, ...], terms: Sequence[Term], impossible: Sequence[Box], clock: Deadline
) -> Table:
    """Fit the log-linear model with these terms, of one or two variables, to the records."""
    targets = [_margin(codes, levels, term) for term in terms]
    cells = list_cells(levels, terms, [target > 0 for target in targets], impossible)
    place = number_cells(cells, levels)
    if len(terms) == 1 and len(levels) == len(terms[0]) and not impossible:
        return Table(levels, place, targets[0][targets[0] > 0])
    mean = np.ones(len(cells))
    for _ in range(MOST_ROUNDS):
        worst = 0.0
        for term, target in zip(terms, targets, strict=True):
            clock.check()
            entry = _entry(cells, levels, term)
            found = np.bincount(entry, weights=mean, minlength=len(target))
            worst = max(worst, float(np.abs(target - found).max()))
            mean *= np.divide(target, found, out=np.zeros_like(target), where=found > 0)[entry]
        if worst < TOLERANCE:
            break
    refuse_unsettled(worst)
    return Table(levels, place, mean)


def refuse_unsettled(worst: float) -> None:
    """Refuse a fit whose margins are still off after the last round."""
    if worst > LOOSE:
        raise EstimatorError(f"its fit has not settled after {MOST_ROUNDS} rounds.")


def list_cells(
    levels: tuple[int, ...], terms: Sequence[Term], occupied: Sequence[NDArray[np.bool_]], impossible: Sequence[Box]
) -> NDArray[np.int32]:
    """List the possible cells all of whose margins are occupied, in order: int32 (A, variables)."""
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
    """Cut rows over all levels into one piece for each variable."""
    cuts = np.cumsum(levels)[:-1]
    return [[piece.astype(np.bool_) for piece in np.split(row, cuts)] for row in rows]


def _margin(codes: NDArray[np.int32], levels: Sequence[int], term: Term) -> Floats:
    entries = int(np.prod([levels[j] for j in term]))
    return np.bincount(_entry(codes, levels, term), minlength=entries).astype(np.float64)


def _entry(codes: NDArray[np.int32], levels: Sequence[int], term: Term) -> NDArray[np.int32]:
    """Return the entry of the term's margin in which each cell lies."""
    entry = codes[:, term[0]]
    for j in term[1:]:
        entry = entry * np.int32(levels[j]) + codes[:, j]
    return entry
