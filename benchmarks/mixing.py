"""Sweeps and effective draws of tau1 per second: one chain, one core, warm, risk evaluation included."""

from typing import Any

import numpy as np

from benchmarks.clock import Stopwatch
from benchmarks.plain import time_plain_sweep
from benchmarks.samples import Sample, list_samples, pose
from benchmarks.steps import run_one
from keyhole.kernels.sweep import run_sweeps
from keyhole.risk.diagnosis import effective_draws
from keyhole.sampling.chain import Chain, advance, start_chain
from keyhole.sampling.problem import Problem

START = 20
"""Profiles at the start, as in a user's third chain."""

FEWEST = 50
"""Draws below which an effective number would say nothing."""


def measure(seconds: float, quick: bool, files: list[str] | None = None) -> list[dict[str, Any]]:
    """Measure every file, or those chosen, under both priors."""
    rows = []
    for sample in list_samples(quick, files):
        for prior in ("paper", "adaptive"):
            problem = pose(sample, prior)
            if problem is None:
                continue
            row = measure_sample(sample, prior, problem, seconds)
            rows.append(row)
            print(
                f"  {sample.name:19s} {prior:8s} {row['sweeps_per_second']:8.1f} sweeps/s"
                f"  tau1 {row['effective_per_second']['tau1']:6.2f}/s"
                f"  tau1_expected {row['effective_per_second']['tau1_expected']:6.2f}/s"
                f"  profiles {row['profiles']:5.1f}  draws {row['draws']}",
                flush=True,
            )
    return rows


def measure_sample(sample: Sample, prior: str, problem: Problem, seconds: float) -> dict[str, Any]:
    """Run one chain, as long to settle as is then measured."""
    chain = start_chain(0, START, np.random.SeedSequence(1), problem)
    settling = run_for(chain, problem, seconds, 2)
    first = chain.draws
    watch = run_for(chain, problem, seconds, FEWEST)
    draws = chain.quantities[first:]
    effective = {
        name: effective_draws(np.array([[draw[name] for draw in draws]]), "bulk") for name in ("tau1", "tau1_expected")
    }
    sweeps = len(draws) * problem.thin
    sweep = time_sweeps(chain, problem, seconds / 4)
    row = {
        "file": sample.name,
        "prior": prior,
        "records": len(sample.records.level),
        "variables": sample.records.level.shape[1],
        "uniques": len(sample.unique_record),
        "estimator": problem.estimator,
        "sweeps_per_second": 1.0 / sweep,
        "sweeps_per_second_with_risk": sweeps / watch.cpu,
        "effective_draws": effective,
        "effective_per_second": {name: value / watch.cpu for name, value in effective.items()},
        "effective_per_wall_second": {name: value / watch.wall for name, value in effective.items()},
        "profiles": float(np.mean([draw["profiles"] for draw in draws])),
        "tau1_mean": float(np.mean([draw["tau1"] for draw in draws])),
        "draws": len(draws),
        "sweeps": sweeps,
        "spacing": problem.thin,
        "share_of_risk": max(1.0 - sweeps * sweep / watch.cpu, 0.0),
        "settling_draws": first,
        "settling_cpu_seconds": settling.cpu,
        "cpu_seconds": watch.cpu,
        "wall_seconds": watch.wall,
    }
    if sample.zeros is None:
        plain = time_plain_sweep(problem.records, problem.prior, chain.state)
        row["plain_sweeps_per_second"] = 1.0 / plain
        row["ratio_to_plain"] = row["sweeps_per_second"] * plain
    return row


def run_for(chain: Chain, problem: Problem, seconds: float, fewest: int) -> Stopwatch:
    """Advance until this many processor seconds have passed, and for at least some draws."""
    watch = Stopwatch()
    first = chain.draws
    while watch.cpu < seconds or chain.draws - first < fewest:
        watch.time(lambda: advance(chain, problem))
    return watch


def time_sweeps(chain: Chain, problem: Problem, seconds: float) -> float:
    """Return the processor seconds of one sweep without risk, from where the chain stands."""
    watch = Stopwatch()
    while watch.cpu < seconds or len(watch.laps) < 5:
        watch.time(lambda: run_one(chain, problem, run_sweeps))
    return watch.cpu / len(watch.laps)
