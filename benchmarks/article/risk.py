"""tau1 as the article estimates it in each sweep: by Monte Carlo (with zeros too) or by simulated people."""

import numpy as np

from benchmarks.article.state import Floats, Integers, State, draw_rows
from benchmarks.article.zeros import draw_weights


def find_uniques(x: Integers) -> Integers:
    """The cells of the sample uniques, (uniques, J)."""
    cells, count = np.unique(x, axis=0, return_counts=True)
    return np.asarray(cells[count == 1], np.int64)


def cell_probabilities(rng: np.random.Generator, state: State, cells: Integers, draws: int) -> Floats:
    """P(X_{n+1} = c) by T draws of (g_t), the same for all cells."""
    g = draw_weights(rng, state, draws)
    value = np.ones((draws, len(cells)))
    for j, theta in enumerate(state.theta):
        value *= (g @ theta)[:, cells[:, j]]
    return np.asarray(value.mean(axis=0), np.float64)


def estimate(state: State, chance: Floats, others: int) -> tuple[float, float]:
    """tau1 by the article's formula and tau2 in its spirit: with zeros, (N - n) / (1 - p_0) further people.

    tau2 is not in the article; E 1 / (1 + Binomial(M, P)) has the closed form used here for its own M.
    """
    if state.imputed is not None:
        others = int(others / max(1.0 - float(state.imputed.p.sum()), 1e-9))
    chance = np.clip(chance, 1e-300, 1.0 - 1e-15)
    log_none = np.log1p(-chance)
    tau1 = np.exp(others * log_none).sum()
    tau2 = (-np.expm1((others + 1) * log_none) / ((others + 1) * chance)).sum()
    return float(tau1), float(tau2)


def simulate_tau1(rng: np.random.Generator, state: State, cells: Integers, others: int) -> int:
    """The article's population sampling: draw everybody else, count the sample uniques that nobody shares."""
    g = draw_weights(rng, state, others)
    cumulated = np.cumsum(g, axis=1)
    people = np.zeros((others, len(state.levels)), np.int64)
    for j, theta in enumerate(state.theta):
        # A profile not seen has the mean row here, as in the Monte Carlo formula.
        people[:, j] = draw_rows(rng, np.cumsum(theta[draw_rows(rng, cumulated)], axis=1))
    base = np.cumprod([1, *state.levels[:-1]])
    return int(np.sum(~np.isin(cells @ base, people @ base)))
