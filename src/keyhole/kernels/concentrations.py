"""How mixed the records are (MODEL.md sections 2 and 6).

`hdp`: each record's concentration is Gamma(a, b) and integrated out. Under `adaptive` (a, b) are learned, by slice
steps on log (a / b) and log a; under `paper` they are fixed.
`mixed`: one concentration alpha for all records, by a slice step on its logarithm.
Both leave State.seating = V in step.
"""

import math

from keyhole.kernels.densities import MEAN, SHAPE, SHARED, draw_slice
from keyhole.kernels.jit import kernel
from keyhole.kernels.seating import fill_mixed_seating, fill_shared_seating


@kernel
def tally_seatings(records, state, work):
    """Count people by number of answers and of tables, imputed ones included."""
    work.tables_by_length[:, :] = state.impossible_seating
    for i in range(records.level.shape[0]):
        work.tables_by_length[records.answer_total[i], state.table_total[i]] += 1


@kernel
def fill_seating(rng, records, prior, state, work):
    """Compute V from the concentrations."""
    if prior.finite:
        fill_shared_seating(state.shared_concentration[0], state.seating)
    else:
        fill_mixed_seating(state.record_concentration[0], state.record_concentration[1], state.seating)


@kernel
def draw_shared_concentration(rng, records, prior, state, work):
    """Make a slice step for the concentration that all records share."""
    tally_seatings(records, state, work)
    start = math.log(state.shared_concentration[0])
    x = draw_slice(rng, SHARED, 0, start, 0.5, records, prior, state, work)
    state.shared_concentration[0] = math.exp(x)


@kernel
def draw_record_concentration(rng, records, prior, state, work):
    """Make a slice step for the mean a / b, then one for the shape a, of the records' concentrations."""
    tally_seatings(records, state, work)
    shape, rate = state.record_concentration[0], state.record_concentration[1]
    log_mean = draw_slice(rng, MEAN, 0, math.log(shape / rate), 0.5, records, prior, state, work)
    state.record_concentration[1] = shape / math.exp(log_mean)
    log_shape = draw_slice(rng, SHAPE, 0, math.log(shape), 0.7, records, prior, state, work)
    state.record_concentration[0] = math.exp(log_shape)
    state.record_concentration[1] = math.exp(log_shape - log_mean)


@kernel
def draw_concentrations(rng, records, prior, state, work):
    """Draw alpha (`mixed`) or (a, b) (`hdp` under `adaptive`), and bring V into step."""
    if prior.finite:
        draw_shared_concentration(rng, records, prior, state, work)
        fill_seating(rng, records, prior, state, work)
    elif prior.adaptive:
        draw_record_concentration(rng, records, prior, state, work)
        fill_seating(rng, records, prior, state, work)
