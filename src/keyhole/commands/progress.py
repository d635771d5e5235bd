"""Progress of a run on standard error: a table on a terminal, one plain line every ten seconds elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from keyhole.kernels.jit import CACHE_FOLDER
from keyhole.progress import TITLES, chain_row, describe_whole
from keyhole.sampling import Event, Notice, OnProgress, Progress
from keyhole.words import as_flags

EVERY_SECONDS = 10.0
COMPILING = "Compiling once (about a minute) ..."
PREPARING = "Preparing ..."
PATIENCE_SECONDS = 3.0


@contextmanager
def show_progress(silent: bool) -> Iterator[OnProgress]:
    """Yield what `assess` calls with each event; silence leaves only warnings."""
    console = Console(stderr=True, highlight=False, markup=False)
    text = PREPARING if is_compiled() else COMPILING
    if silent:
        yield _only_warnings(console)
    elif console.is_terminal:
        with Live(Spinner("line", text), console=console, transient=True, refresh_per_second=5) as live:
            yield _table(live)
    else:
        waiting = Timer(PATIENCE_SECONDS, console.print, args=(text,))
        waiting.start()
        try:
            yield _lines(console, waiting)
        finally:
            waiting.cancel()


def is_compiled() -> bool:
    """Whether an earlier run has compiled the kernels."""
    return CACHE_FOLDER is not None and any(CACHE_FOLDER.rglob("*.nbc"))


def make_table(latest: dict[int, Progress]) -> Table:
    """Return a table with one row for each chain that has reported."""
    table = Table(box=None, pad_edge=False, header_style="")
    for title in TITLES:
        table.add_column(title, justify="right")
    for _, event in sorted(latest.items()):
        table.add_row(*chain_row(event))
    return table


def _table(live: Live) -> Callable[[Event], None]:
    """Keep the table on a terminal current; notices scroll above it."""
    latest: dict[int, Progress] = {}
    preparing = live.renderable

    def report(event: Event) -> None:
        if isinstance(event, Notice):
            live.console.print(Text(_text(event)), soft_wrap=True)
            if not event.warning:  # the next model begins
                latest.clear()
                live.update(preparing)
            return
        latest[event.chain] = event
        live.update(Group(make_table(latest), Text(f"{describe_whole(event)} Ctrl-C stops.")))

    return report


def _lines(console: Console, waiting: Timer) -> Callable[[Event], None]:
    """Print notices at once, so that the estimate of time and memory comes before the run; progress now and then."""
    last = time.monotonic()

    def report(event: Event) -> None:
        nonlocal last
        if isinstance(event, Notice):
            waiting.cancel()
            console.print(_text(event), soft_wrap=True)
        elif time.monotonic() - last >= EVERY_SECONDS:
            last = time.monotonic()
            console.print(str(event), soft_wrap=True)

    return report


def _only_warnings(console: Console) -> Callable[[Event], None]:
    def report(event: Event) -> None:
        if isinstance(event, Notice) and event.warning:
            console.print(_text(event), soft_wrap=True)

    return report


def _text(notice: Notice) -> str:
    return as_flags(f"keyhole: warning: {notice.message}" if notice.warning else notice.message)
