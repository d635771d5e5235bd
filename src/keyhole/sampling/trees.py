"""Layouts of the rows (kernels/trees.py): one node for an unordered key, random binary trees for an ordered one."""

from collections.abc import Iterator

import numpy as np

from keyhole.data.order import FEWEST_ORDERED, Range
from keyhole.kernels.state import NOTHING_ORDERED, Integers, Trees
from keyhole.seeds import LAYOUTS, make_seeds

LAYOUT_TOTAL = 8
"""Layouts of an ordered key: a single one would have cuts over which neighbours share nothing."""

Node = list[Range]
"""The edges of a node."""


def cut_ranges(rng: np.random.Generator, first: int, last: int) -> Iterator[Node]:
    """Yield the nodes of a random binary tree over these levels, parents first; each cut is within the middle half."""
    size = last - first
    if size < 2:
        return
    margin = max(size // 4, 1)
    cut = first + int(rng.integers(margin, size - margin + 1))
    yield [(first, cut), (cut, last)]
    yield from cut_ranges(rng, first, cut)
    yield from cut_ranges(rng, cut, last)


def draw_layout(rng: np.random.Generator, key: Range, ordered: Range) -> list[Node]:
    """Return the nodes of one layout: levels outside the order hang at the root beside the ordered tree."""
    nodes = list(cut_ranges(rng, *ordered))
    outside = [(v, v + 1) for v in range(*key) if not ordered[0] <= v < ordered[1]]
    return [sorted([ordered, *outside]), *nodes] if outside else nodes


def make_trees(level_start: Integers, ordered: Integers = NOTHING_ORDERED) -> Trees:
    """Return the layouts of all keys; `ordered` as in Records."""
    rng = np.random.default_rng(make_seeds(0, LAYOUTS))
    layout_start, strength_start = [0], [0]
    layouts: list[list[Node]] = []
    node_strength: list[int] = []
    scale: list[float] = []
    for j in range(len(level_start) - 1):
        key = int(level_start[j]), int(level_start[j + 1])
        order = (int(ordered[j, 0]), int(ordered[j, 1])) if len(ordered) else (key[0], key[0])
        if order[1] - order[0] < FEWEST_ORDERED:
            layouts.append([[(v, v + 1) for v in range(*key)]])
            node_strength.append(len(scale))
            scale.append(float(key[1] - key[0]))
        else:
            drawn = [draw_layout(rng, key, order) for _ in range(LAYOUT_TOTAL)]
            kinds = sorted({find_kind(node, order) for layout in drawn for node in layout})
            node_strength += [len(scale) + kinds.index(find_kind(node, order)) for layout in drawn for node in layout]
            outside = key[1] - key[0] - (order[1] - order[0])
            scale += [1.0 + outside if kind < 0 else 2.0 for kind in kinds]
            layouts += drawn
        layout_start.append(len(layouts))
        strength_start.append(len(scale))
    nodes = [node for layout in layouts for node in layout]
    edges = [edge for node in nodes for edge in node]
    return Trees(
        layout_start=np.array(layout_start, np.int64),
        strength_start=np.array(strength_start, np.int64),
        node_start=np.cumsum([0, *map(len, layouts)]).astype(np.int64),
        edge_start=np.cumsum([0, *map(len, nodes)]).astype(np.int64),
        edge_first=np.array([first for first, _ in edges], np.int64),
        edge_last=np.array([last for _, last in edges], np.int64),
        node_strength=np.array(node_strength, np.int64),
        strength_scale=np.array(scale),
    )


def find_kind(node: Node, ordered: Range) -> int:
    """Return the size class of a node, 0 for 2 levels, 1 for 3 or 4, 2 for 5 to 8; -1 if levels outside hang there."""
    first, last = node[0][0], node[-1][1]
    if ordered in node or first < ordered[0] or last > ordered[1]:
        return -1
    return (last - first - 1).bit_length() - 1
