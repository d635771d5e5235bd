"""Who carries the risk, in a line each: variables, riskiest records, weights, households."""

from typing import Any

from keyhole.commands.figures import with_interval
from keyhole.words import number, plural

SHOWN_VARIABLES = 4


def explain_rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the lines of the table on the screen that say whose risk it is."""
    found = []
    if summary["input"]["sample_uniques"]:
        found = [("What carries tau1", _variables(summary)), ("Riskiest records", _thresholds(summary))]
    if summary["households"] is not None:
        found.append(("Households", _households(summary["households"])))
    if summary["weights"] is not None:
        found.append(("Weights", _weights(summary["weights"])))
    return found


def _variables(summary: dict[str, Any]) -> str:
    """The variables without which most of tau1 goes."""
    variables = sorted(summary["attribution"]["variables"], key=lambda found: -found["share_tau1"])
    told = ", ".join(f"{found['name']} {100 * found['share_tau1']:.0f} %" for found in variables[:SHOWN_VARIABLES])
    more = len(variables) - SHOWN_VARIABLES
    return f"without it tau1 falls by: {told}" + (f" ({more} more in summary.json)" if more > 0 else "")


def _thresholds(summary: dict[str, Any]) -> str:
    """The strictest threshold that some record exceeds, and the one that most of tau1 exceeds."""
    over = [found for found in summary["thresholds"] if found["records"]]
    if not over:
        return "none has r1 above 0.01"
    half = summary["tau1"]["expected"]["mean"] / 2
    chosen = [over[0], next((found for found in over if found["tau1_after"] <= half), over[-1])]
    parts = []
    for found in chosen[: 1 if chosen[0] is chosen[1] else 2]:
        has = "has" if found["records"] == 1 else "have"
        parts.append(
            f"{plural(found['records'], 'record')} {has} r1 above {found['above']:g} "
            f"(tau1 without: {number(found['tau1_after'])})"
        )
    return "; ".join(parts)


def _households(block: dict[str, Any]) -> str:
    return (
        f"{block['households']:,} by {block['column']}, {block['with_sample_unique']:,} with a member alone in the "
        f"sample; expected with a member alone in the population: {with_interval(block['with_population_unique'])}, "
        f"with a member matched: {with_interval(block['with_match'])}"
    )


def _weights(block: dict[str, Any]) -> str:
    source = f"{block['column']}, sum {block['sum']:,.0f}" + (", taken as N" if block["gave_population"] else "")
    return f"{source}. {block['warning'] or 'All are equal.'}"
