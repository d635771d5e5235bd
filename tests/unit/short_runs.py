"""A file of a few records, runs of a second, and what identifies their draws."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from keyhole.kernels.state import Records
from keyhole.sampling import Trace, run_chains
from keyhole.sampling.problem import Problem, make_problem
from keyhole.sampling.saved_run import hold
from keyhole.sampling.trace import pad_draws
from keyhole.settings import Settings, make_settings

SIZES = np.array([3, 4, 2])
SHORT: dict[str, Any] = {"chains": 2, "max_sweeps": 150, "workers": 2}


def make_data() -> tuple[Records, np.ndarray, int]:
    """Thirty records with three variables, their sample uniques, and the population."""
    rng = np.random.default_rng(5)
    code = rng.integers(0, SIZES, (30, 3))
    start = np.concatenate([[0], np.cumsum(SIZES)])
    level = (code + start[:-1]).astype(np.int32)
    _, index, count = np.unique(level, axis=0, return_index=True, return_counts=True)
    return Records(level, np.full(30, 3), start), np.sort(index[count == 1]), 500


def make_short_problem(**options: Any) -> tuple[Problem, Settings]:
    """The data as a problem."""
    settings = make_settings(**SHORT | options)
    return make_problem(*make_data(), settings, None), settings


def run(checkpoint: Path | None = None, resume: bool = False, **options: Any) -> Trace:
    """Run the chains."""
    told = {name: options.pop(name) for name in ("on_progress", "executor") if name in options}
    settings = make_settings(**SHORT | options)
    with hold(checkpoint):
        return run_chains(*make_data(), settings, checkpoint=checkpoint, resume=resume, **told)


def digest(trace: Trace) -> str:
    """SHA-256 of all draws."""
    found = hashlib.sha256(f"{trace.sweeps} {trace.burn_in} {trace.stopped}".encode())
    for name, array in sorted({**trace.quantities, **pad_draws(trace.draws), "r1": trace.r1, "r2": trace.r2}.items()):
        found.update(f"{name} {array.dtype} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()
