"""Figures on the screen: no more digits than the draws give, and what each group of chains says."""

import math
from typing import Any

DIGITS = 2
"""Significant digits of a number below one, at most."""


def number(value: float) -> str:
    """A count with one decimal where that says anything; what is there but tiny is not called nothing."""
    if 0.0 < abs(value) < 0.05:
        return f"{value:.1g}"
    return f"{value:,.1f}" if abs(value) < 10 and value != round(value) else f"{value:,.0f}"


def rounded(value: float, error: float | None) -> str:
    """Round an estimate so that its last digit is worth at least its Monte Carlo error; counts get one decimal."""
    if error is None or not math.isfinite(error) or error <= 0.0:
        return number(value)
    most = 1 if abs(value) >= 1.0 or value == 0.0 else DIGITS - 1 - math.floor(math.log10(abs(value)))
    decimals = min(-math.ceil(math.log10(error) - 1e-9), most)
    return f"{round(value, decimals):,.{max(decimals, 0)}f}"


def tell_error(measure: dict[str, Any]) -> str:
    """The Monte Carlo error of an estimate, if there is one, as the verdict gives it."""
    from keyhole.sampling.verdict import round_up

    error = measure.get("mcse")
    return f"; Monte Carlo error {round_up(error):g}" if error else ""


def group_table(convergence: dict[str, Any]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows of a table of the groups of chains; the last column is a sensitivity, and says so.

    Weights of chains that differ no more than by chance would be weights by chance: they are not shown.
    """
    header: tuple[str, ...] = ("Chains that agree", "tau1 by them", "tau2 by them", "Still moving")
    body: list[tuple[str, ...]] = []
    stacking = shown_stacking(convergence)
    for group in convergence["groups"]:
        chains = ", ".join(str(chain) for chain in group["chains"])
        moving = "no" if group["settled"] else "yes"
        row = (chains, with_interval(group["tau1"]), with_interval(group["tau2"]), moving)
        body.append(row if stacking is None else (*row, f"{100 * group['stacking']:.0f} %"))
    if stacking is not None:
        header = (*header, "Weight *")
        body.append(("* weighted", with_interval(stacking["tau1"]), with_interval(stacking["tau2"]), "", "100 %"))
    return header, body


def shown_stacking(convergence: dict[str, Any]) -> dict[str, Any] | None:
    """The weights, if the groups they belong to disagree."""
    stacking: dict[str, Any] | None = convergence["stacking"]
    return stacking if convergence["disagree"] else None


def explain_weights(convergence: dict[str, Any]) -> str:
    """What the last column of the table is, and is not."""
    stacking = shown_stacking(convergence)
    if stacking is None:
        return ""
    return (
        f"* {stacking['note'][0].upper()}{stacking['note'][1:]}. From {stacking['records']:,} records, "
        f"{100 * stacking['unreliable']:.0f} % of them with a doubtful weight.\n"
    )


def with_interval(estimate: dict[str, Any]) -> str:
    """A mean with its interval in brackets."""
    low, high = estimate["interval"]
    return f"{number(estimate['mean'])} ({number(low)} to {number(high)})"
