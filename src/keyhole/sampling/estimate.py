"""Before a run starts: how much memory it needs, how long a round takes, and whether it can fit at all."""

import contextlib
import os
import resource
import sys
import time
from pathlib import Path

from keyhole.errors import InputError
from keyhole.kernels.cells import make_cell_work
from keyhole.kernels.state import Records
from keyhole.sampling.chain import Position, run_block
from keyhole.sampling.history import KEPT_DRAWS, risk_limit
from keyhole.sampling.problem import Problem
from keyhole.sampling.start import empty_state, make_state_work
from keyhole.sampling.workers import count_workers
from keyhole.settings import Settings

CAPACITY = 520
"""Profiles for which a chain has room at its start (`start_state`)."""

LIBRARIES = 138_000_000
"""Bytes of what is loaded only for the verdict: ArviZ and SciPy's statistics."""

DRAW_BYTES = 1_500
"""Bytes of the quantities of one draw, as Python holds them."""

SHARE_STACKED = 0.875
"""Of the draws that are copied side by side for the verdict: all but the shortest warm-up."""


def sizes(problem: Problem) -> tuple[int, int]:
    """Return the bytes of a chain's state, and of the scratch of a block.

    They are taken from the arrays themselves, for one record and for two: a field that is added is counted.
    """
    records = problem.records
    few = [Records(records.level[:n], records.answer_total[:n], records.level_start) for n in (1, 2)]
    states = [sum(array.nbytes for array in empty_state(part, CAPACITY)) for part in few]
    works = [_bytes(make_state_work(part, problem.prior, CAPACITY)) for part in few]
    n = len(records.level)
    state = states[0] + (n - 1) * (states[1] - states[0])
    work = works[0] + (n - 1) * (works[1] - works[0])
    if problem.estimator == "exact":
        work += _bytes(make_cell_work(problem.cell_level.shape[1], 1)) + 2 * 200 * 8 * 2 ** (
            1 + problem.cell_level.shape[1] // 2
        )
    return state, work


def estimate_memory(problem: Problem, settings: Settings, draws: int) -> int:
    """Return the bytes that a run of this many draws of each chain adds to those in use."""
    state, work = sizes(problem)
    workers, uniques = count_workers(settings), len(problem.cell_level)
    held = min(draws, risk_limit(uniques)) * uniques * 8
    profiles = settings.profiles if problem.prior.finite else 100
    kept = min(draws, KEPT_DRAWS) * int(problem.records.level_start[-1]) * profiles * 4
    libraries = 0 if "arviz_stats" in sys.modules else LIBRARIES
    chains = settings.chains * (state + (1.0 + SHARE_STACKED) * held + 2 * kept + draws * DRAW_BYTES)
    return int(chains) + workers * (state + work) + libraries


def check_memory(problem: Problem, settings: Settings) -> None:
    """Refuse a run whose first draws alone would not fit."""
    free = free_memory()
    needed = estimate_memory(problem, settings, draws=8)
    if free is not None and needed > free:
        raise InputError(
            f"this needs at least {tell_bytes(needed)} of memory, and {tell_bytes(free)} are free: "
            "use fewer chains or workers, group categories, or use a larger machine."
        )


def time_draw(problem: Problem, settings: Settings, position: Position) -> float:
    """Return about how many seconds a draw of each chain takes: one sweep is tried out and thrown away."""
    started = time.perf_counter()
    run_block(problem, position._replace(since=max(position.since, 0)), 1, (1, 1), seconds=0.0)
    sweep = time.perf_counter() - started
    return 1.5 * problem.spacing * sweep * settings.chains / count_workers(settings)


def describe_estimate(problem: Problem, settings: Settings, seconds_per_draw: float, first_round: float) -> str:
    """Say what a run will need at most, and when its first verdict comes."""
    draws = int(settings.time_limit / seconds_per_draw)
    if settings.max_sweeps is not None:
        draws = min(draws, settings.max_sweeps // problem.spacing)
    memory = estimate_memory(problem, settings, max(draws, 8))
    verdict = min(first_round * seconds_per_draw, settings.time_limit)
    return (
        f"About {tell_bytes(memory)} of memory at most; first verdict after about {tell_seconds(verdict)}, "
        f"the last after {tell_seconds(settings.time_limit)} at the latest."
    )


def free_memory() -> int | None:
    """Return the bytes that this process may still take; None where nobody says."""
    found = []
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        found.append(1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable")))
    with contextlib.suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        limit = int((group / "memory.max").read_text(encoding="ascii"))
        found.append(limit - int((group / "memory.current").read_text(encoding="ascii")))
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY:
        with contextlib.suppress(OSError, ValueError):
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            found.append(limit - pages * os.sysconf("SC_PAGE_SIZE"))
    return max(min(found), 0) if found else None


def tell_bytes(size: float) -> str:
    """Write a size in megabytes or gigabytes."""
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{max(size / 1e6, 1.0):,.0f} MB"


def tell_seconds(seconds: float) -> str:
    """Write a duration in the unit that fits."""
    if seconds < 100:
        return f"{max(seconds, 1.0):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _bytes(arrays: tuple[object, ...]) -> int:
    """Return the bytes of all arrays in a tuple of arrays and tuples."""
    return sum(_bytes(item) if isinstance(item, tuple) else int(getattr(item, "nbytes", 0)) for item in arrays)
