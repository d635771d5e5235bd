"""Structural zeros: the impossible cells and the possible ones, both as disjoint boxes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from keyhole.data import Variable
from keyhole.zeros.boxes import Box, Grid, admitted, count_cells, pack, unpack
from keyhole.zeros.cover import cover_complement, cover_union
from keyhole.zeros.rule_files import Rule, RuleSource, read_rules
from keyhole.zeros.vocabulary import BLANK_WORD, describe_box, make_vocabulary


@dataclass(frozen=True, eq=False)
class Zeros:
    """The rules and the cells that they make impossible.

    variables: the key variables, in the order of the levels; rules: in the order of the file.
    impossible: uint8 (C, levels), disjoint boxes of the impossible cells; 1 for each admitted category.
    possible: uint8 (D, levels), disjoint boxes of all other cells.
    impossible_cells: number of impossible cells; grid: the bit layout of the boxes of `rules`.
    """

    variables: tuple[Variable, ...]
    rules: tuple[Rule, ...]
    impossible: NDArray[np.uint8]
    possible: NDArray[np.uint8]
    impossible_cells: int
    grid: Grid

    @property
    def cells(self) -> int:
        return self.grid.cells

    @property
    def share(self) -> float:
        """Share of the table that is impossible."""
        return self.impossible_cells / self.cells


def add_levels(zeros: Zeros, levels: int) -> Zeros:
    """Return the boxes with further levels, of a variable that no rule restricts."""

    def widen(boxes: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return np.hstack([boxes, np.ones((len(boxes), levels), np.uint8)])

    return replace(zeros, impossible=widen(zeros.impossible), possible=widen(zeros.possible))


@dataclass(frozen=True)
class BoxLine:
    """A disjoint box: its description, its number of cells and their share of the table."""

    words: str
    cells: int
    share: float


def read_zeros(source: RuleSource, variables: Sequence[Variable], ignored: Sequence[Variable] = ()) -> Zeros:
    """Read rules about these variables; ignored: the keys ignored because they have one category."""
    vocabulary = make_vocabulary(variables, ignored)
    return make_zeros(vocabulary.variables, read_rules(source, vocabulary), vocabulary.grid)


def make_zeros(variables: Sequence[Variable], rules: Sequence[Rule], grid: Grid) -> Zeros:
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


def list_boxes(zeros: Zeros, possible: bool = False) -> tuple[BoxLine, ...]:
    """Describe the disjoint impossible boxes, or the possible ones, largest first."""
    boxes = pack(zeros.grid, zeros.possible if possible else zeros.impossible)
    sized = sorted(((count_cells(zeros.grid, box), box) for box in boxes), key=lambda pair: -pair[0])
    return tuple(BoxLine(describe_box(zeros.variables, zeros.grid, box), n, n / zeros.cells) for n, box in sized)


def tabulate_boxes(zeros: Zeros, possible: bool = False) -> dict[str, list[str]]:
    """Return the disjoint boxes as a table that `read_zeros` reads: a column for each key, blank for any category."""
    boxes = pack(zeros.grid, zeros.possible if possible else zeros.impossible)

    def entry(j: int, box: Box) -> str:
        found, codes = admitted(zeros.grid, box, j), zeros.variables[j].categories
        return "" if len(found) == len(codes) else ";".join(codes[x] or BLANK_WORD for x in found)

    return {variable.name: [entry(j, box) for box in boxes] for j, variable in enumerate(zeros.variables)}
