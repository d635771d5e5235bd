"""`keyhole protect`."""

from pathlib import Path

import click

from keyhole.commands.flags import OVERWRITE, QUIET, add


@click.command("protect", short_help="Apply a plan to its file.")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--plan", required=True, type=click.Path(path_type=Path), help="A plan.yaml of `keyhole plan`.")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), metavar="FILE", help="A new .csv or .parquet file."
)
@click.option("--shuffle", is_flag=True, help="Put the rows in random order.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of this order.")
@add(OVERWRITE, QUIET)
def command(file: Path, plan: Path, out: Path, shuffle: bool, seed: int, overwrite: bool, quiet: bool) -> int:
    """Apply a plan to FILE, the file that it was made for, and write what may be released.

    Columns that are no keys stay as they are, and so do the order of rows and the values of keys without merged
    categories. Input of any format becomes CSV in UTF-8, or Parquet; SPSS and Stata files lose their labels. Beside the
    file a codebook of the published categories and a log of what was done are written. Nothing is overwritten unasked.

    \b
    Example:
      keyhole protect survey.csv --plan survey.plan/plan.yaml --out protected.parquet
    """
    from keyhole.commands.screen import print_text
    from keyhole.plan.protect import apply_plan, check_path, write_protected
    from keyhole.plan.recipe import load_plan
    from keyhole.words import command_line

    check_path(out, overwrite)
    found = apply_plan(file, load_plan(plan), shuffle, seed, out)
    write_protected(found, out)
    if not quiet:
        for line in found.log:
            print_text(f"- {line}", indent="  ")
        print_text(f"{out} is written. Rules of impossible combinations hold for the keys as they were. Assess it with")
        click.echo(f"  {command_line(found.command)}")
    return 0
