"""Run the replicates of a validation, each a sample with its truth and estimates, and store them in a folder.

The folder has a plan, one file for each finished replicate, the scores and the plot. A replicate is written atomically
when it is finished, so that a stopped run can be resumed.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.errors import OutputError, RulesError
from keyhole.evaluation.comparison import Outcome, prepare, run_estimator
from keyhole.files import explained, json_text, write_text

PLAN = "plan.json"
RESULT = "validation.json"
PLOT = "validation.svg"

DIGITS = 6
"""Significant digits of the risks of single records in the stored replicates."""


def open_folder(folder: Path, plan: dict[str, Any]) -> None:
    """Create the folder, or resume in one with the same plan."""
    with explained(folder):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if (folder / PLAN).exists():
            if _read(folder / PLAN) != json.loads(json_text(plan)):
                raise OutputError(f"{folder} holds a validation with other data or options: choose another with `out`.")
            return
        if any(folder.iterdir()):
            raise OutputError(f"{folder} holds other files: choose a new or empty folder with `out`.")
        folder.chmod(0o700)
    write_text(json_text(plan), folder / PLAN)


def read_replicate(folder: Path, number: int) -> dict[str, Any] | None:
    """Return a stored replicate, if there is one."""
    path = _path(folder, number)
    return _read(path) if path.exists() else None


def write_replicate(folder: Path, found: dict[str, Any]) -> None:
    write_text(json_text(found), _path(folder, found["replicate"]))


def _path(folder: Path, number: int) -> Path:
    return folder / f"replicate-{number:05d}.json"


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict):
        raise OutputError(f"{path} is damaged: remove it and run again.")
    return found


@dataclass(frozen=True)
class Task:
    """The input of a replicate. arguments: of `prepare`; people: for each record, the number of people in its cell.

    strata: options of `assess` for keyhole's models, none if strata are ignored; weights: people whom each record
    represents, None in a simple random sample.
    """

    number: int
    arguments: dict[str, Any]
    people: NDArray[np.int64]
    estimators: tuple[str, ...]
    settings: dict[str, Any]
    strata: dict[str, Any]
    weights: NDArray[np.float64] | None


def run_replicate(
    task: Task, done: Mapping[str, Any] | None = None, on_progress: Callable[[Any], None] | None = None
) -> dict[str, Any]:
    """Run the estimators that are not done yet; return the replicate in its stored form."""
    try:
        given = prepare(**task.arguments)
    except RulesError as error:
        if "contradict" not in str(error):
            raise
        raise RulesError(
            f"people of the population contradict the rules of {task.arguments['zeros']}: "
            "list them with keyhole zeros check."
        ) from None
    sample = replace(given.sample, weights=task.weights)
    given = replace(given, arguments={**given.arguments, **task.strata}, sample=sample)
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


def _describe(outcome: Outcome) -> dict[str, Any]:
    return {
        "tau1": outcome.tau1.mean,
        "tau1_interval": outcome.tau1.interval,
        "tau2": outcome.tau2.mean,
        "tau2_interval": outcome.tau2.interval,
        "seconds": outcome.seconds,
        "converged": outcome.converged,
        "error": outcome.error,
        "r1": None if outcome.r1 is None else [float(f"{risk:.{DIGITS}g}") for risk in outcome.r1],
        "r2": None if outcome.r2 is None else [float(f"{risk:.{DIGITS}g}") for risk in outcome.r2],
    }
