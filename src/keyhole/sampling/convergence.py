"""Whether to believe the draws: gates on what does not depend on labels, and groups of chains when they fail."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from keyhole.kernels.state import Floats, Records
from keyhole.sampling.diagnostics import Gate, effective_draws, monte_carlo_error, rhat
from keyhole.sampling.intervals import Estimate, Interval, envelope
from keyhole.sampling.modes import Group, describe_groups, group_chains
from keyhole.sampling.rules import make_rules
from keyhole.sampling.stacking import Stacking, share_weights, weigh_chains
from keyhole.sampling.trace import Trace
from keyhole.sampling.verdict import explain_agreement, explain_failure
from keyhole.settings import Settings
from keyhole.zeros import Zeros

RHAT_LIMIT = 1.01
RHAT_LIMIT_OTHERS = 1.05
RECORDS_CHECKED = 200
"""Sample uniques whose own risks are checked, evenly spaced over the file."""


@dataclass(frozen=True)
class Diagnosis:
    """The verdict. rhat and the effective draws are the worst over tau1 and tau2.

    groups: chains that agree with each other; modes: how many groups.
    disagree: whether groups are farther apart than so many draws may be by chance.
    envelope: when not converged, the smallest lower and largest upper limit of any chain, of tau1 and tau2.
    stacking: when groups disagree, what weights by predictive ability would give: a sensitivity, not the result.
    """

    converged: bool
    rhat: float
    ess_bulk: float
    ess_tail: float
    modes: int
    message: str
    gates: tuple[Gate, ...]
    groups: tuple[Group, ...] = ()
    disagree: bool = False
    envelope: dict[str, Interval] | None = None
    stacking: Stacking | None = None


def check_risk_gates(quantities: dict[str, Floats], target_ess: int) -> list[Gate]:
    """Return the gates of tau1 and tau2, each predictive and expected."""
    gates = []
    for name in ("tau1", "tau2", "tau1_expected", "tau2_expected"):
        draws = quantities[name]
        value = rhat(draws)
        gates.append(Gate(f"rhat({name})", value, RHAT_LIMIT, value <= RHAT_LIMIT))
        for method in ("bulk", "tail"):
            value = effective_draws(draws, method)
            gates.append(Gate(f"ess_{method}({name})", value, float(target_ess), value >= target_ess))
    return gates


def check_model_gates(quantities: dict[str, Floats]) -> list[Gate]:
    """Return the gates of what lies behind the risk."""
    gates = []
    for name in ("log_likelihood", "effective_profiles", "weight_concentration", "record_concentration"):
        if name in quantities:
            value = rhat(quantities[name])
            gates.append(Gate(f"rhat({name})", value, RHAT_LIMIT_OTHERS, value <= RHAT_LIMIT_OTHERS))
    return gates


def check_record_gates(r1: np.ndarray, r2: np.ndarray) -> list[Gate]:
    """Return the gates of the risks of single records: 99 % of those checked must agree across chains."""
    uniques = r1.shape[2]
    chosen = np.unique(np.linspace(0, uniques - 1, min(RECORDS_CHECKED, uniques)).astype(int))
    gates = []
    for name, risks in (("r1", r1), ("r2", r2)):
        values = [rhat(risks[:, :, u].astype(np.float64)) for u in chosen]
        value = float(np.quantile(values, 0.99, method="inverted_cdf"))
        gates.append(Gate(f"rhat({name} of 99 % of records)", value, RHAT_LIMIT_OTHERS, value <= RHAT_LIMIT_OTHERS))
    return gates


def diagnose(trace: Trace) -> Diagnosis:
    """Apply every gate to the draws; when one fails, say which chains agree and how far apart all of them are."""
    drawn = trace.quantities
    gates = check_risk_gates(drawn, trace.target_ess)
    gates += check_model_gates(drawn)
    if trace.r1.shape[1] >= 8:
        gates += check_record_gates(trace.r1, trace.r2)
    risk_gates = [gate for gate in gates if "tau" in gate.name]
    worst_rhat = max(gate.value for gate in risk_gates if gate.name.startswith("rhat"))
    ess_bulk = min(gate.value for gate in risk_gates if gate.name.startswith("ess_bulk"))
    converged = len(trace.starts) >= 2 and all(gate.passed for gate in gates)
    # Chains that pass every gate are pooled: a pair of them may still lie a little beyond the cut.
    members, disagree = ([list(range(len(trace.starts)))], False) if converged else group_chains(drawn)
    groups = describe_groups(drawn, members)
    limits = None if converged else {name: envelope(drawn[name]) for name in ("tau1", "tau2")}
    if limits is None:
        message = explain_agreement(trace, worst_rhat, ess_bulk, monte_carlo_error(drawn["tau1"]))
    else:
        message = explain_failure(trace, gates, groups, disagree, limits["tau1"])
    return Diagnosis(
        converged=converged,
        rhat=worst_rhat,
        ess_bulk=ess_bulk,
        ess_tail=min(gate.value for gate in risk_gates if gate.name.startswith("ess_tail")),
        modes=len(groups),
        message=message,
        gates=tuple(gates),
        groups=groups,
        disagree=disagree,
        envelope=limits,
    )


def weigh_groups(
    diagnosis: Diagnosis, trace: Trace, records: Records, zeros: Zeros | None, settings: Settings
) -> Diagnosis:
    """Add stacking weights when groups of chains disagree; otherwise there is nothing to weigh."""
    if diagnosis.modes < 2:
        return diagnosis
    rules = None if zeros is None else make_rules(zeros.impossible, zeros.possible, records.level_start)
    stacking = weigh_chains(trace, records, rules, settings.model == "mixed")
    if stacking is None:
        return diagnosis
    return replace(diagnosis, stacking=stacking, groups=share_weights(diagnosis.groups, stacking))


def read_diagnosis(block: dict[str, Any]) -> Diagnosis:
    """Return the diagnosis that the block `convergence` of summary.json was written from."""
    names = ("converged", "rhat", "ess_bulk", "ess_tail", "modes", "message", "disagree")
    limits, stacking = block.get("envelope"), block.get("stacking")
    return Diagnosis(
        **{name: block[name] for name in names},
        gates=tuple(Gate(**gate) for gate in block["gates"]),
        groups=tuple(Group(**_read_estimates(group) | {"chains": tuple(group["chains"])}) for group in block["groups"]),
        envelope=None if limits is None else {name: (low, high) for name, (low, high) in limits.items()},
        stacking=None
        if stacking is None
        else Stacking(**_read_estimates(stacking) | {"weights": tuple(stacking["weights"])}),
    )


def _read_estimates(block: dict[str, Any]) -> dict[str, Any]:
    read = {name: Estimate(block[name]["mean"], tuple(block[name]["interval"])) for name in ("tau1", "tau2")}
    return {**block, **read}
