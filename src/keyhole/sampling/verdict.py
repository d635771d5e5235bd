"""The verdict on the chains in words that a data steward understands. The last sentence says what to do."""

import math
from collections.abc import Sequence

from keyhole.sampling.diagnostics import Gate
from keyhole.sampling.intervals import Estimate, Interval
from keyhole.sampling.modes import Group
from keyhole.sampling.trace import Trace

SHOWN = 3
"""Failed gates told in the message; all of them are in summary.json."""

MOST_GROUPS = 4
"""Groups told one by one."""

WORDS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight")
LIMITS = {
    "time": ("the time limit", "Allow more with --time-limit"),
    "sweeps": ("the limit of sweeps", "Allow more with --max-sweeps, or leave it out"),
}


def explain_agreement(trace: Trace, rhat: float, effective: float, error: float) -> str:
    """Say why the result may be believed."""
    return (
        f"{name_chains(trace)} agree: R-hat {rhat:.3f}, {effective:,.0f} effective draws; "
        f"the Monte Carlo error of tau1 is {round_up(error):g}."
    )


def explain_failure(
    trace: Trace, gates: Sequence[Gate], groups: Sequence[Group], disagree: bool, tau1: Interval
) -> str:
    """Say what is missing, what to reckon with meanwhile, and what to do; tau1: the envelope over chains."""
    limit, remedy = LIMITS.get(trace.stopped, ("the end of the run", "Allow more with --time-limit"))
    meanwhile = (
        f"Until then reckon with {figure(tau1[1])}, the largest upper limit of tau1 in any chain; it may still rise."
    )
    if len(trace.starts) < 2:
        return f"NOT CONVERGED. One chain alone cannot show that it has converged. {meanwhile} Use --chains 4."
    settled = all(group.settled for group in groups)
    if not disagree:
        state = "agreed as far as so few draws can show" if settled else "were still moving"
        return (
            f"NOT CONVERGED: not enough draws yet. {name_chains(trace)} {state} when {limit} was reached: "
            f"{tell_failed(gates)}. {meanwhile} {remedy}."
        )
    apart = f"{tell_groups(groups)} ({tell_widest(gates)})"
    if not settled:
        return (
            f"NOT CONVERGED: the chains have not met yet. {count_groups(groups)} still stood apart when {limit} was "
            f"reached: {apart}. They were moving, so a longer run may bring them together. {meanwhile} {remedy}."
        )
    return (
        f"NOT CONVERGED: the chains disagree. {count_groups(groups)} tell different stories: {apart}. Each chain has "
        f"settled, so a longer run alone may not bring them together. {meanwhile} Use more chains (--chains 8) and "
        "more time (--time-limit), or fewer or coarser keys, or state impossible combinations (--zeros)."
    )


def name_chains(trace: Trace) -> str:
    """Say how many chains there are and where they started, and what they had in common before the first draw."""
    first, last = min(trace.starts), max(trace.starts)
    chains = f"{len(trace.starts)} chains that started from {first if first == last else f'{first} to {last}'} profiles"
    if trace.start_sweeps == 0:
        return chains
    return f"{chains} (and made {trace.start_sweeps} sweeps under a simpler model first)"


def count_groups(groups: Sequence[Group]) -> str:
    """Say how many groups there are."""
    count = WORDS[len(groups)] if len(groups) < len(WORDS) else f"{len(groups)}"
    return f"{count} chains" if all(len(group.chains) == 1 for group in groups) else f"{count} groups of chains"


def tell_groups(groups: Sequence[Group]) -> str:
    """Say what each group of chains thinks of tau1; with very many groups only how far they are apart."""
    if len(groups) > MOST_GROUPS:
        means = [group.tau1.mean for group in groups]
        return f"tau1 is about {figure(min(means))} by one and {figure(max(means))} by another"
    return "tau1 is " + "; ".join(f"{about(group.tau1)} by {name_group(group)}" for group in groups)


def tell_widest(gates: Sequence[Gate]) -> str:
    """Say in what the chains are farthest apart."""
    widest = max((gate for gate in gates if gate.name.startswith("rhat")), key=lambda gate: gate.value)
    return f"farthest apart in {name_gate(widest)}, R-hat {widest.value:.4g}"


def name_group(group: Group) -> str:
    """Name the chains of a group."""
    numbers = [str(chain) for chain in group.chains]
    return f"chain {numbers[0]}" if len(numbers) == 1 else f"chains {', '.join(numbers[:-1])} and {numbers[-1]}"


def about(estimate: Estimate) -> str:
    """The mean and the interval."""
    low, high = estimate.interval
    return f"about {figure(estimate.mean)} ({figure(low)} to {figure(high)})"


def tell_failed(gates: Sequence[Gate]) -> str:
    """Name the gates that failed, the worst first."""
    failed = sorted((gate for gate in gates if not gate.passed), key=shortfall, reverse=True)
    # Bulk and tail of the same draws often read alike.
    lines = list(dict.fromkeys(tell_gate(gate) for gate in failed))
    told = "; ".join(lines[:SHOWN])
    more = len(lines) - SHOWN
    return told if more <= 0 else f"{told}; and {more} more condition{'' if more == 1 else 's'} not met"


def shortfall(gate: Gate) -> float:
    """How far a gate is from being met; 1 at the limit."""
    if gate.name.startswith("ess"):
        return gate.limit / max(gate.value, 1.0)
    return (gate.value - 1.0) / (gate.limit - 1.0)


def tell_gate(gate: Gate) -> str:
    """A gate in words."""
    if gate.name.startswith("rhat"):
        return f"R-hat of {name_gate(gate)} is {gate.value:.4g} (at most {gate.limit:g})"
    return f"{name_gate(gate)} has {gate.value:.0f} effective draws (at least {gate.limit:.0f})"


def name_gate(gate: Gate) -> str:
    """What a gate looks at, in words."""
    name = gate.name.removesuffix(")").partition("(")[2]
    name = f"expected {name.removesuffix('_expected')}" if name.endswith("_expected") else name
    return name.replace("_", " ")


def figure(value: float) -> str:
    """A count with one decimal where that says anything."""
    return f"{value:,.1f}" if abs(value) < 10 and value != round(value) else f"{value:,.0f}"


def round_up(error: float) -> float:
    """Round an error up to one digit."""
    if not math.isfinite(error) or error <= 0.0:
        return error
    step = 10.0 ** math.floor(math.log10(error))
    return float(f"{math.ceil(error / step - 1e-9) * step:.1g}")
