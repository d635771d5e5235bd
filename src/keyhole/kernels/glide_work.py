"""Scratch for moves of all profiles at once (glide.py), and the arrays that they look at."""

from typing import NamedTuple

import numpy as np

from keyhole.kernels.grid import count_groups
from keyhole.kernels.jit import inner
from keyhole.kernels.lanes import LANES, lane_zeros
from keyhole.kernels.state import Floats, Integers, Rules


class Glide(NamedTuple):
    """Scratch for moves of all profiles at once. The entry behind the last profile stands for all that do not move.

    level, log_level, level_shape, level_mass, level_momentum, level_slope : float64 (P, levels)
        Of the profiles that move, row by row. Where log_level is -inf the level stands still, or no rule confines it.
    log_weight, weight_shape, weight_mass, weight_momentum, weight_slope, weight_before : float64 (P + 1,)
    rest : float64 (G, 2^U, 16)
        phi of the profiles that do not move; G groups of boxes (grid.py).
    with_first : float64 (G, 2^(U-1), U, 16)
        A(S, b) for sets with the first variable, at index (mask of S) >> 1 and b - 1.
    slope : float64 (G, 2^U, 16)
        G of glide_slope.py.
    fold : float64 (2^(U+1), 16)
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
    sets : float64 (2, G, 2^U, 16)
    fold : float64 (2^(U+1), 16)
    with_first : float64 (G, 2^(U-1), U, 16)
    set_slope : float64 (S,)
    """

    levels: Floats
    weights: Floats
    sets: Floats
    fold: Floats
    with_first: Floats
    set_slope: Floats


def make_glide_work(rules: Rules, levels: int, capacity: int) -> GlideWork:
    """Allocate scratch for these rules; none without them."""
    groups, variables = count_groups(rules), max(rules.grid_set.shape[0], 1)
    sets = 1 << variables
    return GlideWork(
        levels=np.zeros((6, capacity, levels) if groups else (6, 0, 0)),
        weights=np.zeros((6, capacity + 1 if groups else 0)),
        sets=lane_zeros((2, groups, sets, LANES)),
        fold=lane_zeros((2 * sets if groups else 0, LANES)),
        with_first=lane_zeros((groups, sets // 2, variables, LANES)),
        set_slope=np.zeros(len(rules.set_variable)),
    )


@inner
def make_glide(work):
    """Name the parts of the room."""
    levels, weights, sets = work.levels, work.weights, work.sets
    return Glide(
        levels[0], levels[1], levels[2], levels[3], levels[4], levels[5], weights[0], weights[1], weights[2],
        weights[3], weights[4], weights[5], sets[0], work.with_first, sets[1], work.fold, work.set_slope,
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
