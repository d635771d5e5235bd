"""Risk once more, by direct summation and by counting. Imports nothing from keyhole."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from .model import Draw, Model, draw_answers, draw_index, draw_restaurant, log_seating_weight, set_partitions


def plain_cell_probability(draw: Draw, model: Model, cell: Sequence[int]) -> float:
    """P(c) = sum over set partitions of V(J, blocks) prod (|B| - 1)! phi(B)."""
    width = len(model.levels)
    total = 0.0
    for partition in set_partitions(range(width)):
        term = math.exp(log_seating_weight(width, len(partition), draw.hyper, model.finite))
        for block in partition:
            term *= math.factorial(len(block) - 1) * block_probability(draw, cell, block)
        total += term
    return total


def block_probability(draw: Draw, cell: Sequence[int], block: Sequence[int]) -> float:
    """phi(B): probability that one table with these variables gives the categories of the cell."""
    known = sum(
        weight * math.prod(float(theta[j][cell[j]]) for j in block)
        for weight, theta in zip(draw.weight, draw.theta, strict=True)
    )
    new = draw.remainder * math.prod(float(draw.hyper.base[j][cell[j]]) for j in block)
    return known + new


def unique_probability(q: float, others: int) -> float:
    """r1: none of the others is in the cell."""
    return float(binom.pmf(0, others, q))


def match_probability(q: float, others: int) -> float:
    """r2 = E 1 / (1 + Binomial(others, q)), summed term by term."""
    counts = np.arange(others + 1)
    return float(np.sum(binom.pmf(counts, others, q) / (1.0 + counts)))


def draw_people(rng: np.random.Generator, draw: Draw, model: Model, total: int) -> list[tuple[int, ...]]:
    """Draw people one by one; a label on the remainder draws each of its answers from the base measure.

    That is right for one person at a time (marginal law); keep the remainder negligible for several.
    """
    width = len(model.levels)
    people = []
    theta = [*draw.theta, draw.hyper.base]
    for _ in range(total):
        a, b = draw.hyper.record
        concentration = draw.hyper.alpha if model.finite else rng.gamma(a, 1.0 / b)
        blocks = draw_restaurant(rng, width, concentration)
        tables = [(draw_index(rng, [*draw.weight, draw.remainder]), tuple(block)) for block in blocks]
        people.append(tuple(draw_answers(rng, tables, theta, width)))
    return people


def sample_uniques(people: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Cells held by exactly one person."""
    return [cell for cell, count in Counter(people).items() if count == 1]


def count_population_uniques(sample: Sequence[tuple[int, ...]], others: Sequence[tuple[int, ...]]) -> int:
    """tau1 of a known population: sample uniques that nobody else shares."""
    elsewhere = set(others)
    return sum(cell not in elsewhere for cell in sample_uniques(sample))


def count_expected_matches(sample: Sequence[tuple[int, ...]], others: Sequence[tuple[int, ...]]) -> float:
    """tau2 of a known population: sum of 1 / F_c over the sample uniques."""
    elsewhere = Counter(others)
    return sum(1.0 / (1 + elsewhere[cell]) for cell in sample_uniques(sample))


def simulate_file_risk(
    rng: np.random.Generator, q: NDArray[np.float64], others: int, rounds: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """tau1 and tau2 for given probabilities of the sample-unique cells, by simulating everybody else."""
    first, second = np.empty(rounds), np.empty(rounds)
    for r in range(rounds):
        counts = rng.multinomial(others, [*q, 1.0 - q.sum()])[:-1]
        first[r] = np.sum(counts == 0)
        second[r] = np.sum(1.0 / (1 + counts))
    return first, second
