"""The files of a plan: plan.yaml to apply, plan.json for programs, and plan.html to read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from keyhole._version import __version__
from keyhole.errors import OutputError
from keyhole.files import explained, write_text
from keyhole.plan.planning import Alternative, Figures, Plan
from keyhole.plan.recipe import FILE
from keyhole.report.figures import WIDTH, Scale, axis, element, line, picture, text, tick_words, ticks
from keyhole.report.render import render_page
from keyhole.risk.policies import word_probability
from keyhole.words import expects_none, interval_words, number, percent, percents, plural

JSON, PAGE = "plan.json", "plan.html"
LISTED = 12
"""Most codes of a merged category that are listed."""


def write_plan(plan: Plan, folder: Path, overwrite: bool = False) -> None:
    """Write the files of a plan; the one that is applied comes last."""
    content = {JSON: plan.to_json(), PAGE: render_plan(plan), FILE: plan.recipe.to_yaml()}
    refuse_plan(folder, overwrite)
    with explained(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, written in content.items():
        write_text(written, folder / name)


def refuse_plan(folder: Path, overwrite: bool) -> None:
    """Refuse a folder that holds a plan, unless that is to be replaced, and what is no folder."""
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file: choose another folder with `out`.")
    there = next((name for name in (FILE, JSON, PAGE) if (folder / name).exists()), None)
    if there is not None and not overwrite:
        raise OutputError(f"{folder / there} exists: choose another folder with `out`, or replace it with `overwrite`.")


def render_plan(plan: Plan) -> str:
    """Return the page of a plan."""
    search = plan.search
    others = sorted([*plan.runners_up, *plan.path], key=lambda other: other.loss)
    return render_page(
        "plan.html",
        plan=plan,
        about=[("Records", f"{plan.before.records:,}"), ("Population", f"{plan.recipe.population:,}"),
               ("keyhole", __version__)],
        verdict=state_verdict(plan),
        sentences=explain_status(plan),
        rows=list_rows(plan.before, plan.after, plan),
        optimism=describe_optimism(plan),
        picture=draw_plan(plan, others),
        caption=f"{plan.limits[0].text}: {plan.limits[0].judged}, against the loss of information. Filled: the plan.",
        limits=[limit.text for limit in plan.limits],
        others=[
            _describe(other, loss) for other, loss in zip(others, percents([x.loss for x in others]), strict=True)
        ],
        kept=percents([key.entropy_kept for key in plan.utility.variables]),
        utility=describe_utility(plan),
        merged=[
            (key.name, [(name, _list_codes(codes)) for name, codes in key.groups or () if codes != (name,)])
            for key in plan.recipe.keys
            if key.groups is not None and not key.unchanged
        ],
        search=[
            ("Releases", f"{search.releases:,}"),
            ("Judged on draws", f"{search.evaluated:,}; the others follow from these, because risk falls in every draw "
             "as a release gets coarser"),
            ("Draws of the search", f"{search.draws:,}, from the first half of each chain"),
            ("Draws of the figures", f"{search.report_draws:,}, from the second half"),
            ("Seconds", number(search.seconds)),
        ],
    )  # fmt: skip


def state_verdict(plan: Plan) -> str:
    """Say in one sentence what the plan does."""
    met = " and ".join(limit.text for limit in plan.limits)
    if not plan.steps:
        return f"The file as it is meets {met}."
    return f"The release meets {met}, and loses {percent(plan.loss)} of the information of the keys."


def explain_status(plan: Plan) -> list[str]:
    """Say what optimal means here, and whether the chains agree."""
    search = plan.search
    if search.grade == "not converged":
        return [
            "NOT CONVERGED: the chains of the assessment do not agree, so every chain has to meet the limits by "
            "itself, and intervals run over all of them. Continue the assessment before you rely on the plan.",
            *_explain(plan),
        ]
    return _explain(plan)


def _explain(plan: Plan) -> list[str]:
    search = plan.search
    if plan.status == "optimal":
        known = "none that loses less meets the limits on both halves of the draws"
        return [f"Optimal: of {plural(search.releases, 'release')}, {known}."] if plan.steps else []
    if search.decided:
        return [
            "Locally optimal: single values or records are suppressed, and not all such choices were compared. Without "
            "suppression the first release below with 'yes' is the best of all."
        ]
    return [
        "Locally optimal: not all releases with less loss could be decided in the time; one of them may meet the "
        "limits too."
    ]


def describe_optimism(plan: Plan) -> str:
    """Say how much the choice flatters the plan."""
    search = plan.search
    own, fresh = (f"tau1 {_estimate(found)}" for found in (search.search, search.report))
    tried = "" if search.tried == 1 else f" {plural(search.tried, 'release')} had to be compared with these draws."
    if not search.draws or not plan.steps:
        return ""
    return (
        f"Before: from all draws of the assessment. After: from {search.report_draws:,} draws that were not used to "
        f"choose the plan: {fresh}; on the {search.draws:,} draws that chose it: {own}.{tried}"
    )


def list_rows(before: Figures, after: Figures, plan: Plan) -> list[tuple[str, str, str]]:
    """Return the lines of the table before and after."""
    rows = [
        ("Records", f"{before.records:,}", f"{after.records:,}"),
        ("Alone in the sample", f"{before.sample_uniques:,}", f"{after.sample_uniques:,}"),
        ("Alone in the population, tau1", _estimate(before.tau1), _estimate(after.tau1)),
        ("Correct matches, tau2", _estimate(before.tau2), _estimate(after.tau2)),
    ]
    for limit in plan.limits:
        values = [number(found.limits[limit.text]) for found in (before, after)]
        chances = [word_probability(found.probability[limit.text], not plan.search.draws) for found in (before, after)]
        rows.append((f"{limit.text} ({limit.judged})", values[0], values[1]))
        rows.append((f"Probability of {limit.name} within {limit.threshold:g}", chances[0], chances[1]))
    return rows


def describe_utility(plan: Plan) -> list[str]:
    """Say what is lost beside entropy."""
    found = plan.utility
    sentences = [
        f"{plural(found.categories_lost, 'category').replace('categorys', 'categories')} fewer, "
        f"{plural(found.values_blanked, 'value')} blanked, {plural(found.records_removed, 'record')} removed."
    ]
    if found.margin:
        sentences.append(
            f"Of all margins of two keys, that of {' and '.join(found.margin)} changes most: "
            f"{percent(found.margin_change)} of the records would have to move."
        )
    return sentences


def draw_plan(plan: Plan, others: Sequence[Alternative]) -> Markup:
    """Draw the first limit's measure against the loss: circles for other releases, a diamond for the plan."""
    name, limit = plan.limits[0].text, plan.limits[0].threshold
    points = [(other.loss, other.limits[name]) for other in others]
    chosen = plan.loss, plan.after.limits[name]
    highest = max([limit, chosen[1], *(y for _, y in points)]) * 1.05 or 1.0
    across = Scale(0.0, max([chosen[0], *(x for x, _ in points)]) * 1.05 or 1.0, 44.0, WIDTH - 12.0)
    up = Scale(0.0, highest, 190.0, 16.0)
    values = ticks(0.0, highest)
    marks = [text(38.0, up(y) + 4.0, words, "tick", "end") for y, words in zip(values, tick_words(values), strict=True)]
    x, y = across(chosen[0]), up(chosen[1])
    return picture(
        235.0,
        f"{name} of {len(points) + 1} releases against their loss; the plan is at {percent(chosen[0])}",
        line(44.0, 16.0, 44.0, 190.0, "axis"),
        *marks,
        line(44.0, up(limit), WIDTH - 12.0, up(limit), "level"),
        text(WIDTH - 12.0, up(limit) - 5.0, f"limit {limit:g}", "label", "end"),
        *(element("circle", cx=across(a), cy=up(b), r=4.0, class_="dot") for a, b in points),
        element("polygon", points=f"{x},{y - 7} {x + 7},{y} {x},{y + 7} {x - 7},{y}", class_="diamond"),
        axis(across, 190.0, "loss of information"),
    )


def _describe(other: Alternative, loss: str) -> dict[str, Any]:
    return {
        "words": "; ".join(other.steps),
        "loss": loss,
        "tau1": _estimate(other.tau1),
        "tau2": _estimate(other.tau2),
        "limits": [number(value) for value in other.limits.values()],
        "met": "yes" if other.met else "no",
    }


def _estimate(found: Any) -> str:
    """Write an estimate with its interval; one that is as good as zero as 0 rather than 8e-09."""
    mean = 0.0 if expects_none(found.mean, None, found.interval) else found.mean
    return f"{number(mean)} ({interval_words(found.interval)})"


def _list_codes(codes: Sequence[str]) -> str:
    shown = [code or "blank" for code in codes]
    return ", ".join(shown) if len(shown) <= LISTED else f"{', '.join(shown[:LISTED])} and {len(shown) - LISTED} more"
