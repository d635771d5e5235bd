"""Structural zeros by brute force: people are drawn until enough of them are possible; the others are the imputed ones.

Imports nothing from keyhole. A rule is a dict {variable: set of categories}: the cells in which all of them hold.
"""

from dataclasses import dataclass, field

import numpy as np


@dataclass
class World:
    """G_0 in full (sticks broken until almost nothing is left), and the concentrations."""

    gamma: float
    record: tuple[float, float]
    alpha: float
    strength: list[float]
    base: list[np.ndarray]
    weight: np.ndarray
    theta: list[np.ndarray]  # by variable: (profiles, categories)


@dataclass
class Person:
    """Tables: (profile, {variable: category}) each."""

    tables: list[tuple[int, dict[int, int]]] = field(default_factory=list)

    @property
    def cell(self) -> dict[int, int]:
        return {j: x for _, answers in self.tables for j, x in answers.items()}


def draw_world(rng, levels, model, adaptive, profiles=3, left=1e-7):
    """Draw everything from the prior of docs/model.md section 2."""
    strength = [float(d) * (np.exp(1.5 * rng.standard_normal()) if adaptive else 1.0) for d in levels]
    base = [rng.dirichlet(np.ones(d)) if adaptive else np.full(d, 1.0 / d) for d in levels]
    record = (2.0, 1.0)
    if adaptive:
        mean, shape = np.exp(2.0 * rng.standard_normal()), np.exp(rng.standard_normal())
        record = (shape, shape / mean)
    gamma, alpha = rng.gamma(2.0), rng.gamma(2.0)
    if model == "mixed":
        weight = rng.dirichlet(np.ones(profiles))
    else:
        sticks, rest = [], 1.0
        while rest > left:
            nu = rng.random() ** (1.0 / gamma)
            sticks.append(rest * (1.0 - nu))
            rest *= nu
        weight = np.array(sticks) / sum(sticks)
    theta = [draw_rows(rng, s * b, len(weight)) for s, b in zip(strength, base, strict=True)]
    return World(gamma, record, alpha, strength, base, weight, theta)


def draw_rows(rng, shape, rows):
    """Dirichlet draws, one for each row, that survive tiny shapes."""
    size = (rows, len(shape))
    log_gamma = np.log(rng.gamma(shape + 1.0, size=size)) + np.log(rng.random(size)) / shape
    value = np.exp(log_gamma - log_gamma.max(axis=1, keepdims=True))
    return value / value.sum(axis=1, keepdims=True)


def draw_person(rng, world, model):
    """Seat the answers of one person in a Chinese restaurant, label the tables, draw the answers."""
    concentration = world.alpha if model == "mixed" else rng.gamma(world.record[0]) / world.record[1]
    sizes, tables = [], []
    cumulative = np.cumsum(world.weight)
    for j, theta in enumerate(world.theta):
        u = rng.random() * (concentration + j)
        t = 0
        while t < len(sizes) and u >= sizes[t]:
            u -= sizes[t]
            t += 1
        if t == len(sizes):
            sizes.append(0)
            tables.append((min(int(np.searchsorted(cumulative, rng.random())), len(cumulative) - 1), {}))
        sizes[t] += 1
        tables[t][1][j] = int(np.searchsorted(np.cumsum(theta[tables[t][0]]), rng.random()).clip(0, theta.shape[1] - 1))
    return Person(tables)


def find_box(cell, boxes):
    """Return the first box that holds the cell, or None."""
    for box in boxes:
        if all(cell[j] in allowed for j, allowed in box.items()):
            return box
    return None


def restrict(person, box):
    """Keep the answers that the box confines; tables without one are gone."""
    tables = [(k, {j: x for j, x in answers.items() if j in box}) for k, answers in person.tables]
    return Person([(k, answers) for k, answers in tables if answers])


def draw_file(rng, world, model, n, boxes, most=None):
    """Draw people until n are possible; return those, and the impossible ones restricted to their (disjoint) box.

    None when more than `most` are impossible.
    """
    kept, excluded = [], []
    while len(kept) < n:
        if most is not None and len(excluded) > most:
            return None
        person = draw_person(rng, world, model)
        box = find_box(person.cell, boxes)
        if box is None:
            kept.append(person)
        else:
            excluded.append(restrict(person, box))
    return kept, excluded
