"""Work on distinct cells, cut into shards: in this thread, on threads, or on a cluster (workers.py).

What is worked on stays where it is; only parameters go out and sums or probabilities come back. Where a shard is worked
on never changes a number: the shards are cut by the file alone, and each has its own generator.
"""

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Protocol, TypeVar

import numpy as np

from keyhole.kernels.classes import Cells

SHARD = 20_000
"""Most distinct cells in a shard."""

Found = TypeVar("Found")

Whole = Cells | np.ndarray
"""Distinct cells, or rows of events."""

Work = Callable[[Any, list[int], list[Any], Any], Found]
"""What is done with consecutive shards: a function of whole, ends, own and common as in Each."""

Merge = Callable[[list[Found]], Found]
"""Makes one result of those of consecutive groups of shards, in order."""


class Each(Protocol):
    """What applies a piece of work to all shards, in groups of consecutive ones, and returns the merged results.

    ends: first row of each shard, and the end of the last; own: what each shard gets besides, its generator or seed;
    common: what all of them get.
    """

    def __call__(
        self, work: Work[Found], merge: Merge[Found], whole: Any, ends: list[int], own: list[Any], common: Any
    ) -> Found: ...


def here(work: Work[Found], merge: Merge[Found], whole: Any, ends: list[int], own: list[Any], common: Any) -> Found:
    """Work on all shards in this thread."""
    return work(whole, ends, own, common)


def on_threads(pool: Executor) -> Each:
    """Return what works on shards with the threads of a pool: kernels let others run."""

    def each(work: Work[Found], merge: Merge[Found], whole: Any, ends: list[int], own: list[Any], common: Any) -> Found:
        shards = range(len(own))
        return merge(list(pool.map(lambda x: work(whole, ends[x : x + 2], own[x : x + 1], common), shards)))

    return each


def cut_shards(rows: int) -> list[int]:
    """Return where each shard of this many rows begins, and the end of the last."""
    return [int(end) for end in np.linspace(0, rows, max(-(-rows // SHARD), 1) + 1)]


def take(whole: Whole, first: int, last: int) -> Whole:
    """Return these rows alone."""
    if isinstance(whole, Cells):
        return Cells(whole.level[first:last], whole.size[first:last], whole.level_start)
    return whole[first:last]
