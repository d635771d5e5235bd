"""The model `classes`: seconds to the verdict, and what a sweep of a million records costs."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.clock import Stopwatch
from benchmarks.machine import load_average, peak_megabytes
from benchmarks.samples import Sample, encode_codes, read_sample
from keyhole.data import count_cells
from keyhole.kernels.classes import Cells
from keyhole.sampling import Event, Progress, run_chains
from keyhole.sampling.chain import Chain, make_draw, run_one_sweep, start_chain
from keyhole.sampling.precompile import precompile
from keyhole.sampling.problem import Problem, make_problem
from keyhole.settings import make_settings

SIZES = (2, 100, 50, 6, 12, 30, 5, 8, 4, 20)
"""Categories of the large file's keys."""

FILES = [("ny_adults", 1000, False), ("ny_adults", 5000, False), ("ny_full", 1000, True), ("ny_full", 10000, True)]
SEEDS = (1, 2, 3)
CORES = 2
CLOSE = 1.03
"""Ratio of the largest to the smallest tau1 of any chain at which chains count as close."""


class CloseError(Exception):
    """The chains are close enough."""


@dataclass
class Watch:
    """Notes the seconds to the first figure and, if asked to, ends the run when all chains are close."""

    ends: bool = False
    started: float = field(default_factory=time.perf_counter)
    first: float = float("nan")
    tau1: dict[int, float] = field(default_factory=dict)

    def __call__(self, event: Event) -> None:
        """Look at an event."""
        if isinstance(event, Progress) and np.isfinite(event.tau1):
            if not self.tau1:
                self.first = time.perf_counter() - self.started
            self.tau1[event.chain] = event.tau1
            if self.ends and len(self.tau1) == event.chains and event.round > 1 and self.apart <= CLOSE:
                raise CloseError

    @property
    def apart(self) -> float:
        """Ratio of the largest to the smallest tau1 of any chain."""
        return max(self.tau1.values()) / min(self.tau1.values())


def draw_mixture(
    records: int, sizes: tuple[int, ...], profiles: int, spread: float, seed: int = 1
) -> NDArray[np.int32]:
    """Return the codes of records drawn from this many profiles, whose rows are Dirichlet(spread)."""
    rng = np.random.default_rng(seed)
    weight = rng.dirichlet(np.ones(profiles))
    rows = [[rng.dirichlet(np.full(size, spread)) for size in sizes] for _ in range(profiles)]
    label = np.sort(rng.choice(profiles, records, p=weight))
    code = np.empty((records, len(sizes)), np.int32)
    for k in range(profiles):
        mine = label == k
        for j, size in enumerate(sizes):
            code[mine, j] = rng.choice(size, mine.sum(), p=rows[k][j])
    return code


def make_sample(name: str, code: NDArray[np.int32], sizes: tuple[int, ...], fraction: float) -> Sample:
    """Return a file of these codes, a sample of this fraction."""
    unique = count_cells(code).unique_record
    return Sample(name, encode_codes(code, list(sizes)), unique, int(len(code) / fraction))


def time_verdict(sample: Sample, seed: int, limit: str = "10m", until_close: bool = False) -> dict[str, Any]:
    """Run all chains to the verdict, or until they are close; compilation and start-up are not counted."""
    settings = make_settings(model="classes", seed=seed, time_limit=limit, workers=CORES)
    watch, cpu = Watch(until_close), time.process_time()
    found: dict[str, Any] = {}
    try:
        trace = run_chains(
            sample.records, sample.unique_record, sample.population, settings, sample.zeros, on_progress=watch
        )
    except CloseError:
        found = {"stopped": "close"}
    else:
        found = {"stopped": trace.stopped, "sweeps": trace.sweeps, "tau1": float(trace.quantities["tau1"].mean())}
    return {
        "file": sample.name,
        "seed": seed,
        "seconds": time.perf_counter() - watch.started,
        "cpu_seconds": time.process_time() - cpu,
        "first_figure": watch.first,
        "chains_apart": watch.apart,
        "load": load_average(),
        **found,
    }


def list_small(quick: bool) -> Iterator[Sample]:
    """Yield the files at hand whose verdict is timed, and one with twenty keys."""
    for stem, n, rules in FILES[:1] if quick else FILES:
        yield from read_sample(stem, n, rules)
    sizes = (2, 3, 4, 5, 6) * 4
    yield make_sample("twenty_keys_5000", draw_mixture(5000, sizes, 10, 0.5, seed=3), sizes, 0.005)


def time_sweeps(problem: Problem, chain: Chain, seconds: float) -> dict[str, float]:
    """Return milliseconds of a sweep and of a draw, of one core."""
    sweeps, draws = Stopwatch(), Stopwatch()
    while sweeps.cpu < seconds or not draws.laps:
        for _ in range(5):
            sweeps.time(lambda: run_one_sweep(chain, problem))
        draws.time(lambda: make_draw(chain, problem))
    return {"sweep": 1e3 * sweeps.median, "draw": 1e3 * draws.median, "profiles": len(chain.state.tally.records)}


def measure_large(seconds: float) -> list[dict[str, Any]]:
    """Measure a million records of sixty profiles, and ten times as many with the same distinct cells."""
    sample = make_sample("large_1000000", draw_mixture(1_000_000, SIZES, 60, 0.03), SIZES, 0.1)
    problem = make_problem(
        sample.records, sample.unique_record, sample.population, make_settings(model="classes"), None
    )
    rows = []
    for times in (1, 10):
        size = problem.distinct.size
        if times > 1:
            records = int(size.sum())
            more = np.random.default_rng(1).multinomial((times - 1) * records, size / records)
            object.__setattr__(problem, "distinct", Cells(problem.distinct.level, size + more, SIZES_START))
        chain = start_chain(0, 200, np.random.SeedSequence(1), problem)
        row = {"records": int(problem.distinct.size.sum()), "cells": len(size), "uniques": len(problem.cell_level)}
        rows.append({**row, "milliseconds": time_sweeps(problem, chain, seconds)})
    rows[0] |= {"until_close": time_verdict(sample, 1, until_close=True), "peak_megabytes": peak_megabytes()}
    return rows


SIZES_START = np.concatenate([[0], np.cumsum(SIZES)]).astype(np.int64)


def measure(seconds: float, quick: bool) -> dict[str, Any]:
    """Measure the small files, then the large one."""
    precompile()
    small = []
    for sample in list_small(quick):
        for seed in SEEDS[:1] if quick else SEEDS:
            row = time_verdict(sample, seed)
            small.append(row)
            print(
                f"  {row['file']} seed {seed}: {row['stopped']} after {row['seconds']:.1f} s,"
                f" {row['cpu_seconds']:.1f} s of CPU, first figure after {row['first_figure']:.1f} s,"
                f" load {row['load'][0]}",
                flush=True,
            )
    large = [] if quick else measure_large(seconds)
    for row in large:
        milliseconds = row["milliseconds"]
        print(f"  {row['records']:,} records: {milliseconds['sweep']:.0f} ms of CPU a sweep", flush=True)
    return {"verdicts": small, "large": large}
