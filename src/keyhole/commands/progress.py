"""The progress line: alive on a terminal, one plain line every ten seconds elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

from rich.console import Console

from keyhole.kernels.jit import CACHE_FOLDER
from keyhole.sampling import Progress

EVERY_SECONDS = 10.0
OnProgress = Callable[[Progress], None]
COMPILING = "Compiling once (about a minute) ..."
PREPARING = "Preparing ..."
PATIENCE_SECONDS = 3.0


@contextmanager
def show_progress(silent: bool) -> Iterator[OnProgress | None]:
    """Yield what `assess` calls with each event; progress goes to standard error."""
    console = Console(stderr=True, highlight=False, markup=False)
    told = PREPARING if is_compiled() else COMPILING
    if silent:
        yield None
    elif console.is_terminal:
        with console.status(told) as status:
            yield lambda event: status.update(str(event))
    else:
        # Somebody who waits should know why; a run that is over at once says nothing.
        waiting = Timer(PATIENCE_SECONDS, console.print, args=(told,))
        waiting.start()
        try:
            yield _plain(console, waiting)
        finally:
            waiting.cancel()


def is_compiled() -> bool:
    """Say whether machine code was kept by an earlier run; if it is not all of it, the rest is compiled."""
    return CACHE_FOLDER is not None and any(CACHE_FOLDER.rglob("*.nbc"))


def _plain(console: Console, waiting: Timer) -> OnProgress:
    last = time.monotonic()

    def tell(event: Progress) -> None:
        nonlocal last
        waiting.cancel()
        now = time.monotonic()
        if now - last >= EVERY_SECONDS:
            last = now
            console.print(str(event), soft_wrap=True)

    return tell
