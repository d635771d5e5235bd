"""Where blocks run (threads or processes of this machine, a Dask cluster, or any Executor) and how a run stops.

Threads share the problem. Elsewhere it is sent once, as integers without labels: a worker that does not know it yet
returns None and receives it with the next block. If `classes` has more workers than chains, and several shards of
cells (shards.py), all chains run here and workers are given shards; on a cluster no worker then needs all cells.
Results never depend on where anything runs, so workers with other kernels or another version of NumPy are refused.
"""

import importlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import wait
from types import FrameType
from typing import Any, NamedTuple

from keyhole.errors import KeyholeError, SettingsError
from keyhole.sampling.chain import Block, ChainState, run_block
from keyhole.sampling.cluster import Cluster, engine, refuse_others
from keyhole.sampling.problem import Problem
from keyhole.sampling.shards import Each, cut_shards, here, on_threads
from keyhole.settings import Settings

ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGBREAK") if hasattr(signal, name))
"""What ends a run besides Ctrl-C; Ctrl-Break, on Windows, does so too."""
SIGNALS = (signal.SIGINT, *ENDING)


class Clock:
    """The time limit of a run, and the event that stops it."""

    def __init__(self, limit: float) -> None:
        self.start = time.perf_counter()
        self.limit = limit
        self.stopped = threading.Event()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.start

    @property
    def left(self) -> float:
        """Seconds up to the limit; 0 when it is over."""
        return max(self.limit - self.seconds, 0.0)

    @property
    def over(self) -> bool:
        return self.stopped.is_set() or self.seconds > self.limit


@contextmanager
def _handling(numbers: Iterable[int], handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Handle these signals so in this section; elsewhere than in the main thread nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextmanager
def shielded() -> Iterator[None]:
    """Defer Ctrl-C and SIGTERM to the end of this section, so that they never interrupt a step halfway."""
    caught: list[int] = []
    with _handling(SIGNALS, lambda received, _: caught.append(received)):
        yield
    if caught:
        signal.raise_signal(caught[0])


@contextmanager
def stoppable() -> Iterator[None]:
    """Make SIGTERM, and Ctrl-Break on Windows, end this section as Ctrl-C does."""
    with _handling(ENDING, signal.default_int_handler):
        yield


THREAD_NAME = "keyhole-chain"
NO_DASK = "`scheduler` with an address needs Dask: pip install 'keyhole[cluster]'."

Task = tuple[ChainState, int, tuple[int, int], float]
"""Chain state, wanted draws, strides and seconds of a block."""


class Workers(NamedTuple):
    """What runs blocks. size: how many at once.

    submit: starts a block; a result of None requests it again, with its second argument, whether to send the problem.
    """

    size: int
    submit: Callable[[Task, bool], Future[Block | None]]


def run_given(wanted_engine: str, problem: Problem, task: Task) -> Block:
    """Run a block on another machine."""
    refuse_others(wanted_engine)
    return run_block(problem, *task)


_known: dict[str, Problem] = {}


def run_known(token: str, wanted_engine: str, problem: Problem | None, task: Task) -> Block | None:
    """Run a block on a problem received earlier or now; return None to request an unknown one."""
    if problem is not None:
        _known.clear()
        _known[token] = problem
    found = _known.get(token)
    return None if found is None else run_given(wanted_engine, found, task)


def watch_parent() -> None:
    """Leave Ctrl-C to the parent, and end with it: a worker without a parent would wait forever."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def leave() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=leave, daemon=True).start()


def count_workers(settings: Settings) -> int:
    """Return how many chains run at once on this machine."""
    return min(settings.workers or os.cpu_count() or 1, settings.chains)


@contextmanager
def open_workers(
    problem: Problem, token: str, settings: Settings, executor: Executor | None, stopped: threading.Event
) -> Iterator[Workers]:
    """Yield the workers of the settings. When the user stops the run, unfinished blocks are abandoned."""
    size = count_workers(settings)

    def known_to(pool: Executor) -> Callable[[Task, bool], Future[Block | None]]:
        return lambda task, deliver: pool.submit(run_known, token, engine(), problem if deliver else None, task)

    if executor is not None:
        try:
            yield Workers(settings.workers or settings.chains, known_to(executor))
        finally:
            _known.pop(token, None)
    elif settings.scheduler == "processes":
        spawn = multiprocessing.get_context("spawn")
        with _closing(ProcessPoolExecutor(size, mp_context=spawn, initializer=watch_parent)) as pool:
            yield Workers(size, known_to(pool))
    elif settings.scheduler == "threads":
        cores = settings.workers or os.cpu_count() or 1
        if has_shards(problem) and cores > size:
            with ThreadPoolExecutor(cores) as shards, open_threads(problem, size, stopped, on_threads(shards)) as found:
                yield found
        else:
            with open_threads(problem, size, stopped) as found:
                yield found
    else:
        with open_cluster(problem, settings, stopped) as found:
            yield found


def has_shards(problem: Problem) -> bool:
    """Return whether a sweep can be divided."""
    return problem.model == "classes" and len(cut_shards(len(problem.distinct.size))) > 2


@contextmanager
def open_threads(problem: Problem, size: int, stopped: threading.Event, each: Each = here) -> Iterator[Workers]:
    """Run blocks on threads, which share the problem and check for the stop event after every sweep."""
    with _closing(ThreadPoolExecutor(size, thread_name_prefix=THREAD_NAME)) as pool:
        try:
            yield Workers(size, lambda task, _: pool.submit(run_block, problem, *task, stopped.is_set, each))
        finally:
            stopped.set()


@contextmanager
def open_cluster(problem: Problem, settings: Settings, stopped: threading.Event) -> Iterator[Workers]:
    """Connect to a running Dask scheduler, send its workers the problem, or their shards of it, and disconnect."""
    try:
        dask: Any = importlib.import_module("dask")
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        raise SettingsError(NO_DASK) from None
    address = settings.scheduler
    # A block carries a state of many megabytes; Dask would warn about each.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
        try:
            client = distributed.Client(address, timeout=10, set_as_default=False)
        except (OSError, ValueError):
            raise KeyholeError(f"no Dask scheduler answers at {address}: start one with 'dask scheduler'.") from None
        with client:
            threads = sum(client.nthreads().values())
            if not threads:
                raise KeyholeError(f"the Dask scheduler at {address} has no worker: start some with 'dask worker'.")
            size = min(threads, settings.chains)
            if has_shards(problem) and threads > size:
                with open_threads(problem, size, stopped, Cluster(client)) as found:
                    yield found
                return
            everywhere = client.scatter(problem, broadcast=True, hash=False)
            with _closing(client.get_executor(pure=False)) as pool:
                # Dask replaces the future by the problem.
                yield Workers(size, lambda task, _: pool.submit(run_given, engine(), everywhere, task))


@contextmanager
def _closing(pool: Executor) -> Iterator[Executor]:
    """Wait for the last blocks, unless the user has stopped the run."""
    try:
        yield pool
    except KeyboardInterrupt:
        if isinstance(pool, ThreadPoolExecutor | ProcessPoolExecutor):
            pool.shutdown(wait=False, cancel_futures=True)
        else:
            pool.shutdown(wait=False)
        raise
    except BaseException:
        pool.shutdown()
        raise
    pool.shutdown()
