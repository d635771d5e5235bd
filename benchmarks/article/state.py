"""The state of the article's sampler, in its own letters, and draws of it from the prior."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

A, B = 2.0, 1.0
"""alpha_i ~ Gamma(a, b) and alpha_0 ~ Gamma(a_0, b_0): shape and rate, as in the article's experiments."""


@dataclass
class Imputed:
    """The people of steps 7 to 9: those whom the rules exclude.

    x, z: int64 (n_0, J), all their answers and profiles.
    answers: by variable, (K, d_j), and tables: (K + 1,), what the fast approximation puts in their place.
    """

    x: Integers
    z: Integers
    answers: list[Floats] | None = None
    tables: Floats | None = None
    p: Floats = field(default_factory=lambda: np.zeros(0))
    """Probabilities of the marginal conditions."""


@dataclass
class State:
    """Everything between two steps. Column 0 of g0 and g is the remainder: profiles not seen yet.

    x, z: int64 (n, J), categories from 0 and profiles from 1; levels: n_j.
    g0: (K + 1,); g: (n, K + 1); theta: by variable, (K + 1, n_j), row 0 the mean 1 / n_j of an unseen profile.
    alpha0: float; alpha: (n,); m: int64 (n, K + 1), tables; imputed: None without rules.
    """

    x: Integers
    levels: tuple[int, ...]
    z: Integers
    g0: Floats
    g: Floats
    theta: list[Floats]
    alpha0: float
    alpha: Floats
    m: Integers
    imputed: Imputed | None = None

    @property
    def profiles(self) -> int:
        """K_n, the profiles that are explicit."""
        return len(self.g0) - 1


def draw_dirichlet(rng: np.random.Generator, shape: Any) -> Floats:
    """Dirichlet draws along the last axis; shapes may be tiny."""
    shape = np.asarray(shape, np.float64)
    # Gamma(a) = Gamma(a + 1) U^(1/a), in logarithms: for a near 0 a plain gamma is 0.
    with np.errstate(divide="ignore"):
        value = np.log(rng.gamma(shape + 1.0)) + np.log(rng.random(shape.shape)) / np.maximum(shape, 1e-300)
    value = np.exp(value - value.max(axis=-1, keepdims=True))
    return np.asarray(value / value.sum(axis=-1, keepdims=True), np.float64)


def draw_rows(rng: np.random.Generator, cumulated: Floats) -> Integers:
    """Draw one place for each row of cumulated weights."""
    point = rng.random(len(cumulated)) * cumulated[:, -1]
    return np.asarray((point[:, None] >= cumulated).sum(axis=1), np.int64)


def draw_tables(rng: np.random.Generator, customers: Integers, concentration: Floats) -> Integers:
    """Tables of Chinese restaurants: sums of Bernoulli draws, as the article's notes on the implementation say."""
    tables = (customers > 0).astype(np.int64)
    for seat in range(1, int(customers.max(initial=0))):
        opened = rng.random(customers.shape) < concentration / (concentration + seat)
        tables += opened & (customers > seat)
    return tables


def count_seats(z: Integers, profiles: int) -> Integers:
    """n_{i.k}: answers of each record in each profile, column 0 empty."""
    seats = np.zeros((len(z), profiles + 1), np.int64)
    for j in range(z.shape[1]):
        seats[np.arange(len(z)), z[:, j]] += 1
    return seats


def start_state(rng: np.random.Generator, x: Integers, levels: tuple[int, ...], profiles: int) -> State:
    """Put every record in one of some profiles at random, and draw the rest given that."""
    n = len(x)
    z = np.repeat(1 + rng.integers(0, profiles, (n, 1)), x.shape[1], axis=1)
    g0 = draw_dirichlet(rng, np.ones(profiles + 1))
    alpha = np.full(n, A / B)
    g = draw_dirichlet(rng, alpha[:, None] * g0 + count_seats(z, profiles))
    theta = [np.vstack([np.full(d, 1.0 / d), draw_dirichlet(rng, np.ones((profiles, d)))]) for d in levels]
    return State(x, levels, z, g0, g, theta, A / B, alpha, np.minimum(count_seats(z, profiles), 1))


@dataclass
class World:
    """G_0 in full, sticks broken until less than 1e-12 is left, and its concentration.

    weight: (K,); theta: by variable, (K, n_j).
    """

    alpha0: float
    weight: Floats
    theta: list[Floats]


def draw_world(rng: np.random.Generator, levels: tuple[int, ...]) -> World:
    """Draw alpha_0, weights and profiles from their prior."""
    alpha0 = float(rng.gamma(A) / B)
    left, weight = 1.0, []
    while left > 1e-12:
        nu = rng.beta(alpha0, 1.0)
        weight.append(left * (1.0 - nu))
        left *= nu
    theta = [draw_dirichlet(rng, np.ones((len(weight), d))) for d in levels]
    return World(alpha0, np.array(weight), theta)


@dataclass
class People:
    """alpha: (n,); x, z: (n, J), profiles from 0; table_label: (n, J), the profile of each table, -1 where none."""

    alpha: Floats
    x: Integers
    z: Integers
    table_label: Integers


def draw_people(rng: np.random.Generator, world: World, total: int) -> People:
    """Draw people: their answers sit down in a Chinese restaurant, and each table draws its profile from G_0."""
    variables, rows = len(world.theta), np.arange(total)
    alpha = rng.gamma(A, size=total) / B
    size = np.zeros((total, variables))
    label = np.full((total, variables), -1, np.int64)
    x, z = np.zeros((total, variables), np.int64), np.zeros((total, variables), np.int64)
    cumulated = np.cumsum(world.weight)
    for j in range(variables):
        # Tables are opened in order, so the next free one is that of the number of tables.
        tables = (label >= 0).sum(axis=1)
        weight = size.copy()
        weight[rows, tables] = alpha
        t = draw_rows(rng, np.cumsum(weight, axis=1))
        fresh = t == tables
        label[rows[fresh], t[fresh]] = np.searchsorted(cumulated, rng.random(int(fresh.sum())) * cumulated[-1])
        size[rows, t] += 1.0
        z[:, j] = label[rows, t]
        x[:, j] = draw_rows(rng, np.cumsum(world.theta[j][z[:, j]], axis=1))
    return People(alpha, x, z, label)


def make_state(
    rng: np.random.Generator, world: World, people: People, keep: Integers, imputed: Integers | None = None
) -> State:
    """Write an exact draw as the article's sampler has it: profiles in use by anybody, everything else the remainder.

    keep: the people who are records; imputed: those who are not, with rules.
    """
    everybody = keep if imputed is None else np.concatenate([keep, imputed])
    used = np.unique(people.z[everybody])
    number = np.zeros(len(world.weight), np.int64)
    number[used] = 1 + np.arange(len(used))
    g0 = np.concatenate([[max(1.0 - float(world.weight[used].sum()), 1e-300)], world.weight[used]])
    theta = [np.vstack([np.full((1, rows.shape[1]), 1.0 / rows.shape[1]), rows[used]]) for rows in world.theta]
    z = number[people.z[keep]]
    m = np.zeros((len(keep), len(used) + 1), np.int64)
    for place, i in enumerate(keep):
        label = people.table_label[i]
        np.add.at(m[place], number[label[label >= 0]], 1)
    alpha = people.alpha[keep]
    g = draw_dirichlet(rng, alpha[:, None] * g0 + count_seats(z, len(used)))
    levels = tuple(rows.shape[1] for rows in world.theta)
    found = None if imputed is None else Imputed(people.x[imputed], number[people.z[imputed]])
    return State(people.x[keep], levels, z, g0, g, theta, world.alpha0, alpha, m, found)


def draw_from_prior(rng: np.random.Generator, records: int, levels: tuple[int, ...]) -> State:
    """Draw parameters, profiles, tables and data together."""
    world = draw_world(rng, levels)
    return make_state(rng, world, draw_people(rng, world, records), np.arange(records))
