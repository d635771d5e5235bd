"""The records of a run again: from the data, checked by the hash of their codes, or from the keys that were kept.

A result folder holds the stored draws and the boxes of the rules. With the records they give what a coarser release
needs, so that what-if is answered from a folder as from a fresh run, to the bit.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from keyhole.data import Microdata, Variable, find_cells
from keyhole.data.columns import COUNTED
from keyhole.data.order import NOTHING
from keyhole.data.reading import Reading, fingerprint_codes, read_records
from keyhole.data.strata import Strata, number_strata
from keyhole.errors import InputError, OutputError
from keyhole.risk.release import Posterior
from keyhole.sampling.predict import make_draw
from keyhole.sampling.trace import Draws
from keyhole.zeros import Zeros
from keyhole.zeros.boxes import make_grid

if TYPE_CHECKING:
    from keyhole.results.assessment import Assessment

KEYS = "keys.parquet"
"""The encoded keys of the records, kept on request."""

STRATUM = "keyhole_stratum "
"""What the names of columns of strata begin with in this file, since they may be called like keys."""


def write_keys(microdata: Microdata, path: Path) -> None:
    """Write the number of the category of each key, one row for each input row; empty where it was not used."""
    rows = np.flatnonzero(microdata.row_used)
    _, first = np.unique(microdata.record_row, return_index=True)  # a row of a table of cells has several records
    columns = {}
    for j, variable in enumerate(microdata.variables):
        codes = np.zeros(microdata.rows, np.int32)
        codes[rows] = microdata.cells[microdata.cell[first], j]
        columns[variable.name] = pl.Series(codes).set(pl.Series(~microdata.row_used), None)
    for name, (_, codes) in microdata.strata_columns.items():
        columns[f"{STRATUM}{name}"] = pl.Series(codes)
    if microdata.row_records is not None:
        columns[COUNTED] = pl.Series(microdata.row_records)
    pl.DataFrame(columns).write_parquet(path)


def read_keys(assessment: "Assessment", path: Path) -> Microdata:
    """Return the records that `write_keys` was given."""
    frame = pl.read_parquet(path, glob=False)
    variables = _variables(assessment)
    used = _used(assessment)
    row_records = frame[COUNTED].to_numpy() if COUNTED in frame.columns else None
    times = None if row_records is None else row_records[used]
    columns = [frame[variable.name].filter(pl.Series(used)).to_numpy() for variable in variables]
    columns = columns if times is None else [np.repeat(column, times) for column in columns]
    cells, cell = find_cells(columns, int(used.sum() if times is None else times.sum()))
    strata = {}
    for name in frame.columns:
        if name.startswith(STRATUM):
            codes = frame[name].to_numpy()
            numbers = tuple(str(x) for x in range(int(codes.max(initial=0)) + 1))
            strata[name.removeprefix(STRATUM)] = Variable(name, numbers), codes
    microdata = Microdata(
        variables=variables,
        cells=cells,
        cell=cell,
        rows=len(used),
        row_used=used,
        ignored=tuple(assessment.manifest["input"]["ignored_keys"]),
        fingerprint=assessment.manifest["input"]["sha256"],
        row_records=row_records,
        reading={"count": assessment.manifest["input"]["count"]},
        strata_columns=strata,
    )
    if fingerprint_codes(microdata) != assessment.manifest["input"]["codes"]:
        raise OutputError(f"{path} is not as it was written: run the assessment again.")
    return microdata


def describe_reading(assessment: "Assessment") -> Reading:
    """Return how the records of a run were read."""
    about = assessment.manifest["input"]
    if "codes" not in about or not assessment.summary.attribution.variables:
        raise OutputError(
            "this result was written by a version of keyhole that stored less than what-if needs: run the assessment "
            "again."
        )
    return Reading(
        codes=about["codes"],
        rows=about["rows"],
        unused=tuple((np.flatnonzero(~_used(assessment)) + 1).tolist()),
        variables=_variables(assessment),
        ignored=tuple(about["ignored_keys"]),
        met=about["na"]["met"],
        count=about["count"],
        bands=about["bands"],
        user_missing=about["user_missing"],
        na=about["na"]["texts"],
        missing=assessment.summary.settings.missing,
        merge=about.get("merge", {}),
        strata=design_of_strata(assessment),
    )


def read_again(assessment: "Assessment", data: Any) -> Microdata:
    """Read the data of the run as it read them; refuse other data."""
    return read_records(describe_reading(assessment), data)


def restore_posterior(assessment: "Assessment", microdata: Microdata) -> Posterior:
    """Return what evaluating a coarser release needs, as the run had it."""
    settings = assessment.manifest["settings"]
    strata = restore_strata(assessment, microdata)
    further = 0 if strata is None or not strata.further_levels else 1
    return Posterior(
        microdata,
        _restore_zeros(assessment.boxes, microdata),
        assessment.manifest["population"] - microdata.records,
        _restore_draws(assessment.profiles, assessment.summary.model.name != "hdp", len(microdata.variables) + further),
        settings["seed"],
        settings["workers"],
        assessment.grade,
        strata,
    )


def describe_strata(strata: Strata | None) -> dict[str, Any]:
    """Return what manifest.json holds of the strata: their columns and the people in each, in their order."""
    if strata is None:
        return {}
    return {"strata": {"kind": strata.kind, "columns": list(strata.columns), "people": strata.people.tolist()}}


def design_of_strata(assessment: "Assessment") -> dict[str, Any]:
    """Return the options with which the columns of the strata are read again."""
    about = assessment.manifest["design"].get("strata")
    if about is None:
        return {}
    if about["kind"] == "strata":
        return {"strata": about["columns"]}
    return {"weight": about["columns"][0], "weight_classes": assessment.manifest["asked"]["weight_classes"]}


def describe_design(assessment: "Assessment") -> dict[str, Any]:
    """Return the options of the run that say how the sample was drawn, for the assessment of a release."""
    if assessment.manifest["design"].get("strata") is None:
        return {}
    asked = assessment.manifest["asked"]
    names = ("strata", "strata_sizes", "weight_classes")
    options = {name: asked[name] for name in names if asked.get(name)} | {
        "weight": assessment.manifest["design"]["weight"]
    }
    return {name: value for name, value in options.items() if value is not None}


def restore_strata(assessment: "Assessment", microdata: Microdata) -> Strata | None:
    """Return the strata of the run; their order follows from the records."""
    about = assessment.manifest["design"].get("strata")
    if about is None:
        return None
    strata, _ = number_strata(microdata, about["columns"], about["kind"])
    if len(strata.people) != len(about["people"]):
        raise InputError("the strata of the data are not those of this result: give the data as they were.")
    return replace(strata, people=np.array(about["people"], np.int64))


def list_boxes(zeros: Zeros | None) -> dict[str, NDArray[np.uint8]]:
    """Return the boxes that a coarser release needs, (box, level); none without rules that exclude anything."""
    if zeros is None or not len(zeros.impossible):
        return {}
    return {"impossible": zeros.impossible, "possible": zeros.possible}


def _restore_zeros(boxes: Mapping[str, NDArray[Any]], microdata: Microdata) -> Zeros | None:
    if not boxes:
        return None
    grid = make_grid(microdata.levels)
    impossible, possible = (np.asarray(boxes[name], np.uint8) for name in ("impossible", "possible"))
    start = np.concatenate([[0], np.cumsum(microdata.levels)])
    sizes = np.add.reduceat(impossible.astype(np.int64), start[:-1], axis=1)
    cells = sum(math.prod(size.tolist()) for size in sizes)
    return Zeros(microdata.variables, (), impossible, possible, cells, grid)


def _restore_draws(profiles: Mapping[str, NDArray[Any]], finite: bool, variables: int) -> Draws:
    """Return the stored draws without the zeros to which they were padded."""
    if not profiles:
        return ()
    chains, draws = profiles["weight"].shape[:2]
    restored = []
    for c in range(chains):
        chain = []
        for x in range(draws):
            size = int(np.flatnonzero(profiles["weight"][c, x])[-1]) + 1
            chain.append(
                make_draw(
                    profiles["weight"][c, x, :size].copy(),
                    np.ascontiguousarray(profiles["level_profile"][c, x, :, :size]),
                    profiles["record_concentration"][c, x],
                    profiles["shared_concentration"][c, x],
                    finite,
                    variables,
                )
            )
        restored.append(tuple(chain))
    return tuple(restored)


def _variables(assessment: "Assessment") -> tuple[Variable, ...]:
    """Return the keys as the run had them: categories in the order of their codes, labels, and what is ordered."""
    order = assessment.manifest["input"]["order"]
    variables = []
    for found in assessment.summary.attribution.variables:
        labels = [category.label for category in found.categories]
        low, high = order.get(found.name, NOTHING)
        variables.append(
            Variable(
                found.name,
                tuple(category.code for category in found.categories),
                None if None in labels else tuple(str(label) for label in labels),
                declared=_declares(assessment, found.name),
                orderable=(low, high),
                ordered=found.name in order,
            )
        )
    return tuple(variables)


def _declares(assessment: "Assessment", name: str) -> bool:
    """Whether a codebook, labels or bands of the run list the categories of a key."""
    return name not in assessment.summary.input.observed_keys


def _used(assessment: "Assessment") -> NDArray[np.bool_]:
    return np.asarray(assessment.records["used"].to_numpy() == 1)
