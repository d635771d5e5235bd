"""Exact probability of a cell, or of any event that confines some variables (MODEL.md section 4).

Given weights beta (the remainder counts as one more profile, with theta = pi) and profiles theta, with f variables
confined and V(f, b) = seating[f, b],
    P = sum over set partitions of the f variables of V(f, blocks) prod over blocks B of (|B| - 1)! phi(B),
    phi(B) = sum_k beta_k prod_{j in B} theta^(k)_j(event).
Sets of variables are bit masks. phi for all sets: for each profile, products by doubling, K 2^f steps.
Then A(S, b) = sum over T in S with min(S) in T of (|T| - 1)! phi(T) A(S - T, b - 1), P = sum_b V(f, b) A(all, b).
Only sets without variable 0, and the full set, are needed: A is indexed by mask >> 1, about 3^(f-1) / 2 steps.

Several events go together ("lanes"): what is looked up for a pair (S, T) then serves all of them, side by side in
memory, and the compiler uses vector instructions. Plain version: tests/oracle/risk.py.
"""

from typing import NamedTuple

import numpy as np

from keyhole.kernels.jit import inner, kernel
from keyhole.kernels.state import Floats, Integers


class CellWork(NamedTuple):
    """Scratch for events that confine up to f variables.

    factor : float64 (f, K)
        Probability of the event's part in variable j under profile k.
    low, high : float64 (K, 2^(f / 2 + 1)), (2^(f / 2), K)
        Products over sets of the first and of the other variables; at least four columns and two rows.
    phi : float64 (2^(f / 2), 2^(f / 2 + 1))
    block : float64 (2^f, lanes)
        (|T| - 1)! phi(T).
    sums : float64 (2^(f-1), f, lanes)
        A(S, b), at index (mask of S without variable 0) >> 1 and b - 1.
    total : float64 (f, lanes)
        A(all, b), at index b - 1.
    members : int64 (2^f,)
        Number of variables in each set.
    factorial : float64 (f + 1,)
    """

    factor: Floats
    low: Floats
    high: Floats
    phi: Floats
    block: Floats
    sums: Floats
    total: Floats
    members: Integers
    factorial: Floats


def make_cell_work(variables: int, profiles: int, lanes: int | None = None) -> CellWork:
    """Allocate scratch for this many confined variables and profiles."""
    if lanes is None:
        lanes = 32 if variables <= 10 else 16  # measured: more lanes are faster until `sums` outgrows the cache
    sets = 1 << variables
    lower = 1 << min((variables + 2) // 2, variables)
    rows, columns = max(sets // lower, 2), max(lower, 4)
    members = np.zeros(sets, np.int64)
    for mask in range(1, sets):
        members[mask] = members[mask >> 1] + (mask & 1)
    return CellWork(
        factor=np.zeros((variables, profiles)),
        low=np.zeros((profiles, columns)),
        high=np.zeros((rows, profiles)),
        phi=np.zeros((rows, columns)),
        block=np.zeros((sets, lanes)),
        sums=np.zeros((max(sets // 2, 1), variables, lanes)),
        total=np.zeros((variables, lanes)),
        members=members,
        factorial=np.cumprod([1.0, *range(1, variables + 1)]),
    )


@inner
def multiply_upper(first, last, profiles, factor, high):
    """Fill row `mask` of `high` with row 0 times the product of factor[j] over the variables first + j in the mask."""
    for j in range(first, last):
        half = 1 << (j - first)
        for mask in range(half):
            for k in range(profiles):
                high[half + mask, k] = high[mask, k] * factor[j, k]


@inner
def multiply_lower(variables, profiles, factor, low):
    """Fill column `mask` of `low` with the product of factor[j] over the variables j in the mask."""
    for k in range(profiles):
        a = factor[0, k]
        b = factor[1, k] if variables > 1 else 1.0
        low[k, 0], low[k, 1], low[k, 2], low[k, 3] = 1.0, a, b, a * b
        for j in range(2, variables):
            half = 1 << j
            x = factor[j, k]
            for mask in range(half):
                low[k, half + mask] = low[k, mask] * x


@inner
def multiply_tables(upper, lower, profiles, high, low, phi):
    """Fill phi = high low, a sum over profiles in their order, for two rows and two profiles at a time.

    The innermost loop runs over sets, not profiles: it adds nothing up, so it may use vectors and keep that order.
    """
    even = profiles & ~1
    for top in range(0, upper, 2):
        for mask in range(lower):
            phi[top, mask] = 0.0
            phi[top + 1, mask] = 0.0
        for k in range(0, even, 2):
            a, b = high[top, k], high[top, k + 1]
            c, d = high[top + 1, k], high[top + 1, k + 1]
            for mask in range(lower):
                phi[top, mask] = (phi[top, mask] + a * low[k, mask]) + b * low[k + 1, mask]
                phi[top + 1, mask] = (phi[top + 1, mask] + c * low[k, mask]) + d * low[k + 1, mask]
        for k in range(even, profiles):
            a, c = high[top, k], high[top + 1, k]
            for mask in range(lower):
                phi[top, mask] += a * low[k, mask]
                phi[top + 1, mask] += c * low[k, mask]


@inner
def fill_blocks(weight, profiles, variables, lane, factor, low, high, phi, block, members, factorial):
    """Fill block[:, lane] with (|T| - 1)! phi(T) for every set T of variables, from `factor`.

    Plainly: phi[mask] = sum_k weight[k] prod_{j in mask} factor[j, k]. The mask is cut in two, and phi is the
    product of a matrix over upper halves and profiles with one over lower halves and profiles.
    """
    cut = min((variables + 2) // 2, variables)
    lower, upper = 1 << cut, 1 << (variables - cut)
    for k in range(profiles):
        high[0, k] = weight[k]
    multiply_lower(cut, profiles, factor, low)
    multiply_upper(cut, variables, profiles, factor, high)
    multiply_tables(upper, lower, profiles, high, low, phi)
    for top in range(upper):
        for mask in range(lower):
            whole = top << cut | mask
            if whole > 0:
                block[whole, lane] = factorial[members[whole] - 1] * phi[top, mask]


@inner
def sum_blocks(block, sums, members, low, others, first, out):
    """Fill out[b - 1] with A(S, b) for every lane, S being `others` and one variable before them.

    That variable is number 0 if `first`, else the one of bit `low`; `others` and `low` are masks >> 1.
    """
    lanes = block.shape[1]
    out[:, :] = 0.0
    taken = others
    while True:
        left = others ^ taken
        mask = (low | taken) << 1 | first
        if left == 0:
            for lane in range(lanes):
                out[0, lane] += block[mask, lane]
        for b in range(members[left]):
            for lane in range(lanes):
                out[b + 1, lane] += block[mask, lane] * sums[left, b, lane]
        if taken == 0:
            break
        taken = (taken - 1) & others


@inner
def sum_partitions(variables, block, sums, total, members):
    """Fill `total` with A(all, b) for every lane, and `sums` with A(S, b) for sets without variable 0."""
    lanes = block.shape[1]
    half = 1 << (variables - 1)
    for rest in range(1, half + 1):
        # rest < half: the set S = rest, its lowest variable apart. rest = half: all variables, variable 0 apart.
        low = rest & -rest if rest < half else 0
        others = rest ^ low if rest < half else half - 1
        first = 0 if rest < half else 1
        sum_blocks(block, sums, members, low, others, first, total)
        if rest < half:
            for b in range(members[rest]):
                for lane in range(lanes):
                    sums[rest, b, lane] = total[b, lane]


@inner
def fill_cell(level, i, lane, weight, profiles, level_profile, work):
    """Fill one lane of the blocks for the cell of row i."""
    variables = level.shape[1]
    for j in range(variables):
        for k in range(profiles):
            work.factor[j, k] = level_profile[level[i, j], k]
    fill_blocks(
        weight, profiles, variables, lane, work.factor, work.low, work.high, work.phi, work.block, work.members,
        work.factorial,
    )  # fmt: skip


@kernel
def cell_probabilities(weight, level_profile, profiles, seating, cell_level, work, out):
    """Write the probability of each cell to `out`.

    weight : (K,), the remainder among them; level_profile : (levels, K); cell_level : (cells, J), levels.
    """
    cells, variables = cell_level.shape
    lanes = work.block.shape[1]
    for first in range(0, cells, lanes):
        for lane in range(min(lanes, cells - first)):
            fill_cell(cell_level, first + lane, lane, weight, profiles, level_profile, work)
        sum_partitions(variables, work.block, work.sums, work.total, work.members)
        for lane in range(min(lanes, cells - first)):
            value = 0.0
            for b in range(variables):
                value += seating[variables, b + 1] * work.total[b, lane]
            out[first + lane] = value
