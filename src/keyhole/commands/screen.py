"""What a person sees: a sentence first, then a table that names every default and assumption."""

import textwrap
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table

from keyhole.errors import NotConvergedWarning
from keyhole.files import json_text
from keyhole.words import number, percent, plural, round_up, rounded


def tell_error(measure: dict[str, Any]) -> str:
    """The Monte Carlo error of an estimate, if there is one, as the verdict gives it."""
    error = measure.get("mcse")
    return f"; Monte Carlo error {round_up(error):g}" if error else ""


def group_table(convergence: dict[str, Any]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows of a table of the groups of chains; the last column is a sensitivity, and says so.

    Weights of chains that differ no more than by chance would be weights by chance: they are not shown.
    """
    header: tuple[str, ...] = ("Chains that agree", "tau1 by them", "tau2 by them", "Still moving")
    body: list[tuple[str, ...]] = []
    stacking = shown_stacking(convergence)
    for group in convergence["groups"]:
        chains = ", ".join(str(chain) for chain in group["chains"])
        moving = "no" if group["settled"] else "yes"
        row = (chains, with_interval(group["tau1"]), with_interval(group["tau2"]), moving)
        body.append(row if stacking is None else (*row, percent(group["stacking"])))
    if stacking is not None:
        header = (*header, "Weight *")
        body.append(("* weighted", with_interval(stacking["tau1"]), with_interval(stacking["tau2"]), "", "100 %"))
    return header, body


def shown_stacking(convergence: dict[str, Any]) -> dict[str, Any] | None:
    """The weights, if the groups they belong to disagree."""
    stacking: dict[str, Any] | None = convergence["stacking"]
    return stacking if convergence["disagree"] else None


def explain_weights(convergence: dict[str, Any]) -> str:
    """What the last column of the table is, and is not."""
    stacking = shown_stacking(convergence)
    if stacking is None:
        return ""
    return (
        f"* {stacking['note'][0].upper()}{stacking['note'][1:]}. From {stacking['records']:,} records, "
        f"{percent(stacking['unreliable'])} of them with a doubtful weight.\n"
    )


def with_interval(estimate: dict[str, Any]) -> str:
    """A mean with its interval in brackets."""
    low, high = estimate["interval"]
    return f"{number(estimate['mean'])} ({number(low)} to {number(high)})"


SHOWN_VARIABLES = 4


def explain_rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the lines of the table on the screen that say whose risk it is."""
    found = []
    if summary["input"]["sample_uniques"]:
        found = [("What carries tau1", _variables(summary)), ("Riskiest records", _thresholds(summary))]
    if summary["households"] is not None:
        found.append(("Households", _households(summary["households"])))
    if summary["weights"] is not None:
        found.append(("Weights", _weights(summary["weights"])))
    return found


def _variables(summary: dict[str, Any]) -> str:
    """The variables without which most of tau1 goes."""
    variables = sorted(summary["attribution"]["variables"], key=lambda found: -found["share_tau1"])
    told = ", ".join(f"{found['name']} {100 * found['share_tau1']:.0f} %" for found in variables[:SHOWN_VARIABLES])
    more = len(variables) - SHOWN_VARIABLES
    return f"without it tau1 falls by: {told}" + (f" ({more} more in summary.json)" if more > 0 else "")


def _thresholds(summary: dict[str, Any]) -> str:
    """The strictest threshold that some record exceeds, and the one that most of tau1 exceeds."""
    over = [found for found in summary["thresholds"] if found["records"]]
    if not over:
        return "none has r1 above 0.01"
    half = summary["tau1"]["expected"]["mean"] / 2
    chosen = [over[0], next((found for found in over if found["tau1_after"] <= half), over[-1])]
    parts = []
    for found in chosen[: 1 if chosen[0] is chosen[1] else 2]:
        has = "has" if found["records"] == 1 else "have"
        parts.append(
            f"{plural(found['records'], 'record')} {has} r1 above {found['above']:g} "
            f"(tau1 without: {number(found['tau1_after'])})"
        )
    return "; ".join(parts)


def _households(block: dict[str, Any]) -> str:
    return (
        f"{block['households']:,} by {block['column']}, {block['with_sample_unique']:,} with a member alone in the "
        f"sample; expected with a member alone in the population: {with_interval(block['with_population_unique'])}, "
        f"with a member matched: {with_interval(block['with_match'])}"
    )


def _weights(block: dict[str, Any]) -> str:
    source = f"{block['column']}, sum {block['sum']:,.0f}" + (", taken as N" if block["gave_population"] else "")
    return f"{source}. {block['warning'] or 'All are equal.'}"


SHORT = 26
ENVELOPE = (
    "NOT CONVERGED: no single estimate can be given yet. The ranges run from the smallest lower to the largest upper "
    "95 % limit of any chain."
)
CHECKS = {"fit": "Model check", "self_check": "Half-sample check"}
ESTIMATORS = {
    "exact": "exact cell probabilities",
    "importance": "cell probabilities by importance sampling",
    "monte-carlo": "cell probabilities by Monte Carlo, as in the article",
    "population": "simulated populations, as in the article",
    "none": "none needed",
}


@contextmanager
def silenced() -> Iterator[None]:
    """Leave out Python's warning about chains: a command says the same in its own words, and by its exit status."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        yield


def print_json(content: dict[str, Any]) -> None:
    """Print the summary for a program."""
    click.echo(json_text(content), nl=False)


def print_summary(summary: dict[str, Any], folder: Path | None = None) -> None:
    """Print the answer as a sentence, then how it was found."""
    for sentence in sentences(summary):
        click.echo(textwrap.fill(sentence, Console().width))
    click.echo()
    print_table(("", ""), rows(summary, folder))
    if summary["convergence"]["modes"] > 1:
        print_table(*group_table(summary["convergence"]))
        click.echo(explain_weights(summary["convergence"]), nl=False)


def sentences(summary: dict[str, Any]) -> list[str]:
    """The answer in words."""
    source, tau1, tau2 = summary["input"], summary["tau1"], summary["tau2"]
    uniques = source["sample_uniques"]
    open_question = _undecided(source)
    if not uniques and open_question:
        return ["No record is surely alone in the sample (tau1 = 0, tau2 = 0).", *open_question]
    if not uniques:
        return ["No record is alone in the sample, so none can be picked out by these keys (tau1 = 0, tau2 = 0)."]
    if source["population"] == source["used"]:
        return [
            f"The sample is the whole population: all {uniques:,} records that are alone in it "
            f"can be picked out (tau1 = {uniques:,}, tau2 = {uniques:,}).",
            *open_question,
        ]
    told = [
        f"Of {uniques:,} records that are alone in the sample, {about(tau1)} are alone in the population.",
        f"An intruder who guesses among all who fit would match {about(tau2)} of them to the right person.",
        *open_question,
    ]
    return told if tau1.get("pooled", True) else [*told, ENVELOPE]


def about(measure: dict[str, Any]) -> str:
    """The point estimate with its interval."""
    low, high = measure["interval"]
    if not measure.get("pooled", True):
        return f"{number(low)} to {number(high)} (NOT CONVERGED)"
    interval = f"{100 * measure['level']:.0f} % interval {number(low)} to {number(high)}"
    return f"about {rounded(measure['mean'], measure.get('mcse'))} ({interval})"


def rows(summary: dict[str, Any], folder: Path | None) -> list[tuple[str, str]]:
    """The table below the sentence: input, assumptions, model, convergence."""
    source, model, seconds = summary["input"], summary["model"], summary["seconds"]
    keys = ", ".join(f"{name} ({source['levels'][name]})" for name in source["keys"]) or "none that tells people apart"
    found = [
        ("Records", f"{_records(source)}, from a population of {source['population']:,}"),
        ("Keys (categories)", f"{keys}; {source['cells']:,} possible combinations"),
        ("Alone in the sample", f"{source['sample_uniques']:,}"),
        ("Alone in the population", f"tau1 = {about(summary['tau1'])}{tell_error(summary['tau1'])}"),
        ("Correct matches expected", f"tau2 = {about(summary['tau2'])}{tell_error(summary['tau2'])}"),
        *explain_rows(summary),
        ("Impossible combinations", _zeros(summary["zeros"])),
        ("Assumed", f"records are a simple random sample, one record per person; {_blank(source)}"),
        ("Model", f"{model['name']}, prior {model['prior']}, {_profiles(model)}{_estimator(model)}"),
        ("Stopping", _stopping(summary["settings"])),
        ("Convergence", summary["convergence"]["message"]),
        *[(title, summary[name]["message"]) for name, title in CHECKS.items() if summary.get(name) is not None],
        ("Time", f"{seconds['total']:.1f} s, of which compiling {seconds['compile']:.1f} s"),
    ]
    if source.get("bands"):
        cut = "; ".join(f"{name}: {text}" for name, text in source["bands"].items())
        found.insert(2, ("Bands (--band)", cut))
    if source["ignored_keys"]:
        found.insert(2, ("Keys left out", f"{', '.join(source['ignored_keys'])}: one category, tells nobody apart"))
    if folder is not None:
        found.append(
            (
                "Results",
                f"{folder}{'' if str(folder).endswith('/') else '/'} (report.html: to read; records.csv: risks)",
            )
        )
    return found


def print_table(header: tuple[str, ...], body: Iterable[tuple[str, ...]]) -> None:
    """Print a table that fits the terminal: short columns keep their width, long ones are folded."""
    lines = list(body)
    table = Table(box=box.SIMPLE_HEAD if any(header) else None, show_header=any(header), pad_edge=False)
    for place, title in enumerate(header):
        longest = max(map(len, (title, *(line[place] for line in lines))))
        table.add_column(title, no_wrap=longest <= SHORT, overflow="fold")
    for line in lines:
        table.add_row(*line)
    # Markup is off: a name such as "[red]" is a name.
    Console(highlight=False, markup=False, soft_wrap=False).print(table)


def _zeros(zeros: dict[str, Any] | None) -> str:
    if zeros is None:
        return "none given (--zeros): every combination is taken as possible"
    told = (
        f"{plural(zeros['rules'], 'rule')} exclude{'s' if zeros['rules'] == 1 else ''} "
        f"{zeros['impossible_cells']:,} combinations ({percent(zeros['share'])})"
    )
    if zeros["left_out"]:
        contradict = "contradicts" if zeros["left_out"] == 1 else "contradict"
        told += f"; {plural(zeros['left_out'], 'record')} that {contradict} them left out (--drop-contradictions)"
    return told


def _records(source: dict[str, Any]) -> str:
    if source.get("count"):
        return f"{source['used']:,} in a table of {source['rows']:,} rows (counted by {source['count']})"
    return f"{source['used']:,} of {source['rows']:,} rows"


def _blank(source: dict[str, Any]) -> str:
    if source["missing"] == "drop":
        return f"{plural(source['dropped'], 'record')} with a blank key left out (--missing drop)"
    if source["missing"] == "model":
        dropped = f"; {plural(source['dropped'], 'record')} without any answer left out" if source["dropped"] else ""
        return (
            f"blank keys ({source['missing_answers']:,} in {plural(source['records_with_missing'], 'record')}) are "
            "missing at random, and a record is alone if no other agrees with it on all the answers that both have "
            f"(--missing model){dropped}"
        )
    return "a blank key is a category"


def _undecided(source: dict[str, Any]) -> list[str]:
    undecided = source.get("undecided", 0)
    if not undecided:
        return []
    more = "1 more record may be" if undecided == 1 else f"{undecided:,} more records may be"
    return [
        f"{more} alone: whoever agrees lacks an answer that the record has (--missing model). "
        "They are not among these numbers."
    ]


def _stopping(settings: dict[str, Any]) -> str:
    limits = [f"the answer is known ({settings['target_ess']} effective draws)", f"{settings['time_limit']:.0f} s"]
    if settings["max_sweeps"] is not None:
        limits.append(f"{settings['max_sweeps']:,} sweeps")
    return f"{settings['chains']} chains, seed {settings['seed']}, until {' or '.join(limits)}"


def _profiles(model: dict[str, Any]) -> str:
    return "" if model["profiles"] is None else f"{model['profiles']['mean']:.0f} profiles, "


def _estimator(model: dict[str, Any]) -> str:
    error = model.get("estimator_error")
    return ESTIMATORS[model["estimator"]] + ("" if error is None else f" (Monte Carlo error {100 * error:.1g} %)")
