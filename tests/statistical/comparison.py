"""Two samples, many quantities: one verdict at a stated level (Gandy and Scott 2020, algorithm 3)."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ks_2samp

Sample = NDArray[np.float64]

LEVEL = 1e-6
STEPS = 7
FIRST = 5_000
GROWTH = 4


@dataclass(frozen=True)
class Verdict:
    """`passed`, the smallest Bonferroni-corrected p-value of the last step, and its quantity."""

    passed: bool
    p_value: float
    quantity: str
    step: int
    replicates: int


def detectable_distance(replicates: int, quantities: int, level: float = LEVEL, miss: float = LEVEL) -> float:
    """Two-sample Kolmogorov distance found with probability 1 - miss at this level (DKW bounds)."""
    reject = math.sqrt(-math.log(level / quantities / 2.0) / 2.0)
    power = math.sqrt(-math.log(miss / 2.0) / 2.0)
    return (reject + power) * math.sqrt(2.0 / replicates)


def p_values(first: Sample, second: Sample) -> Sample:
    """Kolmogorov-Smirnov p-value of each column; equal constants give 1."""
    return np.array([ks_2samp(x, y, method="asymp").pvalue for x, y in zip(first.T, second.T, strict=True)])


def compare(
    draw: Callable[[int, int], tuple[Sample, Sample]],
    names: tuple[str, ...],
    level: float = LEVEL,
    steps: int = STEPS,
    first: int = FIRST,
) -> Verdict:
    """Compare fresh pairs of samples until the verdict is clear.

    `draw(step, replicates)` returns two independent samples (replicates, quantities). Whatever the number
    of steps, a correct sampler fails with probability at most `level`.
    """
    beta = level / steps
    gamma = beta ** (1.0 / steps)
    replicates = first
    for step in range(steps):
        one, other = draw(step, replicates)
        values = p_values(one, other)
        worst = int(np.argmin(values))
        corrected = float(min(1.0, values[worst] * len(names)))
        verdict = Verdict(corrected > beta, corrected, names[worst], step, replicates)
        if corrected <= beta or corrected > gamma + beta:
            return verdict
        beta /= gamma
        if step == 0:
            replicates *= GROWTH
    return verdict
