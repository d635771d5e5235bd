"""`keyhole simulate`."""

from pathlib import Path

import click

from keyhole.commands.config import given
from keyhole.settings import option_help, option_values


@click.command("simulate", short_help="Draw a population and a sample from the model.")
@click.option("--levels", required=True, metavar="5,2,6", help="Number of categories of each key variable.")
@click.option("--population", required=True, type=int, metavar="N", help="People in the population.")
@click.option("--sample", required=True, type=int, metavar="n", help="People in the sample.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="A new or empty folder.")
@click.option("--zeros", type=click.Path(path_type=Path), help="CSV or YAML: combinations that cannot exist.")
@click.option("--model", metavar=option_values("model"), help=option_help("model"))
@click.option("--prior", metavar=option_values("prior"), help=option_help("prior"))
@click.option("--profiles", metavar=option_values("profiles"), help=option_help("profiles"))
@click.option("--seed", metavar=option_values("seed"), help=option_help("seed"))
def command(
    levels: str,
    population: int,
    sample: int,
    out: Path,
    zeros: Path | None,
    model: str | None,
    prior: str | None,
    profiles: str | None,
    seed: str | None,
) -> int:
    """Draw parameters from the prior, people from the model, and a simple random sample of them.

    The prior's own numbers (concentrations, base levels and their strength) are drawn too. Rules name the keys K1, K2,
    ... and their categories 1, 2, ...; nobody whom they call impossible is drawn.

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
    options = given({"model": model, "prior": prior, "profiles": profiles, "seed": seed})
    found = simulate([int(size) for size in sizes], population, sample, zeros, **options)
    write_simulation(found, out)
    truth = found.truth
    click.echo(
        f"{out} holds {population:,} people and a sample of {sample:,}. Alone in the sample are "
        f"{truth['sample_uniques']:,}; of them alone in the population {truth['tau1']:,} (tau1), "
        f"and correct matches {truth['tau2']:.1f} (tau2)."
    )
    return 0
