"""Columns of the survey design: weights, whose sum is the population size, and households."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from keyhole.data.columns import SourceOptions
from keyhole.errors import InputError
from keyhole.readable import Readable

EQUAL = 1.001
"""Weights count as equal if the ratio of the largest to the smallest is below this, which allows for rounding."""

VERY_UNEQUAL = 0.5
"""The model takes 1 / w to be the same for all records. With this coefficient of variation, the number of people like a
typical record is off by half, and r1, which falls exponentially with it, by more than an interval is wide."""


def population_from_weights(weight: NDArray[np.float64], column: str) -> int:
    """Return N, the sum of the weights."""
    total = round(float(weight.sum()))
    if total < len(weight):
        raise InputError(
            f"the weights in '{column}' sum to {total:,}, fewer than the {len(weight):,} records: they seem to be "
            "rescaled; give the population size with `population`."
        )
    return total


@dataclass(frozen=True)
class Weights(Readable):
    """The block `weights` of the summary. effective_sample_size: Kish's; ratio: of the largest to the smallest."""

    column: str
    sum: float
    gave_population: bool
    equal: bool
    cv: float
    effective_sample_size: float
    ratio: float
    warning: str | None


def very_unequal(weights: Mapping[str, Any] | None) -> bool:
    """Whether weights that no strata account for are so unequal that the interval is not to be relied on."""
    return weights is not None and weights["warning"] is not None and weights.get("cv", 0.0) > VERY_UNEQUAL


def describe_weights(weight: NDArray[np.float64], column: str, gave_population: bool, stratified: bool) -> Weights:
    """Say how unequal the weights are, and what that means unless strata account for it."""
    cv = float(weight.std() / weight.mean())
    ratio = float(weight.max() / weight.min())
    effective = len(weight) / (1.0 + cv * cv)
    return Weights(
        column=column,
        sum=float(weight.sum()),
        gave_population=gave_population,
        equal=ratio < EQUAL,
        cv=cv,
        effective_sample_size=effective,
        ratio=ratio,
        warning=None
        if ratio < EQUAL or stratified
        else (
            f"Weights are unequal: the largest is {ratio:,.3g} times the smallest, CV {cv:.2f}; the effective size of "
            f"{len(weight):,} records is {effective:,.0f}. A simple random sample is assumed, so risks may be too low "
            "for records with small weights and too high for those with large ones. Say how they were drawn with "
            "`strata`, or take similar weights as strata with `weight_classes` 5."
        ),
    )


@dataclass(frozen=True)
class ExtraColumns:
    """Weights (float64) and households (int64, from 0) of all rows of the input; None if not requested."""

    weight: NDArray[np.float64] | None = None
    household: NDArray[np.int64] | None = None


def name_extra_columns(
    weight: str | None, household: str | None, options: SourceOptions, strata: Sequence[str] = ()
) -> list[str]:
    """Return the columns to read beside the keys and the columns of the strata."""
    names = list(dict.fromkeys(name for name in (weight, household) if name is not None))
    if names and options.count_column is not None:
        option = "`count_cells`" if options.count_cells else "`count`"
        raise InputError(f"{option} goes with neither `weight` nor `household`: a row represents several records.")
    if strata and options.count_cells:
        raise InputError("`count_cells` does not go with `strata`: let the query count the records, and use `count`.")
    return names


def check_extra_columns(frame: pl.DataFrame, where: str, weight: str | None, household: str | None) -> ExtraColumns:
    return ExtraColumns(
        None if weight is None else _weights(frame[weight], where),
        None if household is None else _households(frame[household], where),
    )


def _weights(column: pl.Series, where: str) -> NDArray[np.float64]:
    # A weight that is a key too arrives as categories.
    text = column if column.dtype.is_numeric() else column.cast(pl.String).str.strip_chars()
    number = text.cast(pl.Float64, strict=False).to_numpy().astype(np.float64)
    _refuse(np.isnan(number), column.name, where, "is blank or not a number", "give every row its weight")
    _refuse(number <= 0, column.name, where, "is zero or negative", "correct it, or remove the row")
    _refuse(np.isinf(number), column.name, where, "is infinite", "correct it")
    return number


def _households(column: pl.Series, where: str) -> NDArray[np.int64]:
    if column.dtype.is_nested():
        raise InputError(f"{where}: column '{column.name}' holds lists or structures, not identifiers.")
    text = column.cast(pl.String).str.strip_chars()
    blank = (text.is_null() | (text == "")).fill_null(True).to_numpy()
    _refuse(blank, column.name, where, "is blank", "give every row the identifier of its household")
    return text.rank("dense").to_numpy().astype(np.int64) - 1


def _refuse(wrong: NDArray[np.bool_], name: str, where: str, what: str, remedy: str) -> None:
    if wrong.any():
        more = f" ({int(wrong.sum())} such rows)" if wrong.sum() > 1 else ""
        raise InputError(f"{where} row {int(wrong.argmax()) + 1}, column '{name}' {what}{more}: {remedy}.")
