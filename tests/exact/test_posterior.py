"""Each kernel, and the sweep, leaves the exact posterior of a tiny data set as it is.

All seatings and labellings are enumerated with their probabilities. Chains start from that law,
independently; after the kernel they must still follow it (chi-square, level 1e-6, cells with at least 10
expected). Then chains that all start from one state must reach it.
"""

from functools import cache

import numpy as np
import pytest

from tests.exact.enumeration import (
    Case,
    Enumeration,
    chi_square_p,
    count_states,
    enumerate_case,
    make_case,
    make_learned_case,
    make_ordered_case,
)
from tests.statistical.running import run_step

LEVEL = 1e-6
DRAWS = 100_000

TWO_BY_THREE = ((0, 0, 0), (0, 1, 1))
THREE_BY_TWO = ((0, 0), (1, 1), (0, 1))
TWO_BY_FOUR = ((0, 0, 0, 1), (0, 1, 1, 1))
FIXED = {
    case.name: case
    for case in (
        make_case("2 records 3 variables", TWO_BY_THREE),
        make_case("3 records 2 variables", THREE_BY_TWO),
        make_case("2 records 4 variables", TWO_BY_FOUR),
        make_case("3 records 1 variable", ((0,), (0,), (1,)), strength=0.4),
        make_case("a missing answer", ((0, 0, 0), (0, -1, 1))),
        make_case("mixed, 2 profiles", TWO_BY_THREE, profiles=2),
        make_case("mixed, 3 profiles", THREE_BY_TWO, profiles=3),
    )
}
LEARNED = {
    case.name: case
    for case in (
        make_learned_case("hdp, 2 records 3 variables", TWO_BY_THREE),
        make_learned_case("hdp, 3 records 2 variables", THREE_BY_TWO),
        make_learned_case("hdp, 2 records 4 variables", TWO_BY_FOUR),
        make_learned_case("hdp, missing answers", ((0, -1, 1), (0, 1, -1), (-1, 1, -1))),
        make_learned_case("mixed, missing answers", ((0, -1, 1), (0, 1, 1)), profiles=2),
        make_learned_case("mixed, 2 profiles", TWO_BY_THREE, profiles=2),
        make_learned_case("mixed, 3 profiles", THREE_BY_TWO, profiles=3),
    )
}
ORDERED = ((1, 0), (2, 1), (2, 0))
ORDERED_CASES = {
    case.name: case
    for case in (
        make_ordered_case("an ordered key, 3 records", ORDERED),
        make_ordered_case("an ordered key, a category outside the order", ((0, 1), (4, 1), (3, 0))),
        make_ordered_case("an ordered key, 2 records 3 variables", ((1, 0, 1), (2, 1, 1))),
    )
}
SEATING_STEPS = ("seats", "labels")


@cache
def enumerated(case: Case) -> Enumeration:
    """The enumeration of a case, with V filled."""
    found = enumerate_case(case)
    run_step("eppf", np.random.default_rng(0), case.prior, found.pool)
    return found


def p_value(rng, found, step, times=1, draws=DRAWS, start=None):
    """Chi-square p-value of where chains end."""

    def advance(rng, prior, pool):
        if found.case.learned:
            run_step("eppf", rng, prior, pool)  # V follows alpha, which each chain has drawn
        run_step(step, rng, prior, pool, times)

    observed = count_states(rng, found, advance, draws, start)
    return chi_square_p(observed, found.probability * draws)


@pytest.mark.parametrize("step", SEATING_STEPS)
@pytest.mark.parametrize("name", FIXED)
def test_kernel_keeps_the_posterior(rng, name, step):
    assert p_value(rng, enumerated(FIXED[name]), step, times=2) > LEVEL


@pytest.mark.parametrize("name", LEARNED)
def test_sweep_keeps_the_posterior(rng, name):
    assert p_value(rng, enumerated(LEARNED[name]), "sweep") > LEVEL


@pytest.mark.parametrize("step", [*SEATING_STEPS, "layouts"])
@pytest.mark.parametrize("name", ORDERED_CASES)
def test_kernel_keeps_the_posterior_of_an_ordered_key(rng, name, step):
    """Of the seating, the partition of the tables and the layout of every row."""
    assert p_value(rng, enumerated(ORDERED_CASES[name]), step, times=2) > LEVEL


def test_sweep_keeps_the_posterior_of_an_ordered_key(rng):
    assert p_value(rng, enumerated(make_ordered_case("an ordered key, learned", ORDERED, True)), "sweep") > LEVEL


def test_wrong_strengths_of_a_tree_are_noticed(rng):
    """Negative control: with the strengths of the nodes exchanged the step for layouts must fail."""
    found = enumerate_case(ORDERED_CASES["an ordered key, 3 records"])
    found.pool.state.base_strength[:, [0, 1, 2]] = found.pool.state.base_strength[:, [2, 0, 1]] * 0.3
    run_step("eppf", rng, found.case.prior, found.pool)
    assert p_value(rng, found, "layouts", times=2) < LEVEL


@pytest.mark.parametrize(
    "name", ["hdp, 2 records 3 variables", pytest.param("mixed, 3 profiles", marks=pytest.mark.long)]
)
def test_sweep_finds_the_posterior(rng, name):
    """From the state with everything at one table and one profile; 40 sweeps forget it."""
    found = enumerated(LEARNED[name])
    assert p_value(rng, found, "sweep", times=40, draws=5_000, start=0) > LEVEL


@pytest.mark.parametrize("step", SEATING_STEPS)
def test_a_wrong_number_is_noticed(rng, step):
    """Negative control: the same kernels with another gamma and other concentrations must fail."""
    found = enumerate_case(FIXED["2 records 3 variables"])
    found.pool.state.weight_concentration[:] *= 1.5
    found.pool.state.record_concentration[:, 0] *= 1.5
    run_step("eppf", rng, found.case.prior, found.pool)
    assert p_value(rng, found, step, times=2) < LEVEL
