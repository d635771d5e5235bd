"""States of `classes` from the prior (tests/oracle/classes_sampler.py), laid out for keyhole, moved, and measured.

The oracle's draw has records with labels; keyhole has distinct cells with counts. A moved state is measured by the
oracle, its records in a random order, since nothing says which of them is the first.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from keyhole.kernels.classes import Cells, Labels, Profiles, draw_profiles
from keyhole.kernels.state import Prior, no_rules
from keyhole.sampling import classes, shards
from tests.oracle.classes_sampler import QUANTITIES, ClassesState, draw_state, measure
from tests.oracle.model import Hyper
from tests.statistical.boxes import Box, make_box_rules
from tests.statistical.classes_labels import LabelledState, sweep_labelled
from tests.statistical.prior_pool import make_trees

Move = Callable[[np.random.Generator, Cells, Prior, LabelledState], LabelledState]
FEW = 2
"""Cells of a shard where several shards are wanted."""

OF_RULES = tuple(name for name in QUANTITIES if "possible mass" in name)


@dataclass(frozen=True)
class Bench:
    """What all replicates share.

    adaptive: lambda and pi are learned; otherwise lambda_j = d_j `strength`, pi_j uniform. blank: chance of a missing
    answer. shard: most distinct cells in a shard; cap: bound of the slice, a large one refuses many labels. visited:
    records are visited one after the other, in place of the slice.
    """

    name: str
    levels: tuple[int, ...] = (2, 3, 2)
    boxes: tuple[Box, ...] = ()
    records: int = 5
    adaptive: bool = True
    strength: float = 1.0
    blank: float = 0.0
    shard: int = shards.SHARD
    cap: float = classes.CAP
    visited: bool = False

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def start(self) -> NDArray[np.int64]:
        """First level of each variable, and the number of levels."""
        return np.concatenate([[0], np.cumsum(self.levels)]).astype(np.int64)

    @property
    def prior(self) -> Prior:
        """The prior as keyhole has it; gamma is always learned."""
        return make_prior(self.levels, self.boxes, self.adaptive)

    def draw(self, rng: np.random.Generator) -> ClassesState:
        """Draw everything from the prior."""
        hyper = None
        if not self.adaptive:
            base = [np.full(d, 1.0 / d) for d in self.levels]
            hyper = Hyper(rng.gamma(2.0), (math.nan, math.nan), 0.0, [self.strength * d for d in self.levels], base)
        return draw_state(rng, self.records, self.levels, self.boxes, hyper, self.blank)

    def measure(self, state: ClassesState) -> list[float]:
        """The quantities of the oracle; without rules those of the possible mass would be nothing but rounding."""
        found = measure(state, self.levels, self.boxes)
        return [value if self.boxes or name not in OF_RULES else 0.0 for name, value in found.items()]


def make_prior(
    levels: tuple[int, ...], boxes: tuple[Box, ...], adaptive: bool, gamma: tuple[float, float] = (2.0, 1.0)
) -> Prior:
    """The prior of docs/model.md section 11. gamma: its shape and rate."""
    rules = make_box_rules(levels, boxes) if boxes else no_rules()
    trees = make_trees(list(levels), ordered=False)
    return Prior(False, adaptive, np.array(gamma), np.array([2.0, 1.0]), 1.5, 2.0, 1.0, rules, trees)


def as_levels(data: NDArray[np.int64], start: NDArray[np.int64]) -> NDArray[np.int32]:
    """Categories as levels; a missing answer stays -1."""
    return np.where(data < 0, -1, data + start[:-1]).astype(np.int32)


def lay_out(found: ClassesState, start: NDArray[np.int64], ruled: bool) -> tuple[Cells, LabelledState]:
    """A state of the oracle as cells and state of keyhole.

    ruled: missing answers are counted as the oracle drew them.
    """
    level, profiles = as_levels(np.array(found.data), start), len(found.weight)
    cell_level, cell = np.unique(level, axis=0, return_inverse=True)
    size = np.zeros((len(cell_level), profiles), np.int64)
    np.add.at(size, (cell.reshape(-1), found.label), 1)
    counted = as_levels(np.array(found.completed), start) if ruled else level
    level_count = np.zeros((start[-1], profiles), np.int64)
    for row, k in zip(counted, found.label, strict=True):
        level_count[row[row >= 0], k] += 1
    entry_cell, profile = np.nonzero(size)
    labels = Labels(
        start=np.searchsorted(entry_cell, np.arange(len(cell_level) + 1)).astype(np.int64),
        profile=profile.astype(np.int32),
        size=size[entry_cell, profile].astype(np.int32),
        records=size.sum(axis=0),
        level_count=level_count,
    )
    rows = np.exp(np.array([np.concatenate(rows) for rows in found.log_theta]).T)
    parameters = Profiles(
        weight=np.array(found.weight),
        remainder=np.exp([found.log_remainder]),
        level_profile=np.ascontiguousarray(rows),
        possible=np.ones(profiles),
        weight_concentration=np.array([found.hyper.gamma]),
        base_strength=np.array(found.hyper.strength),
        base_level=np.concatenate(found.hyper.base),
        layout=np.zeros((len(start) - 1, profiles), np.int64),
    )
    return Cells(np.ascontiguousarray(cell_level), size.sum(axis=1), start), LabelledState(labels, parameters)


def read_back(rng: np.random.Generator, cells: Cells, state: LabelledState) -> ClassesState:
    """The same in the other direction; the oracle measures observed answers only, so nothing is completed."""
    labels, profiles = state.labels, state.profiles
    start = cells.level_start
    cell = np.repeat(np.arange(len(cells.size)), np.diff(labels.start))
    record = rng.permutation(int(labels.size.sum()))
    level = np.repeat(cells.level[cell], labels.size, axis=0)[record]
    data = [tuple(row) for row in np.where(level < 0, -1, level - start[:-1]).tolist()]
    with np.errstate(divide="ignore"):
        log_rows = np.maximum(np.log(profiles.level_profile), -1e4)
        log_remainder = max(float(np.log(profiles.remainder[0])), -1e4)
    split = start[1:-1]
    hyper = Hyper(
        float(profiles.weight_concentration[0]), (math.nan, math.nan), 0.0, list(profiles.base_strength),
        [np.maximum(row, 1e-300) for row in np.split(profiles.base_level, split)],
    )  # fmt: skip
    label = np.repeat(labels.profile, labels.size)[record]
    return ClassesState(
        hyper=hyper, label=label.tolist(), weight=profiles.weight.tolist(), log_remainder=log_remainder,
        log_theta=[np.split(log_rows[:, k], split) for k in range(log_rows.shape[1])], data=data, completed=data,
    )  # fmt: skip


def check_tallies(cells: Cells, state: LabelledState, ruled: bool) -> None:
    """What is counted twice agrees: entries with cells, tallies with entries, and no profile is empty."""
    labels = state.labels
    cell = np.repeat(np.arange(len(cells.size)), np.diff(labels.start))
    assert (np.bincount(cell, labels.size, len(cells.size)) == cells.size).all()
    assert (labels.size > 0).all()
    assert (labels.records > 0).all()
    assert (np.bincount(labels.profile, labels.size, len(labels.records)) == labels.records).all()
    observed = np.zeros_like(labels.level_count)
    for row, k, number in zip(cells.level[cell], labels.profile, labels.size, strict=True):
        observed[row[row >= 0], k] += number
    answers = np.add.reduceat(labels.level_count, cells.level_start[:-1], axis=0)
    if ruled:
        assert (labels.level_count >= observed).all()
        assert (answers == labels.records).all()
    else:
        assert (labels.level_count == observed).all()


def draw_moved(
    rng: np.random.Generator, bench: Bench, replicates: int, times: int, move: Move, strict: bool = True
) -> NDArray[np.float64]:
    """Quantities of draws from the prior after `times` moves. strict: also check what is counted twice."""
    prior, start, ruled = bench.prior, bench.start, bool(bench.boxes)
    out = np.empty((replicates, len(QUANTITIES)))
    with patch.object(shards, "SHARD", bench.shard), patch.object(classes, "CAP", bench.cap):
        for r in range(replicates):
            cells, state = lay_out(bench.draw(rng), start, ruled)
            state = state._replace(visited=bench.visited)
            for _ in range(times):
                state = move(rng, cells, prior, state)
            if strict:
                check_tallies(cells, state, ruled)
            out[r] = bench.measure(read_back(rng, cells, state))
    return out


def move_profiles(rng: np.random.Generator, cells: Cells, prior: Prior, state: LabelledState) -> LabelledState:
    """Draw everything but the labels."""
    labels, old = state.labels, state.profiles
    hyper = old.base_strength, old.base_level, old.weight_concentration
    return state._replace(profiles=draw_profiles(rng, cells, prior, labels, *hyper, old.level_profile, old.layout))


MOVES: dict[str, Move] = {"sweep": sweep_labelled, "profiles": move_profiles}


def draw_fresh(rng: np.random.Generator, bench: Bench, replicates: int) -> NDArray[np.float64]:
    """Quantities of draws from the prior as the oracle has them."""
    return np.array([bench.measure(bench.draw(rng)) for _ in range(replicates)])


TWO_BOXES = ({0: {0}, 1: {0, 1}}, {0: {1}, 1: {2}, 2: {0}})
FOUR_OF_SIX = ({0: {0}, 1: {0, 1}}, {0: {1}, 1: {1, 2}})
BENCHES = {
    bench.name: bench
    for bench in (
        Bench("no rules"),
        Bench("fixed base", adaptive=False),
        Bench("missing answers, shards", blank=0.3, shard=FEW),
        Bench("a slice that refuses often", cap=2.0),
        Bench("rules", boxes=TWO_BOXES),
        Bench("rules, fixed base", boxes=TWO_BOXES, adaptive=False),
        Bench("rules, missing answers, shards", boxes=TWO_BOXES, blank=0.4, shard=FEW),
        Bench("two possible cells in six", (2, 3), FOUR_OF_SIX, records=4),
        # Many equal records: labels of a cell as binomials instead of one by one.
        Bench("many equal records", (2, 2), records=24),
        Bench("visits", visited=True),
        Bench("visits, fixed base", adaptive=False, strength=0.5, visited=True),
        Bench("visits, missing answers", blank=0.3, visited=True),
        Bench("visits, many equal records", (2, 2), records=24, blank=0.1, visited=True),
        Bench("many equal records, rules", (2, 2), ({0: {0}, 1: {0}},), records=24, blank=0.1),
    )
}
