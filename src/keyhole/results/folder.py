"""The result folder: written whole or not at all, readable by its owner only, opened again by `load`."""

import importlib.metadata
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from keyhole._version import __version__
from keyhole.data import Microdata
from keyhole.errors import OutputError
from keyhole.files import LOCK, escaped, explained, is_own, json_text, locked, sha256, sync, write_text
from keyhole.kernels.jit import kernel_hash
from keyhole.report import make_content
from keyhole.report.render import render
from keyhole.results.assessment import Assessment
from keyhole.results.draws_file import read_draws, write_draws
from keyhole.sampling.checkpoint import remove_checkpoint
from keyhole.settings import Settings
from keyhole.summary import Summary

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
            "rows": microdata.rows,
            "used": microdata.records,
            "keys": [variable.name for variable in microdata.variables],
            "ignored_keys": list(microdata.ignored),
            "levels": list(microdata.levels),
            **microdata.reading,
        },
        "rules": rules_fingerprint,
        "kernels": kernel_hash(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "libraries": {name: importlib.metadata.version(name) for name in LIBRARIES},
        "started": started.isoformat(timespec="seconds"),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": seconds,
    }


REPORT = "report.html"
INTERNAL_REPORT = "report-internal.html"
DATA = ("summary.json", "records.csv", "records.parquet", "draws.nc")
OUTPUTS = (*DATA, REPORT)
MANIFEST = "manifest.json"
CHECKPOINT = "checkpoint"
PROGRAM = "keyhole"


def check_output(folder: Path) -> None:
    """Refuse, before any work, a folder that could not be written at the end. Leaves nothing behind."""
    with explained(folder):
        if os.path.lexists(folder):
            if not folder.is_dir():
                raise OutputError(f"{folder} is a file: choose another folder with `out`.")
            _refuse_strangers(folder)
        place = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
        os.rmdir(tempfile.mkdtemp(prefix=".keyhole-", dir=place))


def write_results(assessment: Assessment, folder: Path) -> None:
    """Write all files beside the folder, then move them into place; the manifest comes last."""
    check_output(folder)
    with explained(folder):
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        existing = folder.is_dir()
        staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder if existing else folder.parent))
        try:
            staging.chmod(0o700)
            _write_files(assessment, staging)
            if existing:
                folder.chmod(0o700)
                for name in (*OUTPUTS, MANIFEST):
                    os.replace(staging / name, folder / name)
                # A report for the owner, asked for later, shows the result that has just been replaced.
                (folder / INTERNAL_REPORT).unlink(missing_ok=True)
                sync(folder)
                if assessment.diagnosis.converged:
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
        Without the records' keys, so `what_if` is not available.

    Raises
    ------
    OutputError
        If it is not a result folder, or a file is not as it was written.
    """
    folder = Path(folder)
    if not _is_result(folder):
        raise OutputError(f"{folder} is not a result folder of keyhole: it has no {MANIFEST} of ours.")
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        for name in DATA:
            if sha256(folder / name) != manifest["outputs"][name]:
                raise OutputError(f"{folder / name} is not as it was written: run the assessment again.")
        summary = Summary.read((folder / "summary.json").read_text(encoding="utf-8"))
        draws, profiles = read_draws(folder / "draws.nc")
        return Assessment(
            tau1=summary.tau1,
            tau2=summary.tau2,
            summary=summary,
            diagnosis=summary.convergence.diagnosis,
            draws=draws,
            profiles=profiles,
            manifest={name: value for name, value in manifest.items() if name != "outputs"},
            record_table=pl.read_parquet(folder / "records.parquet", glob=False).lazy(),
        )
    except OSError as error:
        raise OutputError(f"{folder} cannot be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError, pl.exceptions.PolarsError):
        raise OutputError(f"{folder} is damaged: run the assessment again.") from None


def replace_report(folder: Path, page: str) -> None:
    """Put another safe report in place. `load` does not read it, so a stop half way spoils nothing."""
    write_text(page, folder / REPORT)
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    manifest["outputs"][REPORT] = sha256(folder / REPORT)
    write_text(json_text(manifest), folder / MANIFEST)


def write_records(table: pl.LazyFrame, csv: Path, parquet: Path) -> None:
    """Write the table of the records in a stream: its rows are never all in memory."""
    table.sink_parquet(parquet, engine="streaming")
    escaped(pl.scan_parquet(parquet, glob=False)).sink_csv(csv, engine="streaming")


def _write_files(assessment: Assessment, staging: Path) -> None:
    for name in (*OUTPUTS, MANIFEST):
        # The folder is closed to others already; creating the file here makes its mode ours, not the umask's.
        (staging / name).touch()
        (staging / name).chmod(0o600)
    (staging / "summary.json").write_text(assessment.summary.to_json(), encoding="utf-8", newline="\n")
    write_records(assessment.record_table, staging / "records.csv", staging / "records.parquet")
    write_draws(assessment.draws, assessment.profiles, staging / "draws.nc")
    (staging / REPORT).write_text(render(make_content(assessment)), encoding="utf-8", newline="\n")
    outputs = {name: sha256(staging / name) for name in OUTPUTS}
    manifest = {"program": PROGRAM, **assessment.manifest, "outputs": outputs}
    (staging / MANIFEST).write_text(json_text(manifest), encoding="utf-8", newline="\n")
    for name in (*OUTPUTS, MANIFEST):
        sync(staging / name)
    sync(staging)


def _refuse_strangers(folder: Path) -> None:
    """Refuse a folder that holds something else, or that others could write to."""
    # A lock that is there before a run belongs to a run that was killed, perhaps between two files of its results.
    ours = {CHECKPOINT, LOCK, *(OUTPUTS if (folder / LOCK).exists() else ())}
    strangers = [path for path in folder.iterdir() if path.name not in ours and not _is_staging(path, folder)]
    if strangers and not _is_result(folder):
        raise OutputError(f"{folder} holds other files: choose a new or empty folder with `out`.")
    found = folder.stat()
    if not is_own(found) and found.st_mode & 0o022:
        raise OutputError(f"others can write to {folder}, which is not yours: choose another with `out`.")


@contextmanager
def reserve(folder: Path) -> Iterator[None]:
    """Hold a folder from before the run until its results are written, after clearing what killed runs left in it."""
    check_output(folder)
    with locked(folder):
        sweep_staging(folder)
        yield


def sweep_staging(folder: Path) -> None:
    """Take away what a process that was killed while it wrote its results left behind."""
    for path in folder.iterdir():
        if _is_staging(path, folder):
            shutil.rmtree(path, ignore_errors=True)


def _is_staging(path: Path, folder: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and path.name.startswith(f".{folder.name}-")


def _is_result(folder: Path) -> bool:
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(manifest, dict) and manifest.get("program") == PROGRAM
