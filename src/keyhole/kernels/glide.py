"""Weights and profiles under the rules, all of them at once, with the impossible people integrated out.

balance.py moves one coordinate of the same density at a time. Here every profile with tables of records moves along
the slope of the density, by Hamiltonian Monte Carlo: with x = log theta for the confined variables and y = log beta,
R the weight of all other profiles, which keep their ratios,
    log density = sum_kv (lambda_j pi_v + N_kv) x_kv + sum_k m_k y_k + gamma y_R - n log (1 - p_0),
each row of x and y being known but for a constant, which is taken out after every step. `mixed` has the shapes 1 + m_k,
and no R. A coordinate's mass is one, its count, and a small part of all the shapes of its row.

The slope of 1 - p_0. A box has P = sum over set partitions of V(blocks) prod block(T), block(T) = (|T| - 1)! phi(T), so
    dP / dphi(T) = (|T| - 1)! sum_b V(f, b + 1) A(all - T, b) =: G(T),   A(nothing, 0) = 1,
and phi(T) = sum_k beta_k prod_{j in T} theta_kj(set). For one profile the variables are folded in one after the other,
    F_f = G,   F_j(S) = F_{j+1}(S) + theta_j F_{j+1}(S + j),   dF_0 / dtheta_j = sum_S prod_{i in S} theta_i F_{j+1}(S + j),
S running over sets of variables before j.

Levels of a probability below 1e-200 stand still; a proposal that brings another one there is refused, for from there
the way back could not be found.
"""

import math
from typing import NamedTuple

import numpy as np

from keyhole.kernels.grid import fill_phi, multiply_out, sum_grid
from keyhole.kernels.jit import inner
from keyhole.kernels.state import Floats, Rules

LOWEST = -460.0
"""Logarithm of the smallest probability that moves."""

SMALLEST_WEIGHT = 1e-200

STEP = 1.5
"""Step for a single coordinate, in its mass^(-1/2); with D coordinates it is D^(1/4) times smaller."""

SHARED_MASS = 0.05
"""Part of the shapes of a row that every coordinate of the row has in its mass: a level may be probable without any
answer, where only impossible people have it."""


class Glide(NamedTuple):
    """Scratch for moves of all profiles at once. The entry behind the last profile stands for all that do not move.

    level, log_level, level_momentum, level_slope : float64 (P, levels)
        Of the profiles that move, row by row.
    log_weight, weight_momentum, weight_slope, weight_before : float64 (P + 1,)
    rest : float64 (2^U, L)
        phi of the profiles that do not move.
    with_first : float64 (2^(U-1), U, L)
        A(S, b) for sets with the first variable, at index (mask of S) >> 1 and b - 1.
    slope : float64 (2^U, L)
        G.
    fold : float64 (2^(U+1), L)
        F_j at 2^j and on.
    set_slope : float64 (S,)
    """

    level: Floats
    log_level: Floats
    level_momentum: Floats
    level_slope: Floats
    log_weight: Floats
    weight_momentum: Floats
    weight_slope: Floats
    weight_before: Floats
    rest: Floats
    with_first: Floats
    slope: Floats
    fold: Floats
    set_slope: Floats


def make_glide(rules: Rules, levels: int, capacity: int) -> Glide:
    """Allocate scratch for these rules; none without them."""
    variables, lanes = rules.grid_set.shape
    sets = 1 << variables if lanes else 0
    shape = (capacity, levels) if lanes else (0, 0)
    places = capacity + 1 if lanes else 0
    return Glide(
        *(np.zeros(shape) for _ in range(4)),
        *(np.zeros(places) for _ in range(4)),
        rest=np.zeros((sets, lanes)),
        with_first=np.zeros((sets // 2, max(variables, 1), lanes)),
        slope=np.zeros((sets, lanes)),
        fold=np.zeros((2 * sets, lanes)),
        set_slope=np.zeros(len(rules.set_variable)),
    )


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
def normalise_row(log_level, first, last, level):
    """Let a row of log probabilities sum to one, and write what moves of it to `level`."""
    most = -math.inf
    for v in range(first, last):
        most = max(most, log_level[v])
    total = 0.0
    for v in range(first, last):
        if log_level[v] > -math.inf:
            level[v] = math.exp(log_level[v] - most)
            total += level[v]
    shift = most + math.log(total)
    for v in range(first, last):
        if log_level[v] > -math.inf:
            log_level[v] -= shift
            level[v] /= total


@inner
def fill_sets(rules, level, k, set_factor):
    """Fill the probability of every set of levels under profile k, whose rows are `level`."""
    for s in range(rules.set_variable.shape[0]):
        total = 0.0
        for y in range(rules.set_start[s], rules.set_start[s + 1]):
            total += level[rules.set_level[y]]
        set_factor[s, k] = total


@inner
def normalise_weights(log_weight, chosen, places):
    """Let the weights sum to one."""
    most = -math.inf
    for x in range(places):
        most = max(most, log_weight[chosen[x]])
    total = 0.0
    for x in range(places):
        total += math.exp(log_weight[chosen[x]] - most)
    shift = most + math.log(total)
    for x in range(places):
        log_weight[chosen[x]] -= shift


@inner
def find_density(records, prior, state, work, moving, places, others):
    """Bring profiles, weights, sets, grid.trial and the sums of the grid into step; return log density and 1 - p_0.

    others: the weight of the profiles that do not move when the move began.
    """
    rules, grid, glide, chosen = prior.rules, work.grid, work.glide, work.relabel
    level_start, density = records.level_start, 0.0
    normalise_weights(glide.log_weight, chosen, places)
    for x in range(places):
        k = chosen[x]
        state.weight[k] = math.exp(glide.log_weight[k])
        shape = state.weight_concentration[0]
        if x < moving:
            shape = state.profile_tables[k] + (1.0 if prior.finite else 0.0)
        density += shape * glide.log_weight[k]
    scale = state.weight[chosen[moving]] / others if places > moving else 0.0
    for mask in range(grid.trial.shape[0]):
        for lane in range(grid.trial.shape[1]):
            grid.trial[mask, lane] = scale * glide.rest[mask, lane]
    for x in range(moving):
        k = chosen[x]
        for y in range(rules.grid_variable.shape[0]):
            j = rules.grid_variable[y]
            normalise_row(glide.log_level[k], level_start[j], level_start[j + 1], glide.level[k])
            for v in range(level_start[j], level_start[j + 1]):
                if glide.log_level[k, v] > -math.inf:
                    shape = state.base_strength[j] * state.base_level[v] + state.level_count[v, k]
                    density += shape * glide.log_level[k, v]
        fill_sets(rules, glide.level[k], k, work.set_factor)
        multiply_out(rules.grid_set, work.set_factor, k, grid.factor, grid.own)
        for mask in range(grid.trial.shape[0]):
            for lane in range(grid.trial.shape[1]):
                grid.trial[mask, lane] += state.weight[k] * grid.own[mask, lane]
    share = sum_grid(grid.trial, state.seating, rules.grid_possible[0] == 1, grid)
    if not share > 0.0:
        return -math.inf, 0.0
    return density - records.level.shape[0] * math.log(share), share


@inner
def sum_with_first(block, sums, members, with_first):
    """Fill A(S, b) for sets S with the first variable, from those without it."""
    half, variables, lanes = with_first.shape
    for others in range(half):
        for b in range(variables):
            for lane in range(lanes):
                with_first[others, b, lane] = 0.0
        taken = others
        while True:
            left = others ^ taken
            mask = taken << 1 | 1
            if left == 0:
                for lane in range(lanes):
                    with_first[others, 0, lane] += block[mask, lane]
            for b in range(members[left]):
                for lane in range(lanes):
                    with_first[others, b + 1, lane] += block[mask, lane] * sums[left, b, lane]
            if taken == 0:
                break
            taken = (taken - 1) & others


@inner
def fill_slope(seating, grid, with_first, slope):
    """Fill G of every set of variables and every box, from the sums of the grid."""
    sets, lanes = slope.shape
    variables = grid.factor.shape[0]
    sum_with_first(grid.block, grid.sums, grid.members, with_first)
    for lane in range(lanes):
        slope[0, lane] = 0.0
    for mask in range(1, sets):
        left = sets - 1 - mask
        scale = grid.factorial[grid.members[mask] - 1]
        for lane in range(lanes):
            slope[mask, lane] = scale * seating[variables, 1] if left == 0 else 0.0
        for b in range(grid.members[left]):
            weight = scale * seating[variables, b + 2]
            for lane in range(lanes):
                value = with_first[left >> 1, b, lane] if left & 1 else grid.sums[left >> 1, b, lane]
                slope[mask, lane] += weight * value


@inner
def fold_profile(grid_set, slope, factor, own, fold, set_slope):
    """Return dF_0 of one profile over all boxes, and write its slope by set of levels; `own` has its products."""
    variables, lanes = grid_set.shape
    sets = 1 << variables
    half = sets >> 1
    for mask in range(half):
        for lane in range(lanes):
            fold[sets + half + mask, lane] = slope[half + mask, lane]
            fold[half + mask, lane] = slope[mask, lane] + factor[variables - 1, lane] * slope[half + mask, lane]
    for j in range(variables - 2, -1, -1):
        half = 1 << j
        for mask in range(half):
            for lane in range(lanes):
                fold[half + mask, lane] = (
                    fold[2 * half + mask, lane] + factor[j, lane] * fold[3 * half + mask, lane]
                )
    for s in range(set_slope.shape[0]):
        set_slope[s] = 0.0
    for j in range(variables):
        half = 1 << j
        for lane in range(lanes):
            fold[0, lane] = 0.0
        for mask in range(half):
            for lane in range(lanes):
                fold[0, lane] += own[mask, lane] * fold[3 * half + mask, lane]
        for lane in range(lanes):
            if grid_set[j, lane] >= 0:
                set_slope[grid_set[j, lane]] += fold[0, lane]
    value = 0.0
    for lane in range(lanes):
        value += fold[1, lane]
    return value


@inner
def fill_slopes(records, prior, state, work, moving, places, others, share):
    """Fill the slope of the log density at the place where find_density was called last."""
    rules, grid, glide, chosen = prior.rules, work.grid, work.glide, work.relabel
    level_start, weight = records.level_start, state.weight
    fill_slope(state.seating, grid, glide.with_first, glide.slope)
    change = -records.level.shape[0] / share * (1.0 if rules.grid_possible[0] == 1 else -1.0)
    shapes, mean = 0.0, 0.0
    for x in range(places):
        k = chosen[x]
        value = 0.0
        shape = state.weight_concentration[0]
        if x == moving:
            for mask in range(glide.rest.shape[0]):
                for lane in range(glide.rest.shape[1]):
                    value += glide.rest[mask, lane] * glide.slope[mask, lane]
            value /= others
        else:
            shape = state.profile_tables[k] + (1.0 if prior.finite else 0.0)
            multiply_out(rules.grid_set, work.set_factor, k, grid.factor, grid.own)
            value = fold_profile(rules.grid_set, glide.slope, grid.factor, grid.own, glide.fold, glide.set_slope)
            slope_of_levels(records, prior, state, work, k, change * weight[k])
        shapes += shape
        mean += weight[k] * value
        glide.weight_slope[k] = value
    for x in range(places):
        k = chosen[x]
        shape = state.weight_concentration[0]
        if x < moving:
            shape = state.profile_tables[k] + (1.0 if prior.finite else 0.0)
        glide.weight_slope[k] = shape + weight[k] * (change * (glide.weight_slope[k] - mean) - shapes)


@inner
def slope_of_levels(records, prior, state, work, k, change):
    """Fill the slopes of all rows of profile k from those of its sets."""
    rules, glide, level, level_start = prior.rules, work.glide, work.glide.level[k], records.level_start
    for y in range(rules.grid_variable.shape[0]):
        j = rules.grid_variable[y]
        for v in range(level_start[j], level_start[j + 1]):
            glide.level_slope[k, v] = 0.0
    for s in range(rules.set_variable.shape[0]):
        for y in range(rules.set_start[s], rules.set_start[s + 1]):
            glide.level_slope[k, rules.set_level[y]] += glide.set_slope[s]
    for y in range(rules.grid_variable.shape[0]):
        j = rules.grid_variable[y]
        first, last = level_start[j], level_start[j + 1]
        mean, shapes = 0.0, 0.0
        for v in range(first, last):
            mean += level[v] * glide.level_slope[k, v]
            if glide.log_level[k, v] > -math.inf:
                shapes += state.base_strength[j] * state.base_level[v] + state.level_count[v, k]
        for v in range(first, last):
            shape = state.base_strength[j] * state.base_level[v] + state.level_count[v, k]
            glide.level_slope[k, v] = shape + level[v] * (change * (glide.level_slope[k, v] - mean) - shapes)


@inner
def row_mass(state, first, last, j, k):
    """Return what every level of a row has of its mass, whatever its own shape."""
    total = state.base_strength[j]
    for v in range(first, last):
        total += state.level_count[v, k]
    return 1.0 + SHARED_MASS * total


@inner
def weight_mass(prior, state, moving, chosen):
    """Return what every weight has of its mass, whatever its own shape."""
    total = state.weight_concentration[0]
    for x in range(moving):
        total += state.profile_tables[chosen[x]] + (1.0 if prior.finite else 0.0)
    return 1.0 + SHARED_MASS * total


@inner
def push(records, prior, state, work, moving, places, step):
    """Let the slope act on the momenta; return the kinetic energy."""
    rules, glide, chosen, level_start = prior.rules, work.glide, work.relabel, records.level_start
    energy, mass = 0.0, weight_mass(prior, state, moving, chosen)
    for x in range(places):
        k = chosen[x]
        glide.weight_momentum[k] += step * glide.weight_slope[k]
        energy += 0.5 * glide.weight_momentum[k] ** 2 / (mass + state.profile_tables[k] * (x < moving))
    for x in range(moving):
        k = chosen[x]
        for y in range(rules.grid_variable.shape[0]):
            j = rules.grid_variable[y]
            first, last = level_start[j], level_start[j + 1]
            mass = row_mass(state, first, last, j, k)
            for v in range(first, last):
                if glide.log_level[k, v] > -math.inf:
                    glide.level_momentum[k, v] += step * glide.level_slope[k, v]
                    energy += 0.5 * glide.level_momentum[k, v] ** 2 / (mass + state.level_count[v, k])
    return energy


@inner
def drift(records, prior, state, work, moving, places, step):
    """Let all coordinates follow their momenta."""
    rules, glide, chosen, level_start = prior.rules, work.glide, work.relabel, records.level_start
    mass = weight_mass(prior, state, moving, chosen)
    for x in range(places):
        k = chosen[x]
        glide.log_weight[k] += step * glide.weight_momentum[k] / (mass + state.profile_tables[k] * (x < moving))
    for x in range(moving):
        k = chosen[x]
        for y in range(rules.grid_variable.shape[0]):
            j = rules.grid_variable[y]
            first, last = level_start[j], level_start[j + 1]
            mass = row_mass(state, first, last, j, k)
            for v in range(first, last):
                if glide.log_level[k, v] > -math.inf:
                    glide.log_level[k, v] += step * glide.level_momentum[k, v] / (mass + state.level_count[v, k])


@inner
def set_off(rng, records, prior, state, work, moving, places, others):
    """Note where everything stands and draw momenta; return the number of coordinates."""
    rules, glide, chosen, level_start = prior.rules, work.glide, work.relabel, records.level_start
    mass = weight_mass(prior, state, moving, chosen)
    coordinates = places
    for x in range(places):
        k = chosen[x]
        glide.weight_before[k] = state.weight[k] if x < moving else others
        glide.log_weight[k] = math.log(glide.weight_before[k])
        spread = math.sqrt(mass + state.profile_tables[k] * (x < moving))
        glide.weight_momentum[k] = spread * rng.standard_normal()
    for x in range(moving):
        k = chosen[x]
        for y in range(rules.grid_variable.shape[0]):
            j = rules.grid_variable[y]
            first, last = level_start[j], level_start[j + 1]
            mass = row_mass(state, first, last, j, k)
            for v in range(first, last):
                value = state.level_profile[v, k]
                glide.level[k, v] = value
                glide.log_level[k, v] = -math.inf
                glide.level_momentum[k, v] = 0.0
                if value > 0.0 and math.log(value) > LOWEST:
                    glide.log_level[k, v] = math.log(value)
                    glide.level_momentum[k, v] = math.sqrt(mass + state.level_count[v, k]) * rng.standard_normal()
                    coordinates += 1
    return coordinates


@inner
def lowest_level(records, rules, log_level, chosen, moving):
    """Return the smallest log probability among those that move."""
    lowest = 0.0
    for x in range(moving):
        for y in range(rules.grid_variable.shape[0]):
            j = rules.grid_variable[y]
            for v in range(records.level_start[j], records.level_start[j + 1]):
                if log_level[chosen[x], v] > -math.inf:
                    lowest = min(lowest, log_level[chosen[x], v])
    return lowest


@inner
def settle_profiles(records, prior, state, work, moving, accepted):
    """Bring profiles and their sets into step with what was proposed, or put weights and sets back."""
    rules, glide, chosen, level_start = prior.rules, work.glide, work.relabel, records.level_start
    for x in range(moving):
        k = chosen[x]
        if not accepted:
            state.weight[k] = glide.weight_before[k]
        for y in range(rules.grid_variable.shape[0]):
            j = rules.grid_variable[y]
            for v in range(level_start[j], level_start[j + 1]):
                if accepted:
                    state.level_profile[v, k] = glide.level[k, v]
                else:
                    glide.level[k, v] = state.level_profile[v, k]
        fill_sets(rules, glide.level[k], k, work.set_factor)


@inner
def begin_glide(rng, records, prior, state, work):
    """List what moves, draw momenta, and fill `rest`; return how many profiles and weights move, the weight of the
    others, and the number of coordinates, which is 0 if a weight is too small to move.

    The weights of what moves stand in glide.log_weight only: find_density writes them.
    """
    rules, grid, glide, chosen = prior.rules, work.grid, work.glide, work.relabel
    profiles = state.profile_total[0]
    moving = choose_moving(prior.finite, profiles, state.profile_tables, chosen)
    places, others = moving, 0.0
    if not prior.finite:
        chosen[moving] = profiles
        places += 1
        others = state.weight[profiles]
        for k in range(profiles):
            if state.profile_tables[k] == 0:
                others += state.weight[k]
    smallest = 1.0 if prior.finite else others
    for x in range(moving):
        smallest = min(smallest, state.weight[chosen[x]])
    if smallest < SMALLEST_WEIGHT:
        return moving, places, others, 0
    coordinates = set_off(rng, records, prior, state, work, moving, places, others)
    for x in range(moving):
        state.weight[chosen[x]] = 0.0
    fill_phi(rules.grid_set, state.weight, profiles + 1, work.set_factor, grid.factor, grid.own, glide.rest)
    return moving, places, others, coordinates


@inner
def follow_slope(records, prior, state, work, moving, places, others, step, steps):
    """Make this many steps (leapfrog); return the log density with the kinetic energy before and after."""
    before, share = find_density(records, prior, state, work, moving, places, others)
    fill_slopes(records, prior, state, work, moving, places, others, share)
    before -= push(records, prior, state, work, moving, places, 0.0)
    after = -math.inf
    for _ in range(steps):
        push(records, prior, state, work, moving, places, 0.5 * step)
        drift(records, prior, state, work, moving, places, step)
        after, share = find_density(records, prior, state, work, moving, places, others)
        if not after > -math.inf:
            return before, -math.inf
        fill_slopes(records, prior, state, work, moving, places, others, share)
        after -= push(records, prior, state, work, moving, places, 0.5 * step)
    return before, after


@inner
def glide_profiles(rng, records, prior, state, work, share):
    """Move all weights and profiles of records; return 1 - p_0. The grid must be filled, and stays so."""
    rules, grid, chosen, profiles = prior.rules, work.grid, work.relabel, state.profile_total[0]
    remainder = state.weight[profiles]
    moving, places, others, coordinates = begin_glide(rng, records, prior, state, work)
    if coordinates == 0:
        return share
    step = STEP * coordinates**-0.25 * (0.6 + 0.6 * rng.random())
    steps = 1 + int(rng.random() * (2 * prior.glide_steps - 1))
    before, after = follow_slope(records, prior, state, work, moving, places, others, step, steps)
    accepted = (
        -rng.standard_exponential() < after - before
        and lowest_level(records, rules, work.glide.log_level, chosen, moving) > LOWEST
    )
    scale = state.weight[profiles] / others if accepted and not prior.finite else 1.0
    state.weight[profiles] = remainder
    settle_profiles(records, prior, state, work, moving, accepted)
    if not prior.finite:
        for k in range(profiles + 1):
            if k == profiles or state.profile_tables[k] == 0:
                state.weight[k] *= scale
        state.remainder[0] = state.weight[profiles]
    fill_phi(rules.grid_set, state.weight, profiles + 1, work.set_factor, grid.factor, grid.own, grid.phi)
    return sum_grid(grid.phi, state.seating, rules.grid_possible[0] == 1, grid)
