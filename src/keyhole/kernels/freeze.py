"""Freezing a state into a draw: all that the probability of a cell needs, the remainder made explicit (docs/model.md
section 8).

Unseen people may belong to profiles that are not explicit yet. So sticks are broken, beta_new = beta_0 (1 - nu) with
nu ~ Beta(gamma, 1) and theta ~ H, until fewer than LEFT people are expected in the remainder, which then counts as one
more profile whose rows are the base levels.

Also two summaries of a state for diagnostics that do not depend on the order of profiles: the log-likelihood of the
answers given their labels, and the effective number of profiles.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.kernels.jit import kernel
from keyhole.kernels.state import Floats, State
from keyhole.kernels.trees import draw_layout, draw_row, fill_shapes

LEFT = 1e-2
"""People that may be expected in profiles that are not made explicit."""


class Draw(NamedTuple):
    """The parameters that a prediction needs: the one form in which draws are stored, read and sent.

    weight : float64 (K,)
        Profiles in use, those broken off the remainder, and what is left of it.
    level_profile : float64 (levels, K); float32 in stored draws
    eppf : float64 (J + 1, J + 2)
        The EPPF weights V of the concentrations.
    record_concentration, shared_concentration : float64 (2,), (1,)
    """

    weight: Floats
    level_profile: NDArray[np.floating]
    eppf: Floats
    record_concentration: Floats
    shared_concentration: Floats


def find_capacity(state: State, people: float) -> int:
    """Return room for the profiles in use and the sticks to be broken.

    The number of sticks is Poisson with mean gamma log(beta_0 people / LEFT); ten standard deviations are added.
    """
    depth = math.log(max(float(state.remainder[0]) * max(people, 1.0) / LEFT, 1.0))
    sticks = float(state.weight_concentration[0]) * depth
    return int(state.profile_total[0]) + int(sticks + 10.0 * math.sqrt(sticks)) + 25


@kernel
def fill_draw(rng, records, prior, state, people, left, weight, level_profile, column):
    """Copy the profiles and break sticks until remainder * people < left; return the number of profiles, or -1 if full.

    column : float64 (levels,), scratch.
    """
    profiles = state.profile_total[0]
    levels = state.base_level.shape[0]
    for k in range(profiles):
        weight[k] = state.weight[k]
    for v in range(levels):
        for k in range(profiles):
            level_profile[v, k] = state.level_profile[v, k]
    remainder = state.remainder[0]
    trees, variables = prior.trees, records.level_start.shape[0] - 1
    shape, below, split = np.empty(trees.edge_first.shape[0]), np.zeros(levels + 1, np.int64), np.empty(levels)
    for j in range(variables):
        fill_shapes(trees, j, state.base_strength, state.base_level, shape)
    while remainder * people >= left:
        if profiles + 2 > weight.shape[0]:
            return -1
        log_nu = -rng.standard_exponential() / state.weight_concentration[0]
        weight[profiles] = -math.expm1(log_nu) * remainder
        remainder *= math.exp(log_nu)
        for j in range(variables):
            layout = trees.layout_start[j] + draw_layout(rng, trees, j)
            first, last = records.level_start[j], records.level_start[j + 1]
            draw_row(rng, trees, layout, first, last, shape, below, split, column)
        for v in range(levels):
            level_profile[v, profiles] = column[v]
        profiles += 1
    if not prior.finite:
        weight[profiles] = remainder
        for v in range(levels):
            level_profile[v, profiles] = state.base_level[v]
        profiles += 1
    return profiles


@kernel
def log_likelihood(level, seat, label, level_profile):
    """Return the sum over answers of log theta^(label of its table)_v."""
    value = 0.0
    for i in range(level.shape[0]):
        product = 1.0
        for j in range(level.shape[1]):
            v = level[i, j]
            if v >= 0:
                product *= level_profile[v, label[i, seat[i, j]]]
                if product < 1e-200:
                    value += math.log(max(product, 1e-300))
                    product = 1.0
        value += math.log(product)
    return value


@kernel
def effective_profiles(weight):
    """Return the effective number of profiles, 1 / sum of squared weights."""
    square = 0.0
    for k in range(weight.shape[0]):
        square += weight[k] * weight[k]
    return 1.0 / square
