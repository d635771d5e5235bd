"""From a column of values to categories and codes.

Only distinct values pass through Python; the column itself stays in polars.
"""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from keyhole.errors import CodebookError, InputError
from keyhole.microdata.codebook import code_text, whole_numbers
from keyhole.microdata.columns import NUMBER
from keyhole.microdata.variables import BLANK, Variable

NOT_IN_BOOK = -2


def encode_column(
    column: pl.Series, book: Variable | None, where: str, insist: bool = False
) -> tuple[Variable, NDArray[np.int32]]:
    """Return the variable and the index of each record's category."""
    if column.dtype.is_nested():
        raise InputError(f"{where}: column '{column.name}' holds lists or structures, not categories.")
    if column.dtype.is_float():
        column = column.fill_nan(None)
    values = column.drop_nulls().unique(maintain_order=True)
    if not insist:
        _refuse_identifier(column.name, len(values), len(book.categories) if book else 0, len(column), where)
    texts = value_texts(values)
    variable = _variable(column, texts, book)
    place = {category: index for index, category in enumerate(variable.categories)}
    blank = place.get(BLANK, NOT_IN_BOOK)
    codes = np.full(len(column), blank, dtype=np.int32)
    if len(values):
        codes = column.replace_strict(
            values, [place.get(text, NOT_IN_BOOK) for text in texts], default=blank, return_dtype=pl.Int32
        ).to_numpy()
    unknown = np.flatnonzero(codes == NOT_IN_BOOK)
    if len(unknown):
        raise CodebookError(
            f"{where} row {unknown[0] + 1}, column '{column.name}': the value is not in the codebook "
            f"({len(unknown)} such rows); add its category to the codebook or correct the rows."
        )
    return variable, codes


def value_texts(values: pl.Series) -> list[str]:
    """Write distinct values as a user would: 1.0 as "1" where all are numbers, no spaces around."""
    if values.dtype == pl.Boolean or values.dtype.is_float():
        return [code_text(value) for value in values.to_list()]
    return whole_numbers([text.strip() for text in values.cast(pl.String).to_list()])


def order_categories(texts: set[str]) -> tuple[str, ...]:
    """Order numbers as numbers, then the rest as text."""

    def rank(text: str) -> tuple[bool, float, str]:
        number = NUMBER.fullmatch(text) is not None
        return (not number, float(text) if number else 0.0, text)

    return tuple(sorted(texts, key=rank))


def _variable(column: pl.Series, texts: list[str], book: Variable | None) -> Variable:
    """Take the categories of the codebook or those observed; a blank comes last if there is one."""
    blanks = column.has_nulls() or BLANK in texts
    if book is None:
        categories = order_categories(set(texts) - {BLANK})
        return Variable(column.name, (*categories, BLANK) if blanks else categories)
    if not blanks or BLANK in book.categories:
        return book
    labels = None if book.labels is None else (*book.labels, "(blank)")
    return Variable(column.name, (*book.categories, BLANK), labels)


def _refuse_identifier(name: str, distinct: int, categories: int, records: int, where: str) -> None:
    insist = f"leave it out, group it into bands, or insist with --allow-identifier {name}."
    if distinct > max(50, records / 2) or distinct == records >= 20:
        raise InputError(
            f"{where}: key '{name}' has {distinct} different values in {records} records, "
            f"more than half of them, so it looks like an identifier: {insist}"
        )
    if categories > records >= 50:
        raise InputError(
            f"{where}: key '{name}' has {categories} categories in the codebook for {records} records: {insist}"
        )
