"""The base distribution H under `adaptive` (docs/model.md section 2): base_strength lambda_j and base_level pi_j.

lambda_j: slice step on its logarithm (concentrations.py).
pi_j: l_kjx ~ number of tables of a Chinese restaurant with N_kjx customers and concentration lambda_j pi_jx,
      then pi_j ~ Dirichlet(1 + sum_k l_kjx).
theta is integrated out of both, so they are drawn before it.
"""

import math

from keyhole.kernels.concentrations import STRENGTH, draw_slice
from keyhole.kernels.distributions import draw_dirichlet, draw_table_count
from keyhole.kernels.jit import inner


@inner
def draw_base_strength(rng, records, prior, state, work):
    """Make a slice step for lambda_j of every variable; fixed under `paper`."""
    if not prior.adaptive:
        return
    count = state.level_count[:, : state.profile_total[0]]
    for j in range(records.level.shape[1]):
        first, last = records.level_start[j], records.level_start[j + 1]
        x = draw_slice(
            rng, STRENGTH, math.log(state.base_strength[j]), 1.0, 0.0, prior.strength_sd, 0.0, first, last, count,
            state.base_level, work.tables_by_length, work.trial_eppf,
        )  # fmt: skip
        state.base_strength[j] = math.exp(x)


@inner
def draw_base_level(rng, records, prior, state, work):
    """Draw pi_j of every variable; fixed under `paper`."""
    if not prior.adaptive:
        return
    for j in range(records.level.shape[1]):
        first, last = records.level_start[j], records.level_start[j + 1]
        for v in range(first, last):
            work.level_shape[v] = 1.0
            concentration = state.base_strength[j] * state.base_level[v]
            for k in range(state.profile_total[0]):
                count = state.level_count[v, k]
                if count > 0:
                    work.level_shape[v] += draw_table_count(rng, count, concentration)
        draw_dirichlet(rng, work.level_shape[first:last], state.base_level[first:last])
