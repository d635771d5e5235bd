"""How far a run is, on standard error: a table on a terminal, one plain line every ten seconds elsewhere."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from keyhole.kernels.jit import CACHE_FOLDER
from keyhole.sampling import Event, Notice, OnProgress, Progress

EVERY_SECONDS = 10.0
COMPILING = "Compiling once (about a minute) ..."
PREPARING = "Preparing ..."
PATIENCE_SECONDS = 3.0


@contextmanager
def show_progress(silent: bool) -> Iterator[OnProgress]:
    """Yield what `assess` calls with each event; even in silence a warning is told."""
    console = Console(stderr=True, highlight=False, markup=False)
    told = PREPARING if is_compiled() else COMPILING
    if silent:
        yield lambda event: _warn(console, event)
    elif console.is_terminal:
        with Live(Spinner("dots", told), console=console, transient=True, refresh_per_second=5) as live:
            yield _Screen(live)
    else:
        # Somebody who waits should know why.
        waiting = Timer(PATIENCE_SECONDS, console.print, args=(told,))
        waiting.start()
        try:
            yield _Lines(console, waiting)
        finally:
            waiting.cancel()


def is_compiled() -> bool:
    """Say whether machine code was kept by an earlier run; if it is not all of it, the rest is compiled."""
    return CACHE_FOLDER is not None and any(CACHE_FOLDER.rglob("*.nbc"))


def make_table(latest: dict[int, Progress]) -> Table:
    """One row for each chain that has been heard of."""
    table = Table(box=None, pad_edge=False, header_style="")
    for title in ("Chain", "Draws", "Sweeps", "Sweeps/s", "Profiles", "tau1 so far"):
        table.add_column(title, justify="right")
    for number in sorted(latest):
        event = latest[number]
        tau1 = "" if event.tau1 != event.tau1 else f"{event.tau1:.1f}"
        table.add_row(
            str(number + 1),
            f"{event.draws:,}",
            f"{event.sweeps:,}",
            f"{event.speed:,.0f}" if event.speed >= 10 else f"{event.speed:.1f}",
            str(event.profiles),
            tau1,
        )
    return table


def describe_whole(event: Progress) -> str:
    """The line below the table: gates, time."""
    met = f"{event.gates_met} of {event.gates} conditions met so far" if event.gates else "no verdict yet"
    more = "more than " if event.verdict_left > event.left else "about "
    return (
        f"{met[0].upper()}{met[1:]}; {clock(event.seconds)} passed, {more}{clock(min(event.verdict_left, event.left))} "
        f"to a verdict, {clock(event.left)} to the time limit. Ctrl-C stops."
    )


def clock(seconds: float) -> str:
    """Write seconds as minutes and seconds."""
    minutes, rest = divmod(round(max(seconds, 0.0)), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"


class _Screen:
    """The table on a terminal."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self.latest: dict[int, Progress] = {}

    def __call__(self, event: Event) -> None:
        if isinstance(event, Notice):
            self.live.console.print(Text(_told(event)), soft_wrap=True)
            return
        self.latest[event.chain] = event
        self.live.update(Group(make_table(self.latest), Text(describe_whole(event))))


class _Lines:
    """Notices at once, so that an estimate comes before the run; then one plain line now and then."""

    def __init__(self, console: Console, waiting: Timer) -> None:
        self.console, self.waiting = console, waiting
        self.last = time.monotonic()

    def __call__(self, event: Event) -> None:
        if isinstance(event, Notice):
            self.waiting.cancel()
            self.console.print(_told(event), soft_wrap=True)
        elif time.monotonic() - self.last >= EVERY_SECONDS:
            self.last = time.monotonic()
            self.console.print(str(event), soft_wrap=True)


def _warn(console: Console, event: Event) -> None:
    if isinstance(event, Notice) and event.warning:
        console.print(_told(event), soft_wrap=True)


def _told(notice: Notice) -> str:
    return f"keyhole: warning: {notice.message}" if notice.warning else notice.message
