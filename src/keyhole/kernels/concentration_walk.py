"""A random walk of alpha, or of (a, b), with the seats of most records integrated out (memberships.py)."""

import math

from keyhole.kernels.densities import log_seatings, log_shared
from keyhole.kernels.jit import inner
from keyhole.kernels.seating import fill_mixed_seating, fill_shared_seating

SMALL_STEP, STEP_RANGE = -2.0, 3.5
"""Steps of logarithms have a standard deviation between exp(-2) and exp(1.5), its own logarithm uniform."""


@inner
def log_concentrations(x, y, finite, first, second, seating, table, group_size, groups, sums):
    """Return the log density of log alpha, or of (log a / b, log a); `seating` becomes its V.

    table: people whose seats are given, by answers and tables. groups, group_size, sums: records whose seats are
    integrated out (memberships.py).
    """
    if finite:
        fill_shared_seating(math.exp(x), seating)
        value = log_shared(x, first, second, table)
    else:
        value = log_seatings(x, y, first, second, table, seating)
    variables = sums.shape[1]
    for g in range(groups):
        probability = 0.0
        for b in range(variables):
            probability += seating[variables, b + 1] * sums[g, b]
        value += group_size[g] * math.log(probability)
    return value


@inner
def walk_concentrations(rng, prior, state, work, groups, moves):
    """Make moves of alpha (`mixed`) or of the mean and the shape of the records' concentrations.

    People whose seats are given stand in work.tables_by_length, `groups` of others in work.members. V is brought
    into step.
    """
    finite, trial = prior.finite, work.trial_seating
    table, size, sums = work.tables_by_length, work.members.group_size, work.members.sums
    first, second = prior.mean_sd, prior.shape_sd
    if finite:
        x, y = math.log(state.shared_concentration[0]), 0.0
        first, second = prior.shared_concentration[0], prior.shared_concentration[1]
    else:
        y = math.log(state.record_concentration[0])
        x = y - math.log(state.record_concentration[1])
    density = log_concentrations(x, y, finite, first, second, trial, table, size, groups, sums)
    for _ in range(moves):
        step = math.exp(SMALL_STEP + STEP_RANGE * rng.random())
        new_x, new_y = x, y
        if finite or rng.random() < 0.5:
            new_x += step * rng.standard_normal()
        else:
            new_y += step * rng.standard_normal()
        if abs(new_x) > 30.0 or abs(new_y) > 30.0:
            continue
        new_density = log_concentrations(new_x, new_y, finite, first, second, trial, table, size, groups, sums)
        if -rng.standard_exponential() < new_density - density:
            x, y, density = new_x, new_y, new_density
    if finite:
        state.shared_concentration[0] = math.exp(x)
        fill_shared_seating(state.shared_concentration[0], state.seating)
    else:
        state.record_concentration[0] = math.exp(y)
        state.record_concentration[1] = math.exp(y - x)
        fill_mixed_seating(state.record_concentration[0], state.record_concentration[1], state.seating)
