"""One replicate: a sample, its truth, and what each estimator says of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from keyhole.comparison import Given, Outcome, prepare, run_estimator
from keyhole.errors import RulesError

DIGITS = 6
"""Significant digits of single records' risks in the stored replicates."""


@dataclass(frozen=True)
class Task:
    """All that a replicate needs. people: for each record, how many people share its cell."""

    number: int
    sample: pl.DataFrame
    people: NDArray[np.int64]
    population: int
    codebook: dict[str, Any]
    zeros: Path | None
    estimators: tuple[str, ...]
    settings: dict[str, Any]


def run_replicate(
    task: Task, done: Mapping[str, Any] | None = None, on_progress: Callable[[Any], None] | None = None
) -> dict[str, Any]:
    """Run the estimators that are not done yet; return the replicate as it is stored."""
    given = _prepare(task)
    people = task.people[given.sample.unique_record]
    found = dict((done or {}).get("estimators", {}))
    for name in task.estimators:
        if name not in found:
            found[name] = _describe(run_estimator(name, given, task.settings, on_progress))
    return {
        "replicate": task.number,
        "sample_uniques": given.sample.uniques,
        "truth": {"tau1": int((people == 1).sum()), "tau2": float((1.0 / people).sum())},
        "people": people.tolist(),
        "estimators": found,
    }


def _prepare(task: Task) -> Given:
    keys: Sequence[str] = task.sample.columns
    try:
        return prepare(
            task.sample,
            keys,
            population=task.population,
            codebook=task.codebook,
            zeros=task.zeros,
            allow_identifier=keys,
        )
    except RulesError as error:
        if "contradict" not in str(error):
            raise
        raise RulesError(
            f"people of the population contradict the rules of {task.zeros}: keyhole zeros check lists them."
        ) from None


def _describe(outcome: Outcome) -> dict[str, Any]:
    return {
        "tau1": outcome.tau1.mean,
        "tau1_interval": outcome.tau1.interval,
        "tau2": outcome.tau2.mean,
        "tau2_interval": outcome.tau2.interval,
        "seconds": outcome.seconds,
        "converged": outcome.converged,
        "error": outcome.error,
        "r1": _rounded(outcome.r1),
        "r2": _rounded(outcome.r2),
    }


def _rounded(risks: NDArray[np.float64] | None) -> list[float] | None:
    return None if risks is None else [float(f"{risk:.{DIGITS}g}") for risk in risks]
