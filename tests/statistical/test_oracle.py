"""The judges agree with each other: franchise and sticks, plain and compiled prior, plain Gibbs and prior."""

import copy
import itertools
import math

import numpy as np
import pytest

from tests.oracle import run_plain_sweep
from tests.oracle.model import (
    Draw,
    Hyper,
    Model,
    draw_from_prior,
    enumerate_seatings,
    log_joint,
    log_profile_likelihood,
    seating_weight,
    set_partitions,
)
from tests.statistical.comparison import compare, p_values
from tests.statistical.invariance import SETTINGS, draw_pool

LEVEL = 1e-6
NAMES = (
    "profiles",
    "tables",
    "log gamma",
    "remainder",
    "squares",
    "within",
    "across",
    "first x last",
    "x",
    "y",
)


def measure_draw(draw: Draw, model: Model) -> list[float]:
    """A few of the quantities, from the plain state."""
    labels = [[0] * len(model.levels) for _ in draw.records]
    for i, tables in enumerate(draw.records):
        for label, variables in tables:
            for j in variables:
                labels[i][j] = label
    flat = [label for row in labels for label in row]
    within = sum(a == b for row in labels for a, b in itertools.combinations(row, 2))
    pairs = sum(a == b for a, b in itertools.combinations(flat, 2))
    gamma = 0.0 if model.finite else math.log(draw.hyper.gamma)
    tables = sum(len(record) for record in draw.records)
    equal = sum(a[0] == b[0] for a, b in itertools.combinations(draw.data, 2))
    mean = draw.hyper.alpha if model.finite else draw.hyper.record[0] / draw.hyper.record[1]
    return [
        len(set(flat)),
        tables,
        gamma,
        draw.remainder,
        sum(draw.weight[k] ** 2 for k in set(flat)),
        within,
        pairs - within,
        float(flat[0] == flat[-1]),
        math.log(draw.hyper.strength[0]) * equal,
        math.log(mean) * tables + gamma * draw.remainder,
    ]


def measure_state(state, level) -> list[float]:
    """The same quantities of one replicate of a pool, through a plain state."""
    start = (0, 2, 5, 7)
    records = []
    for i in range(4):
        seats = [[j for j in range(3) if state.seat[i, j] == t] for t in range(state.table_total[i])]
        records.append([(int(state.table_label[i, t]), tuple(s)) for t, s in enumerate(seats)])
    hyper = Hyper(
        state.weight_concentration[0],
        tuple(state.record_concentration),
        state.shared_concentration[0],
        list(state.base_strength),
        [state.base_level[start[j] : start[j + 1]] for j in range(3)],
    )
    weight = list(state.weight[: state.profile_total[0]])
    data = [[int(v - start[j]) for j, v in enumerate(row)] for row in level]
    return measure_draw(Draw(hyper, records, weight, state.remainder[0], [], data), MODELS["hdp adaptive"])


MODELS = {
    name: Model((2, 3, 2), setting.finite, setting.adaptive, setting.profiles)
    for name, setting in SETTINGS.items()
    if setting.levels == (2, 3, 2)
}


@pytest.mark.parametrize("name", ["hdp paper", "hdp adaptive"])
def test_franchise_and_sticks_are_one_law(rng, name):
    model = MODELS[name]

    def draw(step, size):
        return tuple(
            np.array([measure_draw(draw_from_prior(rng, model, 4, sticks), model) for _ in range(size)])
            for sticks in (False, True)
        )

    verdict = compare(draw, NAMES, first=2_000)
    assert verdict.passed, verdict


@pytest.mark.parametrize("name", MODELS)
def test_compiled_prior_follows_the_plain_one(rng, name):
    model = MODELS[name]

    def draw(step, size):
        plain = [measure_draw(draw_from_prior(rng, model, 4), model) for _ in range(size)]
        pool = draw_pool(SETTINGS[name], size, int(rng.integers(2**62)))
        fields = zip(*pool.state, strict=True)
        other = [measure_state(type(pool.state)(*f), level) for f, level in zip(fields, pool.level, strict=True)]
        if model.finite:
            for row in other:
                row[2] = 0.0
            columns = [0, 1, 4, 5, 6, 7, 8]
            return np.array(plain)[:, columns], np.array(other)[:, columns]
        return np.array(plain), np.array(other)

    names = tuple(NAMES[c] for c in (0, 1, 4, 5, 6, 7, 8)) if model.finite else NAMES
    verdict = compare(draw, names, first=2_000)
    assert verdict.passed, verdict


@pytest.mark.parametrize("name", ["hdp paper", "mixed adaptive"])
def test_plain_sweep_keeps_the_joint_law(rng, name):
    model = MODELS[name]

    def draw(step, size):
        fresh = [measure_draw(draw_from_prior(rng, model, 4), model) for _ in range(size)]
        moved = []
        for _ in range(size):
            state = draw_from_prior(rng, model, 4)
            run_plain_sweep(rng, state, model)
            moved.append(measure_draw(state, model))
        return np.array(fresh), np.array(moved)

    verdict = compare(draw, NAMES, first=2_000)
    assert verdict.passed, verdict


def test_another_prior_is_noticed(rng):
    """Negative control: the two priors of `hdp` differ at 2,000 draws."""
    one, other = MODELS["hdp paper"], MODELS["hdp adaptive"]
    samples = [np.array([measure_draw(draw_from_prior(rng, m, 4), m) for _ in range(2_000)]) for m in (one, other)]
    assert p_values(*samples).min() * len(NAMES) < LEVEL


def test_joint_density_sums_to_one():
    """Over all data sets of 2 records and 2 variables, and all states."""
    base = [np.array([0.3, 0.7]), np.array([0.6, 0.4])]
    hyper = Hyper(gamma=1.3, record=(1.7, 0.9), alpha=1.6, strength=[0.8, 2.1], base=base)
    cells = list(itertools.product(range(2), range(2)))
    for model in (Model((2, 2)), Model((2, 2), finite=True, profiles=3)):
        total = sum(
            math.exp(log_joint(eppf, data, hyper, model))
            for data in itertools.product(cells, repeat=2)
            for eppf in enumerate_seatings(data)
        )
        assert total == pytest.approx(1.0, rel=1e-10)


def test_enumeration_has_the_known_sizes():
    """Bell numbers, and answers partitioned into tables and tables into profiles."""
    assert [len(list(set_partitions(range(size)))) for size in range(9)] == [
        1,
        1,
        2,
        5,
        15,
        52,
        203,
        877,
        4140,
    ]
    assert len(list(enumerate_seatings([[0, 0, 0], [0, 0, 0]]))) == 712


def test_seating_weights_follow_their_recursion():
    """V(f, m) = f V(f + 1, m) + V(f + 1, m + 1), for concentrations of all sizes."""
    for a, b in [(2.0, 1.0), (0.05, 3.0), (0.05, 0.001), (20.0, 0.01), (1.0, 1e-4)]:
        for f, m in [(1, 1), (3, 2), (5, 5)]:
            right = f * math.exp(seating_weight(f + 1, m, a, b)) + math.exp(seating_weight(f + 1, m + 1, a, b))
            assert math.exp(seating_weight(f, m, a, b)) == pytest.approx(right, rel=1e-9)


def test_likelihood_does_not_depend_on_the_order(rng):
    hyper = Hyper(1.0, (2.0, 1.0), 1.0, [0.7, 2.0], [np.array([0.2, 0.8]), np.array([0.5, 0.3, 0.2])])
    answers = [(0, 1), (1, 2), (0, 1), (0, 0), (1, 2)]
    other = copy.copy(answers)
    rng.shuffle(other)
    assert log_profile_likelihood(answers, hyper) == pytest.approx(log_profile_likelihood(other, hyper))
