"""The result folder: written whole or not at all, readable by its owner only, opened again by `load`."""

import hashlib
import importlib.metadata
import json
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import polars.selectors
from pydantic import ValidationError

from keyhole._version import __version__
from keyhole.data import Microdata
from keyhole.data.reading import fingerprint_codes
from keyhole.errors import OutputError
from keyhole.files import (
    LOCK,
    escaped,
    explained,
    is_own,
    json_text,
    locked,
    refuse_existing,
    sha256,
    sync,
    write_text,
)
from keyhole.kernels.jit import kernel_hash
from keyhole.report import make_content
from keyhole.report.render import render
from keyhole.results.assessment import Assessment
from keyhole.results.draws_file import read_draws, write_draws
from keyhole.results.restored import KEYS, read_keys, restore_posterior, write_keys
from keyhole.sampling.checkpoint import holds_run, remove_checkpoint
from keyhole.settings import Settings
from keyhole.summary import Summary
from keyhole.words import clean_name

DIGITS = 6
"""Significant digits in records.csv; records.parquet has all."""

LIBRARIES = ("arviz-stats", "h5netcdf", "h5py", "llvmlite", "narwhals", "numba", "numpy", "polars", "scipy")


def make_manifest(
    microdata: Microdata,
    population: int,
    settings: Settings,
    rules_fingerprint: str | None,
    started: datetime,
    seconds: dict[str, float],
) -> dict[str, Any]:
    """Return the content of manifest.json without the hashes of the outputs, which are added on writing."""
    return {
        "version": __version__,
        "settings": settings.model_dump(),
        "seed": settings.seed,
        "population": population,
        "input": {
            "sha256": microdata.fingerprint,
            "codes": fingerprint_codes(microdata),
            "rows": microdata.rows,
            "used": microdata.records,
            "keys": [variable.name for variable in microdata.variables],
            "ignored_keys": list(microdata.ignored),
            "levels": list(microdata.levels),
            "order": {variable.name: list(variable.orderable) for variable in microdata.variables if variable.ordered},
            **microdata.reading,
        },
        "rules": rules_fingerprint,
        **{name: value for name, value in describe_machine().items() if name != "version"},
        "started": started.isoformat(timespec="seconds"),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": seconds,
    }


def describe_machine() -> dict[str, Any]:
    """Return the versions, and the kind of machine, on which the bits of a result may depend."""
    return {
        "version": __version__,
        "kernels": kernel_hash(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "libraries": {name: importlib.metadata.version(name) for name in LIBRARIES},
    }


REPORT = "report.html"
INTERNAL_REPORT = "report-internal.html"
DATA = ("summary.json", "records.csv", "records.parquet", "draws.nc")
OUTPUTS = (*DATA, REPORT)
KNOWN = (*OUTPUTS, KEYS, INTERNAL_REPORT)
"""Names that the manifest may list; a file that it does not list is not ours."""

MANIFEST = "manifest.json"
CHECKPOINT = "checkpoint"
PROGRAM = "keyhole"
STAGING = ".keyhole-results-"


def check_output(folder: Path) -> None:
    """Refuse, before any work, a folder that could not be written at the end. Leaves nothing behind."""
    with explained(folder):
        if os.path.lexists(folder):
            if not folder.is_dir():
                raise OutputError(f"{folder} is a file: choose another folder with `out`.")
            _refuse_strangers(folder)
        place = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
        os.rmdir(tempfile.mkdtemp(prefix=".keyhole-", dir=place))


def refuse_loss(folder: Path, overwrite: bool, resume: bool) -> None:
    """Refuse a folder whose results or unfinished run would be replaced, unless that was asked for."""
    unfinished, finished = holds_run(folder / CHECKPOINT), _is_result(folder)
    if overwrite or (resume and unfinished):
        return
    if unfinished:
        raise OutputError(
            f"{folder} holds a run that can be continued: use `resume`, replace it with `overwrite`, "
            "or choose another folder with `out`."
        )
    if finished:
        nothing = " and nothing to resume" if resume else ""
        raise OutputError(
            f"{folder} holds the results of a run{nothing}: choose another folder with `out`, "
            "or replace them with `overwrite`."
        )


def write_results(assessment: Assessment, folder: Path, overwrite: bool = False) -> None:
    """Write all files beside the folder, then move them into place; the manifest comes last.

    A file that is not listed in the manifest of the results that are replaced is never touched.
    """
    check_output(folder)
    own = assessment._checkpoint is not None and assessment._checkpoint.absolute() == (folder / CHECKPOINT).absolute()
    refuse_loss(folder, overwrite, resume=own)
    with explained(folder):
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        existing = folder.is_dir()
        staging = Path(tempfile.mkdtemp(prefix=STAGING, dir=folder if existing else folder.parent))
        try:
            staging.chmod(0o700)
            written = _write_files(assessment, staging)
            if existing:
                folder.chmod(0o700)
                # What only the replaced results had, such as a report for the owner, does not describe these.
                stale = set(_listed(folder)) - set(written)
                for name in (*written, MANIFEST):
                    os.replace(staging / name, folder / name)
                for name in stale:
                    (folder / name).unlink(missing_ok=True)
                sync(folder)
                if assessment.diagnosis.converged or not own:
                    remove_checkpoint(folder / CHECKPOINT)
            else:
                os.rename(staging, folder)
            sync(folder.absolute().parent)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def load(folder: str | Path) -> Assessment:
    """Open a result folder.

    Parameters
    ----------
    folder
        As written by `Assessment.save` or `keyhole assess`.

    Returns
    -------
    Assessment
        `what_if` needs the data again, unless the run was made with `keep_data`.

    Raises
    ------
    OutputError
        If it is not a result folder, or a file is not as it was written.
    """
    folder = Path(folder)
    if not _is_result(folder):
        raise OutputError(f"{folder} is not a result folder of keyhole: it has no {MANIFEST} of ours.")
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        check_seal(folder / MANIFEST, found)
        manifest = complete_manifest(found)
        refuse_newer(folder, manifest)
        kept = KEYS in manifest["outputs"]
        for name in (*DATA, *([KEYS] if kept else [])):
            if sha256(folder / name) != manifest["outputs"][name]:
                raise OutputError(f"{folder / name} is not as it was written: run the assessment again.")
        summary = Summary.read((folder / "summary.json").read_text(encoding="utf-8"))
        draws, profiles, boxes = read_draws(folder / "draws.nc")
        assessment = Assessment(
            tau1=summary.tau1,
            tau2=summary.tau2,
            summary=summary,
            diagnosis=summary.convergence.diagnosis,
            draws=draws,
            profiles=profiles,
            manifest={name: value for name, value in manifest.items() if name not in ("outputs", SEAL)},
            record_table=pl.read_parquet(folder / "records.parquet", glob=False).lazy(),
            boxes=boxes,
            _keep_data=kept,
        )
        if kept:
            keys = read_keys(assessment, folder / KEYS)
            return replace(assessment, _posterior=restore_posterior(assessment, keys))
        return assessment
    except OSError as error:
        raise OutputError(f"{folder} cannot be read: {error.strerror}.") from None
    except ValidationError as error:
        # The files are as they were written, so a field that is not known here is of a version to come.
        newer = any(found["type"] in UNKNOWN for found in error.errors(include_input=False, include_url=False))
        raise _newer(folder) if newer else _damaged(folder) from None
    except (ValueError, KeyError, TypeError, pl.exceptions.PolarsError):
        raise _damaged(folder) from None


UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")
"""What pydantic says of fields that a block, or a dataclass, does not have."""

ADDED_TO_INPUT: Mapping[str, Any] = {
    "ignored_keys": [],
    "order": {},
    "count": None,
    "bands": {},
    "user_missing": "keep",
    "na": {"texts": None, "found": {}, "met": {}},
}
"""Fields of manifest.json's `input` that earlier versions did not write, and what they are then."""


def complete_manifest(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest with the fields that earlier versions did not write, at the end."""
    completed = {**manifest, "input": {**manifest["input"]}}
    completed.setdefault("design", {})
    completed.setdefault("asked", {})
    for name, value in ADDED_TO_INPUT.items():
        completed["input"].setdefault(name, value)
    return completed


SEAL = "sha256"
"""The field of the manifest with the SHA-256 of all others: a number that was changed by hand is noticed."""


def seal(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest with its own SHA-256 at the end."""
    content = {name: value for name, value in manifest.items() if name != SEAL}
    return {**content, SEAL: hashlib.sha256(json_text(content).encode()).hexdigest()}


def check_seal(path: Path, manifest: Mapping[str, Any]) -> None:
    """Refuse a manifest that was changed; those of earlier versions have no SHA-256 of their own."""
    if SEAL in manifest and manifest[SEAL] != seal(manifest)[SEAL]:
        raise OutputError(f"{path} is not as it was written: run the assessment again.")


def read_manifest(path: Path) -> dict[str, Any]:
    """Return a manifest, complete and as it was written."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        check_seal(path, found)
        manifest = complete_manifest(found)
        refuse_newer(path, manifest)
        if manifest["program"] != PROGRAM or not isinstance(manifest["outputs"], dict):
            raise ValueError
        return manifest
    except OSError as error:
        raise OutputError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise OutputError(f"{path} is not a manifest of keyhole, or is damaged: name that of a result.") from None


def check_files(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Refuse a folder with a file that is not as the manifest says; files that are not there were moved."""
    for name, digest in manifest["outputs"].items():
        if name in KNOWN and (folder / name).exists() and sha256(folder / name) != digest:
            raise OutputError(f"{folder / name} is not as it was written: run the assessment again.")


def refuse_newer(folder: Path, manifest: dict[str, Any]) -> None:
    """Refuse results of a version whose fields may mean something else."""
    written, here = (tuple(map(int, re.findall(r"\d+", text)[:3])) for text in (manifest["version"], __version__))
    if written > here:
        raise _newer(folder, f" {clean_name(manifest['version'])}")


def _newer(folder: Path, version: str = "") -> OutputError:
    return OutputError(
        f"{folder} was written by keyhole{version or ' of a newer version'}, and this is {__version__}: update keyhole."
    )


def _damaged(folder: Path) -> OutputError:
    return OutputError(f"{folder} is damaged: run the assessment again.")


def write_report(page: str, path: Path, overwrite: bool = False) -> None:
    """Write a report; in a result folder, one as keyhole wrote it is replaced, and the manifest lists the new one.

    `load` reads no report, so a stop half way spoils nothing.
    """
    listed = _listed(path.parent) if path.name in (REPORT, INTERNAL_REPORT) and _is_result(path.parent) else None
    with explained(path):
        unchanged = listed is not None and path.is_file() and listed.get(path.name) == sha256(path)
    refuse_existing(path, overwrite or unchanged)
    write_text(page, path)
    if listed is not None:
        manifest = json.loads((path.parent / MANIFEST).read_text(encoding="utf-8"))
        manifest["outputs"][path.name] = sha256(path)
        write_text(json_text(seal(manifest) if SEAL in manifest else manifest), path.parent / MANIFEST)


def write_records(table: pl.LazyFrame, csv: Path, parquet: Path) -> None:
    """Write the table of the records in a stream: its rows are never all in memory."""
    table.sink_parquet(parquet, engine="streaming")
    rounded = pl.scan_parquet(parquet, glob=False).with_columns(polars.selectors.float().round_sig_figs(DIGITS))
    escaped(rounded).sink_csv(csv, engine="streaming")


def _write_files(assessment: Assessment, staging: Path) -> tuple[str, ...]:
    """Write all files; return their names without that of the manifest."""
    outputs = (*OUTPUTS, KEYS) if assessment._keep_data else OUTPUTS
    for name in (*outputs, MANIFEST):
        # The folder is closed to others already; creating the file here makes its mode ours, not the umask's.
        (staging / name).touch()
        (staging / name).chmod(0o600)
    (staging / "summary.json").write_text(assessment.summary.to_json(), encoding="utf-8", newline="\n")
    write_records(assessment.record_table, staging / "records.csv", staging / "records.parquet")
    write_draws(assessment.draws, assessment.profiles, staging / "draws.nc", assessment.boxes)
    if assessment._keep_data and assessment._posterior is not None:
        write_keys(assessment._posterior.microdata, staging / KEYS)
    (staging / REPORT).write_text(render(make_content(assessment)), encoding="utf-8", newline="\n")
    hashes = {name: sha256(staging / name) for name in outputs}
    manifest = seal({"program": PROGRAM, **assessment.manifest, "outputs": hashes})
    (staging / MANIFEST).write_text(json_text(manifest), encoding="utf-8", newline="\n")
    for name in (*outputs, MANIFEST):
        sync(staging / name)
    sync(staging)
    return outputs


def _refuse_strangers(folder: Path) -> None:
    """Refuse a folder that holds something else, or that others could write to."""
    # A lock that is there before a run belongs to a run that was killed, perhaps between two files of its results.
    ours = {CHECKPOINT, LOCK, *(OUTPUTS if (folder / LOCK).exists() else ())}
    strangers = [path for path in folder.iterdir() if path.name not in ours and not _is_staging(path)]
    if strangers and not _is_result(folder):
        raise OutputError(f"{folder} holds other files: choose a new or empty folder with `out`.")
    if _is_result(folder):
        unlisted = [name for name in KNOWN if os.path.lexists(folder / name) and name not in _listed(folder)]
        if unlisted:
            raise OutputError(
                f"{folder / unlisted[0]} does not belong to the results there: move it, "
                "or choose another folder with `out`."
            )
    found = folder.stat()
    if not is_own(found) and found.st_mode & 0o022:
        raise OutputError(f"others can write to {folder}, which is not yours: choose another with `out`.")


@contextmanager
def reserve(folder: Path, overwrite: bool, resume: bool) -> Iterator[None]:
    """Hold a folder from before the run until its results are written, after clearing what killed runs left in it."""
    check_output(folder)
    with locked(folder):
        refuse_loss(folder, overwrite, resume)
        sweep_staging(folder)
        yield


def sweep_staging(folder: Path) -> None:
    """Take away what a process that was killed while it wrote its results left behind."""
    for path in folder.iterdir():
        if _is_staging(path):
            shutil.rmtree(path, ignore_errors=True)


def _is_staging(path: Path) -> bool:
    """Whether a run that was killed while it wrote its results has left this folder."""
    if path.is_symlink() or not path.is_dir() or not path.name.startswith(STAGING):
        return False
    return {found.name for found in path.iterdir()} <= {*KNOWN, MANIFEST}


def _is_result(folder: Path) -> bool:
    return _read_manifest(folder).get("program") == PROGRAM


def _listed(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of the files that the manifest of a result folder lists, by their names."""
    outputs = _read_manifest(folder).get("outputs")
    return {name: outputs[name] for name in KNOWN if name in outputs} if isinstance(outputs, dict) else {}


def _read_manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return manifest if isinstance(manifest, dict) else {}
