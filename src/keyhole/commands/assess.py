"""`keyhole assess`."""

from pathlib import Path
from typing import Any

import click

from keyhole.commands.options import given, json_flag, quiet_flag, settings_flags

NOT_CONVERGED = 3


@click.command("assess", short_help="Estimate the disclosure risk of a file.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--keys", required=True, metavar="A,B,C", help="Columns an intruder could know about a person.")
@click.option("--population", type=int, metavar="N", help="People in the population the sample is drawn from.")
@click.option("--fraction", type=float, metavar="F", help="Share of the population in the sample, in place of N.")
@click.option("--codebook", type=click.Path(path_type=Path), help="YAML or JSON: the categories of each key.")
@click.option("--zeros", type=click.Path(path_type=Path), help="CSV or YAML: combinations that cannot exist.")
@click.option("--drop-contradictions", is_flag=True, help="Leave out records that contradict a rule.")
@click.option("--out", type=click.Path(path_type=Path), help="Result folder.  [default: FILE-stem.keyhole]")
@click.option("--allow-identifier", multiple=True, metavar="KEY", help="Accept a key that looks like an identifier.")
@settings_flags()
@json_flag
@quiet_flag
def command(
    file: Path,
    keys: str,
    population: int | None,
    fraction: float | None,
    codebook: Path | None,
    zeros: Path | None,
    drop_contradictions: bool,
    out: Path | None,
    allow_identifier: tuple[str, ...],
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Estimate how many people in FILE could be picked out by the key variables.

    FILE is a table in CSV, TSV or Parquet with one row per person, a simple random sample of the population.

    \b
    Example:
      keyhole assess survey.csv --keys AGE,SEX,MARST --population 953076

    The result folder holds report.html (to read and to print), summary.json, records.csv (the risk of every record),
    draws.nc (for ArviZ) and manifest.json. Only its owner can read it.
    """
    if (population is None) == (fraction is None):
        raise click.UsageError("give one of --population N and --fraction F.")
    folder = out if out is not None else Path(f"{file.stem}.keyhole")

    from keyhole import assess
    from keyhole.commands.progress import show_progress
    from keyhole.commands.screen import print_json, print_summary
    from keyhole.results import check_output

    check_output(folder)
    with show_progress(quiet or as_json) as on_progress:
        assessment = assess(
            file,
            keys,
            population=population,
            fraction=fraction,
            codebook=codebook,
            zeros=zeros,
            drop_contradictions=drop_contradictions,
            allow_identifier=allow_identifier,
            on_progress=on_progress,
            **given(options),
        )
    assessment.save(folder)
    if as_json:
        print_json(assessment.summary)
    elif not quiet:
        print_summary(assessment.summary, folder)
    if assessment.diagnosis.converged:
        return 0
    click.echo(f"keyhole: {assessment.diagnosis.message}", err=True)
    return NOT_CONVERGED
