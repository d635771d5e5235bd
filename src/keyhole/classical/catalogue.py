"""The classical estimators that take next to no time, beside every assessment.

The list of classical estimators: what each is, assumes and refers to. Importing it loads no mathematics.
"""

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from keyhole.classical.sample import Estimate, EstimatorError, Sample, make_deadline, sum_risks

if TYPE_CHECKING:
    from keyhole.classical.sample import Deadline, Sample

QUICK = ("loglinear-main", "individual-risk", "pitman", "zayatz", "slide-negative-binomial")


def estimate_quickly(sample: Sample) -> list[dict[str, Any]]:
    """Return what each says, or why it says nothing: the block `comparators` of summary.json."""
    return [_describe(name, sample) for name in QUICK]


def _describe(name: str, sample: Sample) -> dict[str, Any]:
    entry = CLASSICAL[name]
    tau1, tau2, error = None, None, None
    try:
        # No limit: nothing in summary.json may depend on the clock. No details: some need a table of all cells.
        found = estimate_classical(name, sample, time_limit=math.inf, details=False)
    except EstimatorError as reason:
        error = str(reason)
    else:
        tau1, tau2 = found.tau1, found.tau2
    return {
        "name": name,
        "tau1": {"mean": tau1, "interval": None},
        "tau2": {"mean": tau2, "interval": None},
        "error": error,
        "assumes": entry.assumes,
        "reference": entry.reference,
    }


TIME_LIMIT = 60.0
"""Seconds after which a classical estimator gives up."""


@dataclass(frozen=True)
class Entry:
    """One estimator: where its function is, what it assumes in a line, and where it is published.

    quick: the function that gives the same risks without details, if those need much time or memory.
    """

    name: str
    module: str
    function: str
    assumes: str
    reference: str
    follows_rules: bool = False
    quick: str | None = None


CLASSICAL = {
    entry.name: entry
    for entry in (
        Entry(
            "loglinear-main",
            "loglinear",
            "fit_independence",
            "Poisson counts; keys independent of each other",
            "Skinner and Shlomo (2008), JASA 103, 989-1001",
            follows_rules=True,
            quick="fit_main_effects",
        ),
        Entry(
            "loglinear-two-way",
            "loglinear",
            "fit_two_way",
            "Poisson counts; all interactions of two keys, none of three",
            "Skinner and Shlomo (2008), JASA 103, 989-1001",
            follows_rules=True,
        ),
        Entry(
            "loglinear-forward",
            "loglinear",
            "select_forward",
            "Poisson counts; interactions of two keys added until B1 and B2 show no underfitting",
            "Skinner and Shlomo (2008), JASA 103, 989-1001",
            follows_rules=True,
        ),
        Entry(
            "individual-risk",
            "individual",
            "estimate_individual",
            "population count negative binomial given the sample count; every sample unique alike",
            "Benedetti and Franconi (1998), NTTS; sdcMicro measure_risk, mu-ARGUS",
        ),
        Entry(
            "pitman",
            "pitman",
            "estimate_pitman",
            "cell sizes follow Pitman's sampling formula; keys not used",
            "Hoshino (2001), J. Official Statistics 17, 499-520; ARX PITMAN",
        ),
        Entry(
            "zayatz",
            "uniqueness",
            "estimate_zayatz",
            "population cells have the sizes of sample cells; keys not used",
            "Zayatz (1991), US Bureau of the Census SRD 91/08; ARX ZAYATZ",
        ),
        Entry(
            "slide-negative-binomial",
            "uniqueness",
            "estimate_slide",
            "cell size less 1 negative binomial in the population; keys not used",
            "Chen and Keller-McNulty (1998), J. Official Statistics 14, 79-95; ARX SNB",
        ),
        Entry(
            "dankar",
            "uniqueness",
            "estimate_dankar",
            "Pitman up to a sampling fraction of 0.1, else the smaller of Zayatz and slide",
            "Dankar et al. (2012), BMC Med. Inform. Decis. Mak. 12:66; ARX DANKAR",
        ),
        Entry(
            "k-anonymity",
            "anonymity",
            "count_violations",
            "nothing; counts in the sample only, says nothing about the population",
            "Samarati and Sweeney (1998), SRI-CSL-98-04",
        ),
    )
}


def estimate_classical(name: str, sample: "Sample", time_limit: float = TIME_LIMIT, details: bool = True) -> Estimate:
    """Run one estimator. What is certain is not estimated: no sample unique, or nobody outside the sample.

    details: False when only the risks are wanted.
    """
    entry = CLASSICAL[name]
    deadline = make_deadline(time_limit)
    if sample.codes.size and sample.codes.min() < 0:
        raise EstimatorError("it needs every answer: use --missing category or drop.")
    if name != "k-anonymity" and (sample.uniques == 0 or sample.population == sample.records):
        one = np.ones(sample.uniques)
        return sum_risks(one, one)
    module = importlib.import_module(f"keyhole.classical.{entry.module}")
    function: Callable[[Sample, Deadline], Estimate] = getattr(
        module, entry.function if details else entry.quick or entry.function
    )
    try:
        return function(sample, deadline)
    except (ArithmeticError, ValueError) as error:
        raise EstimatorError(f"its equations went out of range for this file ({type(error).__name__}).") from error
    except MemoryError:
        raise EstimatorError("not enough memory.") from None
