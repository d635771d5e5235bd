"""The sampler with structural zeros: brute-force rejection is the oracle.

Invariance: a world, a file and its excluded people are drawn from the prior by rejection; after any number of sweeps
the same quantities must follow the same law (two-sample Kolmogorov-Smirnov, level 1e-6 after Bonferroni). The number of
excluded people has no mean, so both sides are conditioned on at most MOST of them: the oracle discards other draws,
and the sweep draws the imputed people again until they are as few. The other kernels need no change.
Augmentation: given fixed parameters, mean and variance of the imputed counts equal those of rejection.
"""

from functools import cache

import numpy as np
import pytest
from scipy.stats import ks_2samp

from keyhole.kernels.state import Records, State
from keyhole.kernels.sweep import run_sweep
from keyhole.sampling.start import empty_state, make_prior, make_state_work
from tests.conftest import seed_from_name
from tests.oracle.rejection import draw_file, draw_world
from tests.statistical import running
from tests.statistical.boxes import box_arrays, make_box_rules
from tests.statistical.running import alone

LEVELS = (2, 3)
BOXES = ({0: {0}, 1: {0, 1}}, {1: {2}, 0: {1}})
THREE = (2, 3, 2)
THREE_BOXES = ({0: {0}, 1: {0, 1}}, {0: {1}, 1: {2}, 2: {0}})
FIVE_OF_SIX = ({0: {0}, 1: {0, 1}}, {0: {1}, 1: {1, 2}}, {0: {1}, 1: {0}})
CAPACITY = 600
LEVEL = 1e-6
MOST = 60
tally_answers, draw_augmented_records = alone(running.TALLY), alone(running.IMPOSSIBLE)
draw_augmented_answers, drop_empty_profiles = alone(running.IMPOSSIBLE_ANSWERS), alone(running.DROP)
draw_concentrations = alone(running.CONCENTRATIONS)
draw_weights, draw_profiles, fill_eppf = alone(running.WEIGHTS), alone(running.PROFILES), alone(running.SEATING)
before_imputing = alone(running.SEATS, running.LABELS, running.TALLY)
after_imputing = alone(
    running.IMPOSSIBLE_ANSWERS, running.DROP, running.WEIGHT_CONCENTRATION, running.LAYOUTS,
    running.BASE, running.CONCENTRATIONS, running.WEIGHTS, running.PROFILES,
)  # fmt: skip


class Bench:
    """Everything that stays the same over replicates."""

    def __init__(self, model, adaptive, levels, boxes, n):
        *_, self.start = box_arrays(levels, boxes)
        rules = make_box_rules(levels, boxes)
        self.prior = make_prior(model, "adaptive" if adaptive else "paper", self.start, rules)
        self.model, self.adaptive, self.levels, self.boxes, self.n = model, adaptive, levels, boxes, n

    def draw(self, rng):
        """Return records, a state laid out from the oracle's draw, and scratch."""
        found = None
        while found is None:
            world = draw_world(rng, self.levels, self.model, self.adaptive)
            found = draw_file(rng, world, self.model, self.n, self.boxes, MOST)
        kept, excluded = found
        level = np.zeros((self.n, len(self.levels)), np.int32)
        records = Records(level, np.full(self.n, len(self.levels)), self.start)
        state = empty_state(records, self.prior, CAPACITY)
        used = sorted({k for person in (*kept, *excluded) for k, _ in person.tables})
        if self.model == "mixed":
            used = list(range(len(world.weight)))
        name = {k: x for x, k in enumerate(used)}
        for i, person in enumerate(kept):
            state.table_total[i] = len(person.tables)
            for t, (k, answers) in enumerate(person.tables):
                state.table_label[i, t], state.table_size[i, t] = name[k], len(answers)
                state.profile_tables[name[k]] += 1
                for j, x in answers.items():
                    state.seat[i, j], level[i, j] = t, self.start[j] + x
        for person in excluded:
            for k, _ in person.tables:
                state.profile_tables[name[k]] += 1
        state.profile_total[0] = len(used)
        state.weight[: len(used)] = world.weight[used]
        state.remainder[0] = 0.0 if self.model == "mixed" else max(1.0 - world.weight[used].sum(), 1e-12)
        state.level_profile[:, : len(used)] = np.concatenate([theta[used].T for theta in world.theta])
        state.weight_concentration[0], state.shared_concentration[0] = world.gamma, world.alpha
        state.record_concentration[:] = world.record
        state.base_strength[:], state.base_level[:] = world.strength, np.concatenate(world.base)
        state.augmented_total[0] = len(excluded)
        work = make_state_work(records, self.prior, CAPACITY)
        fill_eppf(rng, records, self.prior, state, work)
        return records, state, work


def quantities(records, state):
    """Label-invariant numbers of a state, joint products among them."""
    n = len(records.level)
    labels = np.concatenate([state.table_label[i, : state.table_total[i]] for i in range(n)])
    _, sizes = np.unique(labels, return_counts=True)
    within = sum((state.table_size[i, : state.table_total[i]].astype(float) ** 2).sum() for i in range(n))
    profiles = state.profile_total[0]
    answers = [
        state.level_profile[records.level[i, j], state.table_label[i, state.seat[i, j]]]
        for i in range(n)
        for j in range(records.level.shape[1])
    ]
    log_gamma = np.log(state.weight_concentration[0])
    log_mean = np.log(state.record_concentration[0] / state.record_concentration[1])
    occupied = float(np.count_nonzero(state.profile_tables[:profiles]))
    return (
        log_gamma,
        occupied,
        float(len(sizes)),
        float(len(labels)),
        within,
        float((sizes.astype(float) ** 2).sum()),
        np.log(answers).sum(),
        (state.weight[:profiles] ** 2).sum(),
        np.log(state.remainder[0] + 1e-12),
        float(state.augmented_total[0]),
        log_mean,
        np.log(state.shared_concentration[0]),
        np.log(state.base_strength[0]),
        state.base_level[0],
        log_gamma * occupied,
        log_gamma * np.log(state.remainder[0] + 1e-12),
        log_mean * within,
        np.log1p(state.augmented_total[0]) * occupied,
        np.log1p(state.augmented_total[0]) * np.log(answers).sum(),
    )


def impute_few(rng, records, prior, state, work):
    """Draw the imputed people anew until they are at most MOST."""
    before = [field.copy() for field in state]
    while True:
        draw_augmented_records(rng, records, prior, state, work)
        if state.augmented_total[0] <= MOST:
            return
        for field, old in zip(state, before, strict=True):
            field[:] = old


def conditioned_sweep(rng, records, prior, state, work):
    """A sweep, given that at most MOST people are imputed."""
    before_imputing(rng, records, prior, state, work)
    impute_few(rng, records, prior, state, work)
    after_imputing(rng, records, prior, state, work)


def test_the_parts_make_the_sweep(rng):
    """The list of kernels above is that of run_sweep: same generator, same bits."""
    bench = CASES["hdp adaptive"]
    records, state, work = bench.draw(rng)
    twin = State(*(field.copy() for field in state))
    ours, theirs = np.random.default_rng(1), np.random.default_rng(1)
    for _ in range(5):
        for kernel in (before_imputing, draw_augmented_records, after_imputing):
            kernel(ours, records, bench.prior, state, work)
        run_sweep(theirs, records, bench.prior, twin, work)
    assert ours.random() == theirs.random()
    assert all(np.array_equal(a, b) for a, b in zip(state, twin, strict=True))


def run_pool(rng, bench, replicates, sweeps, step=conditioned_sweep):
    """Return the quantities of many replicates after this many sweeps."""
    out = []
    for _ in range(replicates):
        records, state, work = bench.draw(rng)
        for _ in range(sweeps):
            step(rng, records, bench.prior, state, work)
        assert work.status[0] == 0
        out.append(quantities(records, state))
    return np.array(out)


def smallest_p(before, after):
    """The smallest p-value over quantities, times their number."""
    values = [
        ks_2samp(before[:, q], after[:, q], method="asymp").pvalue
        for q in range(before.shape[1])
        if np.ptp(np.concatenate([before[:, q], after[:, q]])) > 0
    ]
    return min(values) * len(values)


CASES = {
    "hdp paper": Bench("hdp", False, LEVELS, BOXES, 4),
    "hdp adaptive": Bench("hdp", True, LEVELS, BOXES, 4),
    "mixed paper": Bench("mixed", False, LEVELS, BOXES, 4),
    "mixed adaptive": Bench("mixed", True, LEVELS, BOXES, 4),
    "three variables": Bench("hdp", False, THREE, THREE_BOXES, 3),
    "five of six cells": Bench("hdp", True, LEVELS, FIVE_OF_SIX, 3),
}


@cache
def prior_draws(name):
    """Quantities of draws from the prior, the same for all tests of a case."""
    return run_pool(np.random.default_rng(seed_from_name(f"prior {name}")), CASES[name], 4000, 0)


def some_long(quick):
    """All cases, those that are not `quick` in the long suite only."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.long) for name in CASES]


@pytest.mark.parametrize("sweeps", [3, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", some_long({"hdp adaptive", "mixed paper"}))
def test_sweeps_keep_the_prior(rng, name, sweeps):
    assert smallest_p(prior_draws(name), run_pool(rng, CASES[name], 4000, sweeps)) > LEVEL


def test_a_sweep_that_ignores_the_rules_is_noticed(rng):
    """Negative control: the same files, sampled as if everything were possible."""
    bench = CASES["hdp paper"]
    blind = make_prior("hdp", "paper", bench.start)
    out = []
    for _ in range(4000):
        records, state, _ = bench.draw(rng)
        work = make_state_work(records, blind, CAPACITY)
        for _ in range(5):
            run_sweep(rng, records, blind, state, work)
        out.append(quantities(records, state))
    assert smallest_p(prior_draws("hdp paper"), np.array(out)) < LEVEL


@pytest.mark.parametrize("name", ["hdp paper", "mixed paper", "three variables"])
def test_imputed_counts_equal_rejection(rng, name):
    """Mean and variance of n_0, and mean counts by profile and level, at fixed parameters."""
    bench = CASES[name]
    found = None
    while found is None:  # a world in which rejection ends soon
        world = draw_world(rng, bench.levels, bench.model, False)
        found = draw_file(rng, world, bench.model, 50, bench.boxes, 200)
    records, state, work = bench.draw(rng)
    profiles = len(world.weight)
    state.profile_total[0], state.remainder[0] = profiles, 0.0 if bench.model == "mixed" else 1e-12
    state.weight[:profiles] = world.weight
    state.level_profile[:, :profiles] = np.concatenate([theta.T for theta in world.theta])
    state.shared_concentration[0] = world.alpha
    fill_eppf(rng, records, bench.prior, state, work)
    state.table_label[:] = 0
    draws = 3000
    ours, theirs = [], []
    for _ in range(draws):
        tally_answers(rng, records, bench.prior, state, work)
        real = state.level_count[:, :profiles].copy()
        draw_augmented_records(rng, records, bench.prior, state, work)
        draw_augmented_answers(rng, records, bench.prior, state, work)
        counts = (state.level_count[:, :profiles] - real).ravel()
        tables = sum(m * state.augmented_tables[:, m].sum() for m in range(state.augmented_tables.shape[1]))
        ours.append([state.augmented_total[0], tables, *counts])
        assert state.profile_total[0] == profiles
    for _ in range(draws):
        _, excluded = draw_file(rng, world, bench.model, bench.n, bench.boxes)
        counts = np.zeros((int(bench.start[-1]), profiles))
        tables = 0
        for person in excluded:
            tables += len(person.tables)
            for k, answers in person.tables:
                for j, x in answers.items():
                    counts[bench.start[j] + x, k] += 1
        theirs.append([len(excluded), tables, *counts.ravel()])
    ours, theirs = np.array(ours, float), np.array(theirs, float)
    error = np.sqrt((ours.var(axis=0) + theirs.var(axis=0)) / draws) + 1e-9
    large = theirs.sum(axis=0) > 50
    assert np.abs((ours.mean(axis=0) - theirs.mean(axis=0)) / error)[large].max() < 5.0
    squares = [(x[:, 0] - x[:, 0].mean()) ** 2 for x in (ours, theirs)]
    gap = squares[0].mean() - squares[1].mean()
    assert abs(gap) < 5.0 * np.sqrt((squares[0].var() + squares[1].var()) / draws)
