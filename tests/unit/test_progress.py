"""One stream of events, three sinks."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from keyhole.commands import progress
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
    assert progress.clock(seconds) == text
