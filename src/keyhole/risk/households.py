"""Risk of households: a household is found if one of its members is.

In each draw, 1 - prod(1 - r) over the members that are sample uniques; then mean and interval over draws, or the
envelope over chains if these do not agree. A member whose combination another record shares counts as 0, as everywhere
else. Given the draw, the cells of two members contain other people almost independently: unseen people are many, and
each is in one cell.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.diagnostics.laws import LEVEL, envelope, interval
from keyhole.kernels.state import Floats, Integers
from keyhole.readable import Readable
from keyhole.risk.measures import Risk, limit_records
from keyhole.sampling import Trace

COLUMNS = ("r1", "r1_low", "r1_high", "r2", "r2_low", "r2_high")


@dataclass(frozen=True)
class HouseholdCount(Readable):
    """An expected number of households."""

    mean: float
    interval: tuple[float, float]
    level: float = LEVEL


@dataclass(frozen=True)
class Households(Readable):
    """The block `households` of the summary."""

    column: str
    households: int
    mean_size: float
    largest: int
    with_sample_unique: int
    with_population_unique: HouseholdCount
    with_match: HouseholdCount


@dataclass(frozen=True)
class HouseholdRisk:
    """Risks of all households.

    household: int64 (n,), the household of each record, from 0; risk: by name (`COLUMNS`), one value per household.
    with_unique: households with a member that is a sample unique.
    expected: by r1 and r2, (chain, draw), the expected number of households with at least one member found.
    pooled: whether chains agree, so that their draws are pooled.
    """

    household: Integers
    risk: dict[str, Floats]
    with_unique: int
    expected: dict[str, Floats]
    pooled: bool

    def columns(self) -> dict[str, Floats]:
        """Return the household's risk for each record, by the name of the column in records.csv."""
        return {f"household_{name}": values[self.household] for name, values in self.risk.items()}

    def describe(self, column: str) -> Households:
        """Return the block of the summary."""
        size = np.bincount(self.household)
        found = (_describe(self.expected[name], self.pooled) for name in ("r1", "r2"))
        return Households(column, len(size), float(size.mean()), int(size.max()), self.with_unique, *found)


def find_household_risk(household: Integers, unique_record: Integers, risk: Risk, trace: Trace | None) -> HouseholdRisk:
    """Combine the risks of members, draw by draw."""
    known, place = np.unique(household[unique_record], return_inverse=True)
    households = int(household.max()) + 1
    found: dict[str, Floats] = {}
    expected: dict[str, Floats] = {}
    for name in ("r1", "r2"):
        drawn = getattr(risk, name)[None, None] if trace is None else getattr(trace, name)
        combined = _combine(drawn, place.reshape(-1), len(known))
        expected[name] = combined.sum(axis=2, dtype=np.float64)
        low, high = limit_records(combined, risk.tau1.pooled)
        parts = {"": combined.mean(axis=(0, 1), dtype=np.float64), "_low": low, "_high": high}
        for part, values in parts.items():
            everyone = np.zeros(households)
            everyone[known] = values
            found[name + part] = everyone
    return HouseholdRisk(household, found, len(known), expected, risk.tau1.pooled)


def _combine(drawn: NDArray[Any], place: NDArray[np.intp], households: int) -> NDArray[np.float32]:
    """Return 1 - prod(1 - r) by chain, draw and household, in logarithms."""
    combined = np.zeros((*drawn.shape[:2], households), np.float32)
    for x in np.ndindex(drawn.shape[:2]):
        with np.errstate(divide="ignore"):
            stays_hidden = np.log1p(-drawn[x].astype(np.float64))
        combined[x] = -np.expm1(np.bincount(place, weights=stays_hidden, minlength=households))
    return combined


def _describe(expected: Floats, pooled: bool) -> HouseholdCount:
    return HouseholdCount(float(expected.mean()), interval(expected) if pooled else envelope(expected))
