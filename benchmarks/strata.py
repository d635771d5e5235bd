"""Do intervals hold in stratified samples? Populations drawn from the model, sampled by strata of unequal fractions.

Populations are drawn from `classes`, with hyperparameters from their priors, but for the rows of the stratum: they are
sharp, so that strata differ in their profiles and ignoring them fails. Each replicate is assessed
twice, with the strata and as a simple random sample.

    python -m benchmarks.strata --replicates 200
    python -m benchmarks.strata --replicates 200 --model hdp

A line of JSON is appended for each replicate to benchmarks/output; the same command again goes on where it was.
"""

import argparse
import json
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.machine import ROOT
from keyhole.data import count_records, encode, read_microdata
from keyhole.data.strata import add_strata, make_strata
from keyhole.risk import diagnose, summarise_risk
from keyhole.sampling import run_chains
from keyhole.settings import Settings

LEVELS = (8, 6, 5, 5, 4)
POPULATION, FRACTIONS, SMALLEST = 6_000, (0.05, 0.40), 200
"""People, the sampling fractions of the two strata, and the fewest people of a stratum."""

SHARE, SHARPNESS = 0.15, 0.1
"""Mean share of the second stratum, and the strength of its rows: most profiles are of one stratum only."""

CHAINS = 2


def draw_population(rng: np.random.Generator) -> pl.DataFrame:
    """Draw people from `classes` with parameters from its prior, but for the rows of the stratum."""
    while True:
        concentration = rng.gamma(2.0)
        sticks = rng.beta(1.0, concentration, 200)
        weight = sticks * np.cumprod(np.append(1.0, 1.0 - sticks[:-1]))
        profile = rng.choice(len(weight), POPULATION, p=weight / weight.sum())
        columns = {}
        for j, levels in enumerate(LEVELS):
            strength, base = levels * np.exp(1.5 * rng.standard_normal()), rng.dirichlet(np.ones(levels))
            columns[f"K{j}"] = draw_levels(rng, np.maximum(strength * base, 1e-3), profile)
        columns["S"] = draw_levels(rng, SHARPNESS * np.array([1.0 - SHARE, SHARE]), profile)
        if SMALLEST <= columns["S"].sum() <= POPULATION - SMALLEST:
            return pl.DataFrame(columns)


def draw_levels(rng: np.random.Generator, shape: NDArray[np.float64], profile: NDArray[np.int64]) -> NDArray[np.int64]:
    """Draw a row for each profile, and from it the level of each person."""
    rows = np.cumsum(rng.dirichlet(shape, int(profile.max()) + 1), axis=1)
    found: NDArray[np.int64] = (rng.random(len(profile))[:, None] > rows[profile, :-1]).sum(axis=1)
    return found


def run_replicate(number: int, model: Literal["classes", "hdp"]) -> dict[str, Any]:
    """Draw a population and a sample, and assess it with and without its strata."""
    rng = np.random.default_rng([2_026, number])
    people = draw_population(rng)
    keys = [f"K{j}" for j in range(len(LEVELS))]
    chosen, sizes = [], []
    for s, fraction in enumerate(FRACTIONS):
        rows = np.flatnonzero(people["S"].to_numpy() == s)
        sizes.append(len(rows))
        chosen.append(np.sort(rng.choice(rows, max(int(fraction * len(rows)), 2), replace=False)))
    sample = people[np.concatenate(chosen)]
    size = people.group_by(keys).len("F")
    alone = sample.group_by(keys).len("f").filter(pl.col("f") == 1).join(size, on=keys)["F"].to_numpy()
    truth = {"tau1": float((alone == 1).sum()), "tau2": float((1.0 / alone).sum())}
    row: dict[str, Any] = {"replicate": number, "model": model, "uniques": len(alone), "truth": truth}
    table = pl.DataFrame({"S": [0, 1], "N": sizes})
    microdata = read_microdata(sample, keys, None, keys, strata=["S"])
    unique = count_records(microdata.cells, microdata.cell).unique_record
    if not len(unique):
        return row
    settings = Settings(model=model, seed=number, chains=CHAINS, workers=1, time_limit="5m")
    for name, strata in (("strata", make_strata(microdata, ["S"], table)), ("ignored", None)):
        trace = run_chains(add_strata(encode(microdata), strata), unique, POPULATION, settings, strata=strata)
        grade = diagnose(trace).grade
        found = summarise_risk(trace, grade)
        row[name] = {
            tau: {"mean": measure.mean, "interval": measure.interval}
            for tau, measure in (("tau1", found.tau1), ("tau2", found.tau2))
        } | {"grade": grade}
    return row


def describe(rows: list[dict[str, Any]]) -> None:
    """Print bias, error and coverage, with their Monte Carlo errors."""
    rows = [row for row in rows if "strata" in row]
    n = len(rows)
    print(
        f"{n} replicates, {rows[0]['model']}, mean truth "
        + ", ".join(f"{tau} {np.mean([row['truth'][tau] for row in rows]):.1f}" for tau in ("tau1", "tau2"))
    )
    for design in ("strata", "ignored"):
        for tau in ("tau1", "tau2"):
            truth = np.array([row["truth"][tau] for row in rows])
            error = np.array([row[design][tau]["mean"] for row in rows]) - truth
            ends = np.array([row[design][tau]["interval"] for row in rows])
            holds = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
            print(
                f"{design:8s} {tau}  bias {error.mean():6.2f} +/- {error.std() / np.sqrt(n):.2f}  RMSE "
                f"{np.sqrt((error**2).mean()):6.2f}  coverage {100 * holds.mean():5.1f} % +/- "
                f"{100 * np.sqrt(holds.mean() * (1 - holds.mean()) / n):.1f}"
            )
    grades = [row["strata"]["grade"] for row in rows]
    print("converged with strata:", grades.count("converged"), "of", n)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument("--model", choices=["classes", "hdp"], default="classes")
    chosen = parser.parse_args()
    path: Path = ROOT / "benchmarks" / "output" / f"strata-{chosen.model}.jsonl"
    path.parent.mkdir(exist_ok=True)
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {row["replicate"] for row in rows}
    for number in range(chosen.replicates):
        if number in done:
            continue
        row = run_replicate(number, chosen.model)
        rows.append(row)
        with path.open("a") as file:
            file.write(json.dumps(row) + "\n")
    if rows:
        describe(rows)


if __name__ == "__main__":
    main()
