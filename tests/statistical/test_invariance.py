"""Every kernel, and the whole sweep, leaves the joint law of parameters, seating and data as it is."""

import pytest

from tests.statistical.comparison import FIRST, LEVEL, STEPS, detectable_distance
from tests.statistical.invariance import SETTINGS, check_invariance
from tests.statistical.quantities import NAMES
from tests.statistical.running import run_step

KERNELS = ("seats", "labels", "weights", "profiles", "concentrations", "sweep")
ONLY_ADAPTIVE = ("base",)
ONLY_HDP = ("weight concentration",)
OF_TREES = ("layouts", "base", "profiles", "labels", "sweep")
SOME_STEPS = {"one profile": ONLY_ADAPTIVE, "hdp ordered": OF_TREES, "mixed ordered": OF_TREES[:-2]}


def steps_of(setting):
    """The kernels that do something in this setting."""
    steps = list(KERNELS)
    if setting.adaptive:
        steps += ONLY_ADAPTIVE
    if not setting.finite:
        steps += ONLY_HDP
        if not setting.adaptive:
            steps = [step for step in steps if step != "concentrations"]
    return steps


CASES = [(name, step) for name, setting in SETTINGS.items() for step in SOME_STEPS.get(name, steps_of(setting))]


# The whole sweep of the largest setting takes a tenth of the suite. Its kernels are tried one by one, and
# tests/unit/test_kernels.py shows that a sweep is its kernels in order.
DEAREST = ("hdp adaptive", "sweep")


@pytest.mark.parametrize("times", [10, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("name", "step"), [pytest.param(*case, marks=pytest.mark.long) if case == DEAREST else case for case in CASES]
)
def test_kernel_keeps_the_joint_law(rng, name, step, times):
    verdict = check_invariance(rng, SETTINGS[name], lambda g, prior, pool: run_step(step, g, prior, pool, times))
    assert verdict.passed, verdict


def shift_gamma(rng, prior, pool):
    pool.state.weight_concentration[:] *= 1.2
    run_step("weights", rng, prior, pool)


def shift_concentration(rng, prior, pool):
    pool.state.record_concentration[:, 1] *= 0.75
    run_step("eppf", rng, prior, pool)
    run_step("seats", rng, prior, pool, 3)
    pool.state.record_concentration[:, 1] /= 0.75


def forget_weights(rng, prior, pool):
    """beta before gamma: each margin is right, the pair is not."""
    run_step("weights", rng, prior, pool)
    before = pool.state.weight.copy(), pool.state.remainder.copy()
    run_step("weight concentration", rng, prior, pool)
    pool.state.weight[:], pool.state.remainder[:] = before


@pytest.mark.parametrize("wrong", [shift_gamma, shift_concentration, forget_weights])
def test_a_wrong_kernel_is_noticed(rng, wrong):
    """Negative controls."""
    assert not check_invariance(rng, SETTINGS["hdp paper"], wrong).passed


def test_power_is_what_quality_asks():
    """Distances that the comparison finds but for one time in a million."""
    assert detectable_distance(5_000, 14) == pytest.approx(0.112, abs=5e-4)
    assert detectable_distance(50_000, 14) == pytest.approx(0.036, abs=5e-4)
    assert detectable_distance(500_000, 14) == pytest.approx(0.011, abs=5e-4)
    assert detectable_distance(FIRST, len(NAMES)) < 0.115
    assert pytest.approx(0.105, abs=5e-4) == (LEVEL / STEPS) ** (1 / STEPS)
    assert len(NAMES) >= 14
