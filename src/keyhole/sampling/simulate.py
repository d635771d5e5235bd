"""People drawn from the model, its parameters drawn from their prior: for trials and calibration."""

import math

import numpy as np
from numpy.typing import NDArray

from keyhole.kernels.cells import make_cell_work
from keyhole.kernels.keep import Kept, fill_kept, make_kept
from keyhole.kernels.population import draw_people
from keyhole.kernels.possible import draw_possible_people
from keyhole.kernels.settling import settle
from keyhole.kernels.state import Prior, Records, State
from keyhole.kernels.work import make_work
from keyhole.sampling.rules import make_rules
from keyhole.sampling.start import empty_state, make_prior
from keyhole.settings import Settings
from keyhole.zeros import Zeros

RARE = 1e-8
"""Share of possible people below which profiles that were not made explicit would be noticed."""


def draw_parameters(
    rng: np.random.Generator, level_start: NDArray[np.int64], settings: Settings
) -> tuple[Prior, Records, State]:
    """Draw hyperparameters, weights and profiles from their prior, nobody being seated."""
    variables = len(level_start) - 1
    records = Records(np.zeros((0, variables), np.int32), np.zeros(0, np.int64), level_start)
    prior = make_prior(settings.model, settings.prior)
    profiles = settings.profiles if prior.finite else 0
    capacity = 8 * (profiles // 8 + 2)
    state = empty_state(records, capacity)
    work = make_work(0, variables, int(level_start[-1]), capacity)
    state.profile_total[0] = profiles
    state.weight_concentration[0] = rng.gamma(prior.weight_concentration[0]) / prior.weight_concentration[1]
    state.shared_concentration[0] = rng.gamma(prior.shared_concentration[0]) / prior.shared_concentration[1]
    if prior.adaptive:
        shape = math.exp(prior.shape_sd * rng.standard_normal())
        mean = math.exp(prior.mean_sd * rng.standard_normal())
        state.record_concentration[:] = shape, shape / mean
        state.base_strength[:] *= np.exp(prior.strength_sd * rng.standard_normal(variables))
        for j in range(variables):
            first, last = level_start[j], level_start[j + 1]
            state.base_level[first:last] = rng.dirichlet(np.ones(last - first))
    settle(rng, records, prior, state, work)
    return prior, records, state


def draw_population(
    rng: np.random.Generator, levels: list[int], population: int, settings: Settings, zeros: Zeros | None = None
) -> NDArray[np.int32]:
    """Return the categories (population, J) of people drawn from the model under parameters from its prior.

    With rules all are possible: the parameters have their prior, and people are drawn given that the rules allow them.
    """
    level_start = np.concatenate([[0], np.cumsum(levels)]).astype(np.int64)
    prior, records, state = draw_parameters(rng, level_start, settings)
    rules = None if zeros is None else make_rules(zeros.impossible, zeros.possible, level_start)
    everybody = float(population) if rules is None else population / RARE
    kept: Kept = make_kept(state, everybody)
    fill_kept(rng, records, prior, state, kept, everybody, 1e-4)
    people = np.zeros((population, len(levels)), np.int32)
    if rules is None:
        draw_people(rng, kept, level_start, people)
    else:
        profiles = int(kept.profile_total[0])
        cells = make_cell_work(int(np.diff(rules.possible_start).max(initial=1)), profiles)
        draw_possible_people(
            rng, rules, kept.weight, kept.level_profile, profiles, kept.seating, level_start, cells, people
        )
        rng.shuffle(people)
    return people - level_start[:-1].astype(np.int32)
