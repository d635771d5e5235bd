"""The input of the classical estimators (cells, counts, population size), their result and their time limit."""

import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from keyhole.data import CellCounts, Microdata, count_records
from keyhole.errors import KeyholeError
from keyhole.zeros import Zeros

Details = dict[str, float | str | None]


class EstimatorError(KeyholeError):
    """An estimator has no result for this file."""


@dataclass(frozen=True)
class Estimate:
    """Point estimates; None for those that an estimator does not define.

    tau1, tau2: of the file; r1, r2: float64 (u,), of each sample unique, in the order of `Sample.unique_record`.
    details: further results by name, for instance fitted parameters.
    """

    tau1: float | None
    tau2: float | None
    r1: NDArray[np.float64] | None = None
    r2: NDArray[np.float64] | None = None
    details: Details = field(default_factory=dict)


def sum_risks(r1: NDArray[np.float64], r2: NDArray[np.float64], details: Details | None = None) -> Estimate:
    """Return the risks of the sample uniques with their sums."""
    return Estimate(float(r1.sum()), float(r2.sum()), r1, r2, details or {})


def share_risks(tau1: float, tau2: float, uniques: int, details: Details | None = None) -> Estimate:
    """Divide a risk of the file equally among the sample uniques, for estimators that do not distinguish them."""
    tau1, tau2 = (min(max(tau, 0.0), float(uniques)) for tau in (tau1, tau2))
    r1, r2 = (np.full(uniques, tau / max(uniques, 1)) for tau in (tau1, tau2))
    return Estimate(tau1, tau2, r1, r2, details or {})


@dataclass(frozen=True, eq=False)
class Sample:
    """A simple random sample of n records from N people.

    codes: int32 (n, J), the category of each answer; levels: number of categories of each variable.
    cell_count: int64 (n,), f of each record's cell; unique_record: int64 (u,), the records with f = 1.
    sizes, size_count: the distinct values of f and the number of cells with each.
    population: N; zeros: the impossible cells; weights: float64 (n,), survey weights.
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
        return len(self.cell_count)

    @property
    def uniques(self) -> int:
        """Number s_1 of sample uniques."""
        return len(self.unique_record)

    @property
    def fraction(self) -> float:
        """Sampling fraction pi = n / N."""
        return self.records / self.population

    @property
    def unseen(self) -> float:
        """Unsampled people for each record, (1 - pi) / pi."""
        return (self.population - self.records) / self.records

    def cells_of_size(self, size: int) -> int:
        """Return the number of cells with this many records."""
        return int(self.size_count[self.sizes == size].sum())


def make_sample(
    microdata: Microdata,
    population: int,
    zeros: Zeros | None = None,
    weights: NDArray[np.float64] | None = None,
    counts: CellCounts | None = None,
) -> Sample:
    """Count the cells of the sample unless `counts` has them; no estimator accepts missing answers (-1)."""
    counts = counts or count_records(microdata.cells, microdata.cell)
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
    """The time limit of an estimator in seconds, from the creation of the deadline."""

    limit: float
    start: float = field(default_factory=time.monotonic)

    def check(self) -> None:
        """Raise if the time limit is exceeded."""
        if time.monotonic() - self.start > self.limit:
            raise EstimatorError(f"not finished after {self.limit:.0f} s, its time limit.")
