"""`keyhole demo`."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keyhole.commands.options import given, quiet_flag, settings_flags

if TYPE_CHECKING:
    from keyhole.assessment import Assessment
    from keyhole.demo import Demonstration

# A demonstration should be quick: fewer effective draws than `assess` asks for.
QUICK: dict[str, Any] = {"target_ess": 200, "time_limit": "60s"}


@click.command("demo", short_help="Try it on a made-up country whose true risk is known.")
@settings_flags()
@quiet_flag
def command(quiet: bool, **options: Any) -> int:
    """Draw a made-up country, take a sample, estimate its risk, and compare with the truth.

    The estimate is made twice: with and without rules for combinations that cannot exist.
    """
    from keyhole import assess
    from keyhole.commands.progress import show_progress
    from keyhole.demo import CODEBOOK, KEYS, POPULATION, RULES, make_demonstration

    demonstration = make_demonstration()
    click.echo(
        f"A made-up country of {POPULATION:,} people, and a sample of {demonstration.sample.height:,} "
        f"with {len(KEYS)} key variables: {', '.join(KEYS)}."
    )
    runs = {}
    with tempfile.TemporaryDirectory() as folder:
        rules = Path(folder) / "rules.yaml"
        rules.write_text(RULES, encoding="utf-8")
        for name, zeros in (("without rules", None), ("with rules", rules)):
            click.echo(f"Estimating {name} for impossible combinations ...", err=True)
            with show_progress(quiet) as on_progress:
                runs[name] = assess(
                    demonstration.sample,
                    KEYS,
                    population=POPULATION,
                    codebook=CODEBOOK,
                    zeros=zeros,
                    on_progress=on_progress,
                    **(QUICK | given(options)),
                )
    _print_comparison(demonstration, runs)
    return 0


def _print_comparison(demonstration: "Demonstration", runs: dict[str, "Assessment"]) -> None:
    from keyhole.commands.screen import number, print_table, sentences

    click.echo()
    click.echo(sentences(runs["with rules"].summary)[0])
    click.echo(f"In truth it is {demonstration.tau1}: in this country everybody is known.")
    body = []
    for name, assessment in runs.items():
        for title, measure, truth in (
            ("alone in the population (tau1)", assessment.tau1, float(demonstration.tau1)),
            ("correct matches (tau2)", assessment.tau2, demonstration.tau2),
        ):
            low, high = measure.interval
            held = "yes" if low <= truth <= high else "no"
            body.append(
                (
                    f"{title}, {name}",
                    number(truth),
                    number(measure.mean),
                    f"{number(low)} to {number(high)}",
                    held,
                )
            )
    print_table(("", "Truth", "Estimate", "95 % interval", "Holds the truth"), body)
    click.echo(
        "A 95 % interval misses the truth about once in twenty files. Without rules the model gives weight "
        "to people who cannot exist, such as married children, and overstates the risk."
    )
    for name, assessment in runs.items():
        click.echo(f"Chains {name}: {assessment.diagnosis.message}")
    click.echo("\nYour own file: keyhole assess FILE --keys AGE,SEX,... --population N")
