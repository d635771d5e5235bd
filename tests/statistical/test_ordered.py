"""`classes` with an ordered key: a sweep leaves the joint law of hyperparameters, layouts, rows and records as it is.

The prior is drawn here, record by record and tree by tree, without code of keyhole: the first key has five categories,
of which the first is outside the order, and three layouts; the second has two.
"""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chisquare, ks_2samp

from keyhole.kernels.classes import Labels, Profiles, extend_profiles
from keyhole.sampling.classes import NO_LABELS, count_distinct, start_classes
from keyhole.sampling.layout import make_rules
from tests.statistical.classes_labels import LabelledState, sweep_labelled
from tests.statistical.comparison import LEVEL
from tests.statistical.prior_pool import make_prior

LAYOUTS = ((0, (1, ((2, 3), 4))), (0, ((1, 2), (3, 4))), (0, (((1, 2), 3), 4)))
"""The layouts of prior_pool.py as nested pairs."""

START = np.array([0, 5, 7])
CELLS = tuple(itertools.product(range(5), range(2)))
RULES = {
    "no rules": (np.zeros((0, 7), np.uint8), np.zeros((0, 7), np.uint8), set()),
    "rules": (
        np.array([[1, 1, 1, 0, 0, 0, 1], [0, 0, 0, 0, 1, 1, 0]], np.uint8),
        np.array([[1, 1, 1, 0, 0, 1, 0], [0, 0, 0, 1, 0, 1, 1], [0, 0, 0, 0, 1, 0, 1]], np.uint8),
        {(0, 1), (1, 1), (2, 1), (4, 0)},
    ),
}
RULES["visits"] = RULES["no rules"]
"""Without rules labels are drawn by the slice, or by visits to the records."""

RECORDS = 6


def leaves(tree):
    return [tree] if isinstance(tree, int) else [x for part in tree for x in leaves(part)]


def size_class(tree):
    """The strength of a node: 0 beside the category outside the order, 1 of three or four categories, 2 of two."""
    return 0 if tree[0] == 0 else 1 if len(leaves(tree)) > 2 else 2


def draw_log_gammas(rng, shape):
    shape = np.asarray(shape, float)
    return np.log(rng.standard_gamma(shape + 1.0)) + np.log1p(-rng.random(shape.shape)) / shape


def draw_split(rng, shape):
    logs = draw_log_gammas(rng, shape)
    logs = np.exp(logs - logs.max())
    return logs / logs.sum()


def draw_tree(rng, tree, strength, pi, mass, row):
    """Give every category below this node its part of the mass."""
    if isinstance(tree, int):
        row[tree] = mass
        return
    share = np.array([pi[leaves(part)].sum() for part in tree])
    split = draw_split(rng, strength[size_class(tree)] * share / share.sum())
    for part, portion in zip(tree, split, strict=True):
        draw_tree(rng, part, strength, pi, mass * portion, row)


def log_density(tree, strength, pi, row):
    """Log density of the splits of a row."""
    if isinstance(tree, int):
        return 0.0
    share = np.array([pi[leaves(part)].sum() for part in tree])
    mass = np.array([row[leaves(part)].sum() for part in tree])
    if mass.sum() < 1e-200:
        return 0.0
    shape = strength[size_class(tree)] * share / share.sum()
    split = np.maximum(mass / mass.sum(), 1e-300)
    value = math.lgamma(shape.sum()) + sum((shape - 1.0) * np.log(split)) - sum(math.lgamma(s) for s in shape)
    return value + sum(log_density(part, strength, pi, row) for part in tree)


def draw_state(rng, prior, impossible):
    """Return distinct cells and a state, drawn from the prior."""
    strength = 2.0 * np.exp(1.5 * rng.standard_normal(4))
    pi = np.concatenate([rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(2))])
    gamma = rng.gamma(2.0)
    sizes, label = [], []
    for i in range(RECORDS):
        u, k = rng.random() * (i + gamma), 0
        while k < len(sizes) and u >= sizes[k]:
            u -= sizes[k]
            k += 1
        sizes = [*sizes, 0] if k == len(sizes) else sizes
        sizes[k] += 1
        label.append(k)
    possible = [cell for cell in CELLS if cell not in impossible]
    rows, layout, inside = np.zeros((7, len(sizes))), np.zeros((2, len(sizes)), np.int64), np.zeros(len(sizes))
    for k in range(len(sizes)):
        layout[0, k] = rng.integers(3)
        draw_tree(rng, LAYOUTS[layout[0, k]], strength, pi[:5], 1.0, rows[:5, k])
        rows[5:, k] = draw_split(rng, strength[3] * pi[5:])
        inside[k] = sum(rows[x, k] * rows[5 + y, k] for x, y in possible)
    if inside.min() < 1e-250:
        return draw_state(rng, prior, impossible)
    level = np.zeros((RECORDS, 2), np.int32)
    for i, k in enumerate(label):
        chance = np.array([rows[x, k] * rows[5 + y, k] for x, y in possible])
        x, y = possible[rng.choice(len(possible), p=chance / chance.sum())]
        level[i] = x, 5 + y
    order, cells = count_distinct(level, START)
    counts = {}
    for i in order:
        c = int(np.flatnonzero((cells.level == level[i]).all(axis=1))[0])
        counts[c, label[i]] = counts.get((c, label[i]), 0) + 1
    entries = sorted(counts)
    start = np.searchsorted([c for c, _ in entries], np.arange(len(cells.size) + 1)).astype(np.int64)
    tally = np.zeros((7, len(sizes)), np.int64)
    for i, k in enumerate(label):
        tally[level[i], k] += 1
    labels = Labels(
        start, np.array([k for _, k in entries], np.int32), np.array([counts[entry] for entry in entries], np.int32),
        np.array(sizes, np.int64), tally,
    )  # fmt: skip
    logs = draw_log_gammas(rng, [*sizes, gamma])
    weight = np.exp(logs - np.logaddexp.reduce(logs))
    profiles = Profiles(weight[:-1], weight[-1:], rows, inside, np.array([gamma]), strength, pi, layout)
    return cells, LabelledState(labels, profiles)


def measure(rng, cells, state, impossible):
    """Quantities that do not depend on the names of profiles."""
    labels, profiles = state.labels, state.profiles
    rows, strength, pi = profiles.level_profile, profiles.base_strength, profiles.base_level
    mine = slice(labels.start[0], labels.start[1])
    k = rng.choice(np.repeat(labels.profile[mine], labels.size[mine]))
    tree = LAYOUTS[profiles.layout[0, k]]
    density = log_density(tree, strength, pi[:5], rows[:5, k])
    likelihood = 0.0
    for c in range(len(cells.size)):
        for x in range(labels.start[c], labels.start[c + 1]):
            own = labels.profile[x]
            theta = np.maximum(rows[cells.level[c], own], 1e-300)
            likelihood += labels.size[x] * (np.log(theta).sum() - math.log(max(profiles.possible[own], 1e-300)))
    inside = sum(rows[x, k] * rows[5 + y, k] for x, y in CELLS if (x, y) not in impossible)
    log_strength = np.log(strength)
    log_pi = sum(cells.size * np.log(pi[cells.level]).sum(axis=1))
    spread = float(np.abs(np.diff(np.sort(np.repeat(cells.level[:, 0], cells.size)))).sum())
    equal = float((cells.size * (cells.size - 1)).sum())
    return [
        len(labels.records), float(labels.records.max()), math.log(profiles.weight_concentration[0]),
        float((profiles.weight**2).sum()), *log_strength, *np.log(pi[[0, 1, 3, 5]]), float(profiles.layout[0, k]),
        density, likelihood, round(math.log(max(inside, 1e-300)), 6), round(math.log(inside / profiles.possible[k]), 6),
        log_strength[0] * spread, log_strength[1] * equal, log_strength[2] * equal, log_pi * likelihood, log_pi,
        profiles.layout[0, k] * math.log(max(rows[2:4, k].sum(), 1e-300)), log_strength[1] * likelihood,
        log_strength[2] * math.log(max(rows[3, k], 1e-300)),
    ]  # fmt: skip


def find_prior(name):
    arrays, possible, impossible = RULES[name]
    prior = make_prior(False, True, [5, 2], ordered=True)
    return prior._replace(rules=make_rules(arrays, possible, START)) if impossible else prior


def smallest_p(rng, name, replicates, sweeps):
    """Smallest p, times the number of quantities, of sweeps against fresh prior draws."""
    prior, impossible = find_prior(name), RULES[name][2]
    before, after = [], []
    for _ in range(replicates):
        cells, state = draw_state(rng, prior, impossible)
        before.append(measure(rng, cells, state, impossible))
        cells, state = draw_state(rng, prior, impossible)
        state = state._replace(visited=name == "visits")
        for _ in range(sweeps):
            state = sweep_labelled(rng, cells, prior, state)
        after.append(measure(rng, cells, state, impossible))
    first, second = np.array(before), np.array(after)
    assert np.isfinite(first).all()
    assert np.isfinite(second).all()
    p = [ks_2samp(first[:, x], second[:, x]).pvalue for x in range(first.shape[1])]
    return min(p) * len(p)


def rank_truths(rng, name, simulations, draws=19, burn_in=200, thin=20):
    """Ranks of true quantities among the draws of a chain that starts from one profile, ties at random."""
    prior, impossible = find_prior(name), RULES[name][2]
    ranks = []
    for _ in range(simulations):
        cells, state = draw_state(rng, prior, impossible)
        truth = np.array(measure(rng, cells, state, impossible))
        state = start_classes(rng, cells, prior, 1)
        state = state if name == "visits" else state._replace(label=NO_LABELS)
        found = []
        for sweep in range(burn_in + draws * thin):
            state = sweep_labelled(rng, cells, prior, state)
            if sweep >= burn_in and (sweep - burn_in + 1) % thin == 0:
                found.append(measure(rng, cells, state, impossible))
        below, ties = (np.array(found) < truth).sum(axis=0), (np.array(found) == truth).sum(axis=0)
        ranks.append(below + rng.integers(0, ties + 1))
    return np.array(ranks)


@pytest.mark.long
@pytest.mark.parametrize("name", list(RULES))
def test_calibration_of_classes_with_an_ordered_key(rng, name):
    ranks = rank_truths(rng, name, 2_000)
    p = [chisquare(np.bincount(column, minlength=20)).pvalue for column in ranks.T]
    assert min(p) * len(p) > LEVEL


def check_ordered(rng, name, replicates, sweeps):
    assert smallest_p(rng, name, replicates, sweeps) > LEVEL


@pytest.mark.parametrize("name", list(RULES))
@pytest.mark.parametrize(
    ("replicates", "sweeps"), [(1_500, 3), pytest.param(20_000, 5, marks=pytest.mark.long)], ids=["short", "long"]
)
def test_sweeps_of_classes_keep_the_joint_law(rng, name, replicates, sweeps):
    check_ordered(rng, name, replicates, sweeps)


def test_a_new_row_has_the_layout_that_it_says(rng):
    """Nodes of two categories take a side, the others hardly split away from pi."""
    prior, pi = find_prior("no rules"), np.array([0.2, 0.2, 0.2, 0.2, 0.2, 0.5, 0.5])
    strength = np.array([1e4, 1e4, 1e-4, 1e4])
    none = np.zeros((7, 0)), np.zeros(0), np.array([50.0]), strength, pi, np.zeros((2, 0), np.int64)
    old = Profiles(np.zeros(0), np.ones(1), *none)
    weight, rows, layouts, _ = extend_profiles(rng, START, prior.trees, old, 1e-3, 0.0)
    assert len(weight) > 200
    assert set(layouts[0]) == {0, 1, 2}
    sided = np.abs(rows[1] - 0.2) > 0.1
    assert (sided == (layouts[0] > 0)).mean() > 0.95
    assert (layouts[1] == 0).all()
