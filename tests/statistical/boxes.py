"""Impossible combinations of tiny tables, laid out for keyhole."""

import numpy as np
from numpy.typing import NDArray

from keyhole.kernels.state import Rules
from keyhole.sampling.layout import make_rules

Box = dict[int, set[int]]
"""Categories by variable; a variable that is not named may be anything."""


def box_arrays(levels: tuple[int, ...], boxes: tuple[Box, ...]) -> tuple[NDArray, NDArray, NDArray]:
    """Impossible boxes and (cell by cell) possible ones, as arrays over levels."""
    start = np.concatenate([[0], np.cumsum(levels)]).astype(np.int64)
    impossible = np.ones((len(boxes), start[-1]), np.uint8)
    for c, box in enumerate(boxes):
        for j, allowed in box.items():
            impossible[c, start[j] : start[j + 1]] = [x in allowed for x in range(levels[j])]
    possible = []
    for cell in np.ndindex(*levels):
        if not any(all(cell[j] in allowed for j, allowed in box.items()) for box in boxes):
            row = np.zeros(start[-1], np.uint8)
            row[[start[j] + x for j, x in enumerate(cell)]] = 1
            possible.append(row)
    return impossible, np.array(possible), start


def make_box_rules(levels: tuple[int, ...], boxes: tuple[Box, ...]) -> Rules:
    """The rules as the kernels want them."""
    return make_rules(*box_arrays(levels, boxes))


def find_possible(
    level: NDArray[np.int32], level_start: NDArray[np.int64], boxes: tuple[Box, ...]
) -> NDArray[np.bool_]:
    """Say of each row whether it lies in none of the boxes."""
    possible = np.ones(len(level), np.bool_)
    for box in boxes:
        inside = [np.isin(level[:, j] - level_start[j], list(allowed)) for j, allowed in box.items()]
        possible &= ~np.logical_and.reduce(inside)
    return possible
