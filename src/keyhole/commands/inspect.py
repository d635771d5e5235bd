"""`keyhole inspect`."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keyhole.commands.flags import CODEBOOK, DATABASE, JSON, add, choose_source, given
from keyhole.words import enumerate_words

if TYPE_CHECKING:
    from keyhole.data import Inspected, Inspection

SHOWN_CATEGORIES = 6


@click.command("inspect", short_help="Show the variables of a file, to choose the keys.")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@add(CODEBOOK, *DATABASE, JSON)
def command(file: Path | None, url: str | None, codebook: Path | None, as_json: bool, **options: Any) -> int:
    """Show the variables of FILE and what each looks like: key, identifier, survey weight,
    continuous, constant.

    Names, labels and counts are shown; values of the data are not. Only you can say which variables an intruder could
    know.

    \b
    Examples:
      keyhole inspect survey.sav
      keyhole inspect --url sqlite:///survey.db --query "SELECT * FROM people"
    """
    source = choose_source(file, url, options["query"])

    from keyhole.commands.screen import describe_decimals, print_json, print_na, print_note
    from keyhole.data import inspect
    from keyhole.data.categories import describe_missing_codes
    from keyhole.data.codebook import describe_strangers

    found = inspect(source, codebook, **given(options))
    if as_json:
        print_json(found.to_dict())
    else:
        _print(found)
    print_na(found.na)
    if found.decimal_comma:
        print_note(f"{describe_decimals(found.decimal_comma)}.")
    if found.codebook_strangers:
        print_note(f"{describe_strangers(found.codebook_strangers)}.")
    for variable in found.variables:
        if variable.missing_codes:
            print_note(f"{describe_missing_codes(variable.name, variable.missing_codes)}.")
    if found.unnamed:
        print_note(_describe_unnamed(found.unnamed))
    if not found.named:
        print_note(
            f"{source}: its first row looks like a record, not names: add a header line that names the columns. "
            "Here they are called V1, V2, ..., and that row is left out."
        )
    return 0


def _print(found: "Inspection") -> None:
    from keyhole.commands.screen import print_table, print_text
    from keyhole.words import plural

    body = [
        (x.name, x.kind, f"{x.different:,}", f"{x.blank:,}", f"{x.looks_like}: {x.reason}") for x in found.variables
    ]
    if body:
        print_table(("Variable", "Kind", "Different", "Blank", "Looks like"), body)
    labels = [(variable.name, text) for variable in found.variables if (text := _describe(variable))]
    if labels:
        print_table(("Variable", "Label and named categories"), labels)
    click.echo(f"{plural(found.rows, 'row')}, {plural(len(found.variables), 'variable')}.")
    if found.keys and found.named:
        print_text(
            "Keys are what an intruder could know about a person. Remove from this list what no intruder can know:"
        )
        click.echo(f"  --keys {shlex.quote(','.join(found.keys))}")
    weights = [variable.name for variable in found.variables if variable.looks_like == "weight"]
    if weights and found.named:
        print_text(f"A survey weight is no key; its option is --weight: {', '.join(weights)}.")


def _describe(variable: "Inspected") -> str:
    """Return the label of a variable, and the first of the categories that the file or the codebook names."""
    pairs = variable.categories
    named = "; ".join(f"{code} {label}" if code != label else code for code, label in pairs[:SHOWN_CATEGORIES])
    more = f"; and {len(pairs) - SHOWN_CATEGORIES} more" if len(pairs) > SHOWN_CATEGORIES else ""
    return ": ".join(part for part in (variable.title, named + more) if part)


def _describe_unnamed(places: Sequence[int]) -> str:
    """Say which columns are not listed because they have no name, and what the first one probably is."""
    if tuple(places) == (1,):
        return "the first column has no name (R's row names): it is no key, and should not be released."
    one, numbers = len(places) == 1, enumerate_words([str(place) for place in places])
    return (
        f"column{'' if one else 's'} {numbers} {'has' if one else 'have'} no name, so "
        f"{'it is' if one else 'they are'} not listed: name what should be a key, and release no other."
    )
