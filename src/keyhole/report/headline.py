"""The answer in words: what the risk is, how certain it is, what causes it, what to do next."""

from keyhole.report.content import (
    Convergence,
    Estimate,
    HelpRow,
    Impossible,
    ModelCheck,
    Source,
    Step,
    Threshold,
    VariableRisk,
    Verdict,
)
from keyhole.risk.advice import UNRELIABLE
from keyhole.words import enumerate_words, number, one_in, percent

NAMED = 6
UNDECIDED = " Blank values leave open whether further records are alone; these numbers exclude them (see Assumptions)."
AGAIN = Step(
    "Then assess the changed file again.",
    "Rows and their risks are in records.csv of the result folder, which is for the owner only.",
)
WORTH_WHILE = 0.1
"""A variable is named as a cause when leaving it out lowers tau1 by at least this share."""


def make_verdict(
    source: Source,
    tau1: Estimate,
    tau2: Estimate,
    level: float,
    everybody: bool,
    convergence: Convergence,
    variables: tuple[VariableRisk, ...],
    thresholds: tuple[Threshold, ...],
    check: ModelCheck | None,
    impossible: Impossible,
    suggest: str | None,
    helps: tuple[HelpRow, ...] = (),
    unequal: bool = False,
) -> Verdict:
    """Put the result into words. everybody: the sample is the whole population; suggest: the command for rules.

    unequal: weights are very unequal, and no strata account for them.
    """
    sentence, matches = _sentences(source, tau1, tau2, everybody, convergence, check)
    unequal = unequal and convergence.sampled
    sentence = f"{sentence} {UNRELIABLE}" if unequal else sentence
    rules = [] if impossible.given or len(source.keys) < 2 else [_state_rules(check, suggest)]
    missing = check is not None and not check.ok
    steps = [*_steps_before(convergence, check), *(rules if missing else [])]
    if not convergence.pooled:
        steps.append(Step("Then read this list again.", "It will show what to decide, and what could be changed."))
    elif source.sample_uniques.value == 0:
        steps.append(Step("Nothing has to be done about these keys.", "Consider other keys an intruder could know."))
    else:
        steps += [*_steps_after(tau1, variables, thresholds, helps), *([] if missing or everybody else rules), AGAIN]
    return Verdict(
        sentence=sentence,
        matches=matches,
        certainty=_certainty(tau1, level, convergence, check) + (f" {UNRELIABLE}" if unequal else ""),
        cause=_cause(tau1, variables, source),
        meaning=_meaning(source, tau1),
        steps=tuple(steps),
    )


def _sentences(
    source: Source,
    tau1: Estimate,
    tau2: Estimate,
    everybody: bool,
    convergence: Convergence,
    check: ModelCheck | None,
) -> tuple[str, str]:
    alone = source.sample_uniques
    undecided = UNDECIDED if source.undecided else ""
    if everybody:
        all_of = "all " if alone.value is not None else "the "
        return (
            f"The sample is the whole population: {all_of}{alone.in_a_sentence} records that are alone in it "
            f"can be identified.{undecided}",
            "",
        )
    if not convergence.sampled:
        who = "No record is" if alone.value == 0 else f"{alone.in_a_sentence.capitalize()} records are"
        if undecided:
            return f"{who} certain to be alone in the sample.{undecided}", ""
        return f"{who} alone in the sample, and these keys identify nobody.", ""
    begin, verb = ("Of", "are") if convergence.pooled else ("So far, of", "seem to be")
    fits = ""
    if check is not None and check.verdict is not None:
        fits = f", {'but' if check.fits == 'does not fit' else 'and'} {check.verdict}"
    return (
        f"{begin} {alone.in_a_sentence} records that are alone in the sample, {tau1.about} {verb} alone in the "
        f"population{fits}.{undecided}",
        f"An intruder who guesses among all people who fit would match {tau2.about} of these records to the right "
        "person, including those who are alone in the population, without knowing which guesses are right.",
    )


def _certainty(tau1: Estimate, level: float, convergence: Convergence, check: ModelCheck | None) -> str:
    if not convergence.sampled:
        return convergence.sentence
    interval = f"{number(tau1.low)} to {number(tau1.high)}"
    if not convergence.pooled:
        return (
            f"Not certain enough to decide. So far the {percent(level)} interval is {interval}, but the chains behind "
            "it do not agree yet."
        )
    text = (
        f"With {percent(level)} probability the number alone in the population is in the interval {interval}, if the "
        f"assumptions below hold. {convergence.sentence}"
    )
    if check is not None and check.fits == "does not fit":
        text += " However, the model does not fit this file, so do not rely on the interval."
    elif check is not None and not check.ok:
        text += " However, the model does not reproduce this file in every respect, so the number may be further off."
    return text


def _cause(tau1: Estimate, variables: tuple[VariableRisk, ...], source: Source) -> str:
    if not variables:
        return f"The combination of {_names(source.keys)}. The contribution of each was not computed in this run."
    causes = [variable for variable in variables if variable.share >= WORTH_WHILE][:3]
    if not causes:
        return "No single variable: leaving out any one of them changes little."
    first, *others = causes
    left = [number(found.tau1_without.mean) if tau1.pooled else found.tau1_without.text for found in causes]
    text = (
        f"Mostly {first.name}: without it, {'about ' if tau1.pooled else ''}{left[0]} instead of "
        f"{number(tau1.mean) if tau1.pooled else tau1.text} would be alone in the population."
    )
    named = [f"{variable.name} (without it {rest})" for variable, rest in zip(others, left[1:], strict=True)]
    return f"{text} Next, {enumerate_words(named)}." if named else text


def _meaning(source: Source, tau1: Estimate) -> tuple[str, ...]:
    parts = [
        f"Alone in the population means that nobody else among {source.population} people has the same combination of "
        f"{_names(source.keys)}. An intruder who knows these values of a person, and finds them in the file, has found "
        "that person's record and everything else in it."
    ]
    known = tau1.mean is not None and tau1.pooled
    share = one_in(tau1.mean or 0.0, source.records.value) if known and source.records.value is not None else None
    if share is not None:
        parts.append(f"The estimate is {share} of all {source.records.text} records in the file.")
    largest = tau1.mean if tau1.pooled else tau1.high
    if largest is not None and source.sample_uniques.value and largest < source.sample_uniques.value / 2:
        parts.append(
            "The file does not show which records these are, and most of those that are alone in the sample have "
            "people like them outside it. Some records, however, are at high risk (see Which records)."
        )
    parts.append("No limit suits every release: compare the number with your own rule.")
    return tuple(parts)


def _steps_before(convergence: Convergence, check: ModelCheck | None) -> list[Step]:
    """What to do before the number is used."""
    steps = []
    if not convergence.pooled:
        how = "This command continues the run:" if convergence.command else convergence.remedy
        steps.append(Step("Run longer before deciding anything.", how, convergence.command))
    if check is not None and not check.ok:
        steps.append(
            Step(
                f"Find out why the model {'does not fit' if check.fits == 'does not fit' else 'fits in part only'}.",
                "Often, combinations that cannot exist were not excluded, or keys have more categories than the file "
                "can support. The section about the model check names the keys to merge or leave out; the half-sample "
                "check (--self-check) shows how far off an estimate is on half of the file.",
            )
        )
    return steps


def _state_rules(check: ModelCheck | None, suggest: str | None) -> Step:
    """Advise to state rules; how urgent that is depends on whether the model fits without them."""
    how = (
        "The model fits this file without such rules, so little may change; but without them it may overstate the risk."
        if check is not None and check.ok
        else "Without these rules the model overestimates uniqueness."
    )
    command = " This command suggests some:" if suggest else ""
    return Step("State which combinations cannot exist, such as a married child.", how + command, suggest)


def _steps_after(
    tau1: Estimate,
    variables: tuple[VariableRisk, ...],
    thresholds: tuple[Threshold, ...],
    helps: tuple[HelpRow, ...],
) -> list[Step]:
    """What to do with the number; changes of the file in the order of what they would do to it."""
    before = tau1.mean or 0.0
    changes: list[tuple[float, str, str]] = []
    if variables and variables[0].share >= WORTH_WHILE:
        first = variables[0]
        between = "broader categories lie in between."
        for step in helps:
            if step.name == first.name and step.tau1.text != first.tau1_without.text:
                between = f"to {step.step} would leave about {step.tau1.text} (see What would help)."
        changes.append(
            (
                first.tau1_without.mean or 0.0,
                f"make {first.name} coarser or leave it out.",
                f"Without it, about {first.tau1_without.text} instead of {tau1.text} would be alone in the "
                f"population; {between}",
            )
        )
    else:
        changes.append(
            (
                before,
                "make the keys coarser.",
                "Merge rare categories, or leave out a variable that users of the file can do without.",
            )
        )
    best = _choose_threshold(tau1, thresholds)
    if best is not None:
        changes.append(
            (
                best.tau1 or 0.0,
                "change only the riskiest records.",
                f"Without the {best.records.text} records whose probability of being alone in the population (r1) is "
                f"above {percent(best.above)}, about "
                f"{number(best.tau1)} would remain.",
            )
        )
    changes.sort(key=lambda change: change[0])
    return [
        Step(
            "Decide whether this risk is acceptable.",
            "To be on the safe side, use the upper end of the interval, and the same rule for every release.",
        ),
        *(
            Step(f"{'Or' if place else 'If it is too high,'} {what}", how)
            for place, (_, what, how) in enumerate(changes)
        ),
    ]


def _choose_threshold(tau1: Estimate, thresholds: tuple[Threshold, ...]) -> Threshold | None:
    """Return the highest limit that halves the risk, or else the lowest: thresholds come from high to low."""
    useful = [found for found in thresholds if found.tau1 is not None and found.records.value]
    enough = [found for found in useful if (found.tau1 or 0.0) <= (tau1.mean or 0.0) / 2]
    return next(iter(enough[:1] or useful[-1:]), None)


def _names(keys: tuple[str, ...]) -> str:
    if not keys:
        return "the keys"
    if len(keys) <= NAMED + 2:
        return enumerate_words(keys)
    return f"{', '.join(keys[:NAMED])} and {len(keys) - NAMED} other keys"
