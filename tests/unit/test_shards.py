"""Shards of distinct cells may be worked on anywhere: on threads, on a cluster, again after a worker is lost."""

import os
import signal
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from keyhole.kernels.state import Records
from keyhole.sampling import Progress, classes, cluster, run_chains, shards
from keyhole.sampling.chain import find_position, run_block, start_chain
from keyhole.sampling.problem import make_problem
from keyhole.settings import make_settings
from tests.unit.short_runs import digest

CLASSES: dict[str, Any] = {"model": "classes", "chains": 2, "max_sweeps": 150}


GROUPS = 4
"""Groups of cells and of events, one of each for every worker of the cluster."""


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    """Files this small would be visited record by record."""
    monkeypatch.setattr(shards, "SHARD", 20)
    monkeypatch.setattr(classes, "MOST_VISITED", 0)


def make_data():
    rng = np.random.default_rng(5)
    sizes = np.array([3, 4, 5, 6])
    start = np.concatenate([[0], np.cumsum(sizes)])
    level = (rng.integers(0, sizes, (400, 4)) + start[:-1]).astype(np.int32)
    _, index, count = np.unique(level, axis=0, return_index=True, return_counts=True)
    return Records(level, np.full(400, 4), start), np.sort(index[count == 1]), 4000


def run(on_progress=None, **options):
    return run_chains(*make_data(), make_settings(**CLASSES | options), on_progress=on_progress)


def test_shards_are_cut_by_the_number_of_rows_alone():
    assert shards.cut_shards(0) == [0, 0]
    assert shards.cut_shards(20) == [0, 20]
    assert shards.cut_shards(41) == [0, 13, 27, 41]


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_threads_that_share_the_shards_of_a_chain_give_the_same_draws(workers):
    assert digest(run(workers=workers)) == digest(run(workers=2))


def test_work_is_the_same_whether_shards_are_grouped_or_not():
    problem = make_problem(*make_data(), make_settings(**CLASSES), None)
    position = find_position(start_chain(0, 5, np.random.SeedSequence(3), problem))

    def one_by_one(work, merge, whole, ends, own, common):
        # In the worst order, each shard without the others.
        found = {}
        for x in reversed(range(len(own))):
            rows = shards.take(whole, ends[x], ends[x + 1])
            found[x] = work(rows, [0, ends[x + 1] - ends[x]], own[x : x + 1], common)
        return merge([found[x] for x in range(len(own))])

    whole, parts = (run_block(problem, position, 5, (1, 1), 1e9, None, each) for each in (shards.here, one_by_one))
    assert whole.quantities == parts.quantities
    assert np.array_equal(whole.risks, parts.risks)


def test_a_large_file_starts_from_subsamples_and_keeps_all_records(monkeypatch):
    monkeypatch.setattr(classes, "LARGE", 300)
    monkeypatch.setattr(classes, "SUBSAMPLES", (30, 100, 1000))
    problem = make_problem(*make_data(), make_settings(**CLASSES), None)
    state = start_chain(0, 200, np.random.SeedSequence(3), problem).state
    assert state.tally.records.sum() == 400
    assert state.tally.level_count.sum() == 400 * 4
    assert 1 <= len(state.tally.records) < 200


@dataclass
class Kill:
    """Kill one worker process in the middle of the run."""

    process: int
    after: int = 3
    seen: int = field(default=0)

    def __call__(self, event):
        self.seen += isinstance(event, Progress)
        if self.seen == self.after:
            os.kill(self.process, signal.SIGKILL)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_two_workers_of_a_cluster_give_the_same_draws_even_if_one_is_killed(monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr("keyhole.sampling.runner.BLOCK_SECONDS", 0.05)
    expected = digest(run())
    calls: list[int] = []
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=2, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    ) as local:
        monkeypatch.setattr(cluster, "take", counting(cluster.take, calls))
        assert digest(run(scheduler=local.scheduler_address)) == expected
        assert len(calls) == GROUPS, "cells and events are sent once"
        with distributed.Client(local, set_as_default=False) as client:
            processes = client.run(os.getpid)
        kill = Kill(next(iter(processes.values())))
        assert digest(run(kill, scheduler=local.scheduler_address)) == expected
        assert kill.seen > kill.after, "the run goes on after a worker is lost"


class Losing:
    """The client of a cluster of two workers that loses one worker's first task, with its data."""

    def __init__(self) -> None:
        self.lost = False

    def nthreads(self):
        return {"one": 1, "two": 3}

    def scatter(self, data, **_):
        return data

    def submit(self, function, *arguments, pure):
        future = Future()
        if self.lost:
            future.set_result(function(*arguments))
        else:
            self.lost = True
            future.set_exception(CancelledError())
        return future


def test_shards_of_a_lost_worker_are_sent_and_worked_on_again(monkeypatch):
    pytest.importorskip("distributed")
    calls: list[int] = []
    monkeypatch.setattr(cluster, "take", counting(cluster.take, calls))
    each = cluster.Cluster(Losing())
    problem = make_problem(*make_data(), make_settings(**CLASSES), None)
    position = find_position(start_chain(0, 5, np.random.SeedSequence(3), problem))
    found, expected = (run_block(problem, position, 5, (1, 1), 1e9, None, x) for x in (each, shards.here))
    assert found.quantities == expected.quantities
    assert len(calls) == GROUPS + 1


def counting(function, calls):
    def count(*arguments):
        calls.append(1)
        return function(*arguments)

    return count
