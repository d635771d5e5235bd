"""`keyhole zeros check | suggest | boxes`."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from keyhole.commands.options import json_flag

if TYPE_CHECKING:
    from keyhole.microdata import Microdata
    from keyhole.zeros import Zeros

Function = TypeVar("Function", bound=Callable[..., Any])
SHOWN_ROWS = 10


def data_flags(function: Function) -> Function:
    """Add the flags that say which columns and categories there are."""
    flags = (
        click.option("--keys", metavar="A,B,C", help="Key variables.  [default: those of the codebook]"),
        click.option("--codebook", type=click.Path(path_type=Path), help="YAML or JSON: the categories of each key."),
        click.option(
            "--allow-identifier",
            multiple=True,
            metavar="KEY",
            help="Accept a key that looks like an identifier.",
        ),
    )
    for flag in reversed(flags):
        function = flag(function)
    return function


@click.group("zeros", short_help="Rules for impossible combinations: check, suggest, boxes.")
def command() -> None:
    """Rules for combinations that cannot exist, such as a married child."""


@command.command("check")
@click.argument("rules", type=click.Path(path_type=Path))
@click.argument("file", type=click.Path(path_type=Path))
@data_flags
@json_flag
def check(
    rules: Path,
    file: Path,
    keys: str | None,
    codebook: Path | None,
    allow_identifier: tuple[str, ...],
    as_json: bool,
) -> int:
    """Say what each rule of RULES removes, which are redundant, and which records of FILE contradict them.

    \b
    Example:
      keyhole zeros check rules.yaml survey.csv --keys AGE,MARST
    """
    from keyhole.commands.screen import print_json, print_table
    from keyhole.zeros import check_zeros

    data = _read(file, keys, codebook, allow_identifier)
    found = check_zeros(_read_rules(rules, data), data)
    if as_json:
        print_json(
            {
                "cells": found.cells,
                "impossible_cells": found.impossible_cells,
                "share": found.share,
                "boxes": found.impossible_boxes,
                "possible_boxes": found.possible_boxes,
                "contradicting_rows": found.rows.tolist(),
                "rules": [{**vars(rule), "rows": rule.rows.tolist()} for rule in found.rules],
            }
        )
        return 0
    body = [
        (
            rule.name,
            rule.label or rule.words,
            f"{rule.cells:,} ({100 * rule.share:.1f} %)",
            ("yes, by " + ", ".join(rule.covered_by)) if rule.redundant else "no",
            _list_rows(rule.rows.tolist()),
        )
        for rule in found.rules
    ]
    print_table(("Rule", "Impossible", "Cells removed", "Redundant", "Rows that contradict"), body)
    click.echo(
        f"{len(found.rules)} rules exclude {found.impossible_cells:,} of {found.cells:,} combinations "
        f"({100 * found.share:.1f} %), as {found.impossible_boxes} disjoint boxes. "
        f"Records that contradict them: {len(found.rows):,}."
    )
    return 0


@command.command("suggest")
@click.argument("file", type=click.Path(path_type=Path))
@data_flags
@click.option("--out", type=click.Path(path_type=Path), help="Write the rules file here, not to the screen.")
@click.option(
    "--false-discovery",
    type=click.FloatRange(0.0, 1.0),
    default=0.01,
    show_default=True,
    help="Share of suggestions that may be chance.",
)
@click.option(
    "--order",
    type=click.Choice(["2", "3"]),
    default="3",
    show_default=True,
    help="Look at margins up to this many variables.",
)
def suggest(
    file: Path,
    keys: str | None,
    codebook: Path | None,
    allow_identifier: tuple[str, ...],
    out: Path | None,
    false_discovery: float,
    order: str,
) -> int:
    """Write candidate rules for FILE: combinations that nobody has and that chance does not explain.

    A person has to confirm each one: rare is not impossible.

    \b
    Example:
      keyhole zeros suggest survey.csv --keys AGE,MARST,EDUC --out rules.yaml
    """
    from keyhole.files import write_text
    from keyhole.zeros import format_suggestions, suggest_zeros

    data = _read(file, keys, codebook, allow_identifier)
    found = suggest_zeros(data, false_discovery=false_discovery, order=3 if order == "3" else 2)
    text = format_suggestions(found)
    if out is None:
        click.echo(text, nl=False)
    else:
        write_text(text, out)
        click.echo(f"{len(found.items)} suggestions in {out}: read each and keep those that are truly impossible.")
    return 0


@command.command("boxes")
@click.argument("rules", type=click.Path(path_type=Path))
@click.argument("file", type=click.Path(path_type=Path))
@data_flags
@click.option("--possible", is_flag=True, help="Show the boxes of possible combinations instead.")
@json_flag
def boxes(
    rules: Path,
    file: Path,
    keys: str | None,
    codebook: Path | None,
    allow_identifier: tuple[str, ...],
    possible: bool,
    as_json: bool,
) -> int:
    """Show the disjoint boxes that RULES become on the categories of FILE.

    \b
    Example:
      keyhole zeros boxes rules.yaml survey.csv --keys AGE,MARST
    """
    from keyhole.commands.screen import print_json, print_table
    from keyhole.zeros import list_boxes, list_possible_boxes

    zeros = _read_rules(rules, _read(file, keys, codebook, allow_identifier))
    lines = list_possible_boxes(zeros) if possible else list_boxes(zeros)
    if as_json:
        print_json({"boxes": [vars(line) for line in lines]})
    else:
        body = [(f"{line.cells:,}", f"{100 * line.share:.1f} %", line.words) for line in lines]
        print_table(("Cells", "Share", "Possible" if possible else "Impossible"), body)
    return 0


def _read(file: Path, keys: str | None, codebook: Path | None, allow_identifier: tuple[str, ...]) -> "Microdata":
    from keyhole.microdata import read_codebook, read_microdata

    if keys is None and codebook is None:
        raise click.UsageError("give --keys A,B,C or a --codebook.")
    return read_microdata(file, keys or tuple(read_codebook(codebook)), codebook, allow_identifier)


def _read_rules(rules: Path, data: "Microdata") -> "Zeros":
    from keyhole.zeros import read_zeros

    return read_zeros(rules, data.variables, {variable.name: variable for variable in data.ignored_variables})


def _list_rows(rows: list[int]) -> str:
    more = f" and {len(rows) - SHOWN_ROWS} more" if len(rows) > SHOWN_ROWS else ""
    return ", ".join(str(row) for row in rows[:SHOWN_ROWS]) + more or "none"
