"""Stratified samples by weighting draws from the prior of `classes`. Imports nothing from keyhole.

A draw from the prior is hyperparameters, weights w (sticks, broken STICKS times) and profiles theta. Its weight is

    the joint likelihood of keys and stratum,   prod_i P(x_i, s_i),
    or the conditional likelihood of the keys,  prod_i P(x_i | s_i) = prod_i P(x_i, s_i) / P(s_i).

The second is the exact one for a sample drawn within strata; the first is what is fitted in its place. Means over
weighted draws need no sampler. The stratum is the last variable.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .risk import sample_uniques

Floats = NDArray[np.float64]
STICKS, BATCH = 40, 2_000


@dataclass(frozen=True)
class Weighed:
    """tau1 and tau2, (draw, 2), and log weights by the two likelihoods."""

    tau: Floats
    log_joint: Floats
    log_conditional: Floats

    def mean(self, log_weight: Floats) -> tuple[Floats, Floats]:
        """Weighted means of tau1 and tau2, and their Monte Carlo errors."""
        weight = np.exp(log_weight - log_weight.max())
        weight /= weight.sum()
        mean = weight @ self.tau
        return mean, np.sqrt((weight**2) @ (self.tau - mean) ** 2)


def draw_rows(rng: np.random.Generator, shape: Floats, count: int) -> Floats:
    """Dirichlet draws (batch, count, d) for shapes (batch, d), also very small ones."""
    shapes = np.repeat(shape[:, None, :], count, axis=1)
    logs = np.log(rng.standard_gamma(shapes + 1.0)) + np.log1p(-rng.random(shapes.shape)) / shapes
    rows = np.exp(logs - logs.max(axis=2, keepdims=True))
    return np.asarray(rows / rows.sum(axis=2, keepdims=True))


def draw_tables(rng: np.random.Generator, levels: Sequence[int]) -> Floats:
    """The probabilities of all cells, (batch, cells), under draws from the prior; cells in lexicographic order."""
    gamma = rng.gamma(2.0, size=BATCH)
    stick = rng.beta(1.0, gamma[:, None], (BATCH, STICKS))
    stick[:, -1] = 1.0
    weight = stick * np.cumprod(np.concatenate([np.ones((BATCH, 1)), 1.0 - stick[:, :-1]], axis=1), axis=1)
    joint = weight[:, :, None]
    for d in levels:
        strength = d * np.exp(1.5 * rng.standard_normal(BATCH))
        base = rng.dirichlet(np.ones(d), BATCH)
        rows = draw_rows(rng, strength[:, None] * base, STICKS)
        joint = (joint[:, :, :, None] * rows[:, :, None, :]).reshape(BATCH, STICKS, -1)
    return np.asarray(joint.sum(axis=1))


def expected_inverse(q: Floats, unseen: Sequence[int]) -> Floats:
    """E 1/(1 + sum of Binomial(M_s, q_s)): the integral of a polynomial; q: (batch, S)."""
    node, share = np.polynomial.legendre.leggauss(sum(unseen) // 2 + 1)
    node, share = 0.5 * (node + 1.0), 0.5 * share
    none = np.ones((len(q), len(node)))
    for s, people in enumerate(unseen):
        none *= (1.0 - (1.0 - node)[None, :] * q[:, s, None]) ** people
    return none @ share


def weigh_prior(
    rng: np.random.Generator, data: Sequence[tuple[int, ...]], levels: Sequence[int], unseen: Sequence[int], draws: int
) -> Weighed:
    """Weigh draws from the prior by the records; risks are those of the cells of keys with one record."""
    place = {cell: x for x, cell in enumerate(itertools.product(*map(range, levels)))}
    strata, keys = levels[-1], int(np.prod(levels[:-1]))
    of_key = {cell: x for x, cell in enumerate(itertools.product(*map(range, levels[:-1])))}
    alone = [of_key[cell] for cell in sample_uniques([record[:-1] for record in data])]
    tau, joint, conditional = [], [], []
    for _ in range(draws // BATCH):
        table = draw_tables(rng, levels)
        within = table.reshape(BATCH, keys, strata)
        mass = within.sum(axis=1)
        with np.errstate(divide="ignore"):
            log_joint = np.log(table[:, [place[record] for record in data]]).sum(axis=1)
            log_strata = np.log(mass[:, [record[-1] for record in data]]).sum(axis=1)
        kept = np.isfinite(log_joint)
        q = within[kept] / mass[kept][:, None, :]
        taus = np.zeros((int(kept.sum()), 2))
        for cell in alone:
            taus[:, 0] += np.prod((1.0 - q[:, cell]) ** np.asarray(unseen), axis=1)
            taus[:, 1] += expected_inverse(q[:, cell], unseen)
        tau.append(taus)
        joint.append(log_joint[kept])
        conditional.append(log_joint[kept] - log_strata[kept])
    return Weighed(np.concatenate(tau), np.concatenate(joint), np.concatenate(conditional))
