"""Nanoseconds per answer of seats and labels at 20 profiles, and how they grow with the number of records."""

import json
import subprocess
import sys
from itertools import count
from typing import Any

import numpy as np

from benchmarks.clock import Stopwatch
from benchmarks.machine import ROOT, peak_megabytes
from benchmarks.plain import time_plain_sweep
from benchmarks.samples import ADULT_LEVELS, TEN_LEVELS, simulate_records
from benchmarks.steps import Watches, make_timed_sweeps, run_one
from keyhole.data import count_cells
from keyhole.kernels.concentrations import fill_eppf
from keyhole.sampling.chain import Chain, advance, start_chain
from keyhole.sampling.problem import Problem, make_problem
from keyhole.settings import Settings

SETTLING = 30
"""Sweeps before the clock starts: with the concentration held, seats settle within these."""

CONCENTRATION = 2.0
"""Held here, at the article's prior mean: the cost of an answer grows with the tables of its record, and
left free these were still growing after 1,000 sweeps."""


def measure(seconds: float, quick: bool, large: bool = False) -> list[dict[str, Any]]:
    """Measure 10,000 records and more, the largest in a process of its own for its peak memory."""
    sizes = [(10_000, ADULT_LEVELS), (10_000, TEN_LEVELS)]
    if not quick:
        sizes += [(100_000, ADULT_LEVELS), (100_000, TEN_LEVELS)]
    rows = [measure_answers(n, levels, seconds) for n, levels in sizes]
    if large:
        rows.append(measure_large(1_000_000))
    for row in rows:
        peak = f"  peak {row['peak_megabytes']:.0f} MB" if "peak_megabytes" in row else ""
        ratio = f"  {row['ratio_to_plain']:.0f} times the plain speed" if "ratio_to_plain" in row else ""
        print(
            f"  n = {row['records']:9,d}  J = {row['variables']:2d}"
            f"  {row['nanoseconds_per_answer']:6.1f} ns per answer at {row['tables_per_record']:.1f} tables a record"
            f"  (whole sweep {row['nanoseconds_per_answer_whole_sweep']:.1f}){ratio}{peak}",
            flush=True,
        )
    return rows


def measure_answers(n: int, levels: list[int], seconds: float, plain: bool = True) -> dict[str, Any]:
    """Time seats and labels, and the whole sweep, on simulated records under `mixed` with 20 profiles."""
    records = simulate_records(n, levels)
    settings = Settings(model="mixed", profiles=20, prior="paper")
    problem = make_problem(records, np.zeros(0, np.int64), 10 * n, settings, None)
    chain = start_chain(0, 20, np.random.SeedSequence(4), problem)
    settling = make_timed_sweeps({})
    for _ in range(SETTLING):
        hold_concentration(chain, problem)
        run_one(chain, problem, settling)
    watches: Watches = {}
    timed = make_timed_sweeps(watches)
    for sweeps in count():
        if sweeps >= 3 and sum(watch.wall for watch in watches.values()) >= seconds:
            break
        hold_concentration(chain, problem)
        run_one(chain, problem, timed)
    scale = 1e9 / (n * len(levels))
    parts = (watches["draw_seats"], watches["draw_labels"])
    row = {
        "records": n,
        "variables": len(levels),
        "profiles": 20,
        "concentration": CONCENTRATION,
        "profiles_in_use": int(np.count_nonzero(chain.state.profile_tables[:20])),
        "tables_per_record": float(chain.state.table_total.mean()),
        "sweeps": sweeps,
        "nanoseconds_per_answer": scale * sum(watch.median for watch in parts),
        "nanoseconds_per_answer_best": scale * sum(watch.best for watch in parts),
        "nanoseconds_per_answer_whole_sweep": scale * sum(watch.median for watch in watches.values()),
    }
    if plain and n <= 10_000:
        whole = time_plain_sweep(records, problem.prior, chain.state)
        row["plain_nanoseconds_per_answer_whole_sweep"] = 1e9 * whole / (n * len(levels))
        row["ratio_to_plain"] = (
            row["plain_nanoseconds_per_answer_whole_sweep"] / row["nanoseconds_per_answer_whole_sweep"]
        )
    return row


def hold_concentration(chain: Chain, problem: Problem) -> None:
    """Put the concentration back, and V with it."""
    chain.state.shared_concentration[0] = CONCENTRATION
    fill_eppf(chain.rng, problem.records, problem.prior, chain.state, chain.work)


def measure_large(n: int) -> dict[str, Any]:
    """Measure n records of ten variables in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.answers", str(n)]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    row: dict[str, Any] = json.loads(told.stdout)
    return row


def run_large(n: int) -> dict[str, Any]:
    """Time the sweeps of n records, then make one draw with its risks as a user's run does."""
    row = measure_answers(n, TEN_LEVELS, 5.0, plain=False)
    records = simulate_records(n, TEN_LEVELS)
    unique = count_cells(records.level).unique_record
    problem = make_problem(records, unique, 10 * n, Settings(), None)
    chain = start_chain(0, 20, np.random.SeedSequence(5), problem)
    watch = Stopwatch()
    watch.time(lambda: advance(chain, problem))
    return {
        **row,
        "uniques": len(unique),
        "seconds_of_first_draw": watch.cpu,
        "sweeps_of_first_draw": problem.thin,
        "peak_megabytes": peak_megabytes(),
    }


if __name__ == "__main__":
    print(json.dumps(run_large(int(sys.argv[1]))))
