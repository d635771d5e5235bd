"""Run 20 sweeps of every model and print a digest of all bits; test_kernels runs it in both modes."""

import hashlib
import sys
from collections.abc import Iterator

import numpy as np

from keyhole.kernels.state import Records, State
from keyhole.kernels.sweep import run_sweeps
from keyhole.kernels.work import Work
from keyhole.sampling.start import make_prior, start_state

LEVELS = (2, 3, 5, 2)
IN_USE = ("weight", "level_profile", "profile_tables", "level_count", "layout")
MODELS = [(model, prior) for model in ("hdp", "mixed") for prior in ("paper", "adaptive")]


def make_records(rng: np.random.Generator, n: int = 25, missing: bool = True) -> Records:
    """Random answers, a few of them missing."""
    start = np.concatenate([[0], np.cumsum(LEVELS)]).astype(np.int64)
    codes = np.column_stack([rng.integers(0, d, n) for d in LEVELS])
    level = (codes + start[:-1]).astype(np.int32)
    if missing:
        level[rng.random(level.shape) < 0.05] = -1
    return Records(level, (level >= 0).sum(axis=1).astype(np.int64), start)


def start_models(seed: int) -> Iterator[tuple[np.random.Generator, Records, tuple, State, Work]]:
    """A start for every model and prior."""
    for model, prior_name in MODELS:
        rng = np.random.default_rng(seed)
        records = make_records(rng)
        prior = make_prior(model, prior_name, records.level_start)
        state, work = start_state(rng, records, prior, 5)
        yield rng, records, prior, state, work


def digest(rng: np.random.Generator, state: State) -> str:
    """SHA-256 of the state in use and of the generator."""
    total = int(state.profile_total[0])
    parts = hashlib.sha256(repr(rng.bit_generator.state).encode())
    for name, field in state._asdict().items():
        used = field[..., :total] if name in IN_USE else field
        parts.update(name.encode() + np.ascontiguousarray(used).tobytes())
    return parts.hexdigest()


def run(seed: int) -> list[str]:
    """Digests after 20 sweeps."""
    digests = []
    for rng, records, prior, state, work in start_models(seed):
        assert run_sweeps(rng, records, prior, state, work, 20) == 20
        digests.append(digest(rng, state))
    return digests


if __name__ == "__main__":
    sys.stdout.write("\n".join(run(int(sys.argv[1]))))
