"""A table of cells: one row stands for several records, and a column says for how many."""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from keyhole.errors import InputError

MOST_RECORDS = 20_000_000


def read_counts(column: pl.Series, where: str) -> NDArray[np.int64]:
    """Return how many records each row stands for: int64 (rows,), whole and not negative."""
    if column.dtype == pl.String:
        column = column.str.strip_chars()
    elif not column.dtype.is_numeric():
        raise InputError(f"{where}: the column '{column.name}' of --count holds no numbers.")
    number = column.cast(pl.Float64, strict=False).fill_null(float("nan")).to_numpy()
    whole = np.isfinite(number) & (number >= 0) & (number == np.floor(number))
    if not whole.all():
        row = int(np.argmin(whole)) + 1
        raise InputError(
            f"{where} row {row}, column '{column.name}': a count must be a whole number, 0 or more; correct the row."
        )
    if number.sum() > MOST_RECORDS:
        raise InputError(
            f"{where}: the column '{column.name}' counts more than {MOST_RECORDS:,} records: "
            "give the sample, not the population, or draw a smaller one."
        )
    return number.astype(np.int64)
