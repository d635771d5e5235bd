"""Weights of the profiles and their concentration (MODEL.md section 3, step 5).

gamma | m, K by Escobar and West (1995), m tables in all and K profiles:
    eta ~ Beta(gamma + 1, m),  gamma ~ Gamma(a0 + K, b0 - log eta) with odds (a0 + K - 1) / (m (b0 - log eta)),
    else Gamma(a0 + K - 1, b0 - log eta).
beta ~ Dirichlet(m_1, ..., m_K, gamma); in `mixed` beta ~ Dirichlet(1 + m_1, ..., 1 + m_K), no remainder.
gamma integrates beta out: it is drawn first. Under a lift (lift.py) both are proposed in one step.
"""

import math

from keyhole.kernels.draws import draw_dirichlet, draw_log_beta
from keyhole.kernels.jit import inner
from keyhole.kernels.lift import learn_lift, sum_lift


@inner
def propose_concentration(rng, prior, state):
    """Draw gamma given the numbers of tables and of profiles."""
    shape, rate = prior.weight_concentration[0], prior.weight_concentration[1]
    profiles = state.profile_total[0]
    tables = 0
    for k in range(profiles):
        tables += state.profile_tables[k]
    if tables > 0:
        rate -= draw_log_beta(rng, state.weight_concentration[0] + 1.0, float(tables))
        shape += profiles - 1.0
        if rng.random() * (shape + tables * rate) < shape:
            shape += 1.0
    state.weight_concentration[0] = rng.standard_gamma(shape) / rate


@inner
def draw_weight_concentration(rng, records, prior, state, work):
    """Draw gamma; `mixed` has none, and under a lift it is drawn with the weights."""
    if not prior.finite and prior.lift_least == math.inf:
        propose_concentration(rng, prior, state)


@inner
def propose_weights(rng, prior, state, work):
    """Draw the weights given the number of tables of each profile."""
    profiles = state.profile_total[0]
    shape = work.profile_shape
    for k in range(profiles):
        shape[k] = state.profile_tables[k] + (1.0 if prior.finite else 0.0)
    last = profiles
    if not prior.finite:
        shape[profiles] = state.weight_concentration[0]
        last += 1
    draw_dirichlet(rng, shape[:last], shape[:last])
    for k in range(profiles):
        state.weight[k] = shape[k]
    state.remainder[0] = 0.0 if prior.finite else shape[profiles]


@inner
def draw_weights(rng, records, prior, state, work):
    """Draw the weights; under a lift gamma too, if the lift of the proposal allows."""
    if prior.lift_least == math.inf:
        propose_weights(rng, prior, state, work)
        return
    profiles, before = state.profile_total[0], work.product
    before[:profiles] = state.weight[:profiles]
    remainder, concentration = state.remainder[0], state.weight_concentration[0]
    height = sum_lift(rng, prior, state, True)
    propose_concentration(rng, prior, state)
    propose_weights(rng, prior, state, work)
    if -rng.standard_exponential() >= sum_lift(rng, prior, state, False) - height:
        state.weight[:profiles] = before[:profiles]
        state.remainder[0], state.weight_concentration[0] = remainder, concentration
    if prior.lift_step > 0.0:
        learn_lift(prior, state)
