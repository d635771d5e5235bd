"""The table of `keyhole compare`, on the screen and as rows of a CSV file."""

from collections.abc import Sequence
from typing import Any

import click

from keyhole.commands.screen import print_table
from keyhole.comparison import Given, Guess, Outcome, describe_estimator
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
