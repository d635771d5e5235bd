"""Progress of a run in words, the same on a terminal and in a notebook, and as HTML that a notebook keeps up to date.

Jupyter and marimo are found among the modules that are loaded: neither is ever imported from here.
"""

import html
import sys
import time
from collections.abc import Callable

from keyhole.sampling import Event, Notice, OnProgress, Progress

TITLES = ("Chain", "Draws", "Sweeps", "Sweeps/s", "Profiles", "tau1 so far")
EVERY_SECONDS = 0.25
"""Shortest time from one picture to the next: a browser shows no more."""

CELL = "text-align: right; padding: 0 .8em 0 0"


def chain_row(event: Progress) -> tuple[str, ...]:
    """Return the row of a chain, with an entry for each of TITLES."""
    return (
        str(event.chain + 1),
        f"{event.draws:,}",
        f"{event.sweeps:,}",
        f"{event.speed:,.0f}" if event.speed >= 10 else f"{event.speed:.1f}",
        str(event.profiles),
        "" if event.tau1 != event.tau1 else f"{event.tau1:.1f}",
    )


def describe_whole(event: Progress) -> str:
    """Return the line below the table: conditions and time."""
    met = f"{event.gates_met} of {event.gates} conditions met so far" if event.gates else "No verdict yet"
    more = "more than " if event.verdict_left > event.left else "about "
    return (
        f"{met}; {clock(event.seconds)} elapsed, {more}{clock(min(event.verdict_left, event.left))} to a verdict, "
        f"{clock(event.left)} to the time limit."
    )


def clock(seconds: float) -> str:
    """Write seconds as minutes and seconds."""
    minutes, rest = divmod(round(max(seconds, 0.0)), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"


class NotebookProgress:
    """Shows each event below the running cell: the last notices, and a table with a row for each chain."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self.show = show
        self.notices: list[str] = []
        self.latest: dict[int, Progress] = {}
        self.shown = -EVERY_SECONDS

    def __call__(self, event: Event) -> None:
        """Take an event; notices are shown at once."""
        if isinstance(event, Notice):
            self.notices.append(f"Warning: {event.message}" if event.warning else event.message)
        else:
            self.latest[event.chain] = event
        now = time.monotonic()
        if isinstance(event, Notice) or now - self.shown >= EVERY_SECONDS:
            self.shown = now
            self.show(self.render())

    def render(self) -> str:
        """Return the state as a part of a page."""
        parts = [f"<div>{html.escape(notice)}</div>" for notice in self.notices]
        if self.latest:
            rows = [TITLES, *(chain_row(event) for _, event in sorted(self.latest.items()))]
            lines = ("".join(f'<td style="{CELL}">{html.escape(text)}</td>' for text in row) for row in rows)
            parts.append(f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>")
            whole = max(self.latest.values(), key=lambda event: event.seconds)
            parts.append(f"<div>{html.escape(describe_whole(whole))} Interrupt to stop.</div>")
        return "".join(parts)


def notebook_progress() -> OnProgress | None:
    """Return what shows progress in the notebook in which this runs; None outside Jupyter and marimo."""
    marimo = sys.modules.get("marimo")
    if marimo is not None and marimo.running_in_notebook():
        return NotebookProgress(lambda text: marimo.output.replace(marimo.Html(text)))
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if ipython is None or not hasattr(shell, "kernel"):
        return None
    display = ipython.display
    handle = display.display(display.HTML(""), display_id=True)
    return NotebookProgress(lambda text: handle.update(display.HTML(text)))
