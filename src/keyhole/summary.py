"""The numbers of a run in the shape of summary.json and records.csv."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from keyhole._version import __version__
from keyhole.classical import make_sample
from keyhole.classical.catalogue import estimate_quickly
from keyhole.data import CellCounts, Microdata
from keyhole.data.design import ExtraColumns, describe_weights, population_from_weights
from keyhole.risk import Diagnosis, Fit, Measure, Risk, SelfCheck
from keyhole.risk.attribution import describe_attribution, describe_thresholds, rank_uniques
from keyhole.risk.households import find_household_risk
from keyhole.risk.release import Posterior
from keyhole.sampling import Trace
from keyhole.settings import Settings
from keyhole.zeros import Zeros
from keyhole.zeros.boxes import fixed_variables


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
    posterior: Posterior, counts: CellCounts, risk: Risk, trace: Trace | None, design: Design, summed: bool
) -> Explanation:
    """Say which variables, categories and records carry the risk; summed: the population is the sum of weights."""
    blocks: dict[str, Any] = {
        "attribution": describe_attribution(posterior, counts.unique_record, risk, trace),
        "thresholds": describe_thresholds(risk),
        "weights": None,
        "households": None,
        "comparators": None,
    }
    used = posterior.microdata.row_used
    columns: dict[str, NDArray[Any]] = {}
    weights = None if design.columns.weight is None else design.columns.weight[used]
    if design.weight is not None and weights is not None:
        blocks["weights"] = describe_weights(weights, design.weight, summed)
    if trace is not None:
        people = posterior.n_unseen + len(posterior.microdata.codes)
        blocks["comparators"] = estimate_quickly(
            make_sample(posterior.microdata, people, posterior.zeros, weights, counts)
        )
    if design.household is not None and design.columns.household is not None:
        # Households of which no row is used do not count.
        _, household = np.unique(design.columns.household[used], return_inverse=True)
        found = find_household_risk(household.reshape(-1).astype(np.int64), counts.unique_record, risk, trace)
        blocks["households"] = found.describe(design.household)
        columns = {**found.columns()}
    return Explanation(blocks, {"rank": rank_uniques(risk)}, columns)


MOST_RULES = 100
"""Rules told in words."""

RISKS = ("r1", "r1_low", "r1_high", "r2", "r2_low", "r2_high")


def describe_input(microdata: Microdata, counts: CellCounts, population: int, settings: Settings) -> dict[str, Any]:
    """The block `input`: what was read, and what it was taken to be."""
    return {
        "rows": microdata.rows,
        "used": len(microdata.codes),
        "keys": [variable.name for variable in microdata.variables],
        "levels": {variable.name: len(variable.categories) for variable in microdata.variables},
        "cells": microdata.cells,
        "population": population,
        "sample_uniques": len(counts.unique_record),
        "distinct_cells": counts.distinct,
        "missing": settings.missing,
        **describe_missing(microdata, counts, settings),
        "ignored_keys": list(microdata.ignored),
        **microdata.reading,
    }


def describe_missing(microdata: Microdata, counts: CellCounts, settings: Settings) -> dict[str, Any]:
    """What was left to the model; nothing otherwise. undecided: others agree, but each lacks an answer."""
    if settings.missing != "model":
        return {}
    missing = microdata.codes < 0
    return {
        "missing_answers": int(missing.sum()),
        "records_with_missing": int(missing.any(axis=1).sum()),
        "undecided": counts.undecided,
    }


def describe_zeros(
    zeros: Zeros | None, microdata: Microdata, trace: Trace | None, left_out: int
) -> dict[str, Any] | None:
    """The block `zeros`.

    p0: mean probability of the impossible cells under the model before they are excluded, null when nothing was
    sampled; left_out: records that contradicted a rule and were left out; words: the first rules, each with
    words_declared: whether it names nothing but categories of a codebook, which tell nothing of the records.
    """
    if zeros is None:
        return None
    p0 = None if trace is None else trace.quantities.get("p0")
    return {
        "rules": len(zeros.rules),
        "boxes": len(zeros.impossible),
        "impossible_cells": zeros.impossible_cells,
        "share": zeros.impossible_cells / microdata.cells,
        "p0": None if p0 is None else float(p0.mean()),
        "left_out": left_out,
        "words": [f"{rule.label}: {rule.words}" if rule.label else rule.words for rule in zeros.rules[:MOST_RULES]],
        "words_declared": [
            all(microdata.variables[j].declared for box in rule.boxes for j in fixed_variables(zeros.grid, box))
            for rule in zeros.rules[:MOST_RULES]
        ],
    }


def describe_model(settings: Settings, trace: Trace | None) -> dict[str, Any]:
    """The block `model`."""
    if trace is None:
        return {"name": settings.model, "prior": settings.prior, "estimator": "none", "profiles": None}
    profiles = trace.quantities["profiles"]
    low, high = np.quantile(profiles, [0.025, 0.975])
    return {
        "name": settings.model,
        "prior": settings.prior,
        "estimator": trace.estimator,
        "estimator_error": trace.estimator_error,
        "profiles": {"mean": float(profiles.mean()), "interval": [float(low), float(high)]},
    }


def describe_measure(measure: Measure) -> dict[str, Any]:
    """The blocks `tau1` and `tau2`."""
    return asdict(measure)


def describe_convergence(diagnosis: Diagnosis, settings: Settings, trace: Trace | None) -> dict[str, Any]:
    """The block `convergence`, with every gate."""
    block = asdict(diagnosis)
    gates = block.pop("gates")
    block = {"converged": diagnosis.converged, "grade": diagnosis.grade, "message": diagnosis.message, **block}
    run = (
        {"chains": 0, "sweeps": 0}
        if trace is None
        else {
            "chains": settings.chains,
            "start_sweeps": trace.start_sweeps,
            "sweeps": trace.sweeps,
            "warm_up": trace.burn_in,
            "spacing": trace.thin,
            "starts": list(trace.starts),
            "stopped": trace.stopped,
            "by_chain": [
                {name: asdict(law.estimate((chain,))) for name, law in trace.laws.items()}
                for chain in range(len(trace.starts))
            ],
        }
    )
    return {**block, **run, "gates": [dict(gate) for gate in gates]}


def make_summary(
    settings: Settings,
    source: dict[str, Any],
    zeros: dict[str, Any] | None,
    trace: Trace | None,
    diagnosis: Diagnosis,
    risk: Risk,
    fit: Fit | None,
    self_check: SelfCheck | None,
    seconds: dict[str, float],
) -> dict[str, Any]:
    """Put the blocks together in the order of the interface."""
    return {
        "version": __version__,
        "settings": settings.model_dump(exclude={"workers", "scheduler"}),
        "input": source,
        "zeros": zeros,
        "model": describe_model(settings, trace),
        "tau1": describe_measure(risk.tau1),
        "tau2": describe_measure(risk.tau2),
        "convergence": describe_convergence(diagnosis, settings, trace),
        "fit": None if fit is None else asdict(fit),
        "self_check": None if self_check is None else asdict(self_check),
        "seconds": seconds,
    }


def make_records(
    microdata: Microdata,
    counts: CellCounts,
    risk: Risk,
    unique_columns: Mapping[str, NDArray[Any]],
    record_columns: Mapping[str, NDArray[Any]],
) -> pl.DataFrame:
    """One row per input row, in order; risk only where a record is alone in its cell. Further columns come last."""
    record_row = microdata.record_row
    cell_count = np.zeros(microdata.rows, dtype=np.int64)
    cell_count[record_row] = counts.cell_count
    unique_row = record_row[counts.unique_record]
    sample_unique = np.zeros(microdata.rows, dtype=np.int8)
    sample_unique[unique_row] = 1
    columns: dict[str, Any] = {
        "row": np.arange(1, microdata.rows + 1, dtype=np.int64),
        "used": microdata.row_used.astype(np.int8),
        "cell_count": pl.Series(cell_count).set(pl.Series(~microdata.row_used), None),
        "sample_unique": sample_unique,
    }
    for name in RISKS:
        columns[name] = _spread(np.asarray(getattr(risk, name), dtype=np.float64), unique_row, microdata.rows)
    for further, row in ((record_columns, record_row), (unique_columns, unique_row)):
        for name, values in further.items():
            spread = _spread(values.astype(np.float64), row, microdata.rows)
            columns[name] = spread.cast(pl.Int64) if values.dtype.kind == "i" else spread
    return pl.DataFrame(columns)


def _spread(values: NDArray[np.float64], row: NDArray[np.int64], rows: int) -> pl.Series:
    spread = np.full(rows, np.nan)
    spread[row] = values
    return pl.Series(spread).fill_nan(None)
