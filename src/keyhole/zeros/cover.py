"""Cover a union of boxes, and the cells outside it, by few and cheap disjoint boxes.

Box number i of the union loses what the boxes before it hold; the order decides how many pieces that makes.
Finding the best order is hard, so a few sensible ones are tried and the best is improved by moving one box
at a time. The search counts its work and never looks at the clock: the same rules give the same boxes.

Rules that say nothing that the others do not say.
"""

from collections.abc import Callable, Iterator, Sequence

from keyhole.errors import RulesError
from keyhole.zeros.boxes import (
    Box,
    Grid,
    absorb,
    count_cells,
    fixed_variables,
    meets,
    merge,
    partition,
    subtract,
)

BOX_LIMIT = 20_000
SEARCH_LIMIT = 200_000  # subtractions during the search: about half a second
ORDER_LIMIT = 300  # beyond this number of boxes only the partition is used: orders cost its square

_Cover = Callable[[Grid, Sequence[Box], Sequence[int], int], list[Box] | None]


def cover_union(grid: Grid, boxes: Sequence[Box]) -> list[Box]:
    """Return disjoint boxes that hold exactly the cells of the given boxes."""
    return _search(grid, boxes, _disjoin, 0)


def cover_complement(grid: Grid, boxes: Sequence[Box]) -> list[Box]:
    """Return disjoint boxes that hold exactly the cells outside the given boxes."""
    return _search(grid, boxes, _remove, 1)


def count_union(grid: Grid, boxes: Sequence[Box]) -> int:
    """Count the cells of a union of boxes, exactly."""
    if len(boxes) == 1:
        return count_cells(grid, boxes[0])
    parts = partition(grid, boxes, _variable_order(grid, boxes), BOX_LIMIT)
    if parts is None:
        raise _too_many()
    return sum(count_cells(grid, box) for box in parts[0])


def simplify(grid: Grid, boxes: Sequence[Box]) -> list[Box]:
    """Return fewer, larger, possibly overlapping boxes with the same union."""
    return absorb(merge(grid, absorb(boxes)))


def cover_cost(grid: Grid, boxes: Sequence[Box]) -> int:
    """Estimate the work of exact sums (docs/model.md section 4): 3^(f-1)/2 + 2^f K, f fixed variables, K = 32."""
    return sum(3**fixed // 6 + 32 * 2**fixed for fixed in (len(fixed_variables(grid, box)) for box in boxes))


def _disjoin(grid: Grid, boxes: Sequence[Box], order: Sequence[int], limit: int) -> list[Box] | None:
    """Take from each box what the ones before it hold; None when that makes more than `limit` boxes."""
    disjoint: list[Box] = []
    for i, box in enumerate(boxes):
        earlier = [other for other in boxes[:i] if meets(grid, box, other)]
        pieces = [box]
        for other in earlier:
            pieces = [piece for old in pieces for piece in subtract(grid, old, other, order)]
            if len(pieces) > limit:
                return None
        disjoint += pieces
        if len(disjoint) > limit:
            return None
    return merge(grid, disjoint)


def _remove(grid: Grid, boxes: Sequence[Box], order: Sequence[int], limit: int) -> list[Box] | None:
    """Take the boxes one after the other from the whole table; None when more than `limit` pieces arise."""
    pieces = [grid.full]
    for box in boxes:
        pieces = merge(grid, (piece for old in pieces for piece in subtract(grid, old, box, order)))
        if len(pieces) > limit:
            return None
    return pieces


def _search(grid: Grid, boxes: Sequence[Box], cover: _Cover, side: int) -> list[Box]:
    """Start from the partition of the table; try orders of the boxes, then move single boxes if that pays."""
    union = simplify(grid, boxes)
    order = _variable_order(grid, union)
    parts = partition(grid, union, order, BOX_LIMIT)
    best = None
    if parts is not None:
        if not parts[1 - side]:
            return [grid.full]
        best = merge(grid, parts[side])
    best_union = union
    budget = SEARCH_LIMIT if len(union) <= ORDER_LIMIT else 0
    for start in _starting_orders(grid, union, order):
        if budget <= 0:
            break
        limit = BOX_LIMIT if best is None else 2 * len(best) + 16
        found = cover(grid, start, order, limit)
        budget -= len(union) * (limit if found is None else len(found))
        if found is not None and (best is None or cover_cost(grid, found) < cover_cost(grid, best)):
            best, best_union = found, start
    if best is None:
        raise _too_many()
    return _improve(grid, best, best_union, order, cover, budget)


def _improve(
    grid: Grid, best: list[Box], union: list[Box], order: Sequence[int], cover: _Cover, budget: int
) -> list[Box]:
    """Move one box at a time to another place in the order, as long as the cover gets cheaper."""
    cost = cover_cost(grid, best)
    moves = _single_moves(union)
    while budget > 0 and (moved := next(moves, None)) is not None:
        limit = 2 * len(best) + 16
        found = cover(grid, moved, order, limit)
        budget -= len(union) * (limit if found is None else len(found))
        if found is not None and cover_cost(grid, found) < cost:
            best, cost = found, cover_cost(grid, found)
            moves = _single_moves(moved)
    return best


def _variable_order(grid: Grid, boxes: Sequence[Box]) -> list[int]:
    """Order variables by how many boxes confine them: splitting along the shared ones keeps pieces few."""
    uses = [0] * len(grid.levels)
    for box in boxes:
        for j in fixed_variables(grid, box):
            uses[j] += 1
    return sorted(range(len(uses)), key=lambda j: (-uses[j], j))


def _starting_orders(grid: Grid, boxes: list[Box], order: Sequence[int]) -> Iterator[list[Box]]:
    """Yield a few orders: as given, large first, small first, and grouped by the variables they confine."""
    rank = {j: place for place, j in enumerate(order)}

    def variables(box: Box) -> list[int]:
        return sorted(rank[j] for j in fixed_variables(grid, box))

    yield boxes
    yield sorted(boxes, key=lambda box: -count_cells(grid, box))
    yield sorted(boxes, key=lambda box: count_cells(grid, box))
    yield sorted(boxes, key=variables)
    yield sorted(boxes, key=variables, reverse=True)


def _single_moves(boxes: list[Box]) -> Iterator[list[Box]]:
    """Yield every order in which one box has moved to another place."""
    for i in range(len(boxes)):
        rest = boxes[:i] + boxes[i + 1 :]
        for place in range(len(boxes)):
            if place != i:
                yield [*rest[:place], boxes[i], *rest[place:]]


def _too_many() -> RulesError:
    return RulesError(
        f"The rules together make more than {BOX_LIMIT:,} separate boxes of cells, too many to compute with; "
        "leave out rules that concern few people, or key variables that many rules share."
    )
