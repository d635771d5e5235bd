"""Boxes against enumeration of the full table: same cells, disjoint, nothing lost."""

import csv
import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyhole.data import Variable
from keyhole.errors import RulesError
from keyhole.zeros import list_boxes, read_zeros
from keyhole.zeros.boxes import (
    Box,
    Grid,
    absorb,
    confine,
    contains,
    count_cells,
    is_covered,
    is_empty,
    make_grid,
    meets,
    merge,
    pack,
    partition,
    subtract,
    unpack,
)
from keyhole.zeros.cover import count_union, cover_complement, cover_union, simplify
from tests.oracle import boxes as oracle

CASES = settings(max_examples=300)
DATA = Path("/work/shared/data")


@st.composite
def rule_sets(draw: st.DrawFn, most: int = 7):
    """Levels, and rules as one set of categories for some of the variables."""
    levels = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    rules = draw(
        st.lists(
            st.dictionaries(st.integers(0, len(levels) - 1), st.integers(1, 15), max_size=len(levels)),
            max_size=most,
        )
    )
    sets = [{j: {x for x in range(levels[j]) if bits >> x & 1} or {0} for j, bits in rule.items()} for rule in rules]
    return levels, sets


def to_box(grid: Grid, rule: dict[int, set[int]]) -> Box:
    box = grid.full
    for j, categories in rule.items():
        box &= confine(grid, j, categories)
    return box


def to_condition(rule: dict[int, set[int]]):
    return ("and", [("is", j, categories) for j, categories in rule.items()])


def cells_of(grid: Grid, boxes: list[Box]):
    return oracle.cells_of_rows(grid.levels, unpack(grid, boxes).tolist())


@CASES
@given(rule_sets())
def test_covers_hold_the_enumerated_cells_once(case) -> None:
    levels, rules = case
    grid = make_grid(levels)
    expected = oracle.impossible_cells(levels, [to_condition(rule) for rule in rules])
    boxes = [to_box(grid, rule) for rule in rules]
    inside = cells_of(grid, cover_union(grid, boxes))
    outside = cells_of(grid, cover_complement(grid, boxes))
    assert sorted(inside) == sorted(expected)
    assert sorted(outside) == sorted(set(oracle.all_cells(levels)) - expected)
    assert count_union(grid, boxes) == len(expected)


@CASES
@given(rule_sets())
def test_partition_simplify_merge_and_absorb_keep_the_union(case) -> None:
    levels, rules = case
    grid = make_grid(levels)
    expected = oracle.impossible_cells(levels, [to_condition(rule) for rule in rules])
    boxes = [to_box(grid, rule) for rule in rules]
    parts = partition(grid, boxes, range(len(levels)), 10_000)
    assert parts is not None
    assert sorted(cells_of(grid, parts[0])) == sorted(expected)
    assert sorted(cells_of(grid, parts[1])) == sorted(set(oracle.all_cells(levels)) - expected)
    for reduced in (simplify(grid, boxes), merge(grid, boxes), absorb(boxes)):
        assert set(cells_of(grid, reduced)) == expected
        assert len(reduced) <= len(boxes)


@CASES
@given(rule_sets(most=2))
def test_two_boxes(case) -> None:
    levels, rules = case
    grid = make_grid(levels)
    a, b = (to_box(grid, rule) for rule in [*rules, {}, {}][:2])
    cells_a, cells_b = set(cells_of(grid, [a])), set(cells_of(grid, [b]))
    assert meets(grid, a, b) == bool(cells_a & cells_b)
    assert contains(a, b) == (cells_b <= cells_a)
    assert count_cells(grid, a) == len(cells_a)
    assert is_covered(grid, a, [b], range(len(levels))) == (cells_a <= cells_b)
    for order in (range(len(levels)), reversed(range(len(levels)))):
        assert sorted(cells_of(grid, subtract(grid, a, b, list(order)))) == sorted(cells_a - cells_b)
    assert pack(grid, unpack(grid, [a, b])) == [a, b]


def test_nothing_everything_and_containment() -> None:
    grid = make_grid([2, 3])
    assert cover_union(grid, []) == []
    assert cover_complement(grid, []) == [grid.full]
    assert cover_union(grid, [grid.full, confine(grid, 0, [1])]) == [grid.full]
    assert cover_complement(grid, [grid.full]) == []
    # Two halves make the whole although neither is.
    assert cover_union(grid, [confine(grid, 0, [0]), confine(grid, 0, [1])]) == [grid.full]
    outer, inner = confine(grid, 1, [0, 1]), confine(grid, 1, [0]) & confine(grid, 0, [1])
    assert cover_union(grid, [inner, outer]) == [outer]
    assert is_empty(grid, confine(grid, 0, []))


def test_same_rules_same_boxes() -> None:
    grid = make_grid([3, 4, 5, 2])
    boxes = [confine(grid, 0, [0]) & confine(grid, 2, [1, 3]), confine(grid, 1, [2]), confine(grid, 3, [1])]
    assert cover_union(grid, boxes) == cover_union(grid, boxes)
    assert count_union(grid, boxes) == sum(count_cells(grid, box) for box in cover_union(grid, boxes))


def test_counts_are_exact_beyond_64_bits() -> None:
    grid = make_grid([10] * 30)
    box = confine(grid, 0, [0])
    assert count_cells(grid, box) == 10**29
    assert sum(count_cells(grid, part) for part in cover_complement(grid, [box])) == 9 * 10**29


def test_too_many_boxes_are_refused_soon() -> None:
    grid = make_grid([2] * 60)
    rules = [confine(grid, 2 * i, [0]) & confine(grid, 2 * i + 1, [0]) for i in range(30)]
    started = time.perf_counter()
    with pytest.raises(RulesError, match="more than 20,000 disjoint boxes"):
        cover_union(grid, rules)
    with pytest.raises(RulesError, match="more than 20,000"):
        count_union(grid, rules)
    assert time.perf_counter() - started < 30


def test_many_single_cells() -> None:
    grid = make_grid([5, 5, 5, 5])
    cells = [cell for cell in oracle.all_cells(grid.levels) if sum(cell) % 3]
    boxes = [to_box(grid, {j: {x} for j, x in enumerate(cell)}) for cell in cells]
    cover = cover_union(grid, boxes)
    assert sorted(cells_of(grid, cover)) == sorted(cells)
    assert len(cover) < len(cells)


@pytest.mark.skipif(not DATA.exists(), reason="the New York files are not on this machine")
def test_new_york_rules_become_few_boxes_in_under_a_second() -> None:
    book = json.loads((DATA / "ny_full_codebook.json").read_text())
    variables = [Variable(name, tuple(str(code) for code in codes)) for name, codes in book.items()]
    started = time.perf_counter()
    zeros = read_zeros(DATA / "ny_full_zeros.csv", variables)
    seconds = time.perf_counter() - started
    assert len(zeros.rules) == 60
    assert zeros.impossible_cells == 2_317_030
    assert zeros.cells == 2_566_080
    assert len(zeros.impossible) <= 29
    assert len(zeros.possible) <= 10
    assert seconds < 1
    levels = [len(variable.categories) for variable in variables]
    with (DATA / "ny_full_zeros.csv").open() as stream:
        rules = [
            ("and", [("is", j, {int(entry) - 1}) for j, entry in enumerate(row.values()) if entry])
            for row in csv.DictReader(stream)
        ]
    cells = oracle.cells_of_rows(levels, zeros.possible.tolist())
    assert len(set(cells)) == len(cells) == 2_566_080 - 2_317_030
    assert not any(oracle.holds(rule, cell) for cell in cells[::97] for rule in rules)
    assert sum(line.cells for line in list_boxes(zeros)) == 2_317_030
    assert sum(line.cells for line in list_boxes(zeros, possible=True)) == len(cells)
