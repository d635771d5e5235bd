"""Chains of `classes` on tiny files reach the exact posterior (classes_enumeration.py).

A chain is compared with enumeration in partitions of the records, probabilities of all possible cells, tau1 and tau2,
and the learned hyperparameters: the errors of its means in units of their own Monte Carlo errors, by batches. With
rules and everything learned there is no enumeration, so the means are those of weighted draws from the prior.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from unittest.mock import patch

import numpy as np
import pytest
from numpy.typing import NDArray

from keyhole.kernels.state import Prior, Trees
from keyhole.sampling import shards
from keyhole.sampling.classes import NO_LABELS, count_distinct, freeze_classes, start_classes
from keyhole.sampling.events import describe_cells
from keyhole.sampling.predict import measure, predict
from tests.exact.classes_enumeration import CASES, CORNER, LEARNED, ClassesCase, learned_answers, learned_risk, solve
from tests.exact.test_classes_oracle import weigh
from tests.oracle.classes_oracle import LearnedPosterior, OrderedPosterior, make_hyper, possible_cells
from tests.oracle.model import Hyper
from tests.oracle.risk import sample_uniques
from tests.statistical.classes_bench import FEW, as_levels, make_prior
from tests.statistical.classes_labels import sweep_labelled

FAR = 4.5
BATCHES = 100
SWEEPS = 3_000
LONG_SWEEPS = 200_000
WEIGHTED = 20_000
BURN_IN = 200
EVERY = 4
EVERYBODY = 1e4
"""People for whom sticks are broken: what is left of the weight is then a millionth."""

FIXED = [name for name, case in CASES.items() if case.learned != "lambda"]
UNDER_RULES = {
    "a corner is impossible": ((0, 1), (1, 0), (1, 0), (1, 1)),
    "missing answers": ((0, -1), (1, 0), (1, -1), (-1, 1)),
}


@dataclass(frozen=True)
class Found:
    """What a chain gives, row by row: partitions of every sweep, the others of every EVERY-th."""

    partition: list[tuple]
    predictive: NDArray[np.float64]
    risk: NDArray[np.float64]
    log_hyper: NDArray[np.float64]


def name_partition(size: NDArray[np.int64]) -> tuple:
    """One name for all partitions that differ in which of equal records is where. size: (cells, profiles)."""
    return tuple(sorted(map(tuple, size.T.tolist())))


def partition_shares(data, labels, probability) -> dict[tuple, float]:
    """The exact probability of every name, from growth strings and their probabilities."""
    cells = sorted(set(data))
    row = [cells.index(record) for record in data]
    shares: Counter = Counter()
    for label, p in zip(labels, probability, strict=True):
        size = np.zeros((len(cells), max(label) + 1), int)
        np.add.at(size, (row, label), 1)
        shares[name_partition(size)] += p
    return dict(shares)


def run_chain(
    rng,
    data: Sequence,
    levels: Sequence[int],
    rules,
    prior: Prior,
    others: int,
    sweeps: int,
    hyper: Hyper | None = None,
    visited: bool = False,
) -> Found:
    """Run a chain from a start of keyhole; predict all possible cells and the risk of the sample uniques.

    hyper: lambda and pi that stay as they are. visited: records are visited, in place of the slice.
    """
    start = np.concatenate([[0], np.cumsum(levels)]).astype(np.int64)
    order, cells = count_distinct(as_levels(np.array(data), start), start)
    assert [data[i] for i in order] == sorted(data)
    possible = possible_cells(levels, rules)
    events = describe_cells(as_levels(np.array(possible), start), start, None)
    unique = [possible.index(cell) for cell in sample_uniques(data) if -1 not in cell]
    state = start_classes(rng, cells, prior, 2)
    assert (len(state.label) > 0) == (not rules)
    state = state if visited else state._replace(label=NO_LABELS)
    if hyper is not None:
        base = {"base_strength": np.array(hyper.strength), "base_level": np.concatenate(hyper.base)}
        state = state._replace(profiles=state.profiles._replace(**base))
    partition, predictive, risk, log_hyper = [], [], [], []
    for sweep in range(BURN_IN + sweeps):
        state = sweep_labelled(rng, cells, prior, state)
        if sweep < BURN_IN:
            continue
        size = np.zeros((len(cells.size), len(state.labels.records)), int)
        of_cell = np.repeat(np.arange(len(cells.size)), np.diff(state.labels.start))
        size[of_cell, state.labels.profile] = state.labels.size
        partition.append(name_partition(size))
        if sweep % EVERY == 0:
            q = predict(rng, freeze_classes(rng, cells, prior, state, EVERYBODY), events, prior.rules).q
            predictive.append(q)
            risk.append(measure(q[unique], others).expected)
            log_hyper.append(np.log([*state.profiles.weight_concentration, *state.profiles.base_strength]))
    return Found(partition, np.array(predictive), np.array(risk), np.array(log_hyper))


def distance(draws: NDArray, exact: NDArray, error: NDArray | float = 0.0) -> float:
    """The largest error of a mean in units of its Monte Carlo error. error: that of `exact`, if it has one."""
    size = len(draws) // BATCHES
    means = draws[: size * BATCHES].reshape(BATCHES, size, -1).mean(axis=1)
    errors = np.sqrt(means.var(axis=0, ddof=1) / BATCHES + np.square(error))
    assert (errors > 0.0).all()
    return float(np.abs((means.mean(axis=0) - exact) / errors).max())


def partition_distance(found: Found, shares: dict[tuple, float]) -> float:
    """The distance of the shares of partitions, those that are expected often enough for an error by batches."""
    assert set(found.partition) <= set(shares)
    frequent = [name for name, p in shares.items() if p * len(found.partition) > 100.0]
    place = {name: x for x, name in enumerate(frequent)}
    code = np.array([place.get(name, -1) for name in found.partition])
    drawn = (code[:, None] == np.arange(len(frequent))).astype(float)
    return distance(drawn, np.array([shares[name] for name in frequent]))


def compare_fixed(rng, case: ClassesCase, sweeps: int, hyper: Hyper | None = None, visited: bool = False) -> float:
    """The distance of a chain from the posterior of a case with lambda and pi fixed. hyper: those of the chain."""
    exact, log_gamma = solve(case)
    hyper = case.hyper if hyper is None else hyper
    # Where gamma is known, its prior has a relative standard deviation of 1e-5.
    gamma = (2.0, 1.0) if case.learned else (1e10, 1e10 / hyper.gamma)
    prior = make_prior(case.levels, case.rules, False, gamma)
    found = run_chain(rng, case.data, case.levels, case.rules, prior, case.others, sweeps, hyper, visited)
    distances = [
        partition_distance(found, partition_shares(case.data, exact.labels, exact.partition)),
        distance(found.predictive, exact.predictive),
    ]
    if not np.isnan(exact.risk[0]):
        distances.append(distance(found.risk, exact.risk))
    if case.learned:
        distances.append(distance(found.log_hyper[:, :1], np.array([log_gamma])))
    return max(distances)


def with_long(names):
    """Each name with a short chain, and with a long one in the long suite."""
    return [
        pytest.param(name, sweeps, marks=pytest.mark.long if sweeps == LONG_SWEEPS else ())
        for name in names
        for sweeps in (SWEEPS, LONG_SWEEPS)
    ]


@pytest.mark.parametrize(("name", "sweeps"), with_long(FIXED))
def test_the_chain_reaches_the_posterior(rng, name, sweeps):
    assert compare_fixed(rng, CASES[name], sweeps) < FAR


@pytest.mark.parametrize(("name", "sweeps"), with_long([name for name in FIXED if not CASES[name].rules]))
def test_visits_reach_it(rng, name, sweeps):
    assert compare_fixed(rng, CASES[name], sweeps, visited=True) < FAR


@pytest.mark.parametrize(("name", "sweeps"), with_long(["three keys, five records", "missing answers under rules"]))
def test_shards_of_cells_reach_it(rng, name, sweeps):
    with patch.object(shards, "SHARD", FEW):
        assert compare_fixed(rng, CASES[name], sweeps) < FAR


@pytest.mark.parametrize("visited", [False, True], ids=["slice", "visits"])
@pytest.mark.parametrize(("name", "sweeps"), with_long(LEARNED))
def test_the_chain_reaches_the_posterior_with_everything_learned(rng, name, sweeps, visited):
    data, levels = LEARNED[name]
    exact = learned_answers(name)
    labels, weight = LearnedPosterior(levels).weights(data)
    found = run_chain(rng, data, levels, (), make_prior(levels, (), True), 3, sweeps, visited=visited)
    shares = partition_shares(data, labels, weight[:, 0] / exact.evidence)
    assert partition_distance(found, shares) < FAR
    assert distance(found.predictive, exact.predictive) < FAR
    assert distance(found.log_hyper, exact.log_hyper) < FAR
    if name == "all learned":
        assert distance(found.risk, learned_risk(name, 3)) < FAR


ORDERED_DATA, ORDERED_LEVELS = ((0, 1), (1, 1), (2, 0), (2, 1)), (3, 2)
TREES = Trees(
    layout_start=np.array([0, 2, 3]),
    strength_start=np.array([0, 2, 3]),
    node_start=np.array([0, 2, 4, 5]),
    edge_start=np.array([0, 2, 4, 6, 8, 10]),
    edge_first=np.array([0, 1, 1, 2, 0, 2, 0, 1, 3, 4]),
    edge_last=np.array([1, 3, 2, 3, 2, 3, 1, 2, 4, 5]),
    node_strength=np.array([0, 1, 0, 1, 2]),
    strength_scale=np.array([2.0, 2.0, 2.0]),
)
"""Two layouts of the first key, (0, (1, 2)) and ((0, 1), 2), and the single node of the second."""


def compare_ordered(rng, sweeps: int, trees: Trees = TREES) -> float:
    """The distance of a chain with an ordered key, everything learned, from the enumeration of all partitions."""
    posterior = OrderedPosterior(ORDERED_LEVELS)
    labels, weight = posterior.weights(ORDERED_DATA)
    evidence, *logs = weight.sum(axis=0)
    cells = list(np.ndindex(*ORDERED_LEVELS))
    predictive = np.array([posterior.evidence([*ORDERED_DATA, cell]) for cell in cells]) / evidence
    assert predictive.sum() == pytest.approx(1.0, rel=1e-5)
    prior = make_prior(ORDERED_LEVELS, (), True)._replace(trees=trees)
    found = run_chain(rng, ORDERED_DATA, ORDERED_LEVELS, (), prior, 3, sweeps)
    return max(
        partition_distance(found, partition_shares(ORDERED_DATA, labels, weight[:, 0] / evidence)),
        distance(found.predictive, predictive),
        distance(found.log_hyper, np.array(logs) / evidence),
    )


@pytest.mark.parametrize(
    "sweeps", [4 * SWEEPS, pytest.param(LONG_SWEEPS, marks=pytest.mark.long)], ids=["short", "long"]
)
def test_the_chain_reaches_the_posterior_with_an_ordered_key(rng, sweeps):
    """Layouts, the strengths of both sizes of nodes and pi are learned."""
    assert compare_ordered(rng, sweeps) < FAR


def test_another_tree_is_noticed(rng):
    """Negative control: both layouts cut at the same place."""
    first = np.array([0, 1, 1, 2, 0, 1, 1, 2, 3, 4])
    last = np.array([1, 3, 2, 3, 1, 3, 2, 3, 4, 5])
    assert compare_ordered(rng, 8 * SWEEPS, TREES._replace(edge_first=first, edge_last=last)) > FAR


@pytest.mark.parametrize(("name", "sweeps"), with_long(UNDER_RULES))
def test_the_chain_agrees_with_weighted_draws_under_rules(rng, name, sweeps):
    """K, predictive probabilities, log gamma and log lambda_j, everything learned."""
    data, levels, n = UNDER_RULES[name], (2, 2), len(UNDER_RULES[name])
    found = run_chain(rng, data, levels, CORNER, make_prior(levels, CORNER, True), 3, sweeps)
    hyper = make_hyper(1.0, [2.0, 2.0], [[0.5, 0.5]] * 2)
    parts = [weigh(rng, data, levels, CORNER, hyper, "all", 3, WEIGHTED) for _ in range(max(sweeps // 2_000, 1))]
    importance, drawn = (np.concatenate(part) for part in zip(*parts, strict=True))
    cells = len(found.predictive[0])
    drawn = drawn[:, [*range(n), *range(n + 1, n + 1 + cells), -3, -2, -1]]
    mean = importance @ drawn / importance.sum()
    error = (importance[:, None] * (drawn - mean)).std(axis=0) / importance.mean() / np.sqrt(len(drawn))
    total = np.array([len(partition) for partition in found.partition])
    first = 0
    for part in ((total[:, None] == np.arange(1, n + 1)).astype(float), found.predictive, found.log_hyper):
        chosen = slice(first, first + part.shape[1])
        assert distance(part, mean[chosen], error[chosen]) < FAR
        first = chosen.stop


@pytest.mark.parametrize("name", ["three keys, five records", "rules with sets"])
def test_other_hyperparameters_are_noticed(rng, name):
    """Negative control."""
    hyper = CASES[name].hyper
    assert compare_fixed(rng, CASES[name], SWEEPS, replace(hyper, gamma=2.0 * hyper.gamma)) > FAR
    assert compare_fixed(rng, CASES[name], SWEEPS, replace(hyper, strength=[2.0 * s for s in hyper.strength])) > FAR
