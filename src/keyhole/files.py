"""Write files atomically and readable by their owner only, lock folders, and escape CSV for spreadsheets.

The lock of a folder identifies its holder and is released when the holder dies. In CSV a cell that a spreadsheet would
interpret as a formula gets the prefix ' (OWASP ASVS 1.2.10), which is reversible: one ' was added to each cell that
starts with one or more ' and then a trigger. Numbers are not escaped.
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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl

from keyhole.errors import OutputError

LOCK = ".lock"
NO_LOCKS = {errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK}
"""Errors of file systems without locks, on which a run goes on unprotected."""

TRIGGERS = "=+-@\t\r\0"
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_IN_DANGER = re.compile(rf"'*[{re.escape(TRIGGERS)}]")


def write_text(text: str, path: Path) -> None:
    """Write a file atomically (temporary file, sync, rename), with mode 0600 under any umask."""
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


def json_text(content: Mapping[str, Any]) -> str:
    """Format as JSON, with null for NaN and infinities."""
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
def explained(path: Path, option: str = "out") -> Iterator[None]:
    """Turn an error of the file system into an OutputError; option: what names another place."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}; choose another with `{option}`.") from None


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def locked(folder: Path, option: str = "out") -> Iterator[None]:
    """Lock the folder; create it if needed, and remove it at the end if it was created here and is empty."""
    with explained(folder, option):
        parents = (folder.absolute(), *folder.absolute().parents)
        made = [path for path in parents if not path.exists()]  # the deepest first
        for path in reversed(made):
            path.mkdir(mode=0o700, exist_ok=True)
        handle = _acquire(folder, option)
    try:
        yield
    finally:
        # Unlink before unlocking, so that a process that has opened the file can detect that it is no longer the lock.
        with contextlib.suppress(OSError):
            (folder / LOCK).unlink(missing_ok=True)
        os.close(handle)
        for path in made:
            with contextlib.suppress(OSError):
                path.rmdir()


def _acquire(folder: Path, option: str) -> int:
    """Lock the file in the folder and write the holder into it."""
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
                        f"{folder} is in use by {holder}: wait for it, or choose another folder with `{option}`."
                    ) from None
                raise
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), os.lstat(path)):
                who = {"process": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%H:%M")}
                with contextlib.suppress(OSError):  # a full disk: the lock holds, and only its holder is not named
                    os.ftruncate(handle, 0)
                    os.write(handle, json.dumps(who).encode())
                return handle
        # The previous holder has just removed the file.
        os.close(handle)


def _describe(handle: int) -> str:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        who = json.loads(os.pread(handle, 1000, 0))
        return f"process {int(who['process'])} on {who['host']} since {who['since']}"
    return "another process"


def escape(text: str) -> str:
    """Prefix text that starts with a trigger, or that looks like escaped text."""
    return f"'{text}" if _IN_DANGER.match(text) and not NUMBER.fullmatch(text) else text


def csv_text(frame: pl.DataFrame, raw: bool = False) -> str:
    """Format a table as CSV, with column names and text cells escaped unless `raw`."""
    if not raw:
        text = [name for name, dtype in frame.schema.items() if dtype == pl.String]
        frame = frame.with_columns(pl.col(text).map_elements(escape, return_dtype=pl.String)) if text else frame
        frame = frame.rename({name: escape(name) for name in frame.columns})
    written = io.StringIO()
    frame.write_csv(written)
    return written.getvalue()
