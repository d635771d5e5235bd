"""Decimal commas: numbers as much of Europe and Latin America writes them, in text whose delimiter is no comma."""

from collections.abc import Collection, Mapping
from dataclasses import replace

import polars as pl

from keyhole.data.na import choose_texts
from keyhole.data.variables import BLANK, Variable

NUMBER = r"^[+-]?[0-9]+(?:,[0-9]+)?$"
GROUPED = r"^[+-]?[1-9][0-9]{0,2},[0-9]{3}$"
"""What may have a comma between thousands instead. Files with semicolons have them because the comma is a decimal one;
in others, a column whose commas could all separate thousands stays text."""


def read_decimals(
    frame: pl.DataFrame, delimiter: str, na: Collection[str] | None
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Write numbers with a point where all values of a column are numbers, some with a comma; return its columns too.

    na: texts that mean missing, which may stand among the numbers.
    """
    if delimiter == ",":
        return frame, ()
    found = []
    missing = list(choose_texts(None if na is None else list(na)))
    for name in frame.columns:
        column = frame[name]
        values = column.drop_nulls().unique().cast(pl.String)
        text = values.str.strip_chars()
        number, comma = text.str.contains(NUMBER), text.str.contains(",", literal=True)
        decimal = number & comma
        if not decimal.any() or not (number | text.is_in([BLANK, *missing])).all():
            continue
        if delimiter != ";" and text.filter(decimal).str.contains(GROUPED).all():
            continue
        found.append(name)
        written = pl.when(decimal).then(values.str.replace(",", ".", literal=True)).otherwise(values)
        points = pl.select(written).to_series()
        as_text = column if column.dtype == pl.String else column.cast(pl.String)
        frame = frame.with_columns(as_text.replace_strict(values, points, default=None).cast(column.dtype).alias(name))
    return frame, tuple(found)


def write_points(book: Mapping[str, Variable], names: Collection[str]) -> dict[str, Variable]:
    """Return the codebook with points in the numbers that it lists for these columns."""
    return {
        name: variable
        if name not in names
        else replace(variable, categories=_points(variable.categories), missing=_points(variable.missing))
        for name, variable in book.items()
    }


def _points(texts: tuple[str, ...]) -> tuple[str, ...]:
    written = tuple(pl.Series(texts, dtype=pl.String).str.replace(r"^([+-]?[0-9]+),([0-9]+)$", "${1}.${2}"))
    return written if len(set(written)) == len(texts) else texts
