"""Read a source as Microdata: key variables with their categories, and one row of integers for each record."""

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
from keyhole.data.categories import (
    describe_spelling,
    distinct_values,
    encode_column,
    find_missing_codes,
    is_blank,
    read_counts,
    value_texts,
)
from keyhole.data.cells import find_cells
from keyhole.data.codebook import find_strangers, read_codebook, settle_missing
from keyhole.data.columns import SourceOptions, check_keys
from keyhole.data.decimals import write_points
from keyhole.data.design import check_extra_columns, name_extra_columns
from keyhole.data.na import blank_keys
from keyhole.data.order import mark_order, note_order
from keyhole.data.recoding import merge_key
from keyhole.data.source import read_table
from keyhole.data.strata import class_weights, code_strata
from keyhole.data.variables import Microdata, Table, Variable
from keyhole.errors import CodebookError, InputError

HASHED_AT_ONCE = 1_000_000
COUNT_CELLS = "COUNT(*)"
"""How summary and manifest say that the database counted the records of each cell."""


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
    strata: Sequence[str] = (),
    weight_classes: int | None = None,
) -> Microdata:
    """Read a file of any known format, a dataframe of any library, or (with options.query) a database.

    allow_identifier: keys to accept although nearly all their values differ.
    missing: blanks are the last category of their key (category), their record is dropped (drop), or they are encoded
    as -1 and only records without any answer are dropped (model).
    weight, household: further columns to read, for `Microdata.extra`; strata, weight_classes: columns of strata, or how
    many classes of weights to make, for `Microdata.strata_columns`.
    """
    names = check_keys(keys)
    for name in set(allow_identifier) - set(names):
        raise InputError(f"`allow_identifier` {name}: it is not one of the keys; correct the name or omit it.")
    options = options or SourceOptions()
    options.check(names)
    bands = read_bands(options.bands)
    book = settle_missing(read_codebook(codebook), options.user_missing)
    # Keys and other columns are read together, since a query without ORDER BY may return another order next time.
    further = [name for name in strata if name not in names]
    own = [name for name in strata if name in names]
    others = [*name_extra_columns(weight, household, options, strata), *further]
    others += [] if options.count_column is None else [options.count_column]
    table = read_table(source, list(dict.fromkeys([*names, *others])), options, keys=names)
    labelled = [name for name in names if name in table.labels or name in bands]
    header = table.header if not options.count_cells else (*names, *book)  # which then has the keys alone
    strangers = find_strangers(book, header, [name for name in names if name not in labelled])
    book = write_points(book, table.decimal_comma)
    row_records = None
    if options.count_column is not None:
        row_records = read_counts(table.frame[options.count_column], table.where)
    frame, na = blank_keys(table, names, book, options.na)
    present = np.ones(frame.height, dtype=np.bool_)
    for name in names if missing == "drop" else ():
        present &= ~is_blank(frame[name])
    records = _count_records(table, present, row_records)
    rows = np.flatnonzero(present)
    whole = frame
    frame = frame.filter(pl.Series(present)) if len(rows) < len(present) else frame
    encoded: list[tuple[Variable, NDArray[Any]]] = []
    merged = {}
    for name in names:
        insist = name in allow_identifier
        variable, codes = encode_key(frame[name], table, book, bands.get(name), rows, records, missing, insist)
        if name in (options.merge or {}):
            variable, codes, merged[name] = merge_key(variable, codes, (options.merge or {})[name])
        # Two bytes for each answer rather than four: ten keys of ten million records stay below 200 MB.
        narrow = len(variable.categories) <= np.iinfo(np.int16).max
        encoded.append((variable, codes.astype(np.int16) if narrow else codes))
    strata_keys = {name: code_all_rows(whole[name], rows, encoded[names.index(name)][1]) for name in own}
    used = present if row_records is None else present & (row_records > 0)
    kept = [(variable, codes) for variable, codes in encoded if len(variable.categories) > 1]
    constant = tuple(variable for variable, _ in encoded if len(variable.categories) < 2)
    if row_records is None:
        cells, cell = find_cells([code for _, code in kept], records)
    else:
        counted = used[rows]  # cells without a record do not occur
        cells, cell = find_cells([code[counted] for _, code in kept], int(counted.sum()))
        cell = np.repeat(cell, row_records[rows[counted]])
    extra = check_extra_columns(table.frame, table.where, weight, household)
    columns = {name: code_strata(table.frame[name], table.where, table.labels.get(name)) for name in further}
    if weight_classes is not None and weight is not None and extra.weight is not None:
        columns[weight] = class_weights(extra.weight, weight, weight_classes)
    dropped = len(present) - len(rows) if row_records is None else int(row_records[~present].sum())
    content = json.dumps([[variable.name, variable.categories] for variable, _ in encoded]).encode()
    microdata = Microdata(
        variables=tuple(variable for variable, _ in kept),
        cells=cells,
        cell=cell,
        rows=len(present),
        row_used=used,
        ignored=tuple(variable.name for variable in constant),
        fingerprint=table.fingerprint or _hash_records(content, cells, cell),
        ignored_variables=constant,
        row_records=row_records,
        extra=extra,
        strata_columns=columns,
        strata_keys=strata_keys,
        reading={
            "count": COUNT_CELLS if options.count_cells else options.count,
            "bands": {name: entry.text for name, entry in bands.items()},
            "merge": merged,
            "user_missing": options.user_missing,
            "na": na,
            "dropped": dropped,
            "decimal_comma": [name for name in table.frame.columns if name in table.decimal_comma],
            "codebook_strangers": strangers,
            "missing_codes": {name: found for name in names if (found := suspect_codes(frame[name], table, book))},
            "spelling": {
                variable.name: hint
                for variable, _ in encoded
                if not variable.declared and (hint := describe_spelling(variable.categories))
            },
        },
    )
    return microdata if missing != "model" else _drop_blank(microdata, table)


def suspect_codes(column: pl.Series, table: Table, book: Mapping[str, Variable]) -> list[str]:
    """Return the numbers of a key that look like codes for missing, unless something says what its categories are."""
    name = column.name
    if name in book or name in table.labels or name in table.user_missing:
        return []
    _, values = distinct_values(column, table.where)
    return find_missing_codes(value_texts(values))


def encode_key(
    column: pl.Series,
    table: Table,
    book: Mapping[str, Variable],
    bands: Bands | None,
    rows: NDArray[np.int64],
    records: int,
    missing: Literal["category", "drop", "model"],
    insist: bool = False,
) -> tuple[Variable, NDArray[np.int32]]:
    """Return a key with its categories in order, and the category of each row; insist: although it looks identifying.

    column: the key without what means missing; rows: the input row of each value, from 0.
    """
    name = column.name
    categories, labels = choose_labels(name, table, book)
    if bands is not None:
        column, categories = band_column(column, table, book.get(name), bands, rows)
        labels = None
    variable, codes = encode_column(column, categories, labels, table.where, rows, records, insist, missing == "model")
    marked = mark_order(name, book, table, bands is not None)
    return note_order(variable, list_declared(name, table, book.get(name)), marked, listed=name in book), codes


def choose_labels(name: str, table: Table, book: Mapping[str, Variable]) -> tuple[Variable | None, Variable | None]:
    """Return the codebook's categories of a key, if it lists all of them, and its labels, of codebook or file."""
    found = book.get(name)
    if found is None or not found.partial:
        return found, table.labels.get(name)
    return None, found if found.categories else None


def list_declared(name: str, table: Table, book: Variable | None) -> frozenset[str]:
    """Return the codes that codebook or file declare missing and that are categories all the same."""
    return table.user_missing.get(name, frozenset()).union(() if book is None else book.user_missing)


def code_all_rows(column: pl.Series, rows: NDArray[np.int64], codes: NDArray[Any]) -> NDArray[np.int32]:
    """Return the category of every input row from those of these rows; -1 where none of them has the same value."""
    if len(rows) == len(column):
        return codes.astype(np.int32)
    pairs = pl.DataFrame({"value": column.gather(rows), "code": codes.astype(np.int32)}).unique().drop_nulls()
    found = column.replace_strict(pairs["value"], pairs["code"], default=-1, return_dtype=pl.Int32)
    return found.to_numpy().astype(np.int32)


def _hash_records(content: bytes, cells: NDArray[np.int32], cell: NDArray[np.int32]) -> str:
    """Return the SHA-256 of the categories and the codes of all records, in their order."""
    digest = hashlib.sha256(content)
    for start in range(0, len(cell), HASHED_AT_ONCE):
        digest.update(cells[cell[start : start + HASHED_AT_ONCE]].tobytes())
    return digest.hexdigest()


def _drop_blank(microdata: Microdata, table: Table) -> Microdata:
    """Drop records without any answer, which cannot be compared with others."""
    known: NDArray[np.bool_] = np.any(microdata.cells >= 0, axis=1)
    answered = known[microdata.cell]
    if not microdata.variables or answered.all():
        return microdata
    if answered.sum() < 2:
        raise InputError(f"{table.where} has fewer than two records with an answer to a key: use `missing` category.")
    dropped = microdata.reading["dropped"] + int((~answered).sum())
    kept = microdata.keep(answered)
    return replace(kept, reading={**kept.reading, "dropped": dropped})


def _count_records(table: Table, present: NDArray[np.bool_], row_records: NDArray[np.int64] | None) -> int:
    records = int(present.sum() if row_records is None else row_records[present].sum())
    if records >= 2:
        return records
    total = len(present) if row_records is None else int(row_records.sum())
    if total >= 2:
        raise InputError(f"{table.where} has fewer than two records without a blank key: use `missing` category.")
    content = ("a header but no record", "a single record")[total]
    raise InputError(f"{table.where} has {content}: at least two records are needed.")


def band_column(
    column: pl.Series, table: Table, book: Variable | None, bands: Bands, rows: NDArray[np.int64]
) -> tuple[pl.Series, Variable]:
    """Return a key in bands, and the bands as its categories; codes declared missing stay separate categories."""
    name = column.name
    declared = list_declared(name, table, book)
    book, labels = choose_labels(name, table, {} if book is None else {name: book})
    label = {} if labels is None or labels.labels is None else dict(zip(labels.categories, labels.labels, strict=True))
    special = {code: label.get(code) or code for code in declared}
    column, banded = cut(column, bands, special, table.where, rows)
    if book is not None and set(banded.categories) - set(book.categories):
        raise CodebookError(f"the codebook lists '{name}' as it is before `bands`: list its bands there, or remove it.")
    return column, book or banded
