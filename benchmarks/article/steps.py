"""Steps 1 to 6 as printed in section 3.2.1 of the article, one function each. They change the state in place.

Where the print is in doubt, the reading kindest to it is taken, and said. Its errors are kept: step 1 breaks the
opener's own weights like everybody's and keeps the rows of a profile that has just lost its last answer, step 2 takes
alpha_0 g_0k for alpha_i g_0k, and step 6 redraws the concentrations after the weights that depend on them.
Beside each stands what would be right; joint.py shows the difference.
"""

import numpy as np

from benchmarks.article.state import (
    A,
    B,
    Floats,
    Integers,
    State,
    count_seats,
    draw_dirichlet,
    draw_rows,
    draw_tables,
)


def step_1(rng: np.random.Generator, state: State) -> None:
    """Sample Z_ij, one after the other: profile k with weight g_ik theta_kj(x), a new one with g_i0 / n_j.

    Answers between two openings are independent given the weights, so they are drawn together.
    """
    n, variables = state.x.shape
    for j in range(variables):
        first = 0
        while first < n:
            weight = state.g[first:] * state.theta[j][:, state.x[first:, j]].T
            chosen = draw_rows(rng, np.cumsum(weight, axis=1))
            opener = np.flatnonzero(chosen == 0)
            last = len(chosen) if not len(opener) else int(opener[0])
            state.z[first : first + last, j] = chosen[:last]
            first += last
            if first < n:
                state.z[first, j] = open_profile(rng, state, j, int(state.x[first, j]), None)
                first += 1
    drop_empty(state)


def step_1_repaired(rng: np.random.Generator, state: State, forget: bool = True) -> None:
    """The same, right: a profile is forgotten before its last answer is redrawn, and the opener's weights know it.

    forget=False repairs the opener's weights only.
    """
    for i, j in np.ndindex(state.z.shape):
        k = state.z[i, j]
        if forget and np.sum(state.z == k) == 1:
            state.z[i, j] = 0
            drop_empty(state)
        weight = state.g[i] * state.theta[j][:, state.x[i, j]]
        chosen = int(draw_rows(rng, np.cumsum(weight)[None])[0])
        state.z[i, j] = chosen or open_profile(rng, state, j, int(state.x[i, j]), i)
    drop_empty(state)


def open_profile(rng: np.random.Generator, state: State, j: int, x: int, opener: int | None) -> int:
    """Break the remainders for a new profile and draw its rows given the answer that opened it; return its number.

    As printed, nu_i ~ Beta(alpha_i g_00 nu_0, alpha_i g_00 (1 - nu_0)) for every record. The opener's answer is a draw
    from its own remainder, so its second parameter should be one larger; `opener` names the record to do so.
    """
    nu0 = rng.beta(state.alpha0, 1.0)
    shape = state.alpha * state.g0[0]
    more = np.zeros(len(shape))
    if opener is not None:
        more[opener] = 1.0
    left = draw_dirichlet(rng, np.column_stack([shape * nu0, shape * (1.0 - nu0) + more]))
    state.g = np.column_stack([state.g, state.g[:, 0] * left[:, 1]])
    state.g[:, 0] *= left[:, 0]
    state.g0 = np.append(state.g0, state.g0[0] * (1.0 - nu0))
    state.g0[0] *= nu0
    for variable, d in enumerate(state.levels):
        row = draw_dirichlet(rng, 1.0 + ((np.arange(d) == x) & (variable == j)))
        state.theta[variable] = np.vstack([state.theta[variable], row])
    if state.imputed is not None and state.imputed.answers is not None and state.imputed.tables is not None:
        state.imputed.answers = [np.vstack([count, np.zeros(count.shape[1])]) for count in state.imputed.answers]
        state.imputed.tables = np.append(state.imputed.tables, 0.0)
    return state.profiles


def drop_empty(state: State) -> None:
    """Keep the profiles to which an answer is assigned; the others go back to the remainder."""
    used = np.zeros(state.profiles + 1, np.bool_)
    used[0] = True
    used[np.unique(state.z)] = True
    if state.imputed is not None:
        used[np.unique(state.imputed.z)] = True
    number = np.cumsum(used) - 1
    state.z = number[state.z]
    if state.imputed is not None:
        state.imputed.z = number[state.imputed.z]
        if state.imputed.answers is not None:
            state.imputed.answers = [count[used[1:]] for count in state.imputed.answers]
        if state.imputed.tables is not None:
            state.imputed.tables = state.imputed.tables[used]
    state.g0[0] += state.g0[~used].sum()
    state.g[:, 0] += state.g[:, ~used].sum(axis=1)
    state.g0, state.g = state.g0[used], state.g[:, used]
    state.theta = [theta[used] for theta in state.theta]


def step_2(rng: np.random.Generator, state: State, repaired: bool = False) -> None:
    """Sample m_ik: tables of a Chinese restaurant with n_i.k customers and, as printed, concentration alpha_0 g_0k.

    The full conditional has alpha_i g_0k.
    """
    alpha: Floats | float = state.alpha[:, None] if repaired else state.alpha0
    state.m = draw_tables(rng, count_seats(state.z, state.profiles), alpha * state.g0[None, :])


def total_tables(rng: np.random.Generator, state: State) -> Floats:
    """m_.k over records and imputed people, column 0 those of profiles not seen (the fast approximation's m_.0)."""
    total = state.m.sum(axis=0).astype(np.float64)
    if state.imputed is None:
        return total
    if state.imputed.tables is not None:
        return np.asarray(total + state.imputed.tables, np.float64)
    seats = count_seats(state.imputed.z, state.profiles)
    return np.asarray(total + draw_tables(rng, seats, state.alpha0 * state.g0[None, :]).sum(axis=0), np.float64)


def step_3(rng: np.random.Generator, state: State, total: Floats) -> None:
    """Sample (g_0k) ~ Dir(alpha_0, m_.1, ..., m_.K); the fast approximation adds m_.0 to alpha_0."""
    shape = total.copy()
    shape[0] += state.alpha0
    state.g0 = draw_dirichlet(rng, shape)


def step_4(rng: np.random.Generator, state: State) -> None:
    """Sample (g_ik) ~ Dir(alpha_i g_00, alpha_i g_01 + n_i.1, ...)."""
    state.g = draw_dirichlet(rng, state.alpha[:, None] * state.g0 + count_seats(state.z, state.profiles))


def count_answers(x: Integers, z: Integers, levels: tuple[int, ...], profiles: int) -> list[Floats]:
    """Answers by variable, profile and category."""
    counts = []
    for j, d in enumerate(levels):
        count = np.zeros((profiles + 1, d))
        np.add.at(count, (z[:, j], x[:, j]), 1.0)
        counts.append(count[1:])
    return counts


def step_5(rng: np.random.Generator, state: State) -> None:
    """Sample theta_kj ~ Dir(1 + counts), imputed people among the counts."""
    counts = count_answers(state.x, state.z, state.levels, state.profiles)
    if state.imputed is not None:
        more = state.imputed.answers
        if more is None:
            more = count_answers(state.imputed.x, state.imputed.z, state.levels, state.profiles)
        counts = [count + extra for count, extra in zip(counts, more, strict=True)]
    for j, count in enumerate(counts):
        state.theta[j] = np.vstack([state.theta[j][:1], draw_dirichlet(rng, 1.0 + count)])


def step_6(rng: np.random.Generator, state: State, total: Floats) -> None:
    """Sample alpha_0 and alpha_i by the augmentation of Teh et al. (2006)."""
    tables = float(total.sum())
    eta0 = rng.beta(state.alpha0 + 1.0, tables)
    rate0 = B - np.log(eta0)
    s0 = rng.random() < tables * rate0 / (state.profiles + A - 1.0 + tables * rate0)
    state.alpha0 = float(rng.gamma(A + state.profiles - s0) / rate0)
    variables = state.x.shape[1]
    own = state.m.sum(axis=1)
    eta = rng.beta(state.alpha + 1.0, variables)
    rate = B - np.log(eta)
    s = rng.random(len(own)) < variables * rate / (own + A - 1.0 + variables * rate)
    state.alpha = rng.gamma(A + own - s) / rate


def run_sweep(rng: np.random.Generator, state: State, repaired: bool = False) -> None:
    """Steps 1 to 6 in the printed order; repaired: right ones, and 6 before 3 and 4."""
    (step_1_repaired if repaired else step_1)(rng, state)
    step_2(rng, state, repaired)
    total = total_tables(rng, state)
    if repaired:
        step_6(rng, state, total)
    step_3(rng, state, total)
    step_4(rng, state)
    step_5(rng, state)
    if not repaired:
        step_6(rng, state, total)
