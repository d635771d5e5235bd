"""Many independent draws of (parameters, seating, data) from the prior, laid out for the kernels.

The law is that of tests/oracle/model.py (test_oracle.py compares the two); this copy is compiled. It
shares the layout of State with keyhole, and no code. A pool is a State whose arrays have one more,
leading axis, over replicates, and the data that belong to it.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.kernels.state import Prior, Records, State, Trees, no_rules
from tests.statistical.compiled import compiled


class Pool(NamedTuple):
    """Replicates of State, their data `level` (R, n, J) int32, and level_start (J + 1,)."""

    state: State
    level: NDArray[np.int32]
    level_start: NDArray[np.int64]


ORDERED = (
    [[(0, 1), (1, 5)], [(1, 2), (2, 5)], [(2, 4), (4, 5)], [(2, 3), (3, 4)]],
    [[(0, 1), (1, 5)], [(1, 3), (3, 5)], [(1, 2), (2, 3)], [(3, 4), (4, 5)]],
    [[(0, 1), (1, 5)], [(1, 4), (4, 5)], [(1, 3), (3, 4)], [(1, 2), (2, 3)]],
)
"""Layouts of a key of five levels, the first outside the order: nodes, each a list of edges (first level, one after the
last)."""


def make_trees(levels: list[int], ordered: bool) -> Trees:
    """Trees of flat keys, or of a first key with the layouts above."""
    layouts, layout_start, strength_start, strength, scale = [], [0], [0], [], []
    first = 0
    for j, size in enumerate(levels):
        chosen = ORDERED if ordered and j == 0 else ([[(x, x + 1) for x in range(size)]],)
        for nodes in chosen:
            layouts.append([[(first + a, first + b) for a, b in node] for node in nodes])
            for node in nodes:
                # One for the root, where a level outside hangs, one for 3 or 4 levels, one for 2.
                size_class = 0 if node[0][0] == 0 else 1 if node[-1][1] - node[0][0] > 2 else 2
                strength.append(len(scale) + (size_class if len(chosen) > 1 else 0))
        scale += [2.0, 2.0, 2.0] if len(chosen) > 1 else [float(size)]
        layout_start.append(len(layouts))
        strength_start.append(len(scale))
        first += size
    edges = [edge for nodes in layouts for node in nodes for edge in node]

    def whole(numbers: list[int]) -> NDArray[np.int64]:
        return np.array(numbers, dtype=np.int64)

    return Trees(
        whole(layout_start), whole(strength_start), whole([0, *np.cumsum([len(nodes) for nodes in layouts])]),
        whole([0, *np.cumsum([len(node) for nodes in layouts for node in nodes])]),
        whole([a for a, _ in edges]), whole([b for _, b in edges]), whole(strength), np.array(scale),
    )  # fmt: skip


def make_prior(finite: bool, adaptive: bool, levels: list[int], ordered: bool = False) -> Prior:
    """The priors of docs/model.md section 2, without structural zeros."""
    pair = np.array([2.0, 1.0])
    return Prior(finite, adaptive, pair, pair.copy(), 1.5, 2.0, 1.0, no_rules(), make_trees(levels, ordered))


def empty_pool(replicates: int, n: int, levels: tuple[int, ...], capacity: int, strengths: int | None = None) -> Pool:
    """Arrays of the right shapes and types, filled with zeros; as many strengths as keys unless given."""
    width, total = len(levels), sum(levels)

    def zeros(*shape: int, dtype: type = np.float64) -> NDArray:
        return np.zeros((replicates, *shape), dtype=dtype)

    state = State(
        seat=zeros(n, width, dtype=np.uint8),
        table_size=zeros(n, width, dtype=np.uint8),
        table_label=zeros(n, width, dtype=np.int32),
        table_total=zeros(n, dtype=np.int64),
        profile_total=zeros(1, dtype=np.int64),
        weight=zeros(capacity),
        remainder=zeros(1),
        level_profile=zeros(total, capacity),
        profile_tables=zeros(capacity, dtype=np.int64),
        level_count=zeros(total, capacity, dtype=np.int64),
        weight_concentration=zeros(1),
        record_concentration=zeros(2),
        shared_concentration=zeros(1),
        base_strength=zeros(strengths or width),
        base_level=zeros(total),
        layout=zeros(width, capacity, dtype=np.int64),
        eppf=zeros(width + 1, width + 2),
        augmented_total=zeros(1, dtype=np.int64),
        augmented_tables=zeros(width + 1, width + 1, dtype=np.int64),
    )
    level_start = np.concatenate([[0], np.cumsum(levels)]).astype(np.int64)
    return Pool(state, zeros(n, width, dtype=np.int32), level_start)


def copy_pool(pool: Pool) -> Pool:
    """A pool that can be changed without changing this one."""
    return Pool(State(*(field.copy() for field in pool.state)), pool.level, pool.level_start)


@compiled
def one_state(state, r):
    """Replicate r, as views."""
    return State(
        state.seat[r], state.table_size[r], state.table_label[r], state.table_total[r],
        state.profile_total[r], state.weight[r], state.remainder[r], state.level_profile[r],
        state.profile_tables[r], state.level_count[r], state.weight_concentration[r],
        state.record_concentration[r], state.shared_concentration[r], state.base_strength[r],
        state.base_level[r], state.layout[r], state.eppf[r], state.augmented_total[r], state.augmented_tables[r],
    )  # fmt: skip


@compiled
def one_records(pool, r):
    """Records of replicate r; the answers that it has are counted here."""
    level = pool.level[r]
    answer_total = np.zeros(level.shape[0], dtype=np.int64)
    for i in range(level.shape[0]):
        for j in range(level.shape[1]):
            answer_total[i] += level[i, j] >= 0
    return Records(level, answer_total, pool.level_start)


@compiled
def fill_dirichlet(rng, shape, out):
    """Dirichlet through log gammas, as in the oracle."""
    largest = -np.inf
    for x in range(len(shape)):
        out[x] = math.log(rng.standard_gamma(shape[x] + 1.0)) + math.log1p(-rng.random()) / shape[x]
        largest = max(largest, out[x])
    for x in range(len(shape)):
        out[x] = math.exp(out[x] - largest)
    out /= out.sum()


@compiled
def fill_hyperparameters(rng, prior, start, state):
    """gamma, alpha, (a, b), lambda_j, pi_j from their priors."""
    state.weight_concentration[0] = rng.standard_gamma(2.0)
    state.shared_concentration[0] = rng.standard_gamma(2.0)
    state.record_concentration[0] = 2.0
    state.record_concentration[1] = 1.0
    for s in range(len(prior.trees.strength_scale)):
        state.base_strength[s] = prior.trees.strength_scale[s]
        if prior.adaptive:
            state.base_strength[s] *= math.exp(1.5 * rng.standard_normal())
    for j in range(len(start) - 1):
        size = start[j + 1] - start[j]
        state.base_level[start[j] : start[j + 1]] = 1.0 / size
        if prior.adaptive:
            fill_dirichlet(rng, np.ones(size), state.base_level[start[j] : start[j + 1]])
    if prior.adaptive and not prior.finite:
        mean = math.exp(2.0 * rng.standard_normal())
        state.record_concentration[0] = math.exp(rng.standard_normal())
        state.record_concentration[1] = state.record_concentration[0] / mean


@compiled
def fill_tables(rng, prior, state):
    """Seat every record's answers in its own Chinese restaurant."""
    n, width = state.seat.shape
    state.table_size[:] = 0
    for i in range(n):
        if prior.finite:
            concentration = state.shared_concentration[0]
        else:
            concentration = rng.standard_gamma(state.record_concentration[0]) / state.record_concentration[1]
        m = 0
        for j in range(width):
            u = rng.random() * (concentration + j)
            t = 0
            while t < m and u >= state.table_size[i, t]:
                u -= state.table_size[i, t]
                t += 1
            state.seat[i, j] = t
            state.table_size[i, t] += 1
            m = max(m, t + 1)
        state.table_total[i] = m


@compiled
def fill_labels(rng, prior, profiles, state):
    """Label the tables: from beta in `mixed`, by the franchise in `hdp`, and beta given the labels there."""
    state.profile_tables[:] = 0
    used = 0
    if prior.finite:
        used = profiles
        fill_dirichlet(rng, np.ones(profiles), state.weight[:profiles])
    tables = 0
    for i in range(len(state.table_total)):
        for t in range(state.table_total[i]):
            k = 0
            if prior.finite:
                u = rng.random()
                while k < profiles - 1 and u >= state.weight[k]:
                    u -= state.weight[k]
                    k += 1
            else:
                u = rng.random() * (tables + state.weight_concentration[0])
                while k < used and u >= state.profile_tables[k]:
                    u -= state.profile_tables[k]
                    k += 1
                used = max(used, k + 1)
            state.table_label[i, t] = k
            state.profile_tables[k] += 1
            tables += 1
    state.profile_total[0] = used
    state.remainder[0] = 0.0
    if not prior.finite:
        fill_weights(rng, prior, state)


@compiled
def fill_weights(rng, prior, state):
    """beta given the labels: Dirichlet(m_1, ..., m_K, gamma), or Dirichlet(1 + m_k) in `mixed`."""
    used = state.profile_total[0]
    shape = np.empty(used + 1)
    for k in range(used):
        shape[k] = state.profile_tables[k] + (1.0 if prior.finite else 0.0)
    if prior.finite:
        fill_dirichlet(rng, shape[:used], state.weight[:used])
    else:
        shape[used] = state.weight_concentration[0]
        fill_dirichlet(rng, shape, shape)
        state.weight[:used] = shape[:used]
        state.remainder[0] = shape[used]


@compiled
def fill_profiles(rng, trees, start, state):
    """Layouts from their prior, and theta given level_count."""
    for k in range(state.profile_total[0]):
        for j in range(len(start) - 1):
            state.layout[j, k] = rng.integers(0, trees.layout_start[j + 1] - trees.layout_start[j])
    fill_rows(rng, trees, start, state)


@compiled
def fill_rows(rng, trees, start, state):
    """Draw theta given layouts and level_count: each node splits the mass that its parent gave it."""
    for k in range(state.profile_total[0]):
        for j in range(len(start) - 1):
            state.level_profile[start[j] : start[j + 1], k] = 1.0
            own = trees.layout_start[j] + state.layout[j, k]
            for u in range(trees.node_start[own], trees.node_start[own + 1]):
                edges = range(trees.edge_start[u], trees.edge_start[u + 1])
                shape = np.empty(len(edges))
                for c, e in enumerate(edges):
                    shape[c] = state.base_level[trees.edge_first[e] : trees.edge_last[e]].sum()
                shape *= state.base_strength[trees.node_strength[u]] / shape.sum()
                for c, e in enumerate(edges):
                    shape[c] += state.level_count[trees.edge_first[e] : trees.edge_last[e], k].sum()
                fill_dirichlet(rng, shape, shape)
                for c, e in enumerate(edges):
                    state.level_profile[trees.edge_first[e] : trees.edge_last[e], k] *= shape[c]


@compiled
def fill_answers(rng, start, state, level):
    """Draw every answer from the profile of its table, and count it."""
    for i in range(level.shape[0]):
        for j in range(level.shape[1]):
            k = state.table_label[i, state.seat[i, j]]
            u = rng.random()
            v = start[j]
            while v < start[j + 1] - 1 and u >= state.level_profile[v, k]:
                u -= state.level_profile[v, k]
                v += 1
            level[i, j] = v
            state.level_count[v, k] += 1


@compiled
def fill_pool(rng, prior, profiles, pool):
    """Fill every replicate by an independent draw from the prior; `seating` is left to the caller."""
    for r in range(len(pool.level)):
        state = one_state(pool.state, r)
        state.level_count[:] = 0
        fill_hyperparameters(rng, prior, pool.level_start, state)
        fill_tables(rng, prior, state)
        fill_labels(rng, prior, profiles, state)
        fill_profiles(rng, prior.trees, pool.level_start, state)
        fill_answers(rng, pool.level_start, state, pool.level[r])
