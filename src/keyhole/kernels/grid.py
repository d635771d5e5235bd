"""1 - p_0 for a profile that moves: boxes on one list of variables, side by side as the lanes of cells.py.

`phi` holds sum_k beta_k prod_j theta_kj(set) for all sets of variables and all boxes, so that a profile that changes
costs no sum over the others. A box that leaves a variable free has the factor one there. Boxes come in groups of
sixteen; a lane without a box has the factor zero, and so the probability zero.
"""

from typing import NamedTuple

import numpy as np

from keyhole.kernels.jit import inner
from keyhole.kernels.lanes import LANES, at_least_zero, lane_zeros, load, spread, store
from keyhole.kernels.partitions import Partitions, make_partitions, sum_partitions
from keyhole.kernels.state import Floats, Rules


class Grid(NamedTuple):
    """Scratch for G groups of boxes on the same U variables.

    phi, trial : float64 (G, 2^U, 16)
        For every set of variables; trial: after the proposed move.
    own, moved : float64 (G, 2^U, 16)
        Product over the set for the profile that moves, before and after.
    block, sums, total, partitions :
        As in cells.py, for every group; with the sums of all sets.
    scale : float64 (2^U,)
        (|T| - 1)! of every set T of variables.
    factor : float64 (G, U, 16)
    level : float64 (levels,)
        The proposed rows.
    """

    phi: Floats
    trial: Floats
    own: Floats
    moved: Floats
    block: Floats
    sums: Floats
    total: Floats
    partitions: Partitions
    scale: Floats
    factor: Floats
    level: Floats


def count_groups(rules: Rules) -> int:
    """Return how many groups of sixteen the boxes make."""
    return int(-(-rules.grid_set.shape[1] // LANES))


def make_grid(rules: Rules, levels: int) -> Grid:
    """Allocate scratch for these rules."""
    groups, variables = count_groups(rules), max(rules.grid_set.shape[0], 1)
    sets = 1 << variables
    factorial = np.cumprod([1.0, 1.0, *range(1, variables)])
    return Grid(
        phi=lane_zeros((groups, sets, LANES)),
        trial=lane_zeros((groups, sets, LANES)),
        own=lane_zeros((groups, sets, LANES)),
        moved=lane_zeros((groups, sets, LANES)),
        block=lane_zeros((groups, sets, LANES)),
        sums=lane_zeros((groups, sets // 2, variables, LANES)),
        total=lane_zeros((groups, variables, LANES)),
        partitions=make_partitions(variables, with_all=True),
        scale=factorial[np.bitwise_count(np.arange(sets))],
        factor=lane_zeros((groups, variables, LANES)),
        level=np.zeros(levels),
    )


@inner
def multiply_out(grid_set, set_factor, k, factor, out):
    """Fill `out` with the product over every set of variables of profile k's probability of the box's levels."""
    variables, boxes = grid_set.shape
    for j in range(variables):
        for box in range(out.shape[0] * LANES):
            value = 0.0
            if box < boxes:
                s = grid_set[j, box]
                value = set_factor[s, k] if s >= 0 else 1.0
            factor[box // LANES, j, box % LANES] = value
    for group in range(out.shape[0]):
        first = group * out.shape[1]
        store(out, first, spread(1.0))
        for j in range(variables):
            half = 1 << j
            x = load(factor, group * variables + j)
            for row in range(first, first + half):
                store(out, half + row, load(out, row) * x)


@inner
def add_rows(out, source, weight):
    """Add a multiple of one array to another, row by row."""
    times = spread(weight)
    for row in range(out.size // LANES):
        store(out, row, load(out, row) + times * load(source, row))


@inner
def fill_phi(grid_set, weight, profiles, set_factor, factor, own, phi):
    """Fill phi anew, profile by profile."""
    phi[:] = 0.0
    for k in range(profiles):
        if weight[k] == 0.0:
            continue
        multiply_out(grid_set, set_factor, k, factor, own)
        add_rows(phi, own, weight[k])


@inner
def share_of_total(total, seating, possible):
    """Return 1 - p_0 from the sums of all boxes, which are the possible ones or the impossible ones."""
    groups, variables = total.shape[:2]
    value = 0.0
    for group in range(groups):
        for b in range(variables):
            for lane in range(LANES):
                value += seating[variables, b + 1] * total[group, b, lane]
    return value if possible else 1.0 - value


@inner
def sum_grid(phi, seating, possible, grid):
    """Fill grid.total with A(all, b) of every box; return 1 - p_0."""
    groups, sets = phi.shape[:2]
    for group in range(groups):
        for mask in range(1, sets):
            row = group * sets + mask
            store(grid.block, row, spread(grid.scale[mask]) * load(phi, row))
        sum_partitions(grid.factor.shape[1], grid.block[group], grid.sums[group], grid.total[group], grid.partitions)
    return share_of_total(grid.total, seating, possible)


@inner
def multiply_all(grid_set, set_factor, k):
    """Return the probability that somebody whose answers all come from profile k lies in one of the boxes."""
    variables, lanes = grid_set.shape
    value = 0.0
    for lane in range(lanes):
        product = 1.0
        for j in range(variables):
            s = grid_set[j, lane]
            if s >= 0:
                product *= set_factor[s, k]
        value += product
    return value


@inner
def move_phi(phi, own, moved, weight, new, scale, out):
    """Write phi after one profile has moved and the weights of all others were multiplied by `scale`."""
    before, after, others = spread(weight), spread(new), spread(scale)
    for row in range(phi.size // LANES):
        rest = at_least_zero(load(phi, row) - before * load(own, row))
        store(out, row, others * rest + after * load(moved, row))


@inner
def swap_levels(rules, j, level_start, level, level_profile, set_factor, k):
    """Exchange the row of variable j in profile k with the one in `level`, and bring its sets into step."""
    for v in range(level_start[j], level_start[j + 1]):
        level[v], level_profile[v, k] = level_profile[v, k], level[v]
    for s in range(rules.set_variable.shape[0]):
        if rules.set_variable[s] == j:
            set_factor[s, k] = 0.0
            for x in range(rules.set_start[s], rules.set_start[s + 1]):
                set_factor[s, k] += level_profile[rules.set_level[x], k]


@inner
def accept_trial(grid):
    """Let phi be what was tried."""
    for row in range(grid.phi.size // LANES):
        store(grid.phi, row, load(grid.trial, row))
