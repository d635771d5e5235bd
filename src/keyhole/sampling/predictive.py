"""People simulated from the model: populations under parameters drawn from the prior, and replicates of a file under
draws of a run, for the model check.

Replicates use draws spread evenly over all chains and a generator of their own, so that nothing else changes.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from keyhole.kernels.cells import CellWork, make_cell_work
from keyhole.kernels.freeze import Draw
from keyhole.kernels.population import draw_people, draw_possible_people
from keyhole.kernels.profiles import initialise_parameters
from keyhole.kernels.state import Integers, Prior, Records, Rules, State, has_rules
from keyhole.sampling.costs import cell_cost, sweep_cost
from keyhole.sampling.layout import find_rules
from keyhole.sampling.predict import freeze, lengthen
from keyhole.sampling.start import empty_state, make_prior, make_state_work
from keyhole.sampling.trace import Trace
from keyhole.seeds import REPLICATES, make_seeds
from keyhole.settings import Settings
from keyhole.zeros import Zeros

RARE = 1e-8
"""Smallest share of possible people for which enough profiles are made explicit."""


def draw_parameters(
    rng: np.random.Generator, level_start: NDArray[np.int64], settings: Settings
) -> tuple[Prior, Records, State]:
    """Draw hyperparameters, weights and profiles from their prior, without any record."""
    variables = len(level_start) - 1
    records = Records(np.zeros((0, variables), np.int32), np.zeros(0, np.int64), level_start)
    prior = make_prior(settings.model, settings.prior, level_start)
    profiles = settings.profiles if prior.finite else 0
    capacity = 8 * (profiles // 8 + 2)
    state = empty_state(records, prior, capacity)
    work = make_state_work(records, prior, capacity)
    state.profile_total[0] = profiles
    state.weight_concentration[0] = rng.gamma(prior.weight_concentration[0]) / prior.weight_concentration[1]
    state.shared_concentration[0] = rng.gamma(prior.shared_concentration[0]) / prior.shared_concentration[1]
    if prior.adaptive:
        shape = math.exp(prior.shape_sd * rng.standard_normal())
        mean = math.exp(prior.mean_sd * rng.standard_normal())
        state.record_concentration[:] = shape, shape / mean
        state.base_strength[:] *= np.exp(prior.strength_sd * rng.standard_normal(len(state.base_strength)))
        for j in range(variables):
            first, last = level_start[j], level_start[j + 1]
            state.base_level[first:last] = rng.dirichlet(np.ones(last - first))
    initialise_parameters(rng, records, prior, state, work)
    return prior, records, state


def draw_population(
    rng: np.random.Generator, levels: list[int], population: int, settings: Settings, zeros: Zeros | None = None
) -> NDArray[np.int32]:
    """Return the categories (population, J) of people drawn from the model under parameters from its prior.

    With rules all of them are possible: parameters are drawn from their prior, people given that the rules allow them.
    """
    level_start = np.concatenate([[0], np.cumsum(levels)]).astype(np.int64)
    prior, records, state = draw_parameters(rng, level_start, settings)
    rules = find_rules(zeros, level_start)
    everybody = population / RARE if has_rules(rules) else float(population)
    draw = freeze(rng, records, prior, state, everybody, 1e-4)
    people = np.zeros((population, len(levels)), np.int32)
    if has_rules(rules):
        largest = int(np.diff(rules.possible_start).max(initial=1))
        fill_people(rng, draw, level_start, rules, make_cell_work(largest, len(draw.weight)), people)
    else:
        draw_people(rng, draw, level_start, people)
    return people - level_start[:-1].astype(np.int32)


MOST_REPLICATES = 100
FEWEST_REPLICATES = 40
"""With fewer files an interval could not exclude 5 %."""

SHARE = 0.05
"""Share of the time of the sweeps that replicates may take."""

Codes = NDArray[np.int32]


def count_replicates(trace: Trace, records: Records, others: int, rules: Rules) -> int:
    """Return the number of replicates, from sizes alone: as many as cost 5 % of the sweeps, but 40 to 100.

    Costs in nanoseconds: 300 for each answer drawn and counted, with rules one more for each profile; each possible box
    is a cell whose probability is needed twice.
    """
    n, variables = records.level.shape
    profiles = max(len(draw.weight) for chain in trace.draws for draw in chain)
    sweeps = trace.sweeps * len(trace.starts) * sweep_cost(n, variables, len(rules.possible_start) > 1)
    sizes = np.diff(rules.possible_start)
    boxes = 2.0 * sum(cell_cost(max(int(size), 1), profiles) for size in sizes)
    answer = 300.0 + (profiles if len(sizes) else 0.0)
    wanted = int(SHARE * sweeps / ((n + others) * variables * answer + boxes))
    return min(max(wanted, FEWEST_REPLICATES), MOST_REPLICATES)


def draw_replicates(
    trace: Trace, records: Records, places: Integers, settings: Settings, zeros: Zeros | None
) -> Iterator[tuple[Codes, Codes]]:
    """Yield for each of some draws a file (n, J) and further people, one for each entry of `places`, as categories.

    Both are missing (-1) where the record has no answer; `places` gives the record of each further person.
    """
    rng = np.random.default_rng(make_seeds(settings.seed, REPLICATES))
    rules = find_rules(zeros, records.level_start)
    drawn = [draw for chain in trace.draws for draw in chain]
    count = count_replicates(trace, records, len(places), rules)
    chosen = np.linspace(0, len(drawn), count, endpoint=False).astype(int)
    largest = int(np.diff(rules.possible_start, append=0).max(initial=1))
    cells = make_cell_work(largest, max(len(draw.weight) for draw in drawn))
    missing = records.level < 0
    people = np.zeros((len(missing) + len(places), records.level.shape[1]), np.int32)
    for x in chosen:
        fill_people(rng, drawn[x], records.level_start, rules, cells, people)
        codes = people - records.level_start[:-1].astype(np.int32)
        file, others = codes[: len(missing)], codes[len(missing) :]
        file[missing] = -1
        others[missing[places]] = -1
        yield file, others


def fill_people(
    rng: np.random.Generator, draw: Draw, level_start: Integers, rules: Rules, cells: CellWork, out: NDArray[np.int32]
) -> None:
    """Fill `out` with the levels of possible people, in random order."""
    draw, profiles = lengthen(draw), len(draw.weight)
    draw_possible_people(rng, rules, draw.weight, draw.level_profile, profiles, draw.eppf, level_start, cells, out)
    rng.shuffle(out)
