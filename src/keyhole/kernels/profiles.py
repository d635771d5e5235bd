"""Profiles: tallies of the seating, profiles without tables, and the draw of theta (docs/model.md section 3).

theta^(k)_j ~ Dirichlet(lambda_j pi_j + N_kj), N = level_count, lambda = base_strength, pi = base_level.
"""

from keyhole.kernels.draws import draw_dirichlet
from keyhole.kernels.jit import inner


@inner
def tally_answers(rng, records, prior, state, work):
    """Count tables and answers by profile anew from the seating of the records."""
    profiles = state.profile_total[0]
    state.profile_tables[:profiles] = 0
    state.level_count[:, :profiles] = 0
    for i in range(records.level.shape[0]):
        for t in range(state.table_total[i]):
            state.profile_tables[state.table_label[i, t]] += 1
        for j in range(records.level.shape[1]):
            v = records.level[i, j]
            if v >= 0:
                state.level_count[v, state.table_label[i, state.seat[i, j]]] += 1


@inner
def drop_empty_profiles(rng, records, prior, state, work):
    """Forget profiles that have no table; their weight goes to the remainder. `mixed` keeps them."""
    if prior.finite:
        return
    profiles = state.profile_total[0]
    kept = 0
    for k in range(profiles):
        work.relabel[k] = kept
        if state.profile_tables[k] == 0:
            state.remainder[0] += state.weight[k]
            continue
        if kept != k:
            state.weight[kept] = state.weight[k]
            state.profile_tables[kept] = state.profile_tables[k]
            for v in range(state.level_count.shape[0]):
                state.level_profile[v, kept] = state.level_profile[v, k]
                state.level_count[v, kept] = state.level_count[v, k]
        kept += 1
    if kept == profiles:
        return
    state.profile_total[0] = kept
    for i in range(records.level.shape[0]):
        for t in range(state.table_total[i]):
            state.table_label[i, t] = work.relabel[state.table_label[i, t]]


@inner
def draw_profiles(rng, records, prior, state, work):
    """Draw the rows of every profile given the answers labelled with it."""
    for k in range(state.profile_total[0]):
        for j in range(records.level.shape[1]):
            first, last = records.level_start[j], records.level_start[j + 1]
            for v in range(first, last):
                work.level_shape[v] = state.base_strength[j] * state.base_level[v] + state.level_count[v, k]
            draw_dirichlet(rng, work.level_shape[first:last], work.level_shape[first:last])
            for v in range(first, last):
                state.level_profile[v, k] = work.level_shape[v]
