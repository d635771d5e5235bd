"""Where chains start: the prior as arrays, and states that differ widely in their number of profiles."""

import numpy as np

from keyhole.kernels.classes import Cells
from keyhole.kernels.profiles import initialise_parameters
from keyhole.kernels.state import NOTHING_ORDERED, Integers, Prior, Records, Rules, State, has_rules, no_rules
from keyhole.kernels.work import Work, make_work
from keyhole.sampling.classes import are_visited, count_distinct, list_labels, start_classes, sweep_classes
from keyhole.sampling.trees import make_trees

STARTS = (1, 5, 20, 100)
"""Profiles at the start of the first four chains; further chains repeat the list."""

LARGE_STARTS = (200, 300, 400, 500)
"""The same of `classes` where a file is large. With so many records profiles that start as one hardly ever part again,
while profiles that are not needed die soon."""

START_SHAPE, START_MEANS = 2.0, (0.02, 0.1, 0.5, 2.0)
"""The concentrations of the records at the start of the first four chains of `hdp`."""

START_SWEEPS, FEWEST_START_SWEEPS, START_ANSWERS = 400, 20, 80_000_000
"""Sweeps of `classes` with which a chain of `hdp` starts; fewer if they would meet more than START_ANSWERS answers of
distinct cells."""

VISITING_START_SWEEPS = 100
"""The same where sweeps visit the records."""

CAPACITY = 520
"""Profiles for which a chain of `hdp` has room at its start, unless it starts with more."""


def make_prior(
    model: str, prior: str, level_start: Integers, rules: Rules | None = None, ordered: Integers = NOTHING_ORDERED
) -> Prior:
    """Return the hyperparameters of docs/model.md section 2 for this model and prior, which keeps rows flat if fixed.

    level_start, ordered : as in Records.
    """
    return Prior(
        finite=model == "mixed",
        adaptive=prior == "adaptive",
        weight_concentration=np.array([2.0, 1.0]),
        shared_concentration=np.array([2.0, 1.0]),
        strength_sd=1.5,
        mean_sd=2.0,
        shape_sd=1.0,
        rules=rules or no_rules(),
        trees=make_trees(level_start, ordered if prior == "adaptive" else NOTHING_ORDERED),
    )


def empty_state(records: Records, prior: Prior, capacity: int) -> State:
    """Return a state with room for `capacity` profiles and no answer seated."""
    n, variables = records.level.shape
    levels = int(records.level_start[-1])
    sizes = np.diff(records.level_start)
    return State(
        seat=np.full((n, variables), 255, np.uint8),
        table_size=np.zeros((n, variables), np.uint8),
        table_label=np.zeros((n, variables), np.int32),
        table_total=np.zeros(n, np.int64),
        profile_total=np.zeros(1, np.int64),
        weight=np.zeros(capacity),
        remainder=np.zeros(1),
        level_profile=np.zeros((levels, capacity)),
        profile_tables=np.zeros(capacity, np.int64),
        level_count=np.zeros((levels, capacity), np.int64),
        weight_concentration=np.ones(1),
        record_concentration=np.array([2.0, 1.0]),
        shared_concentration=np.ones(1),
        base_strength=prior.trees.strength_scale.copy(),
        base_level=1.0 / np.repeat(sizes, sizes),
        layout=np.zeros((variables, capacity), np.int64),
        eppf=np.zeros((variables + 1, variables + 2)),
        augmented_total=np.zeros(1, np.int64),
        augmented_tables=np.zeros((variables + 1, variables + 1), np.int64),
    )


def seat_missing(records: Records, prior: Prior) -> Records:
    """Give missing answers a seat if there are rules (kernels/missing.py); without rules they have none."""
    if not has_rules(prior.rules):
        return records
    return records._replace(answer_total=np.full(len(records.level), records.level.shape[1], np.int64))


def find_seated(records: Records) -> np.ndarray:
    """Return which answers have a seat: bool (n, J)."""
    return np.asarray((records.level >= 0) | (records.answer_total == records.level.shape[1])[:, None])


def count_start_sweeps(cells: Cells, prior: Prior) -> int:
    """Return the number of sweeps of `classes` with which a chain of `hdp` starts."""
    if are_visited(cells, prior):
        return VISITING_START_SWEEPS
    return int(min(max(START_ANSWERS / max(cells.level.size, 1), FEWEST_START_SWEEPS), START_SWEEPS))


def start_state(
    rng: np.random.Generator, records: Records, prior: Prior, profiles: int, number: int = 0, capacity: int = CAPACITY
) -> tuple[State, Work]:
    """Return a chain's start: each record at one table, with the label that `classes` gives it after some sweeps.

    number : that of the chain; profiles : with which `classes` starts, and the fixed number of `mixed`, whose profiles
    take the labels by size, in turns if there are more.
    """
    order, distinct = count_distinct(records.level, records.level_start)
    learned = prior._replace(finite=False, adaptive=True)
    found = start_classes(rng, distinct, learned, profiles)
    for _ in range(count_start_sweeps(distinct, learned)):
        found = sweep_classes(rng, distinct, learned, found)
    label = list_labels(rng, distinct, learned, found)
    held = np.bincount(label, minlength=len(found.tally.records))
    used = profiles if prior.finite else max(int(np.count_nonzero(held)), 1)
    rank = np.argsort(np.argsort(-held, kind="stable"))
    state = empty_state(records, prior, max(capacity, 8 * ((2 * used + 135) // 8)))
    work = make_state_work(records, prior, len(state.weight))
    state.seat[find_seated(records)] = 0
    state.table_size[:, 0] = records.answer_total
    state.table_total[:] = records.answer_total > 0
    state.profile_total[0] = used
    state.table_label[order, 0] = (rank % used)[label] if len(rank) else 0
    if prior.adaptive:
        mean = START_MEANS[number % len(START_MEANS)]
        state.record_concentration[:] = START_SHAPE, START_SHAPE / mean
        state.base_strength[:], state.base_level[:] = found.profiles.base_strength, found.profiles.base_level
    initialise_parameters(rng, records, prior, state, work)
    return state, work


def make_state_work(records: Records, prior: Prior, capacity: int) -> Work:
    """Allocate scratch for a state of this capacity."""
    n, variables = records.level.shape
    return make_work(n, variables, int(records.level_start[-1]), capacity, prior.rules, len(prior.trees.edge_first))


def enlarge(records: Records, prior: Prior, state: State) -> tuple[State, Work]:
    """Return the state with room for twice as many profiles, and scratch to match."""
    capacity = state.level_profile.shape[1]
    larger = empty_state(records, prior, 2 * capacity)
    for name, old in state._asdict().items():
        new = getattr(larger, name)
        new[tuple(slice(0, size) for size in old.shape)] = old
    return larger, make_state_work(records, prior, 2 * capacity)
