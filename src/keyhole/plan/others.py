"""Columns of a file that are no keys, and what they may undo: identifiers, and columns that tell a changed key.

A column tells a key if rows with the same value of the column have the same original value of the key, or, for numbers,
if rows with neighbouring values have. Both are compared with what the release itself says: within each published
category, how much more often do such rows agree than rows by chance? The share of what chance leaves is kappa,
    (agree - chance) / (1 - chance).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from keyhole.data.categories import is_blank
from keyhole.data.inspection import inspect_column
from keyhole.data.variables import Table
from keyhole.words import command_line, enumerate_words, plural

TOLD = 0.9
"""Kappa from which on a column is said to tell a key."""

SURE = 14.0
"""Log-odds against rows agreeing by chance, below which nothing is said."""

FEWEST, SHARE = 20, 0.05
"""Rows that are compared, at least, and as a share of those whose value changed."""

MOST_ROWS = 200_000
"""Rows that are compared; of a longer file these are drawn at random."""

Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Change:
    """A key that a release changes. original: the category of each row; published: what the release says of it."""

    key: str
    original: Codes
    published: Codes


@dataclass(frozen=True)
class Telltale:
    """Columns that are released as they are: those that look like identifiers, and for some the keys that they tell."""

    identifiers: tuple[str, ...] = ()
    tell: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.identifiers, *(name for name, _ in self.tell))))

    @property
    def caution(self) -> str:
        """A sentence that names them; empty if there are none."""
        parts = [f"{name} tells the original {enumerate_words(keys)}" for name, keys in self.tell]
        if self.identifiers:
            verb = "looks like an identifier" if len(self.identifiers) == 1 else "look like identifiers"
            parts.insert(0, f"{enumerate_words(self.identifiers)} {verb}")
        if not parts:
            return ""
        count = (
            "a column that may undo" if len(self.names) == 1 else f"{plural(len(self.names), 'column')} that may undo"
        )
        return f"CAUTION: the release holds {count} the plan: {'; '.join(parts)}."

    @property
    def sentence(self) -> str:
        """The caution, and what to do."""
        if not self.caution:
            return ""
        leave = "leave it out" if len(self.names) == 1 else "leave them out"
        return f"{self.caution} To {leave}, use `drop_columns` {command_line([','.join(self.names)])}"


def find_telltale(table: Table, frame: pl.DataFrame, changes: Sequence[Change], rows: NDArray[np.int64]) -> Telltale:
    """Look at columns of a table, without what means missing, as far as these rows are released."""
    identifiers, tell = [], []
    chosen = rows
    if len(rows) > MOST_ROWS:
        chosen = np.sort(np.random.default_rng(0).choice(rows, MOST_ROWS, replace=False))
    place = np.searchsorted(rows, chosen)
    for name in frame.columns:
        column = frame[name]
        seen = inspect_column(column[rows], table.titles.get(name, ""), table.labels.get(name), table.where)
        if seen.looks_like == "identifier":
            identifiers.append(name)
        if seen.looks_like == "constant" or column.dtype.is_nested() or column.dtype in (pl.Binary, pl.Object):
            continue
        values, numeric = rank_values(column[chosen])
        revealed = [
            change.key for change in changes if tells(values, numeric, change.original[place], change.published[place])
        ]
        if revealed:
            tell.append((name, tuple(dict.fromkeys(revealed))))
    return Telltale(tuple(identifiers), tuple(tell))


def rank_values(column: pl.Series) -> tuple[Codes, bool]:
    """Return the rank of each value, -1 where it is blank, and whether the ranks are those of numbers."""
    blank = is_blank(column)
    number = column
    if not (column.dtype.is_numeric() or column.dtype.is_temporal()):
        text = column.cast(pl.String).str.strip_chars()
        number = text.cast(pl.Float64, strict=False)
        if number.null_count() > int(blank.sum()):
            number = text
    numeric = number.dtype != pl.String
    ranks = number.rank("dense").cast(pl.Int64).fill_null(-1).to_numpy().copy()
    ranks[blank] = -1
    return ranks, numeric


def tells(values: Codes, numeric: bool, original: Codes, published: Codes) -> bool:
    """Whether a column tells the original category of a key beyond what is published; values: ranks, -1 if blank."""
    known = np.flatnonzero(values >= 0)
    # In random order, so that rows with equal values are not neighbours because of the order of the file.
    known = np.random.default_rng(0).permutation(known)
    known = known[np.lexsort((values[known], published[known]))]
    value, own, said = values[known], original[known], published[known]
    if len(known) < 2:
        return False
    same = said[1:] == said[:-1]
    if not numeric:
        same &= value[1:] == value[:-1]
    # Within a category that merges nothing there is nothing to tell.
    chance = _chance(own, said)
    open_ = same & (chance[1:] < 1.0)
    compared = int(open_.sum())
    if compared < max(FEWEST, SHARE * int((chance < 1.0).sum())):
        return False
    agree = float((own[1:] == own[:-1])[open_].mean())
    by_chance = float(chance[1:][open_].mean())
    kappa = (agree - by_chance) / (1.0 - by_chance)
    return kappa >= TOLD and -compared * np.log(by_chance) > SURE


def _chance(own: Codes, said: Codes) -> NDArray[np.float64]:
    """Return for each row the probability that another with the same published category has the same original one."""
    _, group = np.unique(said, return_inverse=True)
    pairs, cell = np.unique(np.column_stack([group, own]), axis=0, return_inverse=True)
    size, count = np.bincount(group), np.bincount(cell.ravel())
    squares = (count / size[pairs[:, 0]]) ** 2
    return np.asarray(np.bincount(pairs[:, 0], squares, minlength=len(size))[group], np.float64)
