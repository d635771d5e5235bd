"""What rules do to the table, to each other, and whether the records agree with them.

Records that the rules call impossible: by their rows in the input, never by their values.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keyhole.data import Microdata
from keyhole.zeros.boxes import (
    Box,
    Grid,
    fixed_variables,
    is_covered,
    pack,
    unpack,
)
from keyhole.zeros.cover import count_union, cover_complement, simplify
from keyhole.zeros.rule_files import Rule
from keyhole.zeros.zeros import Zeros


@dataclass(frozen=True, eq=False)
class RuleContradiction:
    """The records that one rule calls impossible, by their rows in the input, counted from 1."""

    name: str
    source: str
    words: str
    rows: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Contradictions:
    """The records that are impossible under the rules.

    records: their places in `Microdata.codes`, from 0; rows: their rows in the input, from 1; both ascending.
    rules: the rules concerned; with blanks a record may contradict several together and none alone.
    """

    records: NDArray[np.int64]
    rows: NDArray[np.int64]
    rules: tuple[RuleContradiction, ...]


def find_contradictions(zeros: Zeros, microdata: Microdata) -> Contradictions:
    """Find the records that no possible cell agrees with, and the rules that say so."""
    cells, cell_of_record = _distinct_cells(microdata)
    everything = simplify(zeros.grid, [box for rule in zeros.rules for box in rule.boxes])
    suspect = np.flatnonzero(_impossible(zeros.grid, everything, cells, pack(zeros.grid, zeros.possible)))
    is_suspect = np.zeros(len(cells), dtype=np.bool_)
    is_suspect[suspect] = True
    input_row = microdata.record_row + 1
    records = np.flatnonzero(is_suspect[cell_of_record])
    rules = []
    if len(records):
        place = np.cumsum(is_suspect) - 1
        suspect_of_record = place[cell_of_record[records]]
        suspect_cells = np.asfortranarray(cells[suspect])
        for rule in zeros.rules:
            hit = _impossible(zeros.grid, rule.boxes, suspect_cells)
            if hit.any():
                rows = np.unique(input_row[records[hit[suspect_of_record]]])
                rules.append(RuleContradiction(rule.name, rule.source, rule.words, rows))
    return Contradictions(records, np.unique(input_row[records]), tuple(rules))


def describe_contradictions(contradictions: Contradictions, limit: int = 10) -> str:
    """Say on one line which rows contradict which rules, the first few of each; no values."""
    parts = [f"{rule.name} ({rule.source}): {_list_rows(rule.rows, limit)}" for rule in contradictions.rules[:limit]]
    more = len(contradictions.rules) - limit
    if more > 0:
        parts.append(f"and {more} more rule{'s' if more > 1 else ''}")
    alone = np.setdiff1d(contradictions.rows, np.concatenate([[0], *(rule.rows for rule in contradictions.rules)]))
    if len(alone):
        parts.append(f"several rules together: {_list_rows(alone, limit)}")
    total = len(contradictions.rows)
    return f"{total} record{'s' if total != 1 else ''} contradict{'s' if total == 1 else ''} the rules: " + "; ".join(
        parts
    )


def _impossible(
    grid: Grid, boxes: Sequence[Box], cells: NDArray[np.int32], outside: Sequence[Box] | None = None
) -> NDArray[np.bool_]:
    """Say which cells lie in the boxes: bool (cells,). With blanks, when every way to fill them does."""
    if not boxes:
        return np.zeros(len(cells), dtype=np.bool_)
    if cells.size and cells.min() < 0:
        return ~_agrees(grid, cover_complement(grid, boxes) if outside is None else outside, cells, blank=1)
    return _agrees(grid, boxes, cells, blank=0)


def _agrees(grid: Grid, boxes: Sequence[Box], cells: NDArray[np.int32], blank: int) -> NDArray[np.bool_]:
    """Say which cells meet a box, a blank (code -1) counting as `blank`."""
    start = np.concatenate([[0], np.cumsum(grid.levels)])
    found = np.zeros(len(cells), dtype=np.bool_)
    for box, row in zip(boxes, unpack(grid, boxes), strict=True):
        inside = np.ones(len(cells), dtype=np.bool_)
        for j in fixed_variables(grid, box):
            admitted = np.append(row[start[j] : start[j + 1]], blank).astype(np.bool_)
            inside &= admitted[cells[:, j]]  # code -1 takes the last entry
        found |= inside
    return found


def _distinct_cells(microdata: Microdata) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the different rows of the codes and, for each record, which of them it is."""
    sizes = [size + 1 for size in microdata.levels]
    if math.prod(sizes) >= 2**62:
        cells, inverse = np.unique(microdata.codes, axis=0, return_inverse=True)
        return cells, inverse.reshape(-1).astype(np.int64)
    key = np.zeros(len(microdata.codes), dtype=np.int64)
    for j, size in enumerate(sizes):
        key = key * size + (microdata.codes[:, j] + 1)
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    return microdata.codes[first], inverse.reshape(-1).astype(np.int64)


def _list_rows(rows: NDArray[np.int64], limit: int) -> str:
    listed = ", ".join(str(row) for row in rows[:limit])
    more = f" and {len(rows) - limit} more" if len(rows) > limit else ""
    return f"row{'s' if len(rows) != 1 else ''} {listed}{more}"


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


EXPLAIN_LIMIT = 40  # a redundant rule that meets more rules than this is not traced to the few that cover it


def find_redundant(grid: Grid, rules: Sequence[Rule]) -> dict[int, tuple[int, ...]]:
    """Map each redundant rule to those that cover it; all can go and the same cells stay impossible."""
    order = range(len(grid.levels))
    owned = [(k, box) for k, rule in enumerate(rules) for box in rule.boxes]
    redundant: dict[int, tuple[int, ...]] = {}
    for i in reversed(range(len(rules))):
        near = sorted(
            {
                k
                for own in rules[i].boxes
                for k, box in owned
                if ((own & box) + grid.full) & grid.guard == grid.guard  # meets(), in line: all pairs of boxes
            }
            - {i}
            - redundant.keys()
        )

        def covered_by(chosen: list[int], i: int = i) -> bool:
            others = [box for k in chosen for box in rules[k].boxes]
            return all(is_covered(grid, box, others, order) for box in rules[i].boxes)

        if covered_by(near):
            if len(near) <= EXPLAIN_LIMIT:
                for k in list(reversed(near)):
                    fewer = [other for other in near if other != k]
                    near = fewer if covered_by(fewer) else near
            redundant[i] = tuple(near)
    return redundant
