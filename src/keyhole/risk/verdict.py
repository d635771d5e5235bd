"""What a check means for whoever decides on the release: in words, with what to do."""

from typing import TYPE_CHECKING

from keyhole.settings import Settings
from keyhole.words import number

if TYPE_CHECKING:
    from keyhole.risk.fit import Check, TwoWay


def span(check: "Check") -> str:
    """The interval of a check."""
    low, high = check.predicted.interval
    return f"{number(low)} to {number(high)}"


def explain_fit(
    uniques: "Check", unseen: "Check", two_way: "TwoWay", people: int, settings: Settings, rules: bool, finished: bool
) -> str:
    """Say what the model expects and what the file has; if they differ, what that means for tau1 and what to do.

    people: how many were drawn for `unseen`; rules: some are given; finished: sampling met its gates.
    """
    told = f"The model expects {span(uniques)} records that are alone in the sample; the file has {uniques.observed:,}."
    found = [
        *explain_uniques(uniques),
        *explain_unseen(unseen, people),
        *explain_two_way(two_way),
    ]
    if not found:
        return f"{told} Pairs of key values agree too." if two_way.total else told
    verdict = "THE MODEL DOES NOT FIT." if finished else "THE MODEL DOES NOT FIT YET."
    return " ".join([verdict, told, *found, advise(unseen, settings, rules, finished)])


def explain_uniques(check: "Check") -> list[str]:
    """Too many expected: people look more alone than they are."""
    if check.ok:
        return []
    if check.observed < check.predicted.interval[0]:
        return ["The model makes people look more alone than they are: tau1 is likely too high."]
    return ["The model makes people look less alone than they are: tau1 is likely too low."]


def explain_unseen(check: "Check", people: int) -> list[str]:
    """Too many pairs that the file lacks: the model puts people where nobody is."""
    if check.ok:
        return []
    told = (
        f"Of {people:,} people drawn from the model {number(check.observed)} have a pair of key values that nobody in "
        f"the file has; {span(check)} would be expected."
    )
    if check.observed > check.predicted.interval[1]:
        return [f"{told} The model puts people where nobody is or can be, and tau1 may be too high."]
    return [f"{told} The file has more rare pairs than the model knows of, and tau1 may be too low."]


def explain_two_way(two_way: "TwoWay") -> list[str]:
    """Which pairs of variables the model gets wrong."""
    if two_way.ok:
        return []
    if not two_way.outside:
        return ["Pairs of keys, taken together, are further from the model than chance explains."]
    most = f"{two_way.worst[0]} with {two_way.worst[1]} most"
    return [
        f"{two_way.outside} of {two_way.total} pairs of keys are further from the model than chance explains, {most}."
    ]


def advise(unseen: "Check", settings: Settings, rules: bool, finished: bool) -> str:
    """The remedies in the order in which they usually help."""
    steps = [] if finished else ["run longer, for the chains do not agree and this may be why"]
    if settings.prior == "paper":
        steps.append("use --prior adaptive, which learns what 'paper' fixes")
    if settings.model == "mixed":
        steps.append("use --model hdp, or more --profiles")
    if not rules:
        steps.append("say which combinations cannot exist (--zeros; `keyhole zeros suggest` lists candidates)")
    elif unseen.observed > unseen.predicted.interval[1]:
        steps.append("look for impossible combinations that the rules miss (`keyhole zeros suggest`)")
    steps.append("see with --self-check how far off the estimate is on half of the file")
    return f"What to do: {'; '.join(steps)}."
