"""Chains of `classes`, and the start that they give to those of `hdp` (kernels/classes.py)."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.data.cells import find_cells
from keyhole.kernels.classes import (
    Cells,
    Labels,
    Profiles,
    draw_labels,
    draw_profiles,
    extend_profiles,
    find_possible,
)
from keyhole.kernels.freeze import LEFT, Draw
from keyhole.kernels.state import Integers, Prior
from keyhole.sampling.predict import make_draw

CAP = 0.01
"""Bound of the slice, times the number of records: with a lower one more profiles are used, with a higher one more
draws of labels are refused."""

SHARD = 20_000
"""Most distinct cells that are drawn together. Shards are cut by the file alone, so that numbers depend on nothing
else."""

Shard = tuple[np.random.Generator, int, int]
"""A generator, the first cell, and the one after the last."""

Map = Callable[[Callable[[Shard], Labels], Iterable[Shard]], Iterator[Labels]]
"""What applies a function to every shard, in order: `map`, or that of an executor."""


class ClassState(NamedTuple):
    """The state of a chain: which profiles the records of each cell have, and the parameters given that."""

    labels: Labels
    profiles: Profiles


def count_distinct(level: NDArray[np.int32], level_start: Integers) -> tuple[Integers, Cells]:
    """Return the order that sorts records lexicographically, and their distinct cells."""
    cells, cell = find_cells(list(level.T), len(level))
    size = np.bincount(cell, minlength=len(cells)).astype(np.int64)
    return np.argsort(cell, kind="stable").astype(np.int64), Cells(cells, size, level_start)


def nearest_prototype(rng: np.random.Generator, level: np.ndarray, prototypes: int) -> np.ndarray:
    """Return for each row with which of some randomly picked rows it agrees most; ties are broken at random."""
    n = len(level)
    picked = level[rng.choice(n, size=min(prototypes, n), replace=False)]
    label = np.zeros(n, np.int32)
    for first in range(0, n, 10_000):
        part = level[first : first + 10_000]
        agree = np.zeros((len(part), len(picked)))
        for j in range(level.shape[1]):
            agree += part[:, j, None] == picked[None, :, j]
        label[first : first + 10_000] = (agree + 0.5 * rng.random(agree.shape)).argmax(axis=1)
    return label


def start_classes(rng: np.random.Generator, cells: Cells, prior: Prior, profiles: int) -> ClassState:
    """Return a state in which every cell has the label of the nearest of some cells picked at random."""
    label = nearest_prototype(rng, cells.level, profiles)
    levels, sizes = int(cells.level_start[-1]), np.diff(cells.level_start)
    records = np.bincount(label, weights=cells.size, minlength=profiles).astype(np.int64)
    level_count = np.zeros((levels, profiles), np.int64)
    for j in range(len(sizes)):
        known = cells.level[:, j] >= 0
        np.add.at(level_count, (cells.level[known, j], label[known]), cells.size[known])
    start = np.arange(len(label) + 1, dtype=np.int64)
    labels = Labels(start, label, cells.size.astype(np.int32), records, level_count)
    base_level = 1.0 / np.repeat(sizes, sizes)
    # Rows given the labels, all levels being possible.
    answers = np.add.reduceat(level_count, cells.level_start[:-1], axis=0)
    rows = (level_count + base_level[:, None]) / np.repeat(answers + 1.0, sizes, axis=0)
    labels, rows = drop_empty(labels, rows)
    old = sizes.astype(np.float64), base_level, np.ones(1)
    return ClassState(labels, draw_profiles(rng, cells, prior, labels, *old, rows))


def drop_empty(labels: Labels, rows: NDArray[np.float64]) -> tuple[Labels, NDArray[np.float64]]:
    """Return labels and rows of the profiles that have records."""
    used = labels.records > 0
    place = (np.cumsum(used) - 1).astype(np.int32)
    kept = Labels(
        labels.start, place[labels.profile], labels.size, labels.records[used],
        np.ascontiguousarray(labels.level_count[:, used]),
    )  # fmt: skip
    return kept, np.ascontiguousarray(rows[:, used])


def sweep_classes(
    rng: np.random.Generator, cells: Cells, prior: Prior, state: ClassState, each: Map = map
) -> ClassState:
    """Draw the labels, then everything else. each: applies a function to every shard."""
    labels, old = state
    cap = CAP / max(int(labels.records.sum()), 1)
    bound = min(cap, float(old.weight.min(initial=cap)))
    least = bound * (1.0 - rng.random())
    weight, rows, _ = extend_profiles(rng, cells.level_start, old, least, least)
    possible = find_possible(prior.rules, rows)

    def draw(shard: Shard) -> Labels:
        generator, first, last = shard
        found: Labels = draw_labels(generator, cells, first, last, prior.rules, weight, rows, possible)
        return found

    new = join(list(each(draw, cut_shards(rng, len(cells.size)))))
    if rng.random() * min(cap, float(weight[new.records > 0].min(initial=cap))) < bound:
        labels, rows = drop_empty(new, rows)
    else:
        rows = old.level_profile
    profiles = draw_profiles(
        rng, cells, prior, labels, old.base_strength, old.base_level, old.weight_concentration, rows
    )
    return ClassState(labels, profiles)


def cut_shards(rng: np.random.Generator, cells: int) -> list[Shard]:
    """Return the shards of this many cells; several have a generator each, so that they may be drawn anywhere."""
    ends = np.linspace(0, cells, max(-(-cells // SHARD), 1) + 1).astype(int).tolist()
    streams = [rng]
    if len(ends) > 2:
        streams = [np.random.default_rng(int(seed)) for seed in rng.integers(2**63, size=len(ends) - 1)]
    return list(zip(streams, ends[:-1], ends[1:], strict=True))


def join(parts: list[Labels]) -> Labels:
    """Return the labels of all shards."""
    if len(parts) == 1:
        return parts[0]
    entries = np.cumsum([0, *(len(part.profile) for part in parts)])
    return Labels(
        np.concatenate([[0], *(part.start[1:] + first for part, first in zip(parts, entries, strict=False))]),
        np.concatenate([part.profile for part in parts]),
        np.concatenate([part.size for part in parts]),
        np.sum([part.records for part in parts], axis=0),
        np.sum([part.level_count for part in parts], axis=0),
    )


def freeze_classes(rng: np.random.Generator, cells: Cells, prior: Prior, state: ClassState, people: float) -> Draw:
    """Copy what a prediction needs; break the remainder into profiles until it has less than LEFT of `people`.

    A mixture of truncated profiles is a truncated mixture with weights w_k / s_k.
    """
    old = state.profiles
    weight, rows, remainder = extend_profiles(rng, cells.level_start, old, LEFT / max(people, 1.0), 0.0)
    weight = np.append(weight, remainder)
    rows = np.concatenate([rows, old.base_level[:, None]], axis=1)
    weight = weight / find_possible(prior.rules, rows)
    return make_draw(weight / weight.sum(), rows, np.zeros(2), np.zeros(1), True, len(cells.level_start) - 1)


def list_labels(state: ClassState) -> NDArray[np.int32]:
    """Return the profile of every record, in the order of the cells."""
    return np.repeat(state.labels.profile, state.labels.size)
