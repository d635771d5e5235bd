"""From draws to numbers: point estimates and intervals of tau1, tau2 and of every sample unique's risk."""

from dataclasses import dataclass

import numpy as np

from keyhole.kernels.state import Floats
from keyhole.sampling import Trace

LEVEL = 0.95


@dataclass(frozen=True)
class Expected:
    """E(tau | parameters): what remains uncertain when only the parameters are unknown."""

    mean: float
    sd: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class Measure:
    """A risk of the file. The interval is predictive: it also covers who else is in the population."""

    mean: float
    median: float
    sd: float
    interval: tuple[float, float]
    level: float
    expected: Expected


@dataclass(frozen=True)
class Risk:
    """Risks of the file and of its sample uniques, in the order of the file; low and high: 95 % limits over draws."""

    tau1: Measure
    tau2: Measure
    r1: Floats
    r1_low: Floats
    r1_high: Floats
    r2: Floats
    r2_low: Floats
    r2_high: Floats


def interval(draws: Floats) -> tuple[float, float]:
    """Return the equal-tailed interval: for counts its ends are counts that were drawn."""
    tail = (1.0 - LEVEL) / 2.0
    low, high = np.quantile(draws, [tail, 1.0 - tail], method="inverted_cdf")
    return float(low), float(high)


def measure(predictive: Floats, expected: Floats) -> Measure:
    """Summarise the draws of one risk of the file."""
    return Measure(
        mean=float(predictive.mean()),
        median=float(np.median(predictive)),
        sd=float(predictive.std(ddof=1)),
        interval=interval(predictive),
        level=LEVEL,
        expected=Expected(float(expected.mean()), float(expected.std(ddof=1)), interval(expected)),
    )


def certain_measure(total: float) -> Measure:
    """Return a risk that is known."""
    ends = (total, total)
    return Measure(total, total, 0.0, ends, LEVEL, Expected(total, 0.0, ends))


def summarise_risk(trace: Trace) -> Risk:
    """Pool the chains and summarise every risk."""
    drawn = trace.quantities
    limits = {}
    for name, risks in (("r1", trace.r1), ("r2", trace.r2)):
        pooled = risks.reshape(-1, risks.shape[2])
        tail = (1.0 - LEVEL) / 2.0
        limits[name] = pooled.mean(axis=0, dtype=np.float64)
        low, high = np.quantile(pooled, [tail, 1.0 - tail], axis=0, method="inverted_cdf").astype(np.float64)
        limits[f"{name}_low"], limits[f"{name}_high"] = low, high
    return Risk(
        tau1=measure(drawn["tau1"].ravel(), drawn["tau1_expected"].ravel()),
        tau2=measure(drawn["tau2"].ravel(), drawn["tau2_expected"].ravel()),
        **limits,
    )
