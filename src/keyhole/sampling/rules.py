"""Boxes of impossible cells laid out for the kernels: sets of levels, boxes, types of blocks, leaves."""

import math

import numpy as np
from numpy.typing import NDArray

from keyhole.errors import RulesError
from keyhole.kernels.state import Integers, Rules

MOST_TYPES = 50_000
MOST_LEAVES = 500_000
"""Beyond these a chain would need gigabytes for the people that it imputes."""

MOST_GRID_VARIABLES = 13
"""With more variables in the rules one move of kernels/balance.py would cost more than a sweep."""

Set = tuple[int, tuple[int, ...]]
"""A variable and the levels to which it is confined."""


def confining_sets(box: NDArray[np.uint8], level_start: Integers) -> list[Set]:
    """Return the variables that a box confines, each with its levels."""
    sets = []
    for j in range(len(level_start) - 1):
        admitted = np.flatnonzero(box[level_start[j] : level_start[j + 1]])
        if len(admitted) < level_start[j + 1] - level_start[j]:
            sets.append((j, tuple(int(level_start[j] + x) for x in admitted)))
    return sets


def starts(parts: list[tuple[int, ...]] | list[list[int]]) -> Integers:
    """Return where each part begins when they are laid end to end, and where the last ends."""
    return np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)


def flat(parts: list[tuple[int, ...]] | list[list[int]]) -> Integers:
    """Lay the parts end to end."""
    return np.array([x for part in parts for x in part], dtype=np.int64)


def make_rules(impossible: NDArray[np.uint8], possible: NDArray[np.uint8], level_start: Integers) -> Rules | None:
    """Return the layout of disjoint boxes, or None when nothing is impossible."""
    if not len(impossible):
        return None
    boxes = [confining_sets(box, level_start) for box in impossible]
    possible_boxes = [confining_sets(box, level_start) for box in possible]
    if any(not box for box in boxes):
        raise RulesError("the rules make every combination impossible: correct the rules.")
    sets: dict[Set, int] = {}
    for box in (*boxes, *possible_boxes):
        for item in box:
            sets.setdefault(item, len(sets))
    types: dict[tuple[int, ...], int] = {}
    box_types: list[list[int]] = []
    for box in boxes:
        if 2 ** len(box) > MOST_TYPES:
            _refuse()
        members = [sets[item] for item in box]
        of_mask = [-1]
        for mask in range(1, 2 ** len(box)):
            chosen = tuple(members[x] for x in range(len(box)) if mask >> x & 1)
            of_mask.append(types.setdefault(chosen, len(types)))
        box_types.append(of_mask)
    size = {index: len(levels) for (_, levels), index in sets.items()}
    leaves = [math.prod(size[s] for s in chosen) for chosen in types]
    if len(types) > MOST_TYPES or sum(leaves) > MOST_LEAVES:
        _refuse()
    of_boxes = [[sets[item] for item in box] for box in boxes]
    of_possible = [[sets[item] for item in box] for box in possible_boxes]
    grid = possible_boxes if len(possible_boxes) <= 4 * len(boxes) else boxes
    grid_variable = sorted({j for box in grid for j, _ in box})
    if len(grid_variable) > MOST_GRID_VARIABLES:
        grid, grid_variable = [], []
    grid_set = np.full((len(grid_variable), len(grid)), -1, np.int64)
    for lane, box in enumerate(grid):
        for item in box:
            grid_set[grid_variable.index(item[0]), lane] = sets[item]
    return Rules(
        set_variable=np.array([j for j, _ in sets], dtype=np.int64),
        set_start=starts([levels for _, levels in sets]),
        set_level=flat([levels for _, levels in sets]),
        box_start=starts(of_boxes),
        box_set=flat(of_boxes),
        box_type_start=starts(box_types),
        box_type=flat(box_types),
        type_start=starts(list(types)),
        type_set=flat(list(types)),
        leaf_start=np.concatenate([[0], np.cumsum(leaves)]).astype(np.int64),
        possible_start=starts(of_possible),
        possible_set=flat(of_possible),
        grid_variable=np.array(grid_variable, dtype=np.int64),
        grid_set=grid_set,
        grid_possible=np.array([int(grid is not boxes)]),
    )


def _refuse() -> None:
    raise RulesError(
        "the rules confine too many variables at once to be followed exactly: state them on fewer variables "
        "or in larger groups of categories."
    )


def count_moves(rules: Rules | None, records: int, variables: int) -> int:
    """Return the moves of kernels/balance.py for each sweep: as many as cost about half of it."""
    if rules is None or not rules.grid_set.size:
        return 0
    return int(max(min(110 + records * variables / 200, 40e6 / move_cost(rules)), 1))


def move_cost(rules: Rules) -> float:
    """Return the nanoseconds of a move: about 18,000 for ten boxes on eight variables, threefold for each more."""
    confined, boxes = rules.grid_set.shape
    return float(1_700.0 * boxes * 3.0 ** (confined - 8) + 1_000.0)


def count_steps(rules: Rules | None) -> int:
    """Return the steps of kernels/glide.py for each sweep, on average: ten unless they are too dear; 0: not at all."""
    if rules is None or not rules.grid_set.size:
        return 0
    steps = int(min(10, 40e6 / step_cost(rules)))
    return steps if steps >= 3 else 0


def step_cost(rules: Rules) -> float:
    """Return the nanoseconds of such a step: three sums over partitions, and forty profiles multiplied out twice."""
    confined, boxes = rules.grid_set.shape
    return float(3.0 * move_cost(rules) + 40.0 * 3.0 * boxes * 2.0**confined)


def rules_cost(rules: Rules, moves: int, steps: int) -> float:
    """Return the nanoseconds that rules add to a sweep, about: what is imputed, and the moves."""
    return 4e6 + moves * move_cost(rules) + steps * step_cost(rules)
