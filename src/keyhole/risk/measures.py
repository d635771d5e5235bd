"""From draws to numbers: point estimates and intervals of tau1, tau2 and of every sample unique's risk.

Chains that agree are pooled. If they do not, every interval is the envelope over chains, from the smallest lower to the
largest upper limit of any of them, and `Measure.pooled` is false. The intervals of a usable result are pooled, and
widened by what the Monte Carlo error may add.

Two answers need no sampling: no record is alone in the sample, or the sample is the whole population.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from keyhole.data import CellCounts
from keyhole.diagnostics.laws import LEVEL, TAILS, Bins, Interval, Law, envelope, interval
from keyhole.diagnostics.series import finite, monte_carlo_error
from keyhole.kernels.state import Floats
from keyhole.readable import Readable
from keyhole.risk.advice import Grade
from keyhole.risk.diagnosis import Diagnosis, certain_diagnosis
from keyhole.sampling import Trace
from keyhole.words import expects_none, number, rounded

ERRORS = 2.0
"""Monte Carlo errors by which a usable interval is widened at each end."""


@dataclass(frozen=True)
class Expected(Readable):
    """E(tau | parameters): its distribution reflects only the uncertainty of the parameters."""

    mean: float
    sd: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class Measure(Readable):
    """A risk of the file. The interval is predictive: it includes the uncertainty of who else is in the population.

    pooled: whether chains agree, so that the interval is over all draws; otherwise it is the envelope over chains.
    mcse: Monte Carlo standard error of the mean; None if chains do not agree, nothing was sampled, or there are too
        few draws.
    bins: the predictive distribution for a picture; None if nothing was sampled.
    """

    mean: float
    median: float
    sd: float
    interval: tuple[float, float]
    level: float
    expected: Expected
    pooled: bool = True
    mcse: float | None = None
    bins: Bins | None = field(default=None, repr=False)


def about(measure: Measure) -> str:
    """The mean and the interval, to the digits that the draws support."""
    low, high = measure.interval
    if measure.pooled and expects_none(measure.mean, measure.mcse, measure.interval):
        return "none expected"
    interval = f"{number(low)} to {number(high)}"
    return f"about {rounded(measure.mean, measure.mcse)} ({interval})" if measure.pooled else interval


@dataclass(frozen=True)
class Risk:
    """Risks of the file and of its sample uniques, in the order of the file; low and high: 95 % limits over draws.

    If chains are not pooled, low is the smallest and high the largest limit of any chain.
    """

    tau1: Measure
    tau2: Measure
    r1: Floats
    r1_low: Floats
    r1_high: Floats
    r2: Floats
    r2_low: Floats
    r2_high: Floats


def measure(law: Law, expected: Floats, grade: Grade) -> Measure:
    """Summarise one risk of the file; expected: E(tau | draw) of all draws (chain, draw)."""
    pooled = grade != "not converged"
    limits = law.interval() if pooled else law.envelope()
    return Measure(
        mean=float(expected.mean()),
        median=law.median,
        sd=law.sd,
        interval=widen(limits, law) if grade == "usable" else limits,
        level=LEVEL,
        expected=Expected(
            float(expected.mean()), float(expected.std()), interval(expected) if pooled else envelope(expected)
        ),
        pooled=pooled,
        mcse=finite(monte_carlo_error(expected)) if pooled else None,
        bins=law.bins(),
    )


def widen(limits: Interval, law: Law) -> Interval:
    """Return the interval widened by the Monte Carlo errors of its ends, within the possible values."""
    low, high = (ERRORS * error for error in law.end_errors())
    ends = max(limits[0] - low, 0.0), min(limits[1] + high, float(law.most))
    return (float(math.floor(ends[0])), float(math.ceil(ends[1]))) if law.whole else ends


def limit_records(risks: NDArray[np.floating], pooled: bool) -> tuple[Floats, Floats]:
    """Return the limits of each record's risk; risks: (chain, draw, unique).

    They are quantiles, widened to the mean: the law of a small risk may be so skewed that its mean is outside them.
    """
    mean = risks.mean(axis=(0, 1), dtype=np.float64)
    if pooled:
        risks = risks.reshape(1, risks.shape[0] * risks.shape[1], risks.shape[2])
    low, high = np.quantile(risks, TAILS, axis=1, method="inverted_cdf").astype(np.float64)
    return np.minimum(low.min(axis=0), mean), np.maximum(high.max(axis=0), mean)


def certain_measure(total: float) -> Measure:
    """Return a risk that is known with certainty."""
    ends = (total, total)
    return Measure(total, total, 0.0, ends, LEVEL, Expected(total, 0.0, ends))


def summarise_risk(trace: Trace, grade: Grade) -> Risk:
    """Summarise every risk, over all draws if the chains agree, otherwise over chains."""
    drawn, laws = trace.quantities, trace.laws
    pooled = grade != "not converged"
    limits = {}
    for name, risks in (("r1", trace.r1), ("r2", trace.r2)):
        limits[name] = risks.mean(axis=(0, 1), dtype=np.float64)
        limits[f"{name}_low"], limits[f"{name}_high"] = limit_records(risks, pooled)
    return Risk(
        tau1=measure(laws["tau1"], drawn["tau1_expected"], grade),
        tau2=measure(laws["tau2"], drawn["tau2_expected"], grade),
        **limits,
    )


def find_certain(counts: CellCounts, population: int) -> str | None:
    """Return why the answer is certain, or None if it has to be estimated."""
    if not len(counts.unique_record):
        return "No sampling was needed: no record is alone in the sample."
    if population == len(counts.cell):
        return "No sampling was needed: the sample is the whole population."
    return None


def make_certain(counts: CellCounts, reason: str) -> tuple[Risk, Diagnosis]:
    """Return the certain answer: every sample unique, if there are any, is a population unique."""
    one = np.ones(len(counts.unique_record))
    measure = certain_measure(float(len(one)))
    risk = Risk(tau1=measure, tau2=measure, r1=one, r1_low=one, r1_high=one, r2=one, r2_low=one, r2_high=one)
    return risk, certain_diagnosis(reason)
