"""Who takes part in a split or merge, and at which side: MODEL.md section 3b (splitmerge.py has the rest).

Tables of records choose one after the other, in random order, with odds given what the sides hold so far (Dahl's
sequential allocation). That is only the launching state of Jain and Neal (2004): further scans let every table choose
again given all others, and the last scan is the proposal. Large profiles are hardly ever split without it: chains that
start from one profile stay there. Imputed blocks choose after the last scan, all blocks of one leaf in one step:
Binomial(blocks, p) go to b.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.kernels.draws import draw_binomial, log_rising
from keyhole.kernels.imputed_answers import add_leaf
from keyhole.kernels.jit import inner
from keyhole.kernels.state import Floats, Integers

SCANS = 5
"""The allocation in sequence, three scans towards a launching state, and the one that is proposed."""


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
    """Seat the members one after the other; return log q and the number of tables at b's side.

    `first`: nobody has a side yet, and tables_b = 1 is table b; else each member leaves its side before it chooses.
    With `propose` the sides are drawn, else they are what the labels say. The odds of b's side are the ratio of
    m f(table | side), f = prod (lambda_j pi_v + N_v) / (lambda_j + N_j).
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
def allocate_leaves(
    rng, rules, leaf, slot_a, slot_b, leaf_side, count, answers, strength, base_level, tables_a, tables_b, extra,
    propose
):  # fmt: skip
    """Let imputed blocks choose sides after the members, one step for all blocks of a leaf.

    With `propose` the blocks of both slots (slot_b < 0: there is only one) are parted anew, leaf_side of them for b;
    else the choice is replayed. The blocks of a leaf are labelled: log q has no binomial coefficient.
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
            if propose:
                moved = draw_binomial(rng, blocks, odds / (1.0 + odds))
            else:
                moved = leaf[slot_b, y]
            leaf_side[y] = moved
            log_q -= blocks * math.log1p(odds)
            if moved > 0:
                log_q += moved * math.log(odds)
            add_leaf(rules, kind, y, blocks - moved, count[0], answers[0])
            add_leaf(rules, kind, y, moved, count[1], answers[1])
            tables_a += blocks - moved
            tables_b += moved
    return log_q, tables_a, tables_b


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
def allocate_both(rng, rules, sides, finite, i_a, t_a, i_b, t_b, members, slot_a, slot_b, label_b, propose):
    """Seat a, b, the members and the imputed blocks; return log q, tables of records at b, and all tables at a and b.

    With `propose` the sides are drawn, else they are what the labels say.
    """
    count, answers = sides.side_count, sides.side_answers
    extra = 1.0 if finite else 0.0
    count[:, :] = 0
    answers[:, :] = 0
    seat_side(sides.level, sides.seat, i_a, t_a, 0, count, answers)
    seat_side(sides.level, sides.seat, i_b, t_b, 1, count, answers)
    log_q, real_b = 0.0, 1
    for scan in range(SCANS):
        # All scans but the last find a launching state, whatever the labels are; only the last one counts.
        log_q, real_b = allocate_members(
            rng, sides.level, sides.seat, sides.table_label, sides.member_record, sides.member_table,
            sides.member_side, members, count, answers, sides.base_strength, sides.base_level, extra, float(real_b),
            scan == 0, propose or scan < SCANS - 1, label_b,
        )  # fmt: skip
    tables_a, tables_b = members + 2 - real_b, real_b
    if sides.leaf.shape[0] > 0:
        more_q, tables_a, tables_b = allocate_leaves(
            rng, rules, sides.leaf, slot_a, slot_b, sides.leaf_side, count, answers, sides.base_strength,
            sides.base_level, tables_a, tables_b, extra, propose,
        )  # fmt: skip
        log_q += more_q
    return log_q, real_b, tables_a, tables_b
