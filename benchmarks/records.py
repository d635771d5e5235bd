"""Is the risk of every record calibrated? E(1/F) against 1/F on samples of real people, by deciles of predicted risk.

    python -m benchmarks.records                                every file and sample, with hdp
    python -m benchmarks.records --model classes --samples 5
    python -m benchmarks.records --table                        the tables of docs/accuracy.md, from what has been run

A line of JSON is appended for each run to benchmarks/output; the same command again goes on where it was. The
population is known, so F is counted in it. A line has means over the hundred records of a decile or so, none of a
record.
"""

import argparse
import csv
import json
import time
from collections import Counter
from typing import Any

import numpy as np
import polars as pl

import keyhole
from benchmarks.machine import ROOT
from benchmarks.models import POPULATIONS, REAL
from keyhole.data.categories import order_categories

RESULTS = ROOT / "benchmarks" / "output" / "records.jsonl"
FILES = ("health_1000", "workers_500", "men_500")
DECILES = 10


def run(name: str, seed: int, model: str) -> dict[str, Any]:
    """Assess one sample and compare it with its population."""
    population, n = REAL[name]
    with (POPULATIONS / f"{population}.csv").open() as file:
        header, *rows = csv.reader(file)
    book = {key: order_categories(set(column)) for key, column in zip(header, zip(*rows, strict=True), strict=True)}
    people = Counter(map(tuple, rows))
    chosen = [rows[x] for x in np.random.default_rng(seed).permutation(len(rows))[:n]]
    frame = pl.DataFrame(chosen, schema=header, orient="row")
    processor = time.process_time()
    found = keyhole.assess(
        frame, header, population=len(rows), codebook=book, model=model, seed=seed, time_limit="10m", workers=1
    )
    size = np.array([people[tuple(row)] for row in chosen])
    records, block = found.records, found.summary.all_records
    assert block is not None
    risk, true = records["risk"].to_numpy(), 1.0 / size
    order = np.argsort(risk, kind="stable")
    totals = {
        "matches": (block.expected_matches, float(true.sum())),
        **{f"k {k}": (estimate, float((size < int(k)).sum())) for k, estimate in block.k.items()},
    }
    return {
        "file": name,
        "seed": seed,
        "model": model,
        "grade": found.grade,
        "processor_seconds": round(time.process_time() - processor, 1),
        "records": n,
        "deciles": [[float(risk[x].mean()), float(true[x].mean())] for x in np.array_split(order, DECILES)],
        "totals": {what: [found.mean, *found.interval, exact] for what, (found, exact) in totals.items()},
    }


def read_rows(model: str) -> list[dict[str, Any]]:
    """Return what has been run with a model."""
    rows = [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    return [row for row in rows if row["model"] == model]


def print_tables(model: str) -> None:
    """Print predicted and true risk by decile, and totals."""
    rows = read_rows(model)
    names = [name for name in FILES if any(row["file"] == name for row in rows)]
    print(f"| decile of predicted risk | {' | '.join(f'{name}: predicted, true' for name in names)} |")
    print(f"|---|{'---|' * len(names)}")
    for place in range(DECILES):
        cells = []
        for name in names:
            pairs = np.array([row["deciles"][place] for row in rows if row["file"] == name])
            cells.append("{:.3f}, {:.3f}".format(*pairs.mean(axis=0)))
        print(f"| {place + 1} | {' | '.join(cells)} |")
    print(f"\n| measure | {' | '.join(f'{name}: mean, truth, intervals that hold' for name in names)} |")
    print(f"|---|{'---|' * len(names)}")
    for what in rows[0]["totals"]:
        cells = []
        for name in names:
            found = np.array([row["totals"][what] for row in rows if row["file"] == name])
            held = ((found[:, 1] <= found[:, 3] + 1e-9) & (found[:, 3] <= found[:, 2] + 1e-9)).sum()
            cells.append(f"{found[:, 0].mean():.1f}, {found[:, 3].mean():.1f}, {held} of {len(found)}")
        print(f"| {what} | {' | '.join(cells)} |")


def main() -> None:
    """Run or print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=tuple(REAL), default=FILES)
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--model", choices=("hdp", "classes"), default="hdp")
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    if arguments.table:
        print_tables(arguments.model)
        return
    done = {(row["file"], row["seed"]) for row in read_rows(arguments.model)}
    for seed in range(1, 1 + arguments.samples):
        for name in arguments.only:
            if (name, seed) in done:
                continue
            row = run(name, seed, arguments.model)
            RESULTS.parent.mkdir(exist_ok=True)
            with RESULTS.open("a") as file:
                file.write(json.dumps(row) + "\n")
            matches = row["totals"]["matches"]
            print(name, seed, row["grade"], row["processor_seconds"], round(matches[0], 1), matches[3], flush=True)


if __name__ == "__main__":
    main()
