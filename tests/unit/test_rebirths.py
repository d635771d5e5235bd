"""Equal records share their weights in rebirths.py: that saves time, and changes no bit."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from keyhole.kernels import rebirths

ROOT = Path(__file__).parents[2]
SOURCE = Path(rebirths.__file__).read_text()
RESET = "            if accepted:\n                weighed = -1\n"
EQUAL = "        if level[i, j] != level[other, j]:\n            return False\n"

RUN = """
import sys
import numpy as np
from keyhole.kernels import rebirths
exec(compile(sys.argv[1], rebirths.__file__, "exec"), vars(rebirths))
from keyhole.kernels import balance
balance.draw_rebirths = rebirths.draw_rebirths
from keyhole.kernels.sweep import run_sweeps
from keyhole.sampling.start import start_state
from tests.unit.kernel_digest import digest
from tests.unit.test_starts import pose
problem = pose()
rng = np.random.default_rng(3)
state, work = start_state(rng, problem.records, problem.prior, 5, capacity=2000)
assert run_sweeps(rng, problem.records, problem.prior, state, work, 40) == 40
print(digest(rng, state))
"""


def find_digest(source):
    """Make some sweeps, interpreted, with this source of rebirths.py."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, source],
        cwd=ROOT,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def expected():
    return find_digest(SOURCE)


def test_weighing_every_record_changes_nothing(expected):
    assert SOURCE.count(EQUAL) == 1
    assert find_digest(SOURCE.replace(EQUAL, "        return False\n")) == expected


def test_weights_kept_when_a_profile_comes_or_goes_are_noticed(expected):
    assert SOURCE.count(RESET) == 1
    assert find_digest(SOURCE.replace(RESET, "")) != expected
