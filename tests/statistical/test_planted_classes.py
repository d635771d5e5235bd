"""Every bug planted in `classes` is found by a probe that the sampler as it is passes.

All copies run interpreted, in one process of their own: to compile each would take minutes.
"""

from functools import cache
from pathlib import Path

import pytest

from tests.conftest import seed_from_name
from tests.statistical.comparison import LEVEL, STEPS
from tests.statistical.planted import Bug, mark_long
from tests.statistical.planted_classes import CLASSES_BUGS
from tests.statistical.test_planted_bugs import copy_package, probes_of, run_child

ENOUGH = LEVEL / STEPS


def plant(folder: Path, bugs: tuple[Bug, ...]) -> dict[str, float]:
    """The p-value of every bug by name, and of every probe on the copy without a bug."""
    jobs = []
    for bug in (None, *bugs):
        copy = folder / f"copy{len(jobs)}"
        copy_package(copy, bug)
        for probe in probes_of(bugs) if bug is None else [bug.probe]:
            name = bug.name if bug else str(probe)
            jobs.append(
                [
                    name,
                    str(copy),
                    [probe.case, probe.step, probe.replicates],
                    seed_from_name(f"classes {probe}") % 2**62,
                ]
            )
    return {name: value for name, (value, _) in run_child("planted_classes_child", folder, [jobs, ENOUGH]).items()}


@pytest.fixture(scope="module")
def p_value(tmp_path_factory):
    """p-values by name, of the bugs of long probes or of the others."""

    @cache
    def find(long: bool) -> dict[str, float]:
        return plant(tmp_path_factory.mktemp("classes"), tuple(bug for bug in CLASSES_BUGS if bug.probe.long == long))

    return find


@pytest.mark.parametrize("bug", mark_long(CLASSES_BUGS), ids=lambda bug: bug.name)
def test_planted_bug_is_found(p_value, bug):
    assert p_value(bug.probe.long)[bug.name] < ENOUGH


@pytest.mark.parametrize("probe", mark_long(probes_of(CLASSES_BUGS)), ids=str)
def test_copy_without_a_bug_passes(p_value, probe):
    assert p_value(probe.long)[str(probe)] > ENOUGH
