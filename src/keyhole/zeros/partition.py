"""Cut the table along one variable after the other until every part is inside or outside a union of boxes.

Categories that the boxes treat alike stay together, so a variable is cut into as few groups as there are
kinds of category. This is fast for any number of boxes; other ways to cut may give fewer parts (cover.py).
"""

from collections.abc import Sequence

from keyhole.zeros.boxes import Box, Grid, contains, meets


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
