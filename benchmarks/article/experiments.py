"""The article's experiments: its data where they are at hand, its synthetic population drawn again anywhere."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

import keyhole
from benchmarks.article.published import (
    ADULTS,
    SYNTHETIC,
    TRUTH,
    ZEROS_IGNORED,
    ZEROS_MODELLED,
    Published,
)
from keyhole.demo import count_truth, simulate

LEVELS = [5, 2, 6, 5, 11, 3, 2, 2]
PROFILES, PEOPLE = 15, 712_174
"""Of the synthetic population. The article's text says ten variables; its files have these eight."""

SIZES = (1000, 5000, 10000)

SETTINGS: dict[str, dict[str, Any]] = {
    "article": {"prior": "paper", "estimator": "monte-carlo", "mc_draws": 500},
    "article, sampling": {"prior": "paper", "estimator": "population"},
    "paper prior, exact": {"prior": "paper"},
    "adaptive": {},
}


@dataclass(frozen=True)
class Experiment:
    """One sample. zeros: rules, if they are modelled; truth: tau1; own: whether the published figures are of it."""

    name: str
    table: int
    sample: Any
    keys: tuple[str, ...]
    population: int
    codebook: Any
    zeros: Path | None
    truth: float | None
    published: tuple[Published, ...]
    own: bool = True


@dataclass(frozen=True)
class Result:
    """What one kind of settings said of one sample."""

    experiment: Experiment
    settings: str
    found: keyhole.Assessment
    seconds: float


def list_experiments(data: Path, largest: int, redrawn: bool = True) -> Iterator[Experiment]:
    """Yield the experiments in the order of the tables; a line for each whose file is absent."""
    if redrawn:
        yield from redraw_synthetic(largest)
    yield from read_files(data, "synthetic", 1, SYNTHETIC, largest)
    yield from read_files(data, "ny_adults", 2, ADULTS, largest)
    yield from read_files(data, "ny_full", 2, ZEROS_IGNORED, largest, "zeros ignored")
    yield from read_files(data, "ny_full", 2, ZEROS_MODELLED, largest, "zeros modelled")


def redraw_synthetic(largest: int, seed: int = 15) -> Iterator[Experiment]:
    """Draw a population as the article describes its own, and nested samples of it."""
    drawn = simulate(LEVELS, PEOPLE, max(SIZES), model="mixed", prior="paper", profiles=PROFILES, seed=seed)
    mixed = drawn.sample.sample(fraction=1.0, shuffle=True, seed=seed)
    for n in SIZES:
        if n <= largest:
            sample = mixed.head(n)
            truth = count_truth(drawn.population, sample)[1]
            keys = tuple(drawn.codebook)
            yield Experiment(
                f"drawn again, n = {n:,}", 1, sample, keys, PEOPLE, drawn.codebook, None, truth, SYNTHETIC[n], own=False
            )


def read_files(
    data: Path, stem: str, table: int, published: dict[int, tuple[Published, ...]], largest: int, told: str = ""
) -> Iterator[Experiment]:
    """Yield the samples of one population that are at hand."""
    for n in SIZES:
        name = f"{stem}, n = {n:,}" + (f", {told}" if told else "")
        path = data / f"{stem}_{n}.csv"
        if n > largest:
            continue
        if not path.exists():
            print(f"{name}: left out, {path.name} is not in {data}")
            continue
        about = json.loads((data / "truth.json").read_text(encoding="utf-8"))[stem]
        yield Experiment(
            name,
            table,
            pl.read_csv(path),
            tuple(about["levels"]),
            about["population"],
            json.loads((data / f"{stem}_codebook.json").read_text(encoding="utf-8")),
            data / f"{stem}_zeros.csv" if told == "zeros modelled" else None,
            TRUTH[stem, n],
            published[n],
        )


def run(experiment: Experiment, settings: str, time_limit: str, **more: Any) -> Result:
    """Assess one sample."""
    clock = time.perf_counter()
    found = keyhole.assess(
        experiment.sample,
        list(experiment.keys),
        population=experiment.population,
        codebook=experiment.codebook,
        zeros=experiment.zeros,
        time_limit=time_limit,
        **{**SETTINGS[settings], **more},
    )
    return Result(experiment, settings, found, time.perf_counter() - clock)


def kinds(experiment: Experiment) -> list[str]:
    """The settings to run: population sampling belongs to Table 1."""
    return [name for name in SETTINGS if name != "article, sampling" or experiment.table == 1]


def print_head() -> None:
    """Print the head of the table."""
    print(
        f"{'data':34s} {'truth':>5s}  {'settings':28s} {'tau1 ± sd':>15s} {'predictive':>12s} {'tau2':>7s}"
        f" {'seconds':>8s}  state"
    )


def print_experiment(experiment: Experiment) -> None:
    """Print the published lines of one sample."""
    truth = "-" if experiment.truth is None else f"{experiment.truth:g}"
    for place, line in enumerate(experiment.published):
        name = experiment.name if place == 0 else ""
        other = "" if experiment.own else " (of the article's own population)"
        told = "published " + line.algorithm
        hours = f"{3600 * line.hours:8.0f}" if line.hours is not None else " " * 8
        print(f"{name:34s} {truth if place == 0 else '':>5s}  {told:28s} {f'{line.mean:g} ± {line.sd:g}':>15s}"
              f" {'':12s} {'':7s} {hours}{other}")  # fmt: skip


def print_result(result: Result) -> None:
    """Print one line of ours: mean and sd of E(tau1 | parameters), as the article's, then the predictive interval."""
    tau1, tau2 = result.found.tau1, result.found.tau2
    shown = f"{tau1.expected.mean:.1f} ± {tau1.expected.sd:.1f}"
    interval = f"[{tau1.interval[0]:g}, {tau1.interval[1]:g}]"
    state = "converged" if result.found.diagnosis.converged else "not converged"
    print(
        f"{'':34s} {'':5s}  {result.settings:28s} {shown:>15s} {interval:>12s} {tau2.mean:7.1f}"
        f" {result.seconds:8.0f}  {state}",
        flush=True,
    )


def describe(result: Result) -> dict[str, Any]:
    """Return a result as it is written to tables.json."""
    summary = result.found.summary
    return {
        "data": result.experiment.name,
        "settings": result.settings,
        "truth": result.experiment.truth,
        "tau1": summary["tau1"],
        "tau2": summary["tau2"],
        "converged": result.found.diagnosis.converged,
        "seconds": result.seconds,
        "published": [str(line) for line in result.experiment.published] if result.experiment.own else [],
    }
