"""One stream of events, three sinks."""

import io
import re
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import polars as pl
import pytest
from rich.console import Console

import keyhole
from keyhole.commands import progress
from keyhole.progress import clock, notebook_progress
from keyhole.sampling import Notice, Progress

EVENT = Progress(
    chain=1, chains=4, draws=120, wanted=400, sweeps=1200, profiles=17, tau1=12.34, seconds=75.0, speed=16.0, round=2,
    gates_met=9, gates=16, verdict_left=61.0, left=3700.0,
)  # fmt: skip


@pytest.fixture
def screen(monkeypatch):
    """What goes to standard error; a terminal if asked for."""
    written = io.StringIO()

    def use(terminal: bool) -> io.StringIO:
        def make(**options):
            return Console(file=written, force_terminal=terminal, width=120, highlight=False, markup=False)

        monkeypatch.setattr(progress, "Console", make)
        return written

    return use


def test_a_table_on_a_terminal(screen):
    written = screen(True)
    with progress.show_progress(silent=False) as report:
        report(Notice("About 10 MB of memory."))
        report(EVENT)
        report(Notice("the disk is full.", warning=True))
    for phrase in (
        "About 10 MB of memory.",
        "Sweeps/s",
        "tau1 so far",
        "2 120 1,200 16 17 12.3",
        "9 of 16 conditions met so far; 1:15 elapsed, about 1:01 to a verdict, 1:01:40 to the time limit. Ctrl-C",
        "keyhole: warning: the disk is full.",
    ):
        assert phrase in " ".join(written.getvalue().split()), phrase


def test_plain_lines_every_ten_seconds_elsewhere(screen, monkeypatch):
    written = screen(False)
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with progress.show_progress(silent=False) as report:
        report(Notice("About 10 MB of memory."))
        for _ in range(25):
            now[0] += 1.0
            report(EVENT)
    lines = written.getvalue().splitlines()
    assert lines[0] == "About 10 MB of memory."
    assert len(lines) == 3
    assert lines[1] == (
        "chain 2 of 4: 120 draws, 17 profiles, tau1 so far 12.3, 9 of 16 conditions met, 75 s, about 61 s to a verdict"
    )


def test_what_is_not_known_yet_is_not_shown(screen):
    early = replace(EVENT, draws=0, tau1=float("nan"), gates_met=0, gates=0)
    assert str(early) == "chain 2 of 4: 0 draws, 17 profiles, 1,200 sweeps, 75 s, about 61 s to a verdict"
    written = screen(True)
    with progress.show_progress(silent=False) as report:
        report(early)
    assert "nan" not in written.getvalue()
    assert progress.describe_whole(early).startswith("No verdict yet; 1:15 elapsed, about 1:01 to a verdict,")


def test_a_verdict_beyond_the_time_limit_is_said_to_be_later():
    for late in (5000.0, float("inf")):
        event = replace(EVENT, verdict_left=late)
        assert "more than 1:01:40 to a verdict, 1:01:40 to the time limit" in progress.describe_whole(event)
        assert str(event).endswith(", more than 3700 s to a verdict")


def test_even_a_run_that_is_over_at_once_shows_its_estimate_first(screen):
    written = screen(False)
    with progress.show_progress(silent=False) as report:
        report(Notice("About 10 MB of memory."))
        assert written.getvalue() == "About 10 MB of memory.\n"
        report(EVENT)
    assert written.getvalue() == "About 10 MB of memory.\n"


def test_quiet_shows_warnings_only(screen):
    written = screen(True)
    with progress.show_progress(silent=True) as report:
        report(Notice("About 10 MB of memory."))
        report(EVENT)
        report(Notice("the disk is full.", warning=True))
    assert written.getvalue() == "keyhole: warning: the disk is full.\n"


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (3599, "59:59"), (3661, "1:01:01")])
def test_clock(seconds, text):
    assert clock(seconds) == text


class Notebook:
    """Stands for Jupyter or marimo: keeps what is shown."""

    def __init__(self):
        self.pages = []

    def jupyter(self, monkeypatch, kernel=True):
        handle = SimpleNamespace(update=self.pages.append)
        display = SimpleNamespace(HTML=str, display=lambda *_, **__: handle)
        shell = SimpleNamespace(kernel=None) if kernel else SimpleNamespace()
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell, display=display))

    def marimo(self, monkeypatch, running=True):
        output = SimpleNamespace(replace=self.pages.append)
        fake = SimpleNamespace(running_in_notebook=lambda: running, output=output, Html=str)
        monkeypatch.setitem(sys.modules, "marimo", fake)


@pytest.mark.parametrize("kind", ["jupyter", "marimo"])
def test_a_notebook_shows_a_table_that_is_kept_up_to_date(monkeypatch, kind):
    notebook = Notebook()
    getattr(notebook, kind)(monkeypatch)
    now = [100.0]
    monkeypatch.setattr("keyhole.progress.time.monotonic", lambda: now[0])
    report = notebook_progress()
    report(Notice("a < b", warning=True))
    report(EVENT)
    assert notebook.pages == ["<div>Warning: a &lt; b</div>"]
    now[0] += 1.0
    report(EVENT)
    report(replace(EVENT, draws=121))
    assert len(notebook.pages) == 2
    page = re.sub("<[^>]+>", " ", notebook.pages[-1])
    assert "Warning: a &lt; b" in page
    assert "2 120 1,200 16 17 12.3" in " ".join(page.split())
    assert "9 of 16 conditions met so far" in page


def test_outside_a_notebook_nothing_is_shown_or_imported(monkeypatch):
    notebook = Notebook()
    assert notebook_progress() is None
    notebook.jupyter(monkeypatch, kernel=False)  # IPython on a terminal
    notebook.marimo(monkeypatch, running=False)
    assert notebook_progress() is None
    code = "import sys, keyhole; from keyhole.progress import notebook_progress; notebook_progress()"
    check = f"{code}; assert not {{'IPython', 'marimo'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True)


def test_assess_shows_progress_in_a_notebook_unless_it_is_given_another_sink(monkeypatch):
    notebook = Notebook()
    notebook.jupyter(monkeypatch)
    frame = pl.DataFrame({"A": [x % 13 for x in range(60)], "B": [x % 3 for x in range(60)]})
    given = {"keys": "A,B", "population": 900, "max_sweeps": 20, "chains": 2}
    keyhole.assess(frame, on_progress=lambda event: None, **given)
    assert notebook.pages == []
    keyhole.assess(frame, **given)
    assert any(" of memory" in page for page in notebook.pages)
