"""Log densities of what is learned in one dimension (MODEL.md sections 2 and 6), for slice steps.

STRENGTH  log lambda_j: Normal(log d_j, strength_sd^2) times the Dirichlet-multinomial likelihood of the answers
          of variable j over profiles, prod_k Gamma(lambda) / Gamma(lambda + N_kj) prod_x Gamma(lambda pi_x + N_kjx) / Gamma(lambda pi_x).
MEAN      log (a / b): Normal(0, mean_sd^2) times prod over people of V(f, m), m tables for f answers.
SHAPE     log a: Normal(0, shape_sd^2) times the same, a / b fixed.
SHARED    log alpha of `mixed`: alpha ~ Gamma, times alpha^m prod over people of Gamma(alpha) / Gamma(alpha + f).
"""

import math

from keyhole.kernels.draws import log_rising
from keyhole.kernels.jit import kernel
from keyhole.kernels.seating import fill_mixed_seating

STRENGTH = 0
MEAN = 1
SHAPE = 2
SHARED = 3


@kernel
def log_strength(records, prior, state, j, x):
    """Return the log density of log lambda_j at x, up to a constant."""
    first, last = records.level_start[j], records.level_start[j + 1]
    strength = math.exp(x)
    deviation = (x - math.log(last - first)) / prior.strength_sd
    value = -0.5 * deviation * deviation
    for k in range(state.profile_total[0]):
        answers = 0
        for v in range(first, last):
            count = state.level_count[v, k]
            if count > 0:
                answers += count
                value += log_rising(strength * state.base_level[v], count)
        value -= log_rising(strength, answers)
    return value


@kernel
def log_seatings(records, prior, state, work, log_mean, log_shape):
    """Return the log density of (log a / b, log a), up to a constant; Work.tables_by_length must be filled."""
    shape = math.exp(log_shape)
    fill_mixed_seating(shape, math.exp(log_shape - log_mean), work.trial_seating)
    value = -0.5 * (log_mean / prior.mean_sd) ** 2 - 0.5 * (log_shape / prior.shape_sd) ** 2
    for f in range(1, work.tables_by_length.shape[0]):
        for m in range(1, f + 1):
            if work.tables_by_length[f, m] > 0:
                value += work.tables_by_length[f, m] * math.log(work.trial_seating[f, m])
    return value


@kernel
def log_shared(prior, work, x):
    """Return the log density of log alpha at x, up to a constant; Work.tables_by_length must be filled."""
    alpha = math.exp(x)
    value = prior.shared_concentration[0] * x - prior.shared_concentration[1] * alpha
    for f in range(1, work.tables_by_length.shape[0]):
        for m in range(1, f + 1):
            people = work.tables_by_length[f, m]
            if people > 0:
                value += people * (m * x - log_rising(alpha, f))
    return value


@kernel
def log_density(target, j, x, records, prior, state, work):
    """Return the log density of the target at x, everything else as in the state."""
    if target == STRENGTH:
        return log_strength(records, prior, state, j, x)
    if target == SHARED:
        return log_shared(prior, work, x)
    log_shape = math.log(state.record_concentration[0])
    if target == MEAN:
        return log_seatings(records, prior, state, work, x, log_shape)
    log_mean = log_shape - math.log(state.record_concentration[1])
    return log_seatings(records, prior, state, work, log_mean, x)


@kernel
def draw_slice(rng, target, j, start, width, records, prior, state, work):
    """Make one slice step with stepping out (Neal 2003) from `start`; return the new value."""
    floor = log_density(target, j, start, records, prior, state, work) - rng.standard_exponential()
    left = start - width * rng.random()
    right = left + width
    while log_density(target, j, left, records, prior, state, work) > floor:
        left -= width
    while log_density(target, j, right, records, prior, state, work) > floor:
        right += width
    while True:
        x = left + rng.random() * (right - left)
        if log_density(target, j, x, records, prior, state, work) >= floor or right - left < 1e-12:
            return x
        if x < start:
            left = x
        else:
            right = x
