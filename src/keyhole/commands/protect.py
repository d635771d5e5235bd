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
@click.option(
    "--drop-columns",
    multiple=True,
    metavar="A,B,C",
    help="Leave out these columns, which are no keys, such as identifiers. May be repeated.",
)
@add(OVERWRITE, QUIET)
def command(
    file: Path,
    plan: Path,
    out: Path,
    shuffle: bool,
    seed: int,
    drop_columns: tuple[str, ...],
    overwrite: bool,
    quiet: bool,
) -> int:
    """Apply a plan to FILE, the file that it was made for, and write what may be released.

    Columns that are no keys stay as they are, and so do the order of rows and the values of keys without merged
    categories. Input of any format becomes CSV in UTF-8, or Parquet; SPSS and Stata files lose their labels. Beside the
    file a codebook of the published categories and a log of what was done are written. Nothing is overwritten unasked.

    A warning names columns that look like identifiers, and columns that tell the original values of a key that the plan
    changes, such as the year of birth beside ages in groups: they are released unless --drop-columns names them.

    \b
    Examples:
      keyhole protect survey.csv --plan survey.plan/plan.yaml --out protected.parquet
      keyhole protect survey.csv --plan survey.plan/plan.yaml --out protected.csv --drop-columns ID,BIRTHYEAR
    """
    from keyhole.commands.screen import print_text
    from keyhole.plan.protect import apply_plan, check_path, write_protected
    from keyhole.plan.recipe import load_plan
    from keyhole.words import as_flags, command_line

    check_path(out, overwrite)
    names = [name for text in drop_columns for name in text.split(",")]
    found = apply_plan(file, load_plan(plan), shuffle, seed, out, names)
    write_protected(found, out)
    if not quiet:
        for line in found.log:
            if line != found.telltale.sentence:
                print_text(f"- {line}", indent="  ")
        print_text(f"{out} is written. Rules of impossible combinations hold for the keys as they were. Assess it with")
        click.echo(f"  {command_line(found.command)}")
    if found.telltale.sentence:
        click.echo(as_flags(found.telltale.sentence), err=True)
    return 0
