"""Exact probability of a cell, or of any event that restricts some variables (docs/model.md section 4).

Given weights beta (the remainder counts as one more profile, with theta = pi) and profiles theta, with f variables
restricted and V(f, b) = eppf[f, b],
    P = sum over set partitions of the f variables of V(f, blocks) prod over blocks B of (|B| - 1)! phi(B),
    phi(B) = sum_k beta_k prod_{j in B} theta^(k)_j(event).
Sets of variables are bit masks. phi of all sets: for each profile, products by doubling, K 2^f steps.
Then A(S, b) = sum over T in S with min(S) in T of (|T| - 1)! phi(T) A(S - T, b - 1), P = sum_b V(f, b) A(all, b).
Only sets without variable 0, and the full set, are needed: A is indexed by mask >> 1, about 3^(f-1) / 2 steps.

Sixteen events are computed side by side (lanes.py), so that looking up a pair (S, T) (partitions.py) serves them all.
Reference version: tests/oracle/risk.py.
"""

from typing import NamedTuple

import numpy as np

from keyhole.kernels.jit import inner, kernel
from keyhole.kernels.lanes import LANES, lane_zeros, load, spread, store
from keyhole.kernels.partitions import Partitions, make_partitions, sum_partitions
from keyhole.kernels.state import Floats, Integers


class CellWork(NamedTuple):
    """Scratch for events that restrict up to f variables.

    factor : float64 (f, K)
        Probability under profile k of the levels to which the event restricts variable j.
    low, high : float64 (K, 2^(f / 2 + 1)), (2^(f / 2), K)
        Products over sets of the first and of the other variables; at least sixteen columns and two rows.
    phi : float64 (2^(f / 2), 2^(f / 2 + 1))
    block : float64 (2^f, 16)
        (|T| - 1)! phi(T).
    sums : float64 (2^(f-1), f, 16)
        A(S, b), at index (mask of S without variable 0) >> 1 and b - 1.
    total : float64 (f, 16)
        A(all, b), at index b - 1.
    members : int64 (2^f,)
        Number of variables in each set.
    factorial : float64 (f + 1,)
    partitions : Partitions
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
    partitions: Partitions


def make_cell_work(variables: int, profiles: int) -> CellWork:
    """Allocate scratch for this many restricted variables and profiles."""
    sets = 1 << variables
    lower = 1 << min((variables + 2) // 2, variables)
    rows, columns = max(sets // lower, 2), max(lower, LANES)
    members = np.zeros(sets, np.int64)
    for mask in range(1, sets):
        members[mask] = members[mask >> 1] + (mask & 1)
    return CellWork(
        factor=np.zeros((variables, profiles)),
        low=lane_zeros((profiles, columns)),
        high=np.zeros((rows, profiles)),
        phi=lane_zeros((rows, columns)),
        block=lane_zeros((sets, LANES)),
        sums=lane_zeros((max(sets // 2, 1), variables, LANES)),
        total=lane_zeros((variables, LANES)),
        members=members,
        factorial=np.cumprod([1.0, *range(1, variables + 1)]),
        partitions=make_partitions(variables),
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
    """Fill phi = high low, summing over profiles in order, for two rows and sixteen columns at a time."""
    width = low.shape[1] // LANES
    for top in range(0, upper, 2):
        for part in range((lower + LANES - 1) // LANES):
            one, two = spread(0.0), spread(0.0)
            for k in range(profiles):
                column = load(low, k * width + part)
                one = one + spread(high[top, k]) * column
                two = two + spread(high[top + 1, k]) * column
            store(phi, top * width + part, one)
            store(phi, (top + 1) * width + part, two)


@inner
def fill_blocks(weight, profiles, variables, lane, factor, low, high, phi, block, members, factorial, shift, own):
    """Fill block[:, lane] with (|T| - 1)! phi(T) for every set T of variables, from `factor`.

    That is, phi[mask] = sum_k weight[k] prod_{j in mask} factor[j, k]. The mask is split in two, and phi is the
    product of a matrix over upper halves and profiles and one over profiles and lower halves.

    shift, own : number of variables before these, and which of them all sets have besides, as a mask.
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
            whole = (top << cut | mask) << shift | own
            if whole > 0:
                block[whole, lane] = factorial[members[whole] - 1] * phi[top, mask]


@inner
def fill_cell(level, i, lane, weight, profiles, level_profile, work, shift, own):
    """Fill one lane of the blocks for the cell of row i; shift, own : as in fill_blocks."""
    variables = level.shape[1]
    for j in range(variables):
        for k in range(profiles):
            work.factor[j, k] = level_profile[level[i, j], k]
    fill_blocks(
        weight, profiles, variables, lane, work.factor, work.low, work.high, work.phi, work.block, work.members,
        work.factorial, shift, own,
    )  # fmt: skip


@kernel
def cell_probabilities(weight, level_profile, profiles, eppf, cell_level, work, out):
    """Write the probability of each cell to `out`.

    weight : (K,), including the remainder; level_profile : (levels, K); cell_level : (cells, J), levels.
    """
    cells, variables = cell_level.shape
    for first in range(0, cells, LANES):
        for lane in range(min(LANES, cells - first)):
            fill_cell(cell_level, first + lane, lane, weight, profiles, level_profile, work, 0, 0)
        sum_partitions(variables, work.block, work.sums, work.total, work.partitions)
        for lane in range(min(LANES, cells - first)):
            value = 0.0
            for b in range(variables):
                value += eppf[variables, b + 1] * work.total[b, lane]
            out[first + lane] = value


@inner
def multiply_levels(level, i, weight, level_profile, product):
    """Fill product[k] = weight[k] times the probabilities of the levels of row i under profile k."""
    for k in range(product.shape[0]):
        product[k] = weight[k]
    for j in range(level.shape[1]):
        v = level[i, j]
        for k in range(product.shape[0]):
            product[k] *= level_profile[v, k]


@kernel
def mixture_probabilities(weight, level_profile, cell_level, out):
    """Write the probability of each cell to `out`, given that all answers of a person are at one table."""
    profiles = weight.shape[0]
    product = np.empty(profiles)
    for i in range(cell_level.shape[0]):
        multiply_levels(cell_level, i, weight, level_profile, product)
        out[i] = product.sum()
