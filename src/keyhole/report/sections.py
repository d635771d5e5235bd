"""The blocks of summary.json as typed sections. A block that is absent gives an absent section.

Texts that other modules wrote for the owner may quote counts; a safe report says the same in its own words.
"""

from collections.abc import Mapping
from typing import Any

from keyhole.report.content import (
    Category,
    ChainGroup,
    CheckRow,
    Comparator,
    Convergence,
    Estimate,
    GateRow,
    Impossible,
    Kind,
    ModelCheck,
    Source,
    Threshold,
    VariableRisk,
)
from keyhole.report.counts import Rule, round_population
from keyhole.report.pictures import Draws, draw_chains
from keyhole.report.words import clean_name, decimals, enumerate_words, number, percent, plural

Block = Mapping[str, Any]

MISSING = {
    "category": "a blank value is a category of its own, since an intruder can see that it is blank",
    "drop": "records with a blank value of a key were left out",
    "model": "a blank value is taken as not known; records are compared on the values that they have",
}
CHECKED = {
    "sample_uniques": "records alone in the sample",
    "doubles": "doubles",
    "triples": "triples",
    "distinct_cells": "different combinations",
}


def estimate(block: Block) -> Estimate:
    """A mean with its interval."""
    mean, (low, high) = block["mean"], block["interval"]
    return Estimate(mean, low, high, f"{number(mean)} ({number(low)} to {number(high)})")


def describe_source(source: Block, kind: Kind, rule: Rule) -> Source:
    """What was read. The number of categories may hang on single records, so a safe report leaves it out."""
    population = f"{source['population']:,}"
    if kind == "safe":
        population = f"about {round_population(source['population'], source['used']):,}"
    return Source(
        records=rule(source["used"]),
        rows=rule(source["rows"]),
        population=population,
        keys=tuple(map(clean_name, source["keys"])),
        ignored=tuple(map(clean_name, source.get("ignored_keys", ()))),
        sample_uniques=rule(source["sample_uniques"]),
        missing=MISSING.get(source.get("missing", "category"), str(source.get("missing"))),
        cells=f"{source['cells']:,}" if kind == "internal" else None,
    )


def describe_variables(block: Block | None, kind: Kind, rule: Rule) -> tuple[VariableRisk, ...]:
    """Variables, those that cause most of the risk first. Categories are for the owner."""
    if not block:
        return ()
    found = [
        VariableRisk(
            name=clean_name(item["name"]),
            share=float(item["share_tau1"]),
            tau1_without=estimate(item["tau1_without"]),
            tau2_without=estimate(item["tau2_without"]),
            uniques_without=rule(item["sample_uniques_without"]),
            categories=_categories(item.get("categories", ()), rule) if kind == "internal" else (),
        )
        for item in block["variables"]
    ]
    return tuple(sorted(found, key=lambda variable: (-variable.share, variable.name)))


def _categories(items: Any, rule: Rule) -> tuple[Category, ...]:
    found = [
        Category(clean_name(item.get("label") or item["code"]), rule(item["uniques"]), item["tau1"], item["tau2"])
        for item in items
    ]
    return tuple(sorted(found, key=lambda category: -category.tau1))


def describe_thresholds(items: Any, rule: Rule) -> tuple[Threshold, ...]:
    """What is left when the riskiest records go. With few of them the difference would tell the risk of each."""
    found = []
    for item in items or ():
        records = rule(item["records"])
        told = records.value is not None
        found.append(
            Threshold(
                above=item["above"],
                records=records,
                tau1=number(item["tau1_after"]) if told else None,
                tau2=number(item["tau2_after"]) if told else None,
            )
        )
    return tuple(found)


def describe_households(block: Block | None, rule: Rule) -> str | None:
    """Households with at least one person at risk."""
    if not block:
        return None
    return (
        f"Households: {rule(block['count']).in_a_sentence} are in the file; in about {number(block['expected'])} "
        "of them at least one person is alone in the population."
    )


def describe_check(block: Block | None, rule: Rule) -> ModelCheck | None:
    """The posterior predictive check, in words and in rows."""
    if not block:
        return None
    rows = tuple(
        CheckRow(word, rule(block[name]["observed"]), estimate(block[name]["predicted"]), bool(block[name]["ok"]))
        for name, word in CHECKED.items()
        if block.get(name)
    )
    ok = bool(block["ok"])
    return ModelCheck(ok, _check_sentence(ok, rows), rows, _two_way(block, rule))


def _check_sentence(ok: bool, rows: tuple[CheckRow, ...]) -> str:
    verdict = (
        "Files drawn from the fitted model look like this one."
        if ok
        else "Files drawn from the fitted model do NOT look like this one; treat the estimate with caution."
    )
    if not rows:
        return verdict
    first = rows[0]
    return (
        f"{verdict} The model expects {number(first.expected.low)} to {number(first.expected.high)} {first.name}; "
        f"the file has {first.observed.in_a_sentence}."
    )


def _two_way(block: Block, rule: Rule) -> str | None:
    found = block.get("two_way")
    if not found:
        return None
    verdict = "as many as chance explains" if found["ok"] else "more than chance explains"
    return (
        f"Pairs of variables: {rule(found['outside']).in_a_sentence} of {rule(found['total']).in_a_sentence} counts "
        f"lie outside what the model expects, {verdict}."
    )


def describe_convergence(block: Block, draws: Draws, sampled: bool) -> Convergence:
    """The verdict on the chains, every gate, and what is seen of it."""
    gates = tuple(
        GateRow(str(gate["name"]), decimals(gate["value"]), decimals(gate["limit"], 2), bool(gate["passed"]))
        for gate in block.get("gates", ())
    )
    failed = sum(not gate.passed for gate in gates)
    converged = bool(block["converged"])
    message = str(block["message"])
    if not sampled:
        sentence = message = "No sampling was needed: the answer follows from the file itself."
    elif converged:
        sentence = f"{plural(block['chains'], 'chain')} from different starts reached the same answer."
    else:
        sentence = f"The chains do not agree yet: {failed} of {len(gates)} conditions are not met."
    envelope = block.get("envelope")
    return Convergence(
        converged=converged,
        sampled=sampled,
        sentence=sentence,
        message=message,
        remedy="" if converged else message.rsplit(". ", 1)[-1],
        gates=gates,
        groups=tuple(_group(group) for group in block.get("groups") or ()),
        envelope=_envelope(envelope) if envelope else None,
        pictures=draw_chains(draws, block.get("starts", ())) if sampled else (),
    )


def _group(group: Block) -> ChainGroup:
    names = enumerate_words([str(chain) for chain in group["chains"]])
    stacking = group.get("stacking")
    return ChainGroup(
        names, estimate(group["tau1"]), estimate(group["tau2"]), "" if stacking is None else percent(stacking)
    )


def _envelope(block: Block) -> str:
    told = [f"{name} {number(block[name][0])} to {number(block[name][1])}" for name in ("tau1", "tau2")]
    return f"Over all groups of chains: {enumerate_words(told)}."


def describe_impossible(block: Block | None, rule: Rule) -> Impossible:
    """Rules in words. Rules come from a document, not from the records, so their number is told as it is."""
    if block is None:
        return Impossible(
            False,
            "No rules were given: every combination of categories was taken as possible. If some cannot exist, such "
            "as a married child, people look more alone than they are.",
            (),
        )
    exclude = "excludes" if block["rules"] == 1 else "exclude"
    told = f"{plural(block['rules'], 'rule')} {exclude} {percent(block['share'])} of all combinations."
    if block.get("p0") is not None:
        told += f" The model would have put {percent(block['p0'])} of people there (p0); it was kept from it exactly."
    if block.get("left_out"):
        told += f" Records left out because they contradict a rule: {rule(block['left_out']).in_a_sentence}."
    return Impossible(True, told, tuple(map(clean_name, block.get("words") or ())))


def describe_comparators(items: Any) -> tuple[Comparator, ...]:
    """Other estimators, each with what it can give."""
    return tuple(
        Comparator(clean_name(item["name"]), _compared(item, "tau1"), _compared(item, "tau2")) for item in items or ()
    )


def _compared(item: Block, name: str) -> str:
    found = item.get(name)
    if not found or found.get("mean") is None:
        return "not given"
    return estimate(found).text if found.get("interval") else number(found["mean"])
