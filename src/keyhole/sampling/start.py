"""Where chains start: the prior as arrays, and states that differ widely in their number of profiles."""

import numpy as np

from keyhole.kernels.profiles import initialise_parameters
from keyhole.kernels.state import Prior, Records, Rules, State, has_rules, no_rules
from keyhole.kernels.work import Work, make_work

STARTS = (1, 5, 20, 100)
"""Profiles at the start of the first four chains; further chains repeat the list."""


def make_prior(model: str, prior: str, rules: Rules | None = None) -> Prior:
    """Return the hyperparameters of docs/model.md section 2 for this model and prior."""
    return Prior(
        finite=model == "mixed",
        adaptive=prior == "adaptive",
        weight_concentration=np.array([2.0, 1.0]),
        shared_concentration=np.array([2.0, 1.0]),
        strength_sd=1.5,
        mean_sd=2.0,
        shape_sd=1.0,
        rules=rules or no_rules(),
    )


def empty_state(records: Records, capacity: int) -> State:
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
        base_strength=sizes.astype(np.float64),
        base_level=1.0 / np.repeat(sizes, sizes),
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


def nearest_prototype(rng: np.random.Generator, level: np.ndarray, prototypes: int) -> np.ndarray:
    """Return for each record with which of some randomly picked records it agrees most; ties are broken at random."""
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


def start_state(
    rng: np.random.Generator, records: Records, prior: Prior, profiles: int, capacity: int = 520
) -> tuple[State, Work]:
    """Seat each record at one table, label the tables by nearest prototype, and draw weights and profiles."""
    n = len(records.level)
    capacity = max(capacity, 8 * ((2 * profiles + 135) // 8))
    state = empty_state(records, capacity)
    work = make_state_work(records, prior, capacity)
    state.seat[find_seated(records)] = 0
    state.table_size[:, 0] = records.answer_total
    state.table_total[:] = records.answer_total > 0
    state.profile_total[0] = profiles if prior.finite else min(profiles, max(n, 1))
    if n:
        state.table_label[:, 0] = nearest_prototype(rng, records.level, int(state.profile_total[0]))
    initialise_parameters(rng, records, prior, state, work)
    return state, work


def leave_start(rng: np.random.Generator, records: Records, prior: Prior, state: State, work: Work) -> None:
    """Reset what `paper` fixes after sweeps that learned it, and draw weights and profiles to match."""
    if prior.adaptive:
        return
    fresh = empty_state(records, 0)
    state.base_strength[:], state.base_level[:] = fresh.base_strength, fresh.base_level
    state.record_concentration[:] = fresh.record_concentration
    initialise_parameters(rng, records, prior, state, work)


def make_state_work(records: Records, prior: Prior, capacity: int) -> Work:
    """Allocate scratch for a state of this capacity."""
    n, variables = records.level.shape
    return make_work(n, variables, int(records.level_start[-1]), capacity, prior.rules)


def enlarge(records: Records, prior: Prior, state: State) -> tuple[State, Work]:
    """Return the state with room for twice as many profiles, and scratch to match."""
    capacity = state.level_profile.shape[1]
    larger = empty_state(records, 2 * capacity)
    for name, old in state._asdict().items():
        new = getattr(larger, name)
        new[tuple(slice(0, size) for size in old.shape)] = old
    return larger, make_state_work(records, prior, 2 * capacity)
