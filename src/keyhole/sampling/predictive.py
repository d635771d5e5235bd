"""Files as the model would draw them: as many people as the file has, for draws spread evenly over all chains.

The generator is derived from the seed beside those of the chains, so that nothing else changes.

People drawn from the model, its parameters drawn from their prior: for trials and calibration.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.kernels.cells import CellWork, make_cell_work
from keyhole.kernels.eppf import fill_mixed_seating, fill_shared_seating
from keyhole.kernels.freeze import Kept, fill_kept, make_kept
from keyhole.kernels.population import draw_people, draw_possible_people
from keyhole.kernels.profiles import settle
from keyhole.kernels.state import Floats, Integers, Prior, Records, Rules, State, no_rules
from keyhole.kernels.work import make_work
from keyhole.sampling.costs import cell_cost, sweep_cost
from keyhole.sampling.layout import make_rules
from keyhole.sampling.start import empty_state, make_prior
from keyhole.sampling.trace import Trace
from keyhole.seeds import REPLICATES, make_seeds
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


MOST_REPLICATES = 100
FEWEST_REPLICATES = 40
"""With fewer files an interval could not leave out 5 %."""

SHARE = 0.05
"""Of the time of the sweeps."""

Codes = NDArray[np.int32]


def count_replicates(trace: Trace, records: Records, others: int, rules: Rules) -> int:
    """Return how many files and others to draw, from sizes alone: as many as cost 5 % of the sweeps, but 40 to 100.

    Nanoseconds: 300 for each answer drawn and counted, with rules one more for each profile; each possible box is a
    cell whose probability is needed twice.
    """
    n, variables = records.level.shape
    profiles = trace.kept["weight"].shape[2]
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

    Both are blank (-1) where the record has no answer; `places` says whose blanks the further people have.
    """
    rng = np.random.default_rng(make_seeds(settings.seed, REPLICATES))
    rules = make_rules(zeros.impossible, zeros.possible, records.level_start) if zeros is not None else None
    rules = rules or no_rules()
    chains, draws = trace.kept["weight"].shape[:2]
    count = count_replicates(trace, records, len(places), rules)
    chosen = np.linspace(0, chains * draws, count, endpoint=False).astype(int)
    largest = int(np.diff(rules.possible_start, append=0).max(initial=1))
    cells = make_cell_work(largest, trace.kept["weight"].shape[2])
    missing = records.level < 0
    for x in chosen:
        kept = {name: values[divmod(int(x), draws)] for name, values in trace.kept.items()}
        seating = make_seating(kept, records.level.shape[1], settings.model == "mixed")
        people = draw_from_kept(rng, kept, seating, len(missing) + len(places), records.level_start, rules, cells)
        file, others = people[: len(missing)], people[len(missing) :]
        file[missing] = -1
        others[missing[places]] = -1
        yield file, others


def make_seating(kept: dict[str, NDArray[Any]], variables: int, shared: bool) -> Floats:
    """Return V of a kept draw."""
    seating = np.zeros((variables + 1, variables + 2))
    if shared:
        fill_shared_seating(float(kept["shared_concentration"][0]), seating)
    else:
        shape, rate = kept["record_concentration"]
        fill_mixed_seating(float(shape), float(rate), seating)
    return seating


def draw_from_kept(
    rng: np.random.Generator,
    kept: dict[str, NDArray[Any]],
    seating: Floats,
    people: int,
    level_start: Integers,
    rules: Rules,
    cells: CellWork,
) -> Codes:
    """Return the categories of people drawn from a kept draw, in random order."""
    profiles = int(np.flatnonzero(kept["weight"])[-1]) + 1
    out = np.zeros((people, len(level_start) - 1), np.int32)
    level_profile = kept["level_profile"].astype(np.float64)
    draw_possible_people(rng, rules, kept["weight"], level_profile, profiles, seating, level_start, cells, out)
    rng.shuffle(out)
    return out - level_start[:-1].astype(np.int32)
