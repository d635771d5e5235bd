"""Boxes laid out as arrays for the kernels: sets of levels, boxes, types of blocks."""

import numpy as np
from numpy.typing import NDArray

from keyhole.errors import RulesError
from keyhole.kernels.state import Integers, Rules, no_rules
from keyhole.zeros import Zeros

MOST_TYPES = 50_000
"""Most types of blocks: with more a chain would need gigabytes for the augmented blocks."""

Set = tuple[int, tuple[int, ...]]
"""A variable and the levels to which it is restricted."""


def confining_sets(box: NDArray[np.uint8], level_start: Integers) -> list[Set]:
    """Return the variables that a box restricts, each with its levels."""
    sets = []
    for j in range(len(level_start) - 1):
        admitted = np.flatnonzero(box[level_start[j] : level_start[j + 1]])
        if len(admitted) < level_start[j + 1] - level_start[j]:
            sets.append((j, tuple(int(level_start[j] + x) for x in admitted)))
    return sets


def starts(parts: list[tuple[int, ...]] | list[list[int]]) -> Integers:
    """Return where each part starts when all are concatenated, and where the last ends."""
    return np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)


def flat(parts: list[tuple[int, ...]] | list[list[int]]) -> Integers:
    return np.array([x for part in parts for x in part], dtype=np.int64)


def find_rules(zeros: Zeros | None, level_start: Integers) -> Rules:
    """Return the rules as the kernels read them."""
    return no_rules() if zeros is None else make_rules(zeros.impossible, zeros.possible, level_start)


def make_rules(impossible: NDArray[np.uint8], possible: NDArray[np.uint8], level_start: Integers) -> Rules:
    """Return the layout of disjoint boxes, given as (boxes, levels)."""
    if not len(impossible):
        return no_rules()
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
    if len(types) > MOST_TYPES:
        _refuse()
    of_boxes = [[sets[item] for item in box] for box in boxes]
    of_possible = [[sets[item] for item in box] for box in possible_boxes]
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
        possible_start=starts(of_possible),
        possible_set=flat(of_possible),
    )


def _refuse() -> None:
    raise RulesError(
        "the rules confine too many variables at once to be followed exactly: state them on fewer variables "
        "or in larger groups of categories."
    )
