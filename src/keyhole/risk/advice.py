"""Verdicts as values, and the sentences made from them, with what to do next: on the chains, and on the model check.

Screen, summary, report and Python agree because they all read the value. Each sentence has a function.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from keyhole.diagnostics.gates import Gate, draws_needed, shortfall
from keyhole.diagnostics.groups import Group
from keyhole.readable import Readable
from keyhole.sampling.trace import Trace
from keyhole.settings import Settings
from keyhole.words import (
    duration,
    enumerate_words,
    first_few,
    interval_words,
    number,
    percent,
    plural,
    round_up,
    with_interval,
)

if TYPE_CHECKING:
    from keyhole.risk.fit import Check, TwoWay

Grade = Literal["converged", "usable", "not converged"]
Reason = Literal["certain", "agree", "one chain", "few draws", "moving", "apart", "disagree"]
Remedy = Literal["none", "chains", "time", "sweeps", "model", "quick"]
FitVerdict = Literal["fits", "fits except", "does not fit"]

SHOWN = 3
"""Most failed gates named in a sentence; all of them are in summary.json."""

MOST_GROUPS = 4
"""Most groups named one by one."""

WORDS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight")
LIMITS = {"time": "the time limit", "sweeps": "the limit of sweeps"}


FEW_RECORDS = 50
"""With fewer records, the model check has hardly any pairs of categories to compare."""

FEW_FOR_CATEGORIES = 300
"""With fewer records, a category that 1 % of people have is missed in more than 5 % of samples: 0.99^300 is 0.05."""


MANY_LEFT_OUT = 0.05
"""Share of the records that may be left out without a word beside the number."""

UNEQUAL = (
    "The weights are very unequal and no strata were given, so the records are no simple random sample, which "
    "the estimate assumes. Say how they were drawn with `strata`, or take similar weights as strata with "
    "`weight_classes` 5."
)


def describe_cautions(
    records: int,
    observed_keys: Sequence[str],
    left_out: int = 0,
    unequal: bool = False,
    strangers: Mapping[str, str] | None = None,
    sampled: bool = True,
) -> list[str]:
    """Say what makes an estimate less reliable than its interval.

    observed_keys: keys that no codebook lists; left_out: records that are not used; unequal: weights are very unequal
    and no strata account for them; strangers: entries of the codebook that are no column, with the nearest column;
    sampled: whether anything had to be estimated.
    """
    cautions = [UNEQUAL] if unequal and sampled else []
    share = left_out / max(records + left_out, 1)
    if share > MANY_LEFT_OUT:
        cautions.append(
            f"More than {percent(MANY_LEFT_OUT)} of the records were left out. The estimate is about the people who "
            "would be left in, and the population was reduced to them in the same proportion. If those left out are "
            "at more risk than others, it understates the risk of the file."
        )
    meant = [f"'{entry}' (did you mean '{near}'?)" for entry, near in (strangers or {}).items() if near]
    if meant:
        cautions.append(
            f"The codebook has {'an entry that is no column' if len(meant) == 1 else 'entries that are no columns'} "
            f"of the file and {'was' if len(meant) == 1 else 'were'} ignored: {first_few(meant, SHOWN)}."
        )
    if not sampled:
        return cautions
    if records < FEW_RECORDS:
        cautions.append(
            f"The file has fewer than {FEW_RECORDS} records, too few to show whether the model fits, so the estimate "
            "rests on the assumptions of the model."
        )
    if records < FEW_FOR_CATEGORIES and observed_keys:
        cautions.append(
            f"The categories of {enumerate_words(observed_keys)} were taken from fewer than {FEW_FOR_CATEGORIES} "
            "records. Categories that only other people have are missing, and without them the risk is understated: "
            "list all of them in a `codebook`."
        )
    return cautions


@dataclass(frozen=True)
class Verdict(Readable):
    """Whether the result can be trusted, why, and what would help.

    numbers: what the sentences mention, by name. tau1_low and tau1_high are the smallest and largest mean of a chain,
    tau1_upper the largest upper limit of any chain, error the Monte Carlo error of tau1's mean, seconds_more the
    estimated time to a verdict, if known.
    """

    grade: Grade
    reason: Reason
    remedy: Remedy
    numbers: dict[str, Any] = field(default_factory=dict)

    @property
    def message(self) -> str:
        """The verdict in words."""
        return " ".join(part for part in (describe_state(self), describe_use(self), describe_remedy(self)) if part)


def make_verdict(
    trace: Trace,
    gates: Sequence[Gate],
    grade: Grade,
    groups: Sequence[Group],
    disagree: bool,
    errors: dict[str, float | None],
) -> Verdict:
    """Return the verdict. errors: Monte Carlo errors of tau1's mean and of the worse end of its interval, or None."""
    law, means = trace.laws["tau1"], trace.quantities["tau1_expected"].mean(axis=1)
    settled = all(group.settled for group in groups)
    reason: Reason
    remedy: Remedy
    if grade == "converged":
        reason, remedy = "agree", "none"
    elif len(trace.starts) < 2:
        reason, remedy = "one chain", "chains"
    elif disagree:
        reason, remedy = ("disagree", "model") if settled else ("apart", "time")
    else:
        reason, remedy = ("few draws" if settled else "moving"), "time"
    if remedy == "time" and trace.stopped == "sweeps":
        remedy = "sweeps"
    spent = trace.seconds["sampling"] + trace.seconds["risk"]
    more = (draws_needed(gates) - 1.0) * spent
    numbers = {
        "chains": len(trace.starts),
        "first_start": min(trace.starts),
        "last_start": max(trace.starts),
        "start_sweeps": trace.start_sweeps,
        "stopped": trace.stopped,
        "rhat": worst(gates, "rhat"),
        "effective_draws": min(gate.value for gate in gates if counts(gate) and gate.name.startswith("ess_bulk")),
        "tau1": float(means.mean()),
        "tau1_low": float(means.min()),
        "tau1_high": float(means.max()),
        "tau1_upper": law.envelope()[1],
        **errors,
        "failed": name_failed(gates),
        "groups": name_groups(groups),
        "group_count": len(groups),
        "single": all(len(group.chains) == 1 for group in groups),
        # Only a run ended by the clock depends on the clock: all others repeat to the last digit.
        "seconds_more": more if remedy == "time" and reason != "apart" and math.isfinite(more) else None,
    }
    return Verdict(grade, reason, remedy, numbers)


def describe_state(verdict: Verdict) -> str:
    """Return what is known, then what is missing."""
    n = verdict.numbers
    if verdict.reason == "certain":
        return str(n["why"])
    if verdict.grade == "converged":
        return (
            f"{name_chains(n)} agree: R-hat {n['rhat']:.3f}, {n['effective_draws']:,.0f} effective draws; "
            f"the Monte Carlo error of tau1 is {round_up(n['error']):g}."
        )
    if verdict.grade == "usable":
        return (
            f"USABLE: {name_chains(n)} agree, but not to the last digit. A longer run would move tau1 by less than "
            f"{round_up(2.0 * n['error']):g} and the ends of its interval, which is widened by as much, by less than "
            f"{round_up(2.0 * n['end_error']):g}. Not met yet: {n['failed']}."
        )
    where = "is" if n["chains"] < 2 else "of all chains is"
    between = number(n["tau1_low"])
    if number(n["tau1_high"]) != between:
        between = f"between {between} and {number(n['tau1_high'])}"
    known = f"So far the mean of tau1 {where} {between}."
    if verdict.reason == "one chain":
        return f"NOT CONVERGED. {known} One chain alone cannot show that it has converged."
    limit = LIMITS.get(n["stopped"], "the end of the run")
    if verdict.reason in ("few draws", "moving"):
        state = "agreed as far as so few draws can show" if verdict.reason == "few draws" else "were still moving"
        return (
            f"NOT CONVERGED: not enough draws yet. {known} {name_chains(n)} {state} when {limit} was reached: "
            f"{n['failed']}."
        )
    count = WORDS[n["group_count"]] if n["group_count"] < len(WORDS) else str(n["group_count"])
    who = f"{count} chains" if n["single"] else f"{count} groups of chains"
    if verdict.reason == "apart":
        return (
            f"NOT CONVERGED: the chains have not met yet. {known} {who} still stood apart when {limit} was reached: "
            f"{n['groups']} (R-hat {n['rhat']:.4g}). They were moving, so a longer run may bring them together."
        )
    return (
        f"NOT CONVERGED: the chains disagree. {known} {who} give different estimates: {n['groups']} "
        f"(R-hat {n['rhat']:.4g}). Each chain has settled, so a longer run alone may not bring them together."
    )


def describe_use(verdict: Verdict) -> str:
    """Return which number is safe to use without convergence."""
    if verdict.grade != "not converged":
        return ""
    upper = number(verdict.numbers["tau1_upper"])
    return f"Until then use {upper} as the upper limit of tau1, the largest of any chain; it may still rise."


def describe_remedy(verdict: Verdict) -> str:
    """Return what to do, and how long it is likely to take."""
    more = verdict.numbers.get("seconds_more")
    likely = "" if more is None else f"It is likely to need about {duration(more)} more. "
    match verdict.remedy:
        case "none":
            return ""
        case "chains":
            return "Use `chains` 4."
        case "sweeps":
            return "Allow more sweeps with `max_sweeps`, or omit that limit."
        case "quick":
            return (
                "This is the quick answer: leave out `quick` for that of the full model, or use `model` classes, "
                "which runs to its verdict."
            )
        case "model":
            return (
                "Use more chains (`chains` 8) and more time (`time_limit`), or fewer or coarser keys, or state "
                "impossible combinations (`zeros`)."
            )
    return f"{likely}Allow more time with `time_limit`."


def name_chains(n: Mapping[str, Any]) -> str:
    """Return how many chains there are, where they started, and what they had in common before the first draw."""
    first, last = n["first_start"], n["last_start"]
    chains = f"{n['chains']} chains that started from {first if first == last else f'{first} to {last}'} profiles"
    if n["start_sweeps"]:
        chains += f" (and {n['start_sweeps']} sweeps of the model classes)"
    return chains


def name_groups(groups: Sequence[Group]) -> str:
    """Return the estimate of each group of chains; with many groups only how far apart they are."""
    if len(groups) > MOST_GROUPS:
        means = [group.tau1.mean for group in groups]
        return f"tau1 is about {number(min(means))} by one and {number(max(means))} by another"
    return "tau1 is " + "; ".join(f"about {with_interval(group.tau1)} by {name_group(group)}" for group in groups)


def name_group(group: Group) -> str:
    numbers = enumerate_words([str(chain) for chain in group.chains])
    return f"chain{'' if len(group.chains) == 1 else 's'} {numbers}"


def name_failed(gates: Sequence[Gate]) -> str:
    """Name the gates that are not met, the worst first."""
    failed = sorted((gate for gate in gates if counts(gate) and not gate.passed), key=shortfall, reverse=True)
    lines = [name_gate(gate) for gate in failed]
    named = "; ".join(lines[:SHOWN])
    return named if len(lines) <= SHOWN else f"{named}; and {plural(len(lines) - SHOWN, 'more condition')} not met"


def name_gate(gate: Gate) -> str:
    """Return a gate in words."""
    kind, _, what = gate.name.removesuffix(")").partition("(")
    what = f"expected {what.removesuffix('_expected')}" if what.endswith("_expected") else what.replace("_", " ")
    match kind:
        case "rhat":
            return f"R-hat of {what} is {gate.value:.4g} (at most {gate.limit:g})"
        case "ess_bulk" | "ess_tail":
            return f"{what} has {gate.value:.0f} effective draws (at least {gate.limit:.0f})"
        case "drift":
            return f"{what} has moved by {gate.value:.1f} standard deviations (at most {gate.limit:g})"
        case "known":
            return f"{what} is known well enough for {100 * gate.value:.0f} % of the records (at least 99 %)"
    part = {"mcse_mean": "mean", "mcse_low": "lower end", "mcse_high": "upper end"}[kind]
    return f"the {part} of {what} is known to {gate.value:.2g} standard deviations (at most {gate.limit:g})"


def counts(gate: Gate) -> bool:
    """Return whether the verdict depends on a gate."""
    return gate.role != "shown"


def worst(gates: Sequence[Gate], kind: str) -> float:
    """Return the largest value of the gates of a kind that count."""
    return max(gate.value for gate in gates if counts(gate) and gate.name.startswith(kind))


def describe_fit(verdict: str, exceptions: Sequence[Sequence[str]]) -> str:
    """Return the verdict of the model check as a clause; exceptions: pairs of keys."""
    if verdict == "fits":
        return "the model fits the file"
    if verdict == "fits except":
        pairs = enumerate_words([f"{first} and {second}" for first, second in exceptions], "and of")
        return f"the model fits the file except for the margin{'' if len(exceptions) == 1 else 's'} of {pairs}"
    return "the model does not fit the file: do not rely on the interval"


def join_fit(sentence: str, fit: Mapping[str, Any] | None) -> str:
    """Return a sentence that ends with the verdict of the model check, if there was one."""
    if fit is None:
        return sentence
    link = "but" if fit["verdict"] == "does not fit" else "and"
    return f"{sentence.removesuffix('.')}, {link} {describe_fit(fit['verdict'], fit['exceptions'])}."


UNRELIABLE = "The weights are very unequal and no strata were given: do not rely on the interval."
"""What follows the first sentence then."""


def explain_fit(
    verdict: FitVerdict,
    exceptions: Sequence[Sequence[str]],
    without: Sequence[str],
    counts: Mapping[str, "Check"],
    unseen: "Check",
    two_way: "TwoWay",
    people: int,
    settings: Settings,
    rules: bool,
    finished: bool,
) -> str:
    """Return what the model expects and what the file has; if they differ, what that means for tau1 and what to do.

    people: number drawn for `unseen`; rules: whether there are any; finished: whether sampling met its gates.
    """
    clause = describe_fit(verdict, exceptions)
    uniques = counts["sample_uniques"]
    expected = interval_words(uniques.predicted.interval)
    text = (
        f"{clause[0].upper()}{clause[1:]}. It expects {expected} records that are alone in the sample; the file has "
        f"{uniques.observed:,}."
    )
    if verdict == "fits":
        return " ".join([text, *describe_pairs(two_way)])
    found = [*explain_uniques(uniques), *explain_counts(counts), *explain_unseen(unseen, people)]
    found += explain_two_way(two_way)
    return " ".join([text, *found, advise(exceptions, without, unseen, settings, rules, finished)])


def explain_uniques(check: "Check") -> list[str]:
    """Return what a wrong number of sample uniques means for tau1."""
    if check.ok:
        return []
    if check.observed < check.predicted.interval[0]:
        return ["The model overestimates uniqueness: tau1 is likely too high."]
    return ["The model underestimates uniqueness: tau1 is likely too low."]


def explain_counts(counts: Mapping[str, "Check"]) -> list[str]:
    """Return which other counts of cells are off, and what would explain it."""
    words = {
        "doubles": "combinations of two records",
        "triples": "combinations of three records",
        "distinct_cells": "distinct combinations",
    }
    off = [name for name in words if not counts[name].ok]
    text = [
        f"It expects {interval_words(counts[name].predicted.interval)} {words[name]}; the file has "
        f"{counts[name].observed:,}."
        for name in off
    ]
    if is_clumped(counts):
        text.append(
            "Records share all their keys more often than the model expects. It may miss how keys depend on each "
            "other, or records come in groups: households, twins, people entered twice."
        )
    return text


def is_clumped(counts: Mapping[str, "Check"]) -> bool:
    """Whether records are more alike than people of the model: fewer cells than expected, or more doubles."""
    fewer = any(
        not counts[name].ok and counts[name].observed < counts[name].predicted.interval[0]
        for name in ("sample_uniques", "distinct_cells")
    )
    more = [counts[name] for name in ("doubles", "triples") if not counts[name].ok]
    return fewer or any(check.observed > check.predicted.interval[1] for check in more)


def explain_unseen(check: "Check", people: int) -> list[str]:
    """Return what a wrong number of pairs of key values that the file lacks means for tau1."""
    if check.ok:
        return []
    text = (
        f"Of {people:,} people drawn from the model {number(check.observed)} have a pair of key values that no "
        f"record has; {interval_words(check.predicted.interval)} would be expected."
    )
    if check.observed > check.predicted.interval[1]:
        return [
            f"{text} The model gives probability to combinations that do not occur or cannot exist, and tau1 may be "
            "too high."
        ]
    return [f"{text} The file has more rare pairs than the model predicts, and tau1 may be too low."]


def describe_pairs(two_way: "TwoWay") -> list[str]:
    """Return how pairs of variables fit where the model as a whole does."""
    if not two_way.total:
        return []
    if not two_way.outside:
        return ["Pairs of key values agree too."]
    are = "is" if two_way.outside == 1 else "are"
    return [
        f"{two_way.outside} of {plural(two_way.total, 'pair')} of keys {are} further from the model than expected, "
        f"{enumerate_words(two_way.worst)} most. This may be chance."
    ]


def explain_two_way(two_way: "TwoWay") -> list[str]:
    """Return which pairs of variables the model fits badly."""
    if two_way.ok:
        return []
    if not two_way.outside:
        return ["Pairs of keys, taken together, are further from the model than chance explains."]
    most = f"{two_way.worst[0]} with {two_way.worst[1]} most"
    are = "is" if two_way.outside == 1 else "are"
    return [
        f"{two_way.outside} of {plural(two_way.total, 'pair')} of keys {are} further from the model than chance "
        f"explains, {most}."
    ]


def advise(
    exceptions: Sequence[Sequence[str]],
    without: Sequence[str],
    unseen: "Check",
    settings: Settings,
    rules: bool,
    finished: bool,
) -> str:
    """Return the remedies, in the order in which they usually help."""
    steps = [] if finished else ["run longer, since the chains do not agree, which may be the reason"]
    if settings.prior == "paper":
        steps.append("use `prior` adaptive, which learns what 'paper' fixes")
    if settings.model == "mixed":
        steps.append("use `model` hdp, or more `profiles`")
    if not rules:
        steps.append("state which combinations cannot exist (`zeros`; `keyhole zeros suggest` lists candidates)")
    elif unseen.observed > unseen.predicted.interval[1]:
        steps.append("look for impossible combinations that the rules miss (`keyhole zeros suggest`)")
    if without:
        out = "leave it out: without it" if len(without) == 1 else "leave one of them out: without it"
        steps.append(f"merge categories of {enumerate_words(without, 'or')}, or {out} the counts agree")
    elif exceptions:
        keys = list(dict.fromkeys(key for pair in exceptions for key in pair))
        steps.append(f"merge rare categories of {enumerate_words(keys, 'or')}")
    steps.append("use `self_check` to see how far off the estimate is on half of the file")
    return f"What to do: {'; '.join(steps)}."
