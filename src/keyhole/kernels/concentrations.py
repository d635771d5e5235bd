"""How mixed the records are (docs/model.md section 2).

`hdp`: each record's concentration is Gamma(a, b) and integrated out. Under `adaptive` (a, b) are learned, by slice
steps on log (a / b) and log a; under `paper` they are fixed.
`mixed`: one concentration alpha for all records, by a slice step on its logarithm.
Both leave State.seating = V in step.
"""

import math

from keyhole.kernels.densities import MEAN, SHAPE, SHARED, draw_slice
from keyhole.kernels.jit import inner
from keyhole.kernels.seating import fill_mixed_seating, fill_shared_seating


@inner
def tally_seatings(answer_total, table_total, impossible_seating, tables_by_length):
    """Count people by number of answers and of tables, imputed ones included."""
    for f in range(tables_by_length.shape[0]):
        for m in range(tables_by_length.shape[1]):
            tables_by_length[f, m] = impossible_seating[f, m]
    for i in range(answer_total.shape[0]):
        tables_by_length[answer_total[i], table_total[i]] += 1


@inner
def fill_seating(rng, records, prior, state, work):
    """Compute V from the concentrations."""
    if prior.finite:
        fill_shared_seating(state.shared_concentration[0], state.seating)
    else:
        fill_mixed_seating(state.record_concentration[0], state.record_concentration[1], state.seating)


@inner
def draw_concentrations(rng, records, prior, state, work):
    """Draw alpha (`mixed`) or the mean a / b, then the shape a (`hdp` under `adaptive`), and bring V into step."""
    if not prior.finite and not prior.adaptive:
        return
    table, trial, none = work.tables_by_length, work.trial_seating, state.level_count[:, :0]
    tally_seatings(records.answer_total, state.table_total, state.impossible_seating, table)
    if prior.finite:
        shape, rate = prior.shared_concentration[0], prior.shared_concentration[1]
        x = math.log(state.shared_concentration[0])
        x = draw_slice(rng, SHARED, x, 0.5, 0.0, shape, rate, 0, 0, none, state.base_level, table, trial)
        state.shared_concentration[0] = math.exp(x)
    else:
        y = math.log(state.record_concentration[0])
        x = y - math.log(state.record_concentration[1])
        mean_sd, shape_sd = prior.mean_sd, prior.shape_sd
        x = draw_slice(rng, MEAN, x, 0.5, y, mean_sd, shape_sd, 0, 0, none, state.base_level, table, trial)
        y = draw_slice(rng, SHAPE, y, 0.7, x, shape_sd, mean_sd, 0, 0, none, state.base_level, table, trial)
        state.record_concentration[0] = math.exp(y)
        state.record_concentration[1] = math.exp(y - x)
    fill_seating(rng, records, prior, state, work)
