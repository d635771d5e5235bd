"""Do plans keep what they promise? Samples of real people are planned to a limit, and the truth is counted afterwards.

    python -m benchmarks.plans                       40 samples, with and without local suppression
    python -m benchmarks.plans --only men --seeds 3
    python -m benchmarks.plans --table               the table of docs/plan.md

Each sample of 500 is assessed by `classes` and planned to a quarter of its upper end of tau1. True is how many released
records are alone in the population: they, and nobody else in population or file, agree with what is left of them. The
release is then assessed by itself (without single values blanked). A line of JSON is appended for each sample to
benchmarks/output; the same command again goes on where it was. Populations are those of populations.py.
"""

import argparse
import json
import time
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl

import keyhole as kh
from benchmarks.machine import ROOT

RESULTS = ROOT / "benchmarks" / "output" / "plans.jsonl"
POPULATIONS = ROOT.parent / "populations"
NAMES = ("health", "men", "mothers", "workers")
SIZE, SEEDS = 500, 10
PART = 4
SUPPRESS = (0.0, 0.02)


def read_results() -> list[dict[str, Any]]:
    """Return what has been run."""
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def publish(people: pl.DataFrame, recipe: kh.Recipe) -> pl.DataFrame:
    """Return the keys of people as the plan publishes them."""
    kept = [key for key in recipe.keys if key.groups is not None]
    return people.select(pl.col(key.name).replace_strict(key.published, default=None) for key in kept)


def count_truth(sample: pl.DataFrame, people: pl.DataFrame, recipe: kh.Recipe) -> int:
    """Return how many released records are alone in the population, and in the file."""
    names = [key.name for key in recipe.keys if key.groups is not None]
    if not names:
        return 0
    file, everybody = publish(sample, recipe), publish(people, recipe)
    blank = {name: set(rows) for name, rows in recipe.blank.items()}
    alone = 0
    counts = {}
    for row, values in enumerate(file.rows(named=True), start=1):
        if row in recipe.remove:
            continue
        left = tuple(name for name in names if row not in blank.get(name, ()))
        if left not in counts:
            counts[left] = everybody.group_by(left).len() if left else None
            counts[left] = {tuple(found[:-1]): found[-1] for found in counts[left].rows()} if left else {}
        alone += counts[left].get(tuple(values[name] for name in left), 2) == 1
    return alone


def run(name: str, seed: int, suppress: float) -> dict[str, Any]:
    """Assess, plan and count one sample."""
    people = pl.read_csv(POPULATIONS / f"{name}.csv", infer_schema=False)
    sample = people[np.random.default_rng(seed).choice(people.height, SIZE, replace=False)]
    # The categories of the population, as a codebook would list them.
    book = {column: sorted(people[column].unique(), key=_as_number) for column in people.columns}
    clock = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = kh.assess(
            sample, people.columns, population=people.height, codebook=book, model="classes", seed=seed, time_limit="5m"
        )
        limit = max(int(found.tau1.interval[1]) // PART, 1)
        plan = found.plan(f"tau1.upper={limit}", suppress=suppress)
        again = None
        if not plan.recipe.blank and any(key.groups is not None for key in plan.recipe.keys):
            released = kh.protect(sample, plan)
            kept = [key.name for key in plan.recipe.keys if key.groups is not None]
            left = {key.name: [group for group, _ in key.groups] for key in plan.recipe.keys if key.groups is not None}
            assessed = kh.assess(
                released,
                kept,
                population=people.height,
                codebook=left,
                model="classes",
                seed=seed + 1000,
                time_limit="5m",
            )
            again = {"mean": assessed.tau1.mean, "interval": assessed.tau1.interval, "grade": assessed.grade}
    return {
        "file": name,
        "seed": seed,
        "suppress": suppress,
        "grade": found.grade,
        "limit": limit,
        "before": {"mean": found.tau1.mean, "interval": found.tau1.interval},
        "promised": {"mean": plan.after.tau1.mean, "interval": plan.after.tau1.interval},
        "chosen": {"mean": plan.search.search.mean, "interval": plan.search.search.interval},
        "truth": count_truth(sample, people, plan.recipe),
        "again": again,
        "status": plan.status,
        "loss": plan.loss,
        "blanked": plan.utility.values_blanked,
        "removed": plan.utility.records_removed,
        "releases": plan.search.releases,
        "evaluated": plan.search.evaluated,
        "processor_seconds": round(time.process_time() - clock, 1),
    }


def _as_number(text: str) -> tuple[bool, float, str]:
    try:
        return False, float(text), text
    except ValueError:
        return True, 0.0, text


def run_all(only: Iterable[str], seeds: int) -> None:
    """Run what has not been run yet."""
    done = {(row["file"], row["seed"], row["suppress"]) for row in read_results()}
    RESULTS.parent.mkdir(exist_ok=True)
    for suppress in SUPPRESS:
        for seed in range(1, seeds + 1):
            for name in only:
                if (name, seed, suppress) in done:
                    continue
                row = run(name, seed, suppress)
                with RESULTS.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(name, seed, suppress, row["grade"], row["limit"], row["promised"], row["truth"], row["status"],
                      row["again"], row["processor_seconds"], flush=True)  # fmt: skip


def print_table() -> None:
    """Print a row for each population, without and with local suppression."""
    print("| population | suppression | samples | tau1 before | limit | tau1 promised | true | true within the promise "
          "| assessed again: within limit, interval holds | loss | optimal |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    rows = read_results()
    for name in NAMES:
        for suppress in SUPPRESS:
            mine = [row for row in rows if row["file"] == name and row["suppress"] == suppress]
            if not mine:
                continue
            again = [row for row in mine if row["again"] is not None]
            mean = {key: np.mean([row[key]["mean"] for row in mine]) for key in ("before", "promised")}
            kept = sum(row["truth"] <= row["promised"]["interval"][1] for row in mine)
            met = sum(row["again"]["interval"][1] <= row["limit"] for row in again)
            holds = sum(row["again"]["interval"][0] <= row["truth"] <= row["again"]["interval"][1] for row in again)
            print(
                f"| {name} | {'values or records' if suppress else 'none'} | {len(mine)} | {mean['before']:.1f} "
                f"| {np.mean([row['limit'] for row in mine]):.1f} | {mean['promised']:.1f} "
                f"| {np.mean([row['truth'] for row in mine]):.1f} | {kept} of {len(mine)} "
                f"| {met} and {holds} of {len(again)} | {100 * np.mean([row['loss'] for row in mine]):.0f} % "
                f"| {sum(row['status'] == 'optimal' for row in mine)} |"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    print_table() if given.table else run_all(given.only, given.seeds)
