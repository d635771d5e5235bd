"""Split and merge of profiles, and reallocation of a pair, after Jain and Neal (2004) with tables as observations
(docs/model.md section 3).

beta and theta are integrated out, so they must be drawn before anything reads them again. Table a is picked at random.
Then, with probability 1/4, 1/4 and 1/2,
    split:      table b is another table with the label of a; b opens a new profile; all other tables of that label are
                allocated to a side one after the other, in random order, with weights m_side f(table | side so far);
    merge:      b is a table of another profile, picked at random; the allocation is replayed with forced choices;
    reallocate: b is any table with another label; all tables of the two profiles but a and b are allocated again.
f is the Dirichlet-multinomial likelihood, q the product of the probabilities of the allocation. A split has log ratio
    log gamma + lnGamma(m_a) + lnGamma(m_b) - lnGamma(m_a + m_b) + log f(A_a) + log f(A_b) - log f(A) - log q
    + log (r - 1) - log P - log r_b,
the last three for the choice of b: r tables of the profile and P profiles before the split, r_b tables on b's side.
In `mixed` log gamma is replaced by the log of the number of empty profiles, and m by m + 1 within lnGamma.
A merge has minus the log ratio of the split that would undo it.

Reallocating a pair is a merge and a split in one step, without the merged state between them, which is often far too
improbable: two profiles "men at work, women" become "people at work, women at home". Two launch states are drawn, one
to replay the current allocation and one for the proposal. The log ratio is the difference of
    lnGamma(m_a) + lnGamma(m_b) + log f(A_a) + log f(A_b) - log q - log (tables of records with another label than a)
between the new and the old state; the last term because b is picked from those tables.

The first allocation, in sequence (Dahl 2005), only starts the launch state: in further scans every table is allocated
again given all others, and the last scan is the proposal. Without these scans large profiles are hardly ever split, and
chains that start from one profile stay there.

Only without rules: with rules profiles include augmented records, and moves of the records alone are rejected.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.kernels.distributions import log_rising
from keyhole.kernels.jit import inner
from keyhole.kernels.state import Floats, Integers
from keyhole.kernels.work import FULL

SCANS = 5
"""The allocation in sequence, three scans to a launch state, and the scan that is proposed."""


class SplitArrays(NamedTuple):
    """The arrays of Records, State and Work that a split or merge touches, under the same names."""

    level: NDArray[np.int32]
    level_start: Integers
    seat: NDArray[np.uint8]
    table_total: Integers
    table_label: NDArray[np.int32]
    profile_total: Integers
    profile_tables: Integers
    level_count: Integers
    base_strength: Floats
    base_level: Floats
    member_record: NDArray[np.int32]
    member_table: NDArray[np.uint8]
    member_side: NDArray[np.uint8]
    side_count: Integers
    side_answers: Integers


@inner
def pick_table(rng, table_total, variables):
    """Pick one of all tables of all records, uniformly; return record and table."""
    while True:
        i = int(rng.random() * table_total.shape[0])
        t = int(rng.random() * variables)
        if t < table_total[i]:
            return i, t


@inner
def pick_labelled_table(rng, table_total, table_label, label, tables, not_i, not_t):
    """Pick one of the `tables` tables with this label other than (not_i, not_t), uniformly."""
    wanted = int(rng.random() * tables)
    for i in range(table_total.shape[0]):
        for t in range(table_total[i]):
            if table_label[i, t] == label and not (i == not_i and t == not_t):
                if wanted == 0:
                    return i, t
                wanted -= 1
    return -1, -1


@inner
def gather_members(rng, table_total, table_label, record, table, label_a, label_b, i_a, t_a, i_b, t_b):
    """List the tables with either label, except a and b, in random order; return their number."""
    members = 0
    for i in range(table_total.shape[0]):
        for t in range(table_total[i]):
            label = table_label[i, t]
            if label != label_a and label != label_b:
                continue
            if (i == i_a and t == t_a) or (i == i_b and t == t_b):
                continue
            record[members] = i
            table[members] = t
            members += 1
    for last in range(members - 1, 0, -1):
        other = int(rng.random() * (last + 1))
        i, t = record[last], table[last]
        record[last], table[last] = record[other], table[other]
        record[other], table[other] = i, t
    return members


@inner
def seat_side(level, seat, i, t, side, count, answers):
    """Add the answers of record i at table t to the counts of a side."""
    for j in range(level.shape[1]):
        if seat[i, j] == t:
            count[side, level[i, j]] += 1
            answers[side, j] += 1


@inner
def allocate_members(
    rng, level, seat, label, record, table, side, members, count, answers, strength, base_level, extra, tables_b,
    first, propose, label_b
):  # fmt: skip
    """Allocate the members one after the other; return log q and the number of tables on b's side.

    `first`: no member has a side yet, and tables_b = 1 is table b; otherwise each member leaves its side before it is
    allocated. With `propose` the sides are drawn, otherwise they are those of the labels. The odds of b's side are the
    ratio of m f(table | side), f = prod (lambda_j pi_v + N_v) / (lambda_j + N_j).
    """
    log_q = 0.0
    tables_a = 1.0 if first else members + 2.0 - tables_b
    for x in range(members):
        i, t = record[x], table[x]
        if not first:
            left = side[x]
            for j in range(level.shape[1]):
                if seat[i, j] == t:
                    count[left, level[i, j]] -= 1
                    answers[left, j] -= 1
            tables_b -= left
            tables_a -= 1 - left
        odds = (tables_b + extra) / (tables_a + extra)
        for j in range(level.shape[1]):
            if seat[i, j] == t:
                v = level[i, j]
                shape = strength[j] * base_level[v]
                odds *= (shape + count[1, v]) * (strength[j] + answers[0, j])
                odds /= (shape + count[0, v]) * (strength[j] + answers[1, j])
        if propose:
            chosen = 1 if rng.random() * (1.0 + odds) >= 1.0 else 0
        else:
            chosen = 1 if label[i, t] == label_b else 0
        side[x] = chosen
        for j in range(level.shape[1]):
            if seat[i, j] == t:
                count[chosen, level[i, j]] += 1
                answers[chosen, j] += 1
        log_q -= math.log1p(odds)
        if chosen == 1:
            log_q += math.log(odds)
            tables_b += 1.0
        else:
            tables_a += 1.0
    return log_q, int(tables_b)


@inner
def log_split_likelihood(level_start, base_strength, base_level, count, answers):
    """Return log f(A_a) + log f(A_b) - log f(A) from the counts of the two sides."""
    value = 0.0
    for j in range(level_start.shape[0] - 1):
        strength = base_strength[j]
        in_a, in_b = answers[0, j], answers[1, j]
        value += log_rising(strength, in_a + in_b) - log_rising(strength, in_a) - log_rising(strength, in_b)
        for v in range(level_start[j], level_start[j + 1]):
            shape = strength * base_level[v]
            in_a, in_b = count[0, v], count[1, v]
            if in_a > 0 and in_b > 0:
                value += log_rising(shape, in_a) + log_rising(shape, in_b) - log_rising(shape, in_a + in_b)
    return value


@inner
def allocate_both(rng, sides, finite, i_a, t_a, i_b, t_b, members, label_b, propose):
    """Allocate a, b and the members; return log q and the number of tables on b's side.

    With `propose` the sides are drawn, otherwise they are those of the labels.
    """
    count, answers = sides.side_count, sides.side_answers
    extra = 1.0 if finite else 0.0
    count[:, :] = 0
    answers[:, :] = 0
    seat_side(sides.level, sides.seat, i_a, t_a, 0, count, answers)
    seat_side(sides.level, sides.seat, i_b, t_b, 1, count, answers)
    log_q, tables_b = 0.0, 1
    for scan in range(SCANS):
        # All scans but the last find a launch state, whatever the labels are; q is that of the last one.
        log_q, tables_b = allocate_members(
            rng, sides.level, sides.seat, sides.table_label, sides.member_record, sides.member_table,
            sides.member_side, members, count, answers, sides.base_strength, sides.base_level, extra, float(tables_b),
            scan == 0, propose or scan < SCANS - 1, label_b,
        )  # fmt: skip
    return log_q, tables_b


@inner
def log_label_ratio(finite, gamma, empty, tables_a, tables_b):
    """Return the log prior ratio of the labels: two profiles against one with tables_a + tables_b tables."""
    if finite:
        value = math.log(empty)
        return (
            value + math.lgamma(1.0 + tables_a) + math.lgamma(1.0 + tables_b) - math.lgamma(1.0 + tables_a + tables_b)
        )
    return math.log(gamma) + math.lgamma(tables_a) + math.lgamma(tables_b) - math.lgamma(tables_a + tables_b)


@inner
def apply_split(sides, members, label_a, label_b, i_b, t_b, tables_b):
    """Label the members and table b by member_side, and update the tallies of both profiles."""
    sides.table_label[i_b, t_b] = label_b
    for x in range(members):
        label = label_b if sides.member_side[x] == 1 else label_a
        sides.table_label[sides.member_record[x], sides.member_table[x]] = label
    sides.profile_tables[label_a] = members + 2 - tables_b
    sides.profile_tables[label_b] = tables_b
    for v in range(sides.level_count.shape[0]):
        sides.level_count[v, label_a] = sides.side_count[0, v]
        sides.level_count[v, label_b] = sides.side_count[1, v]


@inner
def apply_merge(sides, members, label_a, label_b, i_b, t_b):
    """Give the members and table b the label of a."""
    sides.table_label[i_b, t_b] = label_a
    for x in range(members):
        sides.table_label[sides.member_record[x], sides.member_table[x]] = label_a
    sides.profile_tables[label_a] += sides.profile_tables[label_b]
    sides.profile_tables[label_b] = 0
    for v in range(sides.level_count.shape[0]):
        sides.level_count[v, label_a] += sides.level_count[v, label_b]
        sides.level_count[v, label_b] = 0


@inner
def find_empty(profile_total, profile_tables, level_count):
    """Return the first profile without tables, or a new one at the end; -1 if there is no room."""
    profiles = profile_total[0]
    for k in range(profiles):
        if profile_tables[k] == 0:
            return k
    if profiles == profile_tables.shape[0]:
        return -1
    profile_total[0] = profiles + 1
    profile_tables[profiles] = 0
    level_count[:, profiles] = 0
    return profiles


@inner
def pick_other_profile(rng, profile_tables, profile_total, profiles, label):
    """Pick one of the other profiles that have tables, uniformly."""
    wanted = int(rng.random() * (profiles - 1))
    for k in range(profile_total):
        if k != label and profile_tables[k] > 0:
            if wanted == 0:
                return k
            wanted -= 1
    return -1


@inner
def draw_split_or_merge(rng, records, prior, state, work):
    """Propose one split, merge, or reallocation of a pair; tallies must be up to date and remain so."""
    n, variables = records.level.shape
    if n == 0:
        return
    finite, profile_tables = prior.finite, state.profile_tables
    sides = SplitArrays(
        records.level, records.level_start, state.seat, state.table_total, state.table_label, state.profile_total,
        profile_tables, state.level_count, state.base_strength, state.base_level, work.member_record,
        work.member_table, work.member_side, work.side_count, work.side_answers,
    )  # fmt: skip
    tables = 0.0
    for i in range(n):
        tables += state.table_total[i]
    profiles, empty = 0, 0
    for k in range(state.profile_total[0]):
        profiles += profile_tables[k] > 0
        empty += profile_tables[k] == 0
    i_a, t_a = pick_table(rng, state.table_total, variables)
    label_a = state.table_label[i_a, t_a]
    u = rng.random()
    split, anew = u < 0.25, u >= 0.5
    if split and (profile_tables[label_a] < 2 or (finite and empty == 0)):
        return
    if not split and profiles < 2:
        return
    label_b = label_a
    i_b, t_b = i_a, t_a
    if anew:
        while label_b == label_a:
            i_b, t_b = pick_table(rng, state.table_total, variables)
            label_b = state.table_label[i_b, t_b]
    elif not split:
        label_b = pick_other_profile(rng, profile_tables, state.profile_total[0], profiles, label_a)
    if split:
        i_b, t_b = pick_labelled_table(
            rng, state.table_total, state.table_label, label_a, profile_tables[label_a] - 1, i_a, t_a
        )
    elif not anew:
        i_b, t_b = pick_labelled_table(
            rng, state.table_total, state.table_label, label_b, profile_tables[label_b], -1, -1
        )
    members = gather_members(
        rng, state.table_total, state.table_label, work.member_record, work.member_table, label_a, label_b,
        i_a, t_a, i_b, t_b,
    )  # fmt: skip
    log_q, tables_b = allocate_both(rng, sides, finite, i_a, t_a, i_b, t_b, members, label_b, split)
    before, without = (profiles, empty) if split else (profiles - 1, empty + 1)
    ratio = log_label_ratio(finite, state.weight_concentration[0], without, members + 2 - tables_b, tables_b)
    ratio += log_split_likelihood(
        records.level_start, state.base_strength, state.base_level, work.side_count, work.side_answers
    )
    if anew:
        ratio -= log_q + math.log(tables - profile_tables[label_a])
        log_q, tables_b = allocate_both(rng, sides, finite, i_a, t_a, i_b, t_b, members, label_b, True)
        ratio -= log_label_ratio(finite, state.weight_concentration[0], without, members + 2 - tables_b, tables_b)
        ratio -= log_split_likelihood(
            records.level_start, state.base_strength, state.base_level, work.side_count, work.side_answers
        )
        ratio += log_q + math.log(tables - (members + 2.0 - tables_b))
    else:
        ratio += math.log(members + 1.0) - math.log(before) - math.log(tables_b) - log_q
    if -rng.standard_exponential() >= (ratio if split else -ratio):
        return
    if anew:
        apply_split(sides, members, label_a, label_b, i_b, t_b, tables_b)
        return
    if not split:
        apply_merge(sides, members, label_a, label_b, i_b, t_b)
        return
    label_b = find_empty(state.profile_total, profile_tables, state.level_count)
    if label_b < 0:
        work.status[0] = FULL
        return
    apply_split(sides, members, label_a, label_b, i_b, t_b, tables_b)
