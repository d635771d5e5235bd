"""`keyhole plan`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keyhole.commands.flags import FRACTION_OR_PERCENT, JSON, OVERWRITE, QUIET, add, default_folder

if TYPE_CHECKING:
    from keyhole.plan.planning import Plan


def read_importance(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, float] | None:
    """Turn EDUC=3 into a name and a weight."""
    found: dict[str, float] = {}
    for value in values:
        name, _, text = value.partition("=")
        try:
            found[name.strip()] = float(text)
        except ValueError:
            raise click.BadParameter("write EDUC=3: a key and a number above 0.") from None
    return found or None


@click.command("plan", short_help="Find the coarser release that meets a limit with the least loss.")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="The file that was assessed. Not needed if DIR was made with --keep-data.",
)
@click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="MEASURE=LIMIT",
    help="What the release has to meet, as in --fail-above: tau1=5 (the mean), tau1.upper=10 (the upper end of the "
    "interval), all.max=0.2. May be repeated.",
)
@click.option(
    "--policy", multiple=True, metavar="NAME", help="Meet the limit of this policy, or of a YAML file. May be repeated."
)
@click.option("--keep", multiple=True, metavar="KEY", help="Leave this key as it is. May be repeated.")
@click.option(
    "--importance",
    multiple=True,
    metavar="KEY=W",
    callback=read_importance,
    help="Weight of a key in the loss of information.  [default: 1]",
)
@click.option(
    "--hierarchy",
    multiple=True,
    metavar="FILE",
    help="YAML: nested lists of categories by key. KEY=FILE: a table of ARX, a column for each level. May be repeated.",
)
@click.option("--at-most", metavar="DURATION", default="60s", show_default=True, help="How long the search may take.")
@click.option(
    "--suppress",
    type=FRACTION_OR_PERCENT,
    metavar="F",
    default="1%",
    show_default=True,
    help="Largest share of records of which values may be blanked, or which may be removed, if that loses clearly "
    "less than coarser keys; 0 for none.",
)
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Folder of the plan.  [default: DIR.plan]")
@add(OVERWRITE, QUIET, JSON)
def command(
    folder: Path,
    data: Path | None,
    limits: tuple[str, ...],
    keep: tuple[str, ...],
    out: Path | None,
    overwrite: bool,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Find the coarser release of a result folder DIR that meets every limit with the least loss of information.

    Nothing is fitted again. Each key may stay, be merged by a hierarchy or with its neighbours, top or bottom coded, or
    be left out. The plan is called optimal if all releases with less loss are known to miss a limit. It is chosen on
    one half of the draws, and its risk is shown from the other half.

    Writes plan.yaml, which `keyhole protect` applies, plan.json and plan.html.

    \b
    Examples:
      keyhole plan survey.keyhole --data survey.csv --limit tau1.upper=10
      keyhole plan survey.keyhole --limit tau1.upper=10 --limit all.max=0.2 --keep SEX --importance EDUC=3
    """
    if not limits and not options["policy"]:
        raise click.UsageError("give --limit MEASURE=LIMIT, for instance --limit tau1.upper=10, or --policy NAME.")

    from keyhole import load
    from keyhole.plan.page import refuse_plan

    place = out or default_folder(folder, ".plan")
    refuse_plan(place, overwrite)
    names = [name.strip() for text in keep for name in text.split(",")]
    found = load(folder).plan(list(limits), keep=names, data=data, **options)
    found.save(place, overwrite)
    if as_json:
        click.echo(found.to_json(), nl=False)
    elif not quiet:
        _print_plan(found, place, data)
    return 0


def _print_plan(plan: "Plan", place: Path, data: Path | None) -> None:
    from keyhole.commands.screen import print_table, print_text
    from keyhole.plan.page import describe_optimism, describe_utility, explain_status, list_rows, state_verdict
    from keyhole.plan.recipe import FILE
    from keyhole.words import command_line, number, percents

    for sentence in (state_verdict(plan), *explain_status(plan)):
        print_text(sentence)
    for step in plan.steps:
        print_text(f"- {step}", indent="  ")
    print_table(("", "Before", "After"), list_rows(plan.before, plan.after, plan))
    for sentence in filter(None, (describe_optimism(plan), *describe_utility(plan))):
        print_text(sentence)
    first = plan.limits[0].text
    if plan.runners_up:
        losses = percents([other.loss for other in plan.runners_up])
        body = [
            ("; ".join(other.steps), loss, number(other.limits[first]))
            for other, loss in zip(plan.runners_up, losses, strict=True)
        ]
        print_table(("Other releases that meet the limits", "Loss", first.partition("=")[0]), body)
    click.echo(f"{place}: plan.html to read, plan.yaml to apply, with")
    words = ["keyhole", "protect", str(data or "FILE"), "--plan", str(place / FILE), "--out", "protected.csv"]
    click.echo(f"  {command_line(words)}")
