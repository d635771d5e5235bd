"""The log density on which profiles glide (glide.py), and its slope.

The slope of 1 - p_0. A box has P = sum over set partitions of V(blocks) prod block(T), block(T) = (|T| - 1)! phi(T), so
    dP / dphi(T) = (|T| - 1)! sum_b V(f, b + 1) A(all - T, b) =: G(T),   A(nothing, 0) = 1,
and phi(T) = sum_k beta_k prod_{j in T} theta_kj(set). For one profile the variables are folded in one after the other,
    F_f = G,   F_j(S) = F_{j+1}(S) + theta_j F_{j+1}(S + j),
    dF_0 / dtheta_j = sum_S prod_{i in S} theta_i F_{j+1}(S + j),
S running over sets of variables before j.
"""

import math

from keyhole.kernels.grid import add_rows, multiply_out, sum_grid
from keyhole.kernels.jit import inner
from keyhole.kernels.lanes import LANES, load, spread, store
from keyhole.kernels.partitions import add_products


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
    grid.trial[:] = 0.0
    add_rows(grid.trial, glide.rest, scale)
    for x in range(moving):
        k = chosen[x]
        for y in range(rows.grid_variable.shape[0]):
            j = rows.grid_variable[y]
            density += normalise_row(
                glide.log_level[k], glide.level_shape[k], rows.level_start[j], rows.level_start[j + 1], glide.level[k]
            )
        fill_sets(rows, glide.level[k], k)
        multiply_out(rows.grid_set, rows.set_factor, k, grid.factor, grid.own)
        add_rows(grid.trial, grid.own, weight[k])
    share = sum_grid(grid.trial, rows.seating, possible, grid)
    if not share > 0.0:
        return -math.inf, 0.0
    return density - people * math.log(share), share


@inner
def fill_slope(seating, grid, with_first, slope):
    """Fill G of every set of variables and every box, from the sums of the grid."""
    groups, half, variables = with_first.shape[:3]
    sets, partitions = 2 * half, grid.partitions
    for group in range(groups):
        first, last = partitions.with_first[0], partitions.with_first[half]
        add_products(partitions, first, last, grid.block[group], grid.sums[group], with_first[group], 0)
        store(slope, group * sets, spread(0.0))
        store(slope, group * sets + sets - 1, spread(grid.scale[sets - 1] * seating[variables, 1]))
        for mask in range(1, sets - 1):
            left = sets - 1 - mask
            row = (group * half + (left >> 1)) * variables
            value = spread(0.0)
            rest = left
            b = 2
            while rest > 0:
                # As many terms as the set has variables: one is taken off at a time.
                weight = spread(grid.scale[mask] * seating[variables, b])
                value = value + weight * (load(with_first, row) if left & 1 else load(grid.sums, row))
                rest &= rest - 1
                row += 1
                b += 1
            store(slope, group * sets + mask, value)


@inner
def fold_profile(grid_set, slope, factor, own, fold, set_slope):
    """Return dF_0 of one profile over all boxes, and write its slope by set of levels; `own` has its products."""
    variables, boxes = grid_set.shape
    sets = 1 << variables
    set_slope[:] = 0.0
    value = 0.0
    for group in range(own.shape[0]):
        base, lanes = group * sets, min(LANES, boxes - group * LANES)
        # F_f = G would stand at 2^f and on; only its upper half is read again.
        half = sets >> 1
        x = load(factor, group * variables + variables - 1)
        for mask in range(half):
            upper = load(slope, base + half + mask)
            store(fold, sets + half + mask, upper)
            store(fold, half + mask, load(slope, base + mask) + x * upper)
        for j in range(variables - 2, -1, -1):
            half = 1 << j
            x = load(factor, group * variables + j)
            for mask in range(half):
                store(fold, half + mask, load(fold, 2 * half + mask) + x * load(fold, 3 * half + mask))
        for j in range(variables):
            half = 1 << j
            total = spread(0.0)
            for mask in range(half):
                total = total + load(own, base + mask) * load(fold, 3 * half + mask)
            store(fold, 0, total)
            for lane in range(lanes):
                s = grid_set[j, group * LANES + lane]
                if s >= 0:
                    set_slope[s] += fold[0, lane]
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
            for row in range(glide.rest.shape[0]):
                for mask in range(glide.rest.shape[1]):
                    for lane in range(LANES):
                        value += glide.rest[row, mask, lane] * glide.slope[row, mask, lane]
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
