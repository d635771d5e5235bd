"""The progress line: alive on a terminal, one plain line every ten seconds elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console

EVERY_SECONDS = 10.0
OnProgress = Callable[[Any], None]


@contextmanager
def show_progress(silent: bool) -> Iterator[OnProgress | None]:
    """Yield what `assess` calls with each event; progress goes to standard error."""
    console = Console(stderr=True, highlight=False, markup=False)
    if silent:
        yield None
    elif console.is_terminal:
        with console.status("Reading ...") as status:
            yield lambda event: status.update(describe(event))
    else:
        yield _plain(console)


def _plain(console: Console) -> OnProgress:
    last = time.monotonic()

    def tell(event: Any) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= EVERY_SECONDS:
            last = now
            console.print(describe(event), soft_wrap=True)

    return tell


def describe(event: Any) -> str:
    """Say how far the run is."""
    return str(event)
