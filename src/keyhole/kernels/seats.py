"""Seats: MODEL.md section 3, step 1.

For answer (i, j) of level v, all other seats fixed, m tables left in the record:
    join table t       with weight  s_t theta^(label t)_v
    open a new table   with weight  V(f, m + 1) / V(f, m) (sum_k beta_k theta^(k)_v + beta_0 pi_v),
its label by the terms of that sum. s_t = table_size, V = seating, f = answers that the record has.
The concentration alpha_i is integrated out: it appears only through V.
"""

from keyhole.kernels.jit import kernel
from keyhole.kernels.openings import build_brackets, open_profile, search_bracket
from keyhole.kernels.work import OK


@kernel
def leave_seat(state, i, j):
    """Take answer (i, j) from its table; a table left empty is closed and the last one takes its place."""
    t = state.seat[i, j]
    state.table_size[i, t] -= 1
    if state.table_size[i, t] > 0:
        return
    last = state.table_total[i] - 1
    state.table_total[i] = last
    if t != last:
        state.table_size[i, t] = state.table_size[i, last]
        state.table_label[i, t] = state.table_label[i, last]
        state.table_size[i, last] = 0
        for other in range(state.seat.shape[1]):
            if state.seat[i, other] == last:
                state.seat[i, other] = t


@kernel
def open_table(rng, records, prior, state, work, i, j, u):
    """Seat answer (i, j) at a new table, labelled by where u falls in the bracket of its level."""
    profiles = state.profile_total[0]
    t = state.table_total[i]
    state.table_total[i] = t + 1
    state.table_size[i, t] = 1
    state.seat[i, j] = t
    k = search_bracket(work, records.level[i, j], profiles, u)
    if k == profiles:
        # u beyond the last term means a profile not seen before; in `mixed` it can only be rounding.
        k = profiles - 1 if prior.finite else open_profile(rng, records, state, work, i, t)
    state.table_label[i, t] = k


@kernel
def draw_seats(rng, records, prior, state, work):
    """Redraw the seat of every answer, in the order of the file."""
    build_brackets(state, work)
    n, variables = records.level.shape
    for i in range(n):
        answers = records.answer_total[i]
        for j in range(variables):
            v = records.level[i, j]
            if v < 0:
                continue
            leave_seat(state, i, j)
            tables = state.table_total[i]
            joined = 0.0
            for t in range(tables):
                joined += state.table_size[i, t] * state.level_profile[v, state.table_label[i, t]]
                work.table_cumulative[t] = joined
            profiles = state.profile_total[0]
            opened = state.remainder[0] * state.base_level[v]
            if profiles > 0:
                opened += work.bracket[v, profiles - 1]
            ratio = state.seating[answers, tables + 1] / state.seating[answers, tables] if tables > 0 else 1.0
            u = rng.random() * (joined + ratio * opened)
            if u >= joined:
                open_table(rng, records, prior, state, work, i, j, (u - joined) / ratio)
                if work.status[0] != OK:
                    return
            else:
                t = 0
                while u >= work.table_cumulative[t]:
                    t += 1
                state.seat[i, j] = t
                state.table_size[i, t] += 1
