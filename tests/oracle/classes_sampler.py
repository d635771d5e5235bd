"""Draws from the joint prior of the model `classes`, one record after the other. Imports nothing from keyhole.

The law is that of classes_oracle.py: hyperparameters from the `adaptive` prior (or given), labels from a Chinese
restaurant, w given the labels Dirichlet(n_1, ..., n_K, gamma), the last for all profiles not in use, theta^k ~ H, and
each record a possible cell with probability P_k(c) / s_k. That is the law of the first possible person of the class
(`draw_record_by_rejection`), but needs no luck where s_k is 1e-30, as it is under small lambda. So theta is kept as
logarithms.

For a joint-distribution test: draw a state (`draw_state`), apply the kernel, and compare `measure` before and after on
many states. Nothing in `measure` depends on the names of the classes; quantities of the data use observed answers only.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from .boxes import fillings
from .classes_oracle import Cell, Rules, growth_string, possible_cells
from .model import Hyper, Model, draw_hyper, draw_index, draw_restaurant
from .rejection import find_box

Row = NDArray[np.float64]
QUANTITIES = (
    "classes",
    "largest class",
    "pairs of records in one class",
    "log gamma",
    "log remainder",
    "sum of squared weights",
    "log lambda of variable 0",
    "log pi of the first category of variable 0",
    "log pi of the answers",
    "pairs of equal records",
    "pairs of equal answers to variable 0",
    "log possible mass of the first record's class",
    "impossible mass of all classes",
    "mass of the first possible cell",
    "log theta of the first answer",
    "log likelihood given classes",
    "log density of the first record's first row given lambda and pi",
    # Joint quantities: two right margins can hide a wrong joint law.
    "log gamma x classes",
    "log gamma x log remainder",
    "log lambda x pairs of equal answers",
    "log lambda x log possible mass",
    "log pi of the answers x log likelihood given classes",
    "classes x log possible mass",
    "log lambda x classes",
)


@dataclass
class ClassesState:
    """Labels of the records, weights of classes 0..K-1, log remainder, log theta[k][j], records (-1: missing)."""

    hyper: Hyper
    label: list[int]
    weight: list[float]
    log_remainder: float
    log_theta: list[list[Row]]
    data: list[Cell]
    completed: list[Cell]


def draw_log_dirichlet(rng: np.random.Generator, shape: Sequence[float] | Row) -> Row:
    """Log of a Dirichlet draw: log Gamma(s) = log Gamma(s + 1) + log(U) / s, for shapes of any size."""
    shapes = np.asarray(shape, dtype=float)
    logs = np.log(rng.standard_gamma(shapes + 1.0)) + np.log1p(-rng.random(shapes.shape)) / shapes
    return np.asarray(logs - np.logaddexp.reduce(logs, axis=-1, keepdims=True))


def log_cells(log_theta: Sequence[Row], cells: Sequence[Cell]) -> Row:
    """log P_k(c) of each cell."""
    return sum(row[[cell[j] for cell in cells]] for j, row in enumerate(log_theta))


def draw_profile(rng: np.random.Generator, hyper: Hyper) -> list[Row]:
    """Log rows of theta ~ H."""
    return [draw_log_dirichlet(rng, s * p) for s, p in zip(hyper.strength, hyper.base, strict=True)]


def draw_record(rng: np.random.Generator, log_theta: Sequence[Row], possible: Sequence[Cell]) -> Cell:
    """A possible cell with probability P_k(c) / s_k."""
    logs = log_cells(log_theta, possible)
    return possible[draw_index(rng, np.exp(logs - logs.max()))]


def draw_record_by_rejection(rng: np.random.Generator, log_theta: Sequence[Row], rules: Rules) -> Cell:
    """People of the class are drawn until one is possible: the same law, where s_k is not small."""
    while True:
        cell = tuple(draw_index(rng, np.exp(row)) for row in log_theta)
        if find_box(cell, rules) is None:
            return cell


def draw_state(
    rng: np.random.Generator,
    n: int,
    levels: tuple[int, ...],
    rules: Rules = (),
    hyper: Hyper | None = None,
    blank: float = 0.0,
) -> ClassesState:
    """Draw everything from the prior, hyperparameters if none are given; answers are missing with chance `blank`."""
    possible = possible_cells(levels, rules)
    if hyper is None:
        hyper = draw_hyper(rng, Model(levels, adaptive=True))
    tables = draw_restaurant(rng, n, hyper.gamma)
    label = [next(k for k, records in enumerate(tables) if i in records) for i in range(n)]
    log_theta = [draw_profile(rng, hyper) for _ in tables]
    completed = [draw_record(rng, log_theta[k], possible) for k in label]
    data = [tuple(-1 if rng.random() < blank else x for x in cell) for cell in completed]
    *weight, log_remainder = draw_log_dirichlet(rng, [*(len(records) for records in tables), hyper.gamma])
    return ClassesState(hyper, label, list(np.exp(weight)), float(log_remainder), log_theta, data, completed)


def draw_state_given_partition(
    rng: np.random.Generator, label: Sequence[int], data: Sequence[Cell], levels: tuple[int, ...], hyper: Hyper,
    rules: Rules = (),
) -> ClassesState:  # fmt: skip
    """Draw w and theta given complete records and their labels: with a partition from Exact, an exact posterior state.

    theta^k ~ H is accepted with probability prod P_k(x_i) / s_k over the records of the class: for few records only.
    """
    possible = possible_cells(levels, rules)
    names = growth_string(label)
    log_theta = []
    for k in range(max(names) + 1):
        members = [cell for cell, name in zip(data, names, strict=True) if name == k]
        while True:
            rows = draw_profile(rng, hyper)
            chance = log_cells(rows, members).sum() - len(members) * np.logaddexp.reduce(log_cells(rows, possible))
            if math.log1p(-rng.random()) < chance:
                break
        log_theta.append(rows)
    *weight, log_remainder = draw_log_dirichlet(rng, [*np.bincount(names), hyper.gamma])
    return ClassesState(
        hyper, list(names), list(np.exp(weight)), float(log_remainder), log_theta, list(data), list(data)
    )


def log_row_density(row: Row, shape: Row) -> float:
    """Log density of a row of theta under Dirichlet(shape): lambda, pi and theta must fit."""
    return float(gammaln(shape.sum()) - gammaln(shape).sum() + ((shape - 1.0) * np.maximum(row, -700.0)).sum())


def measure(state: ClassesState, levels: tuple[int, ...], rules: Rules = ()) -> dict[str, float]:
    """The quantities of QUANTITIES, of a state from the prior or from a chain."""
    possible = possible_cells(levels, rules)
    hyper, data = state.hyper, state.data
    sizes = np.bincount(state.label, minlength=len(state.log_theta))
    # Not below e^-700, so that a chain may keep theta itself.
    log_mass = [max(float(np.logaddexp.reduce(log_cells(rows, possible))), -700.0) for rows in state.log_theta]
    first = state.log_theta[state.label[0]]
    log_gamma, log_lambda = math.log(hyper.gamma), math.log(hyper.strength[0])
    equal_answers = sum(a[0] == b[0] >= 0 for a, b in itertools.combinations(data, 2))
    log_pi = sum(math.log(hyper.base[j][x]) for record in data for j, x in enumerate(record) if x >= 0)
    likelihood = 0.0
    for record, k in zip(data, state.label, strict=True):
        fits = [cell for cell in fillings(levels, record) if cell in possible]
        likelihood += max(float(np.logaddexp.reduce(log_cells(state.log_theta[k], fits))) - log_mass[k], -700.0)
    cell_mass = [
        math.exp(log_cells(rows, possible[:1])[0] - s) for rows, s in zip(state.log_theta, log_mass, strict=True)
    ]
    used = float((sizes > 0).sum())
    own_mass = log_mass[state.label[0]]
    values = (
        used,
        float(sizes.max()),
        float((sizes * (sizes - 1) // 2).sum()),
        log_gamma,
        state.log_remainder,
        float(np.square(state.weight).sum()),
        log_lambda,
        math.log(hyper.base[0][0]),
        log_pi,
        float(sum(a == b for a, b in itertools.combinations(data, 2))),
        float(equal_answers),
        own_mass,
        sum(w * -math.expm1(min(s, 0.0)) for w, s in zip(state.weight, log_mass, strict=True)),
        sum(w * p for w, p in zip(state.weight, cell_mass, strict=True)),
        max(float(first[0][data[0][0]]), -700.0) if data[0][0] >= 0 else 0.0,
        likelihood,
        log_row_density(first[0], hyper.strength[0] * hyper.base[0]),
        log_gamma * used,
        log_gamma * state.log_remainder,
        log_lambda * equal_answers,
        log_lambda * own_mass,
        log_pi * likelihood,
        used * own_mass,
        log_lambda * used,
    )
    return dict(zip(QUANTITIES, values, strict=True))


def simulate_prior(
    rng: np.random.Generator,
    n: int,
    levels: tuple[int, ...],
    rules: Rules = (),
    hyper: Hyper | None = None,
    blank: float = 0.0,
) -> dict[str, float]:
    """The quantities of one draw from the prior."""
    return measure(draw_state(rng, n, levels, rules, hyper, blank), levels, rules)
