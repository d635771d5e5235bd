"""Rank-normalised R-hat, effective draws and Monte Carlo error, by ArviZ, with a verdict where ArviZ has none."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from keyhole.kernels.state import Floats


@dataclass(frozen=True)
class Gate:
    """One condition for believing the result."""

    name: str
    value: float
    limit: float
    passed: bool


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
    prob = (0.05, 0.95) if method == "tail" else None
    with np.errstate(invalid="ignore", divide="ignore"):
        value = float(array_stats().ess(draws, chain_axis=0, draw_axis=1, method=method, prob=prob))
    return value if np.isfinite(value) else 0.0


def monte_carlo_error(draws: Floats) -> float:
    """Return the Monte Carlo standard error of the mean; infinite where it cannot be told."""
    with np.errstate(invalid="ignore", divide="ignore"):
        value = float(array_stats().mcse(draws, chain_axis=0, draw_axis=1, method="mean"))
    return value if np.isfinite(value) else float("inf")
