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

With rules, imputed blocks take part: m counts them too, while a, b, r and P are about tables of records. They choose
after the members, all blocks of one leaf in one step: Binomial(blocks, p) go to b.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.kernels.draws import draw_binomial, log_rising
from keyhole.kernels.imputed_answers import add_leaf, expand_profile, new_slot
from keyhole.kernels.jit import kernel
from keyhole.kernels.state import Floats, Integers
from keyhole.kernels.work import FULL


class Sides(NamedTuple):
    """The arrays of Records, State and Work that a split or merge touches, under the same names (cf. Book)."""

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
    real_tables: Integers
    member_record: NDArray[np.int32]
    member_table: NDArray[np.uint8]
    member_side: NDArray[np.uint8]
    side_count: Integers
    side_answers: Integers
    slot: Integers
    slot_total: Integers
    leaf: Integers
    leaf_side: Integers


@kernel
def pick_table(rng, table_total, variables):
    """Pick one of all tables of all records, uniformly; return record and table."""
    while True:
        i = int(rng.random() * table_total.shape[0])
        t = int(rng.random() * variables)
        if t < table_total[i]:
            return i, t


@kernel
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


@kernel
def gather_members(rng, table_total, table_label, record, table, label_a, label_b, i_a, t_a, i_b, t_b):
    """List the tables with either label, but for a and b, in random order; return their number."""
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

    With `propose` the sides are drawn, else they are what the labels say. The odds of b's side are the ratio of
    m f(table | side), f = prod (lambda_j pi_v + N_v) / (lambda_j + N_j).
    """
    log_q = 0.0
    tables_a, tables_b = 1.0, 1.0
    for x in range(members):
        i, t = record[x], table[x]
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


@kernel
def allocate_leaves(
    rng, rules, leaf, slot_a, slot_b, leaf_side, count, answers, strength, base_level, tables_a, tables_b, extra
):  # fmt: skip
    """Let imputed blocks choose sides after the members, one step for all blocks of a leaf.

    slot_b < 0: propose, the blocks of slot_a are parted into those that stay and leaf_side. Else the choice is
    replayed from the two slots. The blocks of a leaf are labelled: log q has no binomial coefficient.
    Return log q, and the tables at the two sides, imputed ones included.
    """
    log_q = 0.0
    for kind in range(rules.type_start.shape[0] - 1):
        first, last = rules.type_start[kind], rules.type_start[kind + 1]
        for y in range(rules.leaf_start[kind], rules.leaf_start[kind + 1]):
            blocks = leaf[slot_a, y] + (leaf[slot_b, y] if slot_b >= 0 else 0)
            leaf_side[y] = 0
            if blocks == 0:
                continue
            odds = (tables_b + extra) / (tables_a + extra)
            digits = y - rules.leaf_start[kind]
            for x in range(last - 1, first - 1, -1):
                s = rules.type_set[x]
                size = rules.set_start[s + 1] - rules.set_start[s]
                v = rules.set_level[rules.set_start[s] + digits % size]
                digits //= size
                j = rules.set_variable[s]
                shape = strength[j] * base_level[v]
                odds *= (shape + count[1, v]) * (strength[j] + answers[0, j])
                odds /= (shape + count[0, v]) * (strength[j] + answers[1, j])
            if slot_b >= 0:
                moved = leaf[slot_b, y]
            else:
                moved = draw_binomial(rng, blocks, odds / (1.0 + odds))
            leaf_side[y] = moved
            log_q -= blocks * math.log1p(odds)
            if moved > 0:
                log_q += moved * math.log(odds)
            add_leaf(rules, kind, y, blocks - moved, count[0], answers[0])
            add_leaf(rules, kind, y, moved, count[1], answers[1])
            tables_a += blocks - moved
            tables_b += moved
    return log_q, tables_a, tables_b


@kernel
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


@kernel
def log_label_ratio(finite, gamma, empty, tables_a, tables_b):
    """Return the log ratio of the labels' prior: one profile with tables_a + tables_b tables, or two."""
    if finite:
        value = math.log(empty)
        return value + math.lgamma(1.0 + tables_a) + math.lgamma(1.0 + tables_b) - math.lgamma(1.0 + tables_a + tables_b)
    return math.log(gamma) + math.lgamma(tables_a) + math.lgamma(tables_b) - math.lgamma(tables_a + tables_b)


@kernel
def allocate_both(rng, rules, sides, finite, i_a, t_a, i_b, t_b, members, slot_a, slot_b, label_b):
    """Seat a, b, the members and the imputed blocks; return log q, tables of records at b, and all tables at a and b.

    Proposes when label_b < 0, else replays.
    """
    count, answers = sides.side_count, sides.side_answers
    extra = 1.0 if finite else 0.0
    count[:, :] = 0
    answers[:, :] = 0
    seat_side(sides.level, sides.seat, i_a, t_a, 0, count, answers)
    seat_side(sides.level, sides.seat, i_b, t_b, 1, count, answers)
    log_q, real_b = allocate_members(
        rng, sides.level, sides.seat, sides.table_label, sides.member_record, sides.member_table, sides.member_side,
        members, count, answers, sides.base_strength, sides.base_level, extra, label_b < 0, label_b,
    )  # fmt: skip
    tables_a, tables_b = members + 2 - real_b, real_b
    if sides.leaf.shape[0] > 0:
        more_q, tables_a, tables_b = allocate_leaves(
            rng, rules, sides.leaf, slot_a, slot_b, sides.leaf_side, count, answers, sides.base_strength,
            sides.base_level, tables_a, tables_b, extra,
        )  # fmt: skip
        log_q += more_q
    return log_q, real_b, tables_a, tables_b


@kernel
def apply_split(sides, members, label_a, label_b, i_b, t_b, tables_a, tables_b, real_b):
    """Label the members and table b by member_side, part the leaves, and renew the two profiles' tallies."""
    sides.table_label[i_b, t_b] = label_b
    for x in range(members):
        label = label_b if sides.member_side[x] == 1 else label_a
        sides.table_label[sides.member_record[x], sides.member_table[x]] = label
    sides.profile_tables[label_a], sides.profile_tables[label_b] = tables_a, tables_b
    sides.real_tables[label_a] -= real_b
    sides.real_tables[label_b] = real_b
    for v in range(sides.level_count.shape[0]):
        sides.level_count[v, label_a] = sides.side_count[0, v]
        sides.level_count[v, label_b] = sides.side_count[1, v]
    if sides.leaf.shape[0] > 0:
        slot_a, slot_b = sides.slot[label_a], new_slot(sides.slot_total, sides.leaf)
        sides.slot[label_b] = slot_b
        for y in range(sides.leaf_side.shape[0]):
            sides.leaf[slot_b, y] = sides.leaf_side[y]
            sides.leaf[slot_a, y] -= sides.leaf_side[y]


@kernel
def apply_merge(sides, members, label_a, label_b, i_b, t_b):
    """Give the members, table b and the leaves of b the label of a."""
    sides.table_label[i_b, t_b] = label_a
    for x in range(members):
        sides.table_label[sides.member_record[x], sides.member_table[x]] = label_a
    sides.profile_tables[label_a] += sides.profile_tables[label_b]
    sides.profile_tables[label_b] = 0
    sides.real_tables[label_a] += sides.real_tables[label_b]
    sides.real_tables[label_b] = 0
    for v in range(sides.level_count.shape[0]):
        sides.level_count[v, label_a] += sides.level_count[v, label_b]
        sides.level_count[v, label_b] = 0
    if sides.leaf.shape[0] > 0:
        slot_a, slot_b = sides.slot[label_a], sides.slot[label_b]
        for y in range(sides.leaf_side.shape[0]):
            sides.leaf[slot_a, y] += sides.leaf[slot_b, y]
            sides.leaf[slot_b, y] = 0


@kernel
def find_empty(profile_total, profile_tables, level_count, real_tables):
    """Return the first profile without tables, made at the end if there is none; -1 without room."""
    profiles = profile_total[0]
    for k in range(profiles):
        if profile_tables[k] == 0:
            return k
    if profiles == profile_tables.shape[0]:
        return -1
    profile_total[0] = profiles + 1
    profile_tables[profiles] = 0
    real_tables[profiles] = 0
    level_count[:, profiles] = 0
    return profiles


@kernel
def pick_other_profile(rng, real_tables, profile_total, profiles, label):
    """Pick one of the other profiles that have tables of records, uniformly."""
    wanted = int(rng.random() * (profiles - 1))
    for k in range(profile_total):
        if k != label and real_tables[k] > 0:
            if wanted == 0:
                return k
            wanted -= 1
    return -1


@kernel
def draw_splits_and_merges(rng, records, prior, state, work):
    """Make prior.split_merge_proposals proposals; tallies must be fresh and stay so."""
    n, variables = records.level.shape
    if n == 0:
        return
    rules, finite, real_tables = prior.rules, prior.finite, work.real_tables
    sides = Sides(
        records.level, records.level_start, state.seat, state.table_total, state.table_label, state.profile_total,
        state.profile_tables, state.level_count, state.base_strength, state.base_level, real_tables,
        work.member_record, work.member_table, work.member_side, work.side_count, work.side_answers, work.slot,
        work.slot_total, work.leaf, work.leaf_side,
    )  # fmt: skip
    real_tables[: state.profile_total[0]] = 0
    for i in range(n):
        for t in range(state.table_total[i]):
            real_tables[state.table_label[i, t]] += 1
    for _ in range(prior.split_merge_proposals):
        profiles, empty = 0, 0
        for k in range(state.profile_total[0]):
            profiles += real_tables[k] > 0
            empty += state.profile_tables[k] == 0
        i_a, t_a = pick_table(rng, state.table_total, variables)
        label_a = state.table_label[i_a, t_a]
        split = rng.random() < 0.5
        if split and (real_tables[label_a] < 2 or (finite and empty == 0)):
            continue
        if not split and profiles < 2:
            continue
        label_b = label_a
        if not split:
            label_b = pick_other_profile(rng, real_tables, state.profile_total[0], profiles, label_a)
        for label in range(2):
            expand_profile(
                rng, rules, label_b if label == 1 else label_a, work.type_total, work.block_count, work.slot,
                work.slot_total, work.leaf, state.level_profile, state.level_count, work.side_answers[0], work.stack,
            )  # fmt: skip
        if split:
            i_b, t_b = pick_labelled_table(
                rng, state.table_total, state.table_label, label_a, real_tables[label_a] - 1, i_a, t_a
            )
        else:
            i_b, t_b = pick_labelled_table(
                rng, state.table_total, state.table_label, label_b, real_tables[label_b], -1, -1
            )
        members = gather_members(
            rng, state.table_total, state.table_label, work.member_record, work.member_table, label_a, label_b,
            i_a, t_a, i_b, t_b,
        )  # fmt: skip
        log_q, real_b, tables_a, tables_b = allocate_both(
            rng, rules, sides, finite, i_a, t_a, i_b, t_b, members, work.slot[label_a],
            -1 if split else work.slot[label_b], -1 if split else label_b,
        )  # fmt: skip
        before, without = (profiles, empty) if split else (profiles - 1, empty + 1)
        ratio = log_label_ratio(finite, state.weight_concentration[0], without, tables_a, tables_b)
        ratio += log_split_likelihood(
            records.level_start, state.base_strength, state.base_level, work.side_count, work.side_answers
        )
        ratio += math.log(members + 1.0) - math.log(before) - math.log(real_b) - log_q
        if -rng.standard_exponential() >= (ratio if split else -ratio):
            continue
        if not split:
            apply_merge(sides, members, label_a, label_b, i_b, t_b)
            continue
        label_b = find_empty(state.profile_total, state.profile_tables, state.level_count, real_tables)
        if label_b < 0:
            work.status[0] = FULL
            return
        apply_split(sides, members, label_a, label_b, i_b, t_b, tables_a, tables_b, real_b)
