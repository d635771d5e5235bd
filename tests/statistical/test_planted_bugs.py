"""Every planted bug is found by a test that the sampler as it is passes.

Copies run interpreted, in a process of their own: no compiler, no cache. The parent draws the states
that they start from and judges where they end.
"""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import keyhole
from keyhole.kernels.state import State
from tests.conftest import seed_from_name
from tests.exact.enumeration import chi_square_p, complete_states, encode_states
from tests.exact.test_posterior import FIXED, enumerated
from tests.statistical.comparison import LEVEL, STEPS, p_values
from tests.statistical.invariance import SETTINGS, draw_pool, stored_measures
from tests.statistical.planted import BUGS, Bug, Probe
from tests.statistical.planted_child import CRASHED
from tests.statistical.prior_pool import Pool
from tests.statistical.quantities import measure_pool

ROOT = Path(__file__).parents[2]


@cache
def draw_starts(probe: Probe):
    """The prior, and states for this probe to start from: never moved in this process."""
    seed = seed_from_name(f"planted {probe}")
    if probe.kind == "invariance":
        setting = SETTINGS[probe.case]
        return setting.prior, draw_pool(setting, probe.replicates, seed)
    rng = np.random.default_rng(seed)
    found = enumerated(FIXED[probe.case])
    chosen = rng.choice(len(found.code), size=probe.replicates, p=found.probability)
    state = State(*(field[chosen] for field in found.pool.state))
    pool = Pool(state, found.pool.level[chosen], found.pool.level_start)
    complete_states(rng, found.case.prior, pool)
    return found.case.prior, pool


def judge(probe: Probe, pool: Pool) -> float:
    """The p-value of the states at the end, corrected for the number of quantities."""
    if probe.kind == "invariance":
        setting = SETTINGS[probe.case]
        values = p_values(measure_pool(setting.prior, pool), stored_measures(setting, probe.replicates, "reference"))
        return float(min(1.0, values.min() * len(values)))
    found = enumerated(FIXED[probe.case])
    order = np.argsort(found.code)
    code = encode_states(pool)
    place = order[np.searchsorted(found.code[order], code).clip(max=len(order) - 1)]
    if not np.array_equal(found.code[place], code):
        return 0.0
    observed = np.bincount(place, minlength=len(order))
    return chi_square_p(observed, found.probability * probe.replicates)


def run_copy(folder: Path, probe: Probe) -> float:
    """Run the probe on the copy of keyhole in this folder; return its p-value, 0 after a crash."""
    prior, pool = draw_starts(probe)
    source, target = folder / "in.npz", folder / "out.npz"
    np.savez(source, **pool.state._asdict(), level=pool.level, level_start=pool.level_start)
    arguments = [folder, source, target, probe.step, probe.times, seed_from_name(str(probe)) % 2**62]
    arguments += [int(prior.finite), int(prior.adaptive)]
    private = {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(folder), "KEYHOLE_CACHE": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, "-m", "tests.statistical.planted_child", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, **private},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == CRASHED:
        return 0.0
    assert done.returncode == 0, done.stderr
    with np.load(target) as stored:
        moved = Pool(State(*(stored[name] for name in State._fields)), pool.level, pool.level_start)
    with np.errstate(all="ignore"):
        return judge(probe, moved)


def copy_package(folder: Path, bug: Bug | None) -> None:
    """Copy keyhole and plant the bug."""
    source = Path(keyhole.__file__).parent
    shutil.copytree(source, folder / "keyhole", ignore=shutil.ignore_patterns("__pycache__"))
    if bug is not None:
        path = folder / "keyhole" / "kernels" / bug.file
        text = path.read_text()
        assert text.count(bug.old) == 1, f"'{bug.name}' no longer fits {bug.file}: bring it up to date"
        path.write_text(text.replace(bug.old, bug.new))


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_planted_bug_is_found(tmp_path, bug):
    copy_package(tmp_path, bug)
    assert run_copy(tmp_path, bug.probe) < LEVEL / STEPS


@pytest.mark.parametrize("probe", sorted({bug.probe for bug in BUGS}, key=str), ids=str)
def test_copy_without_a_bug_passes(tmp_path, probe):
    copy_package(tmp_path, None)
    assert run_copy(tmp_path, probe) > LEVEL / STEPS
