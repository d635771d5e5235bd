"""Profiles: opened and closed while seats and labels are resampled, tallied, and drawn (docs/model.md section 3).

A profile that is not explicit yet takes beta_new = beta_0 (1 - nu), nu ~ Beta(gamma, 1), and its rows theta are drawn
given the answers that open it, with a layout drawn at random: one answer has probability pi under each. Given all
labels, theta^(k)_j has the counts N_kj = level_count (trees.py).

A profile is removed before its last table is resampled: beta_0 += beta_k, and the table cannot choose it. Which
profiles are explicit may depend on all other tables but not on the one being resampled: a profile with this table alone
is explicit only because of the table's label, and if it could be chosen again the conditional would be wrong. `mixed`
has a fixed number of profiles and removes none.

Seats and labels read the brackets sum_k beta_k theta^(k)_{j,x} by level, as cumulative sums over profiles (`bracket`)
and as terms (`weighted`); opening and closing a profile updates both.
"""

import math
from typing import NamedTuple

from keyhole.kernels.concentrations import fill_eppf
from keyhole.kernels.jit import allocating, inner, kernel
from keyhole.kernels.state import Floats, Integers, Trees
from keyhole.kernels.trees import draw_layout, draw_row, fill_below, fill_one_below, fill_shapes
from keyhole.kernels.weights import draw_weights
from keyhole.kernels.work import FULL

DONE = 0
CLOSE = 1
OPEN = 2


class ProfileArrays(NamedTuple):
    """What opening and closing a profile touches: the trees, and arrays of Records, State and Work under their names.

    Functions take this instead of State and Work because Numba compiles them several times faster.
    """

    profile_total: Integers
    weight: Floats
    remainder: Floats
    level_profile: Floats
    profile_tables: Integers
    level_count: Integers
    weight_concentration: Floats
    base_level: Floats
    layout: Integers
    trees: Trees
    level_start: Integers
    weighted: Floats
    bracket: Floats
    level_shape: Floats
    split: Floats
    edge_shape: Floats
    below: Integers
    status: Integers


@allocating
def make_profile_arrays(records, prior, state, work):
    """Collect the arrays, and fill the shapes of all edges."""
    for j in range(records.level_start.shape[0] - 1):
        fill_shapes(prior.trees, j, state.base_strength, state.base_level, work.edge_shape)
    return ProfileArrays(
        state.profile_total, state.weight, state.remainder, state.level_profile, state.profile_tables,
        state.level_count, state.weight_concentration, state.base_level, state.layout, prior.trees,
        records.level_start, work.weighted, work.bracket, work.level_shape, work.split, work.edge_shape, work.below,
        work.status,
    )  # fmt: skip


@inner
def draw_row_given(rng, arrays, k, j, answer, row):
    """Draw the row of key j in profile k, given an answer (or none if it is negative), to its levels in `row`."""
    first, last = arrays.level_start[j], arrays.level_start[j + 1]
    fill_one_below(answer, first, last, arrays.below)
    layout = arrays.trees.layout_start[j] + arrays.layout[j, k]
    draw_row(rng, arrays.trees, layout, first, last, arrays.edge_shape, arrays.below, arrays.split, row)


@inner
def build_brackets(arrays):
    """Fill `weighted` and `bracket` for the profiles in use."""
    profiles = arrays.profile_total[0]
    levels, capacity = arrays.level_profile.shape
    padded = min(capacity, (profiles + 7) // 8 * 8)
    for v in range(levels):
        total = 0.0
        for k in range(profiles):
            arrays.weighted[v, k] = arrays.weight[k] * arrays.level_profile[v, k]
            total += arrays.weighted[v, k]
            arrays.bracket[v, k] = total
        for k in range(profiles, padded):
            arrays.weighted[v, k] = 0.0


@inner
def open_profile(rng, arrays, level, seat, i, t):
    """Open a profile for table t of record i (for no table if i < 0); return its index, or -1 if there is no room."""
    k = arrays.profile_total[0]
    if k == arrays.weight.shape[0]:
        arrays.status[0] = FULL
        return -1
    log_nu = -rng.standard_exponential() / arrays.weight_concentration[0]
    arrays.weight[k] = -math.expm1(log_nu) * arrays.remainder[0]
    arrays.remainder[0] *= math.exp(log_nu)
    arrays.profile_total[0] = k + 1
    arrays.profile_tables[k] = 1 if i >= 0 else 0
    column = arrays.level_shape
    for j in range(arrays.level_start.shape[0] - 1):
        answer = level[i, j] if i >= 0 and seat[i, j] == t else -1
        arrays.layout[j, k] = draw_layout(rng, arrays.trees, j)
        draw_row_given(rng, arrays, k, j, answer, column)
    for v in range(arrays.base_level.shape[0]):
        arrays.level_profile[v, k] = column[v]
        arrays.level_count[v, k] = 0
        if k % 8 == 0:
            arrays.weighted[v, k : k + 8] = 0.0
        arrays.weighted[v, k] = arrays.weight[k] * column[v]
        arrays.bracket[v, k] = arrays.weighted[v, k] + (arrays.bracket[v, k - 1] if k > 0 else 0.0)
    return k


@inner
def close_profile(arrays, k):
    """Remove profile k: its weight goes to the remainder, and no table can choose it."""
    arrays.remainder[0] += arrays.weight[k]
    arrays.weight[k] = 0.0
    arrays.profile_tables[k] = 0
    for v in range(arrays.base_level.shape[0]):
        arrays.weighted[v, k] = 0.0
        total = arrays.bracket[v, k - 1] if k > 0 else 0.0
        for other in range(k, arrays.profile_total[0]):
            total += arrays.weighted[v, other]
            arrays.bracket[v, other] = total


@inner
def label_fresh_table(rng, arrays, finite, level, seat, label, i, t):
    """Label table t of record i, whose draw fell beyond the last profile: a new profile is opened.

    In `mixed` only rounding leads here, and the table takes the last profile.
    """
    if finite:
        k = arrays.profile_total[0] - 1
        label[i, t] = k
        arrays.profile_tables[k] += 1
    else:
        label[i, t] = open_profile(rng, arrays, level, seat, i, t)


@inner
def tally_answers(rng, records, prior, state, work):
    """Recount tables and answers by profile from the seating of the records."""
    profiles = state.profile_total[0]
    state.profile_tables[:profiles] = 0
    state.level_count[:, :profiles] = 0
    for i in range(records.level.shape[0]):
        for t in range(state.table_total[i]):
            state.profile_tables[state.table_label[i, t]] += 1
        for j in range(records.level.shape[1]):
            v = records.level[i, j]
            if v >= 0:
                state.level_count[v, state.table_label[i, state.seat[i, j]]] += 1


@inner
def drop_empty_profiles(rng, records, prior, state, work):
    """Remove profiles without tables; their weight goes to the remainder. `mixed` keeps them."""
    if prior.finite:
        return
    profiles = state.profile_total[0]
    kept = 0
    for k in range(profiles):
        work.relabel[k] = kept
        if state.profile_tables[k] == 0:
            state.remainder[0] += state.weight[k]
            continue
        if kept != k:
            state.weight[kept] = state.weight[k]
            state.profile_tables[kept] = state.profile_tables[k]
            for v in range(state.level_count.shape[0]):
                state.level_profile[v, kept] = state.level_profile[v, k]
                state.level_count[v, kept] = state.level_count[v, k]
            for j in range(state.layout.shape[0]):
                state.layout[j, kept] = state.layout[j, k]
        kept += 1
    if kept == profiles:
        return
    state.profile_total[0] = kept
    for i in range(records.level.shape[0]):
        for t in range(state.table_total[i]):
            state.table_label[i, t] = work.relabel[state.table_label[i, t]]


@inner
def draw_profiles(rng, records, prior, state, work):
    """Draw theta of every profile given the answers labelled with it."""
    trees, row = prior.trees, work.level_shape
    for j in range(records.level.shape[1]):
        fill_shapes(trees, j, state.base_strength, state.base_level, work.edge_shape)
    for k in range(state.profile_total[0]):
        for j in range(records.level.shape[1]):
            first, last = records.level_start[j], records.level_start[j + 1]
            fill_below(state.level_count, k, first, last, work.below)
            layout = trees.layout_start[j] + state.layout[j, k]
            draw_row(rng, trees, layout, first, last, work.edge_shape, work.below, work.split, row)
            for v in range(first, last):
                state.level_profile[v, k] = row[v]


@kernel
def initialise_parameters(rng, records, prior, state, work):
    """Draw layouts, weights and profiles given a seating, with tallies and V to match: the first draw of a chain.

    One kernel instead of five calls from Python, because every entry point adds to the time of compiling.
    """
    for k in range(state.profile_total[0]):
        for j in range(records.level.shape[1]):
            state.layout[j, k] = draw_layout(rng, prior.trees, j)
    fill_eppf(rng, records, prior, state, work)
    tally_answers(rng, records, prior, state, work)
    drop_empty_profiles(rng, records, prior, state, work)
    draw_weights(rng, records, prior, state, work)
    draw_profiles(rng, records, prior, state, work)
