"""The model of docs/model.md written for reading: priors, seating weights, joint density, enumeration.

A state is plain Python. `records[i]` is a list of tables; a table is a pair (label, variables); labels
are 0 .. K-1 and index `theta[k][j]`, a probability vector over the categories of variable j.
`data[i][j]` is a category, -1 where the answer is missing.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad

Table = tuple[int, tuple[int, ...]]
Seating = list[list[Table]]


@dataclass
class Model:
    """`finite` is `mixed` with `profiles` profiles; otherwise `hdp`. `adaptive` learns the base measure."""

    levels: tuple[int, ...]
    finite: bool = False
    adaptive: bool = False
    profiles: int = 0


@dataclass
class Hyper:
    """gamma, (a, b), alpha, lambda_j, pi_j."""

    gamma: float
    record: tuple[float, float]
    alpha: float
    strength: list[float]
    base: list[NDArray[np.float64]]


@dataclass
class Draw:
    """One state of the whole model, with its data."""

    hyper: Hyper
    records: Seating
    weight: list[float]
    remainder: float
    theta: list[list[NDArray[np.float64]]]
    data: list[list[int]] = field(default_factory=list)


# ---- elementary draws -------------------------------------------------------------------------------


def draw_dirichlet(rng: np.random.Generator, shape: Sequence[float]) -> NDArray[np.float64]:
    """Dirichlet through log gammas: log Gamma(s) = log Gamma(s + 1) + log(U) / s survives tiny shapes."""
    shapes = np.asarray(shape, dtype=float)
    logs = np.log(rng.standard_gamma(shapes + 1.0)) + np.log1p(-rng.random(len(shapes))) / shapes
    weight = np.exp(logs - logs.max())
    return np.asarray(weight / weight.sum())


def draw_index(rng: np.random.Generator, weight: Sequence[float]) -> int:
    """Index with probability proportional to weight."""
    total = np.cumsum(np.asarray(weight, dtype=float))
    return int(np.searchsorted(total, rng.random() * total[-1], side="right"))


def draw_restaurant(rng: np.random.Generator, customers: int, concentration: float) -> list[list[int]]:
    """Seat customers 0, 1, ... one after the other (Chinese restaurant)."""
    tables: list[list[int]] = []
    for customer in range(customers):
        choice = draw_index(rng, [*(len(t) for t in tables), concentration])
        if choice == len(tables):
            tables.append([])
        tables[choice].append(customer)
    return tables


# ---- prior ------------------------------------------------------------------------------------------


def draw_hyper(rng: np.random.Generator, model: Model) -> Hyper:
    """Draw the hyperparameters: docs/model.md section 2."""
    hyper = Hyper(
        gamma=rng.gamma(2.0, 1.0),
        record=(2.0, 1.0),
        alpha=rng.gamma(2.0, 1.0),
        strength=[float(d) for d in model.levels],
        base=[np.full(d, 1.0 / d) for d in model.levels],
    )
    if model.adaptive:
        hyper.strength = [d * math.exp(1.5 * rng.standard_normal()) for d in model.levels]
        hyper.base = [draw_dirichlet(rng, [1.0] * d) for d in model.levels]
        if not model.finite:
            mean, shape = math.exp(2.0 * rng.standard_normal()), math.exp(rng.standard_normal())
            hyper.record = (shape, shape / mean)
    return hyper


def draw_profile(rng: np.random.Generator, hyper: Hyper) -> list[NDArray[np.float64]]:
    """theta ~ H: independent rows Dirichlet(lambda_j pi_j)."""
    return [draw_dirichlet(rng, s * p) for s, p in zip(hyper.strength, hyper.base, strict=True)]


def draw_from_prior(rng: np.random.Generator, model: Model, n: int, sticks: bool = False) -> Draw:
    """Draw hyperparameters, seating, labels, weights, profiles and data.

    `hdp` by the Chinese restaurant franchise, then weights given the labels; with `sticks` the weights
    come first, by stick breaking, and labels from them. Both are the same law.
    """
    hyper = draw_hyper(rng, model)
    width = len(model.levels)
    seatings = []
    for _ in range(n):
        concentration = hyper.alpha if model.finite else rng.gamma(hyper.record[0], 1.0 / hyper.record[1])
        seatings.append([tuple(t) for t in draw_restaurant(rng, width, concentration)])
    total = sum(len(tables) for tables in seatings)
    if model.finite:
        weight, remainder = list(rng.dirichlet(np.ones(model.profiles))), 0.0
        labels = [draw_index(rng, weight) for _ in range(total)]
    elif sticks:
        labels, weight, remainder = draw_labels_by_sticks(rng, total, hyper.gamma)
    else:
        dishes = draw_restaurant(rng, total, hyper.gamma)
        labels = [next(k for k, tables in enumerate(dishes) if t in tables) for t in range(total)]
        *weight, remainder = draw_dirichlet(rng, [*(len(tables) for tables in dishes), hyper.gamma])
    theta = [draw_profile(rng, hyper) for _ in weight]
    remaining = iter(labels)
    records = [[(next(remaining), variables) for variables in tables] for tables in seatings]
    draw = Draw(hyper, records, [float(w) for w in weight], float(remainder), theta)
    draw.data = [draw_answers(rng, tables, theta, width) for tables in records]
    return draw


def draw_labels_by_sticks(rng: np.random.Generator, total: int, gamma: float) -> tuple[list[int], list[float], float]:
    """Break sticks until less than 1e-13 is left, label the tables, keep the profiles in use."""
    sticks: list[float] = []
    left = 1.0
    while left > 1e-13:
        nu = rng.beta(gamma, 1.0)
        sticks.append(left * (1.0 - nu))
        left *= nu
    chosen = [draw_index(rng, sticks) for _ in range(total)]
    used = sorted(set(chosen))
    weight = [sticks[k] for k in used]
    return [used.index(k) for k in chosen], weight, 1.0 - sum(weight)


def draw_answers(
    rng: np.random.Generator, tables: list[Table], theta: list[list[NDArray[np.float64]]], width: int
) -> list[int]:
    """Draw the answers of one record from the profiles of its tables."""
    answers = [-1] * width
    for label, variables in tables:
        for j in variables:
            answers[j] = draw_index(rng, theta[label][j])
    return answers


# ---- seating weights V(f, m) --------------------------------------------------------------------------


@cache
def seating_weight(f: int, m: int, a: float, b: float) -> float:
    """V(f, m) = E[alpha^m Gamma(alpha) / Gamma(alpha + f)], alpha ~ Gamma(a, b), by adaptive quadrature.

    Over x = log alpha; the integrand is scaled by its maximum and cut where it is below 1e-60 of it.
    """

    def log_integrand(x: float) -> float:
        alpha = math.exp(x)
        # (alpha)_f = alpha (alpha + 1) ... (alpha + f - 1): no difference of log gammas for tiny alpha.
        rising = x + sum(math.log(alpha + r) for r in range(1, f))
        return (a + m) * x - b * alpha - rising + a * math.log(b) - math.lgamma(a)

    # As alpha falls the integrand goes like exp((a + m - 1) x).
    grid = np.linspace(min(-60.0, -160.0 / (a + m - 1.0)), max(50.0, 8.0 - math.log(b)), 4601)
    values = np.array([log_integrand(x) for x in grid])
    top = values.max()
    inside = grid[values > top - 140.0]
    points = np.linspace(inside[0] - 0.1, inside[-1] + 0.1, 25)
    total = sum(
        quad(lambda x: math.exp(log_integrand(x) - top), low, high, epsabs=0.0, epsrel=1e-12, limit=200)[0]
        for low, high in itertools.pairwise(points)
    )
    return float(math.log(total) + top)


def log_seating_weight(f: int, m: int, hyper: Hyper, finite: bool) -> float:
    """Log V(f, m) of the model: with one shared alpha it is alpha^m / (alpha)_f."""
    if not finite:
        return seating_weight(f, m, *hyper.record)
    rising = sum(math.log(hyper.alpha + r) for r in range(f))
    return m * math.log(hyper.alpha) - rising


# ---- joint density ------------------------------------------------------------------------------------


def log_profile_likelihood(answers: Sequence[tuple[int, int]], hyper: Hyper) -> float:
    """Dirichlet-multinomial likelihood of the answers (variable, category) of one profile: an urn."""
    total = 0.0
    for position, (j, x) in enumerate(answers):
        before = answers[:position]
        same = before.count((j, x))
        seen = sum(variable == j for variable, _ in before)
        strength = hyper.strength[j]
        total += math.log((strength * hyper.base[j][x] + same) / (strength + seen))
    return total


def log_joint(
    records: Seating,
    data: Sequence[Sequence[int]],
    hyper: Hyper,
    model: Model,
    likelihood: Callable[[int, list[tuple[int, int]]], float] | None = None,
) -> float:
    """Log density of (seating, labels up to their names, data); beta and theta integrated out.

    likelihood: log probability of the answers (variable, category) of the profile of this label, if rows are not flat.
    """
    total = 0.0
    answers: dict[int, list[tuple[int, int]]] = {}
    tables_of: dict[int, int] = {}
    for row, tables in zip(data, records, strict=True):
        total += log_seating_weight(sum(len(v) for _, v in tables), len(tables), hyper, model.finite)
        for label, variables in tables:
            total += math.lgamma(len(variables))
            tables_of[label] = tables_of.get(label, 0) + 1
            answers.setdefault(label, []).extend((j, row[j]) for j in variables)
    m = sum(tables_of.values())
    if model.finite:
        spare = model.profiles - len(tables_of)
        if spare < 0:
            return -math.inf
        total += math.lgamma(model.profiles + 1) - math.lgamma(spare + 1)
        total += math.lgamma(model.profiles) - math.lgamma(model.profiles + m)
        total += sum(math.lgamma(1 + t) for t in tables_of.values())
    else:
        total += len(tables_of) * math.log(hyper.gamma)
        total += math.lgamma(hyper.gamma) - math.lgamma(hyper.gamma + m)
        total += sum(math.lgamma(t) for t in tables_of.values())
    if likelihood is not None:
        return total + sum(likelihood(label, a) for label, a in answers.items())
    return total + sum(log_profile_likelihood(a, hyper) for a in answers.values())


# ---- enumeration ----------------------------------------------------------------------------------------


def set_partitions(items: Sequence[int]) -> Iterator[list[list[int]]]:
    """All partitions of the items into blocks, blocks in order of their first item."""
    if not items:
        yield []
        return
    *rest, last = items
    for partition in set_partitions(rest):
        for b in range(len(partition)):
            yield [[*block, last] if i == b else block for i, block in enumerate(partition)]
        yield [*partition, [last]]


def enumerate_seatings(data: Sequence[Sequence[int]]) -> Iterator[Seating]:
    """All seatings of all records with all labels, once for each naming-free class."""
    blocks = [list(set_partitions([j for j, category in enumerate(row) if category >= 0])) for row in data]

    def extend(i: int) -> Iterator[list[list[list[int]]]]:
        if i == len(blocks):
            yield []
            return
        for first in blocks[i]:
            for others in extend(i + 1):
                yield [first, *others]

    for tables in extend(0):
        places = [(i, t) for i, record in enumerate(tables) for t in range(len(record))]
        for partition in set_partitions(range(len(places))):
            label = {places[p]: k for k, block in enumerate(partition) for p in block}
            yield [[(label[i, t], tuple(block)) for t, block in enumerate(record)] for i, record in enumerate(tables)]
