"""A kept draw: all that the probability of a cell needs, with the remainder made explicit (docs/model.md section 8).

The profiles not yet seen matter for people not yet seen. Sticks are broken, beta_new = beta_0 (1 - nu) with
nu ~ Beta(gamma, 1) and theta ~ H, until the remainder holds less than 1/100 of a person; what is left counts as one
more profile whose rows are the base levels.

Log-likelihood of the records' answers given their labels, for diagnostics: it does not depend on label names.
"""

import math
from typing import NamedTuple

import numpy as np

from keyhole.kernels.distributions import draw_dirichlet
from keyhole.kernels.jit import kernel
from keyhole.kernels.state import Floats, Integers, State
from keyhole.kernels.work import FULL, OK

LEFT = 1e-2
"""People that may remain in profiles that were not made explicit."""


class Kept(NamedTuple):
    """One kept draw.

    profile_total : int64 (1,)
    weight : float64 (capacity,)
    level_profile : float64 (levels, capacity)
    seating : float64 (J + 1, J + 2)
    column : float64 (levels,)
        Scratch.
    """

    profile_total: Integers
    weight: Floats
    level_profile: Floats
    seating: Floats
    column: Floats


def make_kept(state: State, people: float) -> Kept:
    """Allocate a kept draw with room for the profiles in use and the sticks to be broken.

    The number of sticks is Poisson with mean gamma log(beta_0 people / LEFT): ten standard deviations are room enough.
    """
    depth = math.log(max(float(state.remainder[0]) * max(people, 1.0) / LEFT, 1.0))
    sticks = float(state.weight_concentration[0]) * depth
    capacity = int(state.profile_total[0]) + int(sticks + 10.0 * math.sqrt(sticks)) + 25
    levels = state.base_level.shape[0]
    return Kept(
        profile_total=np.zeros(1, np.int64),
        weight=np.zeros(capacity),
        level_profile=np.zeros((levels, capacity)),
        seating=state.seating.copy(),
        column=np.zeros(levels),
    )


@kernel
def fill_kept(rng, records, prior, state, kept, people, left):
    """Copy the draw and break sticks until remainder * people < left; return a status."""
    profiles = state.profile_total[0]
    levels = state.base_level.shape[0]
    for k in range(profiles):
        kept.weight[k] = state.weight[k]
    for v in range(levels):
        for k in range(profiles):
            kept.level_profile[v, k] = state.level_profile[v, k]
    remainder = state.remainder[0]
    while remainder * people >= left:
        if profiles + 2 > kept.weight.shape[0]:
            return FULL
        log_nu = -rng.standard_exponential() / state.weight_concentration[0]
        kept.weight[profiles] = -math.expm1(log_nu) * remainder
        remainder *= math.exp(log_nu)
        for j in range(records.level_start.shape[0] - 1):
            first, last = records.level_start[j], records.level_start[j + 1]
            for v in range(first, last):
                kept.column[v] = state.base_strength[j] * state.base_level[v]
            draw_dirichlet(rng, kept.column[first:last], kept.column[first:last])
        for v in range(levels):
            kept.level_profile[v, profiles] = kept.column[v]
        profiles += 1
    if not prior.finite:
        kept.weight[profiles] = remainder
        for v in range(levels):
            kept.level_profile[v, profiles] = state.base_level[v]
        profiles += 1
    kept.profile_total[0] = profiles
    return OK


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
def effective_profiles(kept):
    """Return 1 / sum of squared weights."""
    square = 0.0
    for k in range(kept.profile_total[0]):
        square += kept.weight[k] * kept.weight[k]
    return 1.0 / square
