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
QUICK: dict[str, Any] = {"target_ess": 200, "time_limit": "45s"}


@click.command("demo", short_help="Try it on a made-up country whose true risk is known.")
@settings_flags()
@quiet_flag
def command(quiet: bool, **options: Any) -> int:
    """Draw a made-up country, take a sample, estimate its risk, and compare with the truth.

    The estimate is made without and with rules for combinations that cannot exist.
    """
    from keyhole.demo import KEYS, make_demonstration

    demonstration = make_demonstration()
    click.echo(
        f"A made-up country of {demonstration.population.height:,} people, a sample of "
        f"{demonstration.sample.height:,}, and {len(KEYS)} key variables: {', '.join(KEYS)}."
    )
    _print_comparison(demonstration, _run(demonstration, quiet, QUICK | given(options)))
    return 0


def _run(demonstration: "Demonstration", quiet: bool, options: dict[str, Any]) -> dict[str, "Assessment"]:
    """Assess the sample as a user would, without and with rules."""
    from keyhole import assess
    from keyhole.abilities import zeros_are_modelled
    from keyhole.commands.progress import show_progress
    from keyhole.demo import CODEBOOK, KEYS, RULES

    runs = {}
    with tempfile.TemporaryDirectory() as folder:
        rules = Path(folder) / "rules.yaml"
        rules.write_text(RULES, encoding="utf-8")
        for name, zeros in {"without rules": None, "with rules": rules}.items():
            if zeros is not None and not zeros_are_modelled():
                continue
            if not quiet:
                click.echo(f"Estimating {name} for impossible combinations ...", err=True)
            with show_progress(quiet) as on_progress:
                runs[name] = assess(
                    demonstration.sample,
                    KEYS,
                    population=demonstration.population.height,
                    codebook=CODEBOOK,
                    zeros=zeros,
                    on_progress=on_progress,
                    **options,
                )
    return runs


def _print_comparison(demonstration: "Demonstration", runs: dict[str, "Assessment"]) -> None:
    from keyhole.commands.screen import number, print_table, sentences

    *_, best = runs.values()
    click.echo()
    for sentence in sentences(best.summary):
        click.echo(sentence)
    click.echo(
        f"In this country everybody is known. The truth: {demonstration.tau1} are alone in the population, "
        f"and {number(demonstration.tau2)} would be matched."
    )
    body = []
    for name, found in runs.items():
        for title, measure, truth in (
            ("alone in the population, tau1", found.tau1, float(demonstration.tau1)),
            ("matched correctly, tau2", found.tau2, demonstration.tau2),
        ):
            low, high = measure.interval
            held = "yes" if low <= truth <= high else "no"
            interval = f"{number(low)} to {number(high)}"
            body.append((f"{title} ({name})", number(measure.mean), interval, number(truth), held))
    print_table(("", "Estimate", "95 % interval", "Truth", "In the interval"), body)
    click.echo("Even a perfect 95 % interval misses the truth once in twenty files.")
    if len(runs) > 1:
        click.echo("Without rules the model gives weight to people who cannot exist, such as married children.")
    for name, found in runs.items():
        click.echo(f"Convergence {name}: {found.diagnosis.message}")
    click.echo("\nYour own file: keyhole assess FILE --keys AGE,SEX,... --population N")
