"""Where do `classes` and `hdp` differ? Both on the same samples of real people, and on the files with published truth.

    python -m benchmarks.models                             every file and seed: an hour or two
    python -m benchmarks.models --only health_500 --samples 5
    python -m benchmarks.models --table                     the table of docs/accuracy.md, from what has been run

A line of JSON is appended for each run to benchmarks/output; the same command again goes on where it was. Populations
are read from the folder that populations.py writes; the truth is counted in them. 1,000 people who are not in the
sample show how well each model predicts: the mean logarithm of the probability of their cells, averaged over draws.
"""

import argparse
import csv
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.machine import ROOT
from benchmarks.samples import DATA, Sample, encode_codes, name_sample, read_sample
from keyhole.data import count_cells
from keyhole.data.categories import order_categories
from keyhole.files import NUMBER
from keyhole.kernels.state import no_rules
from keyhole.risk import diagnose, summarise_risk
from keyhole.sampling import Trace, run_chains
from keyhole.sampling.events import describe_cells
from keyhole.sampling.predict import predict
from keyhole.settings import make_settings

RESULTS = ROOT / "benchmarks" / "output" / "models.jsonl"
POPULATIONS = ROOT.parent / "populations"
MODELS = ("classes", "hdp")
HELD_OUT, HELD_OUT_DRAWS = 1_000, 100
LIMITS = {"classes": "5m", "hdp": "8m"}
REAL = {f"{name}_{n}": (name, n) for name in ("health", "men", "mothers", "workers") for n in (500, 1_000)}
PUBLISHED = {
    name_sample(*file): file
    for file in (
        ("ny_adults", 1_000, False), ("ny_adults", 5_000, False), ("ny_full", 1_000, False), ("ny_full", 1_000, True),
        ("synthetic", 1_000, False), ("synthetic", 5_000, False),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A sample, its truth if it is known, and cells of people who are not in it."""

    sample: Sample
    truth: tuple[float, float] | None
    others: NDArray[np.int32] | None


def read_population(name: str) -> tuple[NDArray[np.int32], list[int], NDArray[np.int64]]:
    """Return the codes of all people, the number of categories of each variable, and which levels have an order."""
    with (POPULATIONS / f"{name}.csv").open() as file:
        rows = list(csv.reader(file))[1:]
    codes, sizes, numbers = [], [], []
    for column in zip(*rows, strict=True):
        categories = order_categories(set(column))
        place = {category: code for code, category in enumerate(categories)}
        codes.append([place[category] for category in column])
        sizes.append(len(categories))
        numbers.append(all(NUMBER.fullmatch(category) for category in categories))
    start = np.cumsum([0, *sizes])
    ordered = [(start[j], start[j + 1]) if numbers[j] else (start[j], start[j]) for j in range(len(sizes))]
    return np.column_stack(codes).astype(np.int32), sizes, np.array(ordered, np.int64)


def draw_cases(name: str, n: int, seeds: Iterable[int]) -> Iterator[Case]:
    """Yield samples of a population of real people."""
    codes, sizes, ordered = read_population(name)
    _, cell, people = np.unique(codes, axis=0, return_inverse=True, return_counts=True)
    for seed in seeds:
        order = np.random.default_rng(seed).permutation(len(codes))
        chosen, others = order[:n], order[n : n + HELD_OUT]
        unique = count_cells(codes[chosen]).unique_record
        found = people[cell.reshape(-1)[chosen[unique]]]
        records = encode_codes(codes[chosen], sizes)._replace(ordered=ordered)
        sample = Sample(f"{name}_{n}", records, unique, len(codes))
        truth = float((found == 1).sum()), float((1.0 / found).sum())
        yield Case(sample, truth, encode_codes(codes[others], sizes).level)


def list_cases(name: str, seeds: Iterable[int]) -> Iterator[Case]:
    """Yield a case for each seed; the published files have one sample, which is run with each seed."""
    if name in REAL:
        if (POPULATIONS / f"{REAL[name][0]}.csv").exists():
            yield from draw_cases(*REAL[name], seeds)
        else:
            print(f"{name}: left out, python benchmarks/populations.py {POPULATIONS} writes what it needs")
        return
    for sample in read_sample(*PUBLISHED[name]):
        for _ in seeds:
            yield Case(sample, None, None)


def score_others(trace: Trace, case: Case) -> float | None:
    """Return the mean log probability of the people who are not in the sample."""
    if case.others is None:
        return None
    events = describe_cells(np.ascontiguousarray(case.others), case.sample.records.level_start, None)
    draws = [draw for chain in trace.draws for draw in chain]
    draws = draws[:: max(len(draws) // HELD_OUT_DRAWS, 1)]
    rng = np.random.default_rng(1)
    q = np.mean([predict(rng, draw, events, no_rules()).q for draw in draws], axis=0)
    return float(np.log(q).mean())


def run(case: Case, model: str, seed: int) -> dict[str, Any]:
    """Run a model to its verdict."""
    settings = make_settings(model=model, seed=seed, time_limit=LIMITS[model])
    sample = case.sample
    wall, processor = time.perf_counter(), time.process_time()
    trace = run_chains(sample.records, sample.unique_record, sample.population, settings, sample.zeros)
    diagnosis = diagnose(trace)
    found = summarise_risk(trace, diagnosis.grade)
    return {
        "file": sample.name,
        "model": model,
        "seed": seed,
        "grade": diagnosis.grade,
        "seconds": round(time.perf_counter() - wall, 2),
        "processor_seconds": round(time.process_time() - processor, 2),
        "truth": case.truth,
        "tau1": {"mean": found.tau1.mean, "sd": found.tau1.sd, "interval": found.tau1.interval},
        "tau2": {"mean": found.tau2.mean, "sd": found.tau2.sd, "interval": found.tau2.interval},
        "others": score_others(trace, case),
    }


def read_rows() -> list[dict[str, Any]]:
    """Return what has been run."""
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def run_all(only: Iterable[str], samples: int) -> None:
    """Run what has not been run yet, the models in turn on each sample."""
    done = {(row["file"], row["seed"], row["model"]) for row in read_rows()}
    for name in only:
        seeds = range(1, 1 + (samples if name in REAL else min(samples, 3)))
        missing = [seed for seed in seeds if any((name, seed, model) not in done for model in MODELS)]
        for seed, case in zip(missing, list_cases(name, missing), strict=False):
            for model in MODELS:
                if (name, seed, model) in done:
                    continue
                row = run(case, model, seed)
                RESULTS.parent.mkdir(exist_ok=True)
                with RESULTS.open("a") as file:
                    file.write(json.dumps({**row, "file": name}) + "\n")
                print(
                    name, seed, model, row["grade"], row["processor_seconds"], round(row["tau1"]["mean"], 1), flush=True
                )


def print_table() -> None:
    """Print a row for each file and model."""
    print(
        "| file | model | runs, converged | processor s | tau1 bias | RMSE | covered | tau2 bias | RMSE | covered "
        "| log probability of others |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    rows = read_rows()
    published = json.loads((DATA / "truth.json").read_text()) if (DATA / "truth.json").exists() else {}
    for name in (*REAL, *PUBLISHED):
        pairs: dict[int, dict[str, Any]] = {}
        for row in rows:
            if row["file"] == name:
                pairs.setdefault(row["seed"], {})[row["model"]] = row
        pairs = {seed: pair for seed, pair in pairs.items() if len(pair) == len(MODELS)}
        for model in MODELS if pairs else ():
            mine = [pair[model] for pair in pairs.values()]
            converged = sum(row["grade"] == "converged" for row in mine)
            seconds = np.median([row["processor_seconds"] for row in mine])
            start = f"| {name} | {model} | {len(mine)}, {converged} | {seconds:.1f} |"
            if name in PUBLISHED:
                stem, n, _ = PUBLISHED[name]
                means = (np.mean([row[tau]["mean"] for row in mine]) for tau in ("tau1", "tau2"))
                low, high = mine[0]["tau1"]["interval"]
                true = published.get(stem, {}).get("truth_tau1", {}).get(str(n), "?")
                print(start, "tau1 {:.1f}, tau2 {:.1f}".format(*means), f"({low:.0f} to {high:.0f}), truth {true} |")
                continue
            cells = []
            for tau in (0, 1):
                found = [row[f"tau{tau + 1}"] for row in mine]
                away = np.array([item["mean"] - row["truth"][tau] for item, row in zip(found, mine, strict=True)])
                inside = sum(
                    item["interval"][0] <= row["truth"][tau] + 1e-9 and row["truth"][tau] - 1e-9 <= item["interval"][1]
                    for item, row in zip(found, mine, strict=True)
                )
                cells.append(f"{away.mean():.1f} | {np.sqrt((away**2).mean()):.1f} | {inside}")
            others = np.mean([row["others"] for row in mine])
            print(start, " | ".join(cells), f"| {others:.4f} |")


def main() -> None:
    """Run or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = (*REAL, *PUBLISHED)
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    if arguments.table:
        print_table()
    else:
        run_all(arguments.only, arguments.samples)


if __name__ == "__main__":
    main()
