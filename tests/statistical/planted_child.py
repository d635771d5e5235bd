"""Run one step of each (patched) copy of keyhole, interpreted, on states stored by the parent.

python -m tests.statistical.planted_child JOBS

Each job imports keyhole and the tests anew from its own folder; numba, slow to import, stays.
"""

import importlib
import json
import sys
import traceback
from pathlib import Path

import numpy as np

from keyhole.kernels.state import State
from tests.statistical.prior_pool import Pool, make_prior
from tests.statistical.running import run_step


def import_from(folder: str, module: str):
    """Import a module of the tests anew, with keyhole from this folder."""
    for name in [name for name in sys.modules if name.split(".")[0] in ("keyhole", "tests")]:
        del sys.modules[name]
    sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        found = importlib.import_module(module)
    finally:
        sys.path.remove(folder)
    file = sys.modules["keyhole"].__file__
    if file is None or not Path(file).is_relative_to(folder):
        raise SystemExit(f"imported {file}, wanted {folder}")
    return found


def move(source: str, target: str, step: str, times: int, seed: int, finite: bool, adaptive: bool) -> None:
    """Load, run, store; nothing is stored if the kernel itself fails."""
    with np.load(source) as stored:
        pool = Pool(State(*(stored[name] for name in State._fields)), stored["level"], stored["level_start"])
    levels = np.diff(pool.level_start).tolist()
    prior = make_prior(finite, adaptive, levels, pool.state.base_strength.shape[1] > len(levels))
    concentrations = np.column_stack([pool.state.record_concentration, pool.state.shared_concentration])
    if (concentrations == concentrations[0]).all():
        # V is the copy's own: once for all replicates, it is slow without the compiler.
        first = Pool(State(*(field[:1] for field in pool.state)), pool.level[:1], pool.level_start)
        run_step("eppf", np.random.default_rng(0), prior, first)
        pool.state.eppf[:] = first.state.eppf
    try:
        run_step(step, np.random.default_rng(seed), prior, pool, times)
    except (ArithmeticError, AssertionError, LookupError, ValueError):
        traceback.print_exc()
        return
    np.savez(target, **pool.state._asdict())


def main() -> None:
    """Run the jobs, each a folder and the arguments of `move`."""
    for folder, *arguments in json.loads(Path(sys.argv[1]).read_text()):
        import_from(folder, "tests.statistical.planted_child").move(*arguments)


if __name__ == "__main__":
    main()
