"""Do ordered keys pay? Both models with rows as trees and with flat rows, on the same samples of real people.

    python -m benchmarks.trees --only workers_500 --samples 6
    python -m benchmarks.trees --models hdp --rows trees    only what docs/accuracy.md compares with other methods
    python -m benchmarks.trees --table

A line of JSON is appended for each run to benchmarks/output; the same command again goes on where it was. Keys whose
categories are numbers are ordered. Populations, truth and people who are not in the sample are those of models.py.
"""

import argparse
import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.machine import ROOT
from benchmarks.models import MODELS, REAL, Case, draw_cases, run
from keyhole.kernels.state import NOTHING_ORDERED

RESULTS = ROOT / "benchmarks" / "output" / "trees.jsonl"
ROWS = ("flat", "trees")


def read_results() -> list[dict[str, Any]]:
    """Return what has been run."""
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def flatten(case: Case) -> Case:
    """Return the case with no key ordered."""
    records = case.sample.records._replace(ordered=NOTHING_ORDERED)
    return replace(case, sample=replace(case.sample, records=records))


def run_all(only: Iterable[str], models: Iterable[str], kinds: Iterable[str], samples: int) -> None:
    """Run what has not been run yet, flat rows and trees in turn on each sample."""
    done = {(row["file"], row["seed"], row["model"], row["rows"]) for row in read_results()}
    RESULTS.parent.mkdir(exist_ok=True)
    for seed in range(1, samples + 1):
        for name in only:
            wanted = [(model, rows) for model in models for rows in kinds if (name, seed, model, rows) not in done]
            if not wanted:
                continue
            case = next(iter(draw_cases(*REAL[name], [seed])))
            for model, rows in wanted:
                row = run(case if rows == "trees" else flatten(case), model, seed)
                with RESULTS.open("a") as file:
                    file.write(json.dumps({**row, "file": name, "rows": rows}) + "\n")
                away = [round(row[tau]["mean"] - row["truth"][x], 1) for x, tau in enumerate(("tau1", "tau2"))]
                print(name, seed, model, rows, row["grade"], row["processor_seconds"], *away, flush=True)


def describe(mine: list[dict[str, Any]], tau: int) -> str:
    """Return bias, RMSE and number of intervals that hold, of tau1 (0) or tau2 (1)."""
    truth = np.array([row["truth"][tau] for row in mine])
    found = [row[f"tau{tau + 1}"] for row in mine]
    away = np.array([item["mean"] for item in found]) - truth
    low, high = np.array([item["interval"] for item in found]).T
    inside = int(((low <= truth + 1e-9) & (truth - 1e-9 <= high)).sum())
    return f"{truth.mean():.1f} | {away.mean():+.1f} | {np.sqrt((away**2).mean()):.1f} | {inside}"


def print_table(models: Iterable[str]) -> None:
    """Print a row for each file, model and kind of rows, over the samples that both kinds have run."""
    print(
        "| file | model | rows | samples, converged | tau1 | bias | RMSE | covered | tau2 | bias | RMSE | covered "
        "| log probability of others | processor s |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    found = {(row["file"], row["model"], row["rows"], row["seed"]): row for row in read_results()}
    for name in REAL:
        for model in models:
            seeds = sorted({key[3] for key in found if all((name, model, rows, key[3]) in found for rows in ROWS)})
            for rows in ROWS if seeds else ():
                mine = [found[name, model, rows, seed] for seed in seeds]
                converged = sum(row["grade"] == "converged" for row in mine)
                others = np.mean([row["others"] for row in mine])
                seconds = np.median([row["processor_seconds"] for row in mine])
                print(
                    f"| {name} | {model} | {rows} | {len(mine)}, {converged} | {describe(mine, 0)} "
                    f"| {describe(mine, 1)} | {others:.4f} | {seconds:.1f} |"
                )


def main() -> None:
    """Run or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=tuple(REAL), default=tuple(REAL))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=ROWS)
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    if arguments.table:
        print_table(arguments.models)
    else:
        run_all(arguments.only, arguments.models, arguments.rows, arguments.samples)


if __name__ == "__main__":
    main()
