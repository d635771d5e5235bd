"""What the processes beside the server share: they end with it, and write files that it reads while they work."""

import json
import os
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keyhole.errors import KeyholeError
from keyhole.words import as_flags

PATIENCE_SECONDS = 5.0
"""How long a run may take to keep its work when the server is gone."""


def end_with_parent() -> None:
    """Stop as by SIGTERM when the server closes our standard input, which also happens when it is killed."""

    def watch() -> None:
        while sys.stdin.buffer.read(1):
            pass
        threading.Timer(PATIENCE_SECONDS, os._exit, (1,)).start()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def write_quickly(content: Mapping[str, Any], path: Path) -> None:
    """Replace a file that is written often: never half written, but not synced. Its folder is private."""
    beside = path.with_suffix(".new")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(content, file, allow_nan=False)
    os.replace(beside, path)


def explain(error: BaseException) -> str:
    """Return what the page shows of an error. The words of any other error than ours could quote values of the data."""
    if isinstance(error, KeyholeError):
        return as_flags(str(error))
    if isinstance(error, MemoryError):
        return "There is not enough memory for this: use fewer keys, or a larger machine."
    return f"This failed unexpectedly ({type(error).__name__}). Try it on the command line, which is shown below."
