"""Inspect a source to choose the keys: the type of each variable, and what it may be used for.

Names, labels and counts are shown; values of the data never are.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import polars as pl

from keyhole.data.categories import (
    FEW_FRACTIONS,
    MOST_CATEGORIES,
    are_fractions,
    are_many_numbers,
    describe_spelling,
    distinct_values,
    find_missing_codes,
    is_blank,
    looks_identifying,
    value_texts,
)
from keyhole.data.codebook import find_strangers, read_codebook, settle_missing
from keyhole.data.columns import SourceOptions, is_name
from keyhole.data.database import is_url
from keyhole.data.decimals import write_points
from keyhole.data.na import blank_keys, choose_texts
from keyhole.data.source import read_table
from keyhole.data.variables import BLANK, Table, Variable
from keyhole.errors import InputError
from keyhole.files import NUMBER

FIRST_COLUMNS = 50
VALUES_AT_ONCE = 20_000_000  # values of a file held in memory
MOST_VARIABLES = 5_000
GROUP_FROM = 50
NAMED_AS_IDENTIFIER = re.compile(
    r"(?:^|[_.\W])(?:id|uuid|guid|ssn|pnr|serial)$|(?:person|hh|household|case|p|h)_?id$", re.I
)
NAMED_AS_WEIGHT = re.compile(
    r"(?:^|[_.\W\d]|per|person|hh|hous(?:e|ehold|ing)|fin(?:al)?|fnl|samp(?:le|ling)?|survey|design|asec|p|h)_?"
    r"(?:wt|wgt|wght|weight)s?p?\d*$|^wt(?:_|finl|supp|ss)|^[pfai]?(?:w|weight|wgt|wt)s?\d*$",
    re.I,
)
SHORT_NAME = re.compile(r"[pfai]?w\d*", re.I)
LONG_FRACTION = re.compile(r"\.[0-9]{2,}[1-9]")
Looks = Literal["key", "identifier", "weight", "continuous", "constant"]


@dataclass(frozen=True)
class Inspected:
    """One variable.

    Attributes
    ----------
    name, title : str
        Name, and label in the file.
    kind : str
        text, whole numbers, numbers, dates or true/false.
    different, blank : int
        Number of distinct values, blanks aside, and of blanks.
    categories : tuple
        Codes and labels of the file or the codebook, in order.
    looks_like, reason : str
        Likely use (key, identifier, weight, continuous, constant), and why.
    missing_codes : tuple of str
        Numbers of a key or a continuous variable that look like codes for missing, such as 99.
    """

    name: str
    title: str
    kind: str
    different: int
    blank: int
    categories: tuple[tuple[str, str], ...]
    looks_like: Looks
    reason: str
    missing_codes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Inspection:
    """All variables of a source, in its order.

    Attributes
    ----------
    rows : int
        Number of rows.
    variables : tuple of Inspected
        One for each variable.
    na : dict
        What is taken as missing, as `input.na` in summary.json.
    named : bool
        False if the first line looks like a record; the variables are then called V1, V2, ...
    unnamed : tuple of int
        Columns without a name, from 1, which are not described.
    decimal_comma : tuple of str
        Variables whose numbers have a decimal comma in the file.
    codebook_strangers : dict
        Entries of the codebook that are no variable, and the nearest variable, if there is one.
    """

    rows: int
    variables: tuple[Inspected, ...]
    na: Mapping[str, Any]
    named: bool = True
    unnamed: tuple[int, ...] = ()
    decimal_comma: tuple[str, ...] = ()
    codebook_strangers: Mapping[str, str] = field(default_factory=dict)

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the variables that look like keys; only you can say which an intruder could know."""
        return tuple(variable.name for variable in self.variables if variable.looks_like == "key")

    def to_dict(self) -> dict[str, Any]:
        """Return what `keyhole inspect --json` prints.

        Returns
        -------
        dict
        """
        variables = [asdict(variable) for variable in self.variables]
        for variable in variables:
            variable["categories"] = [{"code": code, "label": label} for code, label in variable["categories"]]
        return {
            "rows": self.rows,
            "variables": variables,
            "na": dict(self.na),
            "named": self.named,
            "unnamed": list(self.unnamed),
            "decimal_comma": list(self.decimal_comma),
            "codebook_strangers": dict(self.codebook_strangers),
        }


def inspect(
    source: Any,
    codebook: str | Path | Mapping[str, Any] | None = None,
    *,
    query: str | None = None,
    user_missing: Literal["keep", "blank"] = "keep",
    na: Sequence[str] | None = None,
) -> Inspection:
    """Describe every variable of a file, dataframe or database query, to choose the keys. No value of the data is kept.

    Parameters
    ----------
    source, codebook, query, user_missing, na
        As in `assess`.

    Returns
    -------
    Inspection

    Raises
    ------
    KeyholeError
        If the source cannot be read.
    """
    options = SourceOptions(query, user_missing=user_missing, na=na)
    options.check(())
    book = settle_missing(read_codebook(codebook), user_missing)
    found: list[Inspected] = []
    rows, named = 0, True
    unnamed: tuple[int, ...] = ()
    decimals: list[str] = []
    missing: dict[str, Any] = {"texts": list(choose_texts(na)), "found": {}, "met": {}}
    for table in _parts(source, options):
        rows, named = max(rows, table.frame.height), named and table.named
        if "" not in table.frame.columns:
            unnamed = tuple(place for place, name in enumerate(table.header, start=1) if not name)
        decimals += table.decimal_comma
        here_book = write_points(book, table.decimal_comma)
        frame, here = blank_keys(table, table.frame.columns, here_book, na)
        missing["found"] |= here["found"]
        missing["met"] |= here["met"]
        for name in frame.columns:
            variable = here_book.get(name) or table.labels.get(name)
            found.append(
                inspect_column(
                    frame[name], table.titles.get(name, ""), variable, table.where, name in table.user_missing
                )
            )
    strangers = find_strangers(book, [variable.name for variable in found])
    return Inspection(rows, tuple(found), missing, named, unnamed, tuple(decimals), strangers)


def _parts(source: Any, options: SourceOptions) -> Iterator[Table]:
    """Read a file in groups of columns that fit in memory, any other source at once."""
    if is_url(source) or not isinstance(source, str | Path):
        yield read_table(source, None, options)
        return
    names = [name for name in read_table(source, (), options, without_names=True).header if name]
    if not all(map(is_name, names)):
        raise InputError(f"{source}: its first line is not a header; look for unbalanced quotes.")
    # Numbers as names are values, which must not be shown: the table was saved from one without a header.
    if 2 * sum(NUMBER.fullmatch(name) is not None for name in names) >= len(names):
        raise InputError(f"{source}: its first line does not name the columns; add a header.")
    if len(names) > MOST_VARIABLES:
        raise InputError(f"{source} has more than {MOST_VARIABLES:,} variables, too many to inspect: save fewer.")
    place, size = 0, FIRST_COLUMNS
    while place < len(names):
        table = read_table(source, names[place : place + size], options, without_names=True)
        yield table
        place += size
        size = max(FIRST_COLUMNS, VALUES_AT_ONCE // max(table.frame.height, 1))


def inspect_column(
    column: pl.Series, title: str, variable: Variable | None, where: str, declared: bool = False
) -> Inspected:
    """Describe one variable; title, variable: its labels in the file or the codebook.

    declared : the file declares codes of it to be missing.
    """
    blank = int(is_blank(column).sum())
    records = len(column)
    try:
        column, values = distinct_values(column, where)
    except InputError:
        return Inspected(column.name, title, "other", 0, blank, (), "identifier", "it holds bytes, lists or structures")
    texts = set(value_texts(values)) - {BLANK} if len(values) <= MOST_CATEGORIES else None
    different = len(values) if texts is None else len(texts)
    pairs = (
        () if variable is None else tuple(zip(variable.categories, variable.labels or variable.categories, strict=True))
    )
    looks, reason = _guess(column, texts, different, records, {code for code, _ in pairs})
    known = variable is not None or declared
    codes = () if known or looks not in ("key", "continuous") or texts is None else tuple(find_missing_codes(texts))
    return Inspected(column.name, title, _kind(column, texts), different, blank, pairs, looks, reason, codes)


def _guess(
    column: pl.Series, texts: set[str] | None, different: int, records: int, known: set[str]
) -> tuple[Looks, str]:
    """Return the likely use of a variable and the reason, by the criteria by which `assess` refuses keys."""
    if different == 0:
        return "constant", "all blank"
    if different == 1 and (not known or len(known) < 2):
        return "constant", "a single value"
    if not known and _may_be_weights(column, texts):
        if NAMED_AS_WEIGHT.search(column.name) and (
            not SHORT_NAME.fullmatch(column.name) or _have_fractions(column, texts)
        ):
            return "weight", "named like a survey weight"
        if texts is not None and different <= FEW_FRACTIONS and any(map(LONG_FRACTION.search, texts)):
            return "weight", "positive numbers with three decimals or more, as weights have"
    if texts is None:
        measured = column.dtype.is_float()
        return ("continuous" if measured else "identifier"), f"more than {MOST_CATEGORIES:,} different values"
    if are_fractions(texts - known):
        return "continuous", "numbers with fractions; group them into bands"
    if looks_identifying(different, records):
        return "identifier", "nearly all values differ"
    if NAMED_AS_IDENTIFIER.search(column.name):
        return "identifier", "named like an identifier"
    if are_many_numbers(texts - known):
        return "continuous", f"{different:,} different numbers; group them into bands"
    parts = [f"{different:,} categories", "grouping lowers the risk" if different > GROUP_FROM else ""]
    if any(text.isdecimal() and text[0] == "0" and len(text) > 1 for text in texts):
        # pandas.read_csv, for instance, so that the same file then has other categories.
        parts.append("codes have leading zeros, which programs that read them as numbers lose")
    return "key", "; ".join(filter(None, [*parts, describe_spelling(texts - known)]))


def _have_fractions(column: pl.Series, texts: set[str] | None) -> bool:
    """Whether some value is no whole number: of a column called W, which may be anything."""
    if texts is None:
        return column.dtype.is_float()
    return any(not float(text).is_integer() for text in texts)


def _may_be_weights(column: pl.Series, texts: set[str] | None) -> bool:
    """Whether all values are positive numbers; of too many values, only the type is known."""
    if texts is None:
        return column.dtype.is_numeric()
    return all(NUMBER.fullmatch(text) and float(text) > 0 for text in texts)


def _kind(column: pl.Series, texts: set[str] | None) -> str:
    if column.dtype == pl.Boolean:
        return "true/false"
    if column.dtype.is_temporal():
        return "dates"
    if texts is None:
        return "numbers" if column.dtype.is_numeric() else "text"
    if not texts or not all(NUMBER.fullmatch(text) for text in texts):
        return "text"
    return "whole numbers" if all(float(text).is_integer() for text in texts) else "numbers"
