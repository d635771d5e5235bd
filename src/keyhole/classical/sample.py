"""What the classical estimators see: the cells of the sample, their counts, and the size of the population."""

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keyhole.classical.estimate import EstimatorError
from keyhole.microdata import CellCounts, Microdata, count_cells
from keyhole.zeros import Zeros


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
