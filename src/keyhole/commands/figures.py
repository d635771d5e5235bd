"""Figures on the screen: no more digits than the draws give, and what each group of chains says."""

from typing import Any

from keyhole.words import number, percent, round_up


def tell_error(measure: dict[str, Any]) -> str:
    """The Monte Carlo error of an estimate, if there is one, as the verdict gives it."""
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
        body.append(row if stacking is None else (*row, percent(group["stacking"])))
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
        f"{percent(stacking['unreliable'])} of them with a doubtful weight.\n"
    )


def with_interval(estimate: dict[str, Any]) -> str:
    """A mean with its interval in brackets."""
    low, high = estimate["interval"]
    return f"{number(estimate['mean'])} ({number(low)} to {number(high)})"
