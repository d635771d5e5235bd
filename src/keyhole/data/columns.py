"""The columns to read from a source, and the options for reading them."""

import difflib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from keyhole.errors import InputError, SettingsError
from keyhole.files import NUMBER
from keyhole.words import first_few

COUNTED = "keyhole_count"
SHOWN = 30
LONGEST_NAME = 200


@dataclass(frozen=True)
class SourceOptions:
    """Options for reading a source.

    query: SQL query; the source is then the address of a database.
    count: column with the number of records that each row represents, in a table of cells.
    bands: lower limits or width by numeric key, as text or list.
    merge: by key, the categories to merge, as text or lists, after bands.
    user_missing: whether codes that SPSS, Stata or SAS files declare missing are categories (keep) or blank.
    count_cells: let the database count the records of each cell; a row is then a cell.
    na: texts that mean missing, in place of the default (`na.DEFAULT`); the empty text always does.
    """

    query: str | None = None
    count: str | None = None
    bands: Mapping[str, Any] | None = None
    user_missing: Literal["keep", "blank"] = "keep"
    na: Sequence[str] | None = None
    count_cells: bool = False
    merge: Mapping[str, Any] | None = None

    @property
    def count_column(self) -> str | None:
        """The column with the number of records of each row, also if the database counts them."""
        return COUNTED if self.count_cells else self.count

    def check(self, keys: Sequence[str]) -> None:
        """Refuse options that contradict the keys."""
        if self.user_missing not in ("keep", "blank"):
            raise SettingsError("`user_missing` should be 'keep' or 'blank'")
        if self.na is not None and (isinstance(self.na, str) or not all(isinstance(text, str) for text in self.na)):
            raise SettingsError("`na` should be a list of texts that mean missing, for instance ['NA', '-']")
        if self.count_cells and (self.query is None or self.count is not None):
            raise SettingsError(
                "`count_cells` needs `query`, and no `count`: the database counts the rows of the query"
            )
        if self.count is not None and self.count in keys:
            raise InputError(
                f"`count` {self.count}: it is one of the keys; a count column does not distinguish records: "
                "take it out of the keys."
            )
        for name in self.bands or ():
            if name not in keys:
                raise InputError(f"`bands` {name}: it is not one of the keys; add it to them or omit the bands.")
        if self.merge is not None and not isinstance(self.merge, Mapping):
            raise SettingsError("`merge` must map keys to the categories to merge, for instance {'AGE': [[1, 2]]}")
        for name in self.merge or ():
            if name not in keys:
                raise InputError(f"`merge` {name}: it is not one of the keys; add it to them or omit the merge.")


def check_keys(keys: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of the keys, without duplicates; text is split at commas."""
    names = tuple(key.strip() for key in (keys.split(",") if isinstance(keys, str) else keys))
    if not any(names):
        raise InputError("no key variable is given: name the columns an intruder could know, for instance AGE,SEX.")
    if not all(names):
        raise InputError("the list of keys has an empty name: look for two consecutive commas.")
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise InputError(f"the key '{twice}' is given twice: name it once.")
    return names


def find_columns(header: Sequence[str], keys: Sequence[str], where: str, text: bool = False) -> list[int]:
    """Return the position of each key in the header, or name the closest column if there is none.

    text: the header is the first line of a text file, which may be a record.
    """
    times = Counter(header)
    for key in keys:
        if times[key] > 1:
            raise InputError(f"{where} has {times[key]} columns named '{key}': give each a name of its own.")
        if key not in times:
            parts = [part for part in re.split(r"[;|:/\s]+", key) if part]
            if len(parts) > 1 and any(part in times for part in parts):
                raise InputError(f"{where} has no column '{key}': separate the keys with commas, as in AGE,SEX.")
            # If no key is found, the first line may be a record, whose values must not be shown.
            raise InputError(
                f"{where} has no column '{key}'{_suggest(header, key, any(k in times for k in keys), text)}"
            )
    place = {name: position for position, name in enumerate(header)}
    return [place[key] for key in keys]


def is_name(name: str) -> bool:
    """Whether this can be the name of a column: one line, not too long."""
    return len(name) <= LONGEST_NAME and name.isprintable()


def _suggest(header: Sequence[str], key: str, is_header: bool, text: bool) -> str:
    # Without a header the "names" are the first record, whose values must not be shown; numbers are a sign of that.
    if any(not is_name(name) for name in header if name):
        if not text:
            return ": names of columns must be one line of at most 200 characters."
        return ": its first line is not a header; look for unbalanced quotes."
    names = [name for name in header if name]
    if not names or any(NUMBER.fullmatch(name) for name in names):
        return ": its first line does not name the columns; add a header." if text else ": name its columns."
    folded = {name.casefold(): name for name in names}
    close = difflib.get_close_matches(key.casefold(), folded, n=1)
    if not is_header and not close:
        remedy = "check the names, or add a first line that names the columns" if text else "check the names"
        return f", nor any other of the keys: {remedy}."
    near = f" (did you mean '{folded[close[0]]}'?)" if close else ""
    if not is_header:
        return f"{near}: check the name."
    return f"{near}: its columns are {first_few(names, SHOWN)}."
