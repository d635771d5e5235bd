"""Intervals of draws: of all chains together when they agree, and the envelope over chains when they do not."""

from dataclasses import dataclass

import numpy as np

from keyhole.kernels.state import Floats

LEVEL = 0.95
TAILS = ((1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0)

Interval = tuple[float, float]


@dataclass(frozen=True)
class Estimate:
    """A mean and its 95 % interval."""

    mean: float
    interval: Interval


def interval(draws: Floats) -> Interval:
    """Return the equal-tailed interval: for counts its ends are counts that were drawn."""
    low, high = np.quantile(draws, TAILS, method="inverted_cdf")
    return float(low), float(high)


def envelope(draws: Floats) -> Interval:
    """Return the smallest lower and the largest upper limit of any chain; draws: (chain, draw)."""
    low, high = np.quantile(draws, TAILS, axis=1, method="inverted_cdf")
    return float(low.min()), float(high.max())


def estimate(draws: Floats) -> Estimate:
    """Summarise draws as if they came from one distribution."""
    return Estimate(float(draws.mean()), interval(draws))
