"""Individual risk (Benedetti and Franconi 1998; Franconi and Polettini 2004), as in sdcMicro and mu-ARGUS.

Given f records in the cell, F is negative binomial, P(F = h | f) = C(h - 1, f - 1) p^f (1 - p)^(h - f), with
p = f / (sum of the weights in the cell); without weights every record represents N / n people and p = n / N. So

    r1 = P(F = 1 | f = 1) = p,      E(1 / F | f) = (p^f / f) 2F1(f, f; f + 1; 1 - p) = (p / f) 2F1(1, 1; f + 1; 1 - p)

and r2 = (p / (1 - p)) log(1 / p) for f = 1. (The second form, by Euler's transformation, is the one computed.)

sdcMicro's `measure_risk` gives E(1 / F | f) of each record as `risk`, and its sum over all records as `global_risk_ER`.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import hyp2f1

from keyhole.classical.sample import Deadline, Estimate, EstimatorError, Sample, sum_risks

Floats = NDArray[np.float64]

LARGE = 40.0
"""From this count on the series is used, which converges fast, whereas SciPy's function fails."""

TERMS = 40


def match_risk(count: NDArray[np.int64], p: Floats) -> Floats:
    """Return E(1 / F | f) of cells with these counts."""
    f = count.astype(np.float64)
    series = np.ones_like(f)
    term = np.ones_like(f)
    for k in range(TERMS):
        term = term * (k + 1.0) / (f + 1.0 + k) * (1.0 - p)
        series += term
    found: Floats = p / f * np.where(f < LARGE, hyp2f1(1.0, 1.0, np.minimum(f, LARGE) + 1.0, 1.0 - p), series)
    return found


def estimate_individual(sample: Sample, deadline: Deadline) -> Estimate:
    """Sum the individual risks of the sample uniques; the details have the sum over all records."""
    deadline.check()
    p = np.full(sample.records, sample.fraction) if sample.weights is None else _by_cell(sample)
    risk = match_risk(sample.cell_count, p)
    unique = sample.unique_record
    return sum_risks(p[unique], risk[unique], {"expected_reidentifications": float(risk.sum())})


def _by_cell(sample: Sample) -> Floats:
    """Return f / (sum of weights) of each record's cell, at most 1."""
    if sample.weights is None or not (sample.weights > 0).all():
        raise EstimatorError("survey weights must be above 0: correct them.")
    cell = np.unique(sample.codes, axis=0, return_inverse=True)[1].ravel()
    total = np.bincount(cell, weights=sample.weights)
    return np.minimum(sample.cell_count / total[cell], 1.0)
