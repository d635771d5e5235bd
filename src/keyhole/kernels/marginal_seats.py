"""Concentrations and memberships jointly: (a, b) or alpha with most seats integrated out, then these seats.

Given the seats of n records, log(a / b) can move only by about one over the square root of the number of tables in
excess of one per record, and the seats follow it as slowly. But given weights and profiles the probability of a record
is a sum over its seatings, sum_b V(f, b) A(b), and A (cells.py) does not depend on the concentrations. So A is computed
once for every distinct record, and a random walk on log alpha, or on (log (a / b), log a), targets
    prior(a, b) prod_{i in H} sum_b V(J, b) A_i(b) prod_{i not in H} V(f_i, m_i).
Then the seats and labels of the records in H are drawn exactly: the number b of blocks with weights V(J, b) A_i(b), the
block T that holds the lowest variable of the set S still to be seated in b blocks with weights
(|T| - 1)! phi(T) A(S - T, b - 1), and the profile of a block with weights beta_k prod over its answers of theta^(k)_v.

H: records without a missing answer that use only profiles with beta_k >= min(2 / n, 0.2) (in `mixed` all profiles).
Which profiles these are depends on G_0 alone (sticks are broken until the remainder is smaller), and H is the same
before and after the move.
"""

import math

from keyhole.kernels.cells import fill_cell
from keyhole.kernels.concentrations import log_seatings, log_shared
from keyhole.kernels.distributions import draw_cumulative
from keyhole.kernels.eppf import fill_fixed_alpha_eppf, fill_random_alpha_eppf
from keyhole.kernels.jit import inner, kernel
from keyhole.kernels.lanes import LANES
from keyhole.kernels.partitions import sum_partitions
from keyhole.kernels.profiles import make_profile_arrays, open_profile
from keyhole.kernels.work import OK

SMALL_STEP, STEP_RANGE = -2.0, 3.5
"""The standard deviation of a step is log-uniform between exp(-2) and exp(1.5)."""


@inner
def log_concentrations(x, y, finite, first, second, eppf, table, group_size, groups, sums):
    """Return the log density of log alpha, or of (log (a / b), log a); `eppf` becomes its V.

    table: records whose seats are given, by answers and tables. groups, group_size, sums: the groups of equal records
    whose seats are integrated out.
    """
    if finite:
        fill_fixed_alpha_eppf(math.exp(x), eppf)
        value = log_shared(x, first, second, table)
    else:
        value = log_seatings(x, y, first, second, table, eppf)
    variables = sums.shape[1]
    for g in range(groups):
        probability = 0.0
        for b in range(variables):
            probability += eppf[variables, b + 1] * sums[g, b]
        value += group_size[g] * math.log(probability)
    return value


@inner
def walk_concentrations(rng, prior, state, work, groups, moves):
    """Make Metropolis steps of alpha (`mixed`) or of the mean a / b and the shape a, and update V.

    work.tables_by_length counts the records whose seats are given; work.members has `groups` groups of the others.
    """
    finite, trial = prior.finite, work.trial_eppf
    table, size, sums = work.tables_by_length, work.members.group_size, work.members.sums
    first, second = prior.mean_sd, prior.shape_sd
    if finite:
        x, y = math.log(state.shared_concentration[0]), 0.0
        first, second = prior.shared_concentration[0], prior.shared_concentration[1]
    else:
        y = math.log(state.record_concentration[0])
        x = y - math.log(state.record_concentration[1])
    density = log_concentrations(x, y, finite, first, second, trial, table, size, groups, sums)
    for _ in range(moves):
        step = math.exp(SMALL_STEP + STEP_RANGE * rng.random())
        new_x, new_y = x, y
        if finite or rng.random() < 0.5:
            new_x += step * rng.standard_normal()
        else:
            new_y += step * rng.standard_normal()
        if abs(new_x) > 30.0 or abs(new_y) > 30.0:
            continue
        new_density = log_concentrations(new_x, new_y, finite, first, second, trial, table, size, groups, sums)
        if -rng.standard_exponential() < new_density - density:
            x, y, density = new_x, new_y, new_density
    if finite:
        state.shared_concentration[0] = math.exp(x)
        fill_fixed_alpha_eppf(state.shared_concentration[0], state.eppf)
    else:
        state.record_concentration[0] = math.exp(y)
        state.record_concentration[1] = math.exp(y - x)
        fill_random_alpha_eppf(state.record_concentration[0], state.record_concentration[1], state.eppf)


@inner
def draw_block(rng, block, sums, lane, left, tables):
    """Draw the block of the lowest variable in `left`, a set to be seated at this many tables."""
    if tables == 1:
        return left
    lowest = left & -left
    others = left ^ lowest
    total = 0.0
    taken = others
    for scan in range(2):
        # The first scan sums the weights, the second picks a block.
        u = rng.random() * total if scan == 1 else 0.0
        last = lowest
        taken = others
        while True:
            rest = others ^ taken
            if rest > 0:
                weight = block[lowest | taken, lane] * sums[rest >> 1, tables - 2, lane]
                if scan == 0:
                    total += weight
                elif weight > 0.0:
                    last = lowest | taken
                    u -= weight
                    if u < 0.0:
                        return last
            if taken == 0:
                break
            taken = (taken - 1) & others
    return last


@inner
def draw_profile_of(rng, weight, profiles, level_profile, level, i, block, cumulative):
    """Draw the profile of a table that holds the answers of record i to the variables in `block`."""
    total = 0.0
    for k in range(profiles):
        cumulative[k] = weight[k]
    for j in range(level.shape[1]):
        if block >> j & 1:
            for k in range(profiles):
                cumulative[k] *= level_profile[level[i, j], k]
    for k in range(profiles):
        total += cumulative[k]
        cumulative[k] = total
    return draw_cumulative(rng, cumulative, profiles)


@inner
def seat_at_one(rng, records, state, i, k):
    """Seat all answers of record i at one table of profile k."""
    variables = records.level.shape[1]
    for j in range(variables):
        state.seat[i, j] = 0
        state.table_size[i, j] = 0
    state.table_size[i, 0] = variables
    state.table_label[i, 0] = k
    state.table_total[i] = 1


@inner
def draw_table_numbers(rng, records, state, work, profiles, groups):
    """Draw how many tables each record of H has, and seat those with one.

    Return how many groups have records with more tables; work.members.several lists these groups.
    """
    variables = records.level.shape[1]
    member, chosen, cumulative, blocks = work.members, work.members.chosen, work.product, work.table_cumulative
    several = 0
    for g in range(groups):
        total = 0.0
        for b in range(variables):
            total += state.eppf[variables, b + 1] * member.sums[g, b]
            blocks[b] = total
        i = member.group_first[g]
        known, more = False, False
        while i >= 0:
            member.tables[i] = draw_cumulative(rng, blocks, variables) + 1
            if member.tables[i] > 1:
                more = True
            else:
                if known:
                    k = draw_cumulative(rng, cumulative, profiles)
                else:
                    k = draw_profile_of(
                        rng, work.profile_shape, profiles, work.bracket, records.level, i, (1 << variables) - 1,
                        cumulative,
                    )  # fmt: skip
                    known = True
                seat_at_one(rng, records, state, i, chosen[k])
            i = member.following[i]
        if more:
            member.several[several] = g
            several += 1
    return several


@inner
def seat_at_several(rng, records, state, work, profiles, i, lane):
    """Draw the blocks of record i and their profiles, given the number of blocks."""
    variables, cells, tables = records.level.shape[1], work.members.cells, work.members.tables[i]
    left = (1 << variables) - 1
    for t in range(variables):
        state.table_size[i, t] = 0
    for t in range(tables):
        block = draw_block(rng, cells.block, cells.sums, lane, left, tables - t)
        left ^= block
        for j in range(variables):
            if block >> j & 1:
                state.seat[i, j] = t
                state.table_size[i, t] += 1
        k = draw_profile_of(rng, work.profile_shape, profiles, work.bracket, records.level, i, block, work.product)
        state.table_label[i, t] = work.members.chosen[k]
    state.table_total[i] = tables


SMALLEST_PROFILE, SMALLEST_WEIGHT = 2.0, 0.2
"""Records that a profile must be expected to hold, or the weight that suffices in a small file."""

MOVES = 10


@inner
def choose_profiles(least, weight, profiles, level_profile, place, chosen, chosen_weight, chosen_profile):
    """Copy the profiles whose weight is at least `least` to adjacent columns; return their number.

    place[k]: the column of profile k, -1 if it is not copied; chosen: the profile of each column.
    """
    total = 0
    for k in range(profiles):
        place[k] = -1
        if weight[k] >= least:
            place[k] = total
            chosen[total] = k
            chosen_weight[total] = weight[k]
            total += 1
    for v in range(level_profile.shape[0]):
        for x in range(total):
            chosen_profile[v, x] = level_profile[v, chosen[x]]
    return total


@inner
def group_records(
    level, answer_total, table_total, table_label, place, held, slots, group_first, group_size, following
):
    """Group equal records of H, each group a linked list through `following`; return the number of groups.

    held: the number of all other records, by answers and tables.
    """
    n, variables = level.shape
    mask = slots.shape[0] - 1
    slots[:] = -1
    held[:, :] = 0
    groups = 0
    for i in range(n):
        free = answer_total[i] == variables
        for t in range(table_total[i]):
            free = free and place[table_label[i, t]] >= 0
        if not free:
            held[answer_total[i], table_total[i]] += 1
            continue
        key = 0
        for j in range(variables):
            key = (key * 1_000_003 + int(level[i, j])) & 0xFFFFFFFFFF
        spot = (key ^ (key >> 17)) & mask
        while True:
            g = slots[spot]
            if g < 0:
                slots[spot] = groups
                group_first[groups] = i
                group_size[groups] = 1
                following[i] = -1
                groups += 1
                break
            same = True
            for j in range(variables):
                same = same and level[i, j] == level[group_first[g], j]
            if same:
                following[i] = following[group_first[g]]
                following[group_first[g]] = i
                group_size[g] += 1
                break
            spot = (spot + 1) & mask
    return groups


@kernel
def draw_memberships(rng, records, prior, state, work):
    """Draw the concentrations and the seats of the records in H; do nothing if the concentrations are fixed.

    Only without rules. Tallies must be recounted afterwards.
    """
    n, variables = records.level.shape
    member, cells = work.members, work.members.cells
    if n == 0 or variables < 2 or member.sums.shape[0] == 0 or not (prior.finite or prior.adaptive):
        return
    least = min(SMALLEST_PROFILE / n, SMALLEST_WEIGHT)
    arrays = make_profile_arrays(records, state, work)
    while not prior.finite and state.remainder[0] >= least:
        open_profile(rng, arrays, records.level, state.seat, -1, -1)
        if work.status[0] != OK:
            return
    weight, level_profile = work.profile_shape, work.bracket
    profiles = choose_profiles(
        0.0 if prior.finite else least, state.weight, state.profile_total[0], state.level_profile, work.relabel,
        member.chosen, weight, level_profile,
    )  # fmt: skip
    if profiles == 0:
        return
    groups = group_records(
        records.level, records.answer_total, state.table_total, state.table_label, work.relabel,
        work.tables_by_length, member.slots, member.group_first, member.group_size, member.following,
    )  # fmt: skip
    for first in range(0, groups, LANES):
        for lane in range(min(LANES, groups - first)):
            fill_cell(records.level, member.group_first[first + lane], lane, weight, profiles, level_profile, cells)
        sum_partitions(variables, cells.block, cells.sums, cells.total, cells.partitions)
        for lane in range(min(LANES, groups - first)):
            for b in range(variables):
                member.sums[first + lane, b] = cells.total[b, lane]
    walk_concentrations(rng, prior, state, work, groups, MOVES)
    several = draw_table_numbers(rng, records, state, work, profiles, groups)
    for first in range(0, several, LANES):
        for lane in range(min(LANES, several - first)):
            i = member.group_first[member.several[first + lane]]
            fill_cell(records.level, i, lane, weight, profiles, level_profile, cells)
        sum_partitions(variables, cells.block, cells.sums, cells.total, cells.partitions)
        for lane in range(min(LANES, several - first)):
            i = member.group_first[member.several[first + lane]]
            while i >= 0:
                if member.tables[i] > 1:
                    seat_at_several(rng, records, state, work, profiles, i, lane)
                i = member.following[i]
