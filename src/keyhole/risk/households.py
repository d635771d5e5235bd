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


def find_household_risk(
    column: str, household: Integers, unique_record: Integers, risk: Risk, trace: Trace | None
) -> tuple[Households, dict[str, Floats]]:
    """Combine the risks of members, draw by draw: the block, and by name the household's risk of each record.

    household: int64 (n,), the household of each record, from 0.
    """
    known, place = np.unique(household[unique_record], return_inverse=True)
    size = np.bincount(household)
    columns: dict[str, Floats] = {}
    counts = []
    for name in ("r1", "r2"):
        drawn = getattr(risk, name)[None, None] if trace is None else getattr(trace, name)
        combined = _combine(drawn, place.reshape(-1), len(known))
        expected = combined.sum(axis=2, dtype=np.float64)
        ends = interval(expected) if risk.tau1.pooled else envelope(expected)
        counts.append(HouseholdCount(float(expected.mean()), ends))
        low, high = limit_records(combined, risk.tau1.pooled)
        parts = {"": combined.mean(axis=(0, 1), dtype=np.float64), "_low": low, "_high": high}
        for part, values in parts.items():
            everyone = np.zeros(len(size))
            everyone[known] = values
            columns[f"household_{name}{part}"] = everyone[household]
    return Households(column, len(size), float(size.mean()), int(size.max()), len(known), *counts), columns


def _combine(drawn: NDArray[Any], place: NDArray[np.intp], households: int) -> NDArray[np.float32]:
    """Return 1 - prod(1 - r) by chain, draw and household, in logarithms."""
    combined = np.zeros((*drawn.shape[:2], households), np.float32)
    for x in np.ndindex(drawn.shape[:2]):
        with np.errstate(divide="ignore"):
            stays_hidden = np.log1p(-drawn[x].astype(np.float64))
        combined[x] = -np.expm1(np.bincount(place, weights=stays_hidden, minlength=households))
    return combined
