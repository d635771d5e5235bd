"""Split and merge: MODEL.md section 3b. Jain-Neal with tables as observations, sequential allocation (Dahl).

beta and theta are integrated out, so they are stale afterwards: they must be drawn anew before anything reads
them. Table a is picked at random. Then, with probability 1/2 each, either
    split: table b is another table with the label of a; b opens a new profile; all other tables of that label
           choose a side one after the other, in random order, with weights m_side f(table | side so far);
    merge: b is a table of another profile, picked at random; the allocation is replayed with forced choices.
q is the product of the chosen probabilities. The log ratio of a split is
    log gamma + lnGamma(m_a) + lnGamma(m_b) - lnGamma(m_a + m_b) + log f(A_a) + log f(A_b) - log f(A) - log q
    + log (r - 1) - log P - log r_b,
the last three for the choice of b: r tables and P profiles before the split, r_b tables at b's side.
In `mixed` log gamma is replaced by the log of the number of empty profiles, and m by m + 1 within lnGamma.
f is the Dirichlet-multinomial likelihood. A merge has minus that.
"""

import math

from keyhole.kernels.draws import log_rising
from keyhole.kernels.jit import kernel
from keyhole.kernels.work import FULL, OK


@kernel
def pick_table(rng, records, state):
    """Pick one of all tables of all records, uniformly; return record and table."""
    n, variables = records.level.shape
    while True:
        i = int(rng.random() * n)
        t = int(rng.random() * variables)
        if t < state.table_total[i]:
            return i, t


@kernel
def pick_labelled_table(rng, records, state, label, tables, not_i, not_t):
    """Pick one of the `tables` tables with this label other than (not_i, not_t), uniformly."""
    wanted = int(rng.random() * tables)
    for i in range(records.level.shape[0]):
        for t in range(state.table_total[i]):
            if state.table_label[i, t] == label and not (i == not_i and t == not_t):
                if wanted == 0:
                    return i, t
                wanted -= 1
    return -1, -1


@kernel
def gather_members(rng, records, state, work, label_a, label_b, i_a, t_a, i_b, t_b):
    """List the tables with either label, but for a and b, in random order; return their number."""
    members = 0
    for i in range(records.level.shape[0]):
        for t in range(state.table_total[i]):
            label = state.table_label[i, t]
            if label != label_a and label != label_b:
                continue
            if (i == i_a and t == t_a) or (i == i_b and t == t_b):
                continue
            work.member_record[members] = i
            work.member_table[members] = t
            members += 1
    for last in range(members - 1, 0, -1):
        other = int(rng.random() * (last + 1))
        i, t = work.member_record[last], work.member_table[last]
        work.member_record[last], work.member_table[last] = (
            work.member_record[other],
            work.member_table[other],
        )
        work.member_record[other], work.member_table[other] = i, t
    return members


@kernel
def seat_side(level, seat, i, t, side, count, answers):
    """Add the answers of record i at table t to the counts of a side."""
    for j in range(level.shape[1]):
        if seat[i, j] == t:
            count[side, level[i, j]] += 1
            answers[side, j] += 1


@kernel
def allocate_members(
    rng, level, seat, label, record, table, side, members, count, answers, strength, base_level, extra, propose, label_b
):  # fmt: skip
    """Seat the members one after the other; return log q and the number of tables at b's side.

    With `propose` the sides are drawn, else they are what the labels say. The weights of the two sides are
    m f(table | side), f = prod (lambda_j pi_v + N_v) / (lambda_j + N_j), multiplied by both denominators.
    """
    log_q = 0.0
    tables_a, tables_b = 1.0, 1.0
    for x in range(members):
        i, t = record[x], table[x]
        weight_a, weight_b = tables_a + extra, tables_b + extra
        for j in range(level.shape[1]):
            if seat[i, j] == t:
                v = level[i, j]
                shape = strength[j] * base_level[v]
                weight_a *= (shape + count[0, v]) * (strength[j] + answers[1, j])
                weight_b *= (shape + count[1, v]) * (strength[j] + answers[0, j])
        if propose:
            chosen = 1 if rng.random() * (weight_a + weight_b) >= weight_a else 0
        else:
            chosen = 1 if label[i, t] == label_b else 0
        side[x] = chosen
        for j in range(level.shape[1]):
            if seat[i, j] == t:
                count[chosen, level[i, j]] += 1
                answers[chosen, j] += 1
        if chosen == 1:
            log_q += math.log(weight_b / (weight_a + weight_b))
            tables_b += 1.0
        else:
            log_q += math.log(weight_a / (weight_a + weight_b))
            tables_a += 1.0
    return log_q, int(tables_b)


@kernel
def allocate(rng, records, prior, state, work, members, propose, label_b):
    """Seat the members of a split or merge; see allocate_members."""
    return allocate_members(
        rng, records.level, state.seat, state.table_label, work.member_record, work.member_table, work.member_side,
        members, work.side_count, work.side_answers, state.base_strength, state.base_level,
        1.0 if prior.finite else 0.0, propose, label_b,
    )  # fmt: skip


@kernel
def log_split_likelihood(records, state, work):
    """Return log f(A_a) + log f(A_b) - log f(A) from the counts of the two sides."""
    value = 0.0
    for j in range(records.level.shape[1]):
        strength = state.base_strength[j]
        in_a, in_b = work.side_answers[0, j], work.side_answers[1, j]
        value += log_rising(strength, in_a + in_b) - log_rising(strength, in_a) - log_rising(strength, in_b)
        for v in range(records.level_start[j], records.level_start[j + 1]):
            shape = strength * state.base_level[v]
            in_a, in_b = work.side_count[0, v], work.side_count[1, v]
            if in_a > 0 and in_b > 0:
                value += log_rising(shape, in_a) + log_rising(shape, in_b) - log_rising(shape, in_a + in_b)
    return value


@kernel
def log_split_ratio(records, prior, state, work, log_q, tables_a, tables_b, profiles, empty):
    """Return the log ratio of a split into these tables, from a state with `profiles` profiles in use."""
    if prior.finite:
        value = math.log(empty)
        value += (
            math.lgamma(1.0 + tables_a) + math.lgamma(1.0 + tables_b) - math.lgamma(1.0 + tables_a + tables_b)
        )
    else:
        value = math.log(state.weight_concentration[0])
        value += math.lgamma(tables_a) + math.lgamma(tables_b) - math.lgamma(tables_a + tables_b)
    value += log_split_likelihood(records, state, work) - log_q
    return value + math.log(tables_a + tables_b - 1.0) - math.log(profiles) - math.log(tables_b)


@kernel
def apply_sides(records, state, work, members, label_a, label_b, i_b, t_b):
    """Label the members and table b by Work.member_side and renew the two profiles' tallies."""
    state.profile_tables[label_a], state.profile_tables[label_b] = 1, 1
    state.table_label[i_b, t_b] = label_b
    for x in range(members):
        label = label_b if work.member_side[x] == 1 else label_a
        state.table_label[work.member_record[x], work.member_table[x]] = label
        state.profile_tables[label] += 1
    for v in range(state.level_count.shape[0]):
        state.level_count[v, label_a] = work.side_count[0, v]
        state.level_count[v, label_b] = work.side_count[1, v]


@kernel
def merge_labels(records, state, work, members, label_a, label_b, i_b, t_b):
    """Give the members and table b the label of a."""
    state.table_label[i_b, t_b] = label_a
    for x in range(members):
        state.table_label[work.member_record[x], work.member_table[x]] = label_a
    state.profile_tables[label_a] += state.profile_tables[label_b]
    state.profile_tables[label_b] = 0
    for v in range(state.level_count.shape[0]):
        state.level_count[v, label_a] += state.level_count[v, label_b]
        state.level_count[v, label_b] = 0


@kernel
def find_empty(prior, state, work):
    """Return the first profile without tables; `hdp` makes one at the end if there is none."""
    profiles = state.profile_total[0]
    for k in range(profiles):
        if state.profile_tables[k] == 0:
            return k
    if profiles == state.weight.shape[0]:
        work.status[0] = FULL
        return 0
    state.profile_total[0] = profiles + 1
    state.profile_tables[profiles] = 0
    state.weight[profiles] = 0.0
    state.level_profile[:, profiles] = 0.0
    state.level_count[:, profiles] = 0
    return profiles


@kernel
def start_sides(records, state, work, i_a, t_a, i_b, t_b):
    """Empty both sides and seat table a at the first, table b at the second."""
    work.side_count[:, :] = 0
    work.side_answers[:, :] = 0
    seat_side(records.level, state.seat, i_a, t_a, 0, work.side_count, work.side_answers)
    seat_side(records.level, state.seat, i_b, t_b, 1, work.side_count, work.side_answers)


@kernel
def propose_split(rng, records, prior, state, work, i_a, t_a, profiles, empty):
    """Propose to split the profile of table a; accept or leave all as it was."""
    label_a = state.table_label[i_a, t_a]
    tables = state.profile_tables[label_a]
    if tables < 2 or (prior.finite and empty == 0):
        return
    i_b, t_b = pick_labelled_table(rng, records, state, label_a, tables - 1, i_a, t_a)
    members = gather_members(rng, records, state, work, label_a, label_a, i_a, t_a, i_b, t_b)
    start_sides(records, state, work, i_a, t_a, i_b, t_b)
    log_q, tables_b = allocate(rng, records, prior, state, work, members, True, -1)
    ratio = log_split_ratio(records, prior, state, work, log_q, tables - tables_b, tables_b, profiles, empty)
    if -rng.standard_exponential() < ratio:
        label_b = find_empty(prior, state, work)
        if work.status[0] == OK:
            apply_sides(records, state, work, members, label_a, label_b, i_b, t_b)


@kernel
def propose_merge(rng, records, prior, state, work, i_a, t_a, profiles, empty):
    """Propose to merge the profile of table a with another; accept or leave all as it was."""
    if profiles < 2:
        return
    label_a = state.table_label[i_a, t_a]
    wanted = int(rng.random() * (profiles - 1))
    label_b = -1
    for k in range(state.profile_total[0]):
        if k != label_a and state.profile_tables[k] > 0:
            if wanted == 0:
                label_b = k
                break
            wanted -= 1
    tables_a, tables_b = state.profile_tables[label_a], state.profile_tables[label_b]
    i_b, t_b = pick_labelled_table(rng, records, state, label_b, tables_b, -1, -1)
    members = gather_members(rng, records, state, work, label_a, label_b, i_a, t_a, i_b, t_b)
    start_sides(records, state, work, i_a, t_a, i_b, t_b)
    log_q, _ = allocate(rng, records, prior, state, work, members, False, label_b)
    ratio = log_split_ratio(records, prior, state, work, log_q, tables_a, tables_b, profiles - 1, empty + 1)
    if -rng.standard_exponential() < -ratio:
        merge_labels(records, state, work, members, label_a, label_b, i_b, t_b)


@kernel
def draw_splits_and_merges(rng, records, prior, state, work):
    """Make prior.split_merge_proposals proposals; tallies must be fresh and stay so."""
    if records.level.shape[0] == 0:
        return
    for _ in range(prior.split_merge_proposals):
        profiles = 0
        for k in range(state.profile_total[0]):
            profiles += state.profile_tables[k] > 0
        empty = state.profile_total[0] - profiles
        i_a, t_a = pick_table(rng, records, state)
        if rng.random() < 0.5:
            propose_split(rng, records, prior, state, work, i_a, t_a, profiles, empty)
        else:
            propose_merge(rng, records, prior, state, work, i_a, t_a, profiles, empty)
        if work.status[0] != OK:
            return
