"""Ctrl-C in Python: a run without a folder stays in memory, and the same call with `resume` continues it."""

import polars as pl
import pytest

import keyhole
from keyhole.sampling.saved_run import MEMORY
from tests.unit.test_checkpoint import StopAfter

FRAME = pl.DataFrame({"A": [x % 13 for x in range(60)], "B": [x % 3 for x in range(60)]})
# `mixed` has no quick answer before it; test_quick_answer.py has those.
CALL = {
    "source": FRAME, "keys": "A,B", "population": 900, "model": "mixed", "profiles": 3, "chains": 2,
    "max_sweeps": 3_000, "target_ess": 100_000,
}  # fmt: skip


@pytest.fixture(autouse=True)
def nothing_kept():
    MEMORY.clear()
    yield
    MEMORY.clear()


@pytest.fixture
def interrupted(monkeypatch):
    monkeypatch.setattr("keyhole.sampling.runner.BLOCK_SECONDS", 0.01)
    with pytest.raises(keyhole.Stopped) as caught:
        keyhole.assess(**CALL, on_progress=StopAfter(4))
    return caught.value


def test_an_interrupted_run_goes_on_to_the_same_draws(interrupted):
    assert str(interrupted) == "stopped; the work is kept. The same call with `resume` continues it."
    assert not interrupted.kept, "nothing is on disk"
    events = []
    resumed = keyhole.assess(**CALL, resume=True, on_progress=events.append)
    assert any(str(event).startswith("Going on from a checkpoint: ") for event in events)
    assert resumed.summary.seconds["earlier"] > 0
    whole = keyhole.assess(**CALL)
    assert resumed.tau1 == whole.tau1
    assert all((resumed.draws[name] == whole.draws[name]).all() for name in whole.draws)
    assert resumed.records.equals(whole.records)
    assert MEMORY.run is None


def test_a_short_continuation_gives_a_partial_result(interrupted):
    found = keyhole.assess(**CALL, resume=True, time_limit=0.1)
    assert found.summary.convergence.stopped == "time"
    assert found.draws["tau1"].shape[1] >= 4


def test_another_run_is_not_mixed_up_with_it(interrupted):
    for other, what in (({"seed": 2}, "another seed"), ({"population": 901}, "other data, keys, population or rules")):
        with pytest.raises(keyhole.OutputError, match=f"kept in memory was made with {what}: leave `resume` out"):
            keyhole.assess(**{**CALL, **other}, resume=True)
    assert MEMORY.run is not None


def test_a_run_that_ends_keeps_nothing_and_a_new_one_forgets_the_old(interrupted):
    keyhole.assess(**{**CALL, "max_sweeps": 20})
    assert MEMORY.run is None


def test_a_folder_is_not_replaced_unless_that_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr("keyhole.sampling.runner.BLOCK_SECONDS", 0.01)
    with pytest.raises(keyhole.Stopped) as caught:
        keyhole.assess(**CALL, checkpoint=tmp_path / "c", on_progress=StopAfter(4))
    assert caught.value.kept
    assert MEMORY.run is None
    with pytest.raises(keyhole.OutputError, match=r"holds a run that can be continued: use `resume`, or .*`overwrite`"):
        keyhole.assess(**CALL, checkpoint=tmp_path / "c")
    found = keyhole.assess(**CALL, checkpoint=tmp_path / "c", overwrite=True)
    assert found.summary.seconds["earlier"] == 0
