"""The content of a report, made from a result: `safe` for others, `internal` for the owner of the data."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from keyhole.data.design import very_unequal
from keyhole.report.asked import Asked
from keyhole.report.check import describe_check
from keyhole.report.content import Content, Count, Estimate, Kind, Rule, Source, Term, count_exactly, count_safely
from keyhole.report.convergence import describe_convergence
from keyhole.report.headline import make_verdict
from keyhole.report.pictures import count_bands, draw_distributions, list_riskiest
from keyhole.report.sections import (
    describe_comparators,
    describe_every_record,
    describe_helps,
    describe_households,
    describe_impossible,
    describe_policies,
    describe_source,
    describe_thresholds,
    describe_variables,
    estimate,
    message,
)
from keyhole.risk.advice import describe_cautions
from keyhole.summary import SIMPLE
from keyhole.words import clean_name, duration, interval_words, plural, with_interval

TITLE = "Disclosure risk of a file"
TERMS = {
    "answer": {
        "alone in the sample (sample unique)": "no other record of the file has the same values of all keys.",
        "alone in the population (population unique)": "nobody else in the whole population has these values either: "
        "whoever knows them has found the person.",
        "keys (key variables)": "what an intruder could know about a person without having the file.",
    },
    "certainty": {
        "tau1": "the number of records alone in the sample that are alone in the population.",
        "tau2": "the expected number of correct matches when an intruder matches each record alone in the sample to "
        "one of the people who fit, chosen at random.",
        "interval": "contains the true number with the probability given, if the model and the assumptions are right. "
        "It covers uncertainty about the model's parameters and about who else lives in the population.",
    },
    "records": {
        "r1": "the probability that a record alone in the sample is alone in the population. Their sum is tau1.",
        "r2": "the probability that a match of this record with a person is right. Their sum is tau2.",
        "match risk": "the same as r2 for every record, also for those that share their keys with others in the file: "
        "the expected value of 1 divided by the number of people with these keys.",
    },
    "variables": {
        "without it": "the estimate by the same model for the file without this variable.",
    },
    "check": {
        "model expects": "the range in which the number nearly always lies if the model fits the file.",
        "doubles, triples": "combinations of key values that exactly two, or three, records share.",
    },
    "chains": {
        "chain": "one run of the estimation. Runs from very different starts must reach the same answer.",
        "R-hat": "how much chains differ, compared with the variation within each; 1 is perfect agreement.",
        "effective draws": "the number of independent draws that would be as precise.",
        "profile": "a typical pattern of key values. The model learns how many there are and mixes them.",
    },
    "impossible": {
        "rule": "a combination of categories that nobody can have, such as a married child.",
        "p0": "the probability that the model gives to impossible combinations before they are excluded.",
    },
}
GLOSSARY = {section: tuple(Term(*pair) for pair in terms.items()) for section, terms in TERMS.items()}


class Result(Protocol):
    """What a report is made from: an Assessment, or anything with its fields."""

    @property
    def summary(self) -> Mapping[str, Any]: ...
    @property
    def manifest(self) -> Mapping[str, Any]: ...
    @property
    def uniques(self) -> pl.DataFrame: ...
    @property
    def draws(self) -> dict[str, NDArray[np.float64]]: ...


def make_content(result: Result, internal: bool = False, title: str | None = None) -> Content:
    """Return everything in the result that this kind of report may show."""
    kind: Kind = "internal" if internal else "safe"
    rule: Rule = count_exactly if internal else count_safely
    summary = result.summary
    sampled = summary["model"]["estimator"] != "none"
    pooled = summary["convergence"]["grade"] != "not converged"
    # The estimates of an answer that was counted are counts: a safe report leaves out what is computed from them.
    blocks: Mapping[str, Any] = summary if sampled or internal else {}
    source = describe_source(summary["input"], kind, rule)
    tau = {name: _estimate(summary[name], sampled, pooled, source.sample_uniques) for name in ("tau1", "tau2")}
    everybody = not sampled and summary["input"]["sample_uniques"] > 0
    if not sampled and not everybody:
        tau = dict.fromkeys(tau, Estimate(0.0, 0.0, 0.0, "0"))
    level = float(summary["tau1"]["level"])
    observed = [clean_name(name) for name in summary["input"].get("observed_keys", ())]
    variables = describe_variables(blocks.get("attribution"), kind, rule, pooled)
    helps = describe_helps(blocks.get("helps"), kind, rule, pooled)
    thresholds = describe_thresholds(blocks.get("thresholds"), kind, source.sample_uniques, rule)
    check = describe_check(blocks.get("fit"), blocks.get("self_check"), kind, rule, summary["zeros"] is not None)
    asked = Asked(result.manifest, internal)
    convergence = describe_convergence(summary["convergence"], result.draws, sampled, asked.resume())
    impossible = describe_impossible(summary["zeros"], kind, rule)
    tau1, tau2 = tau.values()
    verdict = make_verdict(
        source,
        tau1,
        tau2,
        level,
        everybody,
        convergence,
        variables,
        thresholds,
        check,
        impossible,
        asked.suggest(),
        helps,
        very_unequal(summary.get("weights")),
    )
    return Content(
        kind=kind,
        title=clean_name(title or TITLE),
        about=_about(result.manifest, asked, kind),
        version=str(summary["version"]),
        made=_moment(result.manifest),
        verdict=verdict,
        source=source,
        tau1=tau1,
        tau2=tau2,
        level=level,
        distributions=draw_distributions(summary, tau, level) if sampled else (),
        bands=count_bands(result.uniques, rule),
        thresholds=thresholds,
        every=describe_every_record(
            blocks.get("all_records"), str(summary.get("all_records_missing", "")), kind, rule, pooled
        ),
        policies=describe_policies(blocks.get("policies")),
        households=describe_households(blocks.get("households"), rule),
        variables=variables,
        helps=helps,
        release_draws=f"{blocks['attribution']['draws']:,}" if blocks.get("attribution") and sampled else "",
        check=check,
        convergence=convergence,
        assumptions=_assumptions(summary, kind),
        impossible=impossible,
        comparators=describe_comparators(blocks.get("comparators"), source.sample_uniques),
        riskiest=list_riskiest(result.uniques) if internal else (),
        provenance=_provenance(summary, result.manifest, kind),
        cautions=tuple(message(text) for text in _cautions(summary, source, observed, rule, sampled)),
        glossary=GLOSSARY,
    )


def _cautions(summary: Mapping[str, Any], source: Source, observed: list[str], rule: Rule, sampled: bool) -> list[str]:
    """Return the cautions, from counts that this kind of report may show."""
    left_out = rule(summary["input"].get("dropped", 0) + (summary["zeros"] or {}).get("left_out", 0)).value or 0
    unequal = very_unequal(summary.get("weights"))
    strangers = summary["input"].get("codebook_strangers")
    return describe_cautions(source.records.value or 0, observed, left_out, unequal, strangers, sampled)


def _estimate(block: Mapping[str, Any], sampled: bool, pooled: bool, uniques: Count) -> Estimate:
    return estimate(block, pooled) if sampled else Estimate(None, None, None, uniques.text)


def _about(manifest: Mapping[str, Any], asked: Asked, kind: Kind) -> tuple[tuple[str, str], ...]:
    """Return what the report is of, from when, and for whom."""
    rows = (
        ("File", asked.name),
        ("Assessed", _moment(manifest)),
        ("For", "whoever decides about the release" if kind == "safe" else "the owner of the data only"),
    )
    return tuple((name, value) for name, value in rows if value)


def _moment(manifest: Mapping[str, Any]) -> str:
    """Return when the result was finished, to the minute."""
    text = str(manifest.get("finished", ""))
    return f"{text[:16].replace('T', ' ')} UTC" if text.endswith("+00:00") else text


def _assumptions(summary: Mapping[str, Any], kind: Kind) -> tuple[str, ...]:
    design = summary.get("design") or SIMPLE
    assumed = [
        f"{design['assumes'][0].upper()}{design['assumes'][1:]}.",
        "An intruder knows the keys of a person exactly as they are in the file, and no other variable of it. If some "
        "keys are wrong or out of date, the real risk is lower.",
        "An intruder does not know who is in the sample. Anyone who knows that a person took part can identify that "
        "person's record if it is alone in the sample.",
        "tau1 and tau2 count only records that are alone in the sample. A record that shares its keys with others has "
        "a match risk too (see All records), and people with the same keys may still be at risk if everything else in "
        "their records is the same.",
        "The interval is valid if the model is. The model check and the agreement of the chains are evidence for or "
        "against the model, not proof.",
    ]
    weights = summary.get("weights")
    if design["kind"] == "srs" and weights and not weights.get("equal", False):
        assumed[0] = (
            "The records were treated as a simple random sample, but the file has unequal survey weights. The risk of "
            "records with small weights is therefore understated."
        )
        warning = weights.get("warning") or weights.get("message")
        if kind == "internal" and warning:
            assumed[0] += f" {message(warning)}"
    if summary["model"]["prior"] == "paper":
        assumed.append("The prior of the article was used. It allows few profiles and tends to overstate the risk.")
    return tuple(assumed)


def _provenance(summary: Mapping[str, Any], manifest: Mapping[str, Any], kind: Kind) -> tuple[tuple[str, str], ...]:
    """List what is needed to repeat the run. The hash of the input could confirm a guess at a record: owner only."""
    settings, model, chains = summary["settings"], summary["model"], summary["convergence"]
    rows = [
        ("Made by", f"keyhole {summary['version']}, {_moment(manifest)}".rstrip(", ")),
        ("Model", f"{model['name']}, prior {model['prior']}, estimator {model['estimator']}"),
        ("Seed", str(settings["seed"])),
    ]
    if model.get("why"):
        rows.append(("Why this model", model["why"]))
    elif summary.get("quick"):
        quick = summary["quick"]
        tau1, tau2 = (
            with_interval(item) if item["pooled"] else interval_words(item["interval"])
            for item in (quick["tau1"], quick["tau2"])
        )
        first = "The simpler and faster model classes, in which every person has one profile, was run first: "
        settled = quick["message"] if quick["tau1"]["pooled"] else "A range over its chains, which had not settled yet."
        rows.append(("Quick answer", f"{first}tau1 {tau1}, tau2 {tau2}. {settled}"))
    if model.get("profiles"):
        rows.append(("Profiles", with_interval(model["profiles"])))
    if chains["chains"]:
        spacing = plural(chains.get("spacing", 1), "sweep")
        each = (
            f"{plural(chains['sweeps'], 'sweep')} each, of which the first {chains.get('warm_up', 0):,} were discarded"
        )
        rows.append(("Chains", f"{chains['chains']}, of {each}; then one draw was kept every {spacing}"))
    rows.append(("Time", duration(summary["seconds"]["total"])))
    if kind == "internal":
        rows += [
            ("SHA-256 of the input", str(manifest.get("input", {}).get("sha256", ""))),
            ("SHA-256 of the rules", str(manifest.get("rules") or "no rules")),
        ]
    rows.append(("Kernels", str(manifest.get("kernels", ""))[:16]))
    libraries = ", ".join(f"{name} {version}" for name, version in manifest.get("libraries", {}).items())
    rows.append(("Python and libraries", f"Python {manifest.get('python', '')}, {libraries}".rstrip(", ")))
    return tuple((name, value) for name, value in rows if value)
