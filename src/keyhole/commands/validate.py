"""`keyhole validate`."""

import math
import time
from pathlib import Path
from typing import Any

import click
import numpy as np

from keyhole.commands import flags
from keyhole.commands.flags import COUNT, add, choose_source, default_folder, given, settings_flags
from keyhole.commands.screen import print_json, print_na, print_table, print_text
from keyhole.evaluation.replicate import PLOT, RESULT
from keyhole.words import as_flags, duration, number, plural

FEW = 20
"""In fewer samples than this, correct 95 % intervals would miss less than one truth on average."""


def print_scores(result: dict[str, Any], folder: Path) -> None:
    """Print the scores of every estimator, tau1 first."""
    uniques, tau1, tau2 = (
        number(float(np.mean(values)))
        for values in (result["sample_uniques"], result["truth"]["tau1"], result["truth"]["tau2"])
    )
    print_text(
        f"{plural(result['replicates'], 'sample')} of {result['sample_size']:,} from {result['population']:,} people. "
        f"On average {uniques} sample uniques, tau1 = {tau1} and tau2 = {tau2}."
    )
    entries = result["estimators"]
    for tau in ("tau1", "tau2"):
        body = []
        for entry in entries:
            bias, rmse, width = (_figure(entry[tau][name]) for name in ("bias", "rmse", "width"))
            name = entry["name"] + (" *" if _remark(entry) else "")
            body.append((name, bias, rmse, _coverage(entry, tau), width, f"{entry['seconds']:.1f}"))
        print_table((tau, "Bias", "RMSE", "Coverage", "Width", "Seconds"), body)
    for entry in entries:
        if _remark(entry):
            print_text(f"* {entry['name']}: {_remark(entry)}", "  ")
    if any(entry[tau]["coverage"] is not None for entry in entries for tau in ("tau1", "tau2")):
        print_text(describe_coverage(result["replicates"]))
    print_text(f"All scores are in {folder / RESULT}, estimates against the truth in {folder / PLOT}.")


def describe_coverage(replicates: int) -> str:
    """Say what coverage and width are, and how well so many samples determine coverage."""
    what = "Coverage and width are those of the 95 % interval."
    if replicates < FEW:
        return (
            f"{what} {plural(replicates, 'sample')} {'is' if replicates == 1 else 'are'} too few to speak of coverage: "
            f"correct intervals would miss less than one truth on average. Use --replicates {FEW} or more."
        )
    error = 100.0 * math.sqrt(0.95 * 0.05 / replicates)
    return f"{what} In {replicates} samples coverage has a standard error of {error:.1f} percentage points."


def _coverage(entry: dict[str, Any], tau: str) -> str:
    """Write coverage in percent; as a count where a percentage would claim too much."""
    coverage = entry[tau]["coverage"]
    if coverage is None:
        return "-"
    intervals = sum(interval is not None for interval in entry["intervals"][tau])
    return f"{100 * coverage:.0f} %" if intervals >= FEW else f"{coverage * intervals:.0f} of {intervals}"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _remark(entry: dict[str, Any]) -> str:
    parts = []
    if entry["not_converged"]:
        parts.append(f"{entry['not_converged']} not converged in its time (--time-limit)")
    if entry["failed"]:
        parts.append(as_flags(f"{entry['failed']} failed: {entry['errors'][0]}"))
    return "; ".join(parts)


@click.command("validate", short_help="Check estimators on a known population.")
@click.argument("population", type=click.Path(path_type=Path), required=False)
@add(flags.KEYS)
@click.option("--sample-size", required=True, type=COUNT, metavar="n", help="Records in each sample.")
@click.option("--replicates", required=True, type=int, metavar="R", help="How many samples to draw.")
@add(flags.CODEBOOK, flags.ZEROS, *flags.DATABASE, *flags.CELLS)
@click.option(
    "--missing",
    type=click.Choice(["category", "drop"]),
    default="category",
    show_default=True,
    help="A blank key is a category of its own, or its record is left out.",
)
@click.option("--strata", multiple=True, metavar="COL", help="Draw people within the values of COL. May be repeated.")
@click.option(
    "--allocation",
    metavar="HOW",
    help="Records of each stratum: proportional, equal, or a table with its columns and n.  [default: proportional]",
)
@click.option("--ignore-strata", is_flag=True, help="Have keyhole's models take the samples as simple random ones.")
@click.option("--estimators", metavar="A,B", help="Check only these.  [default: hdp-adaptive and all classical ones]")
@click.option("--out", type=click.Path(path_type=Path), help="Result folder.  [default: POPULATION-stem.validate]")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the samples and of the chains.")
@click.option("--workers", type=int, help="Replicates that run at once.  [default: one for each core]")
@click.option("--time-limit", metavar="DURATION", help="For each of keyhole's models on each sample.  [default: 30s]")
@add(settings_flags("ordered", "unordered", "chains", "max_sweeps"), flags.JSON, flags.QUIET)
def command(
    population: Path | None, url: str | None, out: Path | None, as_json: bool, quiet: bool, **options: Any
) -> int:
    """Draw samples from POPULATION, a file with one row per person, and compare estimates with the truth.

    For tau1 and tau2 it reports bias, root mean squared error, and coverage and mean width of the 95 % interval; in
    validation.json also the calibration of the risks of single records, in tenths of the records. Estimators are
    those of `keyhole compare`. Without a codebook the categories are those of the population.

    The folder holds plan.json, a file for each finished replicate, validation.json and validation.svg. The same command
    again, or with more replicates or other estimators, continues where it stopped.

    \b
    Example:
      keyhole validate census.parquet --keys AGE,SEX,MARST --sample-size 1000 --replicates 50
    """
    from keyhole.evaluation import validate

    source = choose_source(population, url, options["query"])
    folder = out if out is not None else default_folder(source, ".validate")
    started, earlier = time.monotonic(), None

    def report_finished(finished: int, wanted: int) -> None:
        nonlocal earlier
        earlier = finished - 1 if earlier is None else earlier  # those of an earlier run took no time now
        left = (time.monotonic() - started) / (finished - earlier) * (wanted - finished)
        more = f", about {duration(left)} left" if finished < wanted else ""
        click.echo(f"{finished} of {wanted} replicates{more}", err=True)

    on_finished = None if quiet or as_json else report_finished
    result = validate(source, folder=folder, on_finished=on_finished, **given(options))
    if as_json:
        print_json(result)
    elif not quiet:
        print_scores(result, folder)
        print_na(result["na"])
    return 0
