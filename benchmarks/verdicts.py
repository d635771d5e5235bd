"""Does a run say at its verdict what a much longer one says? Many short runs of each file against one long run.

    python -m benchmarks.verdicts                       every file and seed: hours
    python -m benchmarks.verdicts --only ny_adults_1000 --seeds 12
    python -m benchmarks.verdicts --table               the table of docs/convergence.md, from what has been run

A line of JSON is appended for each run to benchmarks/output, which is not committed because it has the risk of every
record; the same command again goes on where it was. The long run of a file has a seed of its own and goes on until it
has LONGER times the effective draws that a verdict needs. Distances are in predictive standard deviations of the long
run. The ends of the interval of tau1 are whole counts, so they are also compared with one count allowed: where the
standard deviation is below 2.5, one count is more than 0.4 of it. `health` and `workers` are read from the folder that
populations.py writes.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from benchmarks.machine import ROOT
from benchmarks.models import list_cases
from benchmarks.samples import ADULT_LEVELS, DATA, TEN_LEVELS, Sample, encode_codes, read_sample, simulate_codes
from keyhole.data import count_cells
from keyhole.risk import diagnose, summarise_risk
from keyhole.sampling import run_chains
from keyhole.settings import Settings, make_settings

RESULTS = ROOT / "benchmarks" / "output" / "verdicts.jsonl"
LONGER = 10
LONG_SEED = 1_000
MEAN, END, RECORD = 0.2, 0.4, 0.05
"""How far a verdict may lie from the long run: means, ends of intervals, risks of single records."""


def shared(stem: str, n: int, rules: bool = False, first: int | None = None) -> Callable[[], Iterator[Sample]]:
    """Return what reads a file of the shared folder, or the first records of it."""

    def read() -> Iterator[Sample]:
        for sample in read_sample(stem, n, rules):
            if first is None:
                yield sample
                continue
            level = np.ascontiguousarray(sample.records.level[:first])
            records = sample.records._replace(level=level, answer_total=sample.records.answer_total[:first].copy())
            unique = count_cells(level).unique_record
            yield Sample(f"{sample.name}, first {first}", records, unique, sample.population, sample.zeros)

    return read


def simulated(n: int, levels: list[int], seed: int) -> Callable[[], Iterator[Sample]]:
    """Return what samples a population drawn from `mixed`."""

    def draw() -> Iterator[Sample]:
        codes = simulate_codes(200_000, levels, seed)[:n]
        yield Sample("simulated", encode_codes(codes, levels), count_cells(codes).unique_record, 200_000)

    return draw


def people(name: str, n: int) -> Callable[[], Iterator[Sample]]:
    """Return what samples a population of real people."""

    def read() -> Iterator[Sample]:
        for case in list_cases(f"{name}_{n}", [1]):
            yield case.sample

    return read


FILES: dict[str, tuple[Callable[[], Iterator[Sample]], str]] = {
    "ny_adults_1000": (shared("ny_adults", 1000), "adaptive"),
    "ny_full_1000_rules": (shared("ny_full", 1000, rules=True), "adaptive"),
    "health_1000": (people("health", 1000), "adaptive"),
    "workers_500": (people("workers", 500), "adaptive"),
    "simulated_1000": (simulated(1000, ADULT_LEVELS, 20), "adaptive"),
    "ny_full_300_rules": (shared("ny_full", 1000, rules=True, first=300), "adaptive"),
    "ny_adults_300": (shared("ny_adults", 1000, first=300), "adaptive"),
    "synthetic_1000": (shared("synthetic", 1000), "adaptive"),
    "simulated_ten_keys_500": (simulated(500, TEN_LEVELS, 21), "adaptive"),
    "ny_adults_1000_paper": (shared("ny_adults", 1000), "paper"),
    "synthetic_1000_paper": (shared("synthetic", 1000), "paper"),
    "ny_adults_5000": (shared("ny_adults", 5000), "adaptive"),
}
CLASSES = {
    f"{name}_classes": FILES[name]
    for name in ("ny_adults_1000", "ny_full_1000_rules", "health_1000", "workers_500", "ny_adults_5000")
}
"""The same with the model `classes`."""


def run(sample: Sample, settings: Settings) -> dict[str, Any]:
    """Assess a file; return what was said of it."""
    wall, processor = time.perf_counter(), time.process_time()
    trace = run_chains(sample.records, sample.unique_record, sample.population, settings, sample.zeros)
    diagnosis = diagnose(trace)
    found = summarise_risk(trace, diagnosis.grade)
    return {
        "seed": settings.seed,
        "grade": diagnosis.grade,
        "seconds": round(time.perf_counter() - wall, 2),
        "processor_seconds": round(time.process_time() - processor, 2),
        "sweeps": trace.sweeps,
        "effective_draws": round(diagnosis.ess_bulk, 1),
        **{
            name: {"mean": measure.mean, "sd": measure.sd, "interval": list(measure.interval)}
            for name, measure in (("tau1", found.tau1), ("tau2", found.tau2))
        },
        "r1": [round(float(value), 4) for value in found.r1],
    }


def read_rows() -> dict[tuple[str, int], dict[str, Any]]:
    """Return what has been run, by file and seed."""
    if not RESULTS.exists():
        return {}
    rows = [json.loads(line) for line in RESULTS.read_text().splitlines()]
    return {(row["file"], row["seed"]): row for row in rows}


def run_all(only: Iterable[str], seeds: int) -> None:
    """Run what has not been run yet."""
    for name in only:
        read, prior = (FILES | CLASSES)[name]
        model = "classes" if name in CLASSES else "hdp"
        wanted = [seed for seed in (LONG_SEED, *range(1, seeds + 1)) if (name, seed) not in read_rows()]
        for sample in read() if wanted else ():
            for seed in wanted:
                draws, limit = (100 * LONGER, "10m") if seed == LONG_SEED else (100, "5m")
                settings = make_settings(model=model, prior=prior, seed=seed, target_ess=draws, time_limit=limit)
                row = {"file": name, **run(sample, settings)}
                RESULTS.parent.mkdir(exist_ok=True)
                with RESULTS.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(
                    name, seed, row["grade"], f"{row['seconds']:.0f} s", f"tau1 {row['tau1']['mean']:.2f}", flush=True
                )


def distances(row: dict[str, Any], long: dict[str, Any]) -> dict[str, float]:
    """Return how far a run lies from the long one."""
    means, ends, counts = [], [], []
    for name in ("tau1", "tau2"):
        sd = long[name]["sd"] or 1.0
        means.append(abs(row[name]["mean"] - long[name]["mean"]) / sd)
        apart = [abs(a - b) for a, b in zip(row[name]["interval"], long[name]["interval"], strict=True)]
        ends += [distance / sd for distance in apart]
        counts += [distance / sd if name == "tau2" or distance > 1.0 else 0.0 for distance in apart]
    records = np.abs(np.array(row["r1"]) - np.array(long["r1"])) <= RECORD
    return {"mean": max(means), "end": max(ends), "count": max(counts), "records": float(records.mean())}


def print_table() -> None:
    """Print a row for each file: how many runs were within the limits of those that gave a verdict."""
    rows = read_rows()
    print(
        "| file | runs | converged | processor s | effective draws | means within 0.2 | ends within 0.4 "
        "| ends within 0.4 or one count | records |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    met = {"runs": 0, "mean": 0, "end": 0, "count": 0, "records": 0}
    for name in (*FILES, *CLASSES):
        long = rows.get((name, LONG_SEED))
        short = [row for (file, seed), row in rows.items() if file == name and seed != LONG_SEED]
        if long is None or not short:
            continue
        judged = [row for row in short if row["grade"] == "converged"]
        found = [distances(row, long) for row in judged]
        within = {
            "mean": sum(found_["mean"] <= MEAN for found_ in found),
            "end": sum(found_["end"] <= END for found_ in found),
            "count": sum(found_["count"] <= END for found_ in found),
            "records": sum(found_["records"] >= 0.99 for found_ in found),
        }
        met["runs"] += len(judged)
        for kind, count in within.items():
            met[kind] += count
        print(
            f"| {name} | {len(short)} | {len(judged)} | {np.median([row['processor_seconds'] for row in short]):.1f} | "
            f"{np.median([row['effective_draws'] for row in short]):.0f} (long: {long['effective_draws']:.0f}) | "
            f"{within['mean']} | {within['end']} | {within['count']} | {within['records']} |"
        )
    print(f"| all | | {met['runs']} | | | {met['mean']} | {met['end']} | {met['count']} | {met['records']} |")


def main() -> None:
    """Run or tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=[*FILES, *CLASSES], default=[*FILES, *CLASSES])
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    if arguments.table:
        print_table()
    else:
        if not DATA.exists():
            print(f"{DATA} is missing: only simulated files are run")
        run_all(arguments.only, arguments.seeds)


if __name__ == "__main__":
    main()
