"""gamma, alpha and (a, b) under the rules, with the impossible people integrated out (balance.py says why).

Given the seats and labels of n records, K profiles with tables among them, R the weight of all other profiles:
    gamma                       Gamma prior, gamma^K R^(gamma - 1), (1 - p_0)^-n;
    alpha, or a / b and a       their priors, prod over records of V(f, m), (1 - p_0)^-n;
                                also with the seats of most records integrated out, and without rules (memberships.py).
"""

import math

from keyhole.kernels.concentrations import tally_seatings
from keyhole.kernels.densities import log_seatings, log_shared
from keyhole.kernels.grid import accept_trial, fill_phi, share_of_total, sum_grid
from keyhole.kernels.jit import inner
from keyhole.kernels.seating import fill_mixed_seating, fill_shared_seating

SMALLEST = 1e-300

SMALL_STEP, STEP_RANGE = -2.0, 3.5
"""Steps of logarithms have a standard deviation between exp(-2) and exp(1.5), its own logarithm uniform."""

CONCENTRATION_MOVES = 4
STICK_STEP = 0.4
"""Largest change of log gamma at once: profiles not yet seen must stay negligible when gamma grows."""


@inner
def order_by_size(rng, weight, profiles, profile_tables, key, order):
    """Put the profiles without tables of records in size-biased random order; return their number."""
    size = 0
    for k in range(profiles):
        if profile_tables[k] > 0 or weight[k] == 0.0:
            continue
        key[k] = rng.standard_exponential() / weight[k]
        place = size
        while place > 0 and key[order[place - 1]] > key[k]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = k
        size += 1
    return size


@inner
def move_weight_concentration(rng, records, prior, state, work, share):
    """Move gamma, and with it the weights of all profiles without tables of records; return 1 - p_0.

    In size-biased order these are what sticks leave: b ~ Beta(1, gamma), (1 - b)^gamma uniform. The uniforms stay, so
    the part that is left after a stick goes from R x to R x^(gamma / gamma'), R the weight of all of them together.
    """
    rules, grid, order, new = prior.rules, work.grid, work.relabel, work.profile_shape
    weight, profiles, gamma = state.weight, state.profile_total[0], state.weight_concentration[0]
    size = order_by_size(rng, weight, profiles, state.profile_tables, work.product, order)
    shift = STICK_STEP * (2.0 * rng.random() - 1.0)
    power = math.exp(-shift)
    whole, real = weight[profiles], 0
    for k in range(profiles):
        new[k] = weight[k]
        if state.profile_tables[k] > 0:
            real += 1
        else:
            whole += weight[k]
    left = weight[profiles]
    if left < SMALLEST:
        return share
    new_left = whole * (left / whole) ** power
    new[profiles] = new_left
    for place in range(size - 1, -1, -1):
        k = order[place]
        left += weight[k]
        before = whole * min(left / whole, 1.0) ** power
        new[k] = before - new_left
        new_left = before
    fill_phi(rules.grid_set, new, profiles + 1, work.set_factor, grid.factor, grid.own, grid.trial)
    new_share = sum_grid(grid.trial, state.seating, rules.grid_possible[0] == 1, grid)
    if new_share <= 0.0:
        return share
    shape, rate = prior.weight_concentration[0], prior.weight_concentration[1]
    gain = (shape + real) * shift + (math.log(whole) - rate) * gamma * math.expm1(shift)
    if -rng.standard_exponential() >= gain - records.level.shape[0] * math.log(new_share / share):
        return share
    state.weight_concentration[0] = gamma * math.exp(shift)
    for k in range(profiles + 1):
        weight[k] = new[k]
    state.remainder[0] = weight[profiles]
    accept_trial(grid)
    return new_share


@inner
def log_concentrations(x, y, finite, first, second, seating, table, group_size, groups, sums):
    """Return the log density of log alpha, or of (log a / b, log a), but for 1 - p_0; `seating` becomes its V.

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
def walk_concentrations(rng, prior, state, work, people, share, groups, moves):
    """Make moves of alpha (`mixed`) or of the mean and the shape of the records' concentrations; return 1 - p_0.

    With rules the grid's sums must be filled. People whose seats are given stand in work.tables_by_length, `groups`
    of others in work.members. V is brought into step.
    """
    finite, trial, total = prior.finite, work.trial_seating, work.grid.total
    ruled, possible_grid = prior.rules.grid_set.shape[1] > 0, prior.rules.grid_possible[0] == 1
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
        new_share = share_of_total(total, trial, possible_grid) if ruled else 1.0
        if new_share <= 0.0:
            continue
        if -rng.standard_exponential() < new_density - density - people * math.log(new_share / share):
            x, y, density, share = new_x, new_y, new_density, new_share
    if finite:
        state.shared_concentration[0] = math.exp(x)
        fill_shared_seating(state.shared_concentration[0], state.seating)
    else:
        state.record_concentration[0] = math.exp(y)
        state.record_concentration[1] = math.exp(y - x)
        fill_mixed_seating(state.record_concentration[0], state.record_concentration[1], state.seating)
    return share


@inner
def move_concentrations(rng, records, prior, state, work, share):
    """Move alpha, or (a, b) if they are learned, given where the records sit; return 1 - p_0."""
    if not prior.finite and not prior.adaptive:
        return share
    sum_grid(work.grid.phi, state.seating, True, work.grid)
    tally_seatings(records.answer_total, state.table_total, state.impossible_seating, work.tables_by_length)
    return walk_concentrations(rng, prior, state, work, records.level.shape[0], share, 0, CONCENTRATION_MOVES)
