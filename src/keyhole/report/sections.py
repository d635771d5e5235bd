"""The blocks of summary.json as typed sections. A block that is absent gives an absent section.

Messages in summary.json are for the owner and may quote counts, so a safe report has its own wording.
"""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from keyhole.report.content import (
    SMALLEST,
    STEP,
    Category,
    Comparator,
    Count,
    Estimate,
    EveryRecord,
    HelpRow,
    Impossible,
    Kind,
    PolicyRow,
    Rule,
    Source,
    Threshold,
    VariableRisk,
    round_population,
)
from keyhole.risk.helps import word_step
from keyhole.words import (
    as_flags,
    at_most,
    clean_name,
    command_line,
    enumerate_words,
    number,
    percent,
    percents,
    plural,
    two_digits,
    with_interval,
)

Block = Mapping[str, Any]

MOST_CATEGORIES = 20
MISSING = {
    "category": "a blank value is a category of its own, since an intruder can see that it is blank",
    "drop": "records with a blank value of a key were left out",
    "model": "a blank value is unknown, and what it is does not affect whether it is missing (missing at random). The "
    "cell of a record is all combinations that agree with the values it has; a record is alone in the sample when no "
    "other record agrees with it on all the values that both have",
}


def message(text: str) -> str:
    """Return a message of the library as a report shows it."""
    return as_flags(clean_name(text))


def estimate(block: Block, pooled: bool = True) -> Estimate:
    low, high = block["interval"]
    return Estimate(
        block["mean"], low, high, with_interval(block) if pooled else f"{number(low)} to {number(high)}", pooled
    )


def describe_source(source: Block, kind: Kind, rule: Rule) -> Source:
    """Describe the file. The number of cells may depend on single records, so a safe report leaves it out."""
    population = f"{source['population']:,}"
    if kind == "safe":
        population = f"about {round_population(source['population'], source['used']):,}"
    return Source(
        records=rule(source["used"]),
        rows=rule(source["rows"]),
        population=population,
        keys=tuple(map(clean_name, source["keys"])),
        ignored=tuple(map(clean_name, source.get("ignored_keys", ()))),
        ordered=tuple(map(clean_name, source.get("ordered", ()))),
        sample_uniques=rule(source["sample_uniques"]),
        missing=MISSING.get(source.get("missing", "category"), str(source.get("missing"))) + _undecided(source, rule),
        cells=f"{source['cells']:,}" if kind == "internal" else None,
        undecided=source.get("undecided", 0) >= (SMALLEST if kind == "safe" else 1),
        bands=tuple(_bands(clean_name(name), text) for name, text in (source.get("bands") or {}).items()),
        merged=tuple(_merged(clean_name(name), groups, kind) for name, groups in (source.get("merge") or {}).items()),
        missing_texts=_missing_texts(source.get("na"), kind, rule),
    )


def _bands(name: str, text: str) -> str:
    """Say how a key was cut. What was asked for is no value of the data, so a safe report may show it."""
    limits = text.split(",")
    return f"{name} in bands of {text}" if len(limits) < 2 else f"{name} in bands from {enumerate_words(limits)}"


def _merged(name: str, groups: Mapping[str, Sequence[str]], kind: Kind) -> str:
    """Say which categories of a key were merged; which ones only to the owner, since they may be values of the data."""
    if kind == "safe":
        return name
    listed = (", ".join(clean_name(code or "blank") for code in codes) for codes in groups.values())
    return f"{name} ({'; '.join(listed)})"


def _missing_texts(block: Block | None, kind: Kind, rule: Rule) -> str:
    """Say which texts of the keys were read as blank. They may be values of the data: only the owner sees them."""
    if not block:
        return ""
    texts = enumerate_words([f"'{clean_name(text)}'" for text in block["texts"] if text], "or")
    what = f"{texts}, and what a codebook declares missing" if texts else "what a codebook declares missing"
    found = block["found"]
    named = f" ({what})" if kind == "internal" else ""
    read = f"Texts that mean missing{named} were read as blank, unless the codebook lists them as categories"
    if kind == "safe" or not found:
        return f"{read}: {rule(sum(found.values())).in_a_sentence} values of keys"
    met = {name: clean_name(", ".join(f"'{text}'" for text in block["met"][name])) for name in found}
    keys = [f"{clean_name(name)} {count:,} ({met[name]})" for name, count in found.items()]
    return f"{read}: {enumerate_words(keys)}"


def _undecided(source: Block, rule: Rule) -> str:
    """Count the records for which blank values leave open whether they are alone."""
    if "undecided" not in source:
        return ""
    return (
        f". Records with a missing value: {rule(source['records_with_missing']).in_a_sentence}. Further records that "
        "may be alone, because every record that agrees with them lacks a value that they have: "
        f"{rule(source['undecided']).in_a_sentence}; tau1 and tau2 exclude these"
    )


def describe_variables(block: Block | None, kind: Kind, rule: Rule, pooled: bool) -> tuple[VariableRisk, ...]:
    """Describe the variables, in decreasing order of the risk due to them. Categories are for the owner."""
    if not block:
        return ()
    found = [
        VariableRisk(
            name=clean_name(item["name"]),
            share=float(item["share_tau1"]),
            tau1_without=estimate(item["tau1_without"], pooled),
            tau2_without=estimate(item["tau2_without"], pooled),
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
    return tuple(sorted(found, key=lambda category: -category.tau1)[:MOST_CATEGORIES])


def describe_thresholds(items: Any, kind: Kind, uniques: Count, rule: Rule) -> tuple[Threshold, ...]:
    """Describe what remains without the riskiest records.

    The difference of two rows is the risk of the records between them. A safe report therefore shows a row only when
    enough records are taken out, both in total and since the last row shown, and enough are left.
    """
    found, last = [], 0
    for item in sorted(items or (), key=lambda item: -float(item["above"])):
        records = rule(item["records"])
        shown = kind == "internal" or _far_apart(records.value, last, uniques.value)
        last = records.value if shown and records.value is not None else last
        tau1, tau2 = (float(item[f"{tau}_after"]) if shown else None for tau in ("tau1", "tau2"))
        found.append(Threshold(item["above"], records, tau1, tau2))
    return tuple(found)


def describe_helps(items: Any, kind: Kind, rule: Rule, pooled: bool) -> tuple[HelpRow, ...]:
    """Describe the best single step for each variable, those first that take most away for what they lose.

    Categories are for the owner.
    """
    ordered = sorted(items or (), key=lambda item: -item["share_tau1"] / max(item["loss"], 1e-12))
    lost = percents([round(item["share_lost"], 2) for item in ordered])
    return tuple(
        HelpRow(
            name=clean_name(item["name"]),
            step=word_step(item["step"], item["merged"]),
            tau1=estimate(item["tau1"], pooled),
            tau2=estimate(item["tau2"], pooled),
            uniques=rule(item["sample_uniques"]),
            lost=share,
            option=_option(item) if kind == "internal" else None,
        )
        for item, share in zip(ordered, lost, strict=True)
    )


def _option(item: Block) -> str:
    """Return the option of what-if for a step. A name with a comma or a bar, or none, is quoted."""
    if not item["merged"]:
        return clean_name(command_line(["--drop", item["name"]]))
    groups = (",".join(map(_quoted, group)) for group in item["merged"])
    return clean_name(command_line(["--merge", f"{item['name']}={'|'.join(groups)}"]))


def _quoted(code: str) -> str:
    if code and not set(code) & set(",|'\""):
        return code
    return f"'{code}'" if '"' in code else f'"{code}"'


NO_BOUNDS = (
    "Not shown: there are too many different combinations of keys to evaluate all of them, and bounds for the others "
    "are counts of records."
)


def describe_every_record(block: Block | None, missing: str, kind: Kind, rule: Rule, pooled: bool) -> EveryRecord:
    """Describe the risk of every record. A safe report shows nothing of a single record, such as the largest risk.

    It shows no bound either, which is a count.
    """
    if not block or (kind == "safe" and block["bounded"]):
        return EveryRecord((), (), message(missing) if not block else NO_BOUNDS)
    named = [("correct matches expected if all records are tried", block["expected_matches"])]
    if kind == "internal":
        named.append(("the largest match risk of a record", block["largest"]))
    named += [(f"records with fewer than {k} people of their keys", found) for k, found in block["k"].items()]
    bounds = block["bounded"] == block["cells"]

    def show(found: Block) -> str:
        return at_most(found["interval"][1]) if bounds else estimate(found, pooled).text

    mean = ("mean match risk of all records", ("at most " if bounds else "") + two_digits(block["mean_risk"]))
    return EveryRecord(
        estimates=(*((name, show(found)) for name, found in named), *([mean] if pooled else ())),
        above=tuple((percent(float(x)), rule(count)) for x, count in block["above"].items()) if pooled else (),
        note=message(block["message"]),
    )


def describe_policies(items: Any) -> tuple[PolicyRow, ...]:
    """Describe the verdicts of policies. What is judged is not shown: it may be the risk of a single record."""
    return tuple(
        PolicyRow(
            bool(item["met"]),
            clean_name(f"The file {item['words']}."),
            clean_name(". ".join(part.rstrip(".") for part in (item["title"], item["source"], item["note"]) if part)),
        )
        for item in items or ()
    )


def _far_apart(records: int | None, last: int, whole: int | None) -> bool:
    # Rounded counts that differ by this much differ by at least SMALLEST before rounding.
    if records is None or whole is None:
        return False
    apart = SMALLEST + STEP
    return (last == 0 or records - last >= apart) and whole - records >= apart


def describe_households(block: Block | None, rule: Rule) -> str | None:
    """Describe how many households have at least one member at risk."""
    if not block:
        return None
    text = f"Households in the file: {rule(block.get('count', block.get('households'))).in_a_sentence}."
    if block.get("with_sample_unique") is not None:
        text += f" With a member alone in the sample: {rule(block['with_sample_unique']).in_a_sentence}."
    expected = block.get("with_population_unique")
    expected_words = number(block["expected"]) if expected is None else estimate(expected).text
    return f"{text} With a member alone in the population: about {expected_words}."


def describe_impossible(block: Block | None, kind: Kind, rule: Rule) -> Impossible:
    """Describe the rules. They come from a document, not from the records, so their number is shown as it is.

    But the words of a rule such as "not 3" list the other categories. Where these are known from the records alone, and
    not from a codebook, a safe report leaves the rule out.
    """
    if block is None:
        return Impossible(
            False,
            "No rules were given: every combination of categories was taken as possible. If some cannot exist, such "
            "as a married child, the model overestimates uniqueness.",
            (),
        )
    exclude = "excludes" if block["rules"] == 1 else "exclude"
    text = f"{plural(block['rules'], 'rule')} {exclude} {percent(block['share'])} of all combinations."
    if block.get("p0") is not None:
        text += f" Before they are excluded, the model gives them a probability of {percent(block['p0'])} (p0)."
    left_out = rule(block.get("left_out") or 0)
    if left_out.value:
        text += f" Records left out because they contradict a rule: {left_out.text}."
    words, declared = block.get("words") or (), block.get("words_declared") or ()
    listed = [rule for rule, safe in zip_longest(words, declared) if rule is not None and (safe or kind == "internal")]
    if words and len(listed) < block["rules"]:
        which = ", those whose categories all come from a codebook" if len(listed) < len(words) else ""
        text += f" Listed below: {len(listed)} of them{which}."
    return Impossible(True, text, tuple(map(clean_name, listed)))


def describe_comparators(found: Any, uniques: Count) -> tuple[Comparator, ...]:
    """Describe other estimators; none where their figures would reveal a count that is not shown."""
    if not found or uniques.value is None:
        return ()
    return tuple(
        Comparator(
            clean_name(item["name"]), _mean(item, "tau1"), _mean(item, "tau2"), clean_name(item.get("assumes") or "")
        )
        for item in found
    )


def _mean(item: Block, tau: str) -> str:
    mean = (item.get(tau) or {}).get("mean")
    return "not given" if mean is None else two_digits(mean)
