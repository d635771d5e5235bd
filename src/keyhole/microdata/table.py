"""What every kind of source gives: the wanted columns, and what the source says about them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from keyhole.microdata.variables import Variable


@dataclass(frozen=True)
class Table:
    """Columns of a source before they are encoded.

    where: how messages call the source; header: all its columns; frame: the wanted ones.
    fingerprint: SHA-256 of the bytes, None if there are none.
    titles: the label of a variable; labels: its value labels, as a codebook.
    user_missing: codes that the file declares missing although they are stated ("refused", "not stated").
    """

    where: str
    header: tuple[str, ...]
    frame: pl.DataFrame
    fingerprint: str | None = None
    titles: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, Variable] = field(default_factory=dict)
    user_missing: Mapping[str, frozenset[str]] = field(default_factory=dict)
