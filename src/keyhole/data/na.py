"""Texts that mean missing, such as the NA that R writes: their values become blank."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import polars as pl

from keyhole.data.variables import BLANK, Table, Variable

DEFAULT = (BLANK, "NA", "na", "N/A", "n/a", "NaN", "NAN", "nan", "NULL", "null", ".")


def choose_texts(na: Sequence[str] | None) -> tuple[str, ...]:
    """Return the texts that mean missing, stripped as values are; the empty text always does."""
    return DEFAULT if na is None else tuple(dict.fromkeys((BLANK, *(text.strip() for text in na))))


def blank_na(
    frame: pl.LazyFrame, na: Sequence[str] | None, declared: Mapping[str, Collection[str]]
) -> tuple[pl.LazyFrame, dict[str, Any]]:
    """Make values of text columns null that mean missing, and say what was found, for summary.json.

    declared: by column, the texts that are categories there, which never mean missing.
    """
    texts = choose_texts(na)
    found: dict[str, int] = {}
    met: dict[str, list[str]] = {}
    for name, dtype in frame.collect_schema().items():
        meant = [text for text in texts if text != BLANK and text not in declared.get(name, ())]
        if not meant or dtype not in (pl.String, pl.Categorical, pl.Enum):
            continue
        text = pl.col(name).cast(pl.String).str.strip_chars()
        hits = frame.select(text).filter(pl.col(name).is_in(meant)).group_by(name).len().collect(engine="streaming")
        if hits.height:
            found[name] = int(hits["len"].sum())
            met[name] = sorted(hits[name].to_list())
            frame = frame.with_columns(pl.when(~text.is_in(meant)).then(pl.col(name).cast(pl.String)).alias(name))
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
    frame, found = blank_na(table.frame.select(names).lazy(), na, declared)
    return frame.collect(), found
