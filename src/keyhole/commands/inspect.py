"""`keyhole inspect`."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keyhole.commands.config import json_flag
from keyhole.commands.source import choose_source, source_flags

if TYPE_CHECKING:
    from keyhole.data import Inspected, Inspection

SHOWN_CATEGORIES = 6


@click.command("inspect", short_help="Show the variables of a file, to choose the keys.")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--codebook", type=click.Path(path_type=Path), help="YAML or JSON: the categories of each key.")
@source_flags(inspecting=True)
@json_flag
def command(
    file: Path | None,
    codebook: Path | None,
    url: str | None,
    query: str | None,
    user_missing: str | None,
    as_json: bool,
) -> int:
    """Show what the variables of FILE are and what they look like: key, identifier, continuous, constant.

    Names, labels and counts are shown; values of the data are not. Which variables an intruder could know, only
    you can say.

    \b
    Examples:
      keyhole inspect survey.sav
      keyhole inspect --url sqlite:///survey.db --query "SELECT * FROM people"
    """
    source = choose_source(file, url, query)

    from keyhole.commands.screen import print_json
    from keyhole.data import SourceOptions, inspect_source

    options: dict[str, Any] = {"query": query, "user_missing": user_missing or "keep"}
    found = inspect_source(source, codebook, SourceOptions(**options))
    if as_json:
        variables = [asdict(variable) for variable in found.variables]
        for variable in variables:
            variable["categories"] = [{"code": code, "label": label} for code, label in variable["categories"]]
        print_json({"rows": found.rows, "variables": variables})
    else:
        _print(found)
    return 0


def _print(found: "Inspection") -> None:
    from keyhole.commands.screen import print_table
    from keyhole.words import plural

    body = [
        (
            variable.name,
            variable.kind,
            f"{variable.different:,}",
            f"{variable.blank:,}",
            f"{variable.looks_like}: {variable.reason}",
        )
        for variable in found.variables
    ]
    if body:
        print_table(("Variable", "Kind", "Different", "Blank", "Looks like"), body)
    told = [(variable.name, words) for variable in found.variables if (words := _told(variable))]
    if told:
        print_table(("Variable", "Label and named categories"), told)
    keys = [variable.name for variable in found.variables if variable.looks_like == "key"]
    click.echo(f"{plural(found.rows, 'row')}, {plural(len(found.variables), 'variable')}.")
    if keys:
        click.echo(
            "Keys are what an intruder could know about a person; take those out of this list that nobody knows:\n"
            f"  --keys {','.join(keys)}"
        )


def _told(variable: "Inspected") -> str:
    """The label of a variable, and the first of the categories that the file or the codebook names."""
    pairs = variable.categories
    named = "; ".join(f"{code} {label}" if code != label else code for code, label in pairs[:SHOWN_CATEGORIES])
    more = f"; and {len(pairs) - SHOWN_CATEGORIES} more" if len(pairs) > SHOWN_CATEGORIES else ""
    return ": ".join(part for part in (variable.title, named + more) if part)
