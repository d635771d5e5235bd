"""`keyhole zeros check | suggest | boxes`."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from keyhole.commands.config import given, json_flag
from keyhole.commands.source import choose_source, source_flags

if TYPE_CHECKING:
    from keyhole.data import Microdata
    from keyhole.zeros import Zeros, ZerosCheck

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
    function = source_flags()(function)
    for flag in reversed(flags):
        function = flag(function)
    return function


@click.group("zeros", short_help="Rules for impossible combinations: check, suggest, boxes.")
def command() -> None:
    """Rules for combinations that cannot exist, such as a married child."""


@command.command("check")
@click.argument("rules", type=click.Path(path_type=Path))
@click.argument("file", type=click.Path(path_type=Path), required=False)
@data_flags
@json_flag
def check(
    rules: Path,
    file: Path | None,
    keys: str | None,
    codebook: Path | None,
    allow_identifier: tuple[str, ...],
    as_json: bool,
    **reading: Any,
) -> int:
    """Say what each rule of RULES removes, which are redundant, and which records of FILE contradict them.

    \b
    Example:
      keyhole zeros check rules.yaml survey.csv --keys AGE,MARST
    """
    from keyhole.commands.screen import print_json
    from keyhole.zeros import check_zeros

    data = _read(file, keys, codebook, allow_identifier, reading)
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
    _print_check(found, len(data.codes))
    return 0


@command.command("suggest")
@click.argument("file", type=click.Path(path_type=Path), required=False)
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
    file: Path | None,
    keys: str | None,
    codebook: Path | None,
    allow_identifier: tuple[str, ...],
    out: Path | None,
    false_discovery: float,
    order: str,
    **reading: Any,
) -> int:
    """Write candidate rules for FILE: combinations that nobody has and that chance does not explain.

    A person has to confirm each one: rare is not impossible. Entries left in the file count as rules, so delete
    those that you cannot confirm before you give the file to `assess --zeros`.

    \b
    Example:
      keyhole zeros suggest survey.csv --keys AGE,MARST,EDUC --out rules.yaml
    """
    from keyhole.errors import OutputError
    from keyhole.files import write_text
    from keyhole.words import plural
    from keyhole.zeros import format_suggestions, suggest_zeros

    if out is not None and out.exists():
        raise OutputError(f"{out} exists, and may hold rules that somebody has confirmed: choose another with --out.")
    data = _read(file, keys, codebook, allow_identifier, reading)
    found = suggest_zeros(data, false_discovery=false_discovery, order=3 if order == "3" else 2)
    text = format_suggestions(found)
    if out is None:
        click.echo(text, nl=False)
    else:
        write_text(text, out)
        click.echo(
            f"{plural(len(found.items), 'suggestion')} in {out}. Every entry in it counts as a rule: read each, and "
            "delete those that describe people who could exist. A wrong rule makes the file look safer than it is."
        )
    if found.skipped:
        sets = plural(len(found.skipped), "set")
        click.echo(f"Not looked at, for they have too many combinations: {sets} of two or three keys.", err=True)
    return 0


@command.command("boxes")
@click.argument("rules", type=click.Path(path_type=Path))
@click.argument("file", type=click.Path(path_type=Path), required=False)
@data_flags
@click.option("--possible", is_flag=True, help="Show the boxes of possible combinations instead.")
@click.option("--out", type=click.Path(path_type=Path), help="Also write them to this CSV file, as --zeros reads.")
@click.option("--raw-labels", is_flag=True, help="Write codes as they are, even those that look like formulas.")
@json_flag
def boxes(
    rules: Path,
    file: Path | None,
    keys: str | None,
    codebook: Path | None,
    allow_identifier: tuple[str, ...],
    possible: bool,
    out: Path | None,
    raw_labels: bool,
    as_json: bool,
    **reading: Any,
) -> int:
    """Show the disjoint boxes that RULES become on the categories of FILE.

    \b
    Example:
      keyhole zeros boxes rules.yaml survey.csv --keys AGE,MARST
    """
    from keyhole.commands.screen import print_json, print_table
    from keyhole.words import percent, plural
    from keyhole.zeros import list_boxes, list_possible_boxes

    if raw_labels and out is None:
        raise click.UsageError("--raw-labels is about the file that --out names: add --out, or leave it out.")
    zeros = _read_rules(rules, _read(file, keys, codebook, allow_identifier, reading))
    if out is not None:
        _write_boxes(zeros, possible, out, raw_labels)
    lines = list_possible_boxes(zeros) if possible else list_boxes(zeros)
    if as_json:
        print_json({"boxes": [vars(line) for line in lines]})
    else:
        kind = "possible" if possible else "impossible"
        body = [(f"{line.cells:,}", percent(line.share), line.words) for line in lines]
        if body:
            print_table(("Combinations", "Share", kind.capitalize()), body)
        cells = sum(line.cells for line in lines)
        click.echo(
            f"All {kind} combinations, {cells:,} of {zeros.cells:,} ({percent(cells / zeros.cells)}), "
            f"as {plural(len(lines), 'box').replace('boxs', 'boxes')}; each is in one box only."
        )
    return 0


def _read(
    file: Path | None,
    keys: str | None,
    codebook: Path | None,
    allow_identifier: tuple[str, ...],
    reading: dict[str, Any],
) -> "Microdata":
    from keyhole.data import SourceOptions, read_codebook, read_microdata

    source = choose_source(file, reading.pop("url"), reading["query"])

    if keys is None and codebook is None:
        raise click.UsageError("give --keys A,B,C or a --codebook.")
    names = keys or tuple(read_codebook(codebook))
    return read_microdata(source, names, codebook, allow_identifier, options=SourceOptions(**given(reading)))


def _read_rules(rules: Path, data: "Microdata") -> "Zeros":
    from keyhole.zeros import read_zeros

    return read_zeros(rules, data.variables, {variable.name: variable for variable in data.ignored_variables})


def _write_boxes(zeros: "Zeros", possible: bool, out: Path, raw: bool) -> None:
    """Write the boxes as a table; text that a spreadsheet would run gets a ' before it."""
    import polars as pl

    from keyhole.errors import OutputError
    from keyhole.files import csv_text, write_text
    from keyhole.zeros import tabulate_boxes

    if out.exists():
        raise OutputError(f"{out} exists: choose another with --out.")
    table = tabulate_boxes(zeros, possible)
    write_text(csv_text(pl.DataFrame(table, schema=dict.fromkeys(table, pl.String)), raw), out)


def _print_check(found: "ZerosCheck", records: int) -> None:
    """Print a line for each rule, then what they amount to and what to do."""
    from keyhole.commands.screen import print_table
    from keyhole.words import percent, plural

    title = ("Rule", "Says that nobody has", "Combinations", "Says nothing new", "Rows that contradict it")
    body = [
        (
            rule.name,
            rule.label or rule.words,
            f"{rule.cells:,} ({percent(rule.share)})",
            ("covered by " + ", ".join(rule.covered_by)) if rule.redundant else "",
            _list_rows(rule.rows.tolist()),
        )
        for rule in found.rules
    ]
    # A column in which nothing stands only takes room.
    shown = [place for place in range(len(title)) if place < 3 or any(line[place] for line in body)]
    if body:
        print_table(tuple(title[x] for x in shown), [tuple(line[x] for x in shown) for line in body])
    click.echo(
        f"{plural(len(found.rules), 'rule')}: {found.impossible_cells:,} of {found.cells:,} combinations "
        f"({percent(found.share)}) are impossible, so {found.cells - found.impossible_cells:,} are possible."
    )
    if not len(found.rows):
        click.echo(f"None of {plural(records, 'record')} contradicts a rule.")
        return
    click.echo(
        f"{len(found.rows):,} of {plural(records, 'record')} contradict a rule. Correct the rules or the records, or "
        "leave these records out with `keyhole assess ... --drop-contradictions`."
    )


def _list_rows(rows: list[int]) -> str:
    more = f" and {len(rows) - SHOWN_ROWS} more" if len(rows) > SHOWN_ROWS else ""
    return ", ".join(str(row) for row in rows[:SHOWN_ROWS]) + more
