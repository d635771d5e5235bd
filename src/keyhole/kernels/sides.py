"""Who takes part in a split or merge, and at which side: docs/model.md section 3 (splitmerge.py has the rest).

Tables of records choose one after the other, in random order, with odds given what the sides hold so far (Dahl's
sequential allocation). That is only the launching state of Jain and Neal (2004): further scans let every table choose
again given all others, and the last scan is the proposal. Large profiles are hardly ever split without it: chains that
start from one profile stay there.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.kernels.draws import log_rising
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
    """Seat a, b and the members; return log q and the tables at b's side.

    With `propose` the sides are drawn, else they are what the labels say.
    """
    count, answers = sides.side_count, sides.side_answers
    extra = 1.0 if finite else 0.0
    count[:, :] = 0
    answers[:, :] = 0
    seat_side(sides.level, sides.seat, i_a, t_a, 0, count, answers)
    seat_side(sides.level, sides.seat, i_b, t_b, 1, count, answers)
    log_q, tables_b = 0.0, 1
    for scan in range(SCANS):
        # All scans but the last find a launching state, whatever the labels are; only the last one counts.
        log_q, tables_b = allocate_members(
            rng, sides.level, sides.seat, sides.table_label, sides.member_record, sides.member_table,
            sides.member_side, members, count, answers, sides.base_strength, sides.base_level, extra, float(tables_b),
            scan == 0, propose or scan < SCANS - 1, label_b,
        )  # fmt: skip
    return log_q, tables_b
