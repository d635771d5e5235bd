"""Chains of `hdp` and `mixed` start from the labels that `classes` finds, in states that differ widely."""

import numpy as np
import pytest

from keyhole.kernels.classes import Cells
from keyhole.kernels.state import Records
from keyhole.sampling import run_chains
from keyhole.sampling.chain import find_position, run_block, start_chain
from keyhole.sampling.problem import make_problem
from keyhole.sampling.start import (
    START_MEANS,
    START_SWEEPS,
    VISITING_START_SWEEPS,
    count_start_sweeps,
    empty_state,
)
from keyhole.settings import make_settings
from keyhole.zeros.boxes import confine, make_grid
from keyhole.zeros.rule_files import Rule
from keyhole.zeros.zeros import make_zeros
from tests.unit.short_runs import SHORT, SIZES, make_data


def make_rules():
    """Two cells that no record of the short file has."""
    grid = make_grid(SIZES.tolist())
    boxes = [
        confine(grid, 0, [2]) & confine(grid, 1, [2]) & confine(grid, 2, [0]),
        confine(grid, 0, [2]) & confine(grid, 1, [3]) & confine(grid, 2, [1]),
    ]
    return make_zeros((), [Rule(f"rule {x}", f"line {x}", "", "", (box,)) for x, box in enumerate(boxes)], grid)


def pose(records=None, rules=None, **options):
    found, unique, population = make_data()
    return make_problem(records or found, unique, population, make_settings(**SHORT | options), rules)


def start(problem, number=0, profiles=5):
    return find_position(start_chain(number, profiles, np.random.SeedSequence(7), problem))


@pytest.mark.parametrize("rules", [None, make_rules()], ids=["no rules", "rules"])
@pytest.mark.parametrize("model", ["hdp", "mixed"])
def test_each_record_sits_at_one_table_and_equal_records_are_neighbours(model, rules):
    problem = pose(model=model, rules=rules)
    state = start(problem).state
    assert (state.table_total == 1).all()
    assert (state.table_label[:, 0] < state.profile_total[0]).all()
    level = problem.records.level
    assert np.array_equal(np.repeat(problem.distinct.level, problem.distinct.size, axis=0), level)
    assert np.array_equal(level, level[np.lexsort(level.T[::-1])])


def test_profiles_found_by_classes_tell_records_apart():
    """Two kinds of people who share no answer have no profile in common at the start."""
    level = np.array([[0, 2, 4]] * 40 + [[1, 3, 5]] * 40, np.int32)
    records = Records(level, np.full(80, 3), np.array([0, 2, 4, 6]))
    for number, profiles in enumerate((1, 5, 20, 100)):
        problem = make_problem(records, np.zeros(0, np.int64), 1000, make_settings(**SHORT), None)
        state = start(problem, number, profiles).state
        first = problem.records.level[:, 0] == 0
        assert not set(state.table_label[first, 0]) & set(state.table_label[~first, 0])


@pytest.mark.parametrize("rules", [None, make_rules()], ids=["no rules", "rules"])
@pytest.mark.parametrize("model", ["hdp", "mixed"])
def test_paper_fixes_what_the_start_has_learned(model, rules):
    problem = pose(model=model, prior="paper", rules=rules)
    fixed = empty_state(problem.records, problem.prior, 8)
    names = ["base_strength", "base_level", *([] if model == "mixed" else ["record_concentration"])]
    position = start(problem)
    for _ in range(3):
        assert all(np.array_equal(getattr(position.state, name), getattr(fixed, name)) for name in names)
        position = run_block(problem, position, 100, (1, 1), 0.0).position


def test_chains_start_with_concentrations_far_apart():
    problem = pose()
    shapes = [start(problem, number).state.record_concentration for number in range(5)]
    assert [shape[0] / shape[1] for shape in shapes] == pytest.approx([*START_MEANS, START_MEANS[0]])


def test_more_labels_than_profiles_of_mixed_share_them():
    """Three kinds of people who share no answer have three labels."""
    level = np.repeat(np.array([[0, 3, 6], [1, 4, 7], [2, 5, 8]], np.int32), 30, axis=0)
    records = Records(level, np.full(90, 3), np.array([0, 3, 6, 9]))
    problem = make_problem(
        records, np.zeros(0, np.int64), 1000, make_settings(**SHORT, model="mixed", profiles=2), None
    )
    state = start(problem, profiles=2).state
    assert set(state.table_label[:, 0]) == {0, 1}
    assert state.profile_total[0] == 2


def test_large_files_have_a_shorter_start():
    def sized(cells):
        return Cells(np.zeros((cells, 10), np.int32), np.ones(cells, np.int64), np.arange(11))

    prior, ruled = pose().prior, pose(rules=make_rules()).prior
    sweeps = [count_start_sweeps(sized(n), prior) for n in (8_000, 20_000, 40_000, 100_000, 1_000_000)]
    assert sweeps == [VISITING_START_SWEEPS, START_SWEEPS, 200, 80, 20]
    assert count_start_sweeps(sized(8_000), ruled) == START_SWEEPS


def test_missing_answers_have_a_seat_under_rules_from_the_start():
    records, _, _ = make_data()
    level = records.level.copy()
    level[::4, 1] = -1
    problem = pose(Records(level, (level >= 0).sum(axis=1), records.level_start), make_rules())
    state = start(problem).state
    assert state.table_size.sum() == level.size
    used = int(state.profile_total[0])
    assert np.allclose(np.add.reduceat(state.level_profile[:, :used], records.level_start[:-1]), 1.0)


def test_the_trace_counts_the_sweeps_of_the_start():
    assert run_chains(*make_data(), make_settings(**SHORT)).start_sweeps == VISITING_START_SWEEPS
    assert run_chains(*make_data(), make_settings(**SHORT, model="classes")).start_sweeps == 0
