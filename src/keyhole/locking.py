"""One run at a time in a folder: a lock that says who holds it, and that a dead process cannot keep."""

import contextlib
import errno
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from keyhole.errors import OutputError
from keyhole.files import explained

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
