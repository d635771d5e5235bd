"""Structural zeros: the cells that cannot exist, and those that can, both as disjoint boxes.

From a condition to the boxes of cells that meet it.

Negation is pushed down to the comparisons (De Morgan), so every step is a union or an intersection of boxes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from keyhole.data import Variable
from keyhole.zeros.boxes import Box, Grid, admitted, count_cells, pack, unpack
from keyhole.zeros.cover import cover_complement, cover_union
from keyhole.zeros.rule_files import Rule, read_rules
from keyhole.zeros.vocabulary import BLANK_WORD, describe_box, make_vocabulary


@dataclass(frozen=True, eq=False)
class Zeros:
    """The rules and what they make impossible.

    variables
        the key variables, in the order of the levels below
    rules
        as the user gave them, in order
    impossible
        uint8 (C, levels): disjoint boxes of impossible cells; 1 where a category is admitted, so all 1 in a
        free variable
    possible
        uint8 (D, levels): disjoint boxes of all other cells
    impossible_cells
        how many cells are impossible, exactly
    grid
        the layout of the boxes of `rules`
    """

    variables: tuple[Variable, ...]
    rules: tuple[Rule, ...]
    impossible: NDArray[np.uint8]
    possible: NDArray[np.uint8]
    impossible_cells: int
    grid: Grid

    @property
    def cells(self) -> int:
        """Number of cells of the table."""
        return self.grid.cells

    @property
    def share(self) -> float:
        """Share of the table that is impossible."""
        return self.impossible_cells / self.cells


@dataclass(frozen=True)
class BoxLine:
    """One of the disjoint boxes: what it holds, in words, and how much of the table that is."""

    words: str
    cells: int
    share: float


def read_zeros(
    path: str | Path,
    variables: Sequence[Variable],
    ignored: Mapping[str, str | Variable] | None = None,
) -> Zeros:
    """Read rules about these variables; `ignored` holds the keys left out because they have one category.

    Each is given by that category's code or, if rules may use its label, as a Variable.
    """
    vocabulary = make_vocabulary(variables, ignored)
    return make_zeros(vocabulary.variables, read_rules(path, vocabulary), vocabulary.grid)


def make_zeros(variables: Sequence[Variable], rules: Sequence[Rule], grid: Grid) -> Zeros:
    """Turn rules into disjoint boxes."""
    boxes = list(dict.fromkeys(box for rule in rules for box in rule.boxes))
    impossible = cover_union(grid, boxes)
    return Zeros(
        variables=tuple(variables),
        rules=tuple(rules),
        impossible=unpack(grid, impossible),
        possible=unpack(grid, cover_complement(grid, boxes)),
        impossible_cells=sum(count_cells(grid, box) for box in impossible),
        grid=grid,
    )


def list_boxes(zeros: Zeros) -> tuple[BoxLine, ...]:
    """Describe the disjoint impossible boxes, largest first."""
    return _lines(zeros, pack(zeros.grid, zeros.impossible))


def list_possible_boxes(zeros: Zeros) -> tuple[BoxLine, ...]:
    """Describe the disjoint possible boxes, largest first."""
    return _lines(zeros, pack(zeros.grid, zeros.possible))


def tabulate_boxes(zeros: Zeros, possible: bool = False) -> dict[str, list[str]]:
    """Return the disjoint boxes as the table that `--zeros` reads: a column for each key, blank for anything."""
    boxes = pack(zeros.grid, zeros.possible if possible else zeros.impossible)
    table: dict[str, list[str]] = {}
    for j, variable in enumerate(zeros.variables):
        sets = [admitted(zeros.grid, box, j) for box in boxes]
        table[variable.name] = [
            "" if len(found) == zeros.grid.levels[j] else ";".join(variable.categories[x] or BLANK_WORD for x in found)
            for found in sets
        ]
    return table


def _lines(zeros: Zeros, boxes: list[Box]) -> tuple[BoxLine, ...]:
    lines = []
    for box in sorted(boxes, key=lambda box: -count_cells(zeros.grid, box)):
        cells = count_cells(zeros.grid, box)
        lines.append(BoxLine(describe_box(zeros.variables, zeros.grid, box), cells, cells / zeros.cells))
    return tuple(lines)
