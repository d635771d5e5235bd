"""Where records sit, drawn anew at once from sums over all seatings (memberships.py): first how many tables each has,
then the blocks of answers, then the profile of each block.
"""

from keyhole.kernels.draws import draw_cumulative
from keyhole.kernels.jit import inner


@inner
def draw_block(rng, block, sums, lane, left, tables):
    """Draw the block of the lowest of the variables in `left`, which are to be seated at so many tables."""
    if tables == 1:
        return left
    lowest = left & -left
    others = left ^ lowest
    total = 0.0
    taken = others
    for scan in range(2):
        # The first time the weights are added up, the second time one is picked.
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
    """Draw how many tables each record of H has, and seat those with one; return how many groups have more to seat.

    Their groups stand first in work.members.several.
    """
    variables = records.level.shape[1]
    member, chosen, cumulative, blocks = work.members, work.members.chosen, work.product, work.table_cumulative
    several = 0
    for g in range(groups):
        total = 0.0
        for b in range(variables):
            total += state.seating[variables, b + 1] * member.sums[g, b]
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
    """Draw the blocks of record i and their profiles, given how many there are."""
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
