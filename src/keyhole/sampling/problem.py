"""What all chains of a run share, and the choices that follow from the size of the file."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keyhole.errors import SettingsError
from keyhole.kernels.state import Floats, Integers, Prior, Records
from keyhole.sampling.events import Events, describe_blank_cells
from keyhole.sampling.rules import count_moves, make_rules, rules_cost
from keyhole.sampling.start import make_prior, seat_missing
from keyhole.settings import Settings
from keyhole.zeros import Zeros

EXACT_STEPS = 4_000_000
"""Steps of section 4 for one cell above which the importance sampler takes over: about 4 ms, 15 variables."""

PARTICLES = 200
"""Particles of the importance sampler for each cell."""


@dataclass(frozen=True)
class Problem:
    """The data, the model and how a draw is evaluated.

    cell_level: int32 (uniques, J), the cells of the sample uniques; people: M, those outside the sample.
    shared_level, shared_count: int32 (cells, J), float64 (cells,), the cells that several records share, and how many.
    cell_events, shared_events: the same cells by their events where an answer is missing in any of them, else None.
    cell_key, cell_order, multiplier: the cells by a hash, for counting simulated people.
    """

    records: Records
    prior: Prior
    cell_level: NDArray[np.int32]
    shared_level: NDArray[np.int32]
    shared_count: Floats
    cell_events: Events | None
    shared_events: Events | None
    people: int
    profiles: int
    estimator: str
    mc_draws: int
    spacing: int
    cell_key: NDArray[np.uint64]
    cell_order: Integers
    multiplier: NDArray[np.uint64]


def make_problem(
    records: Records, unique_record: Integers, population: int, settings: Settings, zeros: Zeros | None
) -> Problem:
    """Choose estimator and spacing from the sizes alone, never from the clock: the same data, the same run."""
    if zeros is not None and settings.estimator == "population":
        raise SettingsError(
            "the estimator 'population' simulates people without looking at rules: "
            "use 'exact' or 'monte-carlo' with zeros, or leave the rules out."
        )
    cells = np.ascontiguousarray(records.level[unique_record])
    variables = records.level.shape[1]
    estimator: str = settings.estimator
    if estimator == "exact" and exact_steps(variables) > EXACT_STEPS:
        estimator = "importance"
    rules = None if zeros is None else make_rules(zeros.impossible, zeros.possible, records.level_start)
    prior = make_prior(
        settings.model, settings.prior, rules, balance_moves=count_moves(rules, len(records.level), variables)
    )
    shared, shared_count = find_shared_cells(records, unique_record)
    possible = None if zeros is None or rules is None else zeros.possible
    cell_events, shared_events = (describe_blank_cells(part, records.level_start, possible) for part in (cells, shared))
    multiplier = np.asarray(np.random.default_rng(20260101).integers(1, 2**63, size=variables), np.uint64)
    key = (cells.astype(np.uint64) * multiplier).sum(axis=1, dtype=np.uint64)
    order = np.argsort(key, kind="stable")
    return Problem(
        records=seat_missing(records, prior),
        prior=prior,
        cell_level=cells,
        shared_level=shared,
        shared_count=shared_count,
        cell_events=cell_events,
        shared_events=shared_events,
        people=population - len(records.level),
        profiles=settings.profiles,
        estimator=estimator,
        mc_draws=settings.mc_draws,
        spacing=choose_spacing(
            records, count_events(cells, cell_events) + count_events(shared, shared_events), settings, prior
        ),
        cell_key=key[order],
        cell_order=order.astype(np.int64),
        multiplier=multiplier,
    )


def count_events(cells: NDArray[np.int32], events: Events | None) -> int:
    """Return how many probabilities these cells take."""
    return len(cells) if events is None else sum(len(part.cell) for part in events.parts)


def find_shared_cells(records: Records, unique_record: Integers) -> tuple[NDArray[np.int32], Floats]:
    """Return the cells that several records share, and how many share each."""
    several = np.ones(len(records.level), np.bool_)
    several[unique_record] = False
    cells, count = np.unique(records.level[several], axis=0, return_counts=True)
    return np.ascontiguousarray(cells), count.astype(np.float64)


def exact_steps(variables: int) -> int:
    """Return the number of (set, block) pairs in the exact sum for one cell."""
    return int(3 ** (variables - 1) // 2 + 2 ** (variables - 1))


def choose_spacing(records: Records, cells: int, settings: Settings, prior: Prior) -> int:
    """Return the sweeps between draws for which evaluating risk costs about half of sampling.

    Nanoseconds measured on one core: 70 for each answer in a sweep and a
    million for what does not depend on the number of records; for each cell 0.6 for each pair of the exact
    sum and block number, and 0.4 for each profile and set of variables.
    """
    n, variables = records.level.shape
    profiles = settings.profiles if settings.model == "mixed" else 100 if settings.prior == "adaptive" else 40
    sweep = 1e6 + 70.0 * n * variables
    if len(prior.rules.box_start) > 1:
        sweep += rules_cost(prior.rules, prior.balance_moves)
    exact = 0.2 * variables * exact_steps(variables) + 0.4 * profiles * 2.0**variables
    other = PARTICLES * variables * variables * profiles * 1.0
    draw = cells * (exact if exact_steps(variables) <= EXACT_STEPS else other)
    return int(min(max(math.ceil(2.0 * draw / sweep), 3), 50))
