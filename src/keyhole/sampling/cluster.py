"""Shards on a Dask cluster: the cells stay on the workers, parameters go out, sums or probabilities come back."""

import functools
import threading
import time
from concurrent.futures import CancelledError, ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from keyhole.errors import KeyholeError
from keyhole.kernels.jit import kernel_hash
from keyhole.sampling.shards import Found, Merge, Whole, Work, on_threads, take

ATTEMPTS = 20
"""Times that lost work is sent again in one sweep: more workers than that are not lost by accident."""


@functools.cache
def engine() -> str:
    """Return the name of all that determines how a chain continues: kernel sources, compiler, NumPy."""
    return f"{kernel_hash()} numpy {np.__version__}"


def refuse_others(wanted_engine: str) -> None:
    """Refuse to work on another machine with other kernels."""
    if wanted_engine != engine():
        raise KeyholeError("a worker has another version of keyhole, numba or numpy: install the same on all machines.")


class Group(NamedTuple):
    """Consecutive shards that are worked on together. first, last: numbers of shards; threads: of the worker."""

    first: int
    last: int
    threads: int


class Sent(NamedTuple):
    """What stays on the workers. whole: all of it; groups, rows: its groups, and the futures of their rows."""

    whole: Whole
    groups: list[Group]
    rows: list[Any]


def run_group(
    wanted_engine: str,
    threads: int,
    work: Work[Found],
    merge: Merge[Found],
    rows: Whole,
    ends: list[int],
    own: list[Any],
    common: Any,
) -> Found:
    """Work on a group of shards with all threads of a worker; ends: of the rows at hand."""
    refuse_others(wanted_engine)
    with ThreadPoolExecutor(threads) as pool:
        return on_threads(pool)(work, merge, rows, ends, own, common)


class Cluster:
    """Works on shards with all workers of a cluster, as `Each` says; results do not depend on who works on what.

    If a worker is lost, its rows are sent to another one and their shards worked on again, from the same parameters.
    """

    def __init__(self, client: Any) -> None:
        self.client = client
        self.sent: dict[int, Sent] = {}
        self.lock = threading.Lock()

    def __call__(
        self, work: Work[Found], merge: Merge[Found], whole: Whole, ends: list[int], own: list[Any], common: Any
    ) -> Found:
        with self.lock:
            sent = self.sent.get(id(whole)) or self.send(whole, ends)
        found: dict[int, Found] = {}
        for _ in range(ATTEMPTS):
            parameters = self.scatter(common)
            tasks = {}
            for x, (first, last, threads) in enumerate(sent.groups):
                if x not in found:
                    inside = [end - ends[first] for end in ends[first : last + 1]]
                    parts = work, merge, sent.rows[x], inside, own[first:last], parameters
                    tasks[x] = self.client.submit(run_group, engine(), threads, *parts, pure=False)
            for x, task in tasks.items():
                rows = sent.rows[x]
                try:
                    found[x] = task.result()
                except (CancelledError, self.killed):
                    with self.lock:
                        # Another chain may have sent them already.
                        if sent.rows[x] is rows:
                            first, last, _ = sent.groups[x]
                            sent.rows[x] = self.scatter(take(whole, ends[first], ends[last]))
            if len(found) == len(sent.groups):
                return merge([found[x] for x in range(len(found))])
        raise KeyholeError("workers of the cluster were lost again and again, perhaps because memory ran out.")

    def send(self, whole: Whole, ends: list[int]) -> Sent:
        """Divide the rows among the workers, by their threads, and send each its own."""
        workers = self.client.nthreads()
        cuts = np.cumsum([0, *workers.values()]) * (len(ends) - 1) // sum(workers.values())
        groups, rows = [], []
        for (first, last), (worker, threads) in zip(pairwise(cuts.tolist()), workers.items(), strict=True):
            if last > first:
                groups.append(Group(first, last, threads))
                rows.append(self.scatter(take(whole, ends[first], ends[last]), worker))
        # Holding the whole keeps its id from being used again.
        self.sent[id(whole)] = Sent(whole, groups, rows)
        return self.sent[id(whole)]

    def scatter(self, data: Any, worker: str | None = None) -> Any:
        """Send data to a worker, any if none is named or it has gone; return the future that holds it there."""
        for attempt in range(ATTEMPTS):
            known = self.client.nthreads()
            try:
                if known:
                    return self.client.scatter([data], workers=[worker] if worker in known else None, hash=False)[0]
            except OSError:
                # A worker that has just been lost may still be listed.
                worker = None
            time.sleep(0.1 * (1 + attempt))
        raise KeyholeError("the cluster has no worker any more: start some with 'dask worker'.")

    @functools.cached_property
    def killed(self) -> type[Exception]:
        """What Dask raises when several workers died over the same task."""
        from distributed import KilledWorker

        found: type[Exception] = KilledWorker
        return found
