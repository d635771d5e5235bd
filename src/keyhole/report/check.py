"""The model check as a section. A safe report has its own wording, because the owner's message quotes counts."""

from typing import Any

from keyhole.report.content import CheckRow, Kind, ModelCheck, Rule
from keyhole.report.sections import Block, estimate, message
from keyhole.risk.advice import FitVerdict, describe_fit
from keyhole.words import clean_name, enumerate_words, number, plural

CHECKED = {
    "sample_uniques": "records alone in the sample",
    "doubles": "doubles",
    "triples": "triples",
    "distinct_cells": "distinct combinations",
}
FITS: dict[FitVerdict, str] = {
    "fits": "Files simulated from the fitted model resemble this one.",
    "fits except": "Files simulated from the fitted model resemble this one, except for some pairs of keys.",
    "does not fit": "Files simulated from the fitted model do NOT resemble this one: do not rely on the interval.",
}
HALF = "of the records alone in a random half, those alone in the whole file"


def describe_check(
    fit: Block | None, half: Block | None, kind: Kind, rule: Rule, impossible: bool
) -> ModelCheck | None:
    """Describe the posterior predictive check and the half-sample check. impossible: rules are given."""
    checks = [found for found in (fit, half) if found]
    if not checks:
        return None
    rows = [_row(word, fit[name], rule) for name, word in CHECKED.items() if fit and fit.get(name)]
    ok = all(found["ok"] for found in checks)
    fits: FitVerdict = fit["verdict"] if fit else "fits" if ok else "does not fit"
    exceptions = [[clean_name(name) for name in pair] for pair in (fit or {}).get("exceptions", ())]
    parts = [FITS[fits]]
    if rows:
        first = rows[0]
        parts.append(
            f"The model expects {number(first.expected.low)} to {number(first.expected.high)} {first.name}; "
            f"the file has {first.observed.in_a_sentence}."
        )
    parts += _reasons(fit or {}, exceptions, rows, impossible)
    if half:
        pair = {name: half[name]["tau1"] for name in ("observed", "predicted")}
        rows.append(_row(HALF, {**pair, "ok": half["ok"]}, rule))
        if not half["ok"]:
            parts.append("Fitted to a random half of the file, it does not predict the whole well.")
        elif fits != "fits":
            parts.append("Fitted to a random half of the file, it still predicts the whole well.")
    if kind == "internal":
        parts = [message(found["message"]) for found in checks if found.get("message")] or parts
    text, pairs = " ".join(parts), _two_way((fit or {}).get("two_way"))
    clause = describe_fit(fits, exceptions) if fit else None
    # The owner's message may say the same of pairs.
    return ModelCheck(ok, fits, clause, text, tuple(rows), None if pairs and pairs in text else pairs)


def _row(word: str, found: Block, rule: Rule) -> CheckRow:
    return CheckRow(word, rule(round(found["observed"])), estimate(found["predicted"]), bool(found["ok"]))


def _reasons(fit: Block, exceptions: list[list[str]], rows: list[CheckRow], impossible: bool) -> list[str]:
    """Say what does not fit, and how that affects the estimate."""
    reasons = []
    if rows and not rows[0].ok:
        high = (rows[0].observed.value or 0) < (rows[0].expected.mean or 0)
        reasons.append(
            f"The model {'over' if high else 'under'}estimates uniqueness, so the estimate is likely too "
            f"{'high' if high else 'low'}."
        )
    if exceptions:
        named = [f"{first} with {second}" for first, second in exceptions]
        reasons.append(f"The pairs that fit worst are {enumerate_words(named)}.")
    if fit.get("without"):
        without = enumerate_words([clean_name(name) for name in fit["without"]], "or")
        reasons.append(f"Without {without} the counts agree.")
    unseen = fit.get("unseen_pairs")
    if unseen and not unseen["ok"] and unseen["observed"] > unseen["predicted"]["interval"][1]:
        missed = "The rules may miss some" if impossible else "Rules may be missing for those"
        reasons.append(f"The model gives people pairs of categories that no record has. {missed} that cannot exist.")
    return reasons


def _two_way(found: Any) -> str | None:
    """Describe the fit of pairs of variables. Their number is no count of records, so it is shown as it is."""
    if not found or not found["total"]:
        return None
    outside = found["outside"]
    text = (
        f"{outside} of {plural(found['total'], 'pair')} of keys {'is' if outside == 1 else 'are'} further from the "
        "model than expected"
    )
    if found.get("worst"):
        text += f", {enumerate_words([clean_name(name) for name in found['worst']])} most"
    if not outside:
        return f"{text}."
    return f"{text}. {'This may be chance.' if found['ok'] else 'Chance does not explain this.'}"
