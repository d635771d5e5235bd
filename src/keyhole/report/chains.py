"""Whether the chains agree, as a section."""

from typing import Any

from keyhole.report.content import ChainGroup, Convergence, GateRow
from keyhole.report.pictures import Draws, draw_chains
from keyhole.report.sections import Block, estimate
from keyhole.report.words import clean_name, decimals, enumerate_words, number, percent, plural

CERTAIN = "No sampling was needed: the answer follows from the file itself."
RESUME = "--resume --time-limit 30m"
QUANTITIES = {
    "log_likelihood": "the log-likelihood",
    "effective_profiles": "the effective number of profiles",
    "weight_concentration": "the concentration of profiles",
    "record_concentration": "the concentration of records",
    "tau1_expected": "tau1 given the model",
    "tau2_expected": "tau2 given the model",
}
CONDITIONS = {
    "rhat": "R-hat of",
    "ess_bulk": "effective draws for the mean of",
    "ess_tail": "effective draws for the interval of",
}


def describe_convergence(block: Block, draws: Draws, sampled: bool) -> Convergence:
    """The verdict on the chains, every gate, and what is seen of it."""
    gates = tuple(_gate(gate) for gate in block.get("gates", ()))
    converged = bool(block["converged"])
    groups = block.get("groups") or ()
    envelope = block.get("envelope")
    message = clean_name(block["message"]) if sampled else CERTAIN
    return Convergence(
        converged=converged,
        sampled=sampled,
        sentence=_sentence(block, sampled, gates),
        message=message,
        remedy="" if converged else message.rsplit(". ", 1)[-1],
        command=RESUME if block.get("stopped") == "time" and not converged else None,
        gates=gates,
        groups=tuple(_group(group) for group in groups) if len(groups) > 1 else (),
        envelope=None if converged or not envelope else _envelope(envelope),
        pictures=draw_chains(draws, block.get("starts", ())) if sampled else (),
    )


def _sentence(block: Block, sampled: bool, gates: tuple[GateRow, ...]) -> str:
    if not sampled:
        return CERTAIN
    if block["converged"]:
        return f"{plural(block['chains'], 'chain')} from different starts reached the same answer."
    if block["chains"] == 1:
        return "One chain alone cannot show that it has reached the answer."
    failed = sum(not gate.passed for gate in gates)
    return (
        f"The estimation was run {block['chains']} times from different starts (chains), and these have not settled on "
        f"one answer: {failed} of {len(gates)} conditions are not met."
    )


def _gate(gate: Block) -> GateRow:
    kind, _, what = str(gate["name"]).removesuffix(")").partition("(")
    words = f"{CONDITIONS[kind]} {QUANTITIES.get(what, what)}" if kind in CONDITIONS else str(gate["name"])
    places, limit = (0, "at least") if kind.startswith("ess") else (3, "at most")
    limit_words = f"{limit} {decimals(gate['limit'], 0 if places == 0 else 2)}"
    return GateRow(words, decimals(gate["value"], places), limit_words, bool(gate["passed"]))


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
