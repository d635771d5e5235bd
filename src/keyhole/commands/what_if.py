"""`keyhole what-if`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keyhole.commands.flags import FRACTION_OR_PERCENT, JSON, MERGE, add, read_bands, read_pairs

if TYPE_CHECKING:
    from keyhole.risk import Measure, ReleaseRisk
    from keyhole.summary import Summary


read_limits = read_pairs("KEY=CATEGORY, for instance EDUC=7")
read_blanks = read_pairs("'KEY=r1>0.2': the key, and which records")


def describe(sample_uniques: int, tau1: "Measure", tau2: "Measure", grade: str) -> dict[str, Any]:
    """Return a risk as JSON shows it."""
    tau = {
        name: {"mean": found.mean, "interval": found.interval, "level": found.level, "pooled": found.pooled}
        for name, found in (("tau1", tau1), ("tau2", tau2))
    }
    return {"sample_uniques": sample_uniques, **tau, "grade": grade}


STEPS = (
    click.option("--drop", multiple=True, metavar="KEY", help="Leave out this key. May be repeated."),
    MERGE,
    click.option(
        "--band",
        "bands",
        multiple=True,
        metavar="KEY=BANDS",
        callback=read_bands,
        help="Merge ordered categories into bands: lower limits (AGE=0,30,60) or a width (AGE=10y). May be repeated.",
    ),
    click.option(
        "--top", multiple=True, metavar="KEY=C", callback=read_limits, help="Merge this category and all above it."
    ),
    click.option(
        "--bottom", multiple=True, metavar="KEY=C", callback=read_limits, help="Merge this category and all below it."
    ),
    click.option(
        "--blank",
        multiple=True,
        metavar="KEY=RISK",
        callback=read_blanks,
        help="Blank this key in the records with r1, r2 or risk above a limit ('EDUC=r1>0.2'). May be repeated.",
    ),
    click.option("--remove", metavar="RISK", help="Remove records with r1, r2 or risk above a limit ('r1>0.2')."),
    click.option(
        "--policy",
        multiple=True,
        metavar="NAME",
        help="Say whether the release meets the limit of this policy, of a YAML file, or a limit. May be repeated.",
    ),
    click.option("--subsample", type=FRACTION_OR_PERCENT, metavar="F", help="Publish a random share of the records."),
)


@click.command("what-if", short_help="Ask what a coarser release would change.")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="The file that was assessed. Not needed if DIR was made with --keep-data.",
)
@add(*STEPS, JSON)
def command(
    folder: Path, data: Path | None, drop: tuple[str, ...], merge: dict[str, Any], as_json: bool, **steps: Any
) -> int:
    """Show the risk before and after the result folder DIR is released with coarser keys or fewer records.

    Nothing is fitted again: the answer comes from the stored draws. The file is checked against the hash of its codes
    in manifest.json. Options may be combined, in any order with the same result: keys are made coarser first, then
    values blanked, then records removed, then a share drawn. A condition is about the numbers after the steps before
    it: r1 and r2 of sample uniques, or "risk", the match risk of every record.

    \b
    Examples:
      keyhole what-if survey.keyhole --data survey.csv --drop RACE
      keyhole what-if survey.keyhole --merge "AGE=1,2|3,4|5,6" --drop RACE
      keyhole what-if survey.keyhole --merge "JOB='Installation, repair',Construction"
      keyhole what-if survey.keyhole --band AGE=10y --top EDUC=7 --remove "r1>0.2" --subsample 50%
    """
    if not drop and not merge and all(value is None for name, value in steps.items() if name != "policy"):
        raise click.UsageError("give --drop KEY or --merge KEY=A,B or another step: what would be changed.")

    from keyhole import load
    from keyhole.commands.screen import print_json

    assessment = load(folder)
    found = assessment.what_if([name.strip() for text in drop for name in text.split(",")], merge, data=data, **steps)
    if as_json:
        fit, uniques = assessment, assessment.summary.input.sample_uniques
        done = {name: getattr(found, name) for name in ("records", "removed", "blanked", "draws")}
        print_json(
            {
                "before": describe(uniques, fit.tau1, fit.tau2, fit.grade),
                "after": describe(found.sample_uniques, found.tau1, found.tau2, found.grade) | done,
                **({"policies": found.policies} if found.policies else {}),
                **({"notes": found.notes} if found.notes else {}),
            }
        )
    else:
        _print_change(assessment.summary, found, assessment.draws["tau1"].size)
    return 0


def _print_change(summary: "Summary", found: "ReleaseRisk", draws: int) -> None:
    from keyhole.commands.screen import ENVELOPE, about, print_table, print_text
    from keyhole.words import as_flags

    body = [("Records", f"{summary.input.used:,}", f"{found.records:,}")] if found.records != summary.input.used else []
    body += [("Values blanked", "", f"{found.blanked:,}")] if found.blanked else []
    body += [
        ("Alone in the sample", f"{summary.input.sample_uniques:,}", f"{found.sample_uniques:,}"),
        ("Alone in the population, tau1", about(summary.tau1), about(found.tau1)),
        ("Correct matches expected, tau2", about(summary.tau2), about(found.tau2)),
    ]
    print_table(("", "Before", "After"), body)
    for note in found.notes:
        print_text(f"NOTE: {as_flags(note)}.")
    if 0 < found.draws < draws:
        print_text(
            f"Before: from all {draws:,} draws; after: from the {found.draws:,} of them that are used for releases."
        )
    for verdict in found.policies:
        print_text(f"The release {verdict.words}.")
    if not found.tau1.pooled:
        print_text(ENVELOPE)
