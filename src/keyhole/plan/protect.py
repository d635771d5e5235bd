"""Apply a plan to its file: the released columns, the file, its codebook, and a log without values of records."""

import os
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import yaml
from numpy.typing import NDArray

from keyhole.data.categories import is_text
from keyhole.data.columns import SourceOptions, find_columns
from keyhole.data.frames import convert_frame, name_library
from keyhole.data.na import DEFAULT, blank_keys
from keyhole.data.order import note_order
from keyhole.data.reading import read_records
from keyhole.data.source import holds_text, read_table
from keyhole.data.variables import BLANK, Microdata, Table, Variable
from keyhole.errors import InputError, SettingsError, TelltaleWarning
from keyhole.files import explained, refuse_existing, sync, write_text
from keyhole.plan.others import Change, Telltale, find_telltale, rank_values
from keyhole.plan.planning import Plan
from keyhole.plan.recipe import Recipe, Recoded, load_plan
from keyhole.words import as_flags, command_line, enumerate_words, plural

FORMATS = (".csv", ".parquet")
CODEBOOK, LOG = ".codebook.yaml", ".log.txt"
NOT_STATED = "not stated"
"""What a value is called that was blank in the file, if other values of its key are blanked."""


@dataclass(frozen=True)
class Protected:
    """A released table.

    frame: as text where the file is text; typed: the same with numbers, for formats that have types.
    log: what was done, in lines; codebook: the published categories of the keys that are left; missing: what blanks of
    the release are to an assessment; command: that assesses it; telltale: columns that may undo the plan.
    """

    frame: pl.DataFrame
    typed: pl.DataFrame
    log: tuple[str, ...]
    codebook: Mapping[str, Any]
    missing: str
    command: tuple[str, ...]
    telltale: Telltale


def protect(
    source: Any,
    plan: Plan | Recipe | str | Path,
    *,
    out: str | Path | None = None,
    shuffle: bool = False,
    seed: int = 1,
    overwrite: bool = False,
    drop_columns: str | Iterable[str] = (),
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
    drop_columns
        Columns that are no keys and are left out, as a list or separated by commas.

    Returns
    -------
    dataframe
        The released table, in the library of `source` (polars for a file). Columns that are no keys are as they were;
        those of a text file are numbers where all of their values are written as numbers usually are.

    Raises
    ------
    InputError
        If the plan was made for other records, or is no plan.
    OutputError
        If a file exists or cannot be written.

    Warns
    -----
    TelltaleWarning
        If columns that are no keys look like identifiers, or tell the original values of a key that is changed.
    """
    path = None if out is None else check_path(Path(out), overwrite)
    recipe = plan if isinstance(plan, Recipe) else _recipe(plan)
    found = apply_plan(source, recipe, shuffle, seed, path, drop_columns)
    if path is not None:
        write_protected(found, path)
    if found.telltale.sentence:
        warnings.warn(found.telltale.sentence, TelltaleWarning, stacklevel=2)
    return convert_frame(found.typed, name_library(source))


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
    source: Any,
    recipe: Recipe,
    shuffle: bool = False,
    seed: int = 1,
    path: Path | None = None,
    drop_columns: str | Iterable[str] = (),
) -> Protected:
    """Return the released table of a file, checked by the hash of its codes."""
    microdata = read_records(recipe.reading, source, "this plan")
    options = SourceOptions(None, recipe.reading.count, None, recipe.reading.user_missing, recipe.reading.na)
    table = read_table(source, None, options)
    frame = table.frame
    dropped = _check_dropped(drop_columns, recipe, table)
    removed = np.isin(np.arange(1, microdata.rows + 1), recipe.remove)
    rows = np.flatnonzero(microdata.row_used & ~removed)
    _check_rows(recipe, microdata)
    codes = row_codes(microdata)[rows]
    blank = {
        key.name: np.isin(rows + 1, recipe.blank.get(key.name, ())) for key in recipe.keys if key.groups is not None
    }
    stated = _name_blanks(recipe, microdata, codes, blank)
    log = []
    if microdata.rows > len(rows) + len(recipe.remove):
        log.append(f"{plural(microdata.rows - len(rows) - len(recipe.remove), 'row')} left out that were not assessed")
    columns: list[pl.Series] = []
    places = {key.name: j for j, key in enumerate(recipe.keys)}
    for name in frame.columns:
        if name not in places:
            if name in dropped:
                log.append(f"{name}: left out, as asked")
            else:
                columns.append(frame[name][rows])
            continue
        j = places[name]
        key, column = recipe.keys[j], frame[name]
        if key.groups is None:
            log.append(f"{name}: left out")
            continue
        coarser = name in recipe.reading.bands or name in recipe.reading.merge
        columns.append(
            _publish(
                column[rows], key, microdata.variables[j], codes[:, j], blank[name], coarser, stated.get(name, BLANK)
            )
        )
        log += _describe(key, blank[name], stated.get(name), _count_blank(microdata.variables[j], codes[:, j]))
    if recipe.remove:
        log.append(f"{plural(len(recipe.remove), 'record')} removed")
    released = pl.DataFrame(columns)
    if shuffle:
        released = released.sample(fraction=1.0, shuffle=True, seed=seed)
        log.append("rows in random order")
    log.append(f"{plural(len(rows), 'row')} and {plural(len(columns), 'column')} released")
    design, lost = _keep_design(recipe, [column.name for column in columns])
    log += [lost] if lost else []
    telltale = _find_telltale(recipe, table, microdata, codes, blank, rows, dropped)
    log += [telltale.sentence] if telltale.sentence else []
    codebook = {
        variable.name: _published_categories(recipe, j, stated.get(variable.name))
        for j, variable in enumerate(microdata.variables)
        if recipe.keys[j].groups is not None
    }
    missing = "model" if any(found.any() for found in blank.values()) else recipe.reading.missing
    return Protected(
        frame=released,
        typed=read_numbers(released) if holds_text(source) else released,
        log=tuple(log),
        codebook=codebook,
        missing=missing,
        command=_command(recipe, codebook, path, missing, design),
        telltale=telltale,
    )


def _check_dropped(drop_columns: str | Iterable[str], recipe: Recipe, table: Table) -> set[str]:
    """Return the columns to be left out; refuse keys, and what the table does not have."""
    given = drop_columns.split(",") if isinstance(drop_columns, str) else drop_columns
    names = {str(name).strip() for name in given} - {""}
    key = next((key.name for key in recipe.keys if key.name in names), None)
    if key is not None:
        raise InputError(f"`drop_columns` {key}: it is a key, and the plan says what becomes of it: change plan.yaml.")
    if recipe.reading.count in names:
        raise InputError(f"`drop_columns` {recipe.reading.count}: it counts the records of each row; keep it.")
    find_columns(table.header, sorted(names), f"{table.where}: `drop_columns`")
    return names


def _name_blanks(
    recipe: Recipe, microdata: Microdata, codes: NDArray[np.int32], blank: Mapping[str, NDArray[np.bool_]]
) -> dict[str, str]:
    """Return what a blank of the file is called in each key that has a category for it, if values are blanked.

    The assessment of the release leaves blanks to the model, so those of the file have to be told from them: a key of
    which no value is blanked keeps them, listed in its codebook; in others they get a name.
    """
    if not any(found.any() for found in blank.values()):
        return {}
    named = {}
    for j, key in enumerate(recipe.keys):
        published = set(key.published.values())
        if BLANK not in published:
            continue
        if not blank[key.name].any():
            named[key.name] = BLANK
            continue
        name, number = NOT_STATED, 2
        while name in published or name in microdata.variables[j].categories:
            name, number = f"{NOT_STATED} {number}", number + 1
        named[key.name] = name
    return named


def _count_blank(variable: Variable, codes: NDArray[np.int32]) -> int:
    place = variable.categories.index(BLANK) if BLANK in variable.categories else None
    return 0 if place is None else int((codes == place).sum())


def _find_telltale(
    recipe: Recipe,
    table: Table,
    microdata: Microdata,
    codes: NDArray[np.int32],
    blank: Mapping[str, NDArray[np.bool_]],
    rows: NDArray[np.int64],
    dropped: set[str],
) -> Telltale:
    """Find the columns that may undo the plan among those that are no keys."""
    changes = []
    for j, key in enumerate(recipe.keys):
        place = {name: g for g, (name, _) in enumerate(key.groups or ())}
        group = np.array([place.get(key.published.get(code, ""), -1) for code in microdata.variables[j].categories])
        # The last entry is the one that -1, an answer left to the model, finds.
        published = np.append(group, -1)[codes[:, j]].astype(np.int64)
        if key.name in recipe.reading.bands or key.name in recipe.reading.merge:
            # What was divided into bands or merged before the assessment is told as well by what tells the number.
            changes.append(Change(key.name, rank_values(table.frame[key.name][rows])[0], published))
        elif not key.unchanged:
            changes.append(Change(key.name, codes[:, j].astype(np.int64), published))
        if key.groups is not None and blank[key.name].any():
            changes.append(Change(key.name, published, np.zeros(len(rows), np.int64)))
    keys = {key.name for key in recipe.keys}
    names = [name for name in table.frame.columns if name not in keys | dropped and name != recipe.reading.count]
    frame, _ = blank_keys(table, names, {}, recipe.reading.na)
    return find_telltale(table, frame, changes, rows)


def read_numbers(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a table of texts with numbers where all values of a column are written as those numbers would be."""
    return frame.with_columns([_read_number(frame[name]) for name in frame.columns])


def _read_number(column: pl.Series) -> pl.Series:
    if column.dtype != pl.String or column.null_count() == len(column):
        return column
    for kind in (pl.Int64, pl.Float64):
        number = column.cast(kind, strict=False)
        if number.null_count() == column.null_count() and number.cast(pl.String).equals(column):
            return number
    return column


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
    variable: Variable,
    codes: NDArray[np.int32],
    blank: NDArray[np.bool_],
    coarser: bool,
    stated: str,
) -> pl.Series:
    """Return a key as it is released; without merged categories its values stay as they were written.

    coarser: whether the assessment already saw it in bands or with merged categories; stated: what a blank of the file
    is called.
    """
    if key.unchanged and not coarser and (not stated or is_text(column.dtype)):
        column = column.cast(pl.String) if stated else column
        was_blank = codes == (variable.categories.index(BLANK) if stated else -2)
        column = column.set(pl.Series(was_blank), stated) if was_blank.any() else column
        return column.set(pl.Series(blank), None) if blank.any() else column
    published = key.published
    texts = [published[code] or stated or None for code in variable.categories]
    # The last entry is the one that -1, an answer left to the model, finds.
    return pl.Series(column.name, [*texts, None], dtype=pl.String)[np.where(blank, -1, codes) % (len(texts) + 1)]


def _describe(key: Recoded, blank: NDArray[np.bool_], stated: str | None, blanks: int) -> list[str]:
    groups = key.groups or ()
    before = sum(len(codes) for _, codes in groups)
    found = [] if key.unchanged else [f"{key.name}: {before} categories merged into {len(groups)}"]
    found += [f"{key.name}: {plural(int(blank.sum()), 'value')} blanked"] if blank.any() else []
    if stated:
        were = "value that was" if blanks == 1 else "values that were"
        found.append(f"{key.name}: {blanks:,} {were} blank in the file released as '{stated}', a category of its own")
    elif stated == BLANK:
        found.append(f"{key.name}: blank is a category of its own, which the codebook lists; no value was blanked")
    return found


def _published_categories(recipe: Recipe, j: int, stated: str | None) -> dict[str, Any]:
    """Return the entry of a key in the codebook of the release: its categories in order.

    stated: what a blank of the file is called if it is a category there.
    """
    key, variable = recipe.keys[j], recipe.reading.variables[j]
    categories = [name or stated for name, _ in key.groups or () if name != BLANK or stated is not None]
    entry: dict[str, Any] = {"categories": [name or BLANK for name in categories], "ordered": variable.ordered}
    # Said to be ordered, all names would be; by its numbers a key is, without the name of the blanks.
    if stated and variable.ordered and note_order(Variable(key.name, tuple(entry["categories"])), listed=True).ordered:
        del entry["ordered"]
    missing = [text for text in recipe.reading.met.get(key.name, ()) if text not in categories]
    coarser = key.name in recipe.reading.bands or key.name in recipe.reading.merge
    if missing and key.unchanged and not coarser:
        entry["missing"] = missing
    return entry


def _keep_design(recipe: Recipe, columns: Sequence[str]) -> tuple[list[str], str]:
    """Return the options that say how the sample was drawn, and what is said if the release cannot say it any more."""
    design = recipe.design
    if not design:
        return [], ""
    needed = [*design.get("strata", ()), *([design["weight"]] if "weight" in design else [])]
    changed = [key.name for key in recipe.keys if not key.unchanged or recipe.blank.get(key.name)]
    gone = [name for name in needed if name not in columns or name in changed]
    if gone:
        return [], (
            f"the release does not hold {enumerate_words(gone)} as it was, so its assessment takes it for a simple "
            "random sample, which the plan did not"
        )
    words = [word for name in design.get("strata", ()) for word in ("--strata", name)]
    for name in ("strata_sizes", "weight", "weight_classes"):
        words += [f"--{name.replace('_', '-')}", str(design[name])] if name in design else []
    # Sizes that were given as a dataframe are in no file.
    words += [] if {"strata_sizes", "weight"} & set(design) else ["--strata-sizes", "SIZES.csv"]
    return words, ""


def _command(
    recipe: Recipe, codebook: Mapping[str, Any], path: Path | None, missing: str, design: Sequence[str]
) -> tuple[str, ...]:
    """Return the command that assesses the release; missing: what its blanks are."""
    words = ["keyhole", "assess", str(path or "FILE"), "--keys", ",".join(codebook)]
    # Strata have people of their own, which are fewer without the weights of records that are removed.
    words += design or ["--population", str(recipe.population)]
    words += [] if path is None else ["--codebook", str(path.with_suffix(CODEBOOK))]
    words += [] if missing == "category" else ["--missing", missing]
    words += [] if recipe.reading.count is None else ["--count", recipe.reading.count]
    words += _na_words(recipe.reading.na)
    return tuple(words)


def _na_words(na: Sequence[str] | None) -> list[str]:
    """Return the options that say which texts mean missing, if they are not the usual ones."""
    if na is None or {BLANK, *na} == set(DEFAULT):
        return []
    texts = [text for text in na if text != BLANK] or [BLANK]
    return [word for text in texts for word in ("--na", text)]


def write_protected(found: Protected, path: Path) -> None:
    """Write the file, its codebook and the log, readable by their owner only."""
    write_frame(found.typed if path.suffix.lower() == ".parquet" else found.frame, path)
    book = yaml.safe_dump(dict(found.codebook), sort_keys=False, allow_unicode=True, default_flow_style=None, width=118)
    write_text(book, path.with_suffix(CODEBOOK))
    log = [as_flags(line) for line in found.log]
    write_text("\n".join([*log, f"assess it with: {command_line(found.command)}", ""]), path.with_suffix(LOG))


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
