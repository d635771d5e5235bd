"""Cover a union of boxes, and its complement, by few and cheap disjoint boxes.

From each box of the union the boxes before it are subtracted, so the order of the boxes decides the number of pieces.
Finding the best order is hard: the search starts from a few heuristic orders and improves the best one by moving single
boxes. It is limited by its number of steps rather than by time, so that the same rules give the same boxes.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from keyhole.errors import RulesError
from keyhole.zeros.boxes import Box, Grid, absorb, count_cells, fixed_variables, meets, merge, partition, subtract

BOX_LIMIT = 20_000
SEARCH_LIMIT = 200_000  # subtractions during the search
ORDER_LIMIT = 300  # above this number of boxes only the partition is used, since the cost of an order is quadratic

_Cover = Callable[[Grid, Sequence[Box], Sequence[int], int], list[Box] | None]


def cover_union(grid: Grid, boxes: Sequence[Box]) -> list[Box]:
    """Return disjoint boxes with the same union."""
    return _search(grid, boxes, _disjoin, 0)


def cover_complement(grid: Grid, boxes: Sequence[Box]) -> list[Box]:
    """Return disjoint boxes whose union is the complement."""
    return _search(grid, boxes, _remove, 1)


def count_union(grid: Grid, boxes: Sequence[Box]) -> int:
    """Count the cells of a union of boxes."""
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
    """Subtract from each box those before it; None when that makes more than `limit` boxes."""
    disjoint: list[Box] = []
    for i, box in enumerate(boxes):
        pieces = [box]
        for other in (other for other in boxes[:i] if meets(grid, box, other)):
            pieces = [piece for old in pieces for piece in subtract(grid, old, other, order)]
            if len(pieces) > limit:
                return None
        disjoint += pieces
        if len(disjoint) > limit:
            return None
    return merge(grid, disjoint)


def _remove(grid: Grid, boxes: Sequence[Box], order: Sequence[int], limit: int) -> list[Box] | None:
    """Subtract the boxes from the whole table; None when that makes more than `limit` boxes."""
    pieces = [grid.full]
    for box in boxes:
        pieces = merge(grid, (piece for old in pieces for piece in subtract(grid, old, box, order)))
        if len(pieces) > limit:
            return None
    return pieces


def _search(grid: Grid, boxes: Sequence[Box], cover: _Cover, side: int) -> list[Box]:
    """Start from the partition of the table, then try orders of the boxes, then moves of single boxes."""
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
    """Move one box at a time to another position in the order, as long as the cover gets cheaper."""
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
    """Order variables by how many boxes confine them, since splitting along shared ones makes fewer pieces."""
    uses = Counter(j for box in boxes for j in fixed_variables(grid, box))
    return sorted(range(len(grid.levels)), key=lambda j: (-uses[j], j))


def _starting_orders(grid: Grid, boxes: list[Box], order: Sequence[int]) -> Iterator[list[Box]]:
    """Yield orders: as given, largest first, smallest first, and by the confined variables in both directions."""
    rank = {j: place for place, j in enumerate(order)}

    def variables(box: Box) -> list[int]:
        return sorted(rank[j] for j in fixed_variables(grid, box))

    yield boxes
    yield sorted(boxes, key=lambda box: -count_cells(grid, box))
    yield sorted(boxes, key=lambda box: count_cells(grid, box))
    yield sorted(boxes, key=variables)
    yield sorted(boxes, key=variables, reverse=True)


def _single_moves(boxes: list[Box]) -> Iterator[list[Box]]:
    for i in range(len(boxes)):
        rest = boxes[:i] + boxes[i + 1 :]
        for place in range(len(boxes)):
            if place != i:
                yield [*rest[:place], boxes[i], *rest[place:]]


def _too_many() -> RulesError:
    return RulesError(
        f"The rules together make more than {BOX_LIMIT:,} disjoint boxes of cells, too many to compute with; "
        "remove rules that affect few records, or key variables that many rules share."
    )
