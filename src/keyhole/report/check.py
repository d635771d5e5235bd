"""Whether the model fits the file, as a section. The words are the report's own: the owner's message quotes counts."""

from collections.abc import Mapping
from typing import Any

from keyhole.report.content import CheckRow, Kind, ModelCheck, Rule
from keyhole.report.sections import Block, estimate
from keyhole.words import clean_name, enumerate_words, number, plural

CHECKED = {
    "sample_uniques": "records alone in the sample",
    "doubles": "doubles",
    "triples": "triples",
    "distinct_cells": "different combinations",
}
HALF = "of records alone in a random half, alone in the whole file"


def describe_check(
    block: Block | None, self_check: Block | None, kind: Kind, rule: Rule, impossible: bool
) -> ModelCheck | None:
    """The posterior predictive check and the half-sample check, in words and in rows. impossible: rules are given."""
    if not block and not self_check:
        return None
    rows = tuple(_row(word, block[name], rule) for name, word in CHECKED.items() if block and block.get(name))
    half = _half_row(self_check, rule) if self_check else None
    ok = (not block or bool(block["ok"])) and (not self_check or bool(self_check["ok"]))
    reasons = [*_reasons(block or {}, rows, impossible), *_half_reason(half)]
    told = [_verdict(ok), *_expectation(rows), *reasons]
    if kind == "internal":
        messages = [clean_name(found["message"]) for found in (block, self_check) if found and found.get("message")]
        told = messages or told
    return ModelCheck(ok, " ".join(told), (*rows, *([half] if half else ())), _two_way(block or {}))


def _row(word: str, found: Mapping[str, Any], rule: Rule) -> CheckRow:
    return CheckRow(word, rule(round(found["observed"])), estimate(found["predicted"]), bool(found["ok"]))


def _half_row(block: Block, rule: Rule) -> CheckRow:
    predicted = estimate(block["predicted"]["tau1"])
    return CheckRow(HALF, rule(round(block["observed"]["tau1"])), predicted, bool(block["ok"]))


def _verdict(ok: bool) -> str:
    if ok:
        return "Files drawn from the fitted model look like this one."
    return "Files drawn from the fitted model do NOT look like this one; treat the estimate with caution."


def _expectation(rows: tuple[CheckRow, ...]) -> list[str]:
    if not rows:
        return []
    first = rows[0]
    return [
        f"The model expects {number(first.expected.low)} to {number(first.expected.high)} {first.name}; "
        f"the file has {first.observed.in_a_sentence}."
    ]


def _reasons(block: Block, rows: tuple[CheckRow, ...], impossible: bool) -> list[str]:
    """What does not fit, and what that does to the estimate."""
    reasons = []
    if rows and not rows[0].ok:
        high = (rows[0].observed.value or 0) < (rows[0].expected.mean or 0)
        reasons.append(
            f"It makes people look {'more' if high else 'less'} alone than they are, so the estimate is likely too "
            f"{'high' if high else 'low'}."
        )
    unseen = block.get("unseen_pairs")
    if unseen and not unseen["ok"] and unseen["observed"] > unseen["predicted"]["interval"][1]:
        missed = "The rules may miss some" if impossible else "Rules for them may be missing"
        reasons.append(
            f"It puts people into pairs of categories that nobody in the file has. {missed} that cannot exist."
        )
    return reasons


def _half_reason(row: CheckRow | None) -> list[str]:
    if row is None or row.ok:
        return []
    return ["Fitted to a random half of the file, it does not predict the other half well."]


def _two_way(block: Block) -> str | None:
    """Pairs of variables, not of people: their number is told as it is."""
    found = block.get("two_way")
    if not found or not found["total"]:
        return None
    far = "is" if found["outside"] == 1 else "are"
    told = f"{found['outside']} of {plural(found['total'], 'pair')} of keys {far} further from the model than expected"
    if found.get("worst"):
        told += f", {enumerate_words([clean_name(name) for name in found['worst']])} most"
    if not found["outside"]:
        return f"{told}."
    return f"{told}. {'Chance explains that.' if found['ok'] else 'That is more than chance explains.'}"
