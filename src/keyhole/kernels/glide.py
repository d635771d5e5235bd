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
    F_f = G,   F_j(S) = F_{j+1}(S) + theta_j F_{j+1}(S + j),
    dF_0 / dtheta_j = sum_S prod_{i in S} theta_i F_{j+1}(S + j),
S running over sets of variables before j.

Levels of a probability below 1e-200 stand still; a proposal that brings another one there is refused, for from there
the way back could not be found.
"""

import math
from typing import NamedTuple

import numpy as np

from keyhole.kernels.grid import fill_phi, multiply_out, sum_grid
from keyhole.kernels.jit import inner
from keyhole.kernels.state import Floats, Integers, Rules

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

    level, log_level, level_shape, level_mass, level_momentum, level_slope : float64 (P, levels)
        Of the profiles that move, row by row. Where log_level is -inf the level stands still.
    log_weight, weight_shape, weight_mass, weight_momentum, weight_slope, weight_before : float64 (P + 1,)
    rest : float64 (2^U and more, L)
        phi of the profiles that do not move.
    with_first : float64 (2^(U-1), U, L)
        A(S, b) for sets with the first variable, at index (mask of S) >> 1 and b - 1.
    slope : float64 (2^U and more, L)
        G.
    fold : float64 (2^(U+1), L)
        F_j at 2^j and on; row 0 for sums.
    set_slope : float64 (S,)
    """

    level: Floats
    log_level: Floats
    level_shape: Floats
    level_mass: Floats
    level_momentum: Floats
    level_slope: Floats
    log_weight: Floats
    weight_shape: Floats
    weight_mass: Floats
    weight_momentum: Floats
    weight_slope: Floats
    weight_before: Floats
    rest: Floats
    with_first: Floats
    slope: Floats
    fold: Floats
    set_slope: Floats


class GlideWork(NamedTuple):
    """Room for Glide in few arrays: every array of Work is an argument of every kernel, and takes time to compile.

    levels : float64 (6, P, levels)
    weights : float64 (6, P + 1)
    sets : float64 (3, 2^(U+1), L)
    with_first : float64 (2^(U-1), U, L)
    set_slope : float64 (S,)
    """

    levels: Floats
    weights: Floats
    sets: Floats
    with_first: Floats
    set_slope: Floats


def make_glide_work(rules: Rules, levels: int, capacity: int) -> GlideWork:
    """Allocate scratch for these rules; none without them."""
    variables, lanes = rules.grid_set.shape
    sets = 1 << variables if lanes else 0
    return GlideWork(
        levels=np.zeros((6, capacity, levels) if lanes else (6, 0, 0)),
        weights=np.zeros((6, capacity + 1 if lanes else 0)),
        sets=np.zeros((3, 2 * sets, lanes)),
        with_first=np.zeros((sets // 2, max(variables, 1), lanes)),
        set_slope=np.zeros(len(rules.set_variable)),
    )


@inner
def make_glide(work):
    """Name the parts of the room."""
    levels, weights, sets = work.levels, work.weights, work.sets
    return Glide(
        levels[0], levels[1], levels[2], levels[3], levels[4], levels[5], weights[0], weights[1], weights[2],
        weights[3], weights[4], weights[5], sets[0], work.with_first, sets[1], sets[2], work.set_slope,
    )  # fmt: skip


class Rows(NamedTuple):
    """The arrays of Records, Rules, State and Work that say where rows and sets stand, under the same names (cf. Book).

    chosen : int64 (P,)
        The profiles that move, and behind them the place of all others.
    """

    level_start: Integers
    grid_variable: Integers
    grid_set: Integers
    set_start: Integers
    set_level: Integers
    chosen: Integers
    weight: Floats
    set_factor: Floats
    seating: Floats


@inner
def make_rows(records, prior, state, work):
    """Gather the arrays."""
    rules = prior.rules
    return Rows(
        records.level_start, rules.grid_variable, rules.grid_set, rules.set_start, rules.set_level, work.relabel,
        state.weight, work.set_factor, state.seating,
    )  # fmt: skip


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
                glide.log_level[k, v] = -math.inf
                glide.level_momentum[k, v] = 0.0
                if value > 0.0 and math.log(value) > LOWEST:
                    glide.log_level[k, v] = math.log(value)
                    glide.level_momentum[k, v] = math.sqrt(glide.level_mass[k, v]) * rng.standard_normal()
                    levels += 1
    return levels


@inner
def normalise_row(log_level, shape, first, last, level):
    """Let a row of log probabilities sum to one, and write what moves of it to `level`; return its log density."""
    most = -math.inf
    for v in range(first, last):
        most = max(most, log_level[v])
    total = 0.0
    for v in range(first, last):
        if log_level[v] > -math.inf:
            level[v] = math.exp(log_level[v] - most)
            total += level[v]
    shift = most + math.log(total)
    density = 0.0
    for v in range(first, last):
        if log_level[v] > -math.inf:
            log_level[v] -= shift
            level[v] /= total
            density += shape[v] * log_level[v]
    return density


@inner
def normalise_weights(glide, chosen, places, weight):
    """Let the weights sum to one, and write them; return their log density."""
    most = -math.inf
    for x in range(places):
        most = max(most, glide.log_weight[chosen[x]])
    total = 0.0
    for x in range(places):
        total += math.exp(glide.log_weight[chosen[x]] - most)
    shift = most + math.log(total)
    density = 0.0
    for x in range(places):
        k = chosen[x]
        glide.log_weight[k] -= shift
        weight[k] = math.exp(glide.log_weight[k])
        density += glide.weight_shape[k] * glide.log_weight[k]
    return density


@inner
def fill_sets(rows, level, k):
    """Fill the probability of every set of levels under profile k, whose rows are `level`."""
    for s in range(rows.set_start.shape[0] - 1):
        total = 0.0
        for y in range(rows.set_start[s], rows.set_start[s + 1]):
            total += level[rows.set_level[y]]
        rows.set_factor[s, k] = total


@inner
def find_density(glide, rows, grid, people, possible, moving, places, others):
    """Bring weights, sets, grid.trial and the sums of the grid into step; return log density and 1 - p_0.

    others: the weight of the profiles that do not move when the move began.
    """
    weight, chosen = rows.weight, rows.chosen
    density = normalise_weights(glide, chosen, places, weight)
    scale = weight[chosen[moving]] / others if places > moving else 0.0
    for mask in range(grid.trial.shape[0]):
        for lane in range(grid.trial.shape[1]):
            grid.trial[mask, lane] = scale * glide.rest[mask, lane]
    for x in range(moving):
        k = chosen[x]
        for y in range(rows.grid_variable.shape[0]):
            j = rows.grid_variable[y]
            density += normalise_row(
                glide.log_level[k], glide.level_shape[k], rows.level_start[j], rows.level_start[j + 1], glide.level[k]
            )
        fill_sets(rows, glide.level[k], k)
        multiply_out(rows.grid_set, rows.set_factor, k, grid.factor, grid.own)
        for mask in range(grid.trial.shape[0]):
            for lane in range(grid.trial.shape[1]):
                grid.trial[mask, lane] += weight[k] * grid.own[mask, lane]
    share = sum_grid(grid.trial, rows.seating, possible, grid)
    if not share > 0.0:
        return -math.inf, 0.0
    return density - people * math.log(share), share


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
    sets, lanes = grid.block.shape
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
                fold[half + mask, lane] = fold[2 * half + mask, lane] + factor[j, lane] * fold[3 * half + mask, lane]
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
def fill_slopes(glide, rows, grid, people, possible, moving, places, others, share):
    """Fill the slope of the log density at the place where find_density was called last."""
    weight, chosen = rows.weight, rows.chosen
    fill_slope(rows.seating, grid, glide.with_first, glide.slope)
    change = -people / share if possible else people / share
    shapes, mean = 0.0, 0.0
    for x in range(places):
        k = chosen[x]
        value = 0.0
        if x == moving:
            for mask in range(grid.trial.shape[0]):
                for lane in range(grid.trial.shape[1]):
                    value += glide.rest[mask, lane] * glide.slope[mask, lane]
            value /= others
        else:
            multiply_out(rows.grid_set, rows.set_factor, k, grid.factor, grid.own)
            value = fold_profile(rows.grid_set, glide.slope, grid.factor, grid.own, glide.fold, glide.set_slope)
            fill_level_slopes(glide, rows, k, change * weight[k])
        shapes += glide.weight_shape[k]
        mean += weight[k] * value
        glide.weight_slope[k] = value
    for x in range(places):
        k = chosen[x]
        pull = change * (glide.weight_slope[k] - mean) - shapes
        glide.weight_slope[k] = glide.weight_shape[k] + weight[k] * pull


@inner
def fill_level_slopes(glide, rows, k, change):
    """Fill the slopes of all rows of profile k from those of its sets."""
    level, slope = glide.level[k], glide.level_slope[k]
    slope[:] = 0.0
    for s in range(rows.set_start.shape[0] - 1):
        for y in range(rows.set_start[s], rows.set_start[s + 1]):
            slope[rows.set_level[y]] += glide.set_slope[s]
    for y in range(rows.grid_variable.shape[0]):
        j = rows.grid_variable[y]
        mean, shapes = 0.0, 0.0
        for v in range(rows.level_start[j], rows.level_start[j + 1]):
            mean += level[v] * slope[v]
            if glide.log_level[k, v] > -math.inf:
                shapes += glide.level_shape[k, v]
        for v in range(rows.level_start[j], rows.level_start[j + 1]):
            slope[v] = glide.level_shape[k, v] + level[v] * (change * (slope[v] - mean) - shapes)


@inner
def push(glide, rows, moving, places, step):
    """Let the slope act on the momenta; return the kinetic energy."""
    energy = 0.0
    for x in range(places):
        k = rows.chosen[x]
        glide.weight_momentum[k] += step * glide.weight_slope[k]
        energy += 0.5 * glide.weight_momentum[k] ** 2 / glide.weight_mass[k]
    for x in range(moving):
        k = rows.chosen[x]
        for y in range(rows.grid_variable.shape[0]):
            j = rows.grid_variable[y]
            for v in range(rows.level_start[j], rows.level_start[j + 1]):
                if glide.log_level[k, v] > -math.inf:
                    glide.level_momentum[k, v] += step * glide.level_slope[k, v]
                    energy += 0.5 * glide.level_momentum[k, v] ** 2 / glide.level_mass[k, v]
    return energy


@inner
def drift(glide, rows, moving, places, step):
    """Let all coordinates follow their momenta."""
    for x in range(places):
        k = rows.chosen[x]
        glide.log_weight[k] += step * glide.weight_momentum[k] / glide.weight_mass[k]
    for x in range(moving):
        k = rows.chosen[x]
        for y in range(rows.grid_variable.shape[0]):
            j = rows.grid_variable[y]
            for v in range(rows.level_start[j], rows.level_start[j + 1]):
                glide.log_level[k, v] += step * glide.level_momentum[k, v] / glide.level_mass[k, v]


@inner
def follow_slope(glide, rows, grid, people, possible, moving, places, others, step, steps):
    """Make this many steps (leapfrog); return the log density with the kinetic energy before and after."""
    before, share = find_density(glide, rows, grid, people, possible, moving, places, others)
    before -= push(glide, rows, moving, places, 0.0)
    after = -math.inf
    for turn in range(steps + 1):
        if turn > 0:
            drift(glide, rows, moving, places, step)
            after, share = find_density(glide, rows, grid, people, possible, moving, places, others)
            if not after > -math.inf:
                return before, -math.inf
        fill_slopes(glide, rows, grid, people, possible, moving, places, others, share)
        # Half a step to set off and half a one to arrive; between, the halves of two steps make one.
        kinetic = push(glide, rows, moving, places, 0.5 * step if turn == 0 or turn == steps else step)
        after -= kinetic
    return before, after


@inner
def lowest_level(glide, rows, moving):
    """Return the smallest log probability among those that move."""
    lowest = 0.0
    for x in range(moving):
        for y in range(rows.grid_variable.shape[0]):
            j = rows.grid_variable[y]
            for v in range(rows.level_start[j], rows.level_start[j + 1]):
                if glide.log_level[rows.chosen[x], v] > -math.inf:
                    lowest = min(lowest, glide.log_level[rows.chosen[x], v])
    return lowest


@inner
def settle_profiles(glide, rows, level_profile, moving, accepted):
    """Bring profiles and their sets into step with what was proposed, or put weights and sets back."""
    for x in range(moving):
        k = rows.chosen[x]
        if not accepted:
            rows.weight[k] = glide.weight_before[k]
        for y in range(rows.grid_variable.shape[0]):
            j = rows.grid_variable[y]
            for v in range(rows.level_start[j], rows.level_start[j + 1]):
                if accepted:
                    level_profile[v, k] = glide.level[k, v]
                else:
                    glide.level[k, v] = level_profile[v, k]
        fill_sets(rows, glide.level[k], k)


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
    accepted = -rng.standard_exponential() < after - before and lowest_level(glide, rows, moving) > LOWEST
    scale = weight[profiles] / others if accepted and not prior.finite else 1.0
    weight[profiles] = remainder
    settle_profiles(glide, rows, state.level_profile, moving, accepted)
    if not prior.finite:
        for k in range(profiles + 1):
            if k == profiles or state.profile_tables[k] == 0:
                weight[k] *= scale
        state.remainder[0] = weight[profiles]
    fill_phi(rows.grid_set, weight, profiles + 1, rows.set_factor, grid.factor, grid.own, grid.phi)
    return sum_grid(grid.phi, state.seating, possible, grid)
