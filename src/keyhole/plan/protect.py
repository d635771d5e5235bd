"""Apply a plan to its file: the released columns, the file, its codebook, and a log without values of records."""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import yaml
from numpy.typing import NDArray

from keyhole.data.columns import SourceOptions
from keyhole.data.frames import convert_frame, name_library
from keyhole.data.reading import read_records
from keyhole.data.source import read_table
from keyhole.data.variables import BLANK, Microdata
from keyhole.errors import InputError, SettingsError
from keyhole.files import explained, refuse_existing, sync, write_text
from keyhole.plan.planning import Plan
from keyhole.plan.recipe import Recipe, Recoded, load_plan
from keyhole.words import command_line, plural

FORMATS = (".csv", ".parquet")
CODEBOOK, LOG = ".codebook.yaml", ".log.txt"


@dataclass(frozen=True)
class Protected:
    """A released table. log: what was done, in lines; codebook: the published categories of the keys that are left."""

    frame: pl.DataFrame
    log: tuple[str, ...]
    codebook: Mapping[str, Any]
    command: tuple[str, ...]


def protect(
    source: Any,
    plan: Plan | Recipe | str | Path,
    *,
    out: str | Path | None = None,
    shuffle: bool = False,
    seed: int = 1,
    overwrite: bool = False,
) -> Any:
    """Apply a plan to the file that it was made for.

    Parameters
    ----------
    source
        The file or dataframe that was assessed.
    plan
        A plan, what `load_plan` returns, or the path of a plan.yaml.
    out
        A .csv or .parquet file to write, readable by its owner only, with a codebook and a log beside it. By default
        nothing is written.
    shuffle
        Put the rows in random order.
    seed
        Seed of this order.
    overwrite
        Replace the files.

    Returns
    -------
    dataframe
        The released table, in the library of `source` (polars for a file). Columns that are no keys are as they were.

    Raises
    ------
    InputError
        If the plan was made for other records, or is no plan.
    OutputError
        If a file exists or cannot be written.
    """
    path = None if out is None else check_path(Path(out), overwrite)
    found = apply_plan(source, plan if isinstance(plan, Recipe) else _recipe(plan), shuffle, seed, path)
    if path is not None:
        write_protected(found, path)
    return convert_frame(found.frame, name_library(source))


def _recipe(plan: Plan | str | Path) -> Recipe:
    return plan.recipe if isinstance(plan, Plan) else load_plan(plan)


def check_path(path: Path, overwrite: bool) -> Path:
    """Refuse a file that exists, or of a format that cannot be written."""
    if path.suffix.lower() not in FORMATS:
        raise SettingsError(f"`out` {path}: write to a file that ends in {' or '.join(FORMATS)}")
    for each in (path, path.with_suffix(LOG), path.with_suffix(CODEBOOK)):
        refuse_existing(each, overwrite)
    return path


def apply_plan(
    source: Any, recipe: Recipe, shuffle: bool = False, seed: int = 1, path: Path | None = None
) -> Protected:
    """Return the released table of a file, checked by the hash of its codes."""
    microdata = read_records(recipe.reading, source, "this plan")
    options = SourceOptions(None, recipe.reading.count, None, recipe.reading.user_missing, recipe.reading.na)
    frame = read_table(source, None, options).frame
    removed = np.isin(np.arange(1, microdata.rows + 1), recipe.remove)
    rows = np.flatnonzero(microdata.row_used & ~removed)
    _check_rows(recipe, microdata)
    codes = row_codes(microdata)
    log = []
    if microdata.rows > len(rows) + len(recipe.remove):
        log.append(f"{plural(microdata.rows - len(rows) - len(recipe.remove), 'row')} left out that were not assessed")
    columns: list[pl.Series] = []
    places = {key.name: j for j, key in enumerate(recipe.keys)}
    for name in frame.columns:
        if name not in places:
            columns.append(frame[name][rows])
            continue
        j = places[name]
        key, column = recipe.keys[j], frame[name]
        if key.groups is None:
            log.append(f"{name}: left out")
            continue
        blank = np.isin(rows + 1, recipe.blank.get(name, ()))
        coarser = name in recipe.reading.bands or name in recipe.reading.merge
        columns.append(_publish(column[rows], key, microdata, j, codes[rows, j], blank, coarser))
        log += _describe(key, blank)
    if recipe.remove:
        log.append(f"{plural(len(recipe.remove), 'record')} removed")
    released = pl.DataFrame(columns)
    if shuffle:
        released = released.sample(fraction=1.0, shuffle=True, seed=seed)
        log.append("rows in random order")
    log.append(f"{plural(len(rows), 'row')} and {plural(len(columns), 'column')} released")
    codebook = {
        variable.name: _published_categories(recipe.keys[j], variable.name in _ordered(recipe))
        for j, variable in enumerate(microdata.variables)
        if recipe.keys[j].groups is not None
    }
    return Protected(released, tuple(log), codebook, _command(recipe, codebook, path))


def row_codes(microdata: Microdata) -> NDArray[np.int32]:
    """Return the codes of each input row, -1 where it was not used."""
    codes = np.full((microdata.rows, len(microdata.variables)), -1, np.int32)
    codes[microdata.record_row] = microdata.cells[microdata.cell]
    return codes


def _check_rows(recipe: Recipe, microdata: Microdata) -> None:
    """Refuse rows of the plan that are no records."""
    named = {row for rows in recipe.blank.values() for row in rows} | set(recipe.remove)
    used = microdata.row_used
    wrong = next((row for row in sorted(named) if not (1 <= row <= len(used) and used[row - 1])), None)
    if wrong is not None:
        raise InputError(f"the plan names row {wrong}, which is no record of the file: make the plan again.")


def _publish(
    column: pl.Series,
    key: Recoded,
    microdata: Microdata,
    j: int,
    codes: NDArray[np.int32],
    blank: NDArray[np.bool_],
    coarser: bool,
) -> pl.Series:
    """Return a key as it is released; without merged categories its values stay as they were written.

    coarser: whether the assessment already saw it in bands or with merged categories.
    """
    if key.unchanged and not coarser:
        return column.set(pl.Series(blank), None) if blank.any() else column
    published = key.published
    texts = [published[code] or None for code in microdata.variables[j].categories]
    # The last entry is the one that -1, an answer left to the model, finds.
    return pl.Series(column.name, [*texts, None], dtype=pl.String)[np.where(blank, -1, codes) % (len(texts) + 1)]


def _describe(key: Recoded, blank: NDArray[np.bool_]) -> list[str]:
    groups = key.groups or ()
    before = sum(len(codes) for _, codes in groups)
    found = [] if key.unchanged else [f"{key.name}: {before} categories merged into {len(groups)}"]
    return found + ([f"{key.name}: {plural(int(blank.sum()), 'value')} blanked"] if blank.any() else [])


def _ordered(recipe: Recipe) -> set[str]:
    return {variable.name for variable in recipe.reading.variables if variable.ordered}


def _published_categories(key: Recoded, ordered: bool) -> dict[str, Any]:
    """Return the entry of a key in the codebook of the release: its categories in order, without the blank."""
    return {"categories": [name for name, _ in key.groups or () if name != BLANK], "ordered": ordered}


def _command(recipe: Recipe, codebook: Mapping[str, Any], path: Path | None) -> tuple[str, ...]:
    """Return the command that assesses the release."""
    missing = "model" if recipe.blank else recipe.reading.missing
    words = ["keyhole", "assess", str(path or "FILE"), "--keys", ",".join(codebook)]
    words += ["--population", str(recipe.population)]
    words += [] if path is None else ["--codebook", str(path.with_suffix(CODEBOOK))]
    words += [] if missing == "category" else ["--missing", missing]
    words += [] if recipe.reading.count is None else ["--count", recipe.reading.count]
    return tuple(words)


def write_protected(found: Protected, path: Path) -> None:
    """Write the file, its codebook and the log, readable by their owner only."""
    write_frame(found.frame, path)
    book = yaml.safe_dump(dict(found.codebook), sort_keys=False, allow_unicode=True, default_flow_style=None, width=118)
    write_text(book, path.with_suffix(CODEBOOK))
    write_text("\n".join([*found.log, f"assess it with: {command_line(found.command)}", ""]), path.with_suffix(LOG))


def write_frame(frame: pl.DataFrame, path: Path) -> None:
    """Write a table atomically, as CSV in UTF-8 or Parquet by its ending."""
    with explained(path):
        handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.absolute().parent)
        os.close(handle)
        try:
            # The file exists already, with mode 0600, and keeps it.
            if path.suffix.lower() == ".parquet":
                frame.write_parquet(name)
            else:
                frame.write_csv(name)
            sync(Path(name))
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        sync(path.absolute().parent)
