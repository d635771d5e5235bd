"""The slope along which profiles glide, against differences of a density that the oracle adds up cell by cell."""

import math

import numpy as np
import pytest

from tests.oracle.model import Draw, Hyper, Model
from tests.oracle.rejection import find_box
from tests.oracle.risk import plain_cell_probability
from tests.statistical import running
from tests.statistical.running import alone
from tests.statistical.test_impossible import (
    FIVE_OF_SIX,
    LEVELS,
    THREE,
    THREE_BOXES,
    Bench,
    glide_profiles,
    prepare_grid,
    tally_answers,
)

find_slopes = alone(running.SLOPES)
BENCHES = {
    "hdp": Bench("hdp", True, THREE, THREE_BOXES, 4),
    "mixed": Bench("mixed", False, THREE, THREE_BOXES, 4),
    "five of six cells": Bench("hdp", False, LEVELS, FIVE_OF_SIX, 3),
}
SMALL = 1e-5


def plain_density(bench, records, state, shapes, weight_shapes, weight, theta):
    """The log density of logits: sum of shapes times log probabilities, less n log (1 - p_0)."""
    model = Model(bench.levels, finite=bench.model == "mixed")
    rows = [theta[bench.start[j] : bench.start[j + 1]] for j in range(len(bench.levels))]
    base = [state.base_level[bench.start[j] : bench.start[j + 1]] for j in range(len(bench.levels))]
    hyper = Hyper(
        float(state.weight_concentration[0]), tuple(state.record_concentration), float(state.shared_concentration[0]),
        list(state.base_strength), base,
    )  # fmt: skip
    profiles = [[row[:, k] for row in rows] for k in range(theta.shape[1])]
    draw = Draw(hyper, [], list(weight), 0.0, profiles)
    cells = [cell for cell in np.ndindex(*bench.levels) if find_box(cell, bench.boxes) is None]
    share = sum(plain_cell_probability(draw, model, cell) for cell in cells)
    value = sum(shape * math.log(theta[v, k]) for (v, k), shape in shapes.items())
    value += sum(shape * math.log(sum(weight[k] for k in group)) for group, shape in weight_shapes)
    return value - len(records.level) * math.log(share)


@pytest.mark.parametrize("name", BENCHES)
def test_slopes_are_those_of_the_density(rng, name):
    bench = BENCHES[name]
    records, state, work = bench.draw(rng)
    prior, rules = bench.prior, bench.prior.rules
    tally_answers(rng, records, prior, state, work)
    prepare_grid(rng, records, prior, state, work)
    profiles = int(state.profile_total[0])
    weight, theta = state.weight[: profiles + 1].copy(), state.level_profile[:, : profiles + 1].copy()
    movers = [k for k in range(profiles) if prior.finite or state.profile_tables[k] > 0]
    still = [k for k in range(profiles + 1) if k not in movers]
    find_slopes(rng, records, prior, state, work)
    level_slope, weight_slope = work.glide.levels[5], work.glide.weights[4]

    confined = [v for j in rules.grid_variable for v in range(bench.start[j], bench.start[j + 1])]
    strength = np.repeat(state.base_strength, bench.levels) * state.base_level
    moves = {(v, k) for k in movers for v in confined if theta[v, k] > 1e-200}
    shapes = {(v, k): strength[v] + state.level_count[v, k] for v, k in moves}
    groups = [((k,), state.profile_tables[k] + (1.0 if prior.finite else 0.0)) for k in movers]
    if not prior.finite:
        groups.append((tuple(still), float(state.weight_concentration[0])))

    def slope_of(move):
        there, back = (plain_density(bench, records, state, shapes, groups, *move(x)) for x in (SMALL, -SMALL))
        return (there - back) / (2.0 * SMALL)

    for v, k in moves:
        j = int(np.searchsorted(bench.start, v, side="right")) - 1
        row = slice(bench.start[j], bench.start[j + 1])

        def shift_level(x, k=k, v=v, row=row):
            moved = theta.copy()
            moved[v, k] *= math.exp(x)
            moved[row, k] /= moved[row, k].sum()
            return weight, moved

        assert level_slope[k, v] == pytest.approx(slope_of(shift_level), rel=1e-4, abs=1e-4)
    for group, _ in groups:
        place = profiles if len(group) > 1 or group[0] not in movers else group[0]

        def shift_weight(x, group=group):
            moved = weight.copy()
            moved[list(group)] *= math.exp(x)
            return moved / moved.sum(), theta

        assert weight_slope[place] == pytest.approx(slope_of(shift_weight), rel=1e-4, abs=1e-4)


def test_most_glides_are_accepted(rng):
    """A wrong slope would keep the law, and refuse nearly everything."""
    accepted = []
    for _ in range(20):
        records, state, work = BENCHES["hdp"].draw(rng)
        prior = BENCHES["hdp"].prior
        tally_answers(rng, records, prior, state, work)
        share = prepare_grid(rng, records, prior, state, work)
        for _ in range(20):
            before = state.level_profile.copy()
            share = glide_profiles(rng, records, prior, state, work, share)
            accepted.append(not np.array_equal(before, state.level_profile))
    assert np.mean(accepted) > 0.5
