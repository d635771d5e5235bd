"""What a file is after reading: key variables with their categories, and one row of integers for each record."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from keyhole.data.bands import Bands, cut, read_bands
from keyhole.data.categories import encode_column, is_blank, read_counts
from keyhole.data.codebook import read_codebook
from keyhole.data.columns import SourceOptions, check_keys
from keyhole.data.design import check_extra_columns, name_extra_columns
from keyhole.data.source import read_table
from keyhole.data.variables import Microdata, Table, Variable
from keyhole.errors import CodebookError, InputError

Encoded = tuple[Variable, NDArray[np.int32]]


def read_microdata(
    source: Any,
    keys: str | Sequence[str],
    codebook: str | Path | Mapping[str, Any] | None = None,
    allow_identifier: Sequence[str] = (),
    missing: Literal["category", "drop", "model"] = "category",
    options: SourceOptions | None = None,
    *,
    weight: str | None = None,
    household: str | None = None,
) -> Microdata:
    """Read a file of any known format, a dataframe of any library, or (with options.query) a database.

    missing: blank values are a category of their own, the last one; or the record is left out; or they are left to the
    model, code -1, and only records without any answer are left out.
    `allow_identifier` names keys that are accepted although nearly all their values differ.
    weight, household: further columns, for `Microdata.extra`.
    """
    names = check_keys(keys)
    for name in set(allow_identifier) - set(names):
        raise InputError(f"--allow-identifier {name}: it is not one of the keys.")
    options = options or SourceOptions()
    options.check(names)
    bands = read_bands(options.bands)
    book = read_codebook(codebook)
    # One reading for keys and all other columns: a query without ORDER BY has no order that would be the same twice.
    others = name_extra_columns(weight, household, options)
    others += [] if options.count is None else [options.count]
    table = read_table(source, list(dict.fromkeys([*names, *others])), options)
    row_records = None if options.count is None else read_counts(table.frame[options.count], table.where)
    present = _present(table.frame, names, missing)
    records = _count_records(table, present, row_records)
    rows = np.flatnonzero(present)
    frame = table.frame.filter(pl.Series(present)) if len(rows) < len(present) else table.frame
    encoded = [
        _encode(
            frame[name],
            table,
            book.get(name),
            bands.get(name),
            rows,
            records,
            name in allow_identifier,
            missing == "model",
        )
        for name in names
    ]
    used = present if row_records is None else present & (row_records > 0)
    kept = [(variable, codes) for variable, codes in encoded if len(variable.categories) > 1]
    constant = tuple(variable for variable, _ in encoded if len(variable.categories) < 2)
    times = None if row_records is None else row_records[rows]
    codes = np.empty((records, len(kept)), dtype=np.int32)
    for j, (_, column) in enumerate(kept):
        codes[:, j] = column if times is None else np.repeat(column, times)
    dropped = len(present) - len(rows) if row_records is None else int(row_records[~present].sum())
    found = Microdata(
        variables=tuple(variable for variable, _ in kept),
        codes=codes,
        rows=len(present),
        row_used=used,
        ignored=tuple(variable.name for variable in constant),
        fingerprint=table.fingerprint or _fingerprint(encoded, codes),
        ignored_variables=constant,
        row_records=row_records,
        extra=check_extra_columns(table.frame, table.where, weight, household),
        reading={
            "count": options.count,
            "bands": {name: found.text for name, found in bands.items()},
            "user_missing": options.user_missing,
            "dropped": dropped,
        },
    )
    return found if missing != "model" else _leave_out_blank(found, table)


def _leave_out_blank(microdata: Microdata, table: Table) -> Microdata:
    """Leave out records that have no answer at all: there is nothing to compare them on."""
    answered = np.asarray((microdata.codes >= 0).any(axis=1))
    if not microdata.variables or answered.all():
        return microdata
    if answered.sum() < 2:
        raise InputError(f"{table.where} has fewer than two records with an answer to a key: use --missing category.")
    dropped = microdata.reading["dropped"] + int((~answered).sum())
    kept = microdata.keep(answered)
    return replace(kept, reading={**kept.reading, "dropped": dropped})


def _present(frame: pl.DataFrame, names: Sequence[str], missing: str) -> NDArray[np.bool_]:
    """Say which rows are not left out for a blank key."""
    present = np.ones(frame.height, dtype=np.bool_)
    if missing == "drop":
        for name in names:
            present &= ~is_blank(frame[name])
    return present


def _count_records(table: Table, present: NDArray[np.bool_], row_records: NDArray[np.int64] | None) -> int:
    """Return the number of records; at least two are needed."""
    records = int(present.sum() if row_records is None else row_records[present].sum())
    if records >= 2:
        return records
    total = len(present) if row_records is None else int(row_records.sum())
    if total >= 2:
        raise InputError(f"{table.where} has fewer than two records without a blank key: use --missing category.")
    told = ("a header but no record", "a single record")[total]
    raise InputError(f"{table.where} has {told}: at least two records are needed.")


def _encode(
    column: pl.Series,
    table: Table,
    book: Variable | None,
    bands: Bands | None,
    rows: NDArray[np.int64],
    records: int,
    insist: bool,
    missing: bool,
) -> Encoded:
    """Put a key into bands if it has any, then encode it by codebook, labels or what is observed."""
    labels = table.labels.get(column.name)
    if bands is not None:
        column, book = band_column(column, table, book, bands, rows)
        labels = None
    return encode_column(column, book, labels, table.where, rows, records, insist, missing)


def band_column(
    column: pl.Series, table: Table, book: Variable | None, bands: Bands, rows: NDArray[np.int64]
) -> tuple[pl.Series, Variable]:
    """Return a key in bands, and the bands as its categories; codes declared missing stay categories of their own."""
    name = column.name
    apart = dict.fromkeys(table.user_missing.get(name, ()), "")
    apart = {code: label or code for code, label in (apart | _labels(table.labels.get(name), apart)).items()}
    column, banded = cut(column, bands, apart, table.where, rows)
    if book is not None and set(banded.categories) - set(book.categories):
        raise CodebookError(
            f"the codebook lists '{name}' as it is before --band: list its bands there, or leave it out."
        )
    return column, book or banded


def _labels(labels: Variable | None, codes: Mapping[str, str]) -> dict[str, str]:
    if labels is None or labels.labels is None:
        return {}
    told = zip(labels.categories, labels.labels, strict=True)
    return {code: label for code, label in told if code in codes}


def _fingerprint(encoded: Sequence[Encoded], codes: NDArray[np.int32]) -> str:
    content = json.dumps([[variable.name, variable.categories] for variable, _ in encoded]).encode()
    return hashlib.sha256(content + codes.tobytes()).hexdigest()
