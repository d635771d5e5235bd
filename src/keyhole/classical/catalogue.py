"""The classical estimators: what each assumes, where it is published, and how to run it.

The modules of the estimators import SciPy, so they are loaded only when one runs.
"""

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from keyhole.classical.sample import Deadline, Estimate, EstimatorError, Sample, sum_risks
from keyhole.readable import Readable

QUICK = ("loglinear-main", "individual-risk", "pitman", "zayatz", "slide-negative-binomial")
"""The estimators fast enough to run with every assessment."""

TIME_LIMIT = 60.0
"""Seconds after which a classical estimator is stopped."""

SKINNER_SHLOMO = "Skinner and Shlomo (2008), JASA 103, 989-1001"


@dataclass(frozen=True)
class Entry:
    """One estimator.

    function: its module and function; quick: the function for the same risks without details, if those are costly.
    assumes: its assumptions in one line; follows_rules: whether it takes impossible cells into account; weighs: whether
    it uses survey weights.
    """

    function: str
    assumes: str
    reference: str
    follows_rules: bool = False
    weighs: bool = False
    quick: str | None = None


CLASSICAL = {
    "loglinear-main": Entry(
        "loglinear.fit_independence",
        "Poisson counts; keys independent of each other",
        SKINNER_SHLOMO,
        follows_rules=True,
        quick="loglinear.fit_main_effects",
    ),
    "loglinear-two-way": Entry(
        "loglinear.fit_two_way",
        "Poisson counts; all interactions of two keys, none of three",
        SKINNER_SHLOMO,
        follows_rules=True,
    ),
    "loglinear-forward": Entry(
        "loglinear.select_forward",
        "Poisson counts; interactions of two keys added until B1 and B2 show no underfitting",
        SKINNER_SHLOMO,
        follows_rules=True,
    ),
    "individual-risk": Entry(
        "individual.estimate_individual",
        "population count negative binomial given the sample count; every sample unique alike",
        "Benedetti and Franconi (1998), NTTS; sdcMicro measure_risk, mu-ARGUS",
        weighs=True,
    ),
    "pitman": Entry(
        "pitman.estimate_pitman",
        "cell sizes follow Pitman's sampling formula; keys not used",
        "Hoshino (2001), J. Official Statistics 17, 499-520; ARX PITMAN",
    ),
    "zayatz": Entry(
        "uniqueness.estimate_zayatz",
        "population cells have the sizes of sample cells; keys not used",
        "Zayatz (1991), US Bureau of the Census SRD 91/08; ARX ZAYATZ",
    ),
    "slide-negative-binomial": Entry(
        "uniqueness.estimate_slide",
        "cell size less 1 negative binomial in the population; keys not used",
        "Chen and Keller-McNulty (1998), J. Official Statistics 14, 79-95; ARX SNB",
    ),
    "dankar": Entry(
        "uniqueness.estimate_dankar",
        "Pitman up to a sampling fraction of 0.1, else the smaller of Zayatz and slide",
        "Dankar et al. (2012), BMC Med. Inform. Decis. Mak. 12:66; ARX DANKAR",
    ),
    "k-anonymity": Entry(
        "uniqueness.count_violations",
        "nothing; counts in the sample only, says nothing about the population",
        "Samarati and Sweeney (1998), SRI-CSL-98-04",
    ),
}


@dataclass(frozen=True)
class Guess(Readable):
    """A point estimate and its 95 % interval, None if the estimator does not give it."""

    mean: float | None = None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Comparator(Readable):
    """What one estimator says. error: why it gives no estimate."""

    name: str
    tau1: Guess
    tau2: Guess
    error: str | None
    assumes: str
    reference: str


def estimate_quickly(sample: Sample, strata: bool = False) -> list[Comparator]:
    """Return the block `comparators` of summary.json: the estimates of each quick estimator, or its error.

    strata: whether people were drawn by strata, which an estimator knows from weights only.
    """
    comparators = []
    for name in QUICK:
        found, error = Estimate(None, None), None
        try:
            # No time limit, since summary.json may not depend on the clock. Details may need a table of all cells.
            found = estimate_classical(name, sample, time_limit=math.inf, details=False)
        except EstimatorError as reason:
            error = str(reason)
        entry = CLASSICAL[name]
        assumes = f"{entry.assumes}; strata ignored" if strata and not entry.weighs else entry.assumes
        comparators.append(Comparator(name, Guess(found.tau1), Guess(found.tau2), error, assumes, entry.reference))
    return comparators


def estimate_classical(name: str, sample: Sample, time_limit: float = TIME_LIMIT, details: bool = True) -> Estimate:
    """Run one estimator, unless the risks are certain: no sample unique, or the sample is the population.

    details: False if only the risks are needed.
    """
    deadline = Deadline(time_limit)
    if sample.codes.size and sample.codes.min() < 0:
        raise EstimatorError("it needs every answer: make missing ones a category, or drop their records.")
    if name != "k-anonymity" and (sample.uniques == 0 or sample.population == sample.records):
        one = np.ones(sample.uniques)
        return sum_risks(one, one)
    entry = CLASSICAL[name]
    module, function = (entry.function if details else entry.quick or entry.function).split(".")
    estimate: Callable[[Sample, Deadline], Estimate] = getattr(
        importlib.import_module(f"keyhole.classical.{module}"), function
    )
    try:
        return estimate(sample, deadline)
    except (ArithmeticError, ValueError) as error:
        raise EstimatorError(f"its equations went out of range for this file ({type(error).__name__}).") from error
    except MemoryError:
        raise EstimatorError("not enough memory.") from None
