"""Does the model check alarm when it should, and only then? Files of the model, of people in groups, of real people.

    python -m benchmarks.checks                             what docs/checks.md shows: about half an hour
    python -m benchmarks.checks --only model --files 20 --model hdp
    python -m benchmarks.checks --table                     the table of docs/checks.md, from what has been run

Populations are drawn from the model with parameters from its prior. `groups`: in households of two to four people who
are all equal; `neighbours`: members have one answer of their own, at random. Chains are short, since the check has to
work there too. Real people are the samples of models.py.

A line of JSON is appended for each file to benchmarks/output; the same command again goes on where it was.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.machine import ROOT
from benchmarks.models import REAL, list_cases
from keyhole.data import count_cells
from keyhole.kernels.state import Integers, Records
from keyhole.risk import check_fit, diagnose, summarise_risk
from keyhole.risk.fit import COUNTED, SCORE, WIDESPREAD
from keyhole.sampling import run_chains
from keyhole.sampling.predictive import draw_population
from keyhole.settings import make_settings

RESULTS = ROOT / "benchmarks" / "output" / "checks.jsonl"
LEVELS = ((5, 2, 6, 4, 3), (8, 6, 5, 5, 4), (9, 2, 6, 3, 7, 4, 2), (12, 8, 6, 10), (7, 2, 5, 4, 3, 6, 2, 4))
"""Categories of the keys, in turn."""

PLAN = {
    "model": ((300, 0.1, 200), (1_000, 0.1, 100)),
    "groups": ((300, 0.1, 60), (1_000, 0.1, 60), (1_000, 0.02, 60)),
    "neighbours": ((300, 0.1, 60), (1_000, 0.2, 60)),
}
"""For each kind of population, records, sampling fraction and number of files."""

FEWEST_UNIQUES = 20
SWEEPS = 400
REAL_FILES = ("health_1000", "men_1000", "mothers_1000", "workers_1000")
VERDICTS = ("fits", "fits except", "does not fit")
Codes = NDArray[np.int32]


def draw_people(rng: np.random.Generator, kind: str, levels: list[int], people: int, model: str) -> Codes:
    """Draw a population."""
    codes = draw_population(rng, levels, people, make_settings(model=model))
    if kind == "model":
        return codes
    house = np.repeat(np.arange(people), rng.integers(2, 5, people))[:people]
    members = codes[house]
    if kind == "neighbours":
        for i in np.flatnonzero(house[1:] == house[:-1]) + 1:
            j = rng.integers(len(levels))
            members[i, j] = rng.integers(levels[j])
    return members


def run_file(kind: str, number: int, n: int, fraction: float, model: Literal["classes", "hdp"]) -> dict[str, Any]:
    """Draw a population and a sample, fit the model and check it."""
    levels, people = list(LEVELS[number % len(LEVELS)]), int(n / fraction)
    rng = np.random.default_rng([2_027, list(PLAN).index(kind), n, int(1_000 * fraction), number])
    unique: Integers = np.zeros(0, np.int64)
    while len(unique) < FEWEST_UNIQUES:
        population = draw_people(rng, kind, levels, people, model)
        chosen = rng.choice(people, n, replace=False)
        codes = population[chosen]
        unique = count_cells(codes).unique_record
    size = count_cells(population).cell_count[chosen[unique]]
    start = np.concatenate([[0], np.cumsum(levels)]).astype(np.int64)
    records = Records((codes + start[:-1]).astype(np.int32), np.full(n, len(levels)), start)
    truth = (float((size == 1).sum()), float((1.0 / size).sum()))
    settings = make_settings(model=model, seed=number, chains=2, max_sweeps=SWEEPS, time_limit="1h")
    return check(records, unique, people, truth, settings)


def check(records: Records, unique: Integers, people: int, truth: tuple[float, float], settings: Any) -> dict[str, Any]:
    """Fit the model and check it; held: whether the intervals of tau1 and tau2 hold the truth."""
    trace = run_chains(records, unique, people, settings)
    grade = diagnose(trace).grade
    risk = summarise_risk(trace, grade)
    clock = time.process_time()
    names = [f"K{j}" for j in range(records.level.shape[1])]
    fit = check_fit(trace, records, names, settings)
    return {
        "grade": grade,
        "uniques": len(unique),
        "verdict": fit.verdict,
        "scores": [fit[name].score for name in COUNTED],
        "unseen": fit.unseen_pairs.ok,
        "two_way": fit.two_way.ok,
        "outside": fit.two_way.outside / max(fit.two_way.total, 1),
        "exceptions": fit.exceptions,
        "without": fit.without,
        "replicates": fit.replicates,
        "check_seconds": round(time.process_time() - clock, 3),
        "truth": truth,
        "means": [risk.tau1.mean, risk.tau2.mean],
        "held": [
            bool(item.interval[0] <= true + 1e-9 and true - 1e-9 <= item.interval[1])
            for item, true in zip((risk.tau1, risk.tau2), truth, strict=True)
        ],
    }


def list_tasks(only: tuple[str, ...], files: int | None, samples: int) -> Iterator[tuple[str, int, float, int]]:
    """Yield kind, records, fraction and number of each file."""
    for kind in only:
        if kind in PLAN:
            for n, fraction, planned in PLAN[kind]:
                yield from ((kind, n, fraction, number) for number in range(min(planned, files or planned)))
        else:
            yield from ((kind, REAL[kind][1], 0.0, seed) for seed in range(1, samples + 1))


def read_rows() -> list[dict[str, Any]]:
    """Return what has been run."""
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def run_all(only: tuple[str, ...], files: int | None, samples: int, model: Literal["classes", "hdp"]) -> None:
    """Run what has not been run yet."""
    done = {(row["kind"], row["n"], row["fraction"], row["number"], row["model"]) for row in read_rows()}
    RESULTS.parent.mkdir(exist_ok=True)
    for task in list_tasks(only, files, samples):
        kind, n, fraction, number = task
        if (*task, model) in done:
            continue
        if kind in PLAN:
            row = run_file(kind, number, n, fraction, model)
        else:
            case = next(iter(list_cases(kind, [number])), None)
            if case is None or case.truth is None:
                continue
            settings = make_settings(model=model, seed=number, time_limit="8m")
            sample = case.sample
            row = check(sample.records, sample.unique_record, sample.population, case.truth, settings)
        about = {"kind": kind, "n": n, "fraction": fraction, "number": number, "model": model}
        with RESULTS.open("a") as file:
            file.write(json.dumps(about | row) + "\n")
        print(kind, n, fraction, number, model, row["verdict"], row["check_seconds"], flush=True)


def judge_again(row: dict[str, Any]) -> str:
    """Return the verdict from the stored scores, by the limits as they are now."""
    if max(abs(score) for score in row["scores"]) > SCORE:
        return "does not fit"
    if row["unseen"] and row["two_way"]:
        return "fits"
    return "does not fit" if row["outside"] > WIDESPREAD else "fits except"


def print_table() -> None:
    """Print a row for each kind of file."""
    print(
        "| files | model | records, sampled | number | fits | fits except | does not fit | of which a key is named "
        "| intervals of tau1, tau2 hold | in files that fit |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in read_rows():
        groups.setdefault((row["kind"], row["model"], row["n"], row["fraction"]), []).append(row)
    for (kind, model, n, fraction), rows in groups.items():
        verdicts = Counter(judge_again(row) for row in rows)
        fitting = [row for row in rows if judge_again(row) == "fits"]
        held, held_of = (
            ", ".join(f"{100 * np.mean([row['held'][x] for row in some]):.0f} %" for x in (0, 1)) if some else "-"
            for some in (rows, fitting)
        )
        sampled = f"{n:,}, {100 * fraction:g} %" if fraction else f"{n:,}"
        named = sum(bool(row["without"]) for row in rows if judge_again(row) == "does not fit")
        counts = " | ".join(str(verdicts[verdict]) for verdict in VERDICTS)
        print(f"| {kind} | {model} | {sampled} | {len(rows)} | {counts} | {named} | {held} | {held_of} |")


def main() -> None:
    """Run or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = (*PLAN, *REAL_FILES)
    parser.add_argument("--only", nargs="+", choices=kinds, default=kinds)
    parser.add_argument("--files", type=int, help="most files of each kind")
    parser.add_argument("--samples", type=int, default=5, help="of real people")
    parser.add_argument("--model", choices=["classes", "hdp"], default="classes")
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    if arguments.table:
        print_table()
    else:
        run_all(tuple(arguments.only), arguments.files, arguments.samples, arguments.model)


if __name__ == "__main__":
    main()
