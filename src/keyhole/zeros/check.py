"""What rules do to the table, to each other, and whether the records agree with them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keyhole.microdata import Microdata
from keyhole.zeros.contradictions import find_contradictions
from keyhole.zeros.cover import count_union
from keyhole.zeros.redundancy import find_redundant
from keyhole.zeros.zeros import Zeros


@dataclass(frozen=True, eq=False)
class RuleCheck:
    """One rule: what it says, how much of the table it removes, who says it already, who contradicts it.

    redundant: the rules that are not marked redundant remove all its cells; covered_by: which of them.
    rows: rows of the input that contradict it, counted from 1.
    """

    name: str
    source: str
    words: str
    label: str
    cells: int
    share: float
    redundant: bool
    covered_by: tuple[str, ...]
    rows: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ZerosCheck:
    """All rules together; `rows` are the contradicting rows of the input, counted from 1."""

    rules: tuple[RuleCheck, ...]
    cells: int
    impossible_cells: int
    share: float
    impossible_boxes: int
    possible_boxes: int
    rows: NDArray[np.int64]


def check_zeros(zeros: Zeros, microdata: Microdata) -> ZerosCheck:
    """Measure each rule and compare it with the other rules and with the records."""
    contradictions = find_contradictions(zeros, microdata)
    rows = {rule.name: rule.rows for rule in contradictions.rules}
    covered = find_redundant(zeros.grid, zeros.rules)
    checks = []
    for i, rule in enumerate(zeros.rules):
        cells = count_union(zeros.grid, rule.boxes)
        checks.append(
            RuleCheck(
                name=rule.name,
                source=rule.source,
                words=rule.words,
                label=rule.label,
                cells=cells,
                share=cells / zeros.cells,
                redundant=i in covered,
                covered_by=tuple(zeros.rules[other].name for other in covered.get(i, ())),
                rows=rows.get(rule.name, np.empty(0, dtype=np.int64)),
            )
        )
    return ZerosCheck(
        rules=tuple(checks),
        cells=zeros.cells,
        impossible_cells=zeros.impossible_cells,
        share=zeros.share,
        impossible_boxes=len(zeros.impossible),
        possible_boxes=len(zeros.possible),
        rows=contradictions.rows,
    )
