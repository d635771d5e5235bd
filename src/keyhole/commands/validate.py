"""`keyhole validate`."""

from pathlib import Path
from typing import Any

import click
import numpy as np

from keyhole.commands.config import given, json_flag, quiet_flag
from keyhole.commands.screen import print_table
from keyhole.commands.source import SOURCE_OPTIONS, choose_source, source_flags, source_stem
from keyhole.settings import option_help, option_values
from keyhole.words import number


def print_scores(result: dict[str, Any], folder: Path) -> None:
    """Print the figures of every estimator, tau1 first."""
    truth = {tau: float(np.mean(values)) for tau, values in result["truth"].items()}
    click.echo(
        f"{result['replicates']} samples of {result['sample_size']:,} from {result['population']:,} people. On average "
        f"{number(float(np.mean(result['sample_uniques'])))} sample uniques, tau1 = {number(truth['tau1'])} and "
        f"tau2 = {number(truth['tau2'])}.\n"
    )
    for tau in ("tau1", "tau2"):
        print_table(
            (tau, "Bias", "RMSE", "Coverage", "Width", "Seconds"),
            [
                (
                    entry["name"],
                    *(_figure(entry[tau][name]) for name in ("bias", "rmse")),
                    "-" if entry[tau]["coverage"] is None else f"{100 * entry[tau]['coverage']:.0f} %",
                    _figure(entry[tau]["width"]),
                    f"{entry['seconds']:.1f}",
                )
                for entry in result["estimators"]
            ],
        )
    for entry in result["estimators"]:
        if entry["not_converged"] or entry["failed"]:
            click.echo(f"{entry['name']}: {_remark(entry)}")
    click.echo(f"Coverage is that of the 95 % interval. All figures and the plot are in {folder}/.")


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _remark(entry: dict[str, Any]) -> str:
    told = []
    if entry["not_converged"]:
        told.append(f"{entry['not_converged']} not converged in its time (--time-limit)")
    if entry["failed"]:
        told.append(f"{entry['failed']} failed: {entry['errors'][0]}")
    return "; ".join(told)


@click.command("validate", short_help="Check estimators on a population you know.")
@click.argument("population", type=click.Path(path_type=Path), required=False)
@click.option("--keys", required=True, metavar="A,B,C", help="Columns an intruder could know about a person.")
@click.option("--sample-size", required=True, type=int, metavar="n", help="People in each sample.")
@click.option("--replicates", required=True, type=int, metavar="R", help="How many samples to draw.")
@click.option("--codebook", type=click.Path(path_type=Path), help="YAML or JSON: the categories of each key.")
@click.option("--zeros", type=click.Path(path_type=Path), help="CSV or YAML: combinations that cannot exist.")
@source_flags()
@click.option(
    "--missing",
    type=click.Choice(["category", "drop"]),
    default="category",
    show_default=True,
    help="A blank key is a category of its own, or the person is left out.",
)
@click.option("--estimators", metavar="A,B", help="Which to check.  [default: hdp-adaptive and all classical ones]")
@click.option("--out", type=click.Path(path_type=Path), help="Result folder.  [default: POPULATION-stem.validate]")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the samples and of the chains.")
@click.option("--workers", type=int, help="Replicates that run at once.  [default: one for each core]")
@click.option("--time-limit", metavar="DURATION", help="For each of our models on each sample.  [default: 30s]")
@click.option("--chains", metavar=option_values("chains"), help=option_help("chains"))
@click.option("--max-sweeps", metavar=option_values("max_sweeps"), help=option_help("max_sweeps"))
@json_flag
@quiet_flag
def command(
    population: Path | None,
    keys: str,
    sample_size: int,
    replicates: int,
    codebook: Path | None,
    zeros: Path | None,
    estimators: str | None,
    out: Path | None,
    seed: int,
    workers: int | None,
    url: str | None,
    missing: str,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Draw samples from POPULATION, a file with one row for everybody, and hold estimates against the truth.

    For tau1 and tau2 it reports bias, root mean squared error, and coverage and mean width of the 95 % interval; in
    validation.json also how well the risks of single records are calibrated, in tenths of the records. Estimators are
    those of `keyhole compare`. Without a codebook the categories are those of the population.

    The folder holds plan.json, a file for each finished replicate, validation.json and validation.svg. The same command
    again, or with more replicates or other estimators, goes on where it was.

    \b
    Example:
      keyhole validate census.parquet --keys AGE,SEX,MARST --sample-size 1000 --replicates 50
    """
    from keyhole.commands.screen import print_json
    from keyhole.data import SourceOptions
    from keyhole.evaluation import validate

    source = choose_source(population, url, options["query"])
    folder = out if out is not None else Path(f"{source_stem(source)}.validate")
    reading = SourceOptions(**given({name: options.pop(name) for name in SOURCE_OPTIONS}))
    tell = None
    if not (quiet or as_json):

        def tell(finished: int, wanted: int) -> None:
            click.echo(f"{finished} of {wanted} replicates", err=True)

    result = validate(
        source,
        keys,
        sample_size,
        replicates,
        folder,
        codebook=codebook,
        zeros=zeros,
        estimators=estimators,
        seed=seed,
        workers=workers,
        on_finished=tell,
        missing=missing,
        reading=reading,
        **given(options),
    )
    if as_json:
        print_json(result)
    elif not quiet:
        print_scores(result, folder)
    return 0
