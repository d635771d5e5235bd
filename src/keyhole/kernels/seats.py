"""Seats: draws the table of every answer (docs/model.md section 3).

For answer (i, j) of level v, given all other seats, with m tables left in the record:
    join table t       with weight  s_t theta^(label t)_v
    open a new table   with weight  V(f, m + 1) / V(f, m) (sum_k beta_k theta^(k)_v + beta_0 pi_v),
its label drawn by the terms of that sum. s_t = table_size, V = eppf, f = number of answers that the record has.
The concentration alpha_i is integrated out: it appears only through V.

A profile is removed before the answer at its only table is resampled (profiles.py gives the reason).

The loop over answers is one long function because Numba counts references at every call that passes an array, which
would dominate its time. It returns whenever a profile must be closed or opened.
"""

from keyhole.kernels.jit import allocating, inner
from keyhole.kernels.profiles import (
    CLOSE,
    DONE,
    OPEN,
    build_brackets,
    close_profile,
    label_fresh_table,
    make_profile_arrays,
)
from keyhole.kernels.work import OK


@inner
def seat_answers(
    rng, level, answer_total, seat, size, label, table_total, eppf, bracket, level_profile, fresh, profiles,
    profile_tables, finite, cumulative, first
):  # fmt: skip
    """Resample seats from answer number `first` on (counted along records), until a profile must be closed or opened.

    `fresh` is beta_0 pi_v by level. Return the number of that answer and what to do next. CLOSE: close the profile of
    the answer's table, then resume at the same answer. OPEN: open a profile for its new table, which already exists.
    """
    n, variables = level.shape
    start = first % variables
    for i in range(first // variables, n):
        answers = answer_total[i]
        tables = table_total[i]
        for j in range(start, variables):
            v = level[i, j]
            if v < 0:
                continue
            # Leave the seat. A table left empty is closed, and the last table takes its number.
            t = seat[i, j]
            if size[i, t] == 1 and profile_tables[label[i, t]] == 1 and not finite:
                table_total[i] = tables
                return i * variables + j, CLOSE
            size[i, t] -= 1
            if size[i, t] == 0:
                tables -= 1
                if profile_tables[label[i, t]] > 0:
                    profile_tables[label[i, t]] -= 1
                if t != tables:
                    size[i, t] = size[i, tables]
                    label[i, t] = label[i, tables]
                    size[i, tables] = 0
                    for other in range(variables):
                        if seat[i, other] == tables:
                            seat[i, other] = t
            # Weights of the existing tables and of a new one.
            joined = 0.0
            for t in range(tables):
                joined += size[i, t] * level_profile[v, label[i, t]]
                cumulative[t] = joined
            opened = fresh[v]
            if profiles > 0:
                opened += bracket[v, profiles - 1]
            ratio = eppf[answers, tables + 1] / eppf[answers, tables] if tables > 0 else 1.0
            u = rng.random() * (joined + ratio * opened)
            if u < joined:
                t = 0
                while u >= cumulative[t]:
                    t += 1
                seat[i, j] = t
                size[i, t] += 1
                continue
            # Open a table: the label is the first profile whose cumulative bracket exceeds u.
            u = (u - joined) / ratio
            k, above = 0, profiles
            while k < above:
                middle = (k + above) // 2
                if u < bracket[v, middle]:
                    above = middle
                else:
                    k = middle + 1
            seat[i, j] = tables
            size[i, tables] = 1
            label[i, tables] = k
            tables += 1
            if k == profiles:
                table_total[i] = tables
                return i * variables + j, OPEN
            profile_tables[k] += 1
        table_total[i] = tables
        start = 0
    return n * variables, DONE


@allocating
def draw_seats(rng, records, prior, state, work):
    """Resample the seat of every answer, record by record."""
    arrays = make_profile_arrays(records, prior, state, work)
    build_brackets(arrays)
    variables = records.level.shape[1]
    answer = 0
    while True:
        for v in range(state.base_level.shape[0]):
            work.fresh[v] = state.remainder[0] * state.base_level[v]
        answer, event = seat_answers(
            rng, records.level, records.answer_total, state.seat, state.table_size, state.table_label,
            state.table_total, state.eppf, work.bracket, state.level_profile, work.fresh,
            state.profile_total[0], state.profile_tables, prior.finite, work.table_cumulative, answer,
        )  # fmt: skip
        if event == DONE:
            return
        i, j = answer // variables, answer % variables
        if event == CLOSE:
            close_profile(arrays, state.table_label[i, state.seat[i, j]])
        else:
            t = state.seat[i, j]
            label_fresh_table(rng, arrays, prior.finite, records.level, state.seat, state.table_label, i, t)
            if work.status[0] != OK:
                return
            answer += 1
