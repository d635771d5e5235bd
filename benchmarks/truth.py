"""Ours and the classical estimators on the same samples of real people, beside the truth: the head of accuracy.md.

    python -m benchmarks.truth                              every file and sample: about 20 processor minutes
    python -m benchmarks.truth --only health_500 --samples 5
    python -m benchmarks.truth --table                      the table, from what has been run

The samples are those of models.py. A line of JSON is appended for each sample and estimator to benchmarks/output; the
same command again goes on where it was. Ours are the rows that `python -m benchmarks.trees --models hdp --rows trees`
appends to benchmarks/output/trees.jsonl; --ours names another such file.
"""

import argparse
import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.machine import ROOT
from benchmarks.models import REAL, Case, list_cases, read_population
from benchmarks.trees import RESULTS as OURS
from keyhole.classical import CLASSICAL, EstimatorError, estimate_classical
from keyhole.classical import Sample as ClassicalSample
from keyhole.data import count_cells

RESULTS = ROOT / "benchmarks" / "output" / "truth.jsonl"
ESTIMATORS = tuple(name for name in CLASSICAL if name != "k-anonymity")
TAUS = ("tau1", "tau2")
TIME_LIMIT = 600.0
"""Seconds for each estimator; `keyhole compare` gives a minute, which depends on what else the machine does."""


def prepare(case: Case) -> ClassicalSample:
    """Return the sample as the classical estimators take it."""
    records = case.sample.records
    codes = (records.level - records.level_start[:-1]).astype(np.int32)
    cell_count = count_cells(codes).cell_count
    sizes, count = np.unique(cell_count, return_counts=True)
    return ClassicalSample(
        codes=codes,
        levels=tuple(int(size) for size in np.diff(records.level_start)),
        cell_count=cell_count,
        unique_record=case.sample.unique_record,
        sizes=sizes.astype(np.int64),
        size_count=(count // sizes).astype(np.int64),
        population=case.sample.population,
    )


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return what has been run; a last line that is still being written is left out."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


def run_all(only: Iterable[str], estimators: Iterable[str], samples: int) -> None:
    """Run what has not been run yet."""
    done = {(row["file"], row["seed"], row["estimator"]) for row in read_rows(RESULTS)}
    RESULTS.parent.mkdir(exist_ok=True)
    for name in only:
        seeds = range(1, samples + 1)
        missing = [seed for seed in seeds if any((name, seed, estimator) not in done for estimator in estimators)]
        for seed, case in zip(missing, list_cases(name, missing), strict=False):
            sample = prepare(case)
            for estimator in estimators:
                if (name, seed, estimator) in done:
                    continue
                row = run(sample, estimator) | {"file": name, "seed": seed, "truth": case.truth}
                with RESULTS.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
                print(name, seed, estimator, row["processor_seconds"], row["error"] or "", flush=True)


def run(sample: ClassicalSample, estimator: str) -> dict[str, Any]:
    """Run an estimator; one that fails has no estimate, and says why."""
    clock, found, error = time.process_time(), None, None
    try:
        found = estimate_classical(estimator, sample, TIME_LIMIT, details=False)
    except EstimatorError as reason:
        error = str(reason)
    return {
        "estimator": estimator,
        "tau1": None if found is None else found.tau1,
        "tau2": None if found is None else found.tau2,
        "error": error,
        "processor_seconds": round(time.process_time() - clock, 2),
    }


def measure_errors(rows: list[dict[str, Any]], tau: int) -> NDArray[np.float64]:
    """Return estimate less truth of each sample; rows are of ours or of a classical estimator."""
    found = [row[TAUS[tau]] for row in rows]
    means = [item["mean"] if isinstance(item, dict) else item for item in found]
    return np.array(means, float) - np.array([row["truth"][tau] for row in rows])


def find_best(rows: dict[tuple[str, int], dict[str, Any]], seeds: list[int], tau: int) -> tuple[str, float] | None:
    """Return the classical estimator with the smallest RMSE over these samples, of those that answered in all."""
    scores = {}
    for estimator in ESTIMATORS:
        mine = [rows[estimator, seed] for seed in seeds if (estimator, seed) in rows]
        if len(mine) == len(seeds) and all(row[TAUS[tau]] is not None for row in mine):
            scores[estimator] = float(np.sqrt((measure_errors(mine, tau) ** 2).mean()))
    return min(scores.items(), key=lambda item: item[1]) if scores else None


def describe_ours(mine: list[dict[str, Any]], tau: int) -> tuple[str, float]:
    """Return bias, RMSE and the number of intervals that hold the truth as cells of the table, and the RMSE."""
    away, truth = measure_errors(mine, tau), np.array([row["truth"][tau] for row in mine])
    low, high = np.array([row[TAUS[tau]]["interval"] for row in mine]).T
    # Sums of 1/F in another order differ in their last digits.
    inside = int(((low <= truth + 1e-9) & (truth - 1e-9 <= high)).sum())
    error = float(np.sqrt((away**2).mean()))
    return f"{away.mean():+.1f} | {error:.1f} | {inside} of {len(mine)}", error


def print_table(ours: Path) -> None:
    """Print a row for each file and risk, over the samples that ours and all classical estimators have run."""
    print(
        "| population | keys | n | samples | | mean truth | ours: bias | RMSE | 95 % intervals hold | best other, RMSE "
        "| ours to best other |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    mine = {
        (row["file"], row["seed"]): row for row in read_rows(ours) if row["model"] == "hdp" and row["rows"] == "trees"
    }
    ratios: dict[int, list[float]] = {0: [], 1: []}
    for name, (population, n) in REAL.items():
        rows = {(row["estimator"], row["seed"]): row for row in read_rows(RESULTS) if row["file"] == name}
        seeds = [
            seed
            for seed in sorted({seed for _, seed in rows})
            if (name, seed) in mine and all((estimator, seed) in rows for estimator in ESTIMATORS)
        ]
        if not seeds:
            continue
        _, sizes, _ = read_population(population)
        found = [mine[name, seed] for seed in seeds]
        for tau in (0, 1):
            cells, error = describe_ours(found, tau)
            truth = np.mean([row["truth"][tau] for row in found])
            best = find_best(rows, seeds, tau)
            other = "-" if best is None else f"{best[0]}, {best[1]:.1f}"
            ratio = "-" if best is None else f"{error / best[1]:.2f}"
            ratios[tau] += [] if best is None else [error / best[1]]
            start = f"{population} | {len(sizes)} | {n:,} | {len(seeds)} |" if tau == 0 else "| | | |"
            print(f"| {start} {TAUS[tau]} | {truth:.1f} | {cells} | {other} | {ratio} |")
    for tau in (0, 1):
        if ratios[tau]:
            print(f"\n{TAUS[tau]}: mean ratio {np.mean(ratios[tau]):.2f} over {len(ratios[tau])} files")


def print_others() -> None:
    """Print the RMSE of every classical estimator, of tau1 and of tau2."""
    print(f"\n| population | n | samples | | {' | '.join(ESTIMATORS)} |")
    print(f"|---|---|---|---|{'---|' * len(ESTIMATORS)}")
    rows = read_rows(RESULTS)
    for name, (population, n) in REAL.items():
        of_file = [row for row in rows if row["file"] == name]
        samples = len({row["seed"] for row in of_file})
        for tau in (0, 1) if samples else ():
            cells = []
            for estimator in ESTIMATORS:
                mine = [row for row in of_file if row["estimator"] == estimator and row[TAUS[tau]] is not None]
                error = f"{np.sqrt((measure_errors(mine, tau) ** 2).mean()):.1f}" if mine else "-"
                cells.append(error if len(mine) == samples else f"{error} ({len(mine)})")
            start = f"{population} | {n:,} | {samples}" if tau == 0 else " | | "
            print(f"| {start} | {TAUS[tau]} | {' | '.join(cells)} |")


def main() -> None:
    """Run or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=tuple(REAL), default=tuple(REAL))
    parser.add_argument("--estimators", nargs="+", choices=ESTIMATORS, default=ESTIMATORS)
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--ours", type=Path, default=OURS, help="rows of benchmarks.trees")
    arguments = parser.parse_args()
    if arguments.table:
        print_table(arguments.ours)
        print_others()
    else:
        run_all(arguments.only, arguments.estimators, arguments.samples)


if __name__ == "__main__":
    main()
