"""A block is a function of the problem and the position: its length, and where it runs, change nothing."""

import itertools
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

from keyhole.errors import KeyholeError
from keyhole.kernels.state import State
from keyhole.sampling import Notice, Progress, chain, workers
from keyhole.sampling import runner as blocks
from keyhole.sampling import runner as rounds
from keyhole.sampling.chain import ChainState, find_position, run_block, start_chain
from keyhole.sampling.trace import Thinned, add_block, start_history
from tests.unit.short_runs import digest, make_short_problem, run

FOREVER = 1e9


def state_bytes(position: ChainState) -> tuple[bytes, ...]:
    return (*(array.tobytes() for array in position.state), repr(position[1:]).encode())


def start(problem, profiles=5):
    return find_position(start_chain(0, profiles, np.random.SeedSequence(7), problem))


@pytest.mark.parametrize("estimator", ["exact", "monte-carlo", "population"])
def test_the_length_of_blocks_changes_nothing(estimator):
    problem, _ = make_short_problem(estimator=estimator)
    position = start(problem)
    before = state_bytes(position)
    whole = run_block(problem, position, 12, (1, 1), FOREVER)
    pieces = start_history(0, 5, position, len(problem.cell_level))
    made = 0
    while pieces.draws < 12:
        # No time at all: every block is one sweep, and has scratch of its own.
        add_block(pieces, run_block(problem, pieces.position, 12, pieces.strides, 0.0))
        made += 1
    assert made == 12 * problem.thin
    assert state_bytes(pieces.position) == state_bytes(whole.position)
    assert pieces.quantities == whole.quantities
    assert pieces.errors == whole.errors
    for held, new in zip(pieces.risks.items, whole.risks, strict=True):
        assert np.array_equal(held, new)
    for held, new in zip(pieces.kept.items, whole.kept, strict=True):
        assert all(np.array_equal(x, y) for x, y in zip(held, new, strict=True))
    assert state_bytes(position) == before, "a block must leave the position it starts from alone"


def test_scratch_that_is_full_of_rubbish_changes_nothing(monkeypatch):
    problem, _ = make_short_problem()
    position = start(problem)
    clean = run_block(problem, position, 2, (1, 1), FOREVER)
    make_state_work = chain.make_state_work

    def make_dirty(*arguments):
        work = make_state_work(*arguments)
        for name in ("weighted", "bracket", "product", "chunk", "fresh", "level_shape", "profile_shape"):
            getattr(work, name)[...] = np.nan
        return work

    monkeypatch.setattr(chain, "make_state_work", make_dirty)
    assert state_bytes(run_block(problem, position, 2, (1, 1), FOREVER).position) == state_bytes(clean.position)


def test_a_chain_grows_in_a_block_as_it_does_between_blocks():
    problem, _ = make_short_problem()
    position = start(problem, profiles=20)
    room = len(position.state.weight)
    cut = {
        name: np.ascontiguousarray(array[..., :136]) if array.shape[-1] == room else array
        for name, array in position.state._asdict().items()
    }
    position = position._replace(state=State(**cut))
    grown = run_block(problem, position, 20, (1, 1), FOREVER)
    assert len(grown.position.state.weight) > 136
    step = position
    while step.draws < 20:
        step = run_block(problem, step, 20, (1, 1), 0.0).position
    assert state_bytes(step) == state_bytes(grown.position)


def test_strides_ask_for_every_other_draw():
    problem, _ = make_short_problem()
    block = run_block(problem, start(problem), 10, (2, 5), FOREVER)
    assert (len(block.quantities), len(block.risks), len(block.kept)) == (10, 5, 2)


def test_thinned_holds_multiples_of_its_stride():
    thinned = Thinned[int](4)
    for number in range(37):
        thinned.offer(number, number)
        assert thinned.items == list(range(0, number + 1, thinned.stride))
        assert len(thinned.items) <= 4
    assert thinned.choose(range(8, 30)) == [16]
    assert thinned.choose(range(37), stride=32) == [0, 32]


@pytest.fixture(scope="module")
def expected():
    return digest(run())


@pytest.mark.parametrize("number", [1, 2, 4])
@pytest.mark.parametrize("seconds", [0.0, 0.05])
def test_workers_and_block_length_change_no_bit(monkeypatch, expected, number, seconds):
    monkeypatch.setattr(blocks, "BLOCK_SECONDS", seconds)
    assert digest(run(workers=number)) == expected


class Uneven(ThreadPoolExecutor):
    """One worker, whose blocks of the chain that it sees first are a single sweep each; it notes who came when."""

    def __init__(self) -> None:
        super().__init__(1)
        self.seen: list[tuple[int, tuple[int, int]]] = []

    def submit(self, function, *arguments, **named) -> Future:
        *others, (position, wanted, strides, seconds) = arguments
        chain = position.sweep_rng["state"]["inc"]
        self.seen.append((chain, (position.draws, position.since)))
        seconds = 0.0 if chain == self.seen[0][0] else seconds
        return super().submit(function, *others, (position, wanted, strides, seconds), **named)


def test_the_chain_furthest_behind_goes_next(monkeypatch, expected):
    monkeypatch.setattr(blocks, "BLOCK_SECONDS", 0.02)
    with Uneven() as executor:
        assert digest(run(executor=executor, workers=1)) == expected
    compared = 0
    for index, (mover, place) in enumerate(executor.seen):
        # Where another chain stood then is where its next block begins.
        waiting = [where for other, where in executor.seen[index:] if other != mover][:1]
        assert all(place <= where for where in waiting)
        compared += len(waiting)
    assert compared > 20


class Forgetful(ThreadPoolExecutor):
    """An Executor that knows nothing of ours, and counts how often the problem travels."""

    delivered = 0

    def submit(self, function, *arguments, **named) -> Future:
        self.delivered += arguments[2] is not None
        return super().submit(function, *arguments, **named)


def test_any_executor_gives_the_same_draws_and_gets_the_problem_once(expected):
    with Forgetful(1) as executor:
        assert digest(run(executor=executor)) == expected
        # Two chains ask at the same time, at most; after that the worker knows it.
        assert 1 <= executor.delivered <= 2
        assert executor.submit(lambda *_: 5, 0, 0, None).result() == 5, "a user's executor must stay open"
    assert not workers._known


def test_a_worker_with_other_kernels_is_refused():
    problem, _ = make_short_problem()
    with pytest.raises(KeyholeError, match="install the same on all machines"):
        workers.run_given("other", problem, (start(problem), 1, (1, 1), 0.0))


def test_a_worker_that_does_not_know_the_problem_asks_for_it():
    problem, _ = make_short_problem()
    task = (start(problem), 1, (1, 1), 0.0)
    assert workers.run_known("t", workers.engine(), None, task) is None
    assert workers.run_known("t", workers.engine(), problem, task) is not None
    assert workers.run_known("t", workers.engine(), None, task) is not None
    workers._known.clear()


def test_no_dask_scheduler_is_one_line():
    with pytest.raises(KeyholeError, match=r"no Dask scheduler answers at tcp://127.0.0.1:9"):
        run(scheduler="tcp://127.0.0.1:9")


def test_events_tell_how_far_the_run_is(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_SECONDS", 0.01)
    monkeypatch.setattr(rounds, "FIRST_LOOK", 20)
    events: list[Progress | Notice] = []
    run(on_progress=events.append, max_sweeps=240)
    assert isinstance(events[0], Notice)
    assert "of memory at most; first verdict after" in str(events[0])
    progress = [event for event in events if isinstance(event, Progress)]
    assert {event.chain for event in progress} == {0, 1}
    last = progress[-1]
    assert last.draws == last.wanted == 120
    assert last.sweeps == 240
    looks = [rounds.count_wanted(x) for x in range(40)]
    assert looks[0] == 20
    assert all(later <= 1.1 * earlier + 1 for earlier, later in itertools.pairwise(looks))
    assert last.round == 1 + sum(look < 120 for look in looks)
    assert 0 <= last.gates_met < last.gates
    assert last.verdict_left >= 0
    assert last.speed > 0
    assert last.left > 0
    assert 0 <= last.tau1 <= 30
    assert [event.draws for event in progress if event.chain == 0] == sorted(
        event.draws for event in progress if event.chain == 0
    )
    assert "tau1 so far" in str(last)


def test_an_error_in_the_callback_ends_the_run():
    def fail(event):
        if isinstance(event, Progress):
            raise RuntimeError("stop here")

    with pytest.raises(RuntimeError, match="stop here"):
        run(on_progress=fail)


def test_the_clock_stops_a_run_and_chains_are_cut_to_one_length(monkeypatch):
    trace = run(time_limit=0.3, max_sweeps=None, target_ess=1_000_000)
    assert trace.stopped == "time"
    assert trace.r1.shape[0] == 2
    assert trace.quantities["tau1"].shape[1] >= 4
