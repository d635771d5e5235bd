"""Population uniques under Pitman's sampling formula (Pitman 1995; Hoshino 2001), the model PITMAN of ARX.

Records join cells one by one: record i + 1 joins a cell of size s with probability (s - alpha) / (theta + i) and opens
a new cell otherwise. theta and alpha maximise the log-probability of the sample's cell sizes,

    sum_{i<u} log(theta + i alpha) - sum_{i<n} log(theta + i) + sum over cells sum_{i<f} log(i - alpha),  i = 1, 2, ...

with u cells in the sample. The expected number of population uniques is

    U = N Gamma(theta + alpha + N - 1) Gamma(theta + 1) / (Gamma(theta + alpha) Gamma(theta + N))

which Hoshino (and ARX) approximate by Gamma(theta + 1) / Gamma(theta + alpha) N^alpha. A simple random sample holds a
population unique with probability n / N, so tau1 = U n / N. For tau2, the number of unsampled people in the
cell of a sample unique is beta-binomial(N - n; 1 - alpha, theta + n - 1 + alpha).
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, gammaln, logit

from keyhole.classical.sample import Deadline, Details, Estimate, EstimatorError, Sample, share_risks

STARTS = ((0.1, 10.0), (0.5, 10.0), (0.5, 1000.0), (0.9, 100.0))
"""Starting values of alpha and theta + alpha for the maximisation."""

EDGE = 1e-9
"""Distance of alpha from 0, where the formula is that of Ewens, and from 1."""


def log_likelihood(alpha: float, theta: float, sizes: NDArray[np.int64], size_count: NDArray[np.int64]) -> float:
    """Return the log-probability of these cell sizes, up to a constant."""
    cells, records = int(size_count.sum()), int((sizes * size_count).sum())
    opened = float(np.log(theta + alpha * np.arange(1, cells)).sum())
    joined = float(size_count @ (gammaln(sizes - alpha) - gammaln(1.0 - alpha)))
    # A sum, since for large theta the difference of two values of gammaln loses all precision.
    return opened - float(np.log(theta + np.arange(1, records)).sum()) + joined


def fit_pitman(sizes: NDArray[np.int64], size_count: NDArray[np.int64], deadline: Deadline) -> tuple[float, float]:
    """Return the maximum-likelihood alpha and theta, 0 < alpha < 1 and theta > -alpha."""

    def cost(point: NDArray[np.float64]) -> float:
        deadline.check()
        alpha, theta = _parameters(point)
        return -log_likelihood(alpha, theta, sizes, size_count)

    found = [
        minimize(cost, [logit(alpha), math.log(shifted)], method="L-BFGS-B", bounds=[(-20.0, 20.0), (-20.0, 20.0)])
        for alpha, shifted in STARTS
    ]
    best = min(found, key=lambda fit: float(fit.fun))
    if not np.isfinite(best.fun):
        raise EstimatorError("the likelihood of Pitman's formula has no finite maximum for this file.")
    return _parameters(best.x)


def population_uniques(alpha: float, theta: float, people: int) -> float:
    """Return U, the expected number of cells of size 1 in the population."""
    ratio = gammaln(theta + alpha + people - 1) + gammaln(theta + 1) - gammaln(theta + alpha) - gammaln(theta + people)
    return people * math.exp(float(ratio))


def match_risk(alpha: float, theta: float, records: int, people: int) -> float:
    """Return E(1 / F | f = 1).

    With M = N - n, b = theta + n - 1 + alpha: (1 / (M + 1)) sum_{m=0}^{M} (b)_m / (theta + n)_m, rising factorials,
    whose sum is ((theta + n - 1) / alpha) [Gamma(b + M + 1) Gamma(theta + n - 1) / (Gamma(b) Gamma(theta + N)) - 1].
    """
    b = theta + records - 1 + alpha
    others = people - records
    growth = gammaln(b + others + 1) + gammaln(theta + records - 1) - gammaln(b) - gammaln(theta + people)
    return (theta + records - 1) / alpha * math.expm1(float(growth)) / (others + 1)


def estimate_pitman(sample: Sample, deadline: Deadline) -> Estimate:
    """Fit Pitman's formula to the cell sizes."""
    alpha, theta = fit_pitman(sample.sizes, sample.size_count, deadline)
    uniques = population_uniques(alpha, theta, sample.population)
    tau2 = sample.uniques * match_risk(alpha, theta, sample.records, sample.population)
    details: Details = {"population_uniques": uniques, "alpha": alpha, "theta": theta}
    return share_risks(uniques * sample.fraction, tau2, sample.uniques, details)


def _parameters(point: NDArray[np.float64]) -> tuple[float, float]:
    alpha = min(max(float(expit(point[0])), EDGE), 1.0 - EDGE)
    return alpha, math.exp(float(point[1])) - alpha
