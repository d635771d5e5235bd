"""Files that appear whole or not at all, and that only their owner can read.

One run at a time in a folder: a lock that says who holds it, and that a dead process cannot keep.

Text for a spreadsheet: a cell that a spreadsheet would take for a formula gets a ' before it (OWASP ASVS 1.2.10).

The prefix is reversible: a cell that starts with one or more ' and then a trigger had one ' added. Numbers are left
alone. `raw` writes the text as it is, for programs.
"""

import contextlib
import errno
import fcntl
import hashlib
import io
import json
import math
import os
import re
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl

from keyhole.errors import OutputError


def write_text(text: str, path: Path) -> None:
    """Write beside the place, sync, rename. The file is 0600 under any umask."""
    with explained(path):
        handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.absolute().parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        sync(path.absolute().parent)


def json_text(content: dict[str, Any]) -> str:
    """Write as JSON. What could not be computed is null, since JSON has no NaN."""
    return json.dumps(_plain(content), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Wait until a file or folder is on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn an error of the file system into one line."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}; choose another with --out.") from None


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


LOCK = ".lock"
NO_LOCKS = {errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK}
"""File systems without locks: better unprotected than unusable."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder; make it if needed, and take away at the end what was made and stayed empty."""
    with explained(folder):
        made = _make(folder)
        handle = _acquire(folder)
    try:
        yield
    finally:
        # The name goes before the lock: whoever opened the file meanwhile sees that it is no longer the lock.
        with contextlib.suppress(OSError):
            (folder / LOCK).unlink(missing_ok=True)
        os.close(handle)
        for path in made:
            with contextlib.suppress(OSError):
                path.rmdir()


def _make(folder: Path) -> list[Path]:
    """Make the folder and those above it; return what was made, the deepest first."""
    folder = folder.absolute()
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)
    return missing


def _acquire(folder: Path) -> int:
    """Lock the file in the folder and write into it who we are."""
    path = folder / LOCK
    while True:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in NO_LOCKS:
                holder = _describe(handle)
                os.close(handle)
                if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                    raise OutputError(
                        f"{folder} is in use by {holder}: wait for it, or choose another folder with --out."
                    ) from None
                raise
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), os.lstat(path)):
                who = {"process": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%H:%M")}
                os.ftruncate(handle, 0)
                os.write(handle, json.dumps(who).encode())
                return handle
        # The one before us has just taken the file away.
        os.close(handle)


def _describe(handle: int) -> str:
    """Say who holds the lock, as far as the file tells."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        who = json.loads(os.pread(handle, 1000, 0))
        return f"process {int(who['process'])} on {who['host']} since {who['since']}"
    return "another process"


TRIGGERS = "=+-@\t\r\0"
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_IN_DANGER = re.compile(rf"'*[{re.escape(TRIGGERS)}]")


def disarm(text: str) -> str:
    """Put a ' before text that starts with a trigger, and before what could be mistaken for text treated so."""
    return f"'{text}" if _IN_DANGER.match(text) and not NUMBER.fullmatch(text) else text


def rearm(text: str) -> str:
    """Return what `disarm` was given."""
    return text[1:] if text.startswith("'") and _IN_DANGER.match(text) else text


def csv_text(frame: pl.DataFrame, raw: bool = False) -> str:
    """Write a table as CSV, names of columns and text cells disarmed unless `raw`."""
    if not raw:
        text = [name for name, dtype in frame.schema.items() if dtype == pl.String]
        frame = frame.with_columns(pl.col(text).map_elements(disarm, return_dtype=pl.String)) if text else frame
        frame = frame.rename({name: disarm(name) for name in frame.columns})
    written = io.StringIO()
    frame.write_csv(written)
    return written.getvalue()
