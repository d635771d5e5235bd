"""Whether to believe the draws: rank-normalised R-hat and effective draws of what does not depend on labels."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from keyhole.kernels.state import Floats
from keyhole.sampling.trace import Trace

RHAT_LIMIT = 1.01
RHAT_LIMIT_OTHERS = 1.05
RECORDS_CHECKED = 200
"""Sample uniques whose own risks are checked, evenly spaced over the file."""


@dataclass(frozen=True)
class Gate:
    """One condition for believing the result."""

    name: str
    value: float
    limit: float
    passed: bool


@dataclass(frozen=True)
class Diagnosis:
    """The verdict. rhat and the effective draws are the worst over tau1 and tau2."""

    converged: bool
    rhat: float
    ess_bulk: float
    ess_tail: float
    modes: int
    message: str
    gates: tuple[Gate, ...]


def array_stats() -> Any:
    """Return ArviZ's functions on plain arrays; imported late because it takes a second."""
    import arviz_stats.base as base

    return vars(base)["array_stats"]


def rhat(draws: Floats) -> float:
    """Return the rank-normalised split R-hat, the larger of bulk and folded; 1 where nothing varies."""
    if np.ptp(draws) == 0.0:
        return 1.0
    if (np.ptp(draws, axis=1) == 0.0).all():
        return float("inf")
    # Draws that hardly vary (a count that is nearly always the same) may leave nothing to divide by: no verdict then.
    with np.errstate(invalid="ignore", divide="ignore"):
        value = float(array_stats().rhat(draws, chain_axis=0, draw_axis=1, method="rank"))
    return value if np.isfinite(value) else float("inf")


def effective_draws(draws: Floats, method: str) -> float:
    """Return the effective number of draws, `bulk` or `tail` (5 % and 95 % quantiles)."""
    if np.ptp(draws) == 0.0:
        return float(draws.size)
    prob = (0.05, 0.95) if method == "tail" else None
    with np.errstate(invalid="ignore", divide="ignore"):
        value = float(array_stats().ess(draws, chain_axis=0, draw_axis=1, method=method, prob=prob))
    return value if np.isfinite(value) else 0.0


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
    """Apply every gate to the draws."""
    gates = check_risk_gates(trace.quantities, trace.target_ess)
    gates += check_model_gates(trace.quantities)
    if trace.r1.shape[1] >= 8:
        gates += check_record_gates(trace.r1, trace.r2)
    chains = len(trace.starts)
    several = chains >= 2
    converged = several and all(gate.passed for gate in gates)
    risk_gates = [gate for gate in gates if "tau" in gate.name]
    return Diagnosis(
        converged=converged,
        rhat=max(gate.value for gate in risk_gates if gate.name.startswith("rhat")),
        ess_bulk=min(gate.value for gate in risk_gates if gate.name.startswith("ess_bulk")),
        ess_tail=min(gate.value for gate in risk_gates if gate.name.startswith("ess_tail")),
        modes=1,
        message=explain(converged, chains, trace, gates),
        gates=tuple(gates),
    )


def explain(converged: bool, chains: int, trace: Trace, gates: list[Gate]) -> str:
    """Say in words whether the chains agree, and if not what is missing."""
    if chains < 2:
        return "One chain alone cannot show that it has converged: use --chains 4."
    starts = f"{chains} chains that started from {min(trace.starts)} to {max(trace.starts)} profiles"
    if converged:
        return f"{starts} agree."
    failed = ", ".join(f"{gate.name} {gate.value:.3g} (limit {gate.limit:g})" for gate in gates if not gate.passed)
    why, remedy = {
        "time": ("The time limit was reached", "Allow more with --time-limit"),
        "sweeps": ("The limit of sweeps was reached", "Allow more with --max-sweeps, or leave it out"),
    }.get(trace.stopped, ("Sampling ended", "Allow more with --time-limit"))
    return f"NOT CONVERGED. {why} before {starts} agreed: {failed}. {remedy}."
