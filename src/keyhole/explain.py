"""Who carries the risk and why, weights, households, other estimators: blocks of summary.json, columns of records."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.classical import make_sample
from keyhole.classical.quick import estimate_quickly
from keyhole.microdata import CellCounts
from keyhole.microdata.extra_columns import ExtraColumns
from keyhole.microdata.weights import describe_weights, population_from_weights
from keyhole.risk import Risk
from keyhole.risk.attribution import describe_attribution, describe_thresholds, rank_uniques
from keyhole.risk.coarser import Basis
from keyhole.risk.households import find_household_risk
from keyhole.sampling import Trace


@dataclass(frozen=True)
class Design:
    """The design as the user gave it: names of the columns of weights and households, and what they hold."""

    weight: str | None
    household: str | None
    columns: ExtraColumns

    def population(
        self, population: int | None, fraction: float | None, row_used: NDArray[np.bool_]
    ) -> tuple[int | None, float | None]:
        """Return population and fraction as given, or the sum of the weights if neither is."""
        if self.weight is None or self.columns.weight is None or population is not None or fraction is not None:
            return population, fraction
        return population_from_weights(self.columns.weight[row_used], self.weight), None


@dataclass(frozen=True)
class Explanation:
    """blocks: of summary.json, by name; unique_columns, record_columns: of records.csv, for uniques and for records."""

    blocks: dict[str, Any]
    unique_columns: dict[str, NDArray[Any]] = field(default_factory=dict)
    record_columns: dict[str, NDArray[Any]] = field(default_factory=dict)


def explain_risk(
    basis: Basis, counts: CellCounts, risk: Risk, trace: Trace | None, design: Design, summed: bool
) -> Explanation:
    """Say which variables, categories and records carry the risk; summed: the population is the sum of weights."""
    blocks: dict[str, Any] = {
        "attribution": describe_attribution(basis, counts.unique_record, risk, trace),
        "thresholds": describe_thresholds(risk),
        "weights": None,
        "households": None,
        "comparators": None,
    }
    used = basis.microdata.row_used
    columns: dict[str, NDArray[Any]] = {}
    weights = None if design.columns.weight is None else design.columns.weight[used]
    if design.weight is not None and weights is not None:
        blocks["weights"] = describe_weights(weights, design.weight, summed)
    if trace is not None:
        people = basis.people + len(basis.microdata.codes)
        blocks["comparators"] = estimate_quickly(make_sample(basis.microdata, people, basis.zeros, weights, counts))
    if design.household is not None and design.columns.household is not None:
        # Households of which no row is used do not count.
        _, household = np.unique(design.columns.household[used], return_inverse=True)
        found = find_household_risk(household.reshape(-1).astype(np.int64), counts.unique_record, risk, trace)
        blocks["households"] = found.describe(design.household)
        columns = {**found.columns()}
    return Explanation(blocks, {"rank": rank_uniques(risk)}, columns)
