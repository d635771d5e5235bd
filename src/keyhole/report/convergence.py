"""Whether the chains agree, as a section."""

from typing import Any

from keyhole.report.content import ChainGroup, Convergence, GateRow
from keyhole.report.pictures import Draws, draw_chains
from keyhole.report.sections import Block, estimate
from keyhole.risk.advice import Verdict, describe_remedy
from keyhole.words import clean_name, decimals, enumerate_words, number, percent, plural

CERTAIN = "No sampling was needed: the answer follows from the file itself."
RESUME = "--resume --time-limit 30m"
QUANTITIES = {
    "log_likelihood": "the log-likelihood",
    "effective_profiles": "the effective number of profiles",
    "weight_concentration": "the concentration of profiles",
    "record_concentration": "the concentration of records",
    "tau1_expected": "tau1 given the model",
    "tau2_expected": "tau2 given the model",
    "p0": "the probability of impossible combinations",
    "r1": "r1",
    "r2": "r2",
}
CONDITIONS = {
    "rhat": "R-hat of",
    "ess_bulk": "effective draws for the mean of",
    "ess_tail": "effective draws for the tails of",
    "mcse_mean": "Monte Carlo error, in standard deviations, of the mean of",
    "mcse_low": "Monte Carlo error, in standard deviations, of the lower end of",
    "mcse_high": "Monte Carlo error, in standard deviations, of the upper end of",
    "drift": "largest move, in standard deviations, of",
    "known": "share of records known well enough:",
}
AT_LEAST = ("ess_bulk", "ess_tail", "known")
PLACES = {"ess_bulk": 0, "ess_tail": 0, "drift": 1}


def describe_convergence(block: Block, draws: Draws, sampled: bool) -> Convergence:
    """The verdict on the chains, every gate, and what is seen of it."""
    gates = tuple(_gate(gate) for gate in block.get("gates", ()))
    converged = bool(block["converged"])
    groups = block.get("groups") or ()
    envelope = block.get("envelope")
    message = clean_name(block["message"]) if sampled else CERTAIN
    return Convergence(
        grade=block["grade"],
        converged=converged,
        pooled=block["grade"] != "not converged",
        sampled=sampled,
        sentence=_sentence(block, sampled, gates),
        message=message,
        remedy=describe_remedy(Verdict(**block["verdict"])),
        command=RESUME if block.get("stopped") == "time" and not converged else None,
        gates=gates,
        groups=tuple(_group(group) for group in groups) if len(groups) > 1 else (),
        envelope=_envelope(envelope) if envelope else None,
        pictures=draw_chains(draws, block) if sampled else (),
    )


def _sentence(block: Block, sampled: bool, gates: tuple[GateRow, ...]) -> str:
    if not sampled:
        return CERTAIN
    if block["converged"]:
        return f"{plural(block['chains'], 'chain')} from different starts reached the same answer."
    if block["grade"] == "usable":
        return (
            f"{plural(block['chains'], 'chain')} from different starts reached nearly the same answer; the intervals "
            "are widened by what a longer run might still change."
        )
    if block["chains"] == 1:
        return "One chain alone cannot show that it has reached the answer."
    counted = [gate for gate in gates if gate.role != "shown"]
    failed = sum(not gate.passed for gate in counted)
    return (
        f"The estimation was run {block['chains']} times from different starts (chains), and these have not settled on "
        f"one answer: {failed} of {len(counted)} conditions are not met."
    )


def _gate(gate: Block) -> GateRow:
    kind, _, what = str(gate["name"]).removesuffix(")").partition("(")
    words = f"{CONDITIONS[kind]} {QUANTITIES.get(what, what)}" if kind in CONDITIONS else str(gate["name"])
    limit = f"{'at least' if kind in AT_LEAST else 'at most'} {gate['limit']:g}"
    return GateRow(words, decimals(gate["value"], PLACES.get(kind, 3)), limit, bool(gate["passed"]), gate["role"])


def _group(group: Block) -> ChainGroup:
    names = enumerate_words([str(chain) for chain in group["chains"]])
    stacking = group.get("stacking")
    weight = "" if stacking is None else percent(stacking)
    return ChainGroup(names, estimate(group["tau1"]), estimate(group["tau2"]), weight)


def _envelope(block: Any) -> str:
    (low, high), (low2, high2) = block["tau1"], block["tau2"]
    return (
        f"So far they reach from {number(low)} to {number(high)} records alone in the population and from "
        f"{number(low2)} to {number(high2)} matched to the right person. The upper ends may still rise."
    )
