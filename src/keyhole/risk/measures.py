"""From draws to numbers: point estimates and intervals of tau1, tau2 and of every sample unique's risk.

Chains that agree are pooled. Chains that do not are never: every interval is then the envelope over chains, from the
smallest lower to the largest upper limit of any of them, and `Measure.pooled` is false.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keyhole.kernels.state import Floats
from keyhole.sampling import Trace
from keyhole.sampling.diagnostics import monte_carlo_error
from keyhole.sampling.intervals import LEVEL, TAILS, envelope, interval


@dataclass(frozen=True)
class Expected:
    """E(tau | parameters): what remains uncertain when only the parameters are unknown."""

    mean: float
    sd: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class Measure:
    """A risk of the file. The interval is predictive: it also covers who else is in the population.

    pooled: whether chains agree, so that the interval is of all draws; else it is the envelope over chains.
    mcse: Monte Carlo standard error of the mean; none when chains do not agree or nothing was sampled.
    """

    mean: float
    median: float
    sd: float
    interval: tuple[float, float]
    level: float
    expected: Expected
    pooled: bool = True
    mcse: float | None = None


@dataclass(frozen=True)
class Risk:
    """Risks of the file and of its sample uniques, in the order of the file; low and high: 95 % limits over draws.

    When chains are not pooled, low is the smallest and high the largest limit of any chain.
    """

    tau1: Measure
    tau2: Measure
    r1: Floats
    r1_low: Floats
    r1_high: Floats
    r2: Floats
    r2_low: Floats
    r2_high: Floats


def measure(predictive: Floats, expected: Floats, pooled: bool) -> Measure:
    """Summarise the draws (chain, draw) of one risk of the file."""
    limits = interval if pooled else envelope
    return Measure(
        mean=float(predictive.mean()),
        median=float(np.median(predictive)),
        sd=float(predictive.std(ddof=1)),
        interval=limits(predictive),
        level=LEVEL,
        expected=Expected(float(expected.mean()), float(expected.std(ddof=1)), limits(expected)),
        pooled=pooled,
        mcse=monte_carlo_error(predictive) if pooled else None,
    )


def limit_records(risks: NDArray[np.float32], pooled: bool) -> tuple[Floats, Floats]:
    """Return the limits of each record's risk; risks: (chain, draw, unique)."""
    if pooled:
        risks = risks.reshape(1, -1, risks.shape[2])
    low, high = np.quantile(risks, TAILS, axis=1, method="inverted_cdf").astype(np.float64)
    return low.min(axis=0), high.max(axis=0)


def certain_measure(total: float) -> Measure:
    """Return a risk that is known."""
    ends = (total, total)
    return Measure(total, total, 0.0, ends, LEVEL, Expected(total, 0.0, ends))


def summarise_risk(trace: Trace, pooled: bool) -> Risk:
    """Summarise every risk, over all draws when the chains agree (pooled), else over chains."""
    drawn = trace.quantities
    limits = {}
    for name, risks in (("r1", trace.r1), ("r2", trace.r2)):
        limits[name] = risks.mean(axis=(0, 1), dtype=np.float64)
        limits[f"{name}_low"], limits[f"{name}_high"] = limit_records(risks, pooled)
    return Risk(
        tau1=measure(drawn["tau1"], drawn["tau1_expected"], pooled),
        tau2=measure(drawn["tau2"], drawn["tau2_expected"], pooled),
        **limits,
    )
