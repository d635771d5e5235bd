"""The folder of a validation: a plan, one file for each finished replicate, the figures and the plot.

A replicate is written whole when it is finished, so a run that was stopped goes on where it was.
"""

import json
import os
from pathlib import Path
from typing import Any

from keyhole.errors import OutputError
from keyhole.files import explained, json_text, write_text

PLAN = "plan.json"
RESULT = "validation.json"
PLOT = "validation.svg"


def open_folder(folder: Path, plan: dict[str, Any]) -> None:
    """Make the folder, or go on in one whose plan is the same."""
    with explained(folder):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if (folder / PLAN).exists():
            if _read(folder / PLAN) != json.loads(json_text(plan)):
                raise OutputError(f"{folder} holds a validation with other data or options: choose another with --out.")
            return
        if any(folder.iterdir()):
            raise OutputError(f"{folder} holds other files: choose a new or empty folder with --out.")
        folder.chmod(0o700)
    write_text(json_text(plan), folder / PLAN)


def read_replicate(folder: Path, number: int) -> dict[str, Any] | None:
    """Return a replicate of an earlier run, if there is one."""
    path = _path(folder, number)
    return _read(path) if path.exists() else None


def write_replicate(folder: Path, found: dict[str, Any]) -> None:
    """Store a finished replicate."""
    write_text(json_text(found), _path(folder, found["replicate"]))


def _path(folder: Path, number: int) -> Path:
    return folder / f"replicate-{number:05d}.json"


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise OutputError(f"{path} is damaged: remove it and run again.") from None
    if not isinstance(found, dict):
        raise OutputError(f"{path} is damaged: remove it and run again.")
    return found
