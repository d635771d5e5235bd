"""Weights and profiles under the rules, all of them at once, with the impossible people integrated out.

balance.py moves one coordinate of the same density at a time. Here every profile with tables of records moves along
the slope of the density, by Hamiltonian Monte Carlo: with x = log theta for the confined variables and y = log beta,
R the weight of all other profiles, which keep their ratios,
    log density = sum_kv (lambda_j pi_v + N_kv) x_kv + sum_k m_k y_k + gamma y_R - n log (1 - p_0),
each row of x and y being known but for a constant, which is taken out after every step. `mixed` has the shapes 1 + m_k,
and no R. A coordinate's mass is one, its count, and a small part of all the shapes of its row.

Levels of a probability below 1e-200 stand still; a proposal that brings another one there is refused, for from there
the way back could not be found.
"""

import math

from keyhole.kernels.boxes import fill_set_factors
from keyhole.kernels.glide_slope import fill_slopes, find_density
from keyhole.kernels.glide_work import make_glide, make_rows
from keyhole.kernels.grid import fill_phi, sum_grid
from keyhole.kernels.jit import inner

LOWEST = -460.0
"""Logarithm of the smallest probability that moves."""

SMALLEST_WEIGHT = 1e-200

STEP = 1.5
"""Step for a single coordinate, in its mass^(-1/2); with D coordinates it is D^(1/4) times smaller."""

SHARED_MASS = 0.05
"""Part of the shapes of a row that every coordinate of the row has in its mass: a level may be probable without any
answer, where only impossible people have it."""


@inner
def choose_moving(finite, profiles, profile_tables, chosen):
    """List the profiles that move; return their number."""
    moving = 0
    for k in range(profiles):
        if finite or profile_tables[k] > 0:
            chosen[moving] = k
            moving += 1
    return moving


@inner
def set_off_weights(rng, glide, chosen, weight, profile_tables, moving, places, others, extra, gamma):
    """Note the weights and their shapes, and draw their momenta."""
    total = gamma
    for x in range(moving):
        total += profile_tables[chosen[x]] + extra
    for x in range(places):
        k = chosen[x]
        glide.weight_before[k] = weight[k] if x < moving else others
        glide.weight_shape[k] = profile_tables[k] + extra if x < moving else gamma
        glide.weight_mass[k] = 1.0 + glide.weight_shape[k] + SHARED_MASS * total
        glide.log_weight[k] = math.log(glide.weight_before[k])
        glide.weight_momentum[k] = math.sqrt(glide.weight_mass[k]) * rng.standard_normal()


@inner
def set_off_levels(rng, glide, rows, level_profile, level_count, base_strength, base_level, moving):
    """Note the rows and their shapes, and draw their momenta; return how many levels move."""
    levels = 0
    for x in range(moving):
        k = rows.chosen[x]
        glide.log_level[k, :] = -math.inf
        for y in range(rows.grid_variable.shape[0]):
            j = rows.grid_variable[y]
            first, last = rows.level_start[j], rows.level_start[j + 1]
            total = base_strength[j]
            for v in range(first, last):
                total += level_count[v, k]
            for v in range(first, last):
                value = level_profile[v, k]
                glide.level[k, v] = value
                glide.level_shape[k, v] = base_strength[j] * base_level[v] + level_count[v, k]
                glide.level_mass[k, v] = 1.0 + level_count[v, k] + SHARED_MASS * total
                if value > 0.0 and math.log(value) > LOWEST:
                    glide.log_level[k, v] = math.log(value)
                    glide.level_momentum[k, v] = math.sqrt(glide.level_mass[k, v]) * rng.standard_normal()
                    levels += 1
    return levels


@inner
def push(glide, chosen, moving, places, step):
    """Let the slope act on the momenta; return the kinetic energy."""
    energy = 0.0
    for x in range(places):
        k = chosen[x]
        glide.weight_momentum[k] += step * glide.weight_slope[k]
        energy += 0.5 * glide.weight_momentum[k] ** 2 / glide.weight_mass[k]
    for x in range(moving):
        k = chosen[x]
        for v in range(glide.log_level.shape[1]):
            if glide.log_level[k, v] > -math.inf:
                glide.level_momentum[k, v] += step * glide.level_slope[k, v]
                energy += 0.5 * glide.level_momentum[k, v] ** 2 / glide.level_mass[k, v]
    return energy


@inner
def drift(glide, chosen, moving, places, step):
    """Let all coordinates follow their momenta."""
    for x in range(places):
        k = chosen[x]
        glide.log_weight[k] += step * glide.weight_momentum[k] / glide.weight_mass[k]
    for x in range(moving):
        k = chosen[x]
        for v in range(glide.log_level.shape[1]):
            if glide.log_level[k, v] > -math.inf:
                glide.log_level[k, v] += step * glide.level_momentum[k, v] / glide.level_mass[k, v]


@inner
def follow_slope(glide, rows, grid, people, possible, moving, places, others, step, steps):
    """Make this many steps (leapfrog); return the log density with the kinetic energy before and after."""
    before, share = find_density(glide, rows, grid, people, possible, moving, places, others)
    before -= push(glide, rows.chosen, moving, places, 0.0)
    after = -math.inf
    for turn in range(steps + 1):
        if turn > 0:
            drift(glide, rows.chosen, moving, places, step)
            after, share = find_density(glide, rows, grid, people, possible, moving, places, others)
            if not after > -math.inf:
                return before, -math.inf
        fill_slopes(glide, rows, grid, people, possible, moving, places, others, share)
        # Half a step to set off and half a one to arrive; between, the halves of two steps make one.
        kinetic = push(glide, rows.chosen, moving, places, 0.5 * step if turn == 0 or turn == steps else step)
        after -= kinetic
    return before, after


@inner
def lowest_level(glide, chosen, moving):
    """Return the smallest log probability among those that move."""
    lowest = 0.0
    for x in range(moving):
        for v in range(glide.log_level.shape[1]):
            if glide.log_level[chosen[x], v] > -math.inf:
                lowest = min(lowest, glide.log_level[chosen[x], v])
    return lowest


@inner
def settle_profiles(glide, chosen, moving, accepted, weight, level_profile):
    """Write the rows that were proposed, or put the weights back."""
    for x in range(moving):
        k = chosen[x]
        if not accepted:
            weight[k] = glide.weight_before[k]
            continue
        for v in range(glide.log_level.shape[1]):
            if glide.log_level[k, v] > -math.inf:
                level_profile[v, k] = glide.level[k, v]


@inner
def begin_glide(rng, prior, state, grid, glide, rows):
    """List what moves, draw momenta, and fill `rest`; return how many profiles and weights move, the weight of the
    others, and the number of coordinates, which is 0 if a weight is too small to move.

    The weights of what moves stand in glide.log_weight only: find_density writes them.
    """
    chosen, weight, profiles = rows.chosen, state.weight, state.profile_total[0]
    moving = choose_moving(prior.finite, profiles, state.profile_tables, chosen)
    places, others, extra, gamma = moving, 0.0, 1.0, 0.0
    if not prior.finite:
        chosen[moving] = profiles
        extra, gamma = 0.0, state.weight_concentration[0]
        places += 1
        others = weight[profiles]
        for k in range(profiles):
            if state.profile_tables[k] == 0:
                others += weight[k]
    smallest = 1.0 if prior.finite else others
    for x in range(moving):
        smallest = min(smallest, weight[chosen[x]])
    if smallest < SMALLEST_WEIGHT:
        return moving, places, others, 0
    set_off_weights(rng, glide, chosen, weight, state.profile_tables, moving, places, others, extra, gamma)
    levels = set_off_levels(
        rng, glide, rows, state.level_profile, state.level_count, state.base_strength, state.base_level, moving
    )
    for x in range(moving):
        weight[chosen[x]] = 0.0
    fill_phi(rows.grid_set, weight, profiles + 1, rows.set_factor, grid.factor, grid.own, glide.rest)
    return moving, places, others, places + levels


@inner
def glide_profiles(rng, records, prior, state, work, share):
    """Move all weights and profiles of records; return 1 - p_0. The grid must be filled, and stays so."""
    glide, grid, weight, profiles = make_glide(work.glide), work.grid, state.weight, state.profile_total[0]
    possible, rows = prior.rules.grid_possible[0] == 1, make_rows(records, prior, state, work)
    remainder = weight[profiles]
    moving, places, others, coordinates = begin_glide(rng, prior, state, grid, glide, rows)
    if coordinates == 0:
        return share
    step = STEP * coordinates**-0.25 * (0.6 + 0.6 * rng.random())
    steps = 1 + int(rng.random() * (2 * prior.glide_steps - 1))
    people = records.level.shape[0]
    before, after = follow_slope(glide, rows, grid, people, possible, moving, places, others, step, steps)
    accepted = -rng.standard_exponential() < after - before and lowest_level(glide, rows.chosen, moving) > LOWEST
    scale = weight[profiles] / others if accepted and not prior.finite else 1.0
    weight[profiles] = remainder
    settle_profiles(glide, rows.chosen, moving, accepted, weight, state.level_profile)
    if not prior.finite:
        for k in range(profiles + 1):
            if k == profiles or state.profile_tables[k] == 0:
                weight[k] *= scale
        state.remainder[0] = weight[profiles]
    fill_set_factors(prior.rules, state.level_profile, profiles + 1, rows.set_factor)
    fill_phi(rows.grid_set, weight, profiles + 1, rows.set_factor, grid.factor, grid.own, grid.phi)
    return sum_grid(grid.phi, state.seating, possible, grid)
