"""Simulation-based calibration: data from the prior, a chain on them, the rank of the truth in its draws."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keyhole.kernels.population import draw_people
from keyhole.kernels.risk import draw_matches
from keyhole.kernels.state import Prior, Records, State
from keyhole.kernels.sweep import run_sweeps
from keyhole.sampling.events import describe_cells
from keyhole.sampling.predict import freeze, predict
from keyhole.sampling.start import start_state
from tests.oracle import risk as oracle
from tests.statistical.boxes import Box, find_possible, make_box_rules
from tests.statistical.invariance import Setting
from tests.statistical.prior_pool import empty_pool, fill_pool
from tests.statistical.running import run_step

QUANTITIES = (
    "tau1",
    "tau2",
    "log likelihood",
    "profiles",
    "tables",
    "log concentration",
    "sum of squares",
)
PEOPLE = 1_000
CROWD = 200
"""People drawn for each record that is wanted: with rules some are impossible."""


@dataclass(frozen=True)
class Size:
    """Burn-in from one profile, draws and sweeps between them."""

    burn_in: int
    draws: int
    thin: int


def measure_state(state: State, records: Records, prior: Prior) -> list[float]:
    """Quantities that need no population."""
    n = len(records.level)
    used = int(state.profile_total[0])
    labels = np.take_along_axis(state.table_label, state.seat.astype(np.int64), axis=1)
    theta = state.level_profile[records.level, labels]
    tables = np.zeros(used)
    for i in range(n):
        np.add.at(tables, state.table_label[i, : state.table_total[i]], 1)
    mean = state.shared_concentration[0]
    if not prior.finite:
        mean = state.record_concentration[0] / state.record_concentration[1]
    squares = float(np.sum(state.weight[:used][(tables > 0) | prior.finite] ** 2))
    return [
        float(np.log(np.maximum(theta, 1e-300)).sum()),
        np.sum(tables > 0),
        tables.sum(),
        np.log(mean),
        squares,
    ]


def true_risks(
    rng: np.random.Generator, state: State, records: Records, prior: Prior, boxes: tuple[Box, ...]
) -> tuple[float, float]:
    """tau1 and tau2 of a population drawn from the true parameters, counted one by one."""
    draw = freeze(rng, records, prior, state, float(PEOPLE), 1e-2)
    sample = [tuple(row) for row in records.level.tolist()]
    others: list[tuple[int, ...]] = []
    while len(others) < PEOPLE:
        people = np.zeros((PEOPLE, records.level.shape[1]), np.int32)
        draw_people(rng, draw, records.level_start, people)
        possible = find_possible(people, records.level_start, boxes)
        others += [tuple(row) for row in people[possible][: PEOPLE - len(others)].tolist()]
    return (
        float(oracle.count_population_uniques(sample, others)),
        oracle.count_expected_matches(sample, others),
    )


def predicted_risks(rng: np.random.Generator, state: State, records: Records, prior: Prior, cells):
    """tau1 and tau2 as keyhole predicts them from one draw."""
    draw = freeze(rng, records, prior, state, float(PEOPLE), 1e-2)
    q = predict(rng, draw, describe_cells(cells, records.level_start, None), prior.rules).q
    return draw_matches(rng, q, PEOPLE)


def draw_truth(rng: np.random.Generator, setting: Setting, boxes: tuple[Box, ...]) -> tuple[State, Records]:
    """Parameters from the prior, and the first people whom the rules allow.

    Parameters that make nearly everybody impossible are drawn again, which is rare with the rules of the tests.
    """
    people = setting.records * (CROWD if boxes else 1)
    while True:
        pool = empty_pool(1, people, setting.levels, 8 * (people * len(setting.levels) // 8 + 20), setting.strengths)
        fill_pool(rng, setting.prior, setting.profiles, pool)
        run_step("eppf", rng, setting.prior, pool)
        chosen = np.flatnonzero(find_possible(pool.level[0], pool.level_start, boxes))[: setting.records]
        if len(chosen) == setting.records:
            break
    state = State(*(field[0] for field in pool.state))
    seats = {name: getattr(state, name)[chosen] for name in ("seat", "table_size", "table_label", "table_total")}
    level = np.ascontiguousarray(pool.level[0][chosen])
    return state._replace(**seats), Records(level, np.full(len(level), level.shape[1]), pool.level_start)


def rank_truth(
    rng: np.random.Generator, setting: Setting, size: Size, boxes: tuple[Box, ...] = ()
) -> NDArray[np.int64]:
    """Ranks of the true quantities among the draws of one chain, ties at random."""
    truth, records = draw_truth(rng, setting, boxes)
    cells, counts = np.unique(records.level, axis=0, return_counts=True)
    cells = np.ascontiguousarray(cells[counts == 1])
    prior = setting.prior
    if boxes:
        prior = prior._replace(rules=make_box_rules(setting.levels, boxes))
    expected = [*true_risks(rng, truth, records, prior, boxes), *measure_state(truth, records, prior)]
    start = setting.profiles if setting.finite else 1
    state, work = start_state(rng, records, prior, start, capacity=2_000)
    assert run_sweeps(rng, records, prior, state, work, size.burn_in) == size.burn_in
    below = np.zeros(len(QUANTITIES), np.int64)
    ties = np.zeros(len(QUANTITIES), np.int64)
    for _ in range(size.draws):
        assert run_sweeps(rng, records, prior, state, work, size.thin) == size.thin
        drawn = [*predicted_risks(rng, state, records, prior, cells), *measure_state(state, records, prior)]
        below += np.array(drawn) < expected
        ties += np.array(drawn) == expected
    return below + np.array([rng.integers(0, t + 1) for t in ties])


def rank_truths(
    setting: Setting, size: Size, simulations: int, seed: int, boxes: tuple[Box, ...] = ()
) -> NDArray[np.int64]:
    """Ranks of many simulations, (simulations, quantities)."""
    seeds = np.random.SeedSequence(seed).spawn(simulations)
    return np.array([rank_truth(np.random.default_rng(s), setting, size, boxes) for s in seeds])
