"""Before a run: memory and time, and one line for what cannot fit."""

import subprocess
import sys

import numpy as np
import pytest

from keyhole.errors import InputError
from keyhole.kernels.partitions import make_partitions
from keyhole.kernels.state import Records
from keyhole.sampling import preflight as estimate
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


def test_classes_with_many_keys_lists_no_set_partitions():
    level = np.arange(40, dtype=np.int32).reshape(20, 2).T.copy()
    records = Records(level, np.full(2, 20), np.arange(0, 41, 2))
    problem = make_problem(records, np.arange(2), 10, make_settings(model="classes"), None)
    assert estimate.cell_bytes(problem) == 0
    assert estimate.estimate_memory(problem, make_settings(model="classes"), 100) < 1e9


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
        "import resource; from pathlib import Path; from keyhole.sampling import preflight\n"
        "used = int(Path('/proc/self/statm').read_text().split()[0]) * 4096\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 50_000_000,) * 2)\n"
        "print(preflight.free_memory())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 40_000_000 < int(done.stdout) <= 50_000_000


def test_free_memory_is_known_here():
    free = estimate.free_memory()
    assert free is None or free > 0


@pytest.mark.parametrize(("size", "told"), [(10, "1 MB"), (5e6, "5 MB"), (2.5e9, "2.5 GB")])
def test_sizes_in_words(size, told):
    assert estimate.describe_bytes(size) == told


MEASURE = """
import sys
from keyhole.cli import main
from keyhole.sampling.preflight import peak_memory
try:
    main()
finally:
    print("PEAK", peak_memory(), file=sys.stderr)
"""
"""What the system tells of a child's peak also covers the process that started it: the child must tell its own."""


def measure(folder, shape, *options):
    """Return the memory that `keyhole assess` tells of before it samples, and its peak; shape: n, J, categories."""
    n, variables, categories = shape
    rng = np.random.default_rng(1)
    group = rng.integers(0, 6, n)
    level = [rng.integers(0, 1 + (categories - 1) * (1 + (group + j) % 6) // 6) for j in range(variables)]
    names = [f"K{j}" for j in range(variables)]
    np.savetxt(folder / "file.csv", np.stack(level, 1), "%d", ",", header=",".join(names), comments="")
    command = ["assess", "file.csv", "--keys", ",".join(names), "--fraction", "0.05", "--workers", "2", *options]
    command += ["--target-ess", "1000000"]  # never enough: the run makes all the draws that it was told of
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *command], capture_output=True, text=True, check=False, cwd=folder
    )
    lines = dict(line.split(" ", 1) for line in done.stderr.splitlines() if line.startswith(("About", "PEAK")))
    assert done.returncode in (0, 3), done.stderr
    number, unit, *_ = lines["About"].replace(",", "").split()
    return float(number) * {"MB": 1e6, "GB": 1e9}[unit], int(lines["PEAK"])


SHAPES = [
    ((120, 4, 5), 400),
    ((1_000, 4, 100), 400),
    ((300, 14, 3), 16),
    ((2_000, 6, 4), 800),
    ((1_500, 6, 6), 3_000, "--chains", "8"),
    ((1_500, 6, 6), 800, "--model", "mixed"),
    ((5_000, 8, 6), 800),
    ((5_000, 8, 6), 100, "--scheduler", "threads", "--chains", "1"),
    ((30_000, 5, 6), 40),
    ((200_000, 8, 6), 16, "--chains", "2"),
    ((1_000_000, 10, 5), 16, "--chains", "2"),
]


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_memory_told_is_within_a_fifth_of_the_peak(shape, tmp_path):
    told, peak = measure(tmp_path, shape[0], "--max-sweeps", str(shape[1]), "--time-limit", "10m", *shape[2:])
    assert 0.8 < told / peak < 1.2


def test_the_memory_told_of_a_short_run_is_within_a_fifth_of_the_peak(tmp_path):
    told, peak = measure(tmp_path, (200, 4, 5), "--max-sweeps", "40", "--time-limit", "1m")
    assert 0.8 < told / peak < 1.2


def test_what_all_workers_share_is_not_counted_for_each():
    shared = make_partitions(6)
    assert estimate._bytes((shared, np.zeros(3))) == 24
    assert estimate.partition_bytes(6) == 2 * (shared.block.nbytes + shared.rest.nbytes)


def test_what_is_in_use_is_told_but_not_refused(monkeypatch):
    problem, settings = make_short_problem()
    added = estimate.estimate_memory(problem, settings, 8)
    monkeypatch.setattr(estimate, "used_memory", lambda: 10**10)
    monkeypatch.setattr(estimate, "free_memory", lambda: 2 * added + 10**8)
    estimate.check_memory(problem, settings)
    assert estimate.describe_estimate(problem, settings, 1e9, 1.0).startswith("About 10.")


def test_a_start_longer_than_the_time_limit_is_told():
    problem, settings = make_short_problem(time_limit=60)
    told = estimate.describe_estimate(problem, settings, 0.5, first_round=300.0, fewest=100.0)
    assert told.endswith("first verdict after about 60 s, the last after 60 s at the latest.")
    told = estimate.describe_estimate(problem, settings, 0.9, first_round=300.0, fewest=100.0)
    assert told.endswith("about 2 min, the last after 2 min at the latest: chains need that long to start.")
