"""Gates: the conditions for accepting a result, on what is reported: E(tau1 | draw), E(tau2 | draw) and records' risks.

A gate *decides* (R-hat, effective draws, Monte Carlo error), *guards* against chains that are stuck or have not arrived
yet (drift), or is only *shown*: quantities that are not reported may mix slowly, because the data do not determine
them, while tau1 is stationary. docs/convergence.md has the evidence for each limit.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from keyhole.diagnostics.laws import Law
from keyhole.diagnostics.series import effective_draws, monte_carlo_error, monte_carlo_errors, rhat
from keyhole.kernels.state import Floats
from keyhole.readable import Readable, Unbounded

Role = Literal["decides", "guards", "shown"]
Series = dict[str, Floats]
"""Quantities by name, (chain, draw)."""

Risks = NDArray[np.float32]

RHAT_LIMIT = 1.05
MEAN_LIMIT = 0.05
"""Largest Monte Carlo error of the mean of tau, in predictive standard deviations."""

END_LIMIT = 0.15
"""The same for each end of the interval."""

DRIFT_LIMIT = 2.5
"""Largest distance of a moving average of draws from the mean, in standard deviations."""

RECORD_LIMIT = 0.02
"""Largest Monte Carlo error of the risk of a record, unless its R-hat is within the limit."""

RECORDS_KNOWN = 0.99
"""Smallest share of the sample uniques whose risk is known that well."""

RECORDS_CHECKED = 200
"""Sample uniques whose own risks are checked, evenly spaced over the file."""

WIDER = 2.0
"""Factor by which the limits of a usable result are wider."""

IGNORED, WINDOW, FEWEST_IN_WINDOW = 8, 20, 3
"""The guard ignores the first eighth of the draws, and averages over a twentieth of them, at least three."""

TAUS = ("tau1", "tau2")
SHOWN = ("log_likelihood", "effective_profiles", "weight_concentration", "record_concentration", "p0")


@dataclass(frozen=True)
class Gate(Readable):
    """A condition and its value. usable: whether it is met at twice the limit."""

    name: str
    value: Unbounded
    limit: float
    passed: bool
    role: Role = "decides"
    usable: bool = True


def at_most(name: str, value: float, limit: float, wider: float, role: Role = "decides") -> Gate:
    """Return a gate that small values pass."""
    return Gate(name, value, limit, value <= limit, role, value <= wider)


def at_least(name: str, value: float, limit: float, wider: float, role: Role = "decides") -> Gate:
    """Return a gate that large values pass."""
    return Gate(name, value, limit, value >= limit, role, value >= wider)


def check_series(quantities: Series, discarded: Series, target_ess: int) -> list[Gate]:
    """Return the gates that need only one number for each draw."""
    gates, target = [], float(target_ess)
    for name in TAUS:
        draws = quantities[f"{name}_expected"]
        gates += check_mean(name, draws, quantities[f"{name}_variance"])
        gates.append(at_least(f"ess_bulk({name}_expected)", effective_draws(draws, "bulk"), target, target / WIDER))
    return gates + check_drift(quantities, discarded)


def check_ends(laws: Mapping[str, Law]) -> list[Gate]:
    """Return the gates of the ends of the intervals; their errors are in predictive standard deviations."""
    gates = []
    for name in TAUS:
        for end, error in zip(("low", "high"), laws[name].end_errors(), strict=True):
            relative = 0.0 if error == 0.0 else error / laws[name].sd
            gates.append(at_most(f"mcse_{end}({name})", relative, END_LIMIT, WIDER * END_LIMIT))
    return gates


def check_records(r1: Risks, r2: Risks) -> list[Gate]:
    """Return the gates of the records' risks (chain, draw, unique)."""
    if r1.shape[1] < FEWEST_IN_WINDOW:
        return []
    return [check_known("r1", r1), check_known("r2", r2)]


def may_stop(gates: Sequence[Gate]) -> bool:
    """Return whether every gate that decides or guards is met."""
    return all(gate.passed for gate in gates if gate.role != "shown")


def is_usable(gates: Sequence[Gate]) -> bool:
    """Return whether the gates that decide are met at twice their limits, and the guards at theirs."""
    return all(gate.passed if gate.role == "guards" else gate.usable for gate in gates if gate.role != "shown")


def check_mean(name: str, expected: Floats, variance: Floats) -> list[Gate]:
    """Return the gates that need only E(tau | draw) and Var(tau | draw) (chain, draw)."""
    sd = math.sqrt(float(expected.var() + variance.mean()))
    error = monte_carlo_error(expected)
    relative = 0.0 if error == 0.0 else error / sd if sd > 0.0 else float("inf")
    return [
        at_most(f"rhat({name}_expected)", rhat(expected), RHAT_LIMIT, 1.0 + WIDER * (RHAT_LIMIT - 1.0)),
        at_most(f"mcse_mean({name})", relative, MEAN_LIMIT, WIDER * MEAN_LIMIT),
    ]


def check_drift(quantities: Series, discarded: Series) -> list[Gate]:
    """Return the guards: how far moving averages are from the mean, over all chains for tau, within each for the fit.

    Discarded draws count too: a chain that has spent some time elsewhere may go there again.
    """
    gates = []
    for name in ("tau1_expected", "tau2_expected", "log_likelihood"):
        kept = quantities[name]
        whole = np.concatenate([discarded[name], kept], axis=1) if name in discarded else kept
        if name == "log_likelihood":
            centre, sd = kept.mean(axis=1, keepdims=True), kept.std(axis=1, keepdims=True)
        else:
            centre, sd = kept.mean(keepdims=True), kept.std(keepdims=True)
        gates.append(at_most(f"drift({name})", find_drift(whole, centre, sd), DRIFT_LIMIT, DRIFT_LIMIT, "guards"))
    return gates


def find_drift(draws: Floats, centre: Floats, sd: Floats) -> float:
    """Return the largest distance of a moving average from the centre, in standard deviations."""
    total = draws.shape[1]
    window = min(max(total // WINDOW, FEWEST_IN_WINDOW), total)
    looked_at = draws[:, min(total // IGNORED, total - window) :]
    sums = np.cumsum(np.pad(looked_at - centre, ((0, 0), (1, 0))), axis=1)
    average = np.abs(sums[:, window:] - sums[:, :-window]) / window
    # Constant draws have not moved: sums of equal numbers differ by rounding only.
    moved = average > 1e-9 * np.maximum(np.abs(centre), 1e-9)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.where(moved, average / sd, 0.0).max())


def check_known(name: str, risks: Risks) -> Gate:
    """Return the gate of the records: the share of those checked whose mean risk is known well enough."""
    uniques = risks.shape[2]
    chosen = np.unique(np.linspace(0, uniques - 1, min(RECORDS_CHECKED, uniques)).astype(int))
    draws = risks[:, :, chosen].astype(np.float64)
    # The error of a mean is at most that of a single draw.
    error = np.minimum(draws.std(axis=(0, 1)), monte_carlo_errors(draws))
    value = np.ones(len(chosen))
    for u in np.flatnonzero(error > RECORD_LIMIT):
        value[u] = rhat(draws[:, :, u])
    share = float(np.mean((error <= RECORD_LIMIT) | (value <= RHAT_LIMIT)))
    usable = np.mean((error <= WIDER * RECORD_LIMIT) | (value <= 1.0 + WIDER * (RHAT_LIMIT - 1.0)))
    enough = bool(usable >= RECORDS_KNOWN)
    return Gate(f"known({name})", share, RECORDS_KNOWN, share >= RECORDS_KNOWN, "decides", enough)


def check_shown(quantities: Series) -> list[Gate]:
    """Return the gates that are shown and decide nothing."""
    gates = []
    for name in TAUS:
        value = effective_draws(quantities[f"{name}_expected"], "tail")
        gates.append(at_least(f"ess_tail({name}_expected)", value, 100.0, 50.0, "shown"))
    for name in SHOWN:
        if name in quantities:
            gates.append(at_most(f"rhat({name})", rhat(quantities[name]), RHAT_LIMIT, 1.1, "shown"))
            value = effective_draws(quantities[name], "bulk")
            gates.append(at_least(f"ess_bulk({name})", value, 100.0, 50.0, "shown"))
    return gates


def shortfall(gate: Gate) -> float:
    """Return by what factor the draws must grow for the gate to be met: 1 at the limit, infinite if unknown.

    A Monte Carlo error is proportional to one over the square root of the draws, and R-hat of stationary chains is
    about sqrt(1 + chains / effective draws).
    """
    if gate.name.startswith("ess"):
        return gate.limit / max(gate.value, 1.0)
    if gate.name.startswith("rhat"):
        return (gate.value**2 - 1.0) / (gate.limit**2 - 1.0)
    if gate.name.startswith("known"):
        return 1.0 if gate.passed else 2.0
    return (gate.value / gate.limit) ** 2


def draws_needed(gates: Sequence[Gate]) -> float:
    """Return by what factor the draws must grow for all gates that count to be met."""
    return max((shortfall(gate) for gate in gates if gate.role != "shown" and not gate.passed), default=1.0)
