"""The three functions of which every answer is composed: freeze a state, predict cells, measure their risk.

freeze(state) -> Draw            the parameters that a prediction needs
predict(draw, events) -> q       probabilities of cells among possible people
measure(q, M) -> r1, r2, tau     closed forms, with the variance of the counts of M unseen people

The evaluation of chains, log-likelihoods, coarser releases, attribution, stacking and missing answers use them.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.errors import KeyholeError
from keyhole.kernels.boxes import fill_set_factors, sum_possible
from keyhole.kernels.cells import CellWork, cell_probabilities, make_cell_work, mixture_probabilities
from keyhole.kernels.classes import find_possible
from keyhole.kernels.eppf import fill_fixed_alpha_eppf, fill_random_alpha_eppf
from keyhole.kernels.freeze import LEFT, Draw, fill_draw, find_capacity
from keyhole.kernels.importance import importance_probabilities
from keyhole.kernels.risk import fill_risks, find_variances
from keyhole.kernels.state import Floats, Prior, Records, Rules, State, has_rules
from keyhole.sampling.costs import EXACT_STEPS, PARTICLES, exact_steps
from keyhole.sampling.events import Events
from keyhole.sampling.shards import Each, cut_shards, here

SHORT = 1e-6
"""Share of the people that a profile may gain or lose when a draw is stored in single precision."""

Scratch = dict[int, CellWork]
"""Scratch for events, by the number of variables that they restrict; allocated on first use."""


@dataclass(frozen=True)
class Prediction:
    """q: probabilities of cells among possible people; possible: 1 - p_0; error: mean relative Monte Carlo error."""

    q: Floats
    possible: float
    error: float


@dataclass(frozen=True)
class Measured:
    """r1, r2: of each cell; expected, variance: of tau1 and tau2 given the draw."""

    r1: Floats
    r2: Floats
    expected: tuple[float, float]
    variance: tuple[float, float]


def freeze(
    rng: np.random.Generator, records: Records, prior: Prior, state: State, people: float, left: float = LEFT
) -> Draw:
    """Copy what a prediction needs; break the remainder into profiles until it has less than `left` of `people`."""
    capacity = find_capacity(state, people)
    weight, level_profile = np.zeros(capacity), np.zeros((len(state.base_level), capacity))
    profiles = fill_draw(rng, records, prior, state, people, left, weight, level_profile, np.zeros(len(level_profile)))
    if profiles < 0:
        raise KeyholeError("a draw has more profiles than there was room for: please report this as a bug.")
    return Draw(
        weight=weight[:profiles].copy(),
        level_profile=np.ascontiguousarray(level_profile[:, :profiles]),
        eppf=state.eppf.copy(),
        record_concentration=state.record_concentration.copy(),
        shared_concentration=state.shared_concentration.copy(),
    )


def shorten(draw: Draw, rules: Rules) -> Draw:
    """Return the draw as it is stored: profiles in single precision.

    In `classes` a profile may have a possible mass below the smallest number of single precision, and then keeps people
    only in double precision.
    """
    short = draw._replace(level_profile=draw.level_profile.astype(np.float32))
    if is_mixture(draw) and has_rules(rules):
        people = draw.weight * find_possible(rules, draw.level_profile)
        kept = draw.weight * find_possible(rules, lengthen(short).level_profile)
        if np.abs(kept - people).max() > SHORT * people.sum():
            return draw
    return short


def make_draw(
    weight: Floats,
    level_profile: NDArray[np.floating],
    record_concentration: Floats,
    shared_concentration: Floats,
    shared: bool,
    variables: int,
) -> Draw:
    """Return a draw from its stored parts. shared: one concentration for all records (`mixed`; 0 in `classes`)."""
    eppf = np.zeros((variables + 1, variables + 2))
    if shared:
        fill_fixed_alpha_eppf(float(shared_concentration[0]), eppf)
    else:
        fill_random_alpha_eppf(float(record_concentration[0]), float(record_concentration[1]), eppf)
    return Draw(weight, level_profile, eppf, record_concentration, shared_concentration)


def is_mixture(draw: Draw) -> bool:
    """Return whether all answers of a person are at one table, so that no set partitions need be summed."""
    return float(draw.shared_concentration[0]) == 0.0


def predict(
    rng: np.random.Generator,
    draw: Draw,
    events: Events,
    rules: Rules,
    scratch: Scratch | None = None,
    each: Each = here,
) -> Prediction:
    """Return the probability of every cell among possible people, by exact sums, or particles if these are too long.

    each: works on shards of the events if the draw is one of `classes`.
    """
    scratch = {} if scratch is None else scratch
    draw = lengthen(draw)
    possible = possible_mass(rules, draw)
    total, error, rows = np.zeros(events.cells), 0.0, 0
    profile = np.ascontiguousarray(events.set_profile(draw.level_profile))
    for part in events.parts:
        found, part_error = predict_part(rng, draw._replace(level_profile=profile), part.row, scratch, each)
        total += np.bincount(part.cell, weights=found, minlength=events.cells)
        error += part_error * len(part.cell)
        rows += len(part.cell)
    return Prediction(total / possible, possible, error / max(rows, 1))


def lengthen(draw: Draw) -> Draw:
    """Return the draw as the kernels read it: profiles in double precision."""
    return draw._replace(level_profile=np.ascontiguousarray(draw.level_profile, np.float64))


def predict_part(
    rng: np.random.Generator, draw: Draw, row: NDArray[np.int32], scratch: Scratch, each: Each = here
) -> tuple[Floats, float]:
    events, variables = row.shape
    if is_mixture(draw):
        ends = cut_shards(events)
        own = [None] * (len(ends) - 1)
        return each(predict_rows, np.concatenate, row, ends, own, (draw.weight, draw.level_profile)), 0.0
    out = np.zeros(events)
    if variables == 0:
        return np.ones(events), 0.0
    if exact_steps(variables) > EXACT_STEPS:
        return out, float(importance_probabilities(rng, draw, row, PARTICLES, out))
    profiles = len(draw.weight)
    work = find_work(scratch, variables, profiles)
    cell_probabilities(draw.weight, draw.level_profile, profiles, draw.eppf, row, work, out)
    return out, 0.0


def find_work(scratch: Scratch, variables: int, profiles: int) -> CellWork:
    """Return scratch for events of so many variables, with room for these profiles."""
    work = scratch.get(variables)
    if work is None or work.factor.shape[1] < profiles:
        work = scratch[variables] = make_cell_work(variables, 2 * profiles + 100)
    return work


def predict_rows(row: NDArray[np.int32], ends: list[int], _: list[Any], common: tuple[Floats, Floats]) -> Floats:
    """Return the probabilities of some shards of events, given weights and profiles of a mixture."""
    out = np.zeros(ends[-1] - ends[0])
    mixture_probabilities(*common, row[ends[0] : ends[-1]], out)
    return out


def possible_mass(rules: Rules, draw: Draw) -> float:
    """Return 1 - p_0, the probability of the possible cells."""
    boxes = len(rules.box_start) - 1
    if boxes == 0:
        return 1.0
    if is_mixture(draw):
        return float(draw.weight @ find_possible(rules, draw.level_profile))
    profiles = len(draw.weight)
    largest = int(max(*np.diff(rules.box_start), *np.diff(rules.possible_start), 1))
    set_factor = np.zeros((len(rules.set_variable), profiles))
    fill_set_factors(rules, draw.level_profile, profiles, set_factor)
    work = make_cell_work(largest, profiles)
    return float(sum_possible(rules, draw.weight, profiles, set_factor, draw.eppf, work, np.zeros(boxes)))


def measure(q: Floats, people: int) -> Measured:
    """Return the risks of cells with one record each; people: M, the number of unseen people."""
    r1, r2 = np.zeros(len(q)), np.zeros(len(q))
    expected = fill_risks(q, people, r1, r2)
    return Measured(r1, r2, expected, find_variances(r1, r2, people))
