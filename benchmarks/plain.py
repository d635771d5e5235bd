"""The plain implementation in tests/oracle, timed on the very state that keyhole has reached."""

import numpy as np
from tests.oracle import run_plain_sweep
from tests.oracle.model import Draw, Hyper, Model

from benchmarks.clock import time_repeatedly
from keyhole.kernels.state import Prior, Records, State


def to_plain(records: Records, prior: Prior, state: State) -> tuple[Draw, Model]:
    """Write a state as the lists of the oracle. Rules are not carried over: its sweep knows none."""
    start = records.level_start
    variables = len(start) - 1
    profiles = int(state.profile_total[0])
    parts = [slice(start[j], start[j + 1]) for j in range(variables)]
    hyper = Hyper(
        gamma=float(state.weight_concentration[0]),
        record=(float(state.record_concentration[0]), float(state.record_concentration[1])),
        alpha=float(state.shared_concentration[0]),
        strength=[float(value) for value in state.base_strength],
        base=[state.base_level[part].copy() for part in parts],
    )
    draw = Draw(
        hyper=hyper,
        records=[
            [
                (int(state.table_label[i, t]), tuple(np.flatnonzero(state.seat[i] == t).tolist()))
                for t in range(state.table_total[i])
            ]
            for i in range(len(records.level))
        ],
        weight=[float(value) for value in state.weight[:profiles]],
        remainder=float(state.remainder[0]),
        theta=[[state.level_profile[part, k].copy() for part in parts] for k in range(profiles)],
        data=(records.level - start[:-1]).tolist(),
    )
    levels = tuple(int(size) for size in np.diff(start))
    return draw, Model(levels, bool(prior.finite), bool(prior.adaptive), profiles)


def time_plain_sweep(records: Records, prior: Prior, state: State) -> float:
    """Return the processor seconds of one plain sweep that starts from this state."""
    draw, model = to_plain(records, prior, state)
    rng = np.random.default_rng(1)
    return time_repeatedly(lambda: run_plain_sweep(rng, draw, model), 0.0).cpu
