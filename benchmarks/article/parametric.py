"""What choosing K costs: the parametric model (`mixed`) over a range of K, and the K that predicts held-out records.

A tenth of the records is held out; a model that saw the others gives each of them the mean of its cell's probability
over the draws (exact cell probabilities). Then each K is fitted to all records, as a user would for the estimate.
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from benchmarks.article.experiments import Experiment, run
from keyhole.data import count_cells, encode, read_microdata
from keyhole.kernels.state import no_rules
from keyhole.risk.stacking import find_log_densities
from keyhole.sampling import run_chains
from keyhole.sampling.events import describe_cells
from keyhole.settings import make_settings

RANGE = (1, 2, 3, 5, 8, 12, 15, 20, 30, 60)
HELD_OUT = 0.1
MOST_DRAWS = 50


@dataclass(frozen=True)
class Choice:
    """One model: its score on held-out records (mean log probability, with its standard error) and its tau1."""

    name: str
    profiles: int
    held_out: float
    held_out_se: float
    tau1: float
    interval: tuple[float, float]
    seconds: float


def split_records(sample: pl.DataFrame, seed: int = 10) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the records to fit and the tenth to predict."""
    rows = np.random.default_rng(seed).permutation(sample.height)
    held = round(HELD_OUT * sample.height)
    return sample[rows[held:]], sample[rows[:held]]


def score(experiment: Experiment, settings: dict[str, Any]) -> tuple[float, float]:
    """Fit nine tenths; return the mean log probability of a held-out record and its standard error."""
    fitted, held = split_records(experiment.sample)
    chosen = make_settings(**settings)
    keys = list(experiment.keys)
    microdata = read_microdata(fitted, keys, experiment.codebook, keys)
    records = encode(microdata)
    unique = count_cells(microdata.codes).unique_record
    trace = run_chains(records, unique, experiment.population, chosen)
    levels = encode(read_microdata(held, keys, experiment.codebook, keys)).level
    cells, place = np.unique(levels, axis=0, return_inverse=True)
    kept = len(trace.draws[0])
    draws = np.unique(np.linspace(0, kept - 1, min(kept, MOST_DRAWS)).astype(int))
    log_chance = find_log_densities(trace, draws, describe_cells(cells, records.level_start, None), no_rules())
    together = np.moveaxis(log_chance, 1, 0).reshape(len(cells), -1)
    top = together.max(axis=1, keepdims=True)
    value = (top[:, 0] + np.log(np.exp(together - top).mean(axis=1)))[place.ravel()]
    return float(value.mean()), float(value.std(ddof=1) / np.sqrt(len(value)))


def try_range(
    experiment: Experiment, time_limit: str, max_sweeps: int | None = None, sizes: tuple[int, ...] = RANGE
) -> list[Choice]:
    """Score and fit `mixed` for each K, and `hdp` with both priors beside it."""
    models: list[tuple[str, int, dict[str, Any]]] = [
        (f"mixed, K = {size}", size, {"model": "mixed", "profiles": size, "prior": "paper"}) for size in sizes
    ]
    models += [("hdp, paper", 0, {"prior": "paper"}), ("hdp, adaptive", 0, {})]
    choices = []
    for name, size, settings in models:
        clock = time.perf_counter()
        settings = {**settings, "max_sweeps": max_sweeps}
        held_out, error = score(experiment, {**settings, "time_limit": time_limit})
        result = run(experiment, "adaptive", time_limit, **settings)
        tau1 = result.found.tau1
        choices.append(Choice(name, size, held_out, error, tau1.mean, tau1.interval, time.perf_counter() - clock))
        print(
            f"  {name:16s} held-out {held_out:8.3f} ± {error:.3f} a record   tau1 {tau1.mean:6.1f}"
            f" [{tau1.interval[0]:g}, {tau1.interval[1]:g}]   {choices[-1].seconds:6.0f} s",
            flush=True,
        )
    return choices


def print_cost(choices: list[Choice], truth: float | None) -> None:
    """Say which K the held-out records choose, and what the choice took beside a model that needs none."""
    mixed = [choice for choice in choices if choice.profiles]
    best = max(mixed, key=lambda choice: choice.held_out)
    free = choices[-1]
    fixed = f"; the truth is {truth:g}" if truth is not None else ""
    low, high = min(choice.tau1 for choice in mixed), max(choice.tau1 for choice in mixed)
    print(
        f"  held-out records choose K = {best.profiles}: tau1 {best.tau1:.1f}; over all K it runs from {low:.1f} to "
        f"{high:.1f}{fixed}. Choosing took {sum(choice.seconds for choice in mixed):.0f} s, "
        f"{free.name} {free.seconds:.0f} s with its own held-out score."
    )


def nearest(choices: list[Choice], truth: float) -> Choice:
    """The K that the article reports: the one whose mean is nearest to a truth that no user knows."""
    return min((choice for choice in choices if choice.profiles), key=lambda choice: abs(choice.tau1 - truth))


def as_rows(choices: list[Choice]) -> list[dict[str, float]]:
    """Return the parametric ones for the figure."""
    return [
        {
            "profiles": float(choice.profiles),
            "tau1": choice.tau1,
            "low": choice.interval[0],
            "high": choice.interval[1],
            "held_out": choice.held_out,
        }
        for choice in choices
        if choice.profiles
    ]
