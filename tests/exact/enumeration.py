"""All states of a tiny data set with their exact posterior probabilities, laid out for the kernels.

A state is a seating of every record and a labelling of its tables, up to names; beta and theta are
integrated out and the hyperparameters fixed. Starts drawn from the exact posterior are independent, and a
right kernel leaves them so: the chi-square below needs no thinning and no mixing.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln
from scipy.stats import chi2

from keyhole.kernels.state import Prior, State
from tests.oracle.model import Hyper, Model, Seating, enumerate_seatings, log_joint, log_profile_likelihood
from tests.oracle.trees import Layout, layout_likelihood, leaves
from tests.statistical.compiled import compiled
from tests.statistical.prior_pool import (
    Pool,
    empty_pool,
    fill_rows,
    fill_weights,
    make_prior,
    one_state,
)

BATCH = 10_000
MISSING = 255


@dataclass(frozen=True)
class Case:
    """A tiny data set (-1: missing), its model and fixed hyperparameters."""

    name: str
    data: tuple[tuple[int, ...], ...]
    model: Model
    hyper: Hyper
    learned: bool = False
    ordered: bool = False

    def __hash__(self) -> int:
        return hash((self.name, self.learned))

    @property
    def prior(self) -> Prior:
        return make_prior(self.model.finite, self.model.adaptive, list(self.model.levels), self.ordered)


@dataclass(frozen=True)
class Enumeration:
    """States (one Pool replicate each), their probabilities and codes."""

    case: Case
    pool: Pool
    probability: NDArray[np.float64]
    code: NDArray[np.int64]


def make_case(name: str, data: tuple[tuple[int, ...], ...], profiles: int = 0, strength: float = 0.8) -> Case:
    """A case with unequal hyperparameters, so that no symmetry hides an error."""
    levels = tuple(max(row[j] for row in data) + 1 + (j == 1) for j in range(len(data[0])))
    strengths = [strength + 0.7 * j for j in range(len(levels))]
    base = [np.arange(2.0, 2.0 + d) / np.arange(2.0, 2.0 + d).sum() for d in levels]
    hyper = Hyper(gamma=1.3, record=(1.7, 0.9), alpha=1.6, strength=strengths, base=base)
    return Case(name, data, Model(levels, finite=profiles > 0, profiles=profiles), hyper)


def make_learned_case(name: str, data: tuple[tuple[int, ...], ...], profiles: int = 0) -> Case:
    """The `paper` prior: gamma (or alpha of `mixed`) is learned, all else is fixed."""
    levels = tuple(max(row[j] for row in data) + 1 for j in range(len(data[0])))
    base = [np.full(d, 1.0 / d) for d in levels]
    hyper = Hyper(gamma=1.0, record=(2.0, 1.0), alpha=1.0, strength=[float(d) for d in levels], base=base)
    return Case(name, data, Model(levels, finite=profiles > 0, profiles=profiles), hyper, learned=True)


LAYOUTS = ((0, (1, ((2, 3), 4))), (0, ((1, 2), (3, 4))), (0, (((1, 2), 3), 4)))
"""The layouts of prior_pool.py as nested pairs: the first of five categories is outside the order."""


def make_ordered_case(name: str, data: tuple[tuple[int, ...], ...], learned: bool = False) -> Case:
    """A case of `hdp` with an ordered first key: strengths of its roots, of nodes of three or four, and of two.

    learned: gamma is.
    """
    levels = (5, *(max(row[j] for row in data) + 1 for j in range(1, len(data[0]))))
    strengths = [0.9, 1.6, 2.3, *(3.0 + 0.7 * j for j in range(1, len(levels)))]
    base = [np.arange(2.0, 2.0 + d) / np.arange(2.0, 2.0 + d).sum() for d in levels]
    hyper = Hyper(1.0 if learned else 1.3, (1.7, 0.9), 1.6, strengths, base)
    return Case(name, data, Model(levels), hyper, learned, ordered=True)


def pick_strength(case: Case, layout: Layout) -> float:
    """The strength of a node: of the root, with the category outside the order; of three or four categories; of two."""
    return case.hyper.strength[0 if layout[0] == 0 else 1 if len(leaves(layout)) > 2 else 2]


def log_ordered_likelihood(case: Case, layout: int, answers: list[tuple[int, int]]) -> float:
    """Log probability of a layout, and of the answers (variable, category) of one profile under it."""
    first = np.bincount([x for j, x in answers if j == 0], minlength=5).tolist()
    tree = layout_likelihood(LAYOUTS[layout], lambda node: pick_strength(case, node), case.hyper.base[0], first)
    flat = replace(case.hyper, strength=[math.nan, *case.hyper.strength[3:]])
    others = log_profile_likelihood([answer for answer in answers if answer[0] > 0], flat)
    return math.log(tree / len(LAYOUTS)) + others


def choose_layouts(case: Case, seating: Seating) -> Iterator[tuple[tuple[int, ...], float]]:
    """Yield the layouts that the profiles of a seating can have, and the log joint density with them."""
    profiles = count_tables_and_profiles(seating)[1]
    if not case.ordered:
        yield (0,) * profiles, log_joint(seating, case.data, case.hyper, case.model)
        return
    for layouts in itertools.product(range(len(LAYOUTS)), repeat=profiles):

        def likelihood(label: int, answers: list[tuple[int, int]], chosen: tuple[int, ...] = layouts) -> float:
            return log_ordered_likelihood(case, chosen[label], answers)

        yield layouts, log_joint(seating, case.data, case.hyper, case.model, likelihood)


def count_tables_and_profiles(records: Seating) -> tuple[int, int]:
    """m and K."""
    labels = [label for tables in records for label, _ in tables]
    return len(labels), len(set(labels))


GRID = np.linspace(-18.0, 5.0, 6001)


@cache
def learned_density(case: Case, tables: int, profiles: int) -> NDArray[np.float64]:
    """Posterior density, up to a constant, of the logarithm of gamma or alpha, on GRID.

    Gamma(2, 1) prior; likelihood gamma^K Gamma(gamma) / Gamma(gamma + m), or alpha^m / prod (alpha)_f.
    """
    value = np.exp(GRID)
    log_prior = 2.0 * GRID - value
    if not case.model.finite:
        return np.exp(log_prior + profiles * GRID + gammaln(value) - gammaln(value + tables))
    log_density = log_prior + tables * GRID
    for row in case.data:
        answers = sum(category >= 0 for category in row)
        log_density += gammaln(value) - gammaln(value + answers)
    return np.exp(log_density)


def log_learned_factor(case: Case, tables: int, profiles: int) -> float:
    """Log of the factor with gamma or alpha integrated out, over the factor at the value in `hyper`, 1."""
    integral = np.trapezoid(learned_density(case, tables, profiles), GRID)
    if not case.model.finite:
        return float(np.log(integral) + gammaln(1.0 + tables))
    # alpha = 1: alpha^m / (alpha)_f = 1 / f!
    return float(np.log(integral) + sum(gammaln(1.0 + sum(x >= 0 for x in row)) for row in case.data))


def draw_learned(rng: np.random.Generator, case: Case, pool: Pool) -> None:
    """Draw gamma or alpha given the seating of every replicate, by inversion on GRID."""
    target = pool.state.shared_concentration if case.model.finite else pool.state.weight_concentration
    tables = pool.state.table_total.sum(axis=1)
    profiles = (pool.state.profile_tables > 0).sum(axis=1)
    for m, used in set(zip(tables.tolist(), profiles.tolist(), strict=True)):
        chosen = (tables == m) & (profiles == used)
        cumulative = np.cumsum(learned_density(case, m, used))
        u = rng.random(chosen.sum()) * cumulative[-1]
        target[chosen, 0] = np.exp(np.interp(u, cumulative, GRID))


def write_state(case: Case, records: Seating, state: State) -> None:
    """Write the seating to arrays of State."""
    start = np.concatenate([[0], np.cumsum(case.model.levels)])
    state.seat[:] = MISSING
    for i, tables in enumerate(records):
        state.table_total[i] = len(tables)
        for t, (label, variables) in enumerate(tables):
            state.table_label[i, t] = label
            state.table_size[i, t] = len(variables)
            state.profile_tables[label] += 1
            state.profile_total[0] = max(state.profile_total[0], label + 1)
            for j in variables:
                state.seat[i, j] = t
                state.level_count[start[j] + case.data[i][j], label] += 1
    if case.model.finite:
        state.profile_total[0] = case.model.profiles


def enumerate_case(case: Case, capacity: int = 24) -> Enumeration:
    """Enumerate all states with a positive probability; with `learned` gamma or alpha is integrated out."""
    states = [
        (seating, layouts, weight)
        for seating in enumerate_seatings(case.data)
        for layouts, weight in choose_layouts(case, seating)
        if weight > -math.inf
    ]
    log_weight = np.array([weight for _, _, weight in states])
    if case.learned:
        log_weight += [log_learned_factor(case, *count_tables_and_profiles(seating)) for seating, _, _ in states]
    weight = np.exp(log_weight - log_weight.max())
    pool = empty_pool(len(states), len(case.data), case.model.levels, capacity, len(case.hyper.strength))
    for r, (seating, layouts, _) in enumerate(states):
        write_state(case, seating, State(*(field[r] for field in pool.state)))
        pool.state.layout[r, 0, : len(layouts)] = layouts
    pool.state.weight_concentration[:] = case.hyper.gamma
    pool.state.record_concentration[:] = case.hyper.record
    pool.state.shared_concentration[:] = case.hyper.alpha
    pool.state.base_strength[:] = case.hyper.strength
    pool.state.base_level[:] = np.concatenate(case.hyper.base)
    codes = np.array(case.data, dtype=np.int32)
    pool.level[:] = np.where(codes < 0, -1, codes + pool.level_start[:-1].astype(np.int32))
    return Enumeration(case, pool, weight / weight.sum(), encode_states(pool, case.ordered))


@compiled
def encode_all(pool, ordered, out):
    """Name tables and profiles by first appearance; six bits for each answer, then two for the layout of a profile."""
    for r in range(len(out)):
        state = one_state(pool.state, r)
        profile_name = np.full(state.weight.shape[0], -1)
        profiles = 0
        code = 0
        for i in range(state.seat.shape[0]):
            table_name = np.full(state.seat.shape[1], -1)
            tables = 0
            for j in range(state.seat.shape[1]):
                if pool.level[r, i, j] < 0:
                    continue
                t = state.seat[i, j]
                k = state.table_label[i, t]
                if table_name[t] < 0:
                    table_name[t] = tables
                    tables += 1
                if profile_name[k] < 0:
                    profile_name[k] = profiles
                    profiles += 1
                code = code * 64 + table_name[t] * 8 + profile_name[k]
        if ordered:
            for name in range(profiles):
                code = code * 4 + state.layout[0, np.flatnonzero(profile_name == name)[0]]
        out[r] = code


def encode_states(pool: Pool, ordered: bool = False) -> NDArray[np.int64]:
    """One integer for each state, the same for states that differ in names only; ordered: with the layouts of rows."""
    out = np.zeros(len(pool.level), dtype=np.int64)
    encode_all(pool, ordered, out)
    return out


@compiled
def complete_states(rng, prior, pool):
    """Shuffle the names of the profiles, then draw beta and theta given the seating and the layouts."""
    for r in range(len(pool.level)):
        state = one_state(pool.state, r)
        used = state.profile_total[0]
        name = np.arange(used)
        for k in range(used - 1, 0, -1):
            other = int(rng.random() * (k + 1))
            name[k], name[other] = name[other], name[k]
        tables = state.profile_tables[:used].copy()
        count = state.level_count[:, :used].copy()
        layout = state.layout[:, :used].copy()
        for k in range(used):
            state.profile_tables[name[k]] = tables[k]
            state.level_count[:, name[k]] = count[:, k]
            state.layout[:, name[k]] = layout[:, k]
        for i in range(len(state.table_total)):
            for t in range(state.table_total[i]):
                state.table_label[i, t] = name[state.table_label[i, t]]
        fill_weights(rng, prior, state)
        fill_rows(rng, prior.trees, pool.level_start, state)


def chi_square_p(observed: NDArray[np.int64], expected: NDArray[np.float64]) -> float:
    """Pearson's test over cells with expected count at least 10; the others form one cell."""
    large = expected >= 10.0
    observed_cells = np.append(observed[large], observed[~large].sum())
    expected_cells = np.append(expected[large], expected[~large].sum())
    if expected_cells[-1] < 10.0:
        smallest = np.argmin(expected_cells[:-1])
        observed_cells[smallest] += observed_cells[-1]
        expected_cells[smallest] += expected_cells[-1]
        observed_cells, expected_cells = observed_cells[:-1], expected_cells[:-1]
    statistic = float(np.sum((observed_cells - expected_cells) ** 2 / expected_cells))
    return float(chi2.sf(statistic, len(expected_cells) - 1))


def count_states(
    rng: np.random.Generator,
    enumeration: Enumeration,
    advance: Callable[[np.random.Generator, Prior, Pool], None],
    draws: int,
    start: int | None = None,
) -> NDArray[np.int64]:
    """Start chains from the exact posterior (or all from one state), advance, count where they end."""
    order = np.argsort(enumeration.code)
    observed = np.zeros(len(order), dtype=np.int64)
    for first in range(0, draws, BATCH):
        size = min(BATCH, draws - first)
        if start is None:
            chosen = rng.choice(len(order), size=size, p=enumeration.probability)
        else:
            chosen = np.full(size, start)
        state = State(*(field[chosen] for field in enumeration.pool.state))
        pool = Pool(state, enumeration.pool.level[chosen], enumeration.pool.level_start)
        if enumeration.case.learned:
            draw_learned(rng, enumeration.case, pool)
        complete_states(rng, enumeration.case.prior, pool)
        advance(rng, enumeration.case.prior, pool)
        code = encode_states(pool, enumeration.case.ordered)
        place = order[np.searchsorted(enumeration.code[order], code).clip(max=len(order) - 1)]
        assert np.array_equal(enumeration.code[place], code), "a state outside the model"
        observed += np.bincount(place, minlength=len(order))
    return observed
