"""New profiles: MODEL.md section 3, step 3.

A profile not yet seen takes beta_new = beta_0 (1 - nu), nu ~ Beta(gamma, 1), and its rows theta are drawn
given the answers that opened it: theta_j ~ Dirichlet(lambda_j pi_j + count).

Old profiles: a profile whose last table moves away is forgotten before the table chooses again, beta_0 += beta_k.
Which profiles are explicit may depend on all other tables but not on the one that chooses: were the profile of a lone
table still on offer, it would be there only because of where that table sat, and the conditional would be wrong
(the enumeration of three records with one answer shows it at once). `mixed` has a fixed list and forgets none.

Also the brackets of step 1, sum_k beta_k theta^(k)_{j,x} by level, as cumulative sums over profiles
(Work.bracket) and as terms (Work.weighted); opening and closing keep both in step.
"""

import math

from keyhole.kernels.draws import draw_dirichlet
from keyhole.kernels.jit import kernel
from keyhole.kernels.work import FULL

DONE = 0
CLOSE = 1
OPEN = 2


@kernel
def build_brackets(state, work):
    """Fill Work.weighted and Work.bracket for the profiles in use."""
    profiles = state.profile_total[0]
    levels, capacity = state.level_profile.shape
    padded = min(capacity, (profiles + 7) // 8 * 8)
    for v in range(levels):
        total = 0.0
        for k in range(profiles):
            work.weighted[v, k] = state.weight[k] * state.level_profile[v, k]
            total += work.weighted[v, k]
            work.bracket[v, k] = total
        for k in range(profiles, padded):
            work.weighted[v, k] = 0.0


@kernel
def draw_profile_column(rng, records, state, work, i, t, k):
    """Draw theta^(k) given the answers at table t of record i (none of them if i < 0)."""
    variables = records.level.shape[1]
    levels = state.base_level.shape[0]
    for j in range(variables):
        for v in range(records.level_start[j], records.level_start[j + 1]):
            work.level_shape[v] = state.base_strength[j] * state.base_level[v]
        if i >= 0 and records.level[i, j] >= 0 and state.seat[i, j] == t:
            work.level_shape[records.level[i, j]] += 1.0
        first, last = records.level_start[j], records.level_start[j + 1]
        draw_dirichlet(rng, work.level_shape[first:last], work.level_shape[first:last])
    for v in range(levels):
        state.level_profile[v, k] = work.level_shape[v]


@kernel
def open_profile(rng, records, state, work, i, t):
    """Open a profile for table t of record i (for nobody if i < 0); return its index, or -1 without room."""
    k = state.profile_total[0]
    if k == state.weight.shape[0]:
        work.status[0] = FULL
        return -1
    log_nu = -rng.standard_exponential() / state.weight_concentration[0]
    state.weight[k] = -math.expm1(log_nu) * state.remainder[0]
    state.remainder[0] *= math.exp(log_nu)
    draw_profile_column(rng, records, state, work, i, t, k)
    state.profile_total[0] = k + 1
    state.profile_tables[k] = 1
    for v in range(state.base_level.shape[0]):
        state.level_count[v, k] = 0
        if k % 8 == 0:
            work.weighted[v, k : k + 8] = 0.0
        work.weighted[v, k] = state.weight[k] * state.level_profile[v, k]
        work.bracket[v, k] = work.weighted[v, k] + (work.bracket[v, k - 1] if k > 0 else 0.0)
    return k


@kernel
def close_profile(state, work, k):
    """Forget profile k: its weight goes to the remainder, and nobody can choose it."""
    state.remainder[0] += state.weight[k]
    state.weight[k] = 0.0
    state.profile_tables[k] = 0
    for v in range(state.base_level.shape[0]):
        work.weighted[v, k] = 0.0
        total = work.bracket[v, k - 1] if k > 0 else 0.0
        for other in range(k, state.profile_total[0]):
            total += work.weighted[v, other]
            work.bracket[v, other] = total


@kernel
def label_fresh_table(rng, records, prior, state, work, i, t):
    """Label table t of record i, whose draw fell beyond the last profile.

    There stands a profile not seen before. `mixed` has none: it can only be rounding, and the last one is meant.
    """
    if prior.finite:
        k = state.profile_total[0] - 1
        state.table_label[i, t] = k
        state.profile_tables[k] += 1
    else:
        state.table_label[i, t] = open_profile(rng, records, state, work, i, t)
