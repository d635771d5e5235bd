"""Check rules: how much of the table each makes impossible, which are redundant, and which records contradict them.

Contradicting records are identified by their input rows, never by their values.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keyhole.data import Microdata
from keyhole.words import first_few, plural
from keyhole.zeros.boxes import Box, Grid, fixed_variables, is_covered, pack, unpack
from keyhole.zeros.cover import count_union, cover_complement, simplify
from keyhole.zeros.rule_files import Rule
from keyhole.zeros.zeros import Zeros

EXPLAIN_LIMIT = 40  # above this number of overlapping rules, no minimal set that covers a redundant rule is sought


@dataclass(frozen=True, eq=False)
class Contradictions:
    """The records that contradict the rules.

    records: their positions in `Microdata.cell`, from 0; rows: their input rows, from 1; both ascending.
    rules: the rules concerned, each with the rows that contradict it, from 1; with blanks a record may contradict
    several rules together but none alone.
    """

    records: NDArray[np.int64]
    rows: NDArray[np.int64]
    rules: tuple[tuple[Rule, NDArray[np.int64]], ...]


def find_contradictions(zeros: Zeros, microdata: Microdata) -> Contradictions:
    """Find the records that agree with no possible cell, and the rules that exclude them."""
    cells, cell_of_record = microdata.cells, microdata.cell
    everything = simplify(zeros.grid, [box for rule in zeros.rules for box in rule.boxes])
    suspect = _impossible(zeros.grid, everything, cells, pack(zeros.grid, zeros.possible))
    input_row = microdata.record_row + 1
    records = np.flatnonzero(suspect[cell_of_record])
    rules = []
    if len(records):
        place = np.cumsum(suspect) - 1
        suspect_of_record = place[cell_of_record[records]]
        suspect_cells = np.asfortranarray(cells[suspect])
        for rule in zeros.rules:
            hit = _impossible(zeros.grid, rule.boxes, suspect_cells)
            if hit.any():
                rules.append((rule, np.unique(input_row[records[hit[suspect_of_record]]])))
    return Contradictions(records, np.unique(input_row[records]), tuple(rules))


def describe_contradictions(contradictions: Contradictions, limit: int = 10) -> str:
    """Summarise on one line which rows contradict which rules, the first few of each."""
    parts = [f"{rule.name} ({rule.source}): {_list_rows(rows, limit)}" for rule, rows in contradictions.rules[:limit]]
    more = len(contradictions.rules) - limit
    if more > 0:
        parts.append(f"and {plural(more, 'more rule')}")
    alone = np.setdiff1d(contradictions.rows, np.concatenate([[0], *(rows for _, rows in contradictions.rules)]))
    if len(alone):
        parts.append(f"several rules together: {_list_rows(alone, limit)}")
    total = len(contradictions.rows)
    return f"{plural(total, 'record')} contradict{'s' if total == 1 else ''} the rules: {'; '.join(parts)}"


def _impossible(
    grid: Grid, boxes: Sequence[Box], cells: NDArray[np.int32], outside: Sequence[Box] | None = None
) -> NDArray[np.bool_]:
    """Mark the cells in the boxes, bool (cells,); one with blanks is in them if every way to fill it is."""
    if not boxes:
        return np.zeros(len(cells), dtype=np.bool_)
    if cells.size and cells.min() < 0:
        return ~_agrees(grid, cover_complement(grid, boxes) if outside is None else outside, cells, blank=1)
    return _agrees(grid, boxes, cells, blank=0)


def _agrees(grid: Grid, boxes: Sequence[Box], cells: NDArray[np.int32], blank: int) -> NDArray[np.bool_]:
    """Mark the cells that meet a box; `blank` is whether code -1 does."""
    start = np.concatenate([[0], np.cumsum(grid.levels)])
    found = np.zeros(len(cells), dtype=np.bool_)
    for box, row in zip(boxes, unpack(grid, boxes), strict=True):
        inside = np.ones(len(cells), dtype=np.bool_)
        for j in fixed_variables(grid, box):
            admitted = np.append(row[start[j] : start[j + 1]], blank).astype(np.bool_)
            inside &= admitted[cells[:, j]]  # code -1 selects the last entry
        found |= inside
    return found


def _list_rows(rows: NDArray[np.int64], limit: int) -> str:
    return f"row{'s' if len(rows) != 1 else ''} {first_few(rows.tolist(), limit)}"


@dataclass(frozen=True, eq=False)
class RuleCheck:
    """One rule: its words, its share of the table, whether others imply it, and the rows that contradict it.

    redundant: whether the rules not marked redundant exclude all its cells; covered_by: those that do.
    rows: input rows that contradict it, counted from 1.
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


def check_zeros(zeros: Zeros, microdata: Microdata) -> tuple[tuple[RuleCheck, ...], NDArray[np.int64]]:
    """Check each rule against the table, the other rules and the records; return the rows that contradict any too."""
    contradictions = find_contradictions(zeros, microdata)
    rows = {rule.name: rows for rule, rows in contradictions.rules}
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
    return tuple(checks), contradictions.rows


def find_redundant(grid: Grid, rules: Sequence[Rule]) -> dict[int, tuple[int, ...]]:
    """Map each redundant rule to those that cover it; removing all redundant rules changes no cell."""
    order = range(len(grid.levels))
    owned = [(k, box) for k, rule in enumerate(rules) for box in rule.boxes]
    redundant: dict[int, tuple[int, ...]] = {}
    for i in reversed(range(len(rules))):
        near = sorted(
            {
                k
                for own in rules[i].boxes
                for k, box in owned
                if ((own & box) + grid.full) & grid.guard == grid.guard  # meets(), inlined for all pairs of boxes
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
