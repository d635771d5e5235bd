"""Concentrations and memberships in one draw: where most records sit is integrated out while (a, b) or alpha moves.

Given the seats of n records log(a / b) has a standard deviation of one over the root of the tables beyond one for each
record, and the seats follow it as slowly: together they diffuse. But given weights and profiles the probability of a
record is a sum over its seatings, sum_b V(f, b) A(b), and A (cells.py) does not depend on the concentrations. So A is
found once for every distinct record, concentrations move on
    prior(a, b) prod_{i in H} sum_b V(J, b) A_i(b) prod_{i not in H} V(f_i, m_i),
and then seats and labels of the records in H are drawn anew, exactly: the number of blocks, the blocks, their profiles.

H: records without a missing answer that sit only at profiles with beta_k >= 2 / n (at most 0.2). Which profiles these
are depends on G_0 alone (sticks are broken until the remainder is smaller), and who belongs to H is the same before
and after.
"""

from keyhole.kernels.cells import fill_cell
from keyhole.kernels.concentration_walk import walk_concentrations
from keyhole.kernels.fresh_seats import draw_table_numbers, seat_at_several
from keyhole.kernels.jit import inner, kernel
from keyhole.kernels.lanes import LANES
from keyhole.kernels.openings import make_book, open_profile
from keyhole.kernels.partitions import sum_partitions
from keyhole.kernels.profiles import tally_answers
from keyhole.kernels.work import OK

SMALLEST_PROFILE, SMALLEST_WEIGHT = 2.0, 0.2
"""Records that a profile must be expected to hold, or the weight that suffices in a small file."""

MOVES = 10


@inner
def choose_profiles(least, weight, profiles, level_profile, place, chosen, chosen_weight, chosen_profile):
    """Copy the profiles whose weight is at least `least`, one next to the other; return their number.

    place[k]: where profile k is copied to, -1 if it is not; chosen: the way back.
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
    """Gather the records of H into groups of equal ones, each a chain through `following`; return their number.

    held: the others, by number of answers and of tables.
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
    """Move the concentrations, and draw where most records sit anew; nothing when there is nothing to learn.

    Only without rules. Tallies are stale afterwards.
    """
    n, variables = records.level.shape
    member, cells = work.members, work.members.cells
    if n == 0 or variables < 2 or member.sums.shape[0] == 0 or not (prior.finite or prior.adaptive):
        return
    least = min(SMALLEST_PROFILE / n, SMALLEST_WEIGHT)
    book = make_book(records, state, work)
    while not prior.finite and state.remainder[0] >= least:
        open_profile(rng, book, records.level, state.seat, -1, -1)
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


@kernel
def draw_memberships_sometimes(rng, records, prior, state, work):
    """Do so in some of the sweeps, as it is dear, and tally again."""
    if rng.random() < prior.membership_rate:
        draw_memberships(rng, records, prior, state, work)
        tally_answers(rng, records, prior, state, work)
