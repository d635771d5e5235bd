"""`keyhole zeros check | suggest | boxes`."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keyhole.commands import Group
from keyhole.commands.flags import (
    CELLS,
    CODEBOOK,
    DATABASE,
    IDENTIFIER,
    JSON,
    MERGE,
    POPULATION,
    add,
    choose_source,
    given,
)
from keyhole.commands.screen import print_json, print_na, print_table, print_text
from keyhole.files import refuse_existing
from keyhole.words import first_few, percent, plural

if TYPE_CHECKING:
    from keyhole.zeros import Check

SHOWN_ROWS = 10

CONTRADICTED = 1
"""Exit status of `check` when records contradict the rules, as `assess` has then."""

RULES = click.argument("rules", type=click.Path(path_type=Path))
DATA = add(
    click.argument("file", type=click.Path(path_type=Path), required=False),
    click.option("--keys", metavar="A,B,C", help="Key variables.  [default: those of the codebook]"),
    *(CODEBOOK, IDENTIFIER, *DATABASE, *CELLS, MERGE),
)


@click.group("zeros", cls=Group, short_help="Rules for impossible combinations: check, suggest, boxes.")
def command() -> None:
    """Rules for combinations that cannot exist, such as a married child."""


@command.command("check")
@add(RULES, DATA, JSON)
def check(rules: Path, as_json: bool, **options: Any) -> int:
    """Show what each rule of RULES excludes, which are redundant, and which records of FILE contradict them.

    The exit status is 1 if a record contradicts a rule, and 0 otherwise.

    \b
    Example:
      keyhole zeros check rules.yaml survey.csv --keys AGE,MARST
    """
    from keyhole.zeros import check as check_rules

    found = check_rules(rules, *_choose(options), **given(options))
    print_na(found.na)
    if as_json:
        print_json(found.to_dict())
    elif not found.rules:
        _print_no_rule(rules)
    else:
        _print_check(found)
    return 0 if found.holds else CONTRADICTED


@command.command("suggest")
@add(DATA, POPULATION)
@click.option("--out", type=click.Path(path_type=Path), help="Write the file here, not to the screen.")
@click.option(
    "--false-discovery",
    type=click.FloatRange(0.0, 1.0),
    default=0.01,
    show_default=True,
    help="Expected share of suggestions that are due to chance.",
)
@click.option(
    "--order",
    type=click.Choice(["2", "3"]),
    default="3",
    show_default=True,
    help="Consider combinations of up to this many variables.",
)
def suggest(out: Path | None, false_discovery: float, order: str, population: int | None, **options: Any) -> int:
    """Suggest rules for FILE: combinations that no record has and that chance does not explain.

    Each is a comment in the file that is written, and has no effect until a person turns it into a rule by removing
    the "# " before it: rare is not impossible. With --population each says how many people it could leave out if it
    is wrong. Those that rest on blank answers come last, apart from the others.

    \b
    Example:
      keyhole zeros suggest survey.csv --keys AGE,MARST,EDUC --out rules.yaml
    """
    from keyhole.errors import OutputError
    from keyhole.files import write_text
    from keyhole.zeros import format_suggestions
    from keyhole.zeros import suggest as suggest_rules

    if out is not None and out.exists():
        raise OutputError(f"{out} exists, and may hold rules that somebody has confirmed: choose another with `out`.")
    found = suggest_rules(
        *_choose(options),
        population=population,
        false_discovery=false_discovery,
        order=3 if order == "3" else 2,
        **given(options),
    )
    print_na(found.na)
    text = format_suggestions(found)
    if out is None:
        click.echo(text, nl=False)
    else:
        write_text(text, out)
        blank = sum(bool(item.blanks) for item in found.items)
        print_text(
            f"{plural(len(found.items), 'suggestion')} in {out}"
            + (f", of which {blank:,} rest{'s' if blank == 1 else ''} on blank answers (listed last)" if blank else "")
            + ". None has an effect yet. Read each; where such a person cannot exist, remove the '# ' before its "
            "'- {'. A wrong rule makes the file look safer than it is."
        )
    if found.skipped:
        sets = plural(len(found.skipped), "set")
        click.echo(f"Skipped, because they have too many combinations: {sets} of two or three keys.", err=True)
    return 0


@command.command("boxes")
@add(RULES, DATA)
@click.option("--possible", is_flag=True, help="Show the boxes of possible combinations instead.")
@click.option("--out", type=click.Path(path_type=Path), help="Also write them to this CSV file, which --zeros reads.")
@click.option("--raw-labels", is_flag=True, help="Write codes as they are, even those that look like formulas.")
@add(JSON)
def boxes(rules: Path, possible: bool, out: Path | None, raw_labels: bool, as_json: bool, **options: Any) -> int:
    """Show the disjoint boxes that RULES become on the categories of FILE.

    \b
    Example:
      keyhole zeros boxes rules.yaml survey.csv --keys AGE,MARST
    """
    from keyhole.zeros import boxes as make_boxes

    if raw_labels and out is None:
        raise click.UsageError("--raw-labels concerns the file of --out: add --out, or omit --raw-labels.")
    if out is not None:
        refuse_existing(out, overwrite=False)
    found = make_boxes(rules, *_choose(options), possible=possible, **given(options))
    print_na(found.na)
    if out is not None:
        _write_boxes(found.table, out, raw_labels)
    if as_json:
        print_json({"boxes": [vars(line) for line in found.lines]})
        return 0
    kind = "possible" if possible else "impossible"
    body = [(f"{line.cells:,}", percent(line.share), line.words) for line in found.lines]
    if body:
        print_table(("Combinations", "Share", kind.capitalize()), body)
    cells = sum(line.cells for line in found.lines)
    click.echo(
        f"All {kind} combinations, {cells:,} of {found.cells:,} ({percent(cells / found.cells)}), "
        f"as {len(found.lines):,} box{'' if len(found.lines) == 1 else 'es'}; each is in one box only."
    )
    return 0


def _choose(options: dict[str, Any]) -> tuple[Any, ...]:
    """Take source, keys and codebook out of the options."""
    source = choose_source(options.pop("file"), options.pop("url"), options["query"])
    keys, codebook = options.pop("keys"), options.pop("codebook")
    if keys is None and codebook is None:
        raise click.UsageError("give --keys A,B,C or a --codebook.")
    return source, keys, codebook


def _write_boxes(table: Mapping[str, list[str]], out: Path, raw: bool) -> None:
    """Write the boxes as a table; text that a spreadsheet would run is prefixed with '."""
    import polars as pl

    from keyhole.files import csv_text, write_text

    write_text(csv_text(pl.DataFrame(table, schema=dict.fromkeys(table, pl.String)), raw), out)


def _print_no_rule(rules: Path) -> None:
    from keyhole.zeros.rule_files import count_commented

    entries = count_commented(rules)
    if not entries:
        print_text(f"{rules} has no rule, so nothing was checked.")
        return
    all_of = "The only entry is a comment" if entries == 1 else f"All {entries:,} entries are comments"
    print_text(
        f"{all_of}, so {rules} has no rule and nothing was checked. Where such a person cannot exist, remove the '# ' "
        "before the '- ' of the entry."
    )


def _print_check(found: "Check") -> None:
    """Print a line for each rule, then what they exclude together and what to do."""
    zeros, contradicting, records = found.zeros, len(found.rows), found.records
    title = ("Rule", "Nobody has", "Combinations", "Redundant", "Rows that contradict it")
    body = [
        (
            rule.name,
            rule.label or rule.words,
            f"{rule.cells:,} ({percent(rule.share)})",
            ("covered by " + ", ".join(rule.covered_by)) if rule.redundant else "",
            first_few(rule.rows.tolist(), SHOWN_ROWS),
        )
        for rule in found.rules
    ]
    # Empty columns would only take room.
    shown = [place for place in range(len(title)) if place < 3 or any(line[place] for line in body)]
    if body:
        print_table(tuple(title[x] for x in shown), [tuple(line[x] for x in shown) for line in body])
    click.echo(
        f"{plural(len(found.rules), 'rule')}: {zeros.impossible_cells:,} of {zeros.cells:,} combinations "
        f"({percent(zeros.share)}) are impossible, so {zeros.cells - zeros.impossible_cells:,} are possible."
    )
    if not contradicting:
        click.echo(f"None of {plural(records, 'record')} contradicts a rule.")
        return
    click.echo(
        f"{contradicting:,} of {plural(records, 'record')} contradict a rule. Correct the rules or the records, or "
        "leave these records out with `keyhole assess ... --drop-contradictions`."
    )
