"""Risk under Poisson counts, and Skinner and Shlomo's test of underfitting of a log-linear model.

Cell c has mean mu in the sample, so mu (1 - pi) / pi in the rest of the population; y = mu (1 - pi) / pi, and f = 1:

    r1 = P(F = 1 | f = 1) = exp(-y),        r2 = E(1 / F | f = 1) = (1 - exp(-y)) / y

A model with wrong means mu has the bias sum over cells of mu exp(-mu) [h(mu) - h(true mean)], h being r1 or r2.
Expanded to second order, with f unbiased for the true mean and (f - mu)^2 - f for the squared difference, it is
estimated by (Skinner and Shlomo 2008; the package SDCNway computes the same)

    B = sum over all cells of  a (f - mu) + b [(f - mu)^2 - f],   a = -mu exp(-mu) h'(mu),   b = mu exp(-mu) h''(mu) / 2

If the model is right, f is Poisson(mu), so the variance of B is v = sum of a^2 mu + 2 b^2 mu^2, and B / sqrt(v) is
approximately standard normal. Large positive values indicate underfitting, which overstates the risk.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def risk_alone(mean: Floats, unseen: float) -> Floats:
    """Return r1 of cells with these means in the sample; unseen = (1 - pi) / pi."""
    return np.exp(-mean * unseen)


def risk_match(mean: Floats, unseen: float) -> Floats:
    """Return r2 of cells with these means in the sample."""
    y = mean * unseen
    return np.divide(-np.expm1(-y), y, out=np.ones_like(y), where=y > 0)


class Misfit(NamedTuple):
    """B / sqrt(v) for tau1 and for tau2."""

    tau1: float
    tau2: float


def measure_misfit(mean: Floats, occupied: Floats, count: NDArray[np.int64], unseen: float) -> Misfit:
    """Return Skinner and Shlomo's statistics.

    mean: means of all cells with a positive mean; occupied, count: means and counts of the occupied cells.
    """
    found = count.astype(np.float64)
    standardised = []
    for coefficients in (_coefficients_alone, _coefficients_match):
        # The sum as if all cells were empty, then the contribution of the records.
        a, b = coefficients(mean, unseen)
        empty = float(np.sum((b * mean - a) * mean))
        variance = float(np.sum((a * a + 2.0 * b * b * mean) * mean))
        a, b = coefficients(occupied, unseen)
        seen = float(np.sum(a * found + b * found * (found - 1.0 - 2.0 * occupied)))
        standardised.append((empty + seen) / math.sqrt(variance) if variance > 0.0 else 0.0)
    return Misfit(*standardised)


def _coefficients_alone(mean: Floats, unseen: float) -> tuple[Floats, Floats]:
    a = unseen * mean * np.exp(-mean * (1.0 + unseen))
    return a, 0.5 * unseen * a


def _coefficients_match(mean: Floats, unseen: float) -> tuple[Floats, Floats]:
    y = mean * unseen
    # h' and h'' in y, by their series where the closed forms lose precision.
    small = y < 1e-2
    safe = np.where(small, 1.0, y)
    decay, ratio = np.exp(-safe), -np.expm1(-safe) / safe
    first = np.where(small, -0.5 + y / 3.0 - y * y / 8.0 + y**3 / 30.0, (decay - ratio) / safe)
    second = np.where(
        small, 1.0 / 3.0 - y / 4.0 + y * y / 10.0 - y**3 / 36.0, (2.0 * ratio - decay * (2.0 + safe)) / (safe * safe)
    )
    weight = mean * np.exp(-mean)
    return -weight * unseen * first, 0.5 * weight * unseen * unseen * second
