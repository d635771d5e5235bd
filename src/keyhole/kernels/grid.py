"""1 - p_0 for a profile that moves: boxes on one list of variables, side by side as the lanes of cells.py.

`phi` holds sum_k beta_k prod_j theta_kj(set) for all sets of variables and all boxes, so that a profile that changes
costs no sum over the others. A box that leaves a variable free has the factor one there.
"""

from typing import NamedTuple

import numpy as np

from keyhole.kernels.cells import sum_partitions
from keyhole.kernels.jit import inner
from keyhole.kernels.state import Floats, Integers, Rules


class Grid(NamedTuple):
    """Scratch for L boxes on the same U variables.

    phi, trial : float64 (2^U, L)
        For every set of variables; trial: after the proposed move.
    own, moved : float64 (2^U, L)
        Product over the set for the profile that moves, before and after.
    block, sums, total, members, factorial :
        As in cells.py.
    factor : float64 (U, L)
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
    members: Integers
    factorial: Floats
    factor: Floats
    level: Floats


def make_grid(rules: Rules, levels: int) -> Grid:
    """Allocate scratch for these rules."""
    variables, lanes = rules.grid_set.shape
    sets = 1 << variables if lanes else 1
    members = np.array([mask.bit_count() for mask in range(sets)], np.int64)
    return Grid(
        phi=np.zeros((sets, lanes)),
        trial=np.zeros((sets, lanes)),
        own=np.zeros((sets, lanes)),
        moved=np.zeros((sets, lanes)),
        block=np.zeros((sets, lanes)),
        sums=np.zeros((max(sets // 2, 1), max(variables, 1), lanes)),
        total=np.zeros((max(variables, 1), lanes)),
        members=members,
        factorial=np.cumprod([1.0, *range(1, variables + 1)]),
        factor=np.zeros((variables, lanes)),
        level=np.zeros(levels),
    )


@inner
def multiply_out(grid_set, set_factor, k, factor, out):
    """Fill `out` with the product over every set of variables of profile k's probability of the box's levels."""
    variables, lanes = grid_set.shape
    for lane in range(lanes):
        out[0, lane] = 1.0
    for j in range(variables):
        half = 1 << j
        for lane in range(lanes):
            s = grid_set[j, lane]
            factor[j, lane] = set_factor[s, k] if s >= 0 else 1.0
        for mask in range(half):
            for lane in range(lanes):
                out[half + mask, lane] = out[mask, lane] * factor[j, lane]


@inner
def fill_phi(grid_set, weight, profiles, set_factor, factor, own, phi):
    """Fill phi anew, profile by profile."""
    phi[:, :] = 0.0
    for k in range(profiles):
        if weight[k] == 0.0:
            continue
        multiply_out(grid_set, set_factor, k, factor, own)
        for mask in range(own.shape[0]):
            for lane in range(own.shape[1]):
                phi[mask, lane] += weight[k] * own[mask, lane]


@inner
def share_of_total(total, seating, possible):
    """Return 1 - p_0 from the sums of all boxes, which are the possible ones or the impossible ones."""
    variables, lanes = total.shape
    value = 0.0
    for b in range(variables):
        for lane in range(lanes):
            value += seating[variables, b + 1] * total[b, lane]
    return value if possible else 1.0 - value


@inner
def sum_grid(phi, seating, possible, grid):
    """Fill grid.total with A(all, b) of every box; return 1 - p_0."""
    for mask in range(1, phi.shape[0]):
        scale = grid.factorial[grid.members[mask] - 1]
        for lane in range(phi.shape[1]):
            grid.block[mask, lane] = scale * phi[mask, lane]
    sum_partitions(grid.factor.shape[0], grid.block, grid.sums, grid.total, grid.members)
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
    for x in range(phi.shape[0]):
        out[x] = scale * max(phi[x] - weight * own[x], 0.0) + new * moved[x]


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
    for mask in range(grid.phi.shape[0]):
        for lane in range(grid.phi.shape[1]):
            grid.phi[mask, lane] = grid.trial[mask, lane]
