"""Every bug planted in the kernels for structural zeros is found by a probe that the sampler as it is passes.

All copies run interpreted, in one process of their own: to compile each would take minutes.
"""

import dataclasses
from pathlib import Path

import pytest

from tests.conftest import seed_from_name
from tests.statistical.comparison import LEVEL, STEPS
from tests.statistical.planted import Bug
from tests.statistical.planted_zeros import ZEROS_BUGS
from tests.statistical.test_planted_bugs import copy_package, probes_of, run_child


def plant(folder: Path, bugs: tuple[Bug, ...]) -> dict[str, float]:
    """The p-value of every bug by name, and of every probe on the copy without a bug."""
    jobs = []
    for bug in (None, *bugs):
        copy = folder / (bug.file + str(len(jobs)) if bug else "unpatched")
        copy_package(copy, bug)
        for probe in probes_of(bugs) if bug is None else [bug.probe]:
            name = bug.name if bug else str(probe)
            jobs.append([name, str(copy), dataclasses.asdict(probe), seed_from_name(f"zeros {probe}") % 2**62])
    return {name: value for name, (value, _) in run_child("planted_zeros_child", folder, jobs).items()}


@pytest.fixture(scope="module")
def p_value(tmp_path_factory):
    """p-values by name."""
    return plant(tmp_path_factory.mktemp("zeros"), ZEROS_BUGS)


@pytest.mark.parametrize("bug", ZEROS_BUGS, ids=lambda bug: bug.name)
def test_planted_bug_is_found(p_value, bug):
    assert p_value[bug.name] < LEVEL / STEPS


@pytest.mark.parametrize("probe", probes_of(ZEROS_BUGS), ids=str)
def test_copy_without_a_bug_passes(p_value, probe):
    assert p_value[str(probe)] > LEVEL / STEPS
