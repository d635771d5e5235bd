"""From a column of values to categories and codes.

Only distinct values pass through Python; the column itself stays in polars.

A table of cells: one row stands for several records, and a column says for how many.
"""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from keyhole.data.codebook import code_text, whole_numbers
from keyhole.data.columns import NUMBER
from keyhole.data.variables import BLANK, Variable
from keyhole.errors import CodebookError, InputError

NOT_IN_BOOK = -2
MOST_CATEGORIES = 100_000
MANY_NUMBERS = 200  # ages and years of birth are fewer; more different numbers without a codebook are a measurement
FEW_FRACTIONS = 10  # half rooms and the like; more different numbers with fractions are a measurement


def encode_column(
    column: pl.Series,
    book: Variable | None,
    labels: Variable | None,
    where: str,
    rows: NDArray[np.int64],
    records: int,
    insist: bool = False,
    missing: bool = False,
) -> tuple[Variable, NDArray[np.int32]]:
    """Return the variable and the index of each row's category.

    book: all categories there are; labels: categories the file names, to which those observed are added.
    rows: the input row of each value, from 0; records: how many records the column is about.
    missing: a blank is no category but -1, unless the codebook lists it.
    """
    column, values = distinct_values(column, where)
    if len(values) > MOST_CATEGORIES:
        raise InputError(
            f"{where}: key '{column.name}' has more than {MOST_CATEGORIES:,} different values, too many for a key: "
            f"leave it out, or put it into bands with --band {column.name}=0,15,30 (lower limits)."
        )
    texts = value_texts(values)
    if not insist:
        measured: set[str] = set() if book else set(texts) - set(labels.categories if labels else ())
        _refuse_fractions(column.name, measured, where)
        _refuse_identifier(column.name, len(values), records, where)
        _refuse_many_numbers(column.name, measured, where)
        _refuse_long_book(column.name, book or labels, records, where)
    variable = _variable(column, texts, book, labels, missing)
    place = {category: index for index, category in enumerate(variable.categories)}
    if missing:
        place.setdefault(BLANK, -1)
    blank = place.get(BLANK, NOT_IN_BOOK)
    codes = np.full(len(column), blank, dtype=np.int32)
    if len(values):
        codes = column.replace_strict(
            values, [place.get(text, NOT_IN_BOOK) for text in texts], default=blank, return_dtype=pl.Int32
        ).to_numpy()
    unknown = np.flatnonzero(codes == NOT_IN_BOOK)
    if len(unknown):
        raise CodebookError(
            f"{where} row {rows[unknown[0]] + 1}, column '{column.name}': the value is not in the codebook "
            f"({len(unknown)} such rows); add its category to the codebook or correct the rows."
        )
    return variable, codes


def distinct_values(column: pl.Series, where: str) -> tuple[pl.Series, pl.Series]:
    """Return the column with NaN as null, and its different values in the order of their first rows."""
    if column.dtype.is_nested() or column.dtype in (pl.Binary, pl.Object):
        raise InputError(f"{where}: column '{column.name}' holds lists, structures or bytes, not categories.")
    if column.dtype.is_float():
        column = column.fill_nan(None)
    return column, column.drop_nulls().unique(maintain_order=True)


def value_texts(values: pl.Series) -> list[str]:
    """Write distinct values as a user would: 1.0 as "1" where all are numbers, no spaces around."""
    if values.dtype == pl.Boolean or values.dtype.is_float():
        return [code_text(value) for value in values.to_list()]
    return whole_numbers([text.strip() for text in values.cast(pl.String).to_list()])


def is_blank(column: pl.Series) -> NDArray[np.bool_]:
    """Say which values are blank: nothing, spaces or NaN."""
    blank = column.is_null()
    if column.dtype.is_float():
        blank |= column.is_nan().fill_null(value=False)
    elif column.dtype == pl.String:
        blank |= (column.str.strip_chars() == BLANK).fill_null(value=False)
    return blank.to_numpy()


def order_categories(texts: set[str]) -> tuple[str, ...]:
    """Order numbers as numbers, then the rest as text."""
    return tuple(sorted(texts, key=_rank))


def _rank(text: str) -> tuple[bool, float, str]:
    number = NUMBER.fullmatch(text) is not None
    return (not number, float(text) if number else 0.0, text)


def _variable(
    column: pl.Series, texts: list[str], book: Variable | None, labels: Variable | None, missing: bool
) -> Variable:
    """Take the categories of the codebook, or those named and observed; a blank that is a category comes last."""
    if book is None:
        book = _join(column.name, labels, set(texts) - {BLANK})
    if missing or not (column.has_nulls() or BLANK in texts) or BLANK in book.categories:
        return book
    names = None if book.labels is None else (*book.labels, "(blank)")
    return Variable(column.name, (*book.categories, BLANK), names)


def _join(name: str, labels: Variable | None, observed: set[str]) -> Variable:
    """Add observed codes to the labelled ones: in between if those are in order themselves, else behind them."""
    if labels is None:
        return Variable(name, order_categories(observed))
    told = dict(zip(labels.categories, labels.labels or labels.categories, strict=True))
    others = order_categories(observed - set(told))
    in_order = list(labels.categories) == sorted(labels.categories, key=_rank)
    categories = order_categories(observed | set(told)) if in_order else (*labels.categories, *others)
    return Variable(name, categories, tuple(told.get(code, code) for code in categories))


def looks_identifying(distinct: int, records: int) -> bool:
    """Say whether so many values differ that they hardly group records."""
    return distinct > max(50, records / 2) or distinct == records >= 20


def are_fractions(texts: set[str]) -> bool:
    """Say whether these are more than a few numbers, some with fractions."""
    return _are_numbers(texts, FEW_FRACTIONS) and any(not float(text).is_integer() for text in texts - {BLANK})


def are_many_numbers(texts: set[str]) -> bool:
    """Say whether these are very many numbers."""
    return _are_numbers(texts, MANY_NUMBERS)


def _are_numbers(texts: set[str], more_than: int) -> bool:
    numbers = texts - {BLANK}
    return len(numbers) > more_than and all(NUMBER.fullmatch(text) for text in numbers)


def _refuse_fractions(name: str, texts: set[str], where: str) -> None:
    if are_fractions(texts):
        raise InputError(
            f"{where}: key '{name}' has {len(texts):,} different numbers, some with fractions, "
            f"so it looks continuous: {_band_remedy(name)}"
        )


def _refuse_many_numbers(name: str, texts: set[str], where: str) -> None:
    if are_many_numbers(texts):
        raise InputError(
            f"{where}: key '{name}' has {len(texts):,} different numbers and no codebook, "
            f"so it looks continuous: {_band_remedy(name)}"
        )


def _refuse_identifier(name: str, distinct: int, records: int, where: str) -> None:
    if looks_identifying(distinct, records):
        raise InputError(
            f"{where}: key '{name}' has {distinct} different values in {records} records, "
            f"more than half of them, so it looks like an identifier: {_group_remedy(name)}"
        )


def _refuse_long_book(name: str, book: Variable | None, records: int, where: str) -> None:
    if book is not None and len(book.categories) > records >= 50:
        raise InputError(
            f"{where}: key '{name}' has {len(book.categories)} categories in the codebook for {records} records: "
            f"{_group_remedy(name)}"
        )


def _band_remedy(name: str) -> str:
    return (
        f"put it into bands with --band {name}=0,15,30 (lower limits) or --band {name}=5y (width), list its "
        f"categories in a codebook, or insist with --allow-identifier {name}."
    )


def _group_remedy(name: str) -> str:
    return f"leave it out, group it (numbers with --band {name}=0,15,30), or insist with --allow-identifier {name}."


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
