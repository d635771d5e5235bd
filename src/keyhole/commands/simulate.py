"""`keyhole simulate`."""

from pathlib import Path
from typing import Any

import click

from keyhole.commands.flags import COUNT, ZEROS, add, given, settings_flags


@click.command("simulate", short_help="Draw a population and a sample from the model.")
@click.option("--levels", required=True, metavar="5,2,6", help="Number of categories of each key variable.")
@click.option("--population", required=True, type=COUNT, metavar="N", help="People in the population.")
@click.option("--sample", required=True, type=COUNT, metavar="n", help="People in the sample.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="A new or empty folder.")
@add(ZEROS, settings_flags("model", "prior", "profiles", "seed"))
def command(levels: str, population: int, sample: int, out: Path, zeros: Path | None, **options: Any) -> int:
    """Draw parameters from the prior, people from the model, and a simple random sample of them.

    The hyperparameters (concentrations, base levels and their strength) are drawn too. Rules name the keys K1, K2,
    ... and their categories 1, 2, ...; only people whom the rules allow are drawn.

    Writes population.csv, sample.csv, codebook.json and truth.json (the true tau1 and tau2) into the folder.

    \b
    Example:
      keyhole simulate --levels 5,2,6,5,4 --population 50000 --sample 1000 --out trial
      keyhole assess trial/sample.csv --keys K1,K2,K3,K4,K5 --population 50000 --codebook trial/codebook.json
    """
    sizes = levels.split(",")
    if not all(size.strip().isdecimal() for size in sizes):
        raise click.UsageError("--levels takes numbers with commas between them, for instance 5,2,6.")

    from keyhole.demo import check_folder, simulate, write_simulation

    check_folder(out)
    found = simulate([int(size) for size in sizes], population, sample, zeros, **given(options))
    write_simulation(found, out)
    truth = found.truth
    click.echo(
        f"{out} holds a population of {population:,} and a sample of {sample:,}. {truth['sample_uniques']:,} records "
        f"are alone in the sample; {truth['tau1']:,} of them are alone in the population (tau1), and the expected "
        f"number of correct matches is {truth['tau2']:.1f} (tau2)."
    )
    return 0
