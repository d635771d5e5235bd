"""Rows of the profiles as trees, and the base distribution H (docs/model.md section 13).

A row of a key is a tree of nodes with children. A node u splits its mass among its edges c, each a range of levels:
    split_u ~ Dirichlet(s_u b_u),   b_uc = pi(levels of c) / pi(levels of u),
theta_x is the product of the splits on the path to x, so E theta = pi. An unordered key has one layout, one node whose
edges are its levels: theta_j ~ Dirichlet(lambda_j pi_j). An ordered key has several layouts, binary trees over its
order, and each profile a layout z of its own, uniform; nodes of similar size share a strength s.

Given the counts N_kc of the edges, rows integrated out, every node is Dirichlet-multinomial:
    prod_u Gamma(s_u) / Gamma(s_u + N_ku) prod_c Gamma(s_u b_uc + N_kc) / Gamma(s_u b_uc).
z: Metropolis, another layout with the ratio of these products.
L_uc, the number of tables of Chinese restaurants with N_kc customers and concentration s_u b_uc, and
t_ku = Gamma(N_ku) / Gamma(s_u) leave prod s_u^L_uc exp(-s_u log(1 + t_ku)) prod (pi_c / pi_u)^L_uc:
s: proposed from Gamma(sum L, sum log(1 + t)), accepted by its prior, log(s / scale) ~ Normal(0, strength_sd^2);
    before that, a Metropolis step on log s with the ratio of the products above;
pi: g = G pi, G ~ Gamma(d_j + L of the roots); v_u ~ Gamma(sum_c L_uc, rate g_u) for every node but the roots; the L_uc
    are spread over the levels of c in proportion to g, as counts n_x; then g_x ~ Gamma(1 + n_x, rate 1 + sum of v_u
    over the nodes above x), and pi = g / sum g.
Then every node of a row is Dirichlet(s_u b_uc + N_kc).
"""

import math

import numpy as np

from keyhole.kernels.distributions import draw_log_gamma, draw_multinomial, draw_table_count, log_rising
from keyhole.kernels.jit import allocating, inner

STEP = 1.0
"""Standard deviation of the steps of log s. They matter where rows are hardly further from pi than chance has it: the
tables then follow s, and s the tables, in steps of one over the root of the counts."""


@inner
def fill_shapes(trees, j, strength, base_level, shape):
    """Fill s_u b_uc of every edge of key j, under all its layouts."""
    for layout in range(trees.layout_start[j], trees.layout_start[j + 1]):
        root = trees.node_start[layout]
        for u in range(root, trees.node_start[layout + 1]):
            mass = 0.0
            for e in range(trees.edge_start[u], trees.edge_start[u + 1]):
                shape[e] = 0.0
                for v in range(trees.edge_first[e], trees.edge_last[e]):
                    shape[e] += base_level[v]
                mass += shape[e]
            if u == root:
                mass = 1.0
            for e in range(trees.edge_start[u], trees.edge_start[u + 1]):
                shape[e] = strength[trees.node_strength[u]] * (shape[e] / mass)


@inner
def fill_below(level_count, k, first, last, below):
    """Fill below[v], the answers of profile k below level v, for the levels first <= v <= last of a key."""
    below[first] = 0
    for v in range(first, last):
        below[v + 1] = below[v] + level_count[v, k]


@inner
def fill_one_below(answer, first, last, below):
    """Fill the same for a profile with a single answer of this level, or with none if it is negative."""
    for v in range(first, last + 1):
        below[v] = 1 if 0 <= answer < v else 0


@inner
def count_node(trees, u, below):
    """Return N_ku."""
    answers = 0
    for e in range(trees.edge_start[u], trees.edge_start[u + 1]):
        answers += below[trees.edge_last[e]] - below[trees.edge_first[e]]
    return answers


@inner
def draw_row(rng, trees, layout, first, last, shape, below, split, row):
    """Write a row of this layout, given its counts, to row[first:last]; split : scratch of its levels."""
    for v in range(first, last):
        row[v] = 1.0
    for u in range(trees.node_start[layout], trees.node_start[layout + 1]):
        start, end = trees.edge_start[u], trees.edge_start[u + 1]
        largest, total = -np.inf, 0.0
        for e in range(start, end):
            answers = below[trees.edge_last[e]] - below[trees.edge_first[e]]
            split[e - start] = draw_log_gamma(rng, shape[e] + answers)
            largest = max(largest, split[e - start])
        for e in range(start, end):
            split[e - start] = math.exp(split[e - start] - largest)
            total += split[e - start]
        for e in range(start, end):
            for v in range(trees.edge_first[e], trees.edge_last[e]):
                row[v] *= split[e - start] / total


@inner
def log_row(trees, layout, strength, shape, below):
    """Return the log probability of the counts of a row under a layout, the row integrated out."""
    value = 0.0
    for u in range(trees.node_start[layout], trees.node_start[layout + 1]):
        answers = count_node(trees, u, below)
        if answers == 0:
            continue
        value -= log_rising(strength[trees.node_strength[u]], answers)
        for e in range(trees.edge_start[u], trees.edge_start[u + 1]):
            answers = below[trees.edge_last[e]] - below[trees.edge_first[e]]
            if answers > 0:
                value += log_rising(shape[e], answers)
    return value


@inner
def draw_layout(rng, trees, j):
    """Return a layout of key j, each with the same probability."""
    layouts = trees.layout_start[j + 1] - trees.layout_start[j]
    return int(rng.random() * layouts) if layouts > 1 else 0


@inner
def draw_layouts(rng, trees, j, first, last, level_count, profiles, strength, shape, layout, below):
    """Make a Metropolis step for the layout of key j in every profile."""
    start = trees.layout_start[j]
    if trees.layout_start[j + 1] == start + 1:
        return
    for k in range(profiles):
        proposed = draw_layout(rng, trees, j)
        if proposed == layout[j, k]:
            continue
        fill_below(level_count, k, first, last, below)
        ratio = log_row(trees, start + proposed, strength, shape, below)
        ratio -= log_row(trees, start + layout[j, k], strength, shape, below)
        if -rng.standard_exponential() < ratio:
            layout[j, k] = proposed


@allocating
def step_strengths(rng, trees, sd, j, first, last, level_count, profiles, layout, shape, strength, below):
    """Make a Metropolis step for every strength of key j, rows integrated out; shape is of the old ones."""
    start = trees.strength_start[j]
    size = trees.strength_start[j + 1] - start
    factor, ratio = np.empty(size), np.empty(size)
    for x in range(size):
        factor[x] = math.exp(STEP * rng.standard_normal())
        old = math.log(strength[start + x] / trees.strength_scale[start + x])
        ratio[x] = (old**2 - (old + math.log(factor[x])) ** 2) / (2.0 * sd**2)
    for k in range(profiles):
        fill_below(level_count, k, first, last, below)
        own = trees.layout_start[j] + layout[j, k]
        for u in range(trees.node_start[own], trees.node_start[own + 1]):
            answers = count_node(trees, u, below)
            if answers == 0:
                continue
            x = trees.node_strength[u] - start
            ratio[x] += log_rising(strength[start + x], answers) - log_rising(strength[start + x] * factor[x], answers)
            for e in range(trees.edge_start[u], trees.edge_start[u + 1]):
                answers = below[trees.edge_last[e]] - below[trees.edge_first[e]]
                if answers > 0:
                    ratio[x] += log_rising(shape[e] * factor[x], answers) - log_rising(shape[e], answers)
    for x in range(size):
        if -rng.standard_exponential() < ratio[x]:
            strength[start + x] *= factor[x]


@inner
def draw_strength(rng, scale, sd, old, tables, cost):
    """Draw a strength, given the number of its tables and the sum of log(1 + t)."""
    if tables == 0:
        return scale * math.exp(sd * rng.standard_normal())
    proposed = rng.standard_gamma(tables) / cost
    if not 0.0 < proposed < np.inf:
        return old
    ratio = (math.log(old / scale) ** 2 - math.log(proposed / scale) ** 2) / (2.0 * sd**2)
    return proposed if -rng.standard_exponential() < ratio else old


@allocating
def draw_base(rng, trees, sd, j, first, last, level_count, profiles, layout, shape, strength, base_level, below):
    """Draw the strengths and the base levels of key j, rows integrated out; fill shape for both, old and new."""
    fill_shapes(trees, j, strength, base_level, shape)
    step_strengths(rng, trees, sd, j, first, last, level_count, profiles, layout, shape, strength, below)
    fill_shapes(trees, j, strength, base_level, shape)
    begin, end = trees.layout_start[j], trees.layout_start[j + 1]
    first_node, first_edge = trees.node_start[begin], trees.edge_start[trees.node_start[begin]]
    edge_tables = np.zeros(trees.edge_start[trees.node_start[end]] - first_edge, np.int64)
    class_tables = np.zeros(trees.strength_scale.shape[0], np.int64)
    cost = np.zeros(trees.strength_scale.shape[0])
    for k in range(profiles):
        fill_below(level_count, k, first, last, below)
        own = begin + layout[j, k]
        for u in range(trees.node_start[own], trees.node_start[own + 1]):
            answers = count_node(trees, u, below)
            if answers == 0:
                continue
            s = trees.node_strength[u]
            log_t = draw_log_gamma(rng, float(answers)) - draw_log_gamma(rng, strength[s])
            cost[s] += math.log1p(math.exp(min(log_t, 690.0)))
            for e in range(trees.edge_start[u], trees.edge_start[u + 1]):
                answers = below[trees.edge_last[e]] - below[trees.edge_first[e]]
                if answers > 0:
                    tables = draw_table_count(rng, answers, shape[e])
                    edge_tables[e - first_edge] += tables
                    class_tables[s] += tables
    for s in range(trees.strength_start[j], trees.strength_start[j + 1]):
        strength[s] = draw_strength(rng, trees.strength_scale[s], sd, strength[s], class_tables[s], cost[s])
    node_tables = np.zeros(trees.node_start[end] - first_node, np.int64)
    roots = 0
    for own in range(begin, end):
        for u in range(trees.node_start[own], trees.node_start[own + 1]):
            for e in range(trees.edge_start[u], trees.edge_start[u + 1]):
                node_tables[u - first_node] += edge_tables[e - first_edge]
        roots += node_tables[trees.node_start[own] - first_node]
    rate, count = np.ones(last - first), np.ones(last - first)
    spread, suffix = np.empty(last - first, np.int64), np.empty(last - first)
    weight = base_level[first:last] * rng.standard_gamma(float(last - first + roots))
    for own in range(begin, end):
        for u in range(trees.node_start[own], trees.node_start[own + 1]):
            tables = node_tables[u - first_node]
            if tables == 0:
                continue
            start, stop = trees.edge_start[u], trees.edge_start[u + 1]
            if u > trees.node_start[own]:
                mass = 0.0
                for v in range(trees.edge_first[start], trees.edge_last[stop - 1]):
                    mass += weight[v - first]
                held = rng.standard_gamma(float(tables)) / mass
                for v in range(trees.edge_first[start], trees.edge_last[stop - 1]):
                    rate[v - first] += held
            for e in range(start, stop):
                size = trees.edge_last[e] - trees.edge_first[e]
                if edge_tables[e - first_edge] > 0:
                    part = weight[trees.edge_first[e] - first : trees.edge_last[e] - first]
                    draw_multinomial(rng, edge_tables[e - first_edge], part, size, spread, suffix)
                    for x in range(size):
                        count[trees.edge_first[e] - first + x] += spread[x]
    total = 0.0
    for x in range(last - first):
        weight[x] = rng.standard_gamma(count[x]) / rate[x]
        total += weight[x]
    for x in range(last - first):
        base_level[first + x] = weight[x] / total
    fill_shapes(trees, j, strength, base_level, shape)
