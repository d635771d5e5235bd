"""`keyhole compare`."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from keyhole.commands.config import given, json_flag, quiet_flag
from keyhole.commands.screen import print_table
from keyhole.commands.source import SOURCE_OPTIONS, choose_source, source_flags
from keyhole.evaluation.comparison import Given, Guess, Outcome, describe_estimator
from keyhole.settings import option_help, option_values
from keyhole.words import number

COLUMNS = (
    "estimator",
    *(f"{tau}_{part}" for tau in ("tau1", "tau2") for part in ("mean", "low", "high")),
    "seconds",
    "converged",
    "error",
    "assumes",
    "reference",
)


def table_rows(outcomes: Sequence[Outcome]) -> list[list[Any]]:
    """The header and one row for each estimator; what it does not give is blank."""
    rows: list[list[Any]] = [list(COLUMNS)]
    for outcome in outcomes:
        values: list[Any] = []
        for guess in (outcome.tau1, outcome.tau2):
            values += [guess.mean, *(guess.interval or (None, None))]
        rows.append(
            [
                outcome.name,
                *values,
                f"{outcome.seconds:.2f}",
                outcome.converged,
                outcome.error,
                *describe_estimator(outcome.name),
            ]
        )
    return [["" if value is None else value for value in row] for row in rows]


def print_outcomes(given: Given, outcomes: Sequence[Outcome]) -> None:
    """Print what every estimator says, and what it assumes."""
    sample = given.sample
    click.echo(
        f"{sample.uniques:,} of {sample.records:,} records are alone in the sample; "
        f"the population has {sample.population:,} people.\n"
    )
    print_table(
        ("Estimator", "tau1", "tau2", "Seconds", "Assumes"),
        [
            (
                outcome.name,
                _guess(outcome.tau1),
                _guess(outcome.tau2),
                f"{outcome.seconds:.1f}",
                _remark(outcome),
            )
            for outcome in outcomes
        ],
    )
    click.echo("In brackets: 95 % intervals. Definitions and references: docs/estimators.md, --json or --csv.")


def _guess(guess: Guess) -> str:
    if guess.mean is None:
        return "-"
    if guess.interval is None:
        return number(guess.mean)
    low, high = guess.interval
    return f"{number(guess.mean)} [{number(low)}, {number(high)}]"


def _remark(outcome: Outcome) -> str:
    if outcome.error is not None:
        return f"FAILED: {outcome.error}"
    assumes, _ = describe_estimator(outcome.name)
    if outcome.converged is False:
        return f"{assumes}. NOT CONVERGED in its time (--time-limit)"
    if "below_2" in outcome.details:
        counts = ", ".join(f"{outcome.details[f'below_{k}']:,} (k = {k})" for k in (2, 3, 5))
        return f"{assumes}. Records in cells of fewer than k: {counts}"
    if "chosen" in outcome.details:
        return f"{assumes}. Here: {outcome.details['chosen']}"
    if outcome.details.get("b1") is not None:
        return f"{assumes}. B1 = {outcome.details['b1']:.1f}, B2 = {outcome.details['b2']:.1f} (above 2: too simple)"
    return assumes


TIME_LIMIT = "25s"
"""For each of our four models: with compiling, a file of a thousand records takes less than three minutes."""


@click.command("compare", short_help="Our estimate beside those of other methods.")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--keys", required=True, metavar="A,B,C", help="Columns an intruder could know about a person.")
@click.option("--population", type=int, metavar="N", help="People in the population the sample is drawn from.")
@click.option("--fraction", type=float, metavar="F", help="Share of the population in the sample, in place of N.")
@click.option("--codebook", type=click.Path(path_type=Path), help="YAML or JSON: the categories of each key.")
@click.option("--zeros", type=click.Path(path_type=Path), help="CSV or YAML: combinations that cannot exist.")
@click.option("--drop-contradictions", is_flag=True, help="Leave out records that contradict a rule.")
@click.option("--allow-identifier", multiple=True, metavar="KEY", help="Accept a key that looks like an identifier.")
@source_flags()
@click.option("--missing", metavar=option_values("missing"), help=option_help("missing"))
@click.option("--estimators", metavar="A,B", help="Run only these.  [default: all]")
@click.option("--time-limit", metavar="DURATION", help=f"For each of our models.  [default: {TIME_LIMIT}]")
@click.option("--chains", metavar=option_values("chains"), help=option_help("chains"))
@click.option("--seed", metavar=option_values("seed"), help=option_help("seed"))
@click.option("--workers", metavar=option_values("workers"), help=option_help("workers"))
@click.option("--max-sweeps", metavar=option_values("max_sweeps"), help=option_help("max_sweeps"))
@click.option("--csv", "csv_file", type=click.Path(path_type=Path), help="Write the table to this file as well.")
@json_flag
@quiet_flag
def command(
    file: Path | None,
    keys: str,
    population: int | None,
    fraction: float | None,
    codebook: Path | None,
    zeros: Path | None,
    drop_contradictions: bool,
    allow_identifier: tuple[str, ...],
    url: str | None,
    missing: str | None,
    estimators: str | None,
    time_limit: str | None,
    csv_file: Path | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Estimate tau1 and tau2 of FILE by our models and by the classical methods, in one table.

    \b
    tau1: how many sample uniques are population uniques
    tau2: correct matches expected when every sample unique is guessed among all who fit

    \b
    hdp-adaptive, hdp-paper, mixed-5, mixed-20   our models, with 95 % intervals
    loglinear-main, -two-way, -forward           Poisson log-linear models (Skinner and Shlomo 2008)
    individual-risk                              Benedetti and Franconi (1998): sdcMicro measure_risk, mu-ARGUS
    pitman, zayatz, slide-negative-binomial      population uniques U, as in ARX; tau1 = U n / N
    dankar                                       which of these three to trust (Dankar et al. 2012)
    k-anonymity                                  records in cells of fewer than 2, 3 and 5 records

    Definitions and references are in docs/estimators.md. An estimator that fails is a line that says why: with
    --missing model and blank keys, all but our models, since the others need every answer.

    \b
    Example:
      keyhole compare survey.csv --keys AGE,SEX,MARST --population 953076
    """
    if (population is None) == (fraction is None):
        raise click.UsageError("give one of --population N and --fraction F.")

    from keyhole.commands.screen import print_json
    from keyhole.data import SourceOptions
    from keyhole.evaluation.comparison import choose_estimators, compare, describe_outcome, prepare
    from keyhole.files import write_text

    chosen = choose_estimators(estimators)
    source = choose_source(file, url, options["query"])
    reading = SourceOptions(**given({name: options.pop(name) for name in SOURCE_OPTIONS}))
    settings = given({**options, "time_limit": time_limit or TIME_LIMIT})
    data = prepare(
        source,
        keys,
        population,
        fraction,
        codebook,
        zeros,
        drop_contradictions,
        allow_identifier,
        **given({"missing": missing}),
        reading=reading,
    )
    tell = None if quiet or as_json else lambda name: click.echo(f"{name} ...", err=True)
    outcomes = compare(data, chosen, tell, **settings)
    if csv_file is not None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(table_rows(outcomes))
        write_text(text.getvalue(), csv_file)
    if as_json:
        sample = data.sample
        told = {"records": sample.records, "population": sample.population, "sample_uniques": sample.uniques}
        print_json({"input": told, "estimators": [describe_outcome(outcome) for outcome in outcomes]})
    elif not quiet:
        print_outcomes(data, outcomes)
    return 0
