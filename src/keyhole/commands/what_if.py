"""`keyhole what-if`."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keyhole.commands.flags import JSON, add

if TYPE_CHECKING:
    from keyhole.risk import Measure, ReleaseRisk
    from keyhole.summary import Summary


_NAME = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([^,|]*?))\s*([,|]|$)""")
"""The name of a category and what separates it from the next. A quote counts only where it encloses a whole name."""


def _read_groups(text: str) -> list[list[str]]:
    """Turn 1,2|3,4 into lists of categories; a name without quotes is not empty."""
    groups: list[list[str]] = [[]]
    place, separator = 0, ","
    while separator:
        found = _NAME.match(text, place)
        if found is None or found[3] == "":
            return []
        groups[-1].append(next(name for name in found.groups()[:3] if name is not None))
        place, separator = found.end(), found[4]
        if separator == "|":
            groups.append([])
    return groups


def read_merges(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, Any]:
    """Turn AGE=1,2|3,4 into a name and its lists of categories."""
    merged: dict[str, Any] = {}
    for value in values:
        name, equals, text = value.partition("=")
        groups = _read_groups(text)
        if not equals or not name.strip() or not groups:
            raise click.BadParameter(
                "write AGE=1,2|3,4: the categories to merge, and | between groups. A name with a comma is quoted "
                "('Installation, repair'), and '' is the blank category."
            )
        if name.strip() in merged:
            raise click.BadParameter(f"{name.strip()} has two --merge: give one, with | between groups.")
        merged[name.strip()] = groups
    return merged


def describe(sample_uniques: int, tau1: "Measure", tau2: "Measure", grade: str) -> dict[str, Any]:
    """Return a risk as JSON shows it."""
    tau = {
        name: {"mean": found.mean, "interval": found.interval, "level": found.level, "pooled": found.pooled}
        for name, found in (("tau1", tau1), ("tau2", tau2))
    }
    return {"sample_uniques": sample_uniques, **tau, "grade": grade}


@click.command("what-if", short_help="Ask what leaving out keys or merging categories would change.")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="The file that was assessed. Not needed if DIR was made with --keep-data.",
)
@click.option("--drop", multiple=True, metavar="KEY", help="Leave out this key. May be repeated.")
@click.option(
    "--merge",
    multiple=True,
    metavar="KEY=A,B|C,D",
    callback=read_merges,
    help="Merge these categories of a key (AGE=1,2|3,4); the others stay. Quote names with a comma; '' is the blank "
    "category. May be repeated.",
)
@add(JSON)
def command(folder: Path, data: Path | None, drop: tuple[str, ...], merge: dict[str, Any], as_json: bool) -> int:
    """Show the risk before and after keys of the result folder DIR are left out or categories merged.

    Nothing is fitted again: the answer comes from the stored draws. The file is checked against the hash of its codes
    in manifest.json.

    \b
    Examples:
      keyhole what-if survey.keyhole --data survey.csv --drop RACE
      keyhole what-if survey.keyhole --merge "AGE=1,2|3,4|5,6" --drop RACE
      keyhole what-if survey.keyhole --merge "JOB='Installation, repair',Construction"
    """
    if not drop and not merge:
        raise click.UsageError("give --drop KEY or --merge KEY=A,B: what would be changed.")

    from keyhole import load
    from keyhole.commands.screen import print_json

    assessment = load(folder)
    found = assessment.what_if([name.strip() for text in drop for name in text.split(",")], merge, data=data)
    if as_json:
        fit, uniques = assessment, assessment.summary.input.sample_uniques
        print_json(
            {
                "before": describe(uniques, fit.tau1, fit.tau2, fit.grade),
                "after": describe(found.sample_uniques, found.tau1, found.tau2, found.grade) | {"draws": found.draws},
            }
        )
    else:
        _print_change(assessment.summary, found)
    return 0


def _print_change(summary: "Summary", found: "ReleaseRisk") -> None:
    from keyhole.commands.screen import ENVELOPE, about, print_table, print_text

    body = [
        ("Alone in the sample", f"{summary.input.sample_uniques:,}", f"{found.sample_uniques:,}"),
        ("Alone in the population, tau1", about(summary.tau1), about(found.tau1)),
        ("Correct matches expected, tau2", about(summary.tau2), about(found.tau2)),
    ]
    print_table(("", "Before", "After"), body)
    if not found.tau1.pooled:
        print_text(ENVELOPE)
