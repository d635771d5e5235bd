"""Concentrations of the records, by slice steps (docs/model.md section 2).

`hdp`: each record's concentration is Gamma(a, b) and integrated out. Under `adaptive` (a, b) are learned, by slice
steps on log (a / b) and log a; under `paper` they are fixed.
`mixed`: one concentration alpha for all records, by a slice step on its logarithm.
Both leave state.eppf with V of the new concentrations.

Log densities, up to a constant:
MEAN    log (a / b): Normal(0, mean_sd^2) times prod over records of V(f, m), m tables for f answers.
SHAPE   log a: Normal(0, shape_sd^2) times the same, a / b fixed.
SHARED  log alpha of `mixed`: alpha ~ Gamma, times alpha^m prod over records of Gamma(alpha) / Gamma(alpha + f).
Records include augmented ones.
"""

import math

from keyhole.kernels.distributions import log_rising
from keyhole.kernels.eppf import fill_fixed_alpha_eppf, fill_random_alpha_eppf
from keyhole.kernels.jit import allocating, inner

MEAN = 0
SHAPE = 1
SHARED = 2


@allocating
def log_seatings(log_mean, log_shape, mean_sd, shape_sd, tables_by_length, trial_eppf):
    """Return the log density of (log (a / b), log a), up to a constant; `trial_eppf` becomes its V."""
    fill_random_alpha_eppf(math.exp(log_shape), math.exp(log_shape - log_mean), trial_eppf)
    value = -0.5 * (log_mean / mean_sd) ** 2 - 0.5 * (log_shape / shape_sd) ** 2
    for f in range(1, tables_by_length.shape[0]):
        for m in range(1, f + 1):
            if tables_by_length[f, m] > 0:
                value += tables_by_length[f, m] * math.log(trial_eppf[f, m])
    return value


@inner
def log_shared(x, prior_shape, prior_rate, tables_by_length):
    """Return the log density of log alpha at x, up to a constant."""
    alpha = math.exp(x)
    value = prior_shape * x - prior_rate * alpha
    for f in range(1, tables_by_length.shape[0]):
        for m in range(1, f + 1):
            people = tables_by_length[f, m]
            if people > 0:
                value += people * (m * x - log_rising(alpha, f))
    return value


@allocating
def log_density(target, x, other, scale, second, table, eppf):
    """Return the log density of the target at x.

    scale, second: prior sd of the target and of `other`, or shape and rate for SHARED. table: records by answers and
    tables.
    """
    if target == MEAN:
        return log_seatings(x, other, scale, second, table, eppf)
    if target == SHAPE:
        return log_seatings(other, x, second, scale, table, eppf)
    return log_shared(x, scale, second, table)


@allocating
def draw_slice(rng, target, start, width, other, scale, second, table, eppf):
    """Make one slice step with stepping out (Neal 2003) from `start`; return the new value."""
    density = log_density(target, start, other, scale, second, table, eppf)
    floor = density - rng.standard_exponential()
    left = start - width * rng.random()
    right = left + width
    stage = 0
    x = left
    while True:
        inside = log_density(target, x, other, scale, second, table, eppf) >= floor
        if stage == 0:  # step out to the left
            if inside:
                left -= width
                x = left
            else:
                stage = 1
                x = right
        elif stage == 1:  # step out to the right
            if inside:
                right += width
                x = right
            else:
                stage = 2
                x = left + rng.random() * (right - left)
        else:  # draw inside, shrink towards the start
            if inside or right - left < 1e-12:
                return x
            if x < start:
                left = x
            else:
                right = x
            x = left + rng.random() * (right - left)


@inner
def tally_seatings(answer_total, table_total, augmented_tables, tables_by_length):
    """Count records by number of answers and of tables, including augmented records."""
    for f in range(tables_by_length.shape[0]):
        for m in range(tables_by_length.shape[1]):
            tables_by_length[f, m] = augmented_tables[f, m]
    for i in range(answer_total.shape[0]):
        tables_by_length[answer_total[i], table_total[i]] += 1


@allocating
def fill_eppf(rng, records, prior, state, work):
    """Fill state.eppf with V of the current concentrations."""
    if prior.finite:
        fill_fixed_alpha_eppf(state.shared_concentration[0], state.eppf)
    else:
        fill_random_alpha_eppf(state.record_concentration[0], state.record_concentration[1], state.eppf)


@allocating
def draw_concentrations(rng, records, prior, state, work):
    """Draw alpha (`mixed`), or the mean a / b, then the shape a (`hdp` under `adaptive`), and update V."""
    if not prior.finite and not prior.adaptive:
        return
    table, trial = work.tables_by_length, work.trial_eppf
    tally_seatings(records.answer_total, state.table_total, state.augmented_tables, table)
    if prior.finite:
        shape, rate = prior.shared_concentration[0], prior.shared_concentration[1]
        x = math.log(state.shared_concentration[0])
        x = draw_slice(rng, SHARED, x, 0.5, 0.0, shape, rate, table, trial)
        state.shared_concentration[0] = math.exp(x)
    else:
        y = math.log(state.record_concentration[0])
        x = y - math.log(state.record_concentration[1])
        mean_sd, shape_sd = prior.mean_sd, prior.shape_sd
        x = draw_slice(rng, MEAN, x, 0.5, y, mean_sd, shape_sd, table, trial)
        y = draw_slice(rng, SHAPE, y, 0.7, x, shape_sd, mean_sd, table, trial)
        state.record_concentration[0] = math.exp(y)
        state.record_concentration[1] = math.exp(y - x)
    fill_eppf(rng, records, prior, state, work)
