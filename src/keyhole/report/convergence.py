"""The agreement of the chains, as a section."""

from typing import Any

from keyhole.report.content import ChainGroup, Convergence, GateRow
from keyhole.report.pictures import Draws, draw_chains
from keyhole.report.sections import Block, estimate, message
from keyhole.risk.advice import Verdict, describe_remedy
from keyhole.words import decimals, enumerate_words, interval_words, percent, plural

CERTAIN = "No sampling was needed: the answer follows from the file itself."
QUANTITIES = {
    "log_likelihood": "the log-likelihood",
    "effective_profiles": "the effective number of profiles",
    "weight_concentration": "the concentration of profiles",
    "record_concentration": "the concentration of records",
    "tau1_expected": "tau1 given the model",
    "tau2_expected": "tau2 given the model",
    "p0": "the probability of impossible combinations",
}
CONDITIONS = {
    "rhat": "R-hat of",
    "ess_bulk": "effective draws for the mean of",
    "ess_tail": "effective draws for the tails of",
    "mcse_mean": "Monte Carlo error, in standard deviations, of the mean of",
    "mcse_low": "Monte Carlo error, in standard deviations, of the lower end of",
    "mcse_high": "Monte Carlo error, in standard deviations, of the upper end of",
    "drift": "largest drift, in standard deviations, of",
    "known": "share of records known well enough:",
}
AT_LEAST = ("ess_bulk", "ess_tail", "known")
PLACES = {"ess_bulk": 0, "ess_tail": 0, "drift": 1}


def describe_convergence(block: Block, draws: Draws, sampled: bool, resume: str | None = None) -> Convergence:
    """Describe the verdict on the chains, every condition, and the pictures of the chains.

    resume: the command that continues the run.
    """
    gates = tuple(_gate(gate) for gate in block.get("gates", ()))
    groups = block.get("groups") or ()
    envelope = block.get("envelope")
    return Convergence(
        grade=block["grade"],
        converged=bool(block["converged"]),
        pooled=block["grade"] != "not converged",
        sampled=sampled,
        sentence=_sentence(block, gates) if sampled else CERTAIN,
        message=message(block["message"]) if sampled else CERTAIN,
        remedy=message(describe_remedy(Verdict(**block["verdict"]))),
        command=resume if block.get("stopped") == "time" and not block["converged"] else None,
        gates=gates,
        groups=tuple(map(_group, groups)) if len(groups) > 1 else (),
        envelope=_envelope(envelope) if envelope else None,
        pictures=draw_chains(draws, block) if sampled else (),
    )


def _sentence(block: Block, gates: tuple[GateRow, ...]) -> str:
    chains = f"{plural(block['chains'], 'chain')} from different starts"
    if block["converged"]:
        return f"{chains} reached the same answer."
    if block["grade"] == "usable":
        return (
            f"{chains} reached nearly the same answer; the intervals are widened by what a longer run might still "
            "change."
        )
    if block["chains"] == 1:
        return "One chain alone cannot show that it has converged."
    counted = [gate for gate in gates if gate.role != "shown"]
    failed = sum(not gate.passed for gate in counted)
    return (
        f"The estimation was run {block['chains']} times from different starts (chains), and the runs do not agree "
        f"yet: {failed} of {plural(len(counted), 'condition')} {'is' if failed == 1 else 'are'} not met."
    )


def _gate(gate: Block) -> GateRow:
    kind, _, what = str(gate["name"]).removesuffix(")").partition("(")
    words = f"{CONDITIONS[kind]} {QUANTITIES.get(what, what)}" if kind in CONDITIONS else str(gate["name"])
    limit = f"{'at least' if kind in AT_LEAST else 'at most'} {gate['limit']:g}"
    return GateRow(words, decimals(gate["value"], PLACES.get(kind, 3)), limit, bool(gate["passed"]), gate["role"])


def _group(group: Block) -> ChainGroup:
    names = enumerate_words([str(chain) for chain in group["chains"]])
    weight = "" if group.get("stacking") is None else percent(group["stacking"])
    return ChainGroup(names, estimate(group["tau1"]), estimate(group["tau2"]), weight)


def _envelope(block: Any) -> str:
    return (
        f"So far they range from {interval_words(block['tau1'])} records alone in the population and from "
        f"{interval_words(block['tau2'])} matched to the right person. The upper limits may still rise."
    )
