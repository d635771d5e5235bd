"""Boxes: sets of cells that are the product of one set of categories for each variable.

A box is one integer. Variable j has a field of d_j bits, one for each category, and above it a guard bit that is 0 in
every box. So the intersection is `a & b`, and adding `full` carries into the guard bits of exactly the nonempty fields:
one addition decides for all variables whether two boxes meet.

`partition` cuts the table along one variable after another until every part is inside or outside a union of boxes.
Categories that lie in the same boxes stay together. It is fast for any number of boxes; cover.py may find fewer parts.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Box = int

ABSORB_LIMIT = 2_000  # above this number of boxes, comparing all pairs costs more than it saves


@dataclass(frozen=True)
class Grid:
    """The bit layout of the table of all cells.

    levels: number of categories of each variable; shift: position of its lowest bit; field: its bits.
    full: the box of all cells; guard: the guard bits of all variables.
    """

    levels: tuple[int, ...]
    shift: tuple[int, ...]
    field: tuple[int, ...]
    full: Box
    guard: int

    @property
    def cells(self) -> int:
        return math.prod(self.levels)


def make_grid(levels: Sequence[int]) -> Grid:
    """Lay out a table whose variables have these numbers of categories."""
    shift: list[int] = []
    place = 0
    for size in levels:
        shift.append(place)
        place += size + 1
    field = tuple(((1 << size) - 1) << low for size, low in zip(levels, shift, strict=True))
    guard = sum(1 << (low + size) for size, low in zip(levels, shift, strict=True))
    return Grid(tuple(levels), tuple(shift), field, sum(field), guard)


def confine(grid: Grid, j: int, categories: Iterable[int]) -> Box:
    """Return the box in which variable j has one of these categories and the other variables are free."""
    admitted = sum(1 << category for category in set(categories))
    return (grid.full & ~grid.field[j]) | (admitted << grid.shift[j])


def meets(grid: Grid, a: Box, b: Box) -> bool:
    """Whether two boxes share a cell."""
    return ((a & b) + grid.full) & grid.guard == grid.guard


def is_empty(grid: Grid, box: Box) -> bool:
    """Whether some variable admits no category."""
    return not meets(grid, box, box)


def contains(outer: Box, inner: Box) -> bool:
    """Whether every cell of `inner` is in `outer`; neither is empty."""
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


def merge(grid: Grid, boxes: Iterable[Box]) -> list[Box]:
    """Join boxes that differ in one variable only, until there are none left."""
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
    """Remove boxes inside another one; the result is sorted by decreasing number of bits."""
    # A box inside another has fewer bits, so one pass in this order suffices.
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
    place = [low + x for size, low in zip(grid.levels, grid.shift, strict=True) for x in range(size)]
    return [sum(bit << at for bit, at in zip(row, place, strict=True)) for row in rows.tolist()]


def unpack(grid: Grid, boxes: Sequence[Box]) -> NDArray[np.uint8]:
    """Turn boxes into rows of 0 and 1 over all levels, variable after variable: (boxes, levels)."""
    place = [low + x for size, low in zip(grid.levels, grid.shift, strict=True) for x in range(size)]
    rows = [[box >> at & 1 for at in place] for box in boxes]
    return np.array(rows, dtype=np.uint8).reshape(len(boxes), len(place))


class _TooManyPartsError(Exception):
    pass


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
    """Whether every cell of `part` lies in one of the boxes."""
    boxes = [box for box in boxes if meets(grid, box, part)]
    if not boxes:
        return False
    if any(contains(box, part) for box in boxes):
        return True
    j = _first_confined(grid, part, boxes, order)
    return all(is_covered(grid, group, boxes, order) for group in _groups(grid, part, boxes, j))


def _first_confined(grid: Grid, part: Box, boxes: Sequence[Box], order: Sequence[int]) -> int:
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
