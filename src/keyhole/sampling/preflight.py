"""Before a run starts: how much memory it needs, how long a round takes, and whether it fits into memory at all."""

import contextlib
import math
import time
from pathlib import Path
from typing import NamedTuple

import psutil

from keyhole.errors import InputError
from keyhole.kernels.cells import make_cell_work
from keyhole.kernels.partitions import Partitions
from keyhole.sampling.chain import ChainState, run_block
from keyhole.sampling.costs import CLASSES, EXACT_STEPS, exact_steps
from keyhole.sampling.problem import Problem
from keyhole.sampling.start import CAPACITY, empty_state, make_state_work
from keyhole.sampling.trace import KEPT_DRAWS, risk_limit
from keyhole.sampling.workers import count_workers
from keyhole.settings import Settings
from keyhole.words import duration

DRAW_BYTES = 1_500
"""Bytes of the quantities of one draw as Python objects."""

SHARE_STACKED = 0.875
"""Share of the draws that are copied into arrays for the verdict: all but the shortest burn-in."""

RETAINED = 48_000_000
"""Most bytes of a worker's scratch that the C library does not return to the system when they are freed."""

FILE_ROOM = 1.125
"""A file of a checkpoint is assembled in memory, in a buffer that grows by an eighth."""

SHARE_SAVED = 0.5
"""Share of the draws that one checkpoint adds to its generation, all in a short run and few in a long one; they are
packed before they are assembled."""

EVENT_BYTES = 100
"""Bytes of scratch for each cell while a draw of `classes` is evaluated."""

PROFILES, GROWTH = 100, 1.5
"""Profiles of a stored draw before anything is known of them; later the mean of the chains' starts times GROWTH."""

SIMULATED = 14
"""Bytes of an answer while the model check draws a file: code, level, and whether it is missing."""


def sizes(problem: Problem) -> tuple[int, int]:
    """Return the bytes of a chain's state, and of the scratch of a block.

    They are measured on the arrays themselves, for one record and for two, so that new fields are counted. The lists of
    partitions.py, which all chains share, are not counted: this call makes them.
    """
    records = problem.records
    if problem.model == "classes":
        state = 2 * 8 * int(records.level_start[-1]) * CLASSES
        return state, 3 * state + EVENT_BYTES * problem.cells.cells
    few = [records._replace(level=records.level[:n], answer_total=records.answer_total[:n]) for n in (1, 2)]
    states = [sum(array.nbytes for array in empty_state(part, problem.prior, CAPACITY)) for part in few]
    works = [_bytes(make_state_work(part, problem.prior, CAPACITY)) for part in few]
    n = len(records.level)
    state = states[0] + (n - 1) * (states[1] - states[0])
    work = works[0] + (n - 1) * (works[1] - works[0])
    return state, work + cell_bytes(problem)


def cell_bytes(problem: Problem) -> int:
    """Return the bytes of a worker's scratch for the probabilities of cells, in sampling and in explaining alike."""
    variables = int(problem.cell_level.shape[1])
    if problem.estimator != "exact" or problem.model == "classes":
        return 0
    room = _bytes(make_cell_work(variables, 1)) + (2 * 200 * 8 << 1 + variables // 2)
    # Cells with missing answers restrict different numbers of variables, and each number has its own scratch.
    return room if len(problem.cells.parts) < 2 else 2 * room


def partition_bytes(variables: int) -> int:
    """Return the bytes of the products of partitions.py for this many variables, twice as many while it lists them."""
    # A set of m variables besides its lowest has 1 + m 2^(m - 1) products; sets without variable 0, then those with it.
    products = sum((math.comb(variables - 1, m + 1) + 1) * (1 + (m << m) // 2) for m in range(variables))
    return 2 * 8 * products


class Memory(NamedTuple):
    """Bytes that a run adds to those in use when its chains are at their starts.

    sampling: while chains run; saving: while the draws are collected and a checkpoint is written; explaining: while the
    model is checked and the risk explained, after the chains' states are released.
    """

    sampling: int
    saving: int
    explaining: int


def estimate_stages(problem: Problem, settings: Settings, draws: int, profiles: float = PROFILES) -> Memory:
    """Return what each stage of a run needs, with this many draws of each chain and profiles of each draw."""
    state, work = sizes(problem)
    workers, uniques = count_workers(settings), len(problem.cell_level)
    n, variables = problem.records.level.shape
    held = min(draws, risk_limit(uniques)) * uniques * 8
    profiles = settings.profiles if problem.prior.finite else profiles
    kept = int(min(draws, KEPT_DRAWS) * int(problem.records.level_start[-1]) * profiles * 4)
    drawn = settings.chains * (held + kept + draws * DRAW_BYTES)
    stacked = int(settings.chains * (SHARE_STACKED * held + kept))
    scratch = workers * (state + work)
    left = drawn + stacked + min(scratch, workers * RETAINED)
    exact = problem.model != "classes" and exact_steps(variables - 1) <= EXACT_STEPS
    asked = workers * cell_bytes(problem) + (partition_bytes(variables - 1) if exact else 0)
    # From the second round on, the arrays collected in the round before are still there while chains run.
    return Memory(
        sampling=drawn + scratch + stacked // 2,
        saving=left + int(FILE_ROOM * settings.chains * state + 2 * SHARE_SAVED * drawn),
        explaining=left - settings.chains * state + max(stacked // 2, SIMULATED * n * variables, asked),
    )


def estimate_memory(problem: Problem, settings: Settings, draws: int, profiles: float = PROFILES) -> int:
    """Return the bytes that a run of this many draws of each chain adds once its chains are at their starts."""
    return max(estimate_stages(problem, settings, draws, profiles))


def check_memory(problem: Problem, settings: Settings) -> None:
    """Refuse a run whose first draws alone do not fit into free memory; memory already in use does not count."""
    state, _ = sizes(problem)
    free = free_memory()
    needed = settings.chains * state + estimate_memory(problem, settings, draws=8)
    if needed > free:
        raise InputError(
            f"this needs at least {describe_bytes(needed)} of memory, and {describe_bytes(free)} are free: "
            "use fewer chains or workers, group categories, or use a larger machine."
        )


def time_draw(problem: Problem, settings: Settings, position: ChainState) -> float:
    """Return approximately how many seconds a draw of each chain takes, from one sweep that is then discarded."""
    started = time.perf_counter()
    run_block(problem, position, position.draws + 1, (1, 1), seconds=0.0)
    sweep = time.perf_counter() - started
    return 1.5 * problem.thin * sweep * settings.chains / count_workers(settings)


def describe_estimate(
    problem: Problem,
    settings: Settings,
    seconds_per_draw: float,
    first_round: float,
    fewest: float = 0.0,
    profiles: float = PROFILES,
) -> str:
    """Return a sentence on the peak memory of the process and the time of the first verdict.

    first_round, fewest: draws until the first verdict, and in any case, with the sweeps of the start counted in draws;
    profiles: mean number of the chains' starts.
    """
    draws = int(settings.time_limit / seconds_per_draw)
    if settings.max_sweeps is not None:
        draws = min(draws, settings.max_sweeps // problem.thin)
    memory = max(peak_memory(), used_memory() + estimate_memory(problem, settings, max(draws, 8), GROWTH * profiles))
    last = max(settings.time_limit, fewest * seconds_per_draw)
    verdict = min(first_round * seconds_per_draw, last)
    why = "" if last == settings.time_limit else ": chains need that long to start"
    return (
        f"About {describe_bytes(memory)} of memory at most; first verdict after about {duration(verdict)}, "
        f"the last after {duration(last)} at the latest{why}."
    )


def used_memory() -> int:
    """Return the bytes of memory that this process uses now."""
    return int(psutil.Process().memory_info().rss)


def peak_memory() -> int:
    """Return the most bytes of memory that this process has used so far; what it uses now where that is not known."""
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    used = psutil.Process().memory_info()
    return int(getattr(used, "peak_wset", used.rss))  # peak_wset: on Windows


def free_memory() -> int:
    """Return the bytes that this process may still allocate."""
    found = [int(psutil.virtual_memory().available)]
    with contextlib.suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        limit = int((group / "memory.max").read_text(encoding="ascii"))
        found.append(limit - int((group / "memory.current").read_text(encoding="ascii")))
    if hasattr(psutil, "RLIMIT_AS"):  # on Linux and FreeBSD
        process = psutil.Process()
        limit = process.rlimit(psutil.RLIMIT_AS)[0]
        if limit != psutil.RLIM_INFINITY:
            found.append(limit - process.memory_info().vms)
    return max(min(found), 0)


def describe_bytes(size: float) -> str:
    """Return a size in words, in megabytes or gigabytes."""
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{max(size / 1e6, 1.0):,.0f} MB"


def _bytes(arrays: tuple[object, ...]) -> int:
    """Return the bytes of all arrays in nested tuples, without those that all workers share."""
    if isinstance(arrays, Partitions):
        return 0
    return sum(_bytes(item) if isinstance(item, tuple) else int(getattr(item, "nbytes", 0)) for item in arrays)
