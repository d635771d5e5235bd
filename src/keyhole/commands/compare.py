"""`keyhole compare`."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from keyhole.commands import flags
from keyhole.commands.flags import add, choose_source, given, settings_flags, take_reading
from keyhole.commands.screen import print_json, print_na, print_table, with_interval
from keyhole.evaluation.comparison import Given, Guess, Outcome, describe_estimator
from keyhole.words import as_flags, number

TIME_LIMIT = "25s"
COLUMNS = (
    "estimator",
    *(f"{tau}_{part}" for tau in ("tau1", "tau2") for part in ("mean", "low", "high")),
    *("seconds", "converged", "error", "assumes", "reference"),
)


def table_rows(outcomes: Sequence[Outcome]) -> list[list[Any]]:
    """Return the header and one row for each estimator; what it does not give is blank."""
    rows: list[list[Any]] = [list(COLUMNS)]
    for outcome in outcomes:
        values: list[Any] = []
        for guess in (outcome.tau1, outcome.tau2):
            values += [guess.mean, *(guess.interval or (None, None))]
        state = (f"{outcome.seconds:.2f}", outcome.converged, outcome.error)
        rows.append([outcome.name, *values, *state, *describe_estimator(outcome.name)])
    return [["" if value is None else value for value in row] for row in rows]


def print_outcomes(given: Given, outcomes: Sequence[Outcome]) -> None:
    """Print the estimates of every estimator, and what it assumes."""
    sample = given.sample
    click.echo(
        f"{sample.uniques:,} of {sample.records:,} records are alone in the sample; "
        f"the population has {sample.population:,} people.\n"
    )
    print_table(
        ("Estimator", "tau1", "tau2", "Seconds", "Assumes"),
        [
            (found.name, _estimate(found.tau1), _estimate(found.tau2), f"{found.seconds:.1f}", _remark(found))
            for found in outcomes
        ],
    )
    click.echo("In brackets: 95 % intervals. Definitions and references: docs/estimators.md, --json or --csv.")


def _estimate(guess: Guess) -> str:
    if guess.mean is None:
        return "-"
    if guess.interval is None:
        return number(guess.mean)
    return with_interval({"mean": guess.mean, "interval": guess.interval})


def _remark(outcome: Outcome) -> str:
    if outcome.error is not None:
        return as_flags(f"FAILED: {outcome.error}")
    assumes, _ = describe_estimator(outcome.name)
    details = outcome.details
    if outcome.converged is False:
        return f"{assumes}. NOT CONVERGED in its time (--time-limit)"
    if "below_2" in details:
        counts = ", ".join(f"{details[f'below_{k}']:,} (k = {k})" for k in (2, 3, 5))
        return f"{assumes}. Records in cells of fewer than k: {counts}"
    if "chosen" in details:
        return f"{assumes}. Here: {details['chosen']}"
    if details.get("b1") is not None:
        return f"{assumes}. B1 = {details['b1']:.1f}, B2 = {details['b2']:.1f} (above 2: too simple)"
    return assumes


@click.command("compare", short_help="Compare keyhole's estimates with those of other methods.")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@add(
    flags.KEYS,
    flags.POPULATION,
    flags.FRACTION,
    flags.CODEBOOK,
    flags.ZEROS,
    flags.DROP,
    flags.IDENTIFIER,
    *flags.DATABASE,
    *flags.CELLS,
    settings_flags("missing"),
)
@click.option("--estimators", metavar="A,B", help="Run only these.  [default: all]")
@click.option(
    "--time-limit",
    metavar="DURATION",
    help=f"For each of keyhole's models.  [default: {TIME_LIMIT}]",
)
@add(settings_flags("chains", "seed", "workers", "max_sweeps"))
@click.option("--csv", "csv_file", type=click.Path(path_type=Path), help="Write the table to this file as well.")
@add(flags.JSON, flags.QUIET)
def command(
    file: Path | None,
    url: str | None,
    estimators: str | None,
    csv_file: Path | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Estimate tau1 and tau2 of FILE by keyhole's models and by the classical methods, in one table.

    \b
    tau1: how many sample uniques are population uniques
    tau2: expected number of correct matches if every sample unique is matched at random to someone with its keys

    \b
    hdp-adaptive, hdp-paper, mixed-5, mixed-20   keyhole's models, with 95 % intervals
    loglinear-main, -two-way, -forward           Poisson log-linear models (Skinner and Shlomo 2008)
    individual-risk                              Benedetti and Franconi (1998): sdcMicro measure_risk, mu-ARGUS
    pitman, zayatz, slide-negative-binomial      population uniques U, as in ARX; tau1 = U n / N
    dankar                                       the one of these three to trust (Dankar et al. 2012)
    k-anonymity                                  records in cells of fewer than 2, 3 and 5 records

    Definitions and references are in docs/estimators.md. The line of an estimator that fails says why: with
    --missing model and blank keys, all but keyhole's models fail, since they need every answer.

    \b
    Example:
      keyhole compare survey.csv --keys AGE,SEX,MARST --population 953076
    """
    if (options["population"] is None) == (options["fraction"] is None):
        raise click.UsageError("give one of --population N and --fraction F.")

    from keyhole.evaluation.comparison import choose_estimators, describe_outcome, prepare, run_estimators
    from keyhole.files import write_text

    chosen = choose_estimators(estimators)
    source = choose_source(file, url, options["query"])
    reading = take_reading(options)
    settings = {name: options.pop(name) for name in ("time_limit", "chains", "seed", "workers", "max_sweeps")}
    data = prepare(source, **given(options), reading=reading)
    on_start = None if quiet or as_json else lambda name: click.echo(f"{name} ...", err=True)
    outcomes = run_estimators(data, chosen, on_start, **given(settings))
    if not quiet:
        print_na(data.na)
    if csv_file is not None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(table_rows(outcomes))
        write_text(text.getvalue(), csv_file)
    if as_json:
        sample = data.sample
        counts = {"records": sample.records, "population": sample.population, "sample_uniques": sample.uniques}
        print_json(
            {"input": {**counts, "na": data.na}, "estimators": [describe_outcome(outcome) for outcome in outcomes]}
        )
    elif not quiet:
        print_outcomes(data, outcomes)
    return 0
