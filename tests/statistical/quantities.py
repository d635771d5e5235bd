"""What is compared: numbers that do not depend on the names of profiles or tables."""

import math

import numpy as np
from numpy.typing import NDArray

from tests.oracle.model import set_partitions
from tests.statistical.compiled import compiled
from tests.statistical.prior_pool import Pool, one_state

NAMES = (
    "profiles",
    "log mean concentration",
    "log shape of concentrations",
    "tables",
    "log gamma",
    "log remainder",
    "sum of squared weights",
    "pairs within records",
    "pairs across records",
    "collapsed log likelihood",
    "log likelihood given profiles",
    "log probability of the first cell",
    "first and last answer share a profile",
    "log lambda of variable 1",
    "log pi of the answers",
    "augmented people",
    # Joint quantities: two right margins can hide a wrong joint law.
    "log gamma x log remainder",
    "log mean concentration x pairs within",
    "log gamma x profiles",
    "log mean concentration x log gamma",
    "log mean concentration x tables",
    "log lambda x pairs of equal answers",
    "log lambda x log remainder",
    "log pi x log likelihood given profiles",
    "log density of a profile's first row given lambda and pi",
    "layout of the first answer's row",
    "log strength of the last node of that row",
    "layout x log density",
)


def growth_strings(width: int) -> NDArray[np.int64]:
    """All set partitions of the variables, each as the block number of every variable."""
    rows = []
    for partition in set_partitions(range(width)):
        row = [0] * width
        for b, block in enumerate(partition):
            for j in block:
                row[j] = b
        rows.append(row)
    return np.array(rows, dtype=np.int64)


@compiled
def find_edges(trees, state, u):
    """Edges of a node and the shapes of their Dirichlet."""
    edges = range(trees.edge_start[u], trees.edge_start[u + 1])
    shape = np.empty(len(edges))
    for c, e in enumerate(edges):
        shape[c] = state.base_level[trees.edge_first[e] : trees.edge_last[e]].sum()
    return edges, shape * (state.base_strength[trees.node_strength[u]] / shape.sum())


@compiled
def log_likelihoods(trees, start, state, count, level):
    """Dirichlet-multinomial likelihood of all answers, and their likelihood given theta."""
    collapsed = 0.0
    for k in range(state.profile_total[0]):
        for j in range(len(start) - 1):
            own = trees.layout_start[j] + state.layout[j, k]
            for u in range(trees.node_start[own], trees.node_start[own + 1]):
                edges, shape = find_edges(trees, state, u)
                total = 0
                for c, e in enumerate(edges):
                    answers = count[trees.edge_first[e] : trees.edge_last[e], k].sum()
                    for x in range(answers):
                        collapsed += math.log(shape[c] + x)
                    total += answers
                for x in range(total):
                    collapsed -= math.log(state.base_strength[trees.node_strength[u]] + x)
    given = 0.0
    for i in range(level.shape[0]):
        for j in range(level.shape[1]):
            theta = state.level_profile[level[i, j], state.table_label[i, state.seat[i, j]]]
            given += math.log(max(theta, 1e-300))
    return collapsed, given


@compiled
def log_cell_probability(state, cell, partitions):
    """Log P(c), summed over all set partitions."""
    total = 0.0
    width = len(cell)
    for p in range(len(partitions)):
        blocks = partitions[p].max() + 1
        term = state.eppf[width, blocks]
        for b in range(blocks):
            size = 0
            for j in range(width):
                size += partitions[p, j] == b
            for s in range(1, size):
                term *= s
            phi = 0.0
            for k in range(state.profile_total[0] + 1):
                last = k == state.profile_total[0]
                product = state.remainder[0] if last else state.weight[k]
                for j in range(width):
                    if partitions[p, j] == b:
                        product *= state.base_level[cell[j]] if last else state.level_profile[cell[j], k]
                phi += product
            term *= phi
        total += term
    return math.log(max(total, 1e-300))  # a level of probability 0 in every profile of `mixed`


@compiled
def log_row_density(trees, state, k):
    """Log density of the splits of the first row of profile k: strengths, layout and theta must fit.

    The mass of a node that gets none says nothing about its split.
    """
    value = 0.0
    own = trees.layout_start[0] + state.layout[0, k]
    for u in range(trees.node_start[own], trees.node_start[own + 1]):
        edges, shape = find_edges(trees, state, u)
        mass = np.empty(len(edges))
        for c, e in enumerate(edges):
            mass[c] = state.level_profile[trees.edge_first[e] : trees.edge_last[e], k].sum()
        if mass.sum() < 1e-200:
            continue
        value += math.lgamma(shape.sum())
        for c in range(len(edges)):
            value += (shape[c] - 1.0) * math.log(max(mass[c] / mass.sum(), 1e-300)) - math.lgamma(shape[c])
    return value


@compiled
def measure(prior, start, state, level, partitions, cell, out):
    """Write all quantities of one state to `out`; counts are made here, from the seating."""
    n, width = level.shape
    used = state.profile_total[0]
    tables = np.zeros(used, dtype=np.int64)
    count = np.zeros((start[-1], used), dtype=np.int64)
    table_total = 0
    pairs_within = 0
    labels = np.empty((n, width), dtype=np.int64)
    equal_answers = 0
    log_pi = 0.0
    for i in range(n):
        table_total += state.table_total[i]
        for t in range(state.table_total[i]):
            tables[state.table_label[i, t]] += 1
        for j in range(width):
            labels[i, j] = state.table_label[i, state.seat[i, j]]
            count[level[i, j], labels[i, j]] += 1
            log_pi += math.log(state.base_level[level[i, j]])
            for other in range(j):
                pairs_within += labels[i, j] == labels[i, other]
        for other in range(i):
            equal_answers += level[i, 0] == level[other, 0]
    pairs = 0
    occupied = 0
    squares = 0.0
    # A profile that lost its last table belongs to the unseen ones again.
    remainder = state.remainder[0]
    for k in range(used):
        size = count[:, k].sum()
        pairs += size * (size - 1) // 2
        if tables[k] > 0:
            occupied += 1
        if tables[k] > 0 or prior.finite:
            squares += state.weight[k] ** 2
        else:
            remainder += state.weight[k]
    log_mean = math.log(state.shared_concentration[0])
    log_shape = 0.0
    log_gamma = 0.0
    log_remainder = math.log(state.weight[labels[0, 0]])
    if not prior.finite:
        log_mean = math.log(state.record_concentration[0] / state.record_concentration[1])
        log_shape = math.log(state.record_concentration[0])
        log_gamma = math.log(state.weight_concentration[0])
        log_remainder = math.log(max(remainder, 1e-300))
    collapsed, given = log_likelihoods(prior.trees, start, state, count, level)
    log_strength = math.log(state.base_strength[0])
    out[0] = occupied
    out[1] = log_mean
    out[2] = log_shape
    out[3] = table_total
    out[4] = log_gamma
    out[5] = log_remainder
    out[6] = squares
    out[7] = pairs_within
    out[8] = pairs - pairs_within
    out[9] = collapsed
    out[10] = given
    out[11] = log_cell_probability(state, cell, partitions)
    out[12] = labels[0, 0] == labels[n - 1, width - 1]
    out[13] = log_strength
    out[14] = log_pi
    out[15] = state.augmented_total[0]
    out[16] = log_gamma * log_remainder
    out[17] = log_mean * pairs_within
    out[18] = log_gamma * occupied
    out[19] = log_mean * log_gamma
    out[20] = log_mean * table_total
    out[21] = log_strength * equal_answers
    out[22] = log_strength * log_remainder
    out[23] = log_pi * given
    out[24] = log_row_density(prior.trees, state, labels[0, 0])
    own = prior.trees.layout_start[0] + state.layout[0, labels[0, 0]]
    out[25] = state.layout[0, labels[0, 0]]
    out[26] = math.log(state.base_strength[prior.trees.node_strength[prior.trees.node_start[own + 1] - 1]])
    out[27] = out[25] * out[24]


@compiled
def measure_all(prior, pool, partitions, cell, out):
    """Measure every replicate."""
    for r in range(len(pool.level)):
        state = one_state(pool.state, r)
        measure(prior, pool.level_start, state, pool.level[r], partitions, cell, out[r])


def measure_pool(prior, pool: Pool) -> NDArray[np.float64]:
    """Quantities of every replicate, (R, quantities); the fixed cell has the first category everywhere."""
    out = np.empty((len(pool.level), len(NAMES)))
    measure_all(prior, pool, growth_strings(pool.level.shape[2]), pool.level_start[:-1], out)
    return out
