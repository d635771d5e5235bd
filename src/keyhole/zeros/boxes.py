"""Boxes: sets of cells that are a product of one set of categories for each variable.

A box is one integer. Variable j owns a field of d_j bits, one for each category, and a guard bit above it
that is 0 in every box. So intersection is `a & b`, and adding `full` carries into the guard bit of exactly
those fields that are not empty: whether two boxes meet is decided for all variables in one addition.

Cut the table along one variable after the other until every part is inside or outside a union of boxes.

Categories that the boxes treat alike stay together, so a variable is cut into as few groups as there are
kinds of category. This is fast for any number of boxes; other ways to cut may give fewer parts (cover.py).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Box = int

ABSORB_LIMIT = 2_000  # comparing all pairs of more boxes costs more than it saves


@dataclass(frozen=True)
class Grid:
    """The table of all cells.

    levels
        number of categories of each variable
    shift
        place of each variable's lowest bit
    field
        all the bits of each variable
    full
        the box of every cell
    guard
        the guard bits of all variables
    """

    levels: tuple[int, ...]
    shift: tuple[int, ...]
    field: tuple[int, ...]
    full: Box
    guard: int

    @property
    def cells(self) -> int:
        """Number of cells of the table."""
        return math.prod(self.levels)


def make_grid(levels: Sequence[int]) -> Grid:
    """Lay out the fields of a table whose variables have these numbers of categories."""
    shift: list[int] = []
    place = 0
    for size in levels:
        shift.append(place)
        place += size + 1
    field = tuple(((1 << size) - 1) << low for size, low in zip(levels, shift, strict=True))
    guard = sum(1 << (low + size) for size, low in zip(levels, shift, strict=True))
    return Grid(tuple(levels), tuple(shift), field, sum(field), guard)


def confine(grid: Grid, j: int, categories: Iterable[int]) -> Box:
    """Return the box in which variable j takes one of these categories and all others are free."""
    admitted = 0
    for category in categories:
        admitted |= 1 << category
    return (grid.full & ~grid.field[j]) | (admitted << grid.shift[j])


def meets(grid: Grid, a: Box, b: Box) -> bool:
    """Say whether two boxes share a cell."""
    return ((a & b) + grid.full) & grid.guard == grid.guard


def is_empty(grid: Grid, box: Box) -> bool:
    """Say whether some variable admits no category at all."""
    return not meets(grid, box, box)


def contains(outer: Box, inner: Box) -> bool:
    """Say whether every cell of `inner` is in `outer` (neither being empty)."""
    return inner & ~outer == 0


def admitted(grid: Grid, box: Box, j: int) -> tuple[int, ...]:
    """List the categories of variable j in the box, in order."""
    bits = (box & grid.field[j]) >> grid.shift[j]
    return tuple(x for x in range(grid.levels[j]) if bits >> x & 1)


def fixed_variables(grid: Grid, box: Box) -> tuple[int, ...]:
    """List the variables that the box does not leave free."""
    missing = grid.full & ~box
    return tuple(j for j, field in enumerate(grid.field) if missing & field)


def count_cells(grid: Grid, box: Box) -> int:
    """Count the cells of one box, exactly."""
    return math.prod((box & field).bit_count() for field in grid.field)


def subtract(grid: Grid, box: Box, other: Box, order: Sequence[int]) -> list[Box]:
    """Split `box` without `other` into disjoint boxes, variable by variable in the given order."""
    if not meets(grid, box, other):
        return [box]
    pieces = []
    for j in order:
        outside = box & ~other & grid.field[j]
        if outside:
            rest = box & ~grid.field[j]
            pieces.append(rest | outside)
            box = rest | (box & other & grid.field[j])
    return pieces


def subtract_all(grid: Grid, box: Box, others: Iterable[Box], order: Sequence[int]) -> list[Box]:
    """Split `box` without any of `others` into disjoint boxes."""
    pieces = [box]
    for other in others:
        if meets(grid, box, other):
            pieces = [piece for old in pieces for piece in subtract(grid, old, other, order)]
            if not pieces:
                break
    return pieces


def merge(grid: Grid, boxes: Iterable[Box]) -> list[Box]:
    """Join boxes that differ in one variable only until none are left; the union stays the same."""
    joined = list(dict.fromkeys(boxes))
    before = len(joined) + 1
    while len(joined) < before:
        before = len(joined)
        for field in grid.field:
            union: dict[int, Box] = {}
            for box in joined:
                key = box & ~field
                union[key] = union.get(key, 0) | box
            joined = list(union.values())
    return joined


def absorb(boxes: Iterable[Box]) -> list[Box]:
    """Leave out boxes that lie inside another one; largest first."""
    # A box inside another has fewer bits, so one pass in this order is enough.
    ordered = sorted(dict.fromkeys(boxes), key=int.bit_count, reverse=True)
    if len(ordered) > ABSORB_LIMIT:
        return ordered
    kept: list[Box] = []
    for box in ordered:
        if not any(contains(outer, box) for outer in kept):
            kept.append(box)
    return kept


def pack(grid: Grid, rows: NDArray[np.uint8]) -> list[Box]:
    """Turn rows of 0 and 1 over all levels, variable after variable, into boxes."""
    boxes = []
    for row in rows.tolist():
        box, start = 0, 0
        for size, low in zip(grid.levels, grid.shift, strict=True):
            for x in range(size):
                box |= row[start + x] << (low + x)
            start += size
        boxes.append(box)
    return boxes


def unpack(grid: Grid, boxes: Sequence[Box]) -> NDArray[np.uint8]:
    """Turn boxes into rows of 0 and 1 over all levels, variable after variable: (boxes, levels)."""
    rows = np.zeros((len(boxes), sum(grid.levels)), dtype=np.uint8)
    for c, box in enumerate(boxes):
        start = 0
        for j, size in enumerate(grid.levels):
            rows[c, [start + x for x in admitted(grid, box, j)]] = 1
            start += size
    return rows


class _TooManyPartsError(Exception):
    """Stops the recursion."""


def partition(grid: Grid, boxes: Sequence[Box], order: Sequence[int], limit: int) -> tuple[list[Box], list[Box]] | None:
    """Return disjoint boxes inside and outside the union; None when either side has more than `limit`."""
    inside: list[Box] = []
    outside: list[Box] = []

    def cut(part: Box, rest: Sequence[Box]) -> None:
        if len(inside) > limit or len(outside) > limit:
            raise _TooManyPartsError
        rest = [box for box in rest if meets(grid, box, part)]
        if not rest:
            outside.append(part)
        elif any(contains(box, part) for box in rest):
            inside.append(part)
        else:
            for group in _groups(grid, part, rest, _first_confined(grid, part, rest, order)):
                cut(group, rest)

    try:
        cut(grid.full, boxes)
    except _TooManyPartsError:
        return None
    return inside, outside


def is_covered(grid: Grid, part: Box, boxes: Sequence[Box], order: Sequence[int]) -> bool:
    """Say whether every cell of `part` lies in one of the boxes; stops at the first that does not."""
    boxes = [box for box in boxes if meets(grid, box, part)]
    if not boxes:
        return False
    if any(contains(box, part) for box in boxes):
        return True
    j = _first_confined(grid, part, boxes, order)
    return all(is_covered(grid, group, boxes, order) for group in _groups(grid, part, boxes, j))


def _first_confined(grid: Grid, part: Box, boxes: Sequence[Box], order: Sequence[int]) -> int:
    """Find the first variable that some box confines within this part."""
    common = part
    for box in boxes:
        common &= box
    lost = part & ~common
    return next(j for j in order if lost & grid.field[j])


def _groups(grid: Grid, part: Box, boxes: Sequence[Box], j: int) -> list[Box]:
    """Cut a part along variable j into groups of categories that are in the same boxes."""
    groups = [part & grid.field[j]]
    for box in dict.fromkeys(box & grid.field[j] for box in boxes):
        groups = [half for group in groups for half in (group & box, group & ~box) if half]
    return [(part & ~grid.field[j]) | group for group in groups]
