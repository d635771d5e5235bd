"""Do the intervals hold what they promise? Populations drawn from the model itself, an assessment of a sample of each.

The hyperparameters are drawn from their priors too, so if sampler and risk are right a 95 % interval covers in 95 of
100 samples, and the place of the truth among the predictive draws (ties at random) is uniform. tau1 is a whole number:
its interval covers more than 95 %, namely the share of the draws in it, and coverage is held against that.

    python -m benchmarks.coverage --replicates 400
    python -m benchmarks.coverage --replicates 400 --zeros

A line of JSON is appended for each replicate; the same command again goes on where it was.
"""

import argparse
import json
import math
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.machine import ROOT
from keyhole.data import count_cells, encode, read_microdata
from keyhole.demo import simulate
from keyhole.diagnostics.laws import Law
from keyhole.errors import KeyholeError
from keyhole.risk import diagnose, summarise_risk
from keyhole.sampling import run_chains
from keyhole.settings import Settings
from keyhole.zeros import read_zeros

LEVELS = [5, 4, 4, 3]
POPULATION, SAMPLE, CHAINS = 1_500, 120, 2
SWEEPS = {False: 1_200, True: 900}
"""Of each chain, without and with rules."""

RULES = """\
impossible:
  - {K1: [1], K2: [2, 3, 4]}
  - {K3: [4], K4: [2, 3]}
  - {K1: [2], K3: [3, 4], K4: [1]}
"""
BAND = 0.999
BINS = 10


def run_replicate(number: int, sweeps: int, rules: Path | None, seed: int = 1) -> dict[str, Any]:
    """Draw a population and a sample, assess the sample, and hold the answer against the truth."""
    numbers = np.random.SeedSequence(seed, spawn_key=(int(rules is not None), number)).generate_state(3, np.uint32)
    drawn = simulate(LEVELS, POPULATION, SAMPLE, rules, seed=int(numbers[0]))
    clock = time.process_time()
    # What `assess` does for tau1 and tau2, without its checks and explanations, which would double the time.
    settings = Settings(seed=int(numbers[1]), chains=CHAINS, workers=1, max_sweeps=sweeps, time_limit="1h")
    microdata = read_microdata(drawn.sample, list(drawn.codebook), drawn.codebook, list(drawn.codebook))
    zeros = None if rules is None else read_zeros(rules, microdata.variables)
    unique = count_cells(microdata.codes).unique_record
    if not len(unique):
        return {"replicate": number, "sweeps": sweeps, "sample_uniques": 0}
    trace = run_chains(encode(microdata), unique, POPULATION, settings, zeros)
    diagnosis = diagnose(trace)
    found = summarise_risk(trace, diagnosis.grade)
    row: dict[str, Any] = {
        "replicate": number,
        "sweeps": sweeps,
        "sample_uniques": drawn.truth["sample_uniques"],
        "ess": diagnosis.ess_bulk,
        "seconds": time.process_time() - clock,
    }
    rng = np.random.default_rng(int(numbers[2]))
    for tau, measure in (("tau1", found.tau1), ("tau2", found.tau2)):
        row[tau] = place_truth(rng, float(drawn.truth[tau]), trace.laws[tau], measure.interval)
        row[tau]["mean"] = measure.mean
    return row


def place_truth(rng: np.random.Generator, truth: float, law: Law, interval: tuple[float, float]) -> dict[str, Any]:
    """Say where the truth lies: in the interval or not, and which share of the law is below it, ties at random.

    mass: the share of the law in the interval, which is the chance of covering if the law is right.
    """
    # Sums of 1/F in another order differ in their last digits; that is a tie.
    near = 1e-9 * max(1.0, abs(truth))
    low, high = interval[0] - near, interval[1] + near
    below, up_to = (1.0 - law.probability_above(end) for end in (truth - near, truth + near))
    return {
        "truth": truth,
        "interval": [float(interval[0]), float(interval[1])],
        "covered": bool(low <= truth <= high),
        "mass": law.probability_above(low) - law.probability_above(high),
        "place": below + rng.random() * (up_to - below),
    }


def judge(rows: list[dict[str, Any]], tau: str) -> dict[str, Any]:
    """Coverage beside its band, and how uniform the places of the truth are."""
    covered = np.array([row[tau]["covered"] for row in rows])
    mass = np.array([row[tau]["mass"] for row in rows])
    place = np.array([row[tau]["place"] for row in rows])
    edge = float(stats.norm.ppf(0.5 + BAND / 2.0)) * math.sqrt(float((mass * (1.0 - mass)).sum())) / len(rows)
    binomial = stats.binom.interval(BAND, len(rows), 0.95)
    error = np.array([row[tau]["mean"] - row[tau]["truth"] for row in rows])
    return {
        "replicates": len(rows),
        "coverage": float(covered.mean()),
        "binomial_band": [float(end) / len(rows) for end in binomial],
        "promised": float(mass.mean()),
        "band": [float(mass.mean()) - edge, min(float(mass.mean()) + edge, 1.0)],
        "bias": float(error.mean()),
        "bias_se": float(error.std(ddof=1) / math.sqrt(len(rows))),
        "uniform_p": float(stats.kstest(place, "uniform").pvalue),
        "bins": np.histogram(place, BINS, (0.0, 1.0))[0].tolist(),
        "bins_p": float(stats.chisquare(np.histogram(place, BINS, (0.0, 1.0))[0]).pvalue),
    }


def print_verdict(rows: list[dict[str, Any]]) -> None:
    """Tell coverage and calibration of tau1 and tau2."""
    few = [row for row in rows if row["sample_uniques"] == 0]
    told = [row for row in rows if row["sample_uniques"] > 0]
    print(f"{len(rows)} samples of {SAMPLE} from {POPULATION:,}, {len(few)} without a sample unique (left out below);")
    print(
        f"median effective draws {np.median([row['ess'] or 0 for row in told]):.0f}, "
        f"{np.mean([row['seconds'] for row in told]):.1f} s of processor time each"
    )
    for tau in ("tau1", "tau2"):
        found = judge(told, tau)
        low, high = found["band"]
        print(
            f"{tau}: the 95 % interval holds the truth in {found['coverage']:.1%} "
            f"(the draws promise {found['promised']:.1%}, 99.9 % band {low:.1%} to {high:.1%}: "
            f"{'inside' if low <= found['coverage'] <= high else 'OUTSIDE'}); "
            f"bias {found['bias']:+.3f} +/- {found['bias_se']:.3f}; place of the truth uniform: "
            f"Kolmogorov-Smirnov p = {found['uniform_p']:.3f}, tenths {found['bins']} p = {found['bins_p']:.3f}"
        )


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the replicates that are done; a last line that was cut off is none."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [json.loads(line) for line in lines]


def main(arguments: list[str] | None = None) -> None:
    """Run the replicates that are missing, then judge."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description=__doc__)
    parser.add_argument("--replicates", type=int, default=400)
    parser.add_argument("--zeros", action="store_true", help="with structural zeros")
    parser.add_argument("--sweeps", type=int, help="of each chain")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "output")
    chosen = parser.parse_args(arguments)
    sweeps = chosen.sweeps or SWEEPS[chosen.zeros]
    chosen.out.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = chosen.out / f"coverage-{'zeros' if chosen.zeros else 'plain'}-{sweeps}.jsonl"
    rows = read_rows(path)
    done = {row["replicate"] for row in rows}
    with tempfile.TemporaryDirectory() as folder, open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+") as file:
        file.truncate(sum(len(json.dumps(row)) + 1 for row in rows))
        file.seek(0, os.SEEK_END)
        rules = None
        if chosen.zeros:
            rules = Path(folder) / "rules.yaml"
            rules.write_text(RULES, encoding="utf-8")
        for number in range(1, chosen.replicates + 1):
            if number in done:
                continue
            try:
                rows.append(run_replicate(number, sweeps, rules))
            except KeyholeError as error:
                raise SystemExit(f"replicate {number}: {error}") from None
            file.write(json.dumps(rows[-1]) + "\n")
            file.flush()
    print_verdict(rows)


if __name__ == "__main__":
    main()
