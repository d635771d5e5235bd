"""The article's algorithm as benchmarks/article has it: its pieces against plain counts, its steps against the joint.

The joint test shows that the harness passes right steps and catches wrong ones; |z| above 5 is chance in 6e-7.
"""

import numpy as np
import pytest
from benchmarks.article import joint, parametric, published
from benchmarks.article.risk import cell_probabilities, estimate, find_uniques, simulate_tau1
from benchmarks.article.state import (
    Imputed,
    count_seats,
    draw_dirichlet,
    draw_from_prior,
    draw_people,
    draw_tables,
    draw_world,
    start_state,
)
from benchmarks.article.steps import count_answers, run_sweep
from benchmarks.article.zeros import expand_boxes, fast_step_9, run_sweep_with_zeros, step_7, step_8, step_9

LEVELS = (2, 3, 2)


def check_whole(state):
    """Weights sum to one, every answer has a profile, no profile is empty."""
    np.testing.assert_allclose(state.g0.sum(), 1.0)
    np.testing.assert_allclose(state.g.sum(axis=1), 1.0)
    for theta in state.theta:
        np.testing.assert_allclose(theta.sum(axis=1), 1.0)
        assert len(theta) == state.profiles + 1
    assert state.z.min() == 1
    used = np.unique(state.z)
    if state.imputed is not None:
        used = np.union1d(used, np.unique(state.imputed.z))
    assert set(used) == set(range(1, state.profiles + 1))


def test_tiny_shapes_do_not_break_dirichlet_draws(rng):
    draws = draw_dirichlet(rng, np.full((2_000, 3), [1e-6, 2.0, 1.0]))
    assert np.isfinite(draws).all()
    error = draws[:, 1].std() / np.sqrt(len(draws))
    assert abs(draws[:, 1].mean() - 2.0 / 3.0) < 4.5 * error


def test_tables_have_the_mean_of_a_restaurant(rng):
    tables = draw_tables(rng, np.full(20_000, 4), np.full(20_000, 1.5))
    expected = sum(1.5 / (1.5 + seat) for seat in range(4))
    assert abs(tables.mean() - expected) < 4.5 * tables.std() / np.sqrt(len(tables))
    assert tables.min() >= 1
    assert not draw_tables(rng, np.zeros(3, np.int64), np.ones(3)).any()


def test_prior_draws_agree_with_themselves(rng):
    state = draw_from_prior(rng, 30, LEVELS)
    check_whole(state)
    seats = count_seats(state.z, state.profiles)
    assert ((state.m > 0) == (seats > 0)).all()
    assert (state.m <= seats).all()
    counts = count_answers(state.x, state.z, LEVELS, state.profiles)
    assert all(count.sum() == 30 for count in counts)


def test_sweeps_keep_the_state_whole(rng):
    x = draw_from_prior(rng, 40, LEVELS).x
    state = start_state(rng, x, LEVELS, 5)
    for _ in range(20):
        run_sweep(rng, state)
        check_whole(state)
    assert (state.x == x).all()


@pytest.mark.parametrize("fast", [False, True])
def test_sweeps_with_zeros_keep_the_state_whole(rng, fast):
    state = joint.draw_with_zeros(rng, 20)
    assert state is not None
    for _ in range(10):
        run_sweep_with_zeros(rng, state, joint.CONDITIONS, fast, draws=50)
        check_whole(state)


def test_condition_probabilities_are_those_of_simulated_people(rng):
    """Step 7 against people drawn from the same world; the world has no remainder to speak of."""
    world = draw_world(rng, LEVELS)
    people = draw_people(rng, world, 40_000)
    state = joint.make_state(rng, world, people, np.arange(200))
    p = step_7(rng, state, joint.CONDITIONS, draws=40_000)
    for condition, chance in zip(joint.CONDITIONS, p, strict=True):
        share = np.all([people.x[:, j] == x for j, x in condition.items()], axis=0).mean()
        # Both are means of 40,000 draws in [0, 1]; profiles that 200 records lack weigh little.
        assert abs(share - chance) < 4.5 * np.sqrt(2 * 0.25 / 40_000) + state.g0[0]


def test_imputed_people_are_impossible_and_as_many_as_the_negative_binomial_says(rng):
    state = joint.draw_with_zeros(rng, 20)
    p = np.array([0.2, 0.1])
    totals = np.array([step_8(rng, state, p).sum() for _ in range(4_000)])
    assert abs(totals.mean() - 20 * 0.3 / 0.7) < 4.5 * totals.std() / np.sqrt(len(totals))
    step_9(rng, state, joint.CONDITIONS, np.array([4, 3]))
    assert (state.imputed.x[:4, :2] == 0).all()
    assert (state.imputed.x[4:, [0, 2]] == 1).all()


def test_fast_step_gives_free_answers_in_full_and_fixed_ones_divided(rng):
    """The printed formula divides by n_j where the category is fixed too: half of the answers of two categories."""
    state = joint.draw_with_zeros(rng, 20)
    fast_step_9(rng, state, [{0: 0, 1: 0}], np.array([12]), draws=200)
    remainder = state.g0[0]
    first, second, third = (count.sum() for count in state.imputed.answers)
    assert first <= 12 / 2
    assert second <= 12 / 3
    assert third == pytest.approx(12, rel=0.5 + remainder)


def test_exponent_with_zeros(rng):
    state = draw_from_prior(rng, 5, LEVELS)
    chance = np.array([0.01, 0.2])
    plain = estimate(state, chance, 50)
    assert plain[0] == pytest.approx(((1 - chance) ** 50).sum())
    assert plain[1] == pytest.approx(((1 - (1 - chance) ** 51) / (51 * chance)).sum())
    nobody = np.zeros((0, 3), np.int64)
    state.imputed = Imputed(nobody, nobody, p=np.array([0.3, 0.2]))
    assert estimate(state, chance, 50)[0] == pytest.approx(((1 - chance) ** 100).sum())


def test_both_estimates_of_tau1_agree(rng):
    state = draw_from_prior(rng, 60, LEVELS)
    cells = find_uniques(state.x)
    assert len(cells), "the seed of this test must give a sample unique"
    by_formula = np.array([estimate(state, cell_probabilities(rng, state, cells, 2_000), 40)[0] for _ in range(20)])
    counted = np.array([simulate_tau1(rng, state, cells, 40) for _ in range(1_000)])
    error = np.hypot(counted.std() / np.sqrt(1_000), by_formula.std() / np.sqrt(20))
    assert abs(counted.mean() - by_formula.mean()) < 4.5 * error + 1e-9


def test_boxes_become_conditions_with_one_category_each():
    box = np.array([[1, 0, 1, 1, 0, 1, 1]], np.uint8)
    assert list(expand_boxes(box, LEVELS)) == [{0: 0, 1: 0}, {0: 0, 1: 1}]


@pytest.mark.parametrize("step", ["2 repaired", "3", "4", "5", "6, then 3 and 4"])
def test_right_steps_stay(step):
    moved = joint.try_step(joint.STEPS[step], 300, 1)
    assert abs(moved[0].z) < joint.SURE, moved[0]


def test_the_printed_step_2_leaves_the_posterior():
    moved = joint.try_step(joint.STEPS["2 as printed"], 300, 1)
    assert abs(moved[0].z) > joint.SURE


def test_held_out_records_are_a_tenth(tiny_codes):
    import polars as pl

    frame = pl.DataFrame(np.repeat(tiny_codes, 10, axis=0))
    fitted, held = parametric.split_records(frame)
    assert (fitted.height, held.height) == (54, 6)
    assert pl.concat([fitted, held]).sort(frame.columns).equals(frame.sort(frame.columns))


def test_published_tables_are_whole():
    assert published.TRUTH["ny_full", 10000] == 88
    assert str(published.SYNTHETIC[1000][1]) == "6.79 ± 1.55, 1.49 h"


@pytest.mark.long
@pytest.mark.parametrize("step", ["1 repaired", "1 to 6 repaired", *("2 repaired", "3", "4", "5", "6, then 3 and 4")])
def test_right_steps_stay_with_many_draws(step):
    moved = joint.try_step(joint.STEPS[step], 8_000, 2)
    assert abs(moved[0].z) < joint.SURE, moved[0]


@pytest.mark.long
@pytest.mark.parametrize("step", ["1 as printed", "2 as printed", "6", "1 to 6 as printed"])
def test_wrong_steps_leave_with_many_draws(step):
    moved = joint.try_step(joint.STEPS[step], 8_000, 2)
    assert abs(moved[0].z) > joint.SURE, moved[0]


@pytest.mark.long
def test_the_fast_step_9_leaves_the_posterior():
    moved, _ = joint.try_imputation(True, 4_000, 2)
    assert abs(moved[0].z) > joint.SURE
