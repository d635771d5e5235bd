"""Costs of work in nanoseconds on one core, from sizes alone: plans made from them never depend on the clock."""

import math
from collections.abc import Sequence

import numpy as np

from keyhole.kernels.classes import Cells
from keyhole.kernels.state import Trees
from keyhole.kernels.sweep import LABEL_PASSES
from keyhole.settings import Settings

EXACT_STEPS = 4_000_000
"""Most steps of the exact sum of docs/model.md section 4 for one cell (15 variables); beyond it particles are used."""

PARTICLES = 200
"""Particles of the importance sampler for each cell."""


def exact_steps(variables: int) -> int:
    """Return the number of (set, block) pairs in the exact sum for one cell."""
    return int(3 ** (variables - 1) // 2 + 2 ** (variables - 1))


def guess_profiles(settings: Settings) -> int:
    """Return the approximate number of profiles that a draw has."""
    return settings.profiles if settings.model == "mixed" else 100 if settings.prior == "adaptive" else 20


def sweep_cost(records: int, variables: int, rules: bool) -> float:
    """Return the cost of a sweep: proportional to the number of answers, plus a constant."""
    answer = 180.0 if rules else 100.0 + 24.0 * LABEL_PASSES
    return 1e6 + answer * records * variables


def cell_cost(variables: int, profiles: int) -> float:
    """Return the cost of a cell's probability: of the pairs of the exact sum, and of profiles and sets."""
    if exact_steps(variables) > EXACT_STEPS:
        return float(PARTICLES * variables * variables * profiles)
    return 0.2 * variables * exact_steps(variables) + 0.2 * profiles * (1 << variables)


LOOKUPS = 6
"""Most records of a cell whose profiles are looked up one by one, on average: most of many have the same."""

CLASSES = 60
"""Approximate number of profiles that a sweep of `classes` considers."""


def count_edges(trees: Trees) -> int:
    """Return the edges of a profile's rows: under any layout of a key there are equally many."""
    first, last = trees.layout_start[:-1], trees.layout_start[:-1] + 1
    return int((trees.edge_start[trees.node_start[last]] - trees.edge_start[trees.node_start[first]]).sum())


def class_sweep_cost(cells: Cells, trees: Trees, visits: int) -> float:
    """Return the cost of a sweep of `classes`: of rows, and of labels by visits to the records or by the slice."""
    distinct, variables = cells.level.shape
    rows = 250.0 * CLASSES * count_edges(trees)
    if visits > 0:
        return float(rows + visits * (600.0 * cells.size.sum() + 0.15 * CLASSES * distinct * variables))
    lookups = float(np.minimum(cells.size, LOOKUPS).sum())
    return float(rows + distinct * (50.0 + 0.15 * CLASSES * variables) + 20.0 * lookups)


def class_evaluation_cost(variables: int, events: int) -> float:
    """Return the cost of a draw of `classes`: of the events' probabilities, and of the risks."""
    return 150_000.0 + events * (200.0 + 0.3 * CLASSES * variables)


ENTRY = 200.0
"""Cost of a cell's risks for each stratum that it may have people of."""


RECORDS = 1_500.0
"""Cost of the risk of a cell's records, and of P(F < k), for each stratum that it may have people of."""


def strata_cost(rows: Sequence[tuple[int, int]], levels: int, entries: int, settings: Settings) -> float:
    """Return the cost of cells within strata: of events (number, keys), each with these levels of a further variable.

    Sets without the stratum are summed once, and each level adds those with it.
    """
    cost = ENTRY * entries
    for events, keys in rows:
        if settings.model == "classes":
            cost += events * (0.2 * CLASSES * (keys + levels))
        else:
            sets = 0.12 * guess_profiles(settings) * (1 << keys) * levels
            cost += events * (cell_cost(keys + (levels > 0), guess_profiles(settings)) + sets)
    return cost


FIRST_LOOK = 40
"""Draws of each chain at the first look at the gates: fewer cannot meet them."""

EVALUATION_SHARE = 0.25
"""Cost of evaluating risks, relative to sweeps: chains mix slowly, so more frequent draws add little."""


def find_spacing(sweep: float, evaluation: float, least: int) -> int:
    """Return the number of sweeps from one draw to the next."""
    return int(min(max(math.ceil(evaluation / (EVALUATION_SHARE * sweep)), least), 50))


def estimate_seconds(records: int, variables: int, settings: Settings, rules: bool, strata: int = 0) -> float:
    """Return how long `hdp` or `mixed` takes to the first look on two cores, if hardly any records are equal.

    strata: the levels of their further variable, which is one of the variables.
    """
    sweep = sweep_cost(records, variables, rules)
    evaluation = records * cell_cost(variables, guess_profiles(settings))
    if strata:
        evaluation += strata_cost([(records, variables - 1)], strata, strata * records, settings)
    draw = find_spacing(sweep, evaluation, 2) * sweep + evaluation
    return settings.chains * FIRST_LOOK * draw / (2.0 * 1e9)
