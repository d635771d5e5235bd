"""Split, merge and part anew: docs/model.md section 3. Jain-Neal with tables as observations, launched as in sides.py.

beta and theta are integrated out, so they are stale afterwards: they must be drawn anew before anything reads
them. Table a is picked at random. Then, with probability 1/4, 1/4 and 1/2,
    split: table b is another table with the label of a; b opens a new profile; all other tables of that label
           choose a side one after the other, in random order, with weights m_side f(table | side so far);
    merge: b is a table of another profile, picked at random; the allocation is replayed with forced choices;
    part anew: b is any table with another label; all tables of the two profiles but a and b choose again.
q is the product of the chosen probabilities. The log ratio of a split is
    log gamma + lnGamma(m_a) + lnGamma(m_b) - lnGamma(m_a + m_b) + log f(A_a) + log f(A_b) - log f(A) - log q
    + log (r - 1) - log P - log r_b,
the last three for the choice of b: r tables and P profiles before the split, r_b tables at b's side.
In `mixed` log gamma is replaced by the log of the number of empty profiles, and m by m + 1 within lnGamma.
f is the Dirichlet-multinomial likelihood. A merge has minus that.

To part anew is a merge and a split in one step, without the merged state between them, which is often far too
improbable: two profiles "men at work, women" become "people at work, women at home". Two launching states are drawn,
one for the replay of what is, one for the proposal. The log ratio is the difference of
    lnGamma(m_a) + lnGamma(m_b) + log f(A_a) + log f(A_b) - log q - log (tables of records with another label than a)
of the new and the old state; the last term because b is picked from those tables.

Only without rules: imputed people hold profiles together, and what moves records alone is refused.
"""

import math

from keyhole.kernels.jit import inner
from keyhole.kernels.sides import (
    Sides,
    allocate_both,
    gather_members,
    log_split_likelihood,
    pick_labelled_table,
    pick_table,
)
from keyhole.kernels.work import FULL


@inner
def log_label_ratio(finite, gamma, empty, tables_a, tables_b):
    """Return the log ratio of the labels' prior: one profile with tables_a + tables_b tables, or two."""
    if finite:
        value = math.log(empty)
        return (
            value + math.lgamma(1.0 + tables_a) + math.lgamma(1.0 + tables_b) - math.lgamma(1.0 + tables_a + tables_b)
        )
    return math.log(gamma) + math.lgamma(tables_a) + math.lgamma(tables_b) - math.lgamma(tables_a + tables_b)


@inner
def apply_split(sides, members, label_a, label_b, i_b, t_b, tables_b):
    """Label the members and table b by member_side, and renew the two profiles' tallies."""
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
    """Return the first profile without tables, made at the end if there is none; -1 without room."""
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
def draw_splits_and_merges(rng, records, prior, state, work):
    """Make prior.split_merge_proposals proposals; tallies must be fresh and stay so."""
    n, variables = records.level.shape
    if n == 0:
        return
    finite, profile_tables = prior.finite, state.profile_tables
    sides = Sides(
        records.level, records.level_start, state.seat, state.table_total, state.table_label, state.profile_total,
        profile_tables, state.level_count, state.base_strength, state.base_level, work.member_record,
        work.member_table, work.member_side, work.side_count, work.side_answers,
    )  # fmt: skip
    tables = 0.0
    for i in range(n):
        tables += state.table_total[i]
    for _ in range(prior.split_merge_proposals):
        profiles, empty = 0, 0
        for k in range(state.profile_total[0]):
            profiles += profile_tables[k] > 0
            empty += profile_tables[k] == 0
        i_a, t_a = pick_table(rng, state.table_total, variables)
        label_a = state.table_label[i_a, t_a]
        u = rng.random()
        split, anew = u < 0.25, u >= 0.5
        if split and (profile_tables[label_a] < 2 or (finite and empty == 0)):
            continue
        if not split and profiles < 2:
            continue
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
            continue
        if anew:
            apply_split(sides, members, label_a, label_b, i_b, t_b, tables_b)
            continue
        if not split:
            apply_merge(sides, members, label_a, label_b, i_b, t_b)
            continue
        label_b = find_empty(state.profile_total, profile_tables, state.level_count)
        if label_b < 0:
            work.status[0] = FULL
            return
        apply_split(sides, members, label_a, label_b, i_b, t_b, tables_b)
