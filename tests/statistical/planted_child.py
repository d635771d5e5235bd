"""Run one step of a (patched) copy of keyhole, interpreted, on states stored by the parent.

python -m tests.statistical.planted_child PACKAGE IN OUT STEP TIMES SEED FINITE ADAPTIVE LEVELS
"""

import sys
from pathlib import Path

import numpy as np

import keyhole
from keyhole.kernels.state import State
from tests.statistical.prior_pool import Pool, make_prior
from tests.statistical.running import run_step


def main() -> None:
    """Load, run, store."""
    package, source, target, step, times, seed, finite, adaptive, levels = sys.argv[1:]
    if not Path(keyhole.__file__).is_relative_to(package):
        raise SystemExit(f"imported {keyhole.__file__}, wanted {package}")
    stored = np.load(source)
    pool = Pool(State(*(stored[name] for name in State._fields)), stored["level"], stored["level_start"])
    prior = make_prior(finite == "1", adaptive == "1", tuple(map(int, levels.split(","))))
    run_step(step, np.random.default_rng(int(seed)), prior, pool, int(times))
    np.savez(target, **pool.state._asdict())


if __name__ == "__main__":
    main()
