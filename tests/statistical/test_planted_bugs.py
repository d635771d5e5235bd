"""Every planted bug is found by a test that the sampler as it is passes.

All copies run interpreted, in one process of their own: no compiler, no cache. The parent draws the states
that they start from and judges where they end.
"""

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import keyhole
from keyhole.kernels.state import State
from tests.conftest import seed_from_name
from tests.exact.enumeration import chi_square_p, complete_states, encode_states
from tests.exact.test_posterior import FIXED, enumerated
from tests.statistical.comparison import LEVEL, STEPS, p_values
from tests.statistical.invariance import SETTINGS, draw_pool, stored_measures
from tests.statistical.planted import BUGS, Bug, Probe, mark_long
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
        # A quantity that is no number any more is a bug that was found.
        return float(min(1.0, np.nan_to_num(values, nan=0.0).min() * len(values)))
    found = enumerated(FIXED[probe.case])
    order = np.argsort(found.code)
    code = encode_states(pool)
    place = order[np.searchsorted(found.code[order], code).clip(max=len(order) - 1)]
    if not np.array_equal(found.code[place], code):
        return 0.0
    observed = np.bincount(place, minlength=len(order))
    return chi_square_p(observed, found.probability * probe.replicates)


def copy_package(folder: Path, bug: Bug | None) -> None:
    """Copy keyhole and plant the bug."""
    source = Path(keyhole.__file__).parent
    shutil.copytree(source, folder / "keyhole", ignore=shutil.ignore_patterns("__pycache__"))
    if bug is not None:
        path = folder / "keyhole" / "kernels" / bug.file
        text = path.read_text()
        assert text.count(bug.old) == 1, f"'{bug.name}' no longer fits {bug.file}: bring it up to date"
        path.write_text(text.replace(bug.old, bug.new))


def run_child(module: str, folder: Path, jobs: Any) -> dict[str, Any]:
    """Run a module interpreted, in a process of its own; return the results that it wrote, if any."""
    source, target = folder / "jobs.json", folder / "results.json"
    source.write_text(json.dumps(jobs))
    private = {"NUMBA_DISABLE_JIT": "1", "KEYHOLE_CACHE": str(folder / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", f"tests.statistical.{module}", str(source), str(target)],
        cwd=ROOT,
        env={**os.environ, **private},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(target.read_text())) if target.exists() else {}


def probes_of(bugs: tuple[Bug, ...]) -> list[Probe]:
    """The probes that look for these bugs."""
    return sorted({bug.probe for bug in bugs}, key=str)


def plant(folder: Path, bugs: tuple[Bug, ...]) -> dict[str, float]:
    """The p-value of every bug by name and of every probe on the copy without a bug; 0 after a crash."""
    jobs, found = [], {}
    for number, probe in enumerate(probes_of(bugs)):
        prior, pool = draw_starts(probe)
        np.savez(folder / f"{number}.npz", **pool.state._asdict(), level=pool.level, level_start=pool.level_start)
        for bug in (None, *(bug for bug in bugs if bug.probe == probe)):
            copy = folder / f"copy{len(jobs)}"
            copy_package(copy, bug)
            target = copy / "out.npz"
            found[bug.name if bug else str(probe)] = probe, target
            seed = seed_from_name(str(probe)) % 2**62
            start = str(folder / f"{number}.npz")
            jobs.append(
                [str(copy), start, str(target), probe.step, probe.times, seed, bool(prior.finite), bool(prior.adaptive)]
            )
    run_child("planted_child", folder, jobs)
    return {name: judge_file(*where) for name, where in found.items()}


@pytest.fixture(scope="module")
def p_value(tmp_path_factory):
    """p-values by name, of the bugs of long probes or of the others."""

    @cache
    def find(long: bool) -> dict[str, float]:
        return plant(tmp_path_factory.mktemp("planted"), tuple(bug for bug in BUGS if bug.probe.long == long))

    return find


def judge_file(probe: Probe, path: Path) -> float:
    """The p-value of the states that a copy left, 0 if it left none."""
    if not path.exists():
        return 0.0
    _, start = draw_starts(probe)
    with np.load(path) as stored:
        moved = Pool(State(*(stored[name] for name in State._fields)), start.level, start.level_start)
    with np.errstate(all="ignore"):
        return judge(probe, moved)


@pytest.mark.parametrize("bug", mark_long(BUGS), ids=lambda bug: bug.name)
def test_planted_bug_is_found(p_value, bug):
    assert p_value(bug.probe.long)[bug.name] < LEVEL / STEPS


@pytest.mark.parametrize("probe", mark_long(probes_of(BUGS)), ids=str)
def test_copy_without_a_bug_passes(p_value, probe):
    assert p_value(probe.long)[str(probe)] > LEVEL / STEPS
