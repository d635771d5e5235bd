"""The answer in words: what the risk is, how sure it is, what causes it, what to do next."""

from keyhole.report.content import (
    Convergence,
    Estimate,
    Impossible,
    ModelCheck,
    Source,
    Step,
    Threshold,
    VariableRisk,
    Verdict,
)
from keyhole.words import enumerate_words, number, one_in, percent

NAMED = 6
UNDECIDED = "Blank values leave open whether further records are alone; they are not among these (Assumptions)."
WORTH_WHILE = 0.1
"""A variable is named as a cause when leaving it out takes away at least this share of tau1."""


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
) -> Verdict:
    """Say it all. everybody: the sample is the whole population."""
    certain = not convergence.sampled
    sentence, matches = _sentences(source, tau1, tau2, certain, everybody, convergence.pooled)
    return Verdict(
        certain=certain,
        sentence=sentence,
        matches=matches,
        sure=_how_sure(tau1, level, convergence, check),
        cause=_cause(tau1, variables, source),
        meaning=_meaning(source, tau1),
        steps=_steps(source, tau1, convergence, variables, thresholds, check, impossible),
    )


def _sentences(
    source: Source, tau1: Estimate, tau2: Estimate, certain: bool, everybody: bool, pooled: bool
) -> tuple[str, str]:
    alone = source.sample_uniques
    if certain and not everybody:
        who = "No record is" if alone.value == 0 else f"{alone.in_a_sentence.capitalize()} records are"
        if source.undecided:
            return f"{who} surely alone in the sample. {UNDECIDED}", ""
        return f"{who} alone in the sample, and nobody can be picked out by these keys.", ""
    if everybody:
        all_of = "all " if alone.value is not None else "the "
        return (
            f"The sample is the whole population: {all_of}{alone.in_a_sentence} records that are alone in it "
            f"can be picked out.{f' {UNDECIDED}' if source.undecided else ''}",
            "",
        )
    begin, verb = ("Of", "are") if pooled else ("So far, of", "seem to be")
    return (
        f"{begin} {alone.in_a_sentence} records that are alone in the sample, about {tau1.text} {verb} alone in the "
        f"population.{f' {UNDECIDED}' if source.undecided else ''}",
        f"Somebody who guesses among all people who fit would match about {tau2.text} of these records to the right "
        "person, those who are alone in the population included, without knowing which guesses are right.",
    )


def _how_sure(tau1: Estimate, level: float, convergence: Convergence, check: ModelCheck | None) -> str:
    if not convergence.sampled:
        return convergence.sentence
    if not convergence.pooled:
        return (
            f"Not sure enough to decide. So far the {percent(level)} interval is {number(tau1.low)} to "
            f"{number(tau1.high)}, but the runs behind it do not agree yet."
        )
    sure = (
        f"With {percent(level)} probability the number alone in the population lies between {number(tau1.low)} and "
        f"{number(tau1.high)}, if the assumptions below hold. {convergence.sentence}"
    )
    if check is not None and not check.ok:
        sure += " But the model does not reproduce this file well, so the number may be further off."
    return sure


def _cause(tau1: Estimate, variables: tuple[VariableRisk, ...], source: Source) -> str:
    if not variables:
        return (
            f"It comes from the combination of {_names(source.keys)}. What each contributes was not computed in this "
            "run."
        )
    causes = [variable for variable in variables if variable.share >= WORTH_WHILE][:3]
    if not causes:
        return "No single variable: leaving out any one of them changes little."
    first = causes[0]
    told = (
        f"{first.name} most: without it, about {number(first.tau1_without.mean)} in place of {number(tau1.mean)} "
        "would be alone in the population."
    )
    others = [f"{variable.name} (without it {number(variable.tau1_without.mean)})" for variable in causes[1:]]
    return f"{told} Then {enumerate_words(others)}." if others else told


def _meaning(source: Source, tau1: Estimate) -> tuple[str, ...]:
    told = [
        f"Alone in the population means: nobody else among {source.population} people has the same combination of "
        f"{_names(source.keys)}. Whoever knows these about a person, and finds them in the file, has found "
        "that person's record and everything else in it."
    ]
    share = None if tau1.mean is None or source.records.value is None else one_in(tau1.mean, source.records.value)
    if share is not None:
        told.append(f"That is {share} of all {source.records.text} records in the file.")
    if tau1.mean is not None and source.sample_uniques.value and tau1.mean < source.sample_uniques.value / 2:
        told.append(
            "The file does not mark these records, and most of those that are alone in the sample have people like "
            "them outside it. But some stand out by themselves (Whose risk, below)."
        )
    told.append("There is no limit that fits every release; hold the number against your own rule.")
    return tuple(told)


def _steps(
    source: Source,
    tau1: Estimate,
    convergence: Convergence,
    variables: tuple[VariableRisk, ...],
    thresholds: tuple[Threshold, ...],
    check: ModelCheck | None,
    impossible: Impossible,
) -> tuple[Step, ...]:
    steps = []
    if not convergence.pooled:
        how = "The same command with these options goes on where this run ended:"
        steps.append(
            Step(
                "Run longer before deciding anything.",
                how if convergence.command else convergence.remedy,
                convergence.command,
            )
        )
    if check is not None and not check.ok:
        steps.append(
            Step("Find out why the model does not fit.", "Often combinations that cannot exist were not excluded.")
        )
    if not impossible.given and len(source.keys) > 1:
        steps.append(
            Step(
                "Tell the model what cannot exist, such as a married child.",
                "Not told so, it makes people look more alone than they are. This looks for candidates:",
                "keyhole zeros suggest FILE",
            )
        )
    if not convergence.pooled:
        return (*steps, Step("Then read this list again.", "It will say what to decide and what could be changed."))
    if source.sample_uniques.value == 0:
        return (*steps, Step("Nothing has to be done about these keys.", "Add other keys an intruder could know."))
    steps.append(
        Step(
            "Decide whether this risk is acceptable.",
            "Use the upper end of the interval to be on the safe side, and the same rule for every release.",
        )
    )
    return (*steps, *_remedies(tau1, variables, thresholds))


def _remedies(
    tau1: Estimate, variables: tuple[VariableRisk, ...], thresholds: tuple[Threshold, ...]
) -> tuple[Step, ...]:
    steps = []
    if variables and variables[0].share >= WORTH_WHILE:
        first = variables[0]
        steps.append(
            Step(
                f"If it is too high, make {first.name} coarser or leave it out.",
                f"Without it, about {first.tau1_without.text} in place of {tau1.text} would be alone in the "
                "population; broader categories lie in between.",
            )
        )
    else:
        steps.append(
            Step(
                "If it is too high, make the keys coarser.",
                "Join rare categories, or leave out a variable that users of the file can do without.",
            )
        )
    best = _choose_threshold(tau1, thresholds)
    if best is not None:
        steps.append(
            Step(
                "Or change only the records at most risk.",
                f"Without the {best.records.text} records whose risk is above {percent(best.above)}, about "
                f"{number(best.tau1)} would remain.",
            )
        )
    steps.append(
        Step(
            "Then assess the changed file again.",
            "Rows and their risks are in records.csv of the result folder, which is for the owner only.",
        )
    )
    return tuple(steps)


def _choose_threshold(tau1: Estimate, thresholds: tuple[Threshold, ...]) -> Threshold | None:
    """The highest limit that halves the risk, or else the lowest: thresholds come from high to low."""
    useful = [found for found in thresholds if found.tau1 is not None and found.records.value]
    enough = [found for found in useful if (found.tau1 or 0.0) <= (tau1.mean or 0.0) / 2]
    return next(iter(enough[:1] or useful[-1:]), None)


def _names(keys: tuple[str, ...]) -> str:
    if not keys:
        return "the keys"
    if len(keys) <= NAMED + 2:
        return enumerate_words(keys)
    return f"{', '.join(keys[:NAMED])} and {len(keys) - NAMED} other keys"
