"""Run one step of a (patched) copy of keyhole, interpreted, on states stored by the parent.

python -m tests.statistical.planted_child PACKAGE IN OUT STEP TIMES SEED FINITE ADAPTIVE
"""

import sys
import traceback
from pathlib import Path

import numpy as np

import keyhole
from keyhole.kernels.state import State
from tests.statistical.prior_pool import Pool, make_prior
from tests.statistical.running import run_step

CRASHED = 3
"""Exit status when the kernel itself fails: the bug is found."""


def main() -> None:
    """Load, run, store."""
    package, source, target, step, times, seed, finite, adaptive = sys.argv[1:]
    if not Path(keyhole.__file__).is_relative_to(package):
        raise SystemExit(f"imported {keyhole.__file__}, wanted {package}")
    with np.load(source) as stored:
        pool = Pool(State(*(stored[name] for name in State._fields)), stored["level"], stored["level_start"])
    prior = make_prior(finite == "1", adaptive == "1")
    concentrations = np.column_stack([pool.state.record_concentration, pool.state.shared_concentration])
    if (concentrations == concentrations[0]).all():
        # V is the copy's own: once for all replicates, it is slow without the compiler.
        first = Pool(State(*(field[:1] for field in pool.state)), pool.level[:1], pool.level_start)
        run_step("seating", np.random.default_rng(0), prior, first)
        pool.state.seating[:] = first.state.seating
    try:
        run_step(step, np.random.default_rng(int(seed)), prior, pool, int(times))
    except (ArithmeticError, AssertionError, LookupError, ValueError):
        traceback.print_exc()
        raise SystemExit(CRASHED) from None
    np.savez(target, **pool.state._asdict())


if __name__ == "__main__":
    main()
