"""How the records of a run were read, so that they can be read again and are known to be the same.

Other columns than the keys, and the format of the file, may differ: only the records count.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from keyhole.data.columns import SourceOptions
from keyhole.data.microdata import COUNT_CELLS, read_microdata
from keyhole.data.variables import Microdata, Variable
from keyhole.errors import CodebookError, InputError


@dataclass(frozen=True)
class Reading:
    """What a run read.

    codes: SHA-256 of names, categories and codes of its records; rows: number of input rows; unused: those that are no
    records, from 1.
    variables: the keys; ignored: keys with one category; met: texts that meant missing, by key.
    merge: by key, the categories of each that was merged, by its name.
    strata: the options with which the columns of strata are read.
    """

    codes: str
    rows: int
    unused: tuple[int, ...]
    variables: tuple[Variable, ...]
    ignored: tuple[str, ...]
    met: Mapping[str, Sequence[str]]
    count: str | None
    bands: Mapping[str, Any]
    user_missing: Literal["keep", "blank"]
    na: Sequence[str] | None
    missing: Literal["category", "drop", "model"]
    merge: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    strata: Mapping[str, Any] = field(default_factory=dict)


def fingerprint_codes(microdata: Microdata) -> str:
    """Return the SHA-256 of names, categories and codes of the records: equal for equal records from any source."""
    digest = hashlib.sha256(json.dumps([[found.name, found.categories] for found in microdata.variables]).encode())
    for part in (microdata.cells, microdata.cell):  # the cells are sorted, so equal records have equal numbers
        digest.update(np.ascontiguousarray(part, np.int32).tobytes())
    return digest.hexdigest()


def read_records(reading: Reading, data: Any, whose: str = "this result") -> Microdata:
    """Read the data as the run read them; refuse other data."""
    where = str(data) if isinstance(data, str | Path) else "the dataframe"
    if reading.count == COUNT_CELLS:
        raise InputError("the records of this result were counted by a database: make the run again with `keep_data`.")
    names = [*(variable.name for variable in reading.variables), *reading.ignored]
    book = {
        name: {"categories": categories, "missing": list(reading.met.get(name, ()))}
        for name, categories in _list_categories(reading).items()
    }
    options = SourceOptions(
        None, reading.count, reading.bands, reading.user_missing, reading.na, merge=reading.merge or None
    )
    other = InputError(
        f"{where} does not hold the records of {whose}: give the data that it was made from, as they were."
    )
    try:
        found = read_microdata(data, names, book, names, reading.missing, options, **reading.strata)
    except CodebookError:
        raise other from None
    used = np.ones(reading.rows, np.bool_)
    used[np.array(reading.unused, np.int64) - 1] = False
    if found.rows != reading.rows or (used & ~found.row_used).any():
        raise other
    # Without the records that contradicted a rule.
    found = found.keep(used[found.record_row])
    if fingerprint_codes(found) != reading.codes:
        raise other
    # That the result served as codebook here declares no category and orders none.
    return replace(found, variables=reading.variables)


def _list_categories(reading: Reading) -> dict[str, list[str]]:
    """Return the categories of each key as they were before any were merged."""
    found = {}
    for variable in reading.variables:
        merged = reading.merge.get(variable.name, {})
        found[variable.name] = [code for one in variable.categories for code in merged.get(one, [one])]
    return found
