"""Texts that mean missing, such as the NA that R writes: their values become blank."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import polars as pl

from keyhole.data.categories import is_text
from keyhole.data.codebook import whole_number
from keyhole.data.variables import BLANK, Table, Variable

DEFAULT = (BLANK, "NA", "na", "N/A", "n/a", "NaN", "NAN", "nan", "NULL", "null", ".")


def choose_texts(na: Sequence[str] | None) -> tuple[str, ...]:
    """Return the texts that mean missing, stripped as values are; the empty text always does."""
    return DEFAULT if na is None else tuple(dict.fromkeys((BLANK, *(text.strip() for text in na))))


def blank_na(
    frame: pl.LazyFrame,
    na: Sequence[str] | None,
    declared: Mapping[str, Collection[str]],
    book: Mapping[str, Variable],
) -> tuple[pl.LazyFrame, dict[str, Any]]:
    """Make values null that mean missing, and say what was found, for summary.json.

    declared: by column, the texts that are categories there, which never mean missing. What the codebook declares to
    mean missing does so in numbers too, the other texts in text only.
    """
    texts = choose_texts(na)
    found: dict[str, int] = {}
    met: dict[str, list[str]] = {}
    for name, dtype in frame.collect_schema().items():
        codes = book[name].missing if name in book else ()
        meant = [text for text in texts if text != BLANK and text not in declared.get(name, ())]
        meant = meant if is_text(dtype) else []
        if not meant and not codes:
            continue
        values = frame.select(name).unique().collect(engine="streaming")[name]
        text = values.cast(pl.String).str.strip_chars()
        hits = text.is_in(meant).fill_null(value=False)
        if codes:  # a number may be written as -9 or -9.0
            hits |= pl.Series([one is not None and whole_number(one) in codes for one in text], dtype=pl.Boolean)
        if hits.any():
            missing = pl.col(name).is_in(values.filter(hits).implode())
            found[name] = int(frame.select(missing.sum()).collect(engine="streaming").item())
            met[name] = sorted({one if one in meant else whole_number(one) for one in text.filter(hits)})
            frame = frame.with_columns(pl.when(~missing).then(pl.col(name)).alias(name))
    return frame, {"texts": list(texts), "found": found, "met": met}


def blank_keys(
    table: Table, names: Sequence[str], book: Mapping[str, Variable], na: Sequence[str] | None
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Return these columns of a table, as `blank_na`; categories of codebook or file and its missing codes stay."""
    declared = {
        name: {
            code for variable in (book.get(name), table.labels.get(name)) if variable for code in variable.categories
        }
        | table.user_missing.get(name, frozenset())
        for name in names
    }
    frame, found = blank_na(table.frame.select(names).lazy(), na, declared, book)
    return frame.collect(), found
