"""Weights of the profiles and their concentration (docs/model.md section 3).

gamma given m tables and K profiles (Escobar and West 1995):
    eta ~ Beta(gamma + 1, m),  gamma ~ Gamma(a0 + K, b0 - log eta) with odds (a0 + K - 1) / (m (b0 - log eta)),
    else Gamma(a0 + K - 1, b0 - log eta).
beta ~ Dirichlet(m_1, ..., m_K, gamma); in `mixed` beta ~ Dirichlet(1 + m_1, ..., 1 + m_K), no remainder.
beta is integrated out of the draw of gamma, so gamma comes first.
"""

from keyhole.kernels.distributions import draw_dirichlet, draw_log_beta
from keyhole.kernels.jit import inner


@inner
def draw_gamma(rng, gamma, tables, profiles, shape, rate):
    """Draw gamma given its current value, the numbers of tables and of profiles, and its prior."""
    if tables > 0:
        rate -= draw_log_beta(rng, gamma + 1.0, float(tables))
        shape += profiles - 1.0
        if rng.random() * (shape + tables * rate) < shape:
            shape += 1.0
    return rng.standard_gamma(shape) / rate


@inner
def draw_weight_concentration(rng, records, prior, state, work):
    """Draw gamma; `mixed` has none."""
    if prior.finite:
        return
    profiles = state.profile_total[0]
    tables = 0
    for k in range(profiles):
        tables += state.profile_tables[k]
    state.weight_concentration[0] = draw_gamma(
        rng, state.weight_concentration[0], tables, profiles, prior.weight_concentration[0],
        prior.weight_concentration[1],
    )  # fmt: skip


@inner
def draw_weights(rng, records, prior, state, work):
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
