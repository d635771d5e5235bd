"""Steps 7 to 9 as printed (section 4.1), the fast approximation of step 9 (appendix), and their full sweep.

A marginal condition fixes some variables to one category each: {variable: category}. Conditions are disjoint.
New people's weights (g_t) come from Dir(alpha g_0): the print gives them no alpha; the model's is Gamma(a, b).
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from scipy.special import digamma

from benchmarks.article.state import A, B, Floats, Imputed, Integers, State, draw_dirichlet, draw_rows
from benchmarks.article.steps import count_answers, open_profile, run_sweep

Condition = dict[int, int]
MONTE_CARLO = 500
"""T, as in the article's code."""


def draw_weights(rng: np.random.Generator, state: State, draws: int) -> Floats:
    """(g_t) of people not seen: (draws, K + 1)."""
    alpha = rng.gamma(A, size=draws) / B
    return draw_dirichlet(rng, alpha[:, None] * state.g0)


def step_7(rng: np.random.Generator, state: State, conditions: Sequence[Condition], draws: int = MONTE_CARLO) -> Floats:
    """Compute (p_1, ..., p_C) by Monte Carlo."""
    g = draw_weights(rng, state, draws)
    answer = [g @ theta for theta in state.theta]
    p = [np.prod([answer[j][:, x] for j, x in condition.items()], axis=0).mean() for condition in conditions]
    return np.array(p)


def step_8(rng: np.random.Generator, state: State, p: Floats) -> Integers:
    """Draw (n_1, ..., n_C) ~ NegativeMultinomial(n; p)."""
    p0 = min(float(p.sum()), 1.0 - 1e-9)
    rate = rng.gamma(len(state.x)) * p0 / (1.0 - p0)
    return np.asarray(rng.poisson(rate * p / max(float(p.sum()), 1e-300)), np.int64)


def step_9(rng: np.random.Generator, state: State, conditions: Sequence[Condition], count: Integers) -> None:
    """Draw the imputed people one by one: weights from their prior, then profiles and answers.

    The weights should be drawn given that the person fell into the condition; as printed they are not.
    """
    variables = len(state.levels)
    people = int(count.sum())
    found = Imputed(np.zeros((people, variables), np.int64), np.zeros((people, variables), np.int64))
    state.imputed = found
    i = 0
    for condition, total in zip(conditions, count, strict=True):
        for _ in range(total):
            share, alpha = draw_person_weights(rng, state)
            for j in range(variables):
                fixed = condition.get(j)
                weight = share if fixed is None else share * state.theta[j][:, fixed]
                k = int(draw_rows(rng, np.cumsum(weight)[None])[0])
                x = fixed
                if k == 0:
                    if x is None:
                        x = int(rng.integers(state.levels[j]))
                    k, share = open_for_imputed(rng, state, j, x, share, alpha)
                elif x is None:
                    x = int(draw_rows(rng, np.cumsum(state.theta[j][k])[None])[0])
                found.x[i, j], found.z[i, j] = x, k
            i += 1


def draw_person_weights(rng: np.random.Generator, state: State) -> tuple[Floats, float]:
    """(g_i) and alpha of one person not seen."""
    alpha = float(rng.gamma(A) / B)
    return draw_dirichlet(rng, alpha * state.g0), alpha


def open_for_imputed(
    rng: np.random.Generator, state: State, j: int, x: int, share: Floats, alpha: float
) -> tuple[int, Floats]:
    """Open a profile for an imputed answer; its own weights are broken as printed in step 1."""
    rest = alpha * state.g0[0]
    k = open_profile(rng, state, j, x, None)
    left = draw_dirichlet(rng, rest * np.array([state.g0[0], state.g0[k]]) / (state.g0[0] + state.g0[k]))
    share = np.append(share, share[0] * left[1])
    share[0] *= left[0]
    return k, share


def fast_step_9(
    rng: np.random.Generator,
    state: State,
    conditions: Sequence[Condition],
    count: Integers,
    draws: int = MONTE_CARLO,
) -> None:
    """Put expectations in the place of the imputed people: counts of answers, and tables by profile.

    The sum of the article's last formula runs to a number of answers that is no whole number; it is continued by
    digamma functions, which agree at whole numbers.
    """
    g = draw_weights(rng, state, draws)
    answers = [np.zeros((state.profiles + 1, d)) for d in state.levels]
    seats = [share_answers(g, theta) for theta in state.theta]
    tables = np.zeros(state.profiles + 1)
    concentration = state.alpha0 * state.g0
    for condition, total in zip(conditions, count, strict=True):
        customers = np.zeros_like(g)
        for j, d in enumerate(state.levels):
            if j in condition:
                customers += seats[j][condition[j]]
                answers[j][:, condition[j]] += total / d * seats[j][condition[j]].mean(axis=0)
            else:
                customers += g
                answers[j] += total / d * np.array([seat.mean(axis=0) for seat in seats[j]]).T
        opened = concentration * (digamma(concentration + customers) - digamma(concentration))
        tables += total * opened.mean(axis=0)
    nobody = np.zeros((0, len(state.levels)), np.int64)
    state.imputed = Imputed(nobody, nobody.copy(), [count[1:] for count in answers], tables)


def share_answers(g: Floats, theta: Floats) -> list[Floats]:
    """P(Z = k | X = x) under each (g_t): for each category an array (draws, K + 1)."""
    found = []
    for x in range(theta.shape[1]):
        weight = g * theta[:, x]
        found.append(weight / np.maximum(weight.sum(axis=1, keepdims=True), 1e-300))
    return found


def run_sweep_with_zeros(
    rng: np.random.Generator, state: State, conditions: Sequence[Condition], fast: bool, draws: int = MONTE_CARLO
) -> None:
    """Steps 1 to 9 in the printed order, starting with 7 to 9 so that there are imputed people to begin with."""
    p = step_7(rng, state, conditions, draws)
    count = step_8(rng, state, p)
    if fast:
        fast_step_9(rng, state, conditions, count, draws)
    else:
        step_9(rng, state, conditions, count)
    assert state.imputed is not None
    state.imputed.p = p
    run_sweep(rng, state)


def expand_boxes(impossible: Any, levels: Sequence[int]) -> Iterator[Condition]:
    """Write keyhole's disjoint boxes, which confine variables to sets, as conditions with one category each."""
    start = np.concatenate([[0], np.cumsum(levels)])
    for box in impossible:
        sets = {}
        for j, d in enumerate(levels):
            inside = np.flatnonzero(box[start[j] : start[j + 1]])
            if len(inside) < d:
                sets[j] = inside.tolist()
        for cell in product(*sets.values()):
            yield dict(zip(sets, cell, strict=True))


def imputed_counts(state: State) -> list[Floats]:
    """Answers of the imputed people by variable, profile and category, whichever step 9 made them."""
    assert state.imputed is not None
    if state.imputed.answers is not None:
        return state.imputed.answers
    return count_answers(state.imputed.x, state.imputed.z, state.levels, state.profiles)
