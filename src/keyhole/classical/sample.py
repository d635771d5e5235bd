"""What the classical estimators see: the cells of the sample, their counts, and the size of the population.

What a classical estimator gives back.
"""

import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from keyhole.data import CellCounts, Microdata, count_cells
from keyhole.errors import KeyholeError
from keyhole.zeros import Zeros

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


@dataclass(frozen=True, eq=False)
class Sample:
    """A simple random sample of n records from N people.

    codes: int32 (n, J), the category of each answer; levels: number of categories of each variable.
    cell_count: int64 (n,), f of each record's cell; unique_record: int64 (u,), the records with f = 1.
    sizes, size_count: the different values of f and how many cells have each.
    population: N; zeros: which cells are impossible; weights: float64 (n,), survey weights if there are any.
    """

    codes: NDArray[np.int32]
    levels: tuple[int, ...]
    cell_count: NDArray[np.int64]
    unique_record: NDArray[np.int64]
    sizes: NDArray[np.int64]
    size_count: NDArray[np.int64]
    population: int
    zeros: Zeros | None = None
    weights: NDArray[np.float64] | None = None

    @property
    def records(self) -> int:
        """The number n of records."""
        return len(self.cell_count)

    @property
    def uniques(self) -> int:
        """The number s_1 of sample uniques."""
        return len(self.unique_record)

    @property
    def distinct(self) -> int:
        """The number of cells that are not empty."""
        return int(self.size_count.sum())

    @property
    def fraction(self) -> float:
        """The share pi = n / N of the population that is in the sample."""
        return self.records / self.population

    @property
    def unseen(self) -> float:
        """People outside the sample for each one inside: (1 - pi) / pi."""
        return (self.population - self.records) / self.records

    def cells_of_size(self, size: int) -> int:
        """Return how many cells hold this many records."""
        return int(self.size_count[self.sizes == size].sum())


def make_sample(
    microdata: Microdata,
    population: int,
    zeros: Zeros | None = None,
    weights: NDArray[np.float64] | None = None,
    counts: CellCounts | None = None,
) -> Sample:
    """Count the cells of the sample, if that is not done; where answers are missing (-1), no estimator will take it."""
    counts = counts or count_cells(microdata.codes)
    sizes, records = np.unique(counts.cell_count, return_counts=True)
    return Sample(
        codes=microdata.codes,
        levels=microdata.levels,
        cell_count=counts.cell_count,
        unique_record=counts.unique_record,
        sizes=sizes.astype(np.int64),
        size_count=(records // sizes).astype(np.int64),
        population=population,
        zeros=zeros,
        weights=weights,
    )


@dataclass(frozen=True)
class Deadline:
    """When an estimator must give up."""

    limit: float
    start: float

    def check(self) -> None:
        """Raise when the time is over."""
        if time.monotonic() - self.start > self.limit:
            raise EstimatorError(f"not finished after {self.limit:.0f} s, its time limit.")


def make_deadline(limit: float) -> Deadline:
    """Start the clock."""
    return Deadline(limit, time.monotonic())
