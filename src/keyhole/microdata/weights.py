"""Survey weights: the size of the population from their sum, and what unequal ones do to the risk."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.errors import InputError

EQUAL = 1.001
"""Largest over smallest weight below which weights count as equal: rounding in a file is no design."""


def population_from_weights(weight: NDArray[np.float64], column: str) -> int:
    """Return N, the sum of the weights of the records, each of which stands for that many people."""
    total = round(float(weight.sum()))
    if total < len(weight):
        raise InputError(
            f"the weights in '{column}' sum to {total:,}, fewer than the {len(weight):,} records: they seem to be "
            "rescaled; give the size of the population with --population."
        )
    return total


def describe_weights(weight: NDArray[np.float64], column: str, gave_population: bool) -> dict[str, Any]:
    """The block `weights`: how unequal they are (CV, Kish's effective sample size, largest over smallest)."""
    cv = float(weight.std() / weight.mean())
    ratio = float(weight.max() / weight.min())
    effective = len(weight) / (1.0 + cv * cv)
    return {
        "column": column,
        "sum": float(weight.sum()),
        "gave_population": gave_population,
        "equal": ratio < EQUAL,
        "cv": cv,
        "effective_sample_size": effective,
        "ratio": ratio,
        "warning": None if ratio < EQUAL else _warn(len(weight), cv, ratio, effective),
    }


def _warn(records: int, cv: float, ratio: float, effective: float) -> str:
    return (
        f"Weights are unequal: the largest is {ratio:,.3g} times the smallest, CV {cv:.2f}; {records:,} records tell "
        f"as much as {effective:,.0f} of a simple random sample, which is what is assumed. Risks may be off: too low "
        "for records with small weights, too high for those with large ones."
    )
