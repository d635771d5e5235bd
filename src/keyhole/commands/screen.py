"""What a person sees: a sentence first, then a table that names every default and assumption."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich import box
from rich.console import Console
from rich.table import Table

from keyhole.files import json_text
from keyhole.words import (
    as_flags,
    at_most,
    duration,
    expects_none,
    interval_words,
    number,
    percent,
    plural,
    round_up,
    rounded,
    with_interval,
)

if TYPE_CHECKING:
    from keyhole.data.design import Weights
    from keyhole.diagnostics.laws import Estimate
    from keyhole.risk import Measure
    from keyhole.risk.households import Households
    from keyhole.summary import (
        ConvergenceBlock,
        DesignBlock,
        InputBlock,
        ModelBlock,
        QuickBlock,
        Summary,
        ZerosBlock,
    )

SHORT = 28
GAP = 3  # spaces between the columns of a table
SHOWN_VARIABLES = 4
SHOWN_STEPS = 2
SHOWN_RISKS = ("0.09", "0.2")
SHOWN_K = ("3", "11")
ENVELOPE = (
    "NOT CONVERGED: no single estimate can be given yet. The ranges run from the smallest lower to the largest upper "
    "95 % limit of any chain."
)
NONE = "none expected"
EQUAL_WITHIN = 0.001
CHECKS = {"fit": "Model check", "self_check": "Half-sample check"}
ESTIMATORS = {
    "exact": "exact cell probabilities",
    "importance": "cell probabilities by importance sampling",
    "monte-carlo": "cell probabilities by Monte Carlo, as in the article",
    "population": "simulated populations, as in the article",
    "none": "none needed",
}


def print_json(content: Mapping[str, Any]) -> None:
    click.echo(json_text(content), nl=False)


def print_note(message: str) -> None:
    """Print one line on standard error."""
    click.echo(f"keyhole: {as_flags(message)}", err=True)


def describe_na(block: Mapping[str, Any]) -> str:
    """Say which values are taken as missing; empty if there are none."""
    parts = [
        f"{name}: {plural(count, 'value')} {', '.join(map(repr, block['met'][name]))}"
        for name, count in block["found"].items()
    ]
    if not parts:
        return ""
    more = f"; and in {plural(len(parts) - SHOWN_VARIABLES, 'more column')}" if len(parts) > SHOWN_VARIABLES else ""
    verb = "is" if list(block["found"].values()) == [1] else "are"
    return f"{'; '.join(parts[:SHOWN_VARIABLES])}{more} {verb} taken as missing (`na`)"


def describe_decimals(names: Sequence[str]) -> str:
    """Say which columns hold numbers with a decimal comma."""
    more = f" and {plural(len(names) - SHOWN_VARIABLES, 'more column')}" if len(names) > SHOWN_VARIABLES else ""
    return f"{', '.join(names[:SHOWN_VARIABLES])}{more}: the comma was read as a decimal point"


def print_na(block: Mapping[str, Any]) -> None:
    """Print on standard error what is taken as missing, if anything is."""
    if block["found"]:
        print_note(f"{describe_na(block)}.")


def print_text(text: str, indent: str = "") -> None:
    """Print a paragraph that fits the terminal; further lines are indented."""
    width = Console().width
    click.echo(textwrap.fill(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False))


def fits(header: Sequence[str], body: Iterable[Sequence[str]]) -> bool:
    """Whether a table fits the terminal without folding a cell."""
    widths = [max(map(len, column)) for column in zip(header, *body, strict=True)]
    return sum(widths) + GAP * len(widths) <= Console().width


def print_table(header: tuple[str, ...], body: Iterable[tuple[str, ...]]) -> None:
    """Print a table that fits the terminal: short columns keep their width, long ones are folded."""
    lines = list(body)
    table = Table(box=box.SIMPLE_HEAD if any(header) else None, show_header=any(header), pad_edge=False)
    for place, title in enumerate(header):
        longest = max(map(len, (title, *(line[place] for line in lines))))
        table.add_column(title, no_wrap=longest <= SHORT, overflow="fold")
    for line in lines:
        table.add_row(*line)
    # Without markup, so that a name such as "[red]" is printed as it is.
    Console(highlight=False, markup=False, soft_wrap=False).print(table)


def print_summary(summary: "Summary", folder: Path | None = None) -> None:
    """Print the answer as a sentence, then how it was found."""
    for sentence in [*sentences(summary), *describe_policies(summary)]:
        print_text(sentence)
    click.echo()
    print_table(("", ""), rows(summary, folder))
    if summary.convergence.modes > 1:
        print_table(*group_table(summary.convergence))
        click.echo(explain_weights(summary.convergence), nl=False)


def sentences(summary: "Summary") -> list[str]:
    """Return the answer in words; the first sentence says whether the model fits."""
    from keyhole.data.design import very_unequal
    from keyhole.risk.advice import UNRELIABLE, join_fit

    source, tau1, tau2 = summary.input, summary.tau1, summary.tau2
    uniques = source.sample_uniques
    open_question = _undecided(source)
    cautions = [as_flags(f"Caution: {caution}") for caution in summary.cautions]
    if not uniques and open_question:
        return ["No record is certain to be alone in the sample (tau1 = 0, tau2 = 0).", *cautions, *open_question]
    if not uniques:
        return ["No record is alone in the sample, so these keys identify nobody (tau1 = 0, tau2 = 0).", *cautions]
    if source.population == source.used:
        who = "1 record that is" if uniques == 1 else f"all {uniques:,} records that are"
        text = f"{who} alone in it can be identified (tau1 = {uniques:,}, tau2 = {uniques:,})."
        return [f"The sample is the whole population: {text}", *cautions, *open_question]
    alone, matched = about(tau1), about(tau2)
    who = "Of 1 record that is" if uniques == 1 else f"Of {uniques:,} records that are"
    first = f"{who} alone in the sample, {'none is expected to be' if alone == NONE else f'{alone} are'} alone in the "
    headline = join_fit(f"{first}population.", summary.fit)
    return [
        f"{headline} {UNRELIABLE}" if very_unequal(summary.weights) else headline,
        "An intruder who guesses among all who fit "
        + ("is expected to match none" if matched == NONE else f"would match {matched}")
        + " of them to the right person.",
        *cautions,
        *open_question,
        *([] if tau1.pooled else [ENVELOPE]),
    ]


def describe_policies(summary: "Summary") -> list[str]:
    """Say which policies are met."""
    return [f"The file {found.words}." for found in summary.policies]


def about(measure: "Measure") -> str:
    """Return the point estimate with its interval."""
    interval = interval_words(measure.interval)
    if not measure.pooled:
        return f"{interval} (NOT CONVERGED)"
    if expects_none(measure.mean, measure.mcse, measure.interval):
        return NONE
    return f"about {rounded(measure.mean, measure.mcse)} ({100 * measure.level:.0f} % interval {interval})"


def describe_error(measure: "Measure") -> str:
    """Return the Monte Carlo error of an estimate, rounded as in the verdict; nothing if there is none."""
    error = measure.mcse
    return f"; Monte Carlo error {round_up(error):g}" if error else ""


def rows(summary: "Summary", folder: Path | None) -> list[tuple[str, str]]:
    """Return the table below the sentence: input, assumptions, model, convergence."""
    source, seconds = summary.input, summary.seconds
    keys = ", ".join(f"{name} ({source.levels[name]})" for name in source.key_variables)
    found = [
        ("Records", f"{_records(source)}, from a population of {source.population:,}{_reduced(source)}"),
        ("Keys (categories)", f"{keys or 'none with two categories'}; {source.cells:,} possible combinations"),
    ]
    if source.ignored_keys:
        ignored = ", ".join(source.ignored_keys)
        found.append(("Keys left out", f"{ignored}: one category, so it cannot distinguish records"))
    if source.ordered:
        found.append(("Taken as ordered", ", ".join(source.ordered)))
    if source.bands:
        found.append(("Bands (--band)", "; ".join(f"{name}: {text}" for name, text in source.bands.items())))
    if source.merge:
        found.append(("Merged (--merge)", ", ".join(source.merge)))
    if source.na is not None and source.na.found:
        found.append(("Missing values", describe_na(source.na)))
    if source.decimal_comma:
        found.append(("Decimal commas", describe_decimals(source.decimal_comma)))
    found += [
        ("Alone in the sample", f"{source.sample_uniques:,}"),
        ("Alone in the population", f"tau1 = {about(summary.tau1)}{describe_error(summary.tau1)}"),
        ("Correct matches expected", f"tau2 = {about(summary.tau2)}{describe_error(summary.tau2)}"),
        ("Every record", _all_records(summary)),
    ]
    if source.sample_uniques:
        found += [("Contribution to tau1", _variables(summary)), ("Riskiest records", _thresholds(summary))]
        found += [("What would help", _helps(summary))] if summary.helps else []
    if summary.households is not None:
        found.append(("Households", _households(summary.households)))
    if summary.design.fractions is not None:
        found.append(("Strata", _strata(summary.design)))
    if summary.weights is not None:
        found.append(("Weights", _weights(summary.weights, summary.design)))
    found += [
        ("Impossible combinations", _zeros(summary.zeros)),
        ("Assumed", f"{summary.design.assumes}; {_blank(source)}"),
        ("Model", _model(summary.model)),
        *([("Quick answer", _quick(summary.quick))] if summary.quick is not None and not summary.model.why else []),
        ("Stopping", _stopping(summary)),
        ("Convergence", summary.convergence.message),
        *[(title, summary[name]["message"]) for name, title in CHECKS.items() if summary[name] is not None],
        ("Time", f"{seconds['total']:.1f} s, of which compiling {seconds['compile']:.1f} s"),
    ]
    if folder is not None:
        place = f"{folder}{'' if str(folder).endswith('/') else '/'}"
        found.append(("Results", f"{place} (report.html: to read; records.csv: risks)"))
    return [(title, as_flags(text)) for title, text in found]


def _reduced(source: "InputBlock") -> str:
    """Say why the population is not the number that was given."""
    if source.population_given in (None, source.population):
        return ""
    return f": of the {source.population_given:,} given, those behind the records used (others were left out)"


def _records(source: "InputBlock") -> str:
    if source.count == "COUNT(*)":
        return f"{source.used:,}, counted by the database: records.csv has a row for each of {source.rows:,} cells"
    if source.count:
        return f"{source.used:,} in a table of {source.rows:,} rows (counted by {source.count})"
    return f"{source.used:,} of {source.rows:,} rows"


def _all_records(summary: "Summary") -> str:
    """Say what somebody who tries every record would find, and how many records have a large risk."""
    block = summary.all_records
    if block is None:
        return summary.all_records_missing
    bounds = block.bounded == block.cells
    most = "at most " if bounds else ""

    def show(found: "Estimate") -> str:
        return at_most(found.interval[1]) if bounds else _estimate(summary, found)

    matches, largest = show(block.expected_matches), show(block.largest)
    over = ", ".join(f"{most}{plural(block.above[x], 'record')} above {x}" for x in SHOWN_RISKS)
    few = ", ".join(f"{show(block.k[k])} records with fewer than {k}" for k in SHOWN_K)
    text = (
        f"{matches} correct matches expected if all are tried; the largest match risk of a record is {largest}; "
        f"{f'match risk: {over}; ' if summary.tau1.pooled else ''}people with the same keys: {few}"
    )
    return f"{text}. {block.message}" if block.message else text


def _variables(summary: "Summary") -> str:
    """Name the variables without which tau1 falls most."""
    variables = sorted(summary.attribution.variables, key=lambda found: -found.share_tau1)
    shares = ", ".join(f"{found.name} {100 * found.share_tau1:.0f} %" for found in variables[:SHOWN_VARIABLES])
    more = len(variables) - SHOWN_VARIABLES
    return f"without it tau1 falls by: {shares}" + (f" ({more} more in summary.json)" if more > 0 else "")


def _helps(summary: "Summary") -> str:
    """Describe the steps that take most of tau1 away for what they lose."""
    from keyhole.risk.helps import best_first, word_step

    steps = [
        f"{step.name}: {word_step(step.step, step.merged)} (tau1 then {_estimate(summary, step.tau1)}; "
        f"{percent(round(step.share_lost, 2))} of its information lost)"
        for step in best_first(summary.helps)[:SHOWN_STEPS]
    ]
    more = len(summary.helps) - SHOWN_STEPS
    draws = summary.attribution.draws
    return f"{'; '.join(steps)}{f'; {more} more in summary.json' if more > 0 else ''} (from {draws:,} draws)"


def _estimate(summary: "Summary", estimate: "Estimate") -> str:
    """Return an estimate, or the interval alone if chains disagree and there is no single estimate."""
    return with_interval(estimate) if summary.tau1.pooled else interval_words(estimate.interval)


def _thresholds(summary: "Summary") -> str:
    """Describe the highest threshold that some record exceeds, and the highest above which half of tau1 lies."""
    over = [found for found in summary.thresholds if found.records]
    if not over:
        return "none has r1 above 0.01"
    half = summary.tau1.expected.mean / 2
    chosen = [over[0], next((found for found in over if found.tau1_after <= half), over[-1])]
    return "; ".join(
        f"{plural(found.records, 'record')} {'has' if found.records == 1 else 'have'} r1 above "
        f"{found.above:g} (without {'it' if found.records == 1 else 'them'}, tau1 would be {number(found.tau1_after)})"
        for found in chosen[: 1 if chosen[0] is chosen[1] else 2]
    )


def _households(block: "Households") -> str:
    return (
        f"{block.households:,} by {block.column}, {block.with_sample_unique:,} with a member alone in the "
        f"sample; expected with a member alone in the population: {with_interval(block.with_population_unique)}, "
        f"with a member matched: {with_interval(block.with_match)}"
    )


def _strata(block: "DesignBlock") -> str:
    low, high = block.fractions or (1.0, 1.0)
    source = "of the file of sizes" if block.sizes == "file" else "from sums of weights"
    return f"{block.strata:,} by {', '.join(block.columns)}, sizes {source}; {percent(low)} to {percent(high)} sampled"


def _weights(block: "Weights", design: "DesignBlock") -> str:
    source = f"{block.column}, sum {block.sum:,.0f}" + (", taken as N" if block.gave_population else "")
    if block.warning is not None or block.equal:
        return f"{source}. {block.warning or 'All are equal.'}"
    within = "weight class" if design.kind == "weight-classes" else "stratum"
    text = f"{source}. Unequal (coefficient of variation {block.cv:.2f})"
    if design.cv_within is None:
        return f"{text}; the strata are taken as the reason."
    if design.cv_within < EQUAL_WITHIN:
        return f"{text}, but equal within each {within}, which accounts for it."
    return (
        f"{text}; within each {within} {design.cv_within:.2f}, which is ignored: there every record is "
        "taken to stand for as many people."
    )


def _zeros(zeros: "ZerosBlock | None") -> str:
    if zeros is None:
        return "none given (--zeros): every combination is taken as possible"
    text = (
        f"{plural(zeros.rules, 'rule')} exclude{'s' if zeros.rules == 1 else ''} "
        f"{zeros.impossible_cells:,} combinations ({percent(zeros.share)})"
    )
    if zeros.left_out:
        contradict = "contradicts" if zeros.left_out == 1 else "contradict"
        text += f"; {plural(zeros.left_out, 'record')} that {contradict} them left out (--drop-contradictions)"
    return text


def _blank(source: "InputBlock") -> str:
    if source.missing == "drop":
        return f"{plural(source.dropped, 'record')} with a blank key left out (--missing drop)"
    if source.missing == "model":
        dropped = f"; {plural(source.dropped, 'record')} without any answer left out" if source.dropped else ""
        return (
            f"blank keys ({source.missing_answers:,} in {plural(source.records_with_missing, 'record')}) are "
            "missing at random, and a record is alone if no other agrees with it on all the answers that both have "
            f"(--missing model){dropped}"
        )
    return "a blank key is a category"


def _undecided(source: "InputBlock") -> list[str]:
    undecided = source.undecided
    if not undecided:
        return []
    more = "1 more record may be" if undecided == 1 else f"{undecided:,} more records may be"
    return [
        f"{more} alone: every record that agrees lacks an answer that this one has (--missing model). "
        "These numbers do not include them."
    ]


def _stopping(summary: "Summary") -> str:
    from keyhole.risk.quick import ASKED

    settings = summary.settings
    known = f"the answer is known ({settings.target_ess} effective draws)"
    limits = [
        "the quick answer is usable, or its limit of sweeps is reached," if summary.model.why == ASKED else known,
        f"{settings.time_limit:.0f} s",
        *([] if settings.max_sweeps is None else [f"{settings.max_sweeps:,} sweeps"]),
    ]
    return f"{settings.chains} chains, seed {settings.seed}, until {' or '.join(limits)}"


def _model(model: "ModelBlock") -> str:
    profiles = "" if model.profiles is None else f"{model.profiles.mean:.0f} profiles, "
    error = "" if model.estimator_error is None else f" (Monte Carlo error {100 * model.estimator_error:.1g} %)"
    why = f": {model.why}" if model.why else ""
    return f"{model.name}, prior {model.prior}, {profiles}{ESTIMATORS[model.estimator]}{error}{why}"


def _quick(quick: "QuickBlock") -> str:
    first, spent = "the simpler and faster model classes was run first, for", duration(quick.seconds)
    if not quick.tau1.pooled:
        tau1, tau2 = (interval_words(item.interval) for item in (quick.tau1, quick.tau2))
        return f"{first} {spent}: tau1 {tau1}, tau2 {tau2} over its chains, which had not settled yet."
    return f"{first} {spent}: tau1 {about(quick.tau1)}, tau2 {about(quick.tau2)}. {quick.message}"


def group_table(convergence: "ConvergenceBlock") -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return header and rows of a table of the groups of chains.

    The last column, a sensitivity analysis, is there only if groups disagree: otherwise weights differ by chance.
    """
    header: tuple[str, ...] = ("Chains that agree", "Their tau1", "Their tau2", "Still moving")
    body: list[tuple[str, ...]] = []
    stacking = convergence.stacking if convergence.disagree else None
    for group in convergence.groups:
        chains = ", ".join(str(chain) for chain in group.chains)
        moving = "no" if group.settled else "yes"
        row = (chains, with_interval(group.tau1), with_interval(group.tau2), moving)
        body.append(row if stacking is None else (*row, percent(group.stacking)))
    if stacking is not None:
        header = (*header, "Weight *")
        body.append(("* weighted", with_interval(stacking.tau1), with_interval(stacking.tau2), "", "100 %"))
    return header, body


def explain_weights(convergence: "ConvergenceBlock") -> str:
    stacking = convergence.stacking if convergence.disagree else None
    if stacking is None:
        return ""
    return (
        f"* {stacking.note[0].upper()}{stacking.note[1:]}. From {stacking.records:,} records, "
        f"{percent(stacking.unreliable)} of them with an unreliable weight.\n"
    )
