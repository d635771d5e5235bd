"""Two profiles parted anew under the rules, the impossible people integrated out.

splitmerge.py parts the tables of two profiles anew with all of their rows integrated out. With rules the imputed people
of the two would have to be parted with them, and hardly ever can be. But 1 - p_0 looks only at the sums of a profile's
rows over *classes*: levels of a variable that no rule tells apart (all levels of a variable without rules are one
class). Given weights beta and the sums x over classes, 1 - p_0 is what it is whoever sits where, and what a profile's
rows are within a class can be integrated out. For two profiles a and b the labels of their tables have the density
    prod over tables of beta_k prod over answers of x_k(class)
    prod over k and classes c of prod_{v in c} (lambda_j pi_v)_{N_kv} / (lambda_j pi(c))_{N_kc},
(.)_N rising factorials. Tables a and b are picked at random, b with another label; all other tables of the two labels
choose again as in sides.py, launched twice, once to replay what is and once for the proposal. The log ratio is the
difference of
    log density - log q - log (tables of records with another label than a)
of the new and the old state. If it is accepted, the rows within classes are drawn anew.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.kernels.draws import draw_dirichlet, log_rising
from keyhole.kernels.jit import inner
from keyhole.kernels.sides import gather_members, pick_table
from keyhole.kernels.state import Floats, Integers

SCANS = 5
"""As in sides.py."""

SMALLEST = 1e-300


class Parting(NamedTuple):
    """The arrays of Records, Rules, State and Work that a parting touches, under the same names (cf. Book).

    class_shape : float64 (classes,)
        lambda_j pi(c).
    class_ratio : float64 (classes,)
        x_b(c) / x_a(c).
    class_count : int64 (2, classes)
    """

    level: NDArray[np.int32]
    seat: NDArray[np.uint8]
    table_label: NDArray[np.int32]
    level_class: Integers
    level_shape: Floats
    class_shape: Floats
    class_ratio: Floats
    member_record: NDArray[np.int32]
    member_table: NDArray[np.uint8]
    member_side: NDArray[np.uint8]
    count: Integers
    class_count: Integers


@inner
def fill_shapes(level_start, level_class, base_strength, base_level, level_shape, class_shape):
    """Fill lambda_j pi_v of every level and of every class."""
    class_shape[:] = 0.0
    for j in range(level_start.shape[0] - 1):
        for v in range(level_start[j], level_start[j + 1]):
            level_shape[v] = base_strength[j] * base_level[v]
            class_shape[level_class[v]] += level_shape[v]


@inner
def add_classes(level_class, count, class_count):
    """Add the counts of levels up to those of classes, for both sides."""
    class_count[:, :] = 0
    for side in range(2):
        for v in range(level_class.shape[0]):
            class_count[side, level_class[v]] += count[side, v]


@inner
def choose_sides(rng, parting, members, tables_b, odds_b, first, propose, label_b):
    """Let the members choose one after the other; return log q and the number of tables at b's side.

    As allocate_members of sides.py, but for the weights, which are known, and the classes.
    """
    level, seat, count, total = parting.level, parting.seat, parting.count, parting.class_count
    shape, class_shape, of_class, side = parting.level_shape, parting.class_shape, parting.level_class, parting.member_side
    log_q = 0.0
    for x in range(members):
        i, t = parting.member_record[x], parting.member_table[x]
        if not first:
            left = side[x]
            tables_b -= left
            for j in range(level.shape[1]):
                if seat[i, j] == t:
                    count[left, level[i, j]] -= 1
                    total[left, of_class[level[i, j]]] -= 1
        odds, against = odds_b, 1.0
        for j in range(level.shape[1]):
            if seat[i, j] == t:
                v = level[i, j]
                c = of_class[v]
                odds *= parting.class_ratio[c] * (shape[v] + count[1, v]) * (class_shape[c] + total[0, c])
                against *= (shape[v] + count[0, v]) * (class_shape[c] + total[1, c])
        odds = min(odds / max(against, SMALLEST), 1e300)
        if propose:
            chosen = 1 if rng.random() * (1.0 + odds) >= 1.0 else 0
        else:
            chosen = 1 if parting.table_label[i, t] == label_b else 0
        side[x] = chosen
        tables_b += chosen
        for j in range(level.shape[1]):
            if seat[i, j] == t:
                count[chosen, level[i, j]] += 1
                total[chosen, of_class[level[i, j]]] += 1
        log_q -= math.log1p(odds)
        if chosen == 1:
            log_q += math.log(max(odds, SMALLEST))
    return log_q, tables_b


@inner
def log_sides(parting, tables_b, odds_b):
    """Return the log density of who sits where, but for what both sides have in common."""
    value = tables_b * math.log(odds_b)
    for c in range(parting.class_shape.shape[0]):
        if parting.class_count[1, c] > 0:
            value += parting.class_count[1, c] * math.log(parting.class_ratio[c])
    for side in range(2):
        for c in range(parting.class_shape.shape[0]):
            if parting.class_count[side, c] > 0:
                value -= log_rising(parting.class_shape[c], parting.class_count[side, c])
        for v in range(parting.level_class.shape[0]):
            if parting.count[side, v] > 0:
                value += log_rising(parting.level_shape[v], parting.count[side, v])
    return value


@inner
def part_tables(rng, parting, members, i_a, t_a, i_b, t_b, odds_b, propose, label_b):
    """Launch, then part the tables or replay who sits where; return log density - log q, and the tables at b's side."""
    parting.count[:, :] = 0
    for j in range(parting.level.shape[1]):
        if parting.seat[i_a, j] == t_a:
            parting.count[0, parting.level[i_a, j]] += 1
        if parting.seat[i_b, j] == t_b:
            parting.count[1, parting.level[i_b, j]] += 1
    add_classes(parting.level_class, parting.count, parting.class_count)
    log_q, tables_b = 0.0, 1
    for scan in range(SCANS):
        log_q, tables_b = choose_sides(
            rng, parting, members, tables_b, odds_b, scan == 0, propose or scan < SCANS - 1, label_b
        )
    return log_sides(parting, tables_b, odds_b) - log_q, tables_b


@inner
def draw_within_classes(rng, level_start, level_class, level_shape, level_count, level_profile, k, shape):
    """Draw the rows of profile k within each class, their sums over classes unchanged. Classes are within a variable."""
    for j in range(level_start.shape[0] - 1):
        first, last = level_start[j], level_start[j + 1]
        for c in range(level_class[first:last].min(), level_class[first:last].max() + 1):
            size, whole = 0, 0.0
            for v in range(first, last):
                if level_class[v] == c:
                    shape[size] = level_shape[v] + level_count[v, k]
                    whole += level_profile[v, k]
                    size += 1
            if size < 2:
                continue
            draw_dirichlet(rng, shape[:size], shape[:size])
            size = 0
            for v in range(first, last):
                if level_class[v] == c:
                    level_profile[v, k] = whole * shape[size]
                    size += 1


@inner
def draw_partings(rng, records, prior, state, work):
    """Part pairs of profiles anew. Tallies must be of records alone, and stay so; 1 - p_0 stays what it is."""
    level_class, variables, own = prior.rules.level_class, records.level.shape[1], work.fresh
    parting = Parting(
        records.level, state.seat, state.table_label, level_class, work.level_shape, work.class_shape,
        work.class_ratio, work.member_record, work.member_table, work.member_side, work.side_count, work.class_count,
    )  # fmt: skip
    tables = 0
    for i in range(records.level.shape[0]):
        tables += state.table_total[i]
    fill_shapes(
        records.level_start, level_class, state.base_strength, state.base_level, work.level_shape, work.class_shape
    )
    for _ in range(prior.partings):
        i_a, t_a = pick_table(rng, state.table_total, variables)
        label_a = state.table_label[i_a, t_a]
        size_a = state.profile_tables[label_a]
        if size_a == tables:
            return
        label_b, i_b, t_b = label_a, i_a, t_a
        while label_b == label_a:
            i_b, t_b = pick_table(rng, state.table_total, variables)
            label_b = state.table_label[i_b, t_b]
        size_b = state.profile_tables[label_b]
        for c in range(work.class_shape.shape[0]):
            work.class_ratio[c] = 0.0
            own[c] = 0.0
        for v in range(level_class.shape[0]):
            work.class_ratio[level_class[v]] += state.level_profile[v, label_b]
            own[level_class[v]] += state.level_profile[v, label_a]
        for c in range(work.class_shape.shape[0]):
            work.class_ratio[c] = max(work.class_ratio[c], SMALLEST) / max(own[c], SMALLEST)
        odds_b = max(state.weight[label_b], SMALLEST) / max(state.weight[label_a], SMALLEST)
        members = gather_members(
            rng, state.table_total, state.table_label, work.member_record, work.member_table, label_a, label_b,
            i_a, t_a, i_b, t_b,
        )  # fmt: skip
        before, _ = part_tables(rng, parting, members, i_a, t_a, i_b, t_b, odds_b, False, label_b)
        after, new_b = part_tables(rng, parting, members, i_a, t_a, i_b, t_b, odds_b, True, label_b)
        new_a = size_a + size_b - new_b
        change = after - before + math.log(tables - size_a) - math.log(tables - new_a)
        if -rng.standard_exponential() >= change:
            continue
        for x in range(members):
            label = label_b if work.member_side[x] == 1 else label_a
            state.table_label[work.member_record[x], work.member_table[x]] = label
        state.profile_tables[label_a], state.profile_tables[label_b] = new_a, new_b
        for v in range(level_class.shape[0]):
            state.level_count[v, label_a] = work.side_count[0, v]
            state.level_count[v, label_b] = work.side_count[1, v]
        for k in (label_a, label_b):
            draw_within_classes(
                rng, records.level_start, level_class, work.level_shape, state.level_count, state.level_profile, k,
                work.founding_rows[0],
            )  # fmt: skip
