"""The columns of a file in memory: read once, encoded once as `assess` encodes them, counted at once for any keys."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from keyhole.data import BLANK, Microdata, SourceOptions, Variable, count_records, find_cells, inspect, read_codebook
from keyhole.data.bands import find_limits, read_bands
from keyhole.data.categories import value_texts
from keyhole.data.inspection import Inspection
from keyhole.data.microdata import encode_key
from keyhole.data.na import blank_keys
from keyhole.data.order import order_keys
from keyhole.data.recoding import merge_key
from keyhole.data.source import read_table
from keyhole.data.variables import Table
from keyhole.errors import InputError, KeyholeError, SettingsError
from keyhole.files import NUMBER

MOST_BARS = 30
MOST_CATEGORIES = 500
MOST_STEPS = 100
MOST_BANDS = 4
"""How many ways of cutting a key are remembered."""

WIDEST = 2**62

Missing = Literal["category", "drop", "model"]


@dataclass(frozen=True)
class Encoded:
    """A variable as a key. known: bool (rows,), which rows have an answer; None if all have."""

    variable: Variable
    codes: NDArray[Any]
    known: NDArray[np.bool_] | None


@dataclass
class Columns:
    """The columns of a file that may be keys, and what has been encoded of them."""

    table: Table
    book: Mapping[str, Variable]
    frame: pl.DataFrame
    na: Mapping[str, Any]
    encoded: dict[tuple[str, str, bool], Encoded] = field(default_factory=dict)
    numbers: dict[str, dict[str, Any] | None] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return self.frame.height

    def encode(self, name: str, bands: str, missing: Missing, merge: Any = None) -> Encoded:
        """Return a variable as a key; one that cannot be a key is an error that says why."""
        bands = bands.strip()
        wanted = (name, bands, missing == "model")
        if wanted not in self.encoded:
            if name not in self.frame.columns:
                raise InputError(f"{name}: this column cannot be a key.")
            kind: Missing = "model" if missing == "model" else "category"
            variable, codes = self._encode(name, bands, kind, np.ones(self.rows, np.bool_))
            blank = codes < 0 if kind == "model" else codes == find_blank(variable)
            small = codes.astype(np.int16) if len(variable.categories) < 2**15 else codes
            for old in [one for one in self.encoded if one[0] == name and one[1]][:-MOST_BANDS]:
                del self.encoded[old]
            self.encoded[wanted] = Encoded(variable, small, ~blank if blank.any() else None)
        found = self.encoded[wanted]
        if not merge:
            return found
        variable, codes, merged = merge_key(found.variable, found.codes, merge)
        if missing == "drop" and any(BLANK in codes for codes in merged.values()):
            raise SettingsError(f"`merge` {name}: the blank category is left out: merge others")
        return Encoded(variable, codes, found.known)

    def _encode(
        self, name: str, bands: str, missing: Missing, used: NDArray[np.bool_]
    ) -> tuple[Variable, NDArray[np.int32]]:
        cut = read_bands({name: bands})[name] if bands else None
        rows = np.flatnonzero(used)
        column = self.frame[name].filter(pl.Series(used))
        return encode_key(column, self.table, self.book, cut, rows, len(rows), missing)

    def choose(
        self, keys: Sequence[str], bands: Mapping[str, str], missing: Missing, merge: Mapping[str, Any]
    ) -> list[Encoded]:
        """Return these keys, encoded."""
        return [self.encode(name, bands.get(name, ""), missing, merge.get(name)) for name in keys]

    def count_alone(
        self, keys: Sequence[str], bands: Mapping[str, str], missing: Missing, merge: Mapping[str, Any]
    ) -> tuple[int, int]:
        """Return how many records are alone in the sample on these keys, and how many records there are."""
        found = self.choose(keys, bands, missing, merge)
        if missing == "model":
            microdata = self.make_microdata(keys, bands, missing, merge)
            return len(count_records(microdata.cells, microdata.cell).unique_record), microdata.records
        used = find_used(found) if missing == "drop" else None
        codes = [item.codes if used is None else item.codes[used] for item in found]
        sizes = [len(item.variable.categories) for item in found]
        return count_alone(codes, sizes, self.rows if used is None else int(used.sum()))

    def make_microdata(
        self, keys: Sequence[str], bands: Mapping[str, str], missing: Missing, merge: Mapping[str, Any]
    ) -> Microdata:
        """Return the records on these keys, as `assess` reads them."""
        found = self.choose(keys, bands, missing, merge)
        used = np.ones(self.rows, np.bool_)
        known = find_used(found)
        if missing == "drop" and known is not None:
            used = known
        elif missing == "model":
            used = np.any([item.known if item.known is not None else used for item in found], axis=0)
        if used.sum() < 2:
            raise InputError("Fewer than two records are left without blank keys: choose another way with blanks.")
        if missing == "drop" and known is not None:  # the categories are then those of the records that are left
            pairs = [self._encode(name, bands.get(name, "").strip(), "drop", used) for name in keys]
            pairs = [
                merge_key(*pair, merge[name])[:2] if merge.get(name) else pair
                for name, pair in zip(keys, pairs, strict=True)
            ]
        else:
            pairs = [(item.variable, item.codes[used]) for item in found]
        kept = [(variable, codes) for variable, codes in pairs if len(variable.categories) > 1]
        constant = tuple(variable for variable, _ in pairs if len(variable.categories) < 2)
        cells, cell = find_cells([codes for _, codes in kept], int(used.sum()))
        names = tuple(variable.name for variable in constant)
        variables = tuple(variable for variable, _ in kept)
        microdata = Microdata(variables, cells, cell, self.rows, used, names, "", constant, reading={"na": self.na})
        return order_keys(microdata, None, None)

    def describe_categories(self, name: str, bands: str, missing: Missing, merge: list[list[str]]) -> dict[str, Any]:
        """Return the categories of a key, its merged ones among them, with their records, and which have an order."""
        plain, found = self.encode(name, bands, missing), self.encode(name, bands, missing, merge)
        counts = np.bincount(found.codes[found.codes >= 0], minlength=len(found.variable.categories))
        texts = plain.variable.labels or plain.variable.categories
        label = dict(zip(plain.variable.categories, texts, strict=True))
        members: dict[int, list[str]] = {}
        _, place, _ = merge_key(plain.variable, np.arange(len(texts)), merge) if merge else (0, range(len(texts)), 0)
        for code, g in zip(plain.variable.categories, place, strict=True):
            members.setdefault(int(g), []).append(code)
        first, last = plain.variable.orderable
        return {
            "categories": [
                {"codes": codes, "texts": [label[code] or "(blank)" for code in codes], "count": int(counts[g])}
                for g, codes in sorted(members.items())
            ][:MOST_CATEGORIES],
            "more": max(len(members) - MOST_CATEGORIES, 0),
            "ordered": list(plain.variable.categories[first:last]) if plain.variable.ordered else [],
        }

    def describe_numbers(self, name: str, bands: str) -> dict[str, Any] | None:
        """Return how the numbers of a column are distributed, and where bands cut them; None if it has no numbers."""
        if name not in self.numbers:
            self.numbers[name] = count_numbers(self.frame[name]) if name in self.frame.columns else None
        found = self.numbers[name]
        if found is None:
            return None
        ends = np.array([found["low"], found["high"]])
        try:
            cut = read_bands({name: bands})[name] if bands.strip() else None
            limits = [] if cut is None else find_limits(ends, cut, "").tolist()
        except KeyholeError:
            limits = []
        return {**found, "limits": limits}


def count_numbers(column: pl.Series) -> dict[str, Any] | None:
    """Return the records in equal steps from the lowest number to the highest; None if some value is no number."""
    counts = column.drop_nulls().value_counts()
    texts = value_texts(counts[column.name])
    known = [text != BLANK for text in texts]
    if not any(known) or not all(NUMBER.fullmatch(text) for text in texts if text):
        return None
    values = np.array([float(text) for text in texts if text])
    whole = bool((values == np.floor(values)).all())
    low, high = float(values.min()), float(values.max())
    steps = int(high - low) + 1 if whole and high - low < MOST_STEPS else MOST_STEPS
    weights = counts["count"].to_numpy()[np.array(known)]
    end = high + 1 if whole else high
    bars, _ = np.histogram(values, steps, (low, end), weights=weights)
    step = 10.0 ** max(math.floor(math.log10((high - low) / 100)), 0 if whole else -12) if high > low else 1.0
    return {"low": low, "high": high, "end": end, "step": step, "bars": bars.tolist()}


def find_blank(variable: Variable) -> int:
    """Return the number of the blank category, -1 if there is none."""
    return variable.categories.index(BLANK) if BLANK in variable.categories else -1


def find_used(found: Sequence[Encoded]) -> NDArray[np.bool_] | None:
    """Mark the rows that have an answer to every key; None if all have."""
    known = [item.known for item in found if item.known is not None]
    return np.all(known, axis=0) if known else None


def count_alone(columns: Sequence[NDArray[Any]], sizes: Sequence[int], records: int) -> tuple[int, int]:
    """Return how many records differ from every other in some column, and how many records there are."""
    if not columns:
        return int(records == 1), records
    cell = np.zeros(records, np.uint32)
    span = 1
    for column, size in zip(columns, sizes, strict=True):
        if span * size > WIDEST:
            # Ranks leave room for the next factor.
            cell = np.unique(cell, return_inverse=True)[1].astype(np.uint64)
            span = int(cell.max(initial=0)) + 1
        span *= size
        if span > 2**32 and cell.dtype != np.uint64:
            cell = cell.astype(np.uint64)
        cell *= cell.dtype.type(size)
        cell += column.astype(cell.dtype)
    cell.sort()  # sorting numbers of few bytes is faster than hashing them
    changes = np.flatnonzero(cell[1:] != cell[:-1])
    edges = np.concatenate([[-1], changes, [records - 1]])
    return int((np.diff(edges) == 1).sum()), records


def open_columns(path: str, codebook: str | None = None) -> tuple[Inspection, Columns]:
    """Inspect a file, and keep what may be a key in memory."""
    options, book = SourceOptions(), read_codebook(codebook)
    seen = inspect(path, codebook)
    names = [variable.name for variable in seen.variables if variable.kind != "other"]
    if not names:
        raise InputError("The file has no column that could be a key: check its header line.")
    table = read_table(path, names, options, keys=names)
    frame, na = blank_keys(table, names, book, None)
    return seen, Columns(table, book, frame, na)


def describe_variables(seen: Inspection, columns: Columns) -> dict[str, Any]:
    """Return what the page shows of a file: `inspect`, and how many records each category has."""
    variables = []
    for variable in seen.to_dict()["variables"]:
        shown = {**variable, "bars": [], "more": 0}
        shown.pop("categories")
        if variable["looks_like"] == "key":
            try:
                found = columns.encode(variable["name"], "", "category")
            except KeyholeError as error:
                shown |= {"looks_like": "continuous", "reason": str(error)}
            else:
                shown |= describe_bars(found)
        variables.append(shown)
    return {"rows": seen.rows, "named": seen.named, "unnamed": list(seen.unnamed), "variables": variables}


def describe_bars(found: Encoded) -> dict[str, Any]:
    """Return the number of records of the first categories, in their order, and how many categories are left out."""
    counts = np.bincount(found.codes, minlength=len(found.variable.categories))
    texts = found.variable.labels or found.variable.categories
    bars = [[text or "(blank)", int(count)] for text, count in zip(texts, counts, strict=True)][:MOST_BARS]
    return {"bars": bars, "more": max(len(texts) - MOST_BARS, 0), "largest": int(counts.max(initial=0))}
