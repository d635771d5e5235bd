"""A draw of a chain and its evaluation: the cells of the records and the risks of the sample uniques."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keyhole.data.cells import count_equal
from keyhole.errors import KeyholeError
from keyhole.kernels.freeze import Draw, effective_profiles, log_likelihood
from keyhole.kernels.importance import monte_carlo_probabilities
from keyhole.kernels.population import draw_people
from keyhole.kernels.risk import count_matches, draw_matches
from keyhole.kernels.state import Integers, State, has_rules
from keyhole.kernels.strata import draw_strata_matches
from keyhole.sampling.classes import ClassState, freeze_classes
from keyhole.sampling.predict import Measured, Prediction, Scratch, freeze, measure, possible_mass, predict
from keyhole.sampling.problem import Problem
from keyhole.sampling.shards import Each, here
from keyhole.sampling.strata import Exposure, measure_exposure, predict_strata

PEOPLE_AT_ONCE = 100_000
"""People in memory while a population is simulated."""


@dataclass(frozen=True)
class Evaluation:
    """A draw of a chain and its evaluation: quantities by name, risks of the sample uniques."""

    draw: Draw
    quantities: dict[str, float]
    r1: NDArray[np.float32]
    r2: NDArray[np.float32]
    error: float


def freeze_state(rng: np.random.Generator, problem: Problem, state: State | ClassState) -> Draw:
    """Return what predictions need of a chain's state."""
    if isinstance(state, ClassState):
        return freeze_classes(rng, problem.distinct, problem.prior, state, problem.everybody)
    # With rules M possible people correspond to M / (1 - p_0) people of the untruncated model.
    people = problem.everybody * (1.0 + float(state.augmented_total[0]) / max(len(problem.records.level), 1))
    return freeze(rng, problem.records, problem.prior, state, people)


def evaluate(
    rng: np.random.Generator,
    problem: Problem,
    state: State | ClassState,
    scratch: Scratch | None = None,
    each: Each = here,
) -> Evaluation:
    """Freeze a chain's state, predict the cells of the records, and measure the risks of the sample uniques."""
    uniques = len(problem.cell_level)
    draw = freeze_state(rng, problem, state)
    possible, error, fit = 1.0, 0.0, 0.0
    if problem.estimator == "population":
        found, taus = _simulate_risks(rng, problem, draw)
    else:
        prediction = _predict_cells(rng, problem, draw, scratch, each)
        possible, error = prediction.possible, prediction.error
        if problem.exposure is None:
            q = prediction.q[:uniques]
            found = measure(q, problem.n_unseen)
            taus = draw_matches(rng, q, problem.n_unseen)
        else:
            found, taus = _measure_strata(rng, problem.exposure, draw, scratch)
        if problem.estimator == "exact":
            fit = np.log(prediction.q[:uniques]).sum() + (problem.shared_count * np.log(prediction.q[uniques:])).sum()
    if isinstance(state, State) and problem.estimator != "exact":
        fit = log_likelihood(problem.records.level, state.seat, state.table_label, state.level_profile)
    quantities = {
        "tau1": taus[0],
        "tau2": taus[1],
        "tau1_expected": found.expected[0],
        "tau2_expected": found.expected[1],
        "tau1_variance": found.variance[0],
        "tau2_variance": found.variance[1],
        "log_likelihood": float(fit),
        "profiles": float(count_profiles(state)),
        **describe_profiles(problem, state, draw),
    }
    if has_rules(problem.prior.rules) and isinstance(state, State):
        quantities["p0"] = 1.0 - possible
    if not np.isfinite(list(quantities.values())).all():
        raise KeyholeError("a chain gave a number that is not finite: please report this as a bug.")
    return Evaluation(draw, quantities, found.r1.astype(np.float32), found.r2.astype(np.float32), error)


def _measure_strata(
    rng: np.random.Generator, exposure: Exposure, draw: Draw, scratch: Scratch | None
) -> tuple[Measured, tuple[float, float]]:
    """Return the risks if people are drawn within strata, and tau1 and tau2 of one population."""
    q = predict_strata(rng, draw, exposure, scratch)
    drawn = draw_strata_matches(rng, q, exposure.start, exposure.stratum, exposure.people)
    return measure_exposure(q, exposure), drawn


def _predict_cells(
    rng: np.random.Generator, problem: Problem, draw: Draw, scratch: Scratch | None, each: Each
) -> Prediction:
    """Predict the cells of the problem, by the article's Monte Carlo if that is the estimator."""
    if problem.estimator != "monte-carlo":
        return predict(rng, draw, problem.cells, problem.prior.rules, scratch, each)
    possible = possible_mass(problem.prior.rules, draw)
    out = np.zeros(len(problem.cell_level))
    error = monte_carlo_probabilities(rng, draw, problem.cell_level, problem.mc_draws, out)
    return Prediction(out / possible, possible, float(error))


def _simulate_risks(rng: np.random.Generator, problem: Problem, draw: Draw) -> tuple[Measured, tuple[float, float]]:
    """Return the risks in one simulated population: r1 is 0 or 1, r2 one over the size of the cell."""
    count = simulate_counts(rng, draw, problem.records.level_start, problem.n_unseen, problem.cell_level)
    r1, r2 = np.zeros(len(count)), np.zeros(len(count))
    taus = count_matches(count, r1, r2)
    return Measured(r1, r2, taus, (0.0, 0.0)), taus


def simulate_counts(
    rng: np.random.Generator, draw: Draw, level_start: Integers, people: int, cells: NDArray[np.int32]
) -> Integers:
    """Draw this many new people, and return how many of them are in each cell (cells, J), given by levels."""
    count = np.zeros(len(cells), np.int64)
    for first in range(0, people, PEOPLE_AT_ONCE):
        drawn = np.zeros((min(PEOPLE_AT_ONCE, people - first), cells.shape[1]), np.int32)
        draw_people(rng, draw, level_start, drawn)
        count += count_equal(cells, drawn, np.ones(len(drawn), np.int64))
    return count


def count_profiles(state: State | ClassState) -> int:
    """Return the number of profiles that records have."""
    if isinstance(state, ClassState):
        return len(state.tally.records)
    return int(np.count_nonzero(state.profile_tables[: state.profile_total[0]]))


def describe_profiles(problem: Problem, state: State | ClassState, draw: Draw) -> dict[str, float]:
    """Return the effective number of profiles and the concentrations that are learned, by name."""
    if isinstance(state, ClassState):
        # Weights of a truncated mixture count profiles that make hardly anybody possible.
        weight = np.append(state.profiles.weight, state.profiles.remainder)
        return {
            "effective_profiles": effective_profiles(weight),
            "weight_concentration": float(state.profiles.weight_concentration[0]),
        }
    found = {"effective_profiles": effective_profiles(draw.weight)}
    if problem.prior.finite:
        return found | {"record_concentration": float(state.shared_concentration[0])}
    mean = float(state.record_concentration[0] / state.record_concentration[1])
    return found | {"weight_concentration": float(state.weight_concentration[0]), "record_concentration": mean}
