"""Encode columns: values as categories and codes, and the counts of a table of cells.

Only distinct values pass through Python; the column itself stays in polars.
"""

import itertools
import re
from collections.abc import Collection, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from keyhole.data.codebook import code_text, whole_numbers
from keyhole.data.variables import BLANK, Variable, fold
from keyhole.errors import CodebookError, InputError
from keyhole.files import NUMBER
from keyhole.words import command_line, enumerate_words, plural

NOT_IN_BOOK = -2
MOST_CATEGORIES = 100_000
MOST_RECORDS = 20_000_000
MANY_NUMBERS = 200  # ages and years of birth have fewer values; more, without a codebook, suggest a measurement
FEW_FRACTIONS = 10  # such as half rooms; more values with fractions suggest a measurement

FEWEST_OTHERS, FAR = 2, (3, 5)
NEGATIVE_CODES = frozenset((*range(1, 10), *(10**n - back for n in (2, 3, 4) for back in (1, 2, 3))))
WHOLE_NUMBER = re.compile(r"-?[0-9]{1,12}")


def compact(frame: pl.LazyFrame, keys: Collection[str], categories: pl.Categories | None = None) -> pl.LazyFrame:
    """Number the texts of these columns while they are read, so that no column of texts has to fit in memory.

    categories: the numbers so far, if there are other parts; by default new ones, which are forgotten with the frame.
    """
    texts = [name for name, dtype in frame.collect_schema().items() if dtype == pl.String and name in keys]
    kind = pl.Categorical(categories or pl.Categories.random())
    return frame.with_columns(pl.col(texts).cast(kind)) if texts else frame


def encode_column(
    column: pl.Series,
    book: Variable | None,
    labels: Variable | None,
    where: str,
    rows: NDArray[np.int64],
    records: int,
    allow_identifier: bool = False,
    missing: bool = False,
) -> tuple[Variable, NDArray[np.int32]]:
    """Return the variable and the index of each row's category.

    book: the complete categories; labels: categories that the file labels, to which observed ones are added.
    rows: the input row of each value, from 0; records: number of records in the column.
    missing: encode blanks as -1 rather than as a category, unless the codebook lists them.
    """
    column, values = distinct_values(column, where)
    if len(values) > MOST_CATEGORIES:
        raise InputError(
            f"{where}: key '{column.name}' has more than {MOST_CATEGORIES:,} different values, too many for a key: "
            f"leave it out, or group it with `bands` {_paste(column.name, '=0,15,30')} (lower limits)."
        )
    texts = value_texts(values)
    if not allow_identifier:
        _refuse_unsuitable(column.name, texts, book, labels, records, where)
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
    """Return the column with NaN as null, and its distinct values in order of first appearance."""
    if column.dtype.is_nested() or column.dtype in (pl.Binary, pl.Object):
        raise InputError(f"{where}: column '{column.name}' holds lists, structures or bytes, not categories.")
    if column.dtype.is_float():
        column = column.fill_nan(None)
    return column, column.drop_nulls().unique(maintain_order=True)


def value_texts(values: pl.Series) -> list[str]:
    """Format distinct values as text: stripped, and 1.0 as "1" if all are numbers."""
    if values.dtype == pl.Boolean or values.dtype.is_float():
        return [code_text(value) for value in values.to_list()]
    return whole_numbers([text.strip() for text in values.cast(pl.String).to_list()])


def is_text(dtype: pl.DataType) -> bool:
    """Whether values are text, numbered or not. No comparison with pl.Categorical: it fails for named categories."""
    return isinstance(dtype, pl.String | pl.Categorical | pl.Enum)


def is_blank(column: pl.Series) -> NDArray[np.bool_]:
    """Mark blank values: null, whitespace or NaN."""
    blank = column.is_null()
    if column.dtype.is_float():
        blank |= column.is_nan().fill_null(value=False)
    elif is_text(column.dtype):
        blank |= (column.cast(pl.String).str.strip_chars() == BLANK).fill_null(value=False)
    return blank.to_numpy()


def describe_spelling(texts: Collection[str]) -> str:
    """Say what is odd in how observed categories are written, without any of them; empty if nothing is."""
    alike = len(texts) - len({fold(text) for text in texts})
    found = []
    if alike:
        verb = "differs" if alike == 1 else "differ"
        found.append(f"{plural(alike, 'value')} {verb} from another only in capitals, spaces or leading zeros")
    if any(map(_is_misread, texts)):
        found.append("some letters look damaged, as if parts of the file were in different encodings")
    return "; ".join(found)


def find_missing_codes(texts: Collection[str]) -> list[str]:
    """Return the numbers that look like codes for missing: all nines far above the others, or negative below them.

    Far is some times the largest gap between the others, more for 99 than for 9, since an age may be 99. 98 and 97 go
    with 99 if they are there. No other number is returned, since it may be a person's.
    """
    found = {text for text in texts if text != BLANK}
    if len(found) <= FEWEST_OTHERS or not all(WHOLE_NUMBER.fullmatch(text) for text in found):
        return []
    numbers = sorted(int(text) for text in found)
    codes = {number for number in numbers if number < 0 and -number in NEGATIVE_CODES}
    if any(number < 0 and number not in codes for number in numbers):
        codes = set()
    others = [number for number in numbers if number not in codes]
    if others and set(str(others[-1])) == {"9"}:
        high = {others[-1]}
        while others[-1] > 9 and len(high) < 3 and min(high) - 1 in others:
            high.add(min(high) - 1)
        rest = [number for number in others if number not in high]
        steps = [b - a for a, b in itertools.pairwise(rest)]
        if len(rest) >= FEWEST_OTHERS and min(high) - rest[-1] >= FAR[min(high) > 9] * max(steps):
            codes |= high
            others = rest
    return [str(code) for code in sorted(codes)] if len(others) >= FEWEST_OTHERS else []


def describe_missing_codes(name: str, codes: Sequence[str]) -> str:
    """Say what to do about codes that may mean missing."""
    one = len(codes) == 1
    return (
        f"{name}: {enumerate_words(codes)} {'looks like a code' if one else 'look like codes'} for missing, but "
        f"{'counts as a number' if one else 'count as numbers'} like the others. If so, declare "
        f"{'it' if one else 'them'} in a `codebook` (missing: [{', '.join(codes)}]), or in a text file with `na` "
        f"{codes[0]}"
    )


def _is_misread(text: str) -> bool:
    """Whether this looks like UTF-8 read as Windows-1252, or like letters that could not be read."""
    if text.isascii():
        return False
    try:
        return text.encode("cp1252").decode("utf-8") != text
    except UnicodeError:
        return "\N{REPLACEMENT CHARACTER}" in text


def order_categories(texts: set[str]) -> tuple[str, ...]:
    """Sort numbers by value, then the rest as text."""

    def rank(text: str) -> tuple[bool, float, str]:
        number = NUMBER.fullmatch(text) is not None
        return (not number, float(text) if number else 0.0, text)

    return tuple(sorted(texts, key=rank))


def _variable(
    column: pl.Series, texts: list[str], book: Variable | None, labels: Variable | None, missing: bool
) -> Variable:
    """Use the categories of the codebook, or else those labelled or observed; add blank as the last one if needed."""
    if book is None:
        observed = set(texts) - {BLANK}
        label = {} if labels is None else dict(zip(labels.categories, labels.labels or labels.categories, strict=True))
        # Observed codes are merged into the labelled ones if those are sorted, else appended.
        if tuple(label) == order_categories(set(label)):
            categories = order_categories(observed | set(label))
        else:
            categories = (*label, *order_categories(observed - set(label)))
        names = None if labels is None else tuple(label.get(code, code) for code in categories)
        book = Variable(column.name, categories, names)
    if missing or not (column.has_nulls() or BLANK in texts) or BLANK in book.categories:
        return book
    names = None if book.labels is None else (*book.labels, "(blank)")
    return Variable(column.name, (*book.categories, BLANK), names, marked=book.marked)


def looks_identifying(distinct: int, records: int) -> bool:
    """Whether there are too many distinct values to group records."""
    return distinct > max(50, records / 2) or distinct == records >= 20


def are_fractions(texts: set[str]) -> bool:
    """Whether these are more than a few numbers, some with fractions."""
    return _are_numbers(texts, FEW_FRACTIONS) and any(not float(text).is_integer() for text in texts - {BLANK})


def are_many_numbers(texts: set[str]) -> bool:
    """Whether these are numbers, too many for categories."""
    return _are_numbers(texts, MANY_NUMBERS)


def _are_numbers(texts: set[str], more_than: int) -> bool:
    numbers = texts - {BLANK}
    return len(numbers) > more_than and all(NUMBER.fullmatch(text) for text in numbers)


def _refuse_unsuitable(
    name: str, texts: list[str], book: Variable | None, labels: Variable | None, records: int, where: str
) -> None:
    """Refuse measurements, identifiers, and codebooks with more categories than there are records."""
    key = f"{where}: key '{name}' has"
    limits, width = _paste(name, "=0,15,30"), _paste(name, "=5y")
    keep = f"or keep it with `allow_identifier` {_paste(name)}."
    group = f"leave it out, group it (numbers with `bands` {limits}), {keep}"
    band = (
        f"so it looks continuous: group it with `bands` {limits} (lower limits) or `bands` {width} (width), "
        f"list its categories in a codebook, {keep}"
    )
    measured: set[str] = set() if book else set(texts) - set(labels.categories if labels else ())
    if are_fractions(measured):
        raise InputError(f"{key} {len(measured):,} different numbers, some with fractions, {band}")
    if looks_identifying(len(texts), records):
        raise InputError(
            f"{key} {len(texts)} different values in {records} records, "
            f"more than half of them, so it looks like an identifier: {group}"
        )
    if are_many_numbers(measured):
        raise InputError(f"{key} {len(measured):,} different numbers and no codebook, {band}")
    known = book or labels
    if known is not None and len(known.categories) > records >= 50:
        raise InputError(f"{key} {len(known.categories)} categories in the codebook for {records} records: {group}")


def _paste(name: str, value: str = "") -> str:
    """Write the value of an option so that it can be pasted into a shell."""
    return command_line([f"{name}{value}"])


def read_counts(column: pl.Series, where: str) -> NDArray[np.int64]:
    """Return the number of records that each row represents: int64 (rows,), not negative."""
    if column.dtype == pl.String:
        column = column.str.strip_chars()
    elif not column.dtype.is_numeric():
        raise InputError(f"{where}: the column '{column.name}' of `count` holds no numbers: name a column of counts.")
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
            "use the sample rather than the population, or a smaller sample."
        )
    return number.astype(np.int64)
