"""Cell probabilities: exact sum, importance sampler, Monte Carlo, simulated people; judge: set partitions."""

import itertools
import math

import numpy as np
import pytest

from keyhole.kernels import freeze as frozen
from keyhole.kernels.cells import cell_probabilities, make_cell_work
from keyhole.kernels.eppf import fill_fixed_alpha_eppf, fill_random_alpha_eppf
from keyhole.kernels.importance import importance_probabilities, monte_carlo_probabilities
from keyhole.kernels.population import draw_people
from keyhole.kernels.state import Records
from keyhole.sampling.evaluation import simulate_counts
from keyhole.sampling.predict import freeze
from keyhole.sampling.start import empty_state, make_prior
from tests.oracle import plain_cell_probability
from tests.oracle.model import Draw, Hyper, Model, draw_dirichlet

Z = 4.5


def make_draw(rng, levels, profiles, finite=False):
    """Parameters as a plain oracle draw."""
    hyper = Hyper(
        gamma=2.0,
        record=(1.7, 0.9),
        alpha=1.3,
        strength=[2.0] * len(levels),
        base=[draw_dirichlet(rng, [1.0] * d) for d in levels],
    )
    *weight, remainder = draw_dirichlet(rng, [1.0] * (profiles + 1))
    if finite:
        weight, remainder = [w / (1.0 - remainder) for w in weight], 0.0
    theta = [[draw_dirichlet(rng, [0.6] * d) for d in levels] for _ in weight]
    return Draw(hyper, [], [float(w) for w in weight], float(remainder), theta), Model(levels, finite)


def freeze_plain(draw, model):
    """The same parameters as keyhole freezes them, the remainder as one more profile."""
    width = len(model.levels)
    eppf = np.zeros((width + 1, width + 2))
    if model.finite:
        fill_fixed_alpha_eppf(draw.hyper.alpha, eppf)
    else:
        fill_random_alpha_eppf(*draw.hyper.record, eppf)
    columns = [np.concatenate(rows) for rows in [*draw.theta, draw.hyper.base]]
    return frozen.Draw(
        weight=np.array([*draw.weight, draw.remainder]),
        level_profile=np.ascontiguousarray(np.array(columns).T),
        eppf=eppf,
        record_concentration=np.array(draw.hyper.record),
        shared_concentration=np.array([draw.hyper.alpha]),
    )


def level_start(levels):
    return np.concatenate([[0], np.cumsum(levels)]).astype(np.int64)


def all_cells(levels):
    return list(itertools.product(*map(range, levels)))


def exact_probabilities(frozen_draw, cells, levels):
    """Call the kernel on cells given as categories."""
    cell_level = (np.array(cells) + level_start(levels)[:-1]).astype(np.int32)
    profiles = len(frozen_draw.weight)
    out = np.full(len(cells), np.nan)
    work = make_cell_work(len(levels), profiles)
    for field in (work.factor, work.low, work.high, work.phi, work.block, work.sums, work.total):
        field[...] = np.nan  # scratch is scratch
    work.block[...] = 0.0  # lanes beyond the last cell are computed and thrown away
    cell_probabilities(frozen_draw.weight, frozen_draw.level_profile, profiles, frozen_draw.eppf, cell_level, work, out)
    return out


@pytest.mark.parametrize("levels", [(3,), (2, 3), (2, 3, 2), (2, 2, 3, 2), (2, 1, 2, 2, 3), (2, 2, 2, 2, 2, 2)])
@pytest.mark.parametrize("finite", [False, True])
def test_exact_sum_is_the_sum_over_set_partitions(rng, levels, finite):
    draw, model = make_draw(rng, levels, profiles=4, finite=finite)
    cells = all_cells(levels)
    found = exact_probabilities(freeze_plain(draw, model), cells, levels)
    expected = [plain_cell_probability(draw, model, cell) for cell in cells]
    assert found == pytest.approx(expected, rel=1e-9)
    assert found.sum() == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("width", [9, 12])
def test_exact_sum_of_many_variables(rng, width):
    """Too many set partitions to list: margins must agree, P(c) = P(c, 0) + P(c, 1)."""
    levels = (2,) * width
    draw, model = make_draw(rng, levels, profiles=5)
    cell = [int(x) for x in rng.integers(0, 2, width)]
    pair = exact_probabilities(freeze_plain(draw, model), [[*cell[:-1], 0], [*cell[:-1], 1]], levels)
    shorter = Model(levels[:-1])
    base, theta = draw.hyper.base[:-1], [rows[:-1] for rows in draw.theta]
    hyper = Hyper(draw.hyper.gamma, draw.hyper.record, draw.hyper.alpha, draw.hyper.strength[:-1], base)
    margin = Draw(hyper, [], draw.weight, draw.remainder, theta)
    alone = exact_probabilities(freeze_plain(margin, shorter), [cell[:-1]], levels[:-1])
    assert pair.sum() == pytest.approx(alone[0], rel=1e-9)


@pytest.mark.parametrize("levels", [(2, 3, 2), (2, 2, 3, 2)])
def test_importance_sampler_is_unbiased(rng, levels):
    draw, model = make_draw(rng, levels, profiles=4)
    frozen_draw = freeze_plain(draw, model)
    cells = all_cells(levels)
    cell_level = (np.array(cells) + level_start(levels)[:-1]).astype(np.int32)
    batches = np.empty((40, len(cells)))
    error = np.array([importance_probabilities(rng, frozen_draw, cell_level, 500, row) for row in batches])
    expected = np.array([plain_cell_probability(draw, model, cell) for cell in cells])
    spread = batches.std(axis=0, ddof=1) / math.sqrt(len(batches))
    assert (np.abs(batches.mean(axis=0) - expected) < Z * spread + 1e-14).all()
    # The reported error is the standard error of one call.
    reported = error.mean() / (batches.std(axis=0, ddof=1) / expected).mean()
    assert 0.7 < reported < 1.4
    assert not (np.abs(batches.mean(axis=0) - 1.05 * expected) < Z * spread).all()  # negative control


def test_monte_carlo_is_unbiased(rng):
    levels = (2, 3, 2)
    draw, model = make_draw(rng, levels, profiles=4)
    frozen_draw = freeze_plain(draw, model)
    cells = all_cells(levels)
    cell_level = (np.array(cells) + level_start(levels)[:-1]).astype(np.int32)
    batches = np.empty((100, len(cells)))
    error = [monte_carlo_probabilities(rng, frozen_draw, cell_level, 500, row) for row in batches]
    expected = np.array([plain_cell_probability(draw, model, cell) for cell in cells])
    spread = batches.std(axis=0, ddof=1) / 10.0
    assert (np.abs(batches.mean(axis=0) - expected) < Z * spread).all()
    assert 0.7 < np.mean(error) / (batches.std(axis=0, ddof=1) / expected).mean() < 1.4
    assert not (np.abs(batches.mean(axis=0) - 1.05 * expected) < Z * spread).all()  # negative control


@pytest.mark.parametrize("finite", [False, True])
def test_people_fall_in_cells_by_their_probability(rng, finite):
    levels = (2, 3, 2)
    draw, model = make_draw(rng, levels, profiles=4, finite=finite)
    frozen_draw = freeze_plain(draw, model)
    cells = all_cells(levels)
    expected = np.array([plain_cell_probability(draw, model, cell) for cell in cells])
    people = 200_000
    out = np.empty((people, 3), np.int32)
    draw_people(rng, frozen_draw, level_start(levels), out)
    codes = np.ravel_multi_index((out - level_start(levels)[:-1]).T, levels)
    sd = np.sqrt(people * expected * (1 - expected))
    assert (np.abs(np.bincount(codes, minlength=len(cells)) - people * expected) < Z * sd).all()
    cell_level = (np.array(cells) + level_start(levels)[:-1]).astype(np.int32)
    count = simulate_counts(rng, frozen_draw, level_start(levels), people, cell_level)
    assert count.sum() == people
    assert (np.abs(count - people * expected) < Z * sd).all()
    assert not (np.abs(count - people * expected[::-1]) < Z * sd).all()  # negative control


def test_a_frozen_draw_breaks_the_remainder(rng):
    """The sticks and what is left sum to the remainder, the law of the first stick is Beta(1, gamma)."""
    levels = (2, 3)
    start = level_start(levels)
    records = Records(np.zeros((0, 2), np.int32), np.zeros(0, np.int64), start)
    prior = make_prior("hdp", "paper", start)
    state = empty_state(records, prior, 8)
    state.profile_total[0] = 1
    state.weight[0], state.remainder[0] = 0.4, 0.6
    state.level_profile[:, 0] = [0.5, 0.5, 0.2, 0.3, 0.5]
    state.weight_concentration[0] = 1.8
    first, rows = [], []
    for _ in range(4_000):
        frozen_draw = freeze(rng, records, prior, state, 1e6, 1e-2)
        assert frozen_draw.weight.sum() == pytest.approx(1.0, rel=1e-12)
        assert frozen_draw.weight[-1] * 1e6 < 1e-2
        first.append(frozen_draw.weight[1] / 0.6)
        rows.append(frozen_draw.level_profile[0, 1])
    assert abs(np.mean(first) - 1 / 2.8) < Z * np.std(first) / math.sqrt(len(first))
    assert abs(np.mean(rows) - 0.5) < Z * np.std(rows) / math.sqrt(len(rows))
    assert abs(np.mean(first) - 1 / 2.5) > Z * np.std(first) / math.sqrt(len(first))  # negative control
