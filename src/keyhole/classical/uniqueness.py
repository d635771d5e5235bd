"""Population uniques by Zayatz, by the slide negative binomial model and by Dankar's rule, as in ARX; k-anonymity.

The first three estimate U, the number of population uniques. A simple random sample contains each with probability
n / N, so tau1 = U n / N. Their models of the cell sizes of sample uniques imply tau2. k-anonymity counts records of the
sample only, so it has neither tau1 nor tau2.
"""

import itertools
import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares
from scipy.special import expit

from keyhole.classical.pitman import estimate_pitman
from keyhole.classical.sample import Deadline, Details, Estimate, EstimatorError, Sample, share_risks

LEVELS = (2, 3, 5)
"""The k of k-anonymity."""

SMALL_FRACTION = 0.1
"""Dankar's rule uses Pitman up to this sampling fraction."""

SOLVED = 1e-6
"""Relative error below which the two equations of the slide model are solved."""

Floats = NDArray[np.float64]


def count_violations(sample: Sample, deadline: Deadline) -> Estimate:
    """Count the records in cells of fewer than k records (Samarati and Sweeney 1998)."""
    deadline.check()
    found: Details = {f"below_{k}": int((sample.cell_count < k).sum()) for k in LEVELS}
    return Estimate(None, None, details=found)


def estimate_zayatz(sample: Sample, deadline: Deadline) -> Estimate:
    """Zayatz (1991): the cell sizes of the population have the distribution of those of the sample.

    P(F = j | f = 1) is proportional to s_j H(1; N, j, n): s_j cells of size j in the sample, and H the
    hypergeometric probability that one person of a cell of j is in the sample, j n / N prod_{i < j - 1}
    (N - n - i) / (N - 1 - i).
    """
    deadline.check()
    others = np.arange(sample.sizes.max() - 1)
    outside = np.maximum(sample.population - sample.records - others, 0) / (sample.population - 1 - others)
    missed = np.concatenate([[1.0], np.cumprod(outside)])[sample.sizes - 1]
    chance = sample.size_count * sample.sizes * sample.fraction * missed
    total = float(chance.sum())
    alone = float(chance[sample.sizes == 1].sum()) / total
    match = float((chance / sample.sizes).sum()) / total
    tau1 = sample.uniques * alone
    return share_risks(tau1, sample.uniques * match, sample.uniques, {"population_uniques": tau1 / sample.fraction})


def estimate_cells(sizes: NDArray[np.int64], size_count: NDArray[np.int64], fraction: float) -> float:
    """Estimate the number of occupied cells of the population (Shlosser 1981, modified by Haas and Stokes 1998).

    With q = n / N: u + s_1 [sum i q^2 (1 - q^2)^(i-1) s_i / sum (1 - q)^i ((1 + q)^i - 1) s_i]
    [sum (1 - q)^i s_i / sum i q (1 - q)^(i-1) s_i]^2. The first denominator uses (1 - q)^i (1 + q)^i = (1 - q^2)^i,
    since (1 + q)^i overflows for large cells.
    """
    i, s, q = sizes.astype(np.float64), size_count.astype(np.float64), fraction
    first = float((i * q * q * (1 - q * q) ** (i - 1) * s).sum()) / float((((1 - q * q) ** i - (1 - q) ** i) * s).sum())
    second = float(((1 - q) ** i * s).sum()) / float((i * q * (1 - q) ** (i - 1) * s).sum())
    return float(s.sum()) + float(s[sizes == 1].sum()) * first * second**2


def slide_counts(alpha: float, beta: float, cells: float, fraction: float) -> tuple[float, float, float, float]:
    """Return U, tau2 and the expected numbers of cells with one and with two records in the sample.

    F - 1 is negative binomial with shape alpha and success probability beta in each of K cells, and each person is
    sampled with probability q = n / N. With d = (1 - q)(1 - beta):
    U = K beta^alpha; tau2 = K q g, g = (beta / (1 - d))^alpha; s_1 = K q g (1 + alpha d / (1 - d));
    s_2 = K q^2 alpha (1 - beta) g (2 - (1 - alpha) d) / (2 (1 - d)^2).
    """
    q, d = fraction, (1 - fraction) * (1 - beta)
    g = (beta / (1 - d)) ** alpha
    single = cells * q * g * (1 + alpha * d / (1 - d))
    double = cells * q * q * alpha * (1 - beta) * g * (2 - (1 - alpha) * d) / (2 * (1 - d) ** 2)
    return cells * beta**alpha, cells * q * g, single, double


def estimate_slide(sample: Sample, deadline: Deadline) -> Estimate:
    """Chen and Keller-McNulty (1998): the size of a population cell less 1 is negative binomial.

    The number of cells is Shlosser's estimate; alpha and beta make the expected numbers of cells with one and with two
    records equal to those of the file.
    """
    single, double = sample.cells_of_size(1), sample.cells_of_size(2)
    if not double:
        raise EstimatorError("the slide model needs cells with two records, and the file has none.")
    cells = estimate_cells(sample.sizes, sample.size_count, sample.fraction)

    def distance(point: Floats) -> Floats:
        deadline.check()
        _, _, one, two = slide_counts(math.exp(point[0]), float(expit(point[1])), cells, sample.fraction)
        # 1e-300 keeps the logarithm finite where a count underflows.
        return np.log(np.maximum([one / single, two / double], 1e-300))

    starts = itertools.product((-4.0, -1.0, 1.0), (-6.0, -2.0, 2.0))
    fits = [least_squares(distance, start, bounds=([-15.0, -30.0], [15.0, 30.0])) for start in starts]
    best = min(fits, key=lambda fit: float(fit.cost))
    if np.abs(best.fun).max() > SOLVED:
        raise EstimatorError("the equations of the slide model have no solution for this file.")
    alpha, beta = math.exp(best.x[0]), float(expit(best.x[1]))
    uniques, tau2, _, _ = slide_counts(alpha, beta, cells, sample.fraction)
    details: Details = {"population_uniques": uniques, "population_cells": cells, "alpha": alpha, "beta": beta}
    return share_risks(uniques * sample.fraction, tau2, sample.uniques, details)


def estimate_dankar(sample: Sample, deadline: Deadline) -> Estimate:
    """Dankar, El Emam, Neisa and Roffey (2012): a rule for choosing between the three.

    Pitman if n / N is at most 0.1, else the smaller of Zayatz and the slide model; Zayatz if the chosen one has no
    result, as in ARX.
    """
    zayatz = estimate_zayatz(sample, deadline)
    name, chosen = "zayatz", zayatz
    try:
        if sample.fraction <= SMALL_FRACTION:
            name, chosen = "pitman", estimate_pitman(sample, deadline)
        else:
            slide = estimate_slide(sample, deadline)
            if (slide.tau1 or 0.0) < (zayatz.tau1 or 0.0):
                name, chosen = "slide-negative-binomial", slide
    except EstimatorError:
        deadline.check()
    details: Details = {"chosen": name, "population_uniques": chosen.details["population_uniques"]}
    return Estimate(chosen.tau1, chosen.tau2, chosen.r1, chosen.r2, details)
