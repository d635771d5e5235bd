"""Before a run: memory and time, and one line for what cannot fit."""

import json
import subprocess
import sys

import numpy as np
import pytest

from keyhole.errors import InputError
from keyhole.kernels.state import Records
from keyhole.sampling import estimate
from keyhole.sampling.chain import start_chain
from keyhole.sampling.problem import make_problem
from keyhole.settings import make_settings
from tests.unit.short_runs import make_data, make_short_problem, run


def test_sizes_are_those_of_the_arrays():
    problem, _ = make_short_problem()
    chain = start_chain(0, 5, np.random.SeedSequence(1), problem)
    state, work = estimate.sizes(problem)
    assert state == sum(array.nbytes for array in chain.state)
    assert work >= estimate._bytes(chain.work)


def test_what_cannot_fit_is_refused_before_anything_is_allocated(monkeypatch):
    monkeypatch.setattr(estimate, "free_memory", lambda: 1_000)
    with pytest.raises(InputError, match=r"at least .* MB of memory, and 1 MB are free") as caught:
        run()
    assert "\n" not in str(caught.value)


def test_a_variable_with_a_million_categories_is_refused(monkeypatch):
    records, uniques, population = make_data()
    start = np.array([0, 1_000_000, 1_000_004, 1_000_006])
    wide = Records(records.level, records.answer_total, start)
    settings = make_settings()
    # 520 profiles, in four tables of eight bytes, for four chains and two workers: tens of gigabytes.
    problem = make_problem(wide, uniques, population, settings, None)
    monkeypatch.setattr(estimate, "free_memory", lambda: 16 * 10**9)
    with pytest.raises(InputError, match="group categories"):
        estimate.check_memory(problem, settings)


def test_a_limit_on_the_process_counts():
    code = (
        "import resource; from pathlib import Path; from keyhole.sampling import estimate\n"
        "used = int(Path('/proc/self/statm').read_text().split()[0]) * 4096\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 50_000_000,) * 2)\n"
        "print(estimate.free_memory())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 40_000_000 < int(done.stdout) <= 50_000_000


def test_free_memory_is_known_here():
    free = estimate.free_memory()
    assert free is None or free > 0


@pytest.mark.parametrize(
    ("seconds", "told"), [(0.1, "1 s"), (45, "45 s"), (600, "10 min"), (7200, "2.0 h"), (5999, "100 min")]
)
def test_durations_in_words(seconds, told):
    assert estimate.tell_seconds(seconds) == told


@pytest.mark.parametrize(("size", "told"), [(10, "1 MB"), (5e6, "5 MB"), (2.5e9, "2.5 GB")])
def test_sizes_in_words(size, told):
    assert estimate.tell_bytes(size) == told


MEASURE = """
import json, sys
from pathlib import Path
import numpy as np
from benchmarks.machine import peak_megabytes
from keyhole.kernels.state import Records
from keyhole.sampling import run_chains, diagnose
from keyhole.sampling.estimate import estimate_memory
from keyhole.sampling.problem import make_problem
from keyhole.sampling.warm_up import warm_up
from keyhole.settings import make_settings
from keyhole.risk import summarise_risk
n, variables, categories, chains, draws = json.loads(sys.argv[1])
level = np.random.default_rng(1).integers(0, categories, (n, variables)) + np.arange(variables) * categories
records = Records(level.astype(np.int32), np.full(n, variables), np.arange(variables + 1) * categories)
_, index, count = np.unique(level, axis=0, return_index=True, return_counts=True)
data = (records, np.sort(index[count == 1]), 10 * n)
limits = {"chains": chains, "workers": 2, "time_limit": "10h", "target_ess": 1_000_000}
problem = make_problem(*data, make_settings(**limits), None)
settings = make_settings(**limits, max_sweeps=draws * problem.spacing)
warm_up()
before = int(Path("/proc/self/statm").read_text().split()[1]) * 4096
expected = estimate_memory(problem, settings, draws)
trace = run_chains(*data, settings)
summarise_risk(trace, True)
diagnose(trace)
print(expected / (2**20 * peak_megabytes() - before))
"""
SHAPES = [
    (120, 4, 5, 4, 40),
    (300, 5, 300, 4, 8),
    (2_000, 6, 4, 4, 200),
    (1_500, 6, 6, 8, 300),
    (5_000, 8, 3, 4, 100),
    (30_000, 5, 6, 4, 10),
    (200_000, 8, 4, 2, 8),
    (1_000_000, 10, 3, 2, 8),
]


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_estimate_is_within_a_fifth_of_the_growth(shape):
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, json.dumps(shape)], capture_output=True, text=True, check=True
    )
    assert 0.8 < float(done.stdout) < 1.2
