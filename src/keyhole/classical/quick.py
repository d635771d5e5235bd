"""The classical estimators that take next to no time, beside every assessment."""

import math
from typing import Any

from keyhole.classical.catalogue import CLASSICAL, estimate_classical
from keyhole.classical.estimate import EstimatorError
from keyhole.classical.sample import Sample

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
