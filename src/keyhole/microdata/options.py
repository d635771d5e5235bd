"""How a source is read: everything a user can say about it besides keys and codebook."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from keyhole.errors import InputError, SettingsError

USER_MISSING = ("keep", "blank")


@dataclass(frozen=True)
class SourceOptions:
    """Options of reading.

    query: the rows of a database, whose address is then the source.
    count: the column that says how many records a row stands for, in a table of cells.
    bands: for a numeric key its lower limits or width, as text or list.
    user_missing: codes that SPSS, Stata or SAS files declare missing are categories (keep) or blank.
    """

    query: str | None = None
    count: str | None = None
    bands: Mapping[str, Any] | None = None
    user_missing: Literal["keep", "blank"] = "keep"

    def check(self, keys: Sequence[str]) -> None:
        """Refuse what has no meaning for these keys."""
        if self.user_missing not in USER_MISSING:
            raise SettingsError("user-missing should be 'keep' or 'blank'")
        if self.count is not None and self.count in keys:
            raise InputError(f"--count {self.count}: it is one of the keys; a count tells nobody apart.")
        for name in self.bands or ():
            if name not in keys:
                raise InputError(f"--band {name}: it is not one of the keys.")
