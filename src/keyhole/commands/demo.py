"""`keyhole demo`."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keyhole.commands.flags import QUIET, add, given, settings_flags
from keyhole.errors import silenced

if TYPE_CHECKING:
    from keyhole.demo import Simulation
    from keyhole.results.assessment import Assessment

TIME_LIMIT = "60s"
RULES_RUN = "with rules"
COMPARISON = "without rules"


@click.command("demo", short_help="Try it on a made-up country whose true risk is known.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Write the country's files to this new folder, and estimate nothing."
)
@add(settings_flags(), QUIET)
def command(out: Path | None, quiet: bool, **options: Any) -> int:
    """Draw a made-up country, take a sample, estimate its risk, and compare with the truth.

    The estimate is made with rules for combinations that cannot exist and, for comparison, without. It takes
    about ten seconds, and about a minute more to compile when keyhole has never run before.

    \b
    Example, to try the other commands on the same files:
      keyhole demo --out country
      keyhole zeros check country/rules.yaml country/sample.csv --codebook country/codebook.json
    """
    from keyhole.demo import KEYS, RULES, make_demonstration, write_simulation
    from keyhole.files import write_text

    demonstration = make_demonstration()
    click.echo(
        f"A made-up country of {demonstration.population.height:,} people, a sample of "
        f"{demonstration.sample.height:,}, and {len(KEYS)} key variables: {', '.join(KEYS)}.\n"
        f"{demonstration.truth['sample_uniques']:,} records are alone in the sample."
    )
    if out is None:
        _print_comparison(demonstration, _run(demonstration, quiet, given(options)))
        return 0
    write_simulation(demonstration, out)
    write_text(RULES, out / "rules.yaml")
    click.echo(
        f"{out} holds sample.csv, codebook.json and rules.yaml, and what is unknown in practice: population.csv and "
        "truth.json."
    )
    return 0


def _run(demonstration: "Simulation", quiet: bool, options: dict[str, Any]) -> dict[str, "Assessment"]:
    """Assess the sample as a user would, with and without rules."""
    from keyhole import assess
    from keyhole.commands.progress import show_progress
    from keyhole.demo import CODEBOOK, KEYS, RULES

    runs = {}
    chosen = {"time_limit": TIME_LIMIT, **options}
    with tempfile.TemporaryDirectory() as folder:
        rules = Path(folder) / "rules.yaml"
        rules.write_text(RULES, encoding="utf-8")
        for name, zeros in ((RULES_RUN, rules), (COMPARISON, None)):
            if not quiet:
                click.echo(f"Estimating {name} (at most {chosen['time_limit']} of sampling) ...", err=True)
            with silenced(), show_progress(quiet) as on_progress:
                runs[name] = assess(
                    demonstration.sample,
                    KEYS,
                    population=demonstration.population.height,
                    codebook=CODEBOOK,
                    zeros=zeros,
                    on_progress=on_progress,
                    **chosen,
                )
    return runs


def _print_comparison(demonstration: "Simulation", runs: dict[str, "Assessment"]) -> None:
    from keyhole.commands.screen import print_table, sentences
    from keyhole.words import number, percent, with_interval

    summary = runs[RULES_RUN].summary
    click.echo()
    for sentence in sentences(summary):
        click.echo(sentence)
    click.echo("In this country everybody is known, so the estimates can be compared with the truth:")
    truth = demonstration.truth
    body = [("the truth", str(truth["tau1"]), number(truth["tau2"]), "")]
    for name, found in runs.items():
        tau1, tau2 = (with_interval(found.summary[tau]) for tau in ("tau1", "tau2"))
        body.append((name, tau1, tau2, "yes" if found.diagnosis.converged else "NO"))
    print_table(("", "alone in population, tau1", "matched, tau2", "Converged"), body)
    click.echo(
        "In brackets: 95 % intervals, over all chains where Converged is NO; "
        "even a perfect one misses the truth once in twenty files.\n"
        f"The {summary['zeros']['rules']} rules exclude {percent(summary['zeros']['share'])} of all combinations, such "
        "as married children.\nWithout them the model spreads people over these combinations too."
    )
    apart = {name: found for name, found in runs.items() if not found.diagnosis.converged}
    if apart:
        click.echo("Converged NO: the chains do not agree yet after so short a run; the estimate is provisional.")
    for name, found in apart.items():
        click.echo(f"  {name}: {_what_failed(found)}")
    click.echo("\nYour own file: keyhole assess FILE --keys AGE,SEX,... --population N [--zeros RULES]")


def _what_failed(found: "Assessment") -> str:
    """Say how many conditions are not met, and what would help."""
    from keyhole.risk.advice import counts, describe_remedy
    from keyhole.words import as_flags

    gates = [gate for gate in found.diagnosis.gates if counts(gate)]
    failed = sum(not gate.passed for gate in gates)
    return as_flags(f"{failed} of {len(gates)} conditions are not met. {describe_remedy(found.diagnosis.verdict)}")
