"""Write files atomically and readable by their owner only, lock folders, and escape CSV for spreadsheets.

Owner only: mode 0600, and 0700 for folders. On Windows, Python grants a new folder of mode 0700 to its owner and the
administrators, and files in it inherit that; files in a folder that somebody else made have the permissions of that
folder. The lock of a folder identifies its holder and is released when the holder dies.

In CSV a cell that a spreadsheet would interpret as a formula gets the prefix ' (OWASP ASVS 1.2.10), which is
reversible: one ' was added to each cell that starts with one or more ' and then a trigger. Numbers are not escaped.
"""

import contextlib
import errno
import hashlib
import io
import json
import math
import os
import re
import socket
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

from keyhole.errors import OutputError

if TYPE_CHECKING:
    import polars as pl

LOCK = ".lock"
NO_LOCKS = {errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK}
"""Errors of file systems without locks, on which a run goes on unprotected."""
PATIENCE_SECONDS = 0.1
"""How long a lock is waited for, since its holder may be about to remove it."""
HOLDER_START = 1
"""Where the note of the holder begins: on Windows no one else can read the byte that is locked, the first one."""
HOLDER_BYTES = 400
"""Length of the note, so that a new one covers what a killed process left."""

TRIGGERS = "=+-@\t\r\0"
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_IN_DANGER = re.compile(rf"'*[{re.escape(TRIGGERS)}]")


def write_text(text: str, path: Path) -> None:
    """Write a file of text, as `replace_file`, and wait until its name is on disk too."""
    with explained(path):
        replace_file(path, text.encode(), f".{path.name}-")
        sync(path.absolute().parent)


def replace_file(path: Path, content: bytes | memoryview, prefix: str) -> None:
    """Write a file atomically (temporary file with this prefix, sync, rename), with mode 0600 under any umask."""
    handle, name = tempfile.mkstemp(prefix=prefix, dir=path.absolute().parent)
    try:
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(handle, view) :]
            os.fsync(handle)
        finally:
            os.close(handle)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def refuse_existing(path: Path, overwrite: bool, option: str = "out") -> None:
    """Refuse to write over a file, unless that was asked for."""
    if os.path.lexists(path) and not path.is_dir() and not overwrite:
        raise OutputError(f"{path} exists: choose another with `{option}`, or replace it with `overwrite`.")


def json_text(content: Mapping[str, Any]) -> str:
    """Format as JSON, with null for NaN and infinities."""
    return json.dumps(_plain(content), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Wait until a file or folder is on disk. Windows syncs no folder, and a file only through a handle that writes."""
    windows = os.name == "nt"
    if windows and path.is_dir():
        return
    handle = os.open(path, os.O_RDWR if windows else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def is_own(found: os.stat_result) -> bool:
    """Whether a file or folder belongs to this user; Windows shows no owner here, so there it is taken to."""
    return not hasattr(os, "getuid") or found.st_uid == os.getuid()


def open_without_links(path: str, flags: int) -> int:
    """Open a file as `open` does (an `opener`), but refuse a link in its place where the system can."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0))


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
        lock = _acquire(folder, option)
    try:
        yield
    finally:
        _release(lock)
        for path in made:
            with contextlib.suppress(OSError):
                path.rmdir()


def _acquire(folder: Path, option: str) -> BaseFileLock:
    """Lock the file in the folder and write the holder into it."""
    path = folder / LOCK
    lock = FileLock(path, mode=0o600, thread_local=False)
    acquired = False
    while not acquired:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            with warnings.catch_warnings():
                # Where a lock of the system is missing, filelock warns and lets the file itself be the lock.
                warnings.simplefilter("ignore", UserWarning)
                lock.acquire(timeout=PATIENCE_SECONDS, poll_interval=PATIENCE_SECONDS / 5)
            acquired = True
        except FileNotFoundError:
            continue  # the previous holder has just removed the folder
        except Timeout:
            raise OutputError(
                f"{folder} is in use by {_describe(path)}: wait for it, or choose another folder with `{option}`."
            ) from None
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            return lock
    if not isinstance(lock, SoftFileLock):  # which has a content of its own
        who = {"process": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%H:%M")}
        # A full disk: the lock holds, and only its holder is not named.
        with contextlib.suppress(OSError), open(path, "r+b", buffering=0, opener=open_without_links) as file:
            file.seek(HOLDER_START)
            file.write(json.dumps(who).encode().ljust(HOLDER_BYTES))
    return lock


def _release(lock: BaseFileLock) -> None:
    """Remove the file and unlock it."""
    path = Path(lock.lock_file)
    with contextlib.suppress(OSError):
        # Unlink before unlocking, so that a process that has opened the file can detect that it is no longer the lock.
        if not isinstance(lock, SoftFileLock):  # whose release is that it removes the file
            path.unlink(missing_ok=True)
    lock.release()
    if os.name == "nt":  # where no file is removed that is open
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _describe(path: Path) -> str:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        with open(path, "rb", buffering=0, opener=open_without_links) as file:
            file.seek(HOLDER_START)
            who = json.loads(file.read(HOLDER_BYTES))
        return f"process {int(who['process'])} on {who['host']} since {who['since']}"
    return "another process"


def escape(text: str) -> str:
    """Prefix text that starts with a trigger, or that looks like escaped text."""
    return f"'{text}" if _IN_DANGER.match(text) and not NUMBER.fullmatch(text) else text


def csv_text(frame: "pl.DataFrame", raw: bool = False) -> str:
    """Format a table as CSV, with column names and text cells escaped unless `raw`."""
    written = io.StringIO()
    (frame if raw else escaped(frame.lazy()).collect()).write_csv(written)
    return written.getvalue()


def escaped(frame: "pl.LazyFrame") -> "pl.LazyFrame":
    """Return a table with column names and text cells escaped."""
    import polars as pl  # here, because the server of the page writes files and starts at once

    schema = frame.collect_schema()
    text = [name for name, dtype in schema.items() if dtype == pl.String]
    frame = frame.with_columns(pl.col(text).map_elements(escape, return_dtype=pl.String)) if text else frame
    return frame.rename({name: escape(name) for name in schema})
