"""From a result to the content of its report: `safe` for others, `internal` for the owner of the data."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from keyhole.report.check import describe_check
from keyhole.report.content import Content, Count, Estimate, Kind, Rule, Term, count_exactly, count_safely
from keyhole.report.convergence import describe_convergence
from keyhole.report.headline import make_verdict
from keyhole.report.pictures import count_bands, draw_distributions, list_riskiest
from keyhole.report.sections import (
    describe_comparators,
    describe_households,
    describe_impossible,
    describe_source,
    describe_thresholds,
    describe_variables,
    estimate,
)
from keyhole.words import clean_name, duration, number, plural

ALONE = Term("alone in the sample (sample unique)", "no other record of the file has the same values of all keys.")
ALONE_OUTSIDE = Term(
    "alone in the population (population unique)",
    "nobody else in the whole population has them either: whoever knows them has found the person.",
)
KEYS = Term("keys (key variables)", "what somebody could know about a person without having the file.")

GLOSSARY: dict[str, tuple[Term, ...]] = {
    "answer": (ALONE, ALONE_OUTSIDE, KEYS),
    "certainty": (
        Term("tau1", "how many of the records that are alone in the sample are alone in the population."),
        Term(
            "tau2",
            "how many correct matches somebody makes who, for each record alone in the sample, picks one at random "
            "among all people who fit.",
        ),
        Term(
            "interval",
            "holds the true number with the probability given, if the model and the assumptions are right. It covers "
            "what is not known of the model and the chance of who else lives in the population.",
        ),
    ),
    "records": (
        Term("r1", "the probability that a record alone in the sample is alone in the population. Their sum is tau1."),
        Term("r2", "the probability that a match of this record with a person is right. Their sum is tau2."),
    ),
    "variables": (
        Term(
            "without it",
            "the estimate for the same file with this variable taken out of the release, by the same model.",
        ),
    ),
    "check": (
        Term("model expects", "the range that holds 95 % of files drawn from the fitted model."),
        Term("doubles, triples", "combinations of key values that exactly two, or three, records share."),
    ),
    "chains": (
        Term("chain", "one run of the estimation. Several runs from very different starts must reach the same answer."),
        Term("R-hat", "how much chains differ, compared with how much each moves; 1 is perfect agreement."),
        Term("effective draws", "how many independent draws the chains' draws are worth."),
        Term("profile", "a typical way of answering. The model learns how many there are and mixes them."),
    ),
    "impossible": (
        Term("rule", "a combination of categories in which nobody can be, such as a married child."),
        Term(
            "p0",
            "the share of people whom the model would have put into impossible combinations if there were no rules.",
        ),
    ),
}


TITLE = "Disclosure risk of a file"


class Result(Protocol):
    """What a report is made from: an Assessment, or anything like it."""

    @property
    def summary(self) -> dict[str, Any]: ...
    @property
    def manifest(self) -> dict[str, Any]: ...
    @property
    def records(self) -> pl.DataFrame: ...
    @property
    def draws(self) -> dict[str, NDArray[np.float64]]: ...


def make_content(result: Result, internal: bool = False, title: str | None = None) -> Content:
    """Say everything that the result holds and this kind of report may tell."""
    kind: Kind = "internal" if internal else "safe"
    rule: Rule = count_exactly if internal else count_safely
    summary = result.summary
    sampled = summary["model"]["estimator"] != "none"
    # An answer that was counted has estimates that are counts: a safe report leaves out what is made from them.
    blocks: Mapping[str, Any] = summary if sampled or internal else {}
    source = describe_source(summary["input"], kind, rule)
    tau = {name: _estimate(summary[name], sampled, source.sample_uniques) for name in ("tau1", "tau2")}
    everybody = not sampled and summary["input"]["sample_uniques"] > 0
    if not sampled and not everybody:
        tau = dict.fromkeys(tau, Estimate(0.0, 0.0, 0.0, "0"))
    level = float(summary["tau1"]["level"])
    variables = describe_variables(blocks.get("attribution"), kind, rule)
    thresholds = describe_thresholds(blocks.get("thresholds"), kind, source.sample_uniques, rule)
    check = describe_check(blocks.get("fit"), blocks.get("self_check"), kind, rule, summary["zeros"] is not None)
    convergence = describe_convergence(summary["convergence"], result.draws, sampled)
    impossible = describe_impossible(summary["zeros"], kind, rule)
    return Content(
        kind=kind,
        title=clean_name(title or TITLE),
        version=str(summary["version"]),
        made=_moment(result.manifest),
        verdict=make_verdict(
            source,
            tau["tau1"],
            tau["tau2"],
            level,
            everybody,
            convergence,
            variables,
            thresholds,
            check,
            impossible,
        ),
        source=source,
        tau1=tau["tau1"],
        tau2=tau["tau2"],
        level=level,
        distributions=draw_distributions(summary, tau, level) if sampled else (),
        bands=count_bands(result.records, rule),
        thresholds=thresholds,
        households=describe_households(blocks.get("households"), rule),
        variables=variables,
        check=check,
        convergence=convergence,
        assumptions=_assumptions(summary, kind),
        impossible=impossible,
        comparators=describe_comparators(blocks.get("comparators"), source.sample_uniques),
        riskiest=list_riskiest(result.records) if internal else (),
        provenance=_provenance(summary, result.manifest, kind),
        glossary=GLOSSARY,
    )


def _estimate(block: Mapping[str, Any], sampled: bool, uniques: Count) -> Estimate:
    return estimate(block) if sampled else Estimate(None, None, None, uniques.text)


def _moment(manifest: Mapping[str, Any]) -> str:
    """When it was made, to the minute."""
    told = str(manifest.get("finished", ""))
    return f"{told[:16].replace('T', ' ')} UTC" if told.endswith("+00:00") else told


def _assumptions(summary: Mapping[str, Any], kind: Kind) -> tuple[str, ...]:
    told = [
        "The records are a simple random sample of the population, one record per person.",
        "An intruder knows the keys of a person as they are in the file, without error, and no other variable of it. "
        "If the keys are wrong or out of date in places, the real risk is lower.",
        "An intruder does not know who is in the sample. Somebody who knows that a person took part can pick out "
        "every record that is alone in the sample.",
        "Only records that are alone in the sample are counted. People who share all their keys may still be at risk "
        "if they share everything else too.",
        "The interval is right if the model is. The model check and the agreement of the chains speak for it or "
        "against it; they cannot prove it.",
    ]
    weights = summary.get("weights")
    if weights and not weights.get("equal", False):
        told[0] = (
            "The records were taken as a simple random sample, but the file has survey weights. As far as they are "
            "unequal this does not hold, and the risk of records with small weights is understated."
        )
        message = weights.get("warning") or weights.get("message")
        if kind == "internal" and message:
            told[0] += f" {clean_name(message)}"
    if summary["model"]["prior"] == "paper":
        told.append("The prior of the article was used. It allows few profiles and tends to overstate the risk.")
    return tuple(told)


def _provenance(summary: Mapping[str, Any], manifest: Mapping[str, Any], kind: Kind) -> tuple[tuple[str, str], ...]:
    """How to make it again. The hash of the input can confirm a guess at a record, so it is for the owner."""
    settings, model, chains = summary["settings"], summary["model"], summary["convergence"]
    rows = [
        ("Made by", f"keyhole {summary['version']}, {_moment(manifest)}".rstrip(", ")),
        ("Model", f"{model['name']}, prior {model['prior']}, estimator {model['estimator']}"),
        ("Seed", str(settings["seed"])),
    ]
    if model.get("profiles"):
        low, high = model["profiles"]["interval"]
        rows.append(("Profiles", f"{number(model['profiles']['mean'])} ({number(low)} to {number(high)})"))
    if chains["chains"]:
        rows.append(
            (
                "Chains",
                f"{chains['chains']}, of {plural(chains['sweeps'], 'sweep')} each; the first "
                f"{chains.get('warm_up', 0):,} were discarded, then one draw was kept in "
                f"{plural(chains.get('spacing', 1), 'sweep')}",
            )
        )
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
