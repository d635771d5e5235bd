"""The quick answer: the same with `quick` as before the full model, kept when stopped, and what to do after it."""

import json
import shutil

import numpy as np
import polars as pl
import pytest

import keyhole
from keyhole.sampling import Notice, Progress
from keyhole.sampling import runner as blocks
from keyhole.sampling import saved_run as checkpointer
from keyhole.sampling.checkpoint import QUICK, holds_generation, holds_run, newest_number
from keyhole.sampling.saved_run import MEMORY
from tests.unit.test_checkpoint import StopAfter

FRAME = pl.DataFrame(
    {"A": [x % 13 for x in range(60)], "B": [x % 3 for x in range(60)], "C": [x % 7 for x in range(60)]}
)
CALL = {"source": FRAME, "keys": "A,B,C", "population": 900, "chains": 2, "max_sweeps": 120, "target_ess": 100_000}
pytestmark = pytest.mark.filterwarnings("ignore::keyhole.NotConvergedWarning")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_SECONDS", 0.005)
    MEMORY.clear()
    yield
    MEMORY.clear()


@pytest.fixture
def busy(monkeypatch):
    """A checkpoint after every block."""
    monkeypatch.setattr(checkpointer, "LONGEST_INTERVAL", 0.0)
    monkeypatch.setattr(checkpointer, "COST_SHARE", 1.0)


@pytest.fixture(scope="module")
def whole():
    return keyhole.assess(**CALL)


def numbers(block) -> dict:
    """Everything of a quick answer but the time that it took."""
    found = json.loads(block.to_json())
    return {name: found[name] for name in ("tau1", "tau2", "convergence")}


def check_same(found, whole) -> None:
    assert (found.tau1, found.tau2) == (whole.tau1, whole.tau2)
    assert all(np.array_equal(found.draws[name], whole.draws[name]) for name in whole.draws)
    assert found.records.equals(whole.records)
    assert numbers(found.summary.quick) == numbers(whole.summary.quick)


class StopLater(StopAfter):
    """A callback that behaves as Ctrl-C does, after some events of the full model."""

    begun = False

    def __call__(self, event: object) -> None:
        self.begun = self.begun or str(event).startswith("Quick answer")
        if self.begun:
            super().__call__(event)


def test_it_is_that_of_a_normal_run(whole):
    quick = keyhole.assess(**CALL, quick=True)
    first = whole.summary.quick
    assert (quick.tau1, quick.tau2) == (first.tau1, first.tau2)
    assert quick.summary.convergence.sweeps == first.convergence.sweeps
    assert quick.summary.convergence.gates == first.convergence.gates
    assert (quick.summary.model.name, quick.summary.model.why) == ("classes", "the quick answer was asked for")


def test_it_ends_after_its_sweeps_where_the_model_classes_goes_on():
    options = CALL | {"max_sweeps": 700}
    quick = keyhole.assess(**options, quick=True).summary
    assert (quick.convergence.sweeps, quick.convergence.stopped, quick.convergence.grade) == (
        300, "sweeps", "not converged",
    )  # fmt: skip
    assert quick.convergence.verdict.remedy == "quick"
    assert quick.convergence.message.endswith(
        "This is the quick answer: leave out `quick` for that of the full model, or use `model` classes, which runs to "
        "its verdict."
    )
    assert "max_sweeps" not in quick.convergence.message
    assert keyhole.assess(**options, model="classes").summary.convergence.sweeps == 700


def test_it_is_advised_only_where_nothing_follows(whole):
    assert whole.summary.quick.convergence.verdict.remedy == "none"
    assert "quick answer" not in whole.summary.quick.convergence.message
    one = keyhole.assess(**CALL | {"chains": 1}, quick=True)
    assert one.diagnosis.verdict.remedy == "chains"


def test_a_run_stopped_again_and_again_in_its_quick_answer_ends_as_if_it_never_was(busy, tmp_path, rng, whole):
    stops = 0
    while True:
        try:
            after = int(rng.integers(1, 5)) if stops < 6 else 10_000
            found = keyhole.assess(**CALL, checkpoint=tmp_path / "c", resume=True, on_progress=StopAfter(after))
            break
        except keyhole.Stopped:
            assert holds_run(tmp_path / "c")
            stops += 1
    assert stops >= 2
    check_same(found, whole)


def test_a_stop_in_the_quick_answer_is_kept_and_it_goes_on_there(tmp_path, whole):
    with pytest.raises(keyhole.Stopped) as caught:
        keyhole.assess(**CALL, checkpoint=tmp_path / "c", on_progress=StopAfter(2))
    assert caught.value.kept
    assert not holds_generation(tmp_path / "c")
    assert holds_generation(tmp_path / "c" / QUICK)
    with pytest.raises(keyhole.OutputError, match="holds a run that can be continued"):
        keyhole.assess(**CALL, checkpoint=tmp_path / "c")
    told: list[Notice] = []
    found = keyhole.assess(**CALL, checkpoint=tmp_path / "c", resume=True, on_progress=told.append)
    said = [str(event) for event in told if isinstance(event, Notice)]
    assert said[0].startswith("Going on from a checkpoint: ")
    assert said[1].startswith("Quick answer after ")
    assert not any(text.startswith(("Going on", "Nothing to resume")) for text in said[1:])
    check_same(found, whole)


def test_a_stop_in_the_quick_answer_is_kept_in_memory(whole):
    with pytest.raises(keyhole.Stopped) as caught:
        keyhole.assess(**CALL, on_progress=StopAfter(2))
    assert caught.value.in_memory
    with pytest.raises(keyhole.Stopped):
        keyhole.assess(**CALL, resume=True, on_progress=StopLater(2))
    assert MEMORY.run is not None
    check_same(keyhole.assess(**CALL, resume=True), whole)
    assert not MEMORY.holds_run


def test_a_quick_answer_that_is_complete_is_not_made_again(tmp_path, whole):
    with pytest.raises(keyhole.Stopped):
        keyhole.assess(**CALL, checkpoint=tmp_path / "c", on_progress=StopLater(3))
    assert holds_generation(tmp_path / "c")
    told = []
    found = keyhole.assess(**CALL, checkpoint=tmp_path / "c", resume=True, on_progress=told.append)
    place = next(x for x, event in enumerate(told) if str(event).startswith("Quick answer after "))
    assert not any(isinstance(event, Progress) for event in told[:place])
    assert any(str(event).startswith("Going on from a checkpoint: ") for event in told[place:])
    check_same(found, whole)


@pytest.mark.parametrize("harm", ["lost", "damaged"])
def test_without_its_quick_answer_the_run_goes_on_all_the_same(tmp_path, whole, harm):
    with pytest.raises(keyhole.Stopped):
        keyhole.assess(**CALL, checkpoint=tmp_path / "c", on_progress=StopLater(3))
    before = newest_number(tmp_path / "c")
    if harm == "lost":
        shutil.rmtree(tmp_path / "c" / QUICK)
    else:
        for path in (tmp_path / "c" / QUICK).glob("*/head.json"):
            path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(keyhole.Stopped):
        keyhole.assess(**CALL, checkpoint=tmp_path / "c", resume=True, on_progress=StopAfter(0))
    assert newest_number(tmp_path / "c") == before, "the work of the model must not be lost"
    told = []
    found = keyhole.assess(**CALL, checkpoint=tmp_path / "c", resume=True, on_progress=told.append)
    assert sum(str(event).startswith("Going on from a checkpoint: ") for event in told) == 1
    check_same(found, whole)


def test_a_new_run_replaces_an_old_one_with_its_first_checkpoint(tmp_path):
    folder = tmp_path / "c"
    with pytest.raises(keyhole.Stopped):
        keyhole.assess(**CALL, checkpoint=folder, on_progress=StopLater(3))
    new = CALL | {"seed": 2}
    with pytest.raises(keyhole.Stopped):
        keyhole.assess(**new, checkpoint=folder, overwrite=True, on_progress=StopAfter(2))
    assert not holds_generation(folder)
    found = keyhole.assess(**new, checkpoint=folder, resume=True)
    assert found.tau1 == keyhole.assess(**new).tau1
    with pytest.raises(keyhole.Stopped):
        keyhole.assess(**CALL, model="mixed", checkpoint=folder, overwrite=True, on_progress=StopAfter(2))
    assert [path.name for path in folder.iterdir() if path.is_dir() and path.name == QUICK] == []


def test_the_full_model_goes_on_from_a_quick_answer(tmp_path, whole):
    """A result that is only usable keeps its checkpoint, so nothing is done twice."""
    quick = keyhole.assess(**CALL, quick=True, checkpoint=tmp_path / "r" / "checkpoint")
    quick.save(tmp_path / "r")
    assert holds_run(tmp_path / "r" / "checkpoint")
    found = keyhole.assess(**CALL, checkpoint=tmp_path / "r" / "checkpoint", resume=True)
    check_same(found, whole)
    found.save(tmp_path / "r", overwrite=True)
    assert keyhole.load(tmp_path / "r").tau1 == whole.tau1
