"""Probabilities of cells under one draw, and the risks that follow from them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keyhole.errors import KeyholeError
from keyhole.kernels.boxes import fill_set_factors, possible_share
from keyhole.kernels.cells import CellWork, cell_probabilities, make_cell_work
from keyhole.kernels.freeze import LEFT, Kept, effective_profiles, fill_kept, log_likelihood, make_kept
from keyhole.kernels.importance import count_people_in_cells, importance_probabilities, monte_carlo_probabilities
from keyhole.kernels.risk import count_matches, draw_matches, fill_risks, find_variances
from keyhole.kernels.state import Floats, Rules, State
from keyhole.kernels.work import OK
from keyhole.sampling.costs import EXACT_STEPS, PARTICLES, exact_steps
from keyhole.sampling.events import Events, Part
from keyhole.sampling.problem import Problem


def find_event_probabilities(
    rng: np.random.Generator, kept: Kept, events: Events, scratch: dict[int, CellWork]
) -> Floats:
    """Return for each cell the sum of the probabilities of its events."""
    return weigh_events(rng, kept, events, scratch)[0]


def weigh_events(
    rng: np.random.Generator, kept: Kept, events: Events, scratch: dict[int, CellWork]
) -> tuple[Floats, float]:
    """Return the same, and the mean relative Monte Carlo error of an event: 0 where the sums are exact."""
    total, error, rows = np.zeros(events.cells), 0.0, 0
    profile = np.ascontiguousarray(events.set_profile(kept.level_profile))
    for part in events.parts:
        found, part_error = _part_probabilities(rng, kept, profile, part, scratch)
        total += np.bincount(part.cell, weights=found, minlength=events.cells)
        error += part_error * len(part.cell)
        rows += len(part.cell)
    return total, error / max(rows, 1)


def _part_probabilities(
    rng: np.random.Generator, kept: Kept, profile: Floats, part: Part, scratch: dict[int, CellWork]
) -> tuple[Floats, float]:
    events, variables = part.row.shape
    if variables == 0:
        return np.ones(events), 0.0
    out = np.zeros(events)
    if exact_steps(variables) > EXACT_STEPS:
        error = importance_probabilities(rng, kept._replace(level_profile=profile), part.row, PARTICLES, out)
        return out, float(error)
    profiles = int(kept.profile_total[0])
    work = scratch.get(variables)
    if work is None or work.factor.shape[1] < profiles:
        work = scratch[variables] = make_cell_work(variables, profiles + 50)
    cell_probabilities(kept.weight, profile, profiles, kept.seating, part.row, work, out)
    return out, 0.0


Scratch = dict[int, CellWork]
"""Room for events, by the number of variables that they confine; filled as they come."""


@dataclass(frozen=True)
class Draw:
    """A kept draw of one chain: numbers by name, risks of the sample uniques, and the profiles behind them."""

    quantities: dict[str, float]
    r1: NDArray[np.float32]
    r2: NDArray[np.float32]
    kept: Kept
    error: float


def keep_draw(rng: np.random.Generator, problem: Problem, state: State) -> Kept:
    """Copy what cell probabilities need, the remainder broken into profiles.

    With rules a profile is as important as the people it holds before the impossible ones are excluded.
    """
    n = len(problem.records.level)
    people = problem.people * (1.0 + float(state.impossible_total[0]) / max(n, 1))
    kept = make_kept(state, people)
    if fill_kept(rng, problem.records, problem.prior, state, kept, people, LEFT) != OK:
        raise KeyholeError("a draw has more profiles than there was room for: please report this as a bug.")
    return kept


def find_probabilities(
    rng: np.random.Generator, problem: Problem, kept: Kept, work: CellWork | None, scratch: Scratch | None = None
) -> tuple[Floats, float]:
    """Return the probability of every unique's cell, and the mean relative Monte Carlo error."""
    if problem.cell_events is not None:
        return weigh_events(rng, kept, problem.cell_events, {} if scratch is None else scratch)
    out = np.zeros(len(problem.cell_level))
    if problem.estimator == "monte-carlo":
        start = problem.records.level_start
        error = monte_carlo_probabilities(rng, kept, start, problem.cell_level, problem.mc_draws, out)
        return out, float(error)
    if problem.estimator == "importance":
        return out, float(importance_probabilities(rng, kept, problem.cell_level, PARTICLES, out))
    return exact_probabilities(problem.cell_level, kept, work), 0.0


def exact_probabilities(cell_level: NDArray[np.int32], kept: Kept, work: CellWork | None) -> Floats:
    """Return the probability of every cell."""
    out = np.zeros(len(cell_level))
    profiles = int(kept.profile_total[0])
    if work is None or work.factor.shape[1] < profiles:
        work = make_cell_work(cell_level.shape[1], profiles)
    cell_probabilities(kept.weight, kept.level_profile, profiles, kept.seating, cell_level, work, out)
    return out


def find_log_likelihood(
    rng: np.random.Generator,
    problem: Problem,
    state: State,
    kept: Kept,
    work: CellWork | None,
    scratch: Scratch,
    possible: float,
    probability: Floats,
) -> float:
    """Return the log-likelihood of the records, their memberships integrated out.

    `probability` is that of the uniques' cells. Where cell probabilities are not exact the memberships are as drawn.
    """
    records = problem.records
    if problem.estimator != "exact":
        return float(log_likelihood(records.level, state.seat, state.table_label, state.level_profile))
    if problem.shared_events is not None:
        shared, _ = weigh_events(rng, kept, problem.shared_events, scratch)
    else:
        shared = exact_probabilities(problem.shared_level, kept, work)
    value = np.log(probability).sum() + (problem.shared_count * np.log(shared / possible)).sum()
    return float(value)


def find_possible_share(problem: Problem, kept: Kept) -> float:
    """Return 1 - p_0, the weight that the model gives to what the rules allow."""
    return share_possible(problem.prior.rules, kept)


def share_possible(rules: Rules, kept: Kept) -> float:
    """Return 1 - p_0 under these rules."""
    boxes = len(rules.box_start) - 1
    if boxes == 0:
        return 1.0
    profiles = int(kept.profile_total[0])
    largest = int(max(*np.diff(rules.box_start), *np.diff(rules.possible_start), 1))
    set_factor = np.zeros((len(rules.set_variable), profiles))
    fill_set_factors(rules, kept.level_profile, profiles, set_factor)
    work = make_cell_work(largest, profiles)
    return float(possible_share(rules, kept.weight, profiles, set_factor, kept.seating, work, np.zeros(boxes)))


def evaluate_draw(
    rng: np.random.Generator,
    problem: Problem,
    state: State,
    work: CellWork | None = None,
    scratch: Scratch | None = None,
) -> Draw:
    """Evaluate the risks of every sample unique under the current parameters of a chain."""
    scratch = {} if scratch is None else scratch
    kept = keep_draw(rng, problem, state)
    possible = find_possible_share(problem, kept)
    r1, r2 = np.zeros(len(problem.cell_level)), np.zeros(len(problem.cell_level))
    error = 0.0
    probability = np.zeros(0)
    if problem.estimator == "population":
        count = np.zeros(len(problem.cell_level), np.int64)
        count_people_in_cells(
            rng, kept, problem.records.level_start, problem.people, problem.cell_key, problem.cell_order,
            problem.multiplier, problem.cell_level, count,
        )  # fmt: skip
        tau1, tau2 = count_matches(count, r1, r2)
        expected1, expected2 = tau1, tau2
        variance1, variance2 = 0.0, 0.0
    else:
        probability, error = find_probabilities(rng, problem, kept, work, scratch)
        probability /= possible
        expected1, expected2 = fill_risks(probability, problem.people, r1, r2)
        tau1, tau2 = draw_matches(rng, probability, problem.people)
        variance1, variance2 = find_variances(r1, r2, problem.people)
    quantities = {
        "tau1": tau1,
        "tau2": tau2,
        "tau1_expected": expected1,
        "tau2_expected": expected2,
        "tau1_variance": variance1,
        "tau2_variance": variance2,
        "log_likelihood": find_log_likelihood(rng, problem, state, kept, work, scratch, possible, probability),
        "profiles": float(np.count_nonzero(state.profile_tables[: state.profile_total[0]])),
        "effective_profiles": effective_profiles(kept),
        "weight_concentration": float(state.weight_concentration[0]),
        "record_concentration": mean_concentration(problem, state),
    }
    if problem.prior.finite:
        del quantities["weight_concentration"]
    if len(problem.prior.rules.box_start) > 1:
        quantities["p0"] = 1.0 - possible
    if not np.isfinite(list(quantities.values())).all():
        raise KeyholeError("a chain gave a number that is not finite: please report this as a bug.")
    return Draw(quantities, r1.astype(np.float32), r2.astype(np.float32), kept, error)


def mean_concentration(problem: Problem, state: State) -> float:
    """Return the mean concentration of records: alpha, or a / b."""
    if problem.prior.finite:
        return float(state.shared_concentration[0])
    return float(state.record_concentration[0] / state.record_concentration[1])
