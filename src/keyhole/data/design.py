"""Columns that are not keys: survey weights, whose sum is the population, and households."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from keyhole.data.columns import SourceOptions
from keyhole.errors import InputError

EQUAL = 1.001
"""Largest over smallest weight below which weights count as equal: rounding in a file is no design."""


def population_from_weights(weight: NDArray[np.float64], column: str) -> int:
    """Return N, the sum of the weights of the records, each of which stands for that many people."""
    total = round(float(weight.sum()))
    if total < len(weight):
        raise InputError(
            f"the weights in '{column}' sum to {total:,}, fewer than the {len(weight):,} records: they seem to be "
            "rescaled; give the size of the population with --population."
        )
    return total


def describe_weights(weight: NDArray[np.float64], column: str, gave_population: bool) -> dict[str, Any]:
    """The block `weights`: how unequal they are (CV, Kish's effective sample size, largest over smallest)."""
    cv = float(weight.std() / weight.mean())
    ratio = float(weight.max() / weight.min())
    effective = len(weight) / (1.0 + cv * cv)
    return {
        "column": column,
        "sum": float(weight.sum()),
        "gave_population": gave_population,
        "equal": ratio < EQUAL,
        "cv": cv,
        "effective_sample_size": effective,
        "ratio": ratio,
        "warning": None if ratio < EQUAL else _warn(len(weight), cv, ratio, effective),
    }


def _warn(records: int, cv: float, ratio: float, effective: float) -> str:
    return (
        f"Weights are unequal: the largest is {ratio:,.3g} times the smallest, CV {cv:.2f}; {records:,} records tell "
        f"as much as {effective:,.0f} of a simple random sample, which is what is assumed. Risks may be off: too low "
        "for records with small weights, too high for those with large ones."
    )


@dataclass(frozen=True)
class ExtraColumns:
    """One value for each row of the input: float64 weights, int64 households from 0; None if not asked for."""

    weight: NDArray[np.float64] | None = None
    household: NDArray[np.int64] | None = None


def name_extra_columns(weight: str | None, household: str | None, options: SourceOptions) -> list[str]:
    """Return the columns to read beside the keys."""
    names = list(dict.fromkeys(name for name in (weight, household) if name is not None))
    if names and options.count is not None:
        raise InputError("--count goes with neither --weight nor --household: a row stands for several people.")
    return names


def check_extra_columns(frame: pl.DataFrame, where: str, weight: str | None, household: str | None) -> ExtraColumns:
    """Return the weight and household columns of the rows whose keys are in the same frame."""
    return ExtraColumns(
        None if weight is None else _weights(frame[weight], where),
        None if household is None else _households(frame[household], where),
    )


def _weights(column: pl.Series, where: str) -> NDArray[np.float64]:
    text = column.cast(pl.String).str.strip_chars() if column.dtype == pl.String else column
    number = text.cast(pl.Float64, strict=False).to_numpy().astype(np.float64)
    _refuse(np.isnan(number), column.name, where, "is blank or not a number", "give every row its weight")
    _refuse(number <= 0, column.name, where, "is zero or negative", "correct it, or leave the row out of the file")
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
