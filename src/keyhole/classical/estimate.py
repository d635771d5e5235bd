"""What a classical estimator gives back."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from keyhole.errors import KeyholeError

Details = dict[str, float | str | None]


class EstimatorError(KeyholeError):
    """An estimator cannot give an answer for this file; the others can."""


@dataclass(frozen=True)
class Estimate:
    """Point estimates; what an estimator does not define is None.

    tau1, tau2: of the file; r1, r2: float64 (u,), of each sample unique, in the order of `Sample.unique_record`.
    details: further figures by name, for instance fitted parameters.
    """

    tau1: float | None
    tau2: float | None
    r1: NDArray[np.float64] | None = None
    r2: NDArray[np.float64] | None = None
    details: Details = field(default_factory=dict)


def sum_risks(r1: NDArray[np.float64], r2: NDArray[np.float64], details: Details | None = None) -> Estimate:
    """Add up the risks of single records."""
    return Estimate(float(r1.sum()), float(r2.sum()), r1, r2, details or {})


def share_risks(tau1: float, tau2: float | None, uniques: int, details: Details | None = None) -> Estimate:
    """Share a risk of the file equally among the sample uniques, for estimators that do not tell them apart."""
    tau1 = min(max(tau1, 0.0), float(uniques))
    r1 = np.full(uniques, tau1 / max(uniques, 1))
    if tau2 is None:
        return Estimate(tau1, None, r1, None, details or {})
    tau2 = min(max(tau2, 0.0), float(uniques))
    return Estimate(tau1, tau2, r1, np.full(uniques, tau2 / max(uniques, 1)), details or {})
