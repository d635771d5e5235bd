"""The log density on which profiles glide (glide.py), and its slope.

The slope of 1 - p_0. A box has P = sum over set partitions of V(blocks) prod block(T), block(T) = (|T| - 1)! phi(T), so
    dP / dphi(T) = (|T| - 1)! sum_b V(f, b + 1) A(all - T, b) =: G(T),   A(nothing, 0) = 1,
and phi(T) = sum_k beta_k prod_{j in T} theta_kj(set). For one profile the variables are folded in one after the other,
    F_f = G,   F_j(S) = F_{j+1}(S) + theta_j F_{j+1}(S + j),
    dF_0 / dtheta_j = sum_S prod_{i in S} theta_i F_{j+1}(S + j),
S running over sets of variables before j.
"""

import math

from keyhole.kernels.cells import sum_blocks
from keyhole.kernels.grid import multiply_out, sum_grid
from keyhole.kernels.jit import inner


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
def fill_slope(seating, grid, with_first, slope):
    """Fill G of every set of variables and every box, from the sums of the grid."""
    sets, lanes = grid.block.shape
    variables = grid.factor.shape[0]
    for others in range(sets >> 1):
        sum_blocks(grid.block, grid.sums, grid.members, 0, others, 1, with_first[others])
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
