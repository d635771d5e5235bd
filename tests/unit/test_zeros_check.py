"""Rules against the table, against each other and against the records."""

import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyhole.data import Microdata, Variable, find_cells
from keyhole.zeros import check_zeros, describe_contradictions, find_contradictions
from keyhole.zeros.boxes import confine, make_grid
from keyhole.zeros.rule_files import Rule, make_rule
from keyhole.zeros.vocabulary import make_vocabulary
from keyhole.zeros.zeros import Zeros, make_zeros
from tests.oracle import boxes as oracle

CASES = settings(max_examples=200)
LEVELS = (2, 3, 3)
VARIABLES = tuple(Variable(f"V{j}", tuple(str(x) for x in range(size))) for j, size in enumerate(LEVELS))


def make_data(codes, used=None) -> Microdata:
    codes = np.array(codes, dtype=np.int32).reshape(-1, len(LEVELS))
    used = np.ones(len(codes), dtype=np.bool_) if used is None else np.array(used, dtype=np.bool_)
    return Microdata(VARIABLES, *find_cells(codes.T, len(codes)), len(used), used, (), "")


def rules_from(rules) -> Zeros:
    """Zeros from rules that are lists of boxes, a box a mapping of variables to categories."""
    vocabulary = make_vocabulary(VARIABLES)
    made: list[Rule] = []
    for boxes in rules:
        packed = []
        for box in boxes:
            value = vocabulary.grid.full
            for j, categories in box.items():
                value &= confine(vocabulary.grid, j, categories)
            packed.append(value)
        made.append(make_rule(vocabulary, f"rule {len(made) + 1}", f"line {len(made) + 2}", packed))
    return make_zeros(VARIABLES, made, vocabulary.grid)


def to_condition(boxes):
    return ("or", [("and", [("is", j, categories) for j, categories in box.items()]) for box in boxes])


one_box = st.dictionaries(st.integers(0, 2), st.sets(st.integers(0, 1), min_size=1), max_size=3)
rule_lists = st.lists(st.lists(one_box, max_size=2), max_size=5)
records = st.lists(st.tuples(st.integers(-1, 1), st.integers(-1, 2), st.integers(-1, 2)), max_size=12)


@CASES
@given(rule_lists, records, st.booleans())
def test_check_agrees_with_enumeration(rules, rows, with_blanks: bool) -> None:
    rows = rows if with_blanks else [tuple(abs(answer) for answer in row) for row in rows]
    zeros = rules_from(rules)
    checks, found = check_zeros(zeros, make_data(rows))
    conditions = [to_condition(boxes) for boxes in rules]

    def contradicting(chosen):
        return [
            row
            for row, record in enumerate(rows, start=1)
            if all(any(oracle.holds(c, cell) for c in chosen) for cell in oracle.fillings(LEVELS, record))
        ]

    assert found.tolist() == contradicting(conditions)
    redundant = oracle.redundant_rules(LEVELS, conditions)
    for i, (rule, condition) in enumerate(zip(checks, conditions, strict=True)):
        own = oracle.impossible_cells(LEVELS, [condition])
        assert rule.cells == len(own)
        assert rule.share == pytest.approx(len(own) / 18)
        assert rule.rows.tolist() == contradicting([condition])
        assert rule.redundant == (i in redundant)
        names = {f"rule {k + 1}": c for k, c in enumerate(conditions)}
        assert not rule.redundant or own <= oracle.impossible_cells(LEVELS, [names[n] for n in rule.covered_by])
    assert zeros.impossible_cells == len(oracle.impossible_cells(LEVELS, conditions))


def test_of_two_equal_rules_the_second_is_redundant() -> None:
    checks, _ = check_zeros(rules_from([[{0: {1}}], [{0: {1}}], [{0: {1}, 1: {2}}], [{1: {0}}]]), make_data([]))
    assert [rule.redundant for rule in checks] == [False, True, True, False]
    assert checks[2].covered_by == ("rule 1",)


def test_rows_are_those_of_the_input() -> None:
    zeros = rules_from([[{0: {1}}], [{1: {2}}]])
    data = make_data([(0, 0, 0), (1, 2, 0), (0, 2, 1)], used=[False, True, True, False, True])
    found = find_contradictions(zeros, data)
    assert found.records.tolist() == [1, 2]
    assert found.rows.tolist() == [3, 5]
    assert [(rule.name, rows.tolist()) for rule, rows in found.rules] == [("rule 1", [3]), ("rule 2", [3, 5])]
    assert describe_contradictions(found) == (
        "2 records contradict the rules: rule 1 (line 2): row 3; rule 2 (line 3): rows 3, 5"
    )
    assert describe_contradictions(found, limit=1) == (
        "2 records contradict the rules: rule 1 (line 2): row 3; and 1 more rule"
    )


def test_blanks_may_contradict_rules_only_together() -> None:
    zeros = rules_from([[{0: {0}, 1: {0}}], [{0: {1}, 1: {0}}]])
    found = find_contradictions(zeros, make_data([(-1, 0, 0), (-1, 1, 0)]))
    assert found.rows.tolist() == [1]
    assert found.rules == ()
    assert describe_contradictions(found) == "1 record contradicts the rules: several rules together: row 1"


def test_a_million_records(rng: np.random.Generator) -> None:
    zeros = rules_from([[{0: {1}, 1: {j}}] for j in range(3)])
    codes = np.stack([rng.integers(0, size, 1_000_000) for size in LEVELS], axis=1)
    started = time.perf_counter()
    _, rows = check_zeros(zeros, make_data(codes))
    assert time.perf_counter() - started < 10
    assert len(rows) == (codes[:, 0] == 1).sum()


def test_tables_beyond_64_bits(tmp_path: Path) -> None:
    variables = tuple(Variable(f"V{j}", tuple(str(x) for x in range(10))) for j in range(30))
    grid = make_grid([10] * 30)
    box = confine(grid, 7, [3]) & confine(grid, 20, [1, 2])
    zeros = make_zeros(variables, [Rule("rule 1", "line 2", "", "", (box,))], grid)
    codes = np.zeros((3, 30), dtype=np.int32)
    codes[1, [7, 20]] = 3, 2
    data = Microdata(variables, *find_cells(codes.T, 3), 3, np.ones(3, dtype=np.bool_), (), "")
    found = find_contradictions(zeros, data)
    assert found.rows.tolist() == [2]
    assert zeros.impossible_cells == 2 * 10**28
