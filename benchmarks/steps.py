"""The kernels of one sweep, called by name: milliseconds of each."""

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from benchmarks.clock import Stopwatch
from benchmarks.samples import pose, read_sample
from keyhole.kernels import sweep
from keyhole.kernels.weights import draw_weight_concentration
from keyhole.kernels.work import GROW, OK
from keyhole.sampling.chain import Chain, advance, start_chain
from keyhole.sampling.problem import Problem

Watches = dict[str, Stopwatch]


def make_timed_sweeps(watches: Watches) -> Callable[..., int]:
    """Return run_sweeps with each kernel of the sweep on a stopwatch of its own.

    It is the sweep's own code, interpreted, its kernels compiled: whatever a sweep does in whatever order,
    so does this. Stopwatches are added to `watches` under the kernels' names.
    """

    def put_on_watch(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            watch = watches.setdefault(name, Stopwatch())
            watch.start()
            result = kernel(*arguments)
            watch.stop()
            return result

        return run

    names = dict(vars(sweep))
    for name, found in vars(sweep).items():
        if hasattr(found, "py_func"):
            names[name] = put_on_watch(name, found)
    names["run_sweep"] = FunctionType(sweep.run_sweep.py_func.__code__, names)
    return FunctionType(sweep.run_sweeps.__code__, names)


def run_one(chain: Chain, problem: Problem, run_sweeps: Callable[..., int]) -> None:
    """Make one sweep; where there is no room for profiles, first a draw as usual, which makes room."""
    for _ in range(2):
        run_sweeps(chain.rng, problem.records, problem.prior, chain.state, chain.work, 1)
        if chain.work.status[0] != GROW:
            break
        advance(chain, problem)
    if chain.work.status[0] != OK:
        raise RuntimeError(f"a sweep ended with status {chain.work.status[0]}")


def measure(seconds: float, quick: bool) -> list[dict[str, Any]]:
    """Measure New York's adults, and everybody with rules, under both priors."""
    rows = []
    wanted = [("ny_adults", 1000 if quick else 5000, False), ("ny_full", 1000 if quick else 10000, True)]
    for stem, n, rules in wanted:
        for sample in read_sample(stem, n, rules):
            for prior in ("paper", "adaptive"):
                problem = pose(sample, prior)
                if problem is None:
                    continue
                row = {"file": sample.name, "prior": prior, **time_kernels(problem, seconds)}
                rows.append(row)
                print_row(row)
    return rows


def time_kernels(problem: Problem, seconds: float) -> dict[str, Any]:
    """Settle a chain, then time each kernel of its sweeps."""
    chain = start_chain(0, 20, np.random.SeedSequence(2), problem)
    settling = Stopwatch()
    while settling.cpu < seconds / 2:
        settling.time(lambda: advance(chain, problem))
    run_one(chain, problem, make_timed_sweeps({}))  # each kernel's machine code is loaded
    watches: Watches = {}
    timed = make_timed_sweeps(watches)
    profiles: list[int] = []
    while sum(watch.wall for watch in watches.values()) < seconds or not profiles:
        run_one(chain, problem, timed)
        profiles.append(int(chain.state.profile_total[0]))
    sweeps = len(profiles)
    milliseconds = {name: 1e3 * watch.cpu / sweeps for name, watch in watches.items()}
    return {
        "milliseconds": milliseconds,
        "milliseconds_in_all": sum(milliseconds.values()),
        "milliseconds_of_a_call": 1e3 * time_empty_call(problem),
        "profiles": float(np.mean(profiles)),
        "sweeps": sweeps,
    }


def time_empty_call(problem: Problem) -> float:
    """Return the seconds to hand a kernel its arguments: `mixed` has no gamma, its kernel returns at once."""
    prior = problem.prior._replace(finite=True)
    chain = start_chain(0, 1, np.random.SeedSequence(3), problem)
    watch = Stopwatch()
    watch.start()
    for _ in range(1000):
        draw_weight_concentration(chain.rng, problem.records, prior, chain.state, chain.work)
    watch.stop()
    return watch.cpu / 1000


def print_row(row: dict[str, Any]) -> None:
    """Print one file's kernels."""
    print(
        f"  {row['file']} {row['prior']}: {row['milliseconds_in_all']:.2f} ms a sweep,"
        f" {row['profiles']:.0f} profiles, {1e3 * row['milliseconds_of_a_call']:.0f} microseconds a call"
    )
    for name, value in row["milliseconds"].items():
        print(f"    {name:28s} {value:8.3f} ms", flush=True)
