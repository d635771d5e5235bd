"""From a file or a dataframe to Microdata."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from keyhole.errors import InputError
from keyhole.microdata.categories import encode_column
from keyhole.microdata.codebook import read_codebook
from keyhole.microdata.columns import check_keys, find_columns
from keyhole.microdata.delimited import read_delimited
from keyhole.microdata.opening import OpenedFile, open_file
from keyhole.microdata.variables import Microdata


def read_microdata(
    source: Any,
    keys: str | Sequence[str],
    codebook: str | Path | Mapping[str, Any] | None = None,
    allow_identifier: Sequence[str] = (),
) -> Microdata:
    """Read a file (CSV, TSV, Parquet) or a dataframe of any library.

    Blank values are a category of their own, the last one. `allow_identifier` names keys that are accepted
    although nearly all their values differ.
    """
    names = check_keys(keys)
    for name in set(allow_identifier) - set(names):
        raise InputError(f"--allow-identifier {name}: it is not one of the keys.")
    book = read_codebook(codebook)
    fingerprint = None
    if isinstance(source, str | Path):
        opened = open_file(Path(source))
        where, fingerprint = str(source), opened.fingerprint
        frame = _read_parquet(opened, names) if opened.kind == "parquet" else read_delimited(opened, names)
    else:
        where, frame = "the dataframe", _read_dataframe(source, names)
    if frame.height < 2:
        told = "a header but no record" if frame.height == 0 else "a single record"
        raise InputError(f"{where} has {told}: at least two records are needed.")
    encoded = [encode_column(frame[name], book.get(name), where, name in allow_identifier) for name in names]
    kept = [(variable, codes) for variable, codes in encoded if len(variable.categories) > 1]
    codes = np.empty((frame.height, len(kept)), dtype=np.int32)
    for j, (_, column) in enumerate(kept):
        codes[:, j] = column
    variables = tuple(variable for variable, _ in kept)
    constant = tuple(variable for variable, _ in encoded if len(variable.categories) < 2)
    if fingerprint is None:
        content = json.dumps([[variable.name, variable.categories] for variable, _ in encoded]).encode()
        fingerprint = hashlib.sha256(content + codes.tobytes()).hexdigest()
    return Microdata(
        variables=variables,
        codes=codes,
        rows=frame.height,
        row_used=np.ones(frame.height, dtype=np.bool_),
        ignored=tuple(variable.name for variable in constant),
        fingerprint=fingerprint,
        ignored_variables=constant,
    )


def _read_parquet(opened: OpenedFile, keys: Sequence[str]) -> pl.DataFrame:
    try:
        lazy = pl.scan_parquet(opened.path, glob=False)
        header = lazy.collect_schema().names()
        find_columns(header, keys, str(opened.path))
        return lazy.select(keys).collect(engine="streaming")
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        raise InputError(f"{opened.path} is not a readable Parquet file: it may be cut off or damaged.") from None


def _read_dataframe(source: Any, keys: Sequence[str]) -> pl.DataFrame:
    """Take the keys from a dataframe of pandas, polars, pyarrow or another library that narwhals knows."""
    import narwhals.stable.v2 as nw

    try:
        data = nw.from_native(source)
    except TypeError:
        raise InputError(
            f"data of type {type(source).__name__} cannot be read: give the path of a file or a dataframe."
        ) from None
    except Exception:
        # pandas with two columns of one name, for instance; the library's own message may quote values.
        raise InputError("the dataframe cannot be read: are two of its columns named alike?") from None
    find_columns(data.collect_schema().names(), keys, "the dataframe")
    try:
        chosen = data.select(*keys)
        eager = chosen.collect(backend="polars") if isinstance(chosen, nw.LazyFrame) else chosen
        return eager.to_polars()
    except Exception:
        # Columns of mixed Python objects; the library's own message may quote a value.
        raise InputError("the dataframe cannot be read: make its key columns text or numbers.") from None
