"""Checkpoints on disk: two generations that share no file, so that no single fault destroys both.

    checkpoint/a/head.json      a SHA-256, then JSON: the run without its arrays, name and SHA-256 of all other files
    checkpoint/a/state-N.npz    states of the chains when checkpoint N was written
    checkpoint/a/draws-M.npz    draws that were new when checkpoint M was written; appended, never rewritten
    checkpoint/b/...            the same, one checkpoint older or newer
    checkpoint/quick/...        the same of the quick answer, which comes before the model's own

A file is written next to its destination, synced and renamed; the head comes last. No pickle: plain arrays and JSON.
"""

import contextlib
import hashlib
import io
import json
import math
import os
import re
import stat
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import IO, Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from keyhole.errors import OutputError
from keyhole.files import is_own, locked, open_without_links, replace_file, sync

SIDES = ("a", "b")
HEAD, NEW = "head.json", ".new-"
QUICK = "quick"
"""The folder of the quick answer's checkpoints, within those of its run."""

OURS = re.compile(r"head\.json|(?:state|draws)-[0-9]{1,12}\.npz|\.new-[a-z0-9_]{8}")
"""Names of the files of a generation; no other file is ever deleted."""
Arrays = dict[str, NDArray[Any]]


class DamagedError(Exception):
    """A file of a checkpoint differs from what was written."""


class Stored(BaseModel):
    """A file of arrays."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    # The name is read from a file, so it must not lead outside the folder.
    file: Annotated[str, Field(pattern=r"^(state|draws)-[0-9]{1,12}\.npz$")]
    sha256: str


class Head(BaseModel):
    """The table of contents of one generation; `run` is validated by its reader."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    program: Literal["keyhole"] = "keyhole"
    format: Literal[1] = 1
    number: Annotated[int, Field(ge=1, lt=10**12)]
    run: dict[str, Any]
    state: Stored
    draws: list[Stored]


class Generation(NamedTuple):
    """One checkpoint, read and verified; older: whether a newer one is damaged."""

    side: str
    head: Head
    state: Arrays
    draws: list[Arrays]
    older: bool


def open_folder(folder: Path) -> None:
    """Make the folder if needed, readable by its owner only; refuse a link or a folder of another user."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or not is_own(found):
        raise OutputError(f"{folder} is not a folder of your own: remove it, or choose another with `out`.")
    folder.chmod(0o700)


def write_generation(
    folder: Path, side: str, number: int, run: dict[str, Any], state: Arrays, new_draws: Arrays, earlier: list[Stored]
) -> list[Stored]:
    """Write checkpoint `number`; return the list of its files of draws. After an error the previous one is intact."""
    place = folder / side
    open_folder(folder)
    open_folder(place)
    try:
        draws = [*earlier, _write_arrays(place, f"draws-{number}.npz", new_draws)]
        stored = _write_arrays(place, f"state-{number}.npz", state)
        sync(place)
        head = Head(number=number, run=run, state=stored, draws=draws)
        text = json.dumps(head.model_dump()).encode()
        replace_file(place / HEAD, hashlib.sha256(text).hexdigest().encode() + b"\n" + text, NEW)
        sync(place)
        sync(folder)
    except BaseException:
        for name in (f"draws-{number}.npz", f"state-{number}.npz"):
            with contextlib.suppress(OSError):
                if not _is_named_in_head(place, name):
                    (place / name).unlink(missing_ok=True)
        raise
    wanted = {HEAD, stored.file, *(item.file for item in draws)}
    _remove_ours(place, wanted)
    return draws


def holds_run(folder: Path) -> bool:
    """Whether the folder holds a checkpoint of a run or of its quick answer, be it damaged."""
    return holds_generation(folder) or holds_generation(folder / QUICK)


def holds_generation(folder: Path) -> bool:
    """Whether a generation is in the folder itself, be it damaged."""
    return any(os.path.lexists(folder / side / HEAD) for side in SIDES)


def read_newest(folder: Path) -> Generation | None:
    """Return the newest intact checkpoint, or None if there is none; raise OutputError if all are damaged."""
    sides = [side for side in SIDES if os.path.lexists(folder / side / HEAD)]
    older = False
    for side in sorted(sides, reverse=True, key=lambda side: _guess_number(folder / side)):
        try:
            head = read_head(folder / side)
            state = _read_arrays(folder / side, head.state)
            return Generation(side, head, state, [_read_arrays(folder / side, item) for item in head.draws], older)
        except DamagedError:
            older = True
    if sides:
        raise OutputError(
            f"no checkpoint in {folder} is usable, all are damaged: use `overwrite` in place of `resume` to start anew."
        )
    return None


def newest_number(folder: Path) -> int:
    """Return the number of the newest checkpoint with a readable head; 0 if there is none."""
    newest = 0
    for side in SIDES:
        with contextlib.suppress(DamagedError):
            newest = max(newest, read_head(folder / side).number)
    return newest


def read_head(place: Path) -> Head:
    """Read and verify the head of one generation."""
    digest, _, text = _read(place / HEAD).partition(b"\n")
    if hashlib.sha256(text).hexdigest().encode() != digest:
        raise DamagedError
    try:
        return Head.model_validate_json(text)
    except ValidationError:
        raise DamagedError from None


def remove_generation(folder: Path, side: str) -> None:
    """Delete one generation, the head first, so that a partly deleted one does not look like a checkpoint."""
    with contextlib.suppress(OSError):
        (folder / side / HEAD).unlink(missing_ok=True)
        _remove_ours(folder / side)
        (folder / side).rmdir()


def _remove_ours(place: Path, wanted: Collection[str] = ()) -> None:
    """Delete the files of a generation but those that are wanted."""
    for path in place.iterdir():
        if OURS.fullmatch(path.name) and path.name not in wanted:
            path.unlink()


def remove_generations(folder: Path) -> None:
    """Delete both generations; the folder too if it is that of a quick answer."""
    for side in SIDES:
        remove_generation(folder, side)
    if folder.name == QUICK:
        with contextlib.suppress(OSError):
            folder.rmdir()


def remove_checkpoint(folder: Path) -> None:
    """Delete all generations and the folder, unless a run holds it."""
    if folder.is_dir():
        with contextlib.suppress(OSError, OutputError):
            with locked(folder, "checkpoint"):
                remove_generations(folder)
                remove_generations(folder / QUICK)
            folder.rmdir()


def _write_arrays(place: Path, name: str, arrays: Arrays) -> Stored:
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    content = buffer.getbuffer()
    replace_file(place / name, content, NEW)
    return Stored(file=name, sha256=hashlib.sha256(content).hexdigest())


def _read(path: Path) -> bytes:
    try:
        with open(path, "rb", opener=open_without_links) as file:
            return file.read()
    except OSError:
        raise DamagedError from None


def _read_arrays(place: Path, stored: Stored) -> Arrays:
    """Read a file and verify its SHA-256. Compressed arrays and objects are refused: they are never written."""
    content = _read(place / stored.file)
    if hashlib.sha256(content).hexdigest() != stored.sha256:
        raise DamagedError
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            for info in packed.infolist():
                with packed.open(info) as member:
                    if info.compress_type != zipfile.ZIP_STORED or _count_bytes(member) > len(content):
                        raise DamagedError
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, OSError, KeyError, EOFError, NotImplementedError, zipfile.BadZipFile):
        # Raised by zipfile and NumPy for crafted files: a head and its checksums may be forged together.
        raise DamagedError from None


def _count_bytes(member: IO[bytes]) -> int:
    """Return the size of an array according to its header; a forged header may ask for any amount."""
    if np.lib.format.read_magic(member) != (1, 0):
        raise DamagedError
    shape, _, kind = np.lib.format.read_array_header_1_0(member)
    return math.prod(shape) * kind.itemsize


def _guess_number(place: Path) -> int:
    """Return the number of a generation, from the names of its files if the head is damaged."""
    try:
        return read_head(place).number
    except DamagedError:
        names = [path.stem.removeprefix("state-") for path in place.glob("state-*.npz")]
        return max((int(name) for name in names if name.isdecimal()), default=0)


def _is_named_in_head(place: Path, name: str) -> bool:
    try:
        head = read_head(place)
    except DamagedError:
        return False
    return name in {head.state.file, *(item.file for item in head.draws)}
