"""Chains of `classes`, and the start that they give to those of `hdp` (kernels/classes.py, visits.py)."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.data.cells import find_cells
from keyhole.kernels.classes import (
    Cells,
    Profiles,
    Tally,
    draw_labels,
    draw_profiles,
    extend_profiles,
    find_possible,
)
from keyhole.kernels.freeze import LEFT, Draw
from keyhole.kernels.state import Floats, Integers, Prior, Rules, has_rules
from keyhole.kernels.visits import count_labels, visit_records
from keyhole.sampling.predict import make_draw
from keyhole.sampling.shards import Each, cut_shards, here

CAP = 0.01
"""Bound of the slice, times the number of records: with a lower one more profiles are used, with a higher one more
draws of labels are refused."""

MOST_VISITED, VISITS = 8_000, 2
"""Most records of a file without rules whose records are visited one after the other, and how often in each sweep."""

LARGE = 100_000
"""Records from which on chains start from subsamples."""

SUBSAMPLES, SUBSAMPLE_SWEEPS = (10_000, 100_000, 1_000_000), 100
"""Records of the subsamples, of which those are used that are at most a third of the file; sweeps of each."""


class ClassState(NamedTuple):
    """The state of a chain: how many records and answers each profile has, and the parameters given that.

    label : of each record, in the order of the cells, if sweeps visit the records; otherwise empty, labels being
    counted only.
    """

    tally: Tally
    profiles: Profiles
    label: NDArray[np.int32]


NO_LABELS = np.zeros(0, np.int32)


def are_visited(cells: Cells, prior: Prior) -> bool:
    """Return whether sweeps visit the records, which is a matter of sizes alone.

    With rules rows cannot be integrated out, and of many records the slice draws the labels at less cost.
    """
    return int(cells.size.sum()) <= MOST_VISITED and not has_rules(prior.rules)


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
    tally = Tally(records, level_count)
    base_level = 1.0 / np.repeat(sizes, sizes)
    # Rows given the labels, all levels being possible.
    answers = np.add.reduceat(level_count, cells.level_start[:-1], axis=0)
    rows = (level_count + base_level[:, None]) / np.repeat(answers + 1.0, sizes, axis=0)
    layouts = (rng.random((len(sizes), profiles)) * np.diff(prior.trees.layout_start)[:, None]).astype(np.int64)
    own = keep_labels(cells, prior, np.repeat(label, cells.size), tally)
    tally, rows, layouts = drop_empty(tally, rows, layouts)
    old = prior.trees.strength_scale, base_level, np.ones(1)
    return ClassState(tally, draw_profiles(rng, cells, prior, tally, *old, rows, layouts), own)


def keep_labels(cells: Cells, prior: Prior, label: NDArray[np.int32], tally: Tally) -> NDArray[np.int32]:
    """Return the labels of all records, numbered without the profiles that have none, if records are visited."""
    return (np.cumsum(tally.records > 0) - 1).astype(np.int32)[label] if are_visited(cells, prior) else NO_LABELS


def is_large(cells: Cells) -> bool:
    """Return whether chains start from subsamples."""
    return int(cells.size.sum()) >= LARGE


def start_large(rng: np.random.Generator, cells: Cells, prior: Prior, profiles: int) -> ClassState:
    """Return a state found on random subsamples of growing size, the first of which starts with this many profiles.

    Sweeps of a subsample take milliseconds, and there profiles that are not needed soon lose their few records.
    """
    records = int(cells.size.sum())
    sizes = [size for size in SUBSAMPLES if 3 * size <= records]
    part = draw_subsample(rng, cells, sizes[0] / records)
    state = start_classes(rng, part, prior, profiles)
    for size in (*sizes[1:], records):
        for _ in range(SUBSAMPLE_SWEEPS):
            state = sweep_classes(rng, part, prior, state)
        part = cells if size == records else draw_subsample(rng, cells, size / records)
        state = carry_over(rng, part, prior, state)
    return state


def draw_subsample(rng: np.random.Generator, cells: Cells, share: float) -> Cells:
    """Return the cells of a random subsample to which each record belongs with this probability."""
    size = rng.binomial(cells.size, min(share, 1.0))
    kept = size > 0
    return Cells(np.ascontiguousarray(cells.level[kept]), size[kept].astype(np.int64), cells.level_start)


def carry_over(rng: np.random.Generator, cells: Cells, prior: Prior, state: ClassState) -> ClassState:
    """Return a state of other cells: their labels given the parameters, then the parameters given these."""
    old = state.profiles
    tally = tally_labels(rng, cells, prior, old.weight, old.level_profile, old.possible, here)
    tally, rows, layouts = drop_empty(tally, old.level_profile, old.layout)
    hyper = old.base_strength, old.base_level, old.weight_concentration
    return ClassState(tally, draw_profiles(rng, cells, prior, tally, *hyper, rows, layouts), NO_LABELS)


def drop_empty(
    tally: Tally, rows: NDArray[np.float64], layouts: Integers
) -> tuple[Tally, NDArray[np.float64], Integers]:
    """Return counts, rows and layouts of the profiles that have records."""
    used = tally.records > 0
    kept = Tally(tally.records[used], np.ascontiguousarray(tally.level_count[:, used]))
    return kept, np.ascontiguousarray(rows[:, used]), np.ascontiguousarray(layouts[:, used])


def sweep_classes(
    rng: np.random.Generator, cells: Cells, prior: Prior, state: ClassState, each: Each = here
) -> ClassState:
    """Draw the labels, then everything else. each: works on the shards of the cells."""
    old, label = state.profiles, state.label
    if len(label) > 0:
        label, layouts = visit_records(rng, cells, prior.trees, label, old, VISITS)
        tally = count_labels(cells, label, layouts.shape[1])
        rows = np.zeros(tally.level_count.shape)
    else:
        tally, rows, layouts = draw_by_slice(rng, cells, prior, state, each)
    profiles = draw_profiles(
        rng, cells, prior, tally, old.base_strength, old.base_level, old.weight_concentration, rows, layouts
    )
    return ClassState(tally, profiles, label)


def draw_by_slice(
    rng: np.random.Generator, cells: Cells, prior: Prior, state: ClassState, each: Each
) -> tuple[Tally, NDArray[np.float64], Integers]:
    """Draw all labels given weights and rows; return counts, rows and layouts of the profiles that have records."""
    tally, old = state.tally, state.profiles
    cap = CAP / max(int(tally.records.sum()), 1)
    bound = min(cap, float(old.weight.min(initial=cap)))
    least = bound * (1.0 - rng.random())
    weight, rows, layouts, _ = extend_profiles(rng, cells.level_start, prior.trees, old, least, least)
    new = tally_labels(rng, cells, prior, weight, rows, find_possible(prior.rules, rows), each)
    if rng.random() * min(cap, float(weight[new.records > 0].min(initial=cap))) < bound:
        return drop_empty(new, rows, layouts)
    return tally, old.level_profile, old.layout


def tally_labels(
    rng: np.random.Generator, cells: Cells, prior: Prior, weight: Floats, rows: Floats, possible: Floats, each: Each
) -> Tally:
    """Draw the labels of all cells, and count them. Several shards have a generator each; one takes the chain's own."""
    ends = cut_shards(len(cells.size))
    own: list[Any] = [rng] if len(ends) == 2 else rng.integers(2**63, size=len(ends) - 1).tolist()
    return each(tally_shards, add_tallies, cells, ends, own, (prior.rules, weight, rows, possible))


def add_tallies(parts: list[Tally]) -> Tally:
    """Return the counts of all parts."""
    return Tally(np.sum([part.records for part in parts], axis=0), np.sum([part.level_count for part in parts], axis=0))


def tally_shards(cells: Cells, ends: list[int], own: list[Any], common: tuple[Rules, Floats, Floats, Floats]) -> Tally:
    """Draw the labels of some shards, and count them."""
    rules, weight, rows, possible = common
    records = np.zeros(len(weight), np.int64)
    level_count = np.zeros(rows.shape, np.int64)
    for (first, last), seed in zip(pairwise(ends), own, strict=True):
        found = draw_labels(np.random.default_rng(seed), cells, first, last, rules, weight, rows, possible)
        records += found.records
        level_count += found.level_count
    return Tally(records, level_count)


def freeze_classes(rng: np.random.Generator, cells: Cells, prior: Prior, state: ClassState, people: float) -> Draw:
    """Copy what a prediction needs; break the remainder into profiles until it has less than LEFT of `people`.

    A mixture of truncated profiles is a truncated mixture with weights w_k / s_k.
    """
    old = state.profiles
    least = LEFT / max(people, 1.0)
    weight, rows, _, remainder = extend_profiles(rng, cells.level_start, prior.trees, old, least, 0.0)
    weight = np.append(weight, remainder)
    rows = np.concatenate([rows, old.base_level[:, None]], axis=1)
    weight = weight / find_possible(prior.rules, rows)
    return make_draw(weight / weight.sum(), rows, np.zeros(2), np.zeros(1), True, len(cells.level_start) - 1)


def list_labels(rng: np.random.Generator, cells: Cells, prior: Prior, state: ClassState) -> NDArray[np.int32]:
    """Return the profile of every record, in the order of the cells; it is drawn where labels are counted only."""
    if len(state.label) > 0:
        return state.label
    weight, rows, possible = state.profiles.weight, state.profiles.level_profile, state.profiles.possible
    found = draw_labels(rng, cells, 0, len(cells.size), prior.rules, weight, rows, possible)
    return np.repeat(found.profile, found.size)
