"""Records of `classes` visited one after the other, weights and rows integrated out (docs/model.md section 11).

Given the labels of all others, a record with answers x has the profile k with weight
    n_k prod_j E(theta_kj,x_j | N_k, z_kj),     n_k and N_k without this record,
and a new one with weight gamma prod_j pi_j,x_j: its layouts are uniform, and under each an answer has probability pi.
In a tree (trees.py) E theta_x is the product over the nodes u on the path to x of (s_u b_uc + N_kc) / (s_u + N_ku), c
being the edge towards x; for a flat row it is (lambda pi_x + N_kx) / (lambda + N_k). A missing answer has no factor.

The weights of a cell serve all its records until one of them changes its profile. The weight of a record's own profile
is computed along the paths, so that counts and tables of a profile change only when a record comes or goes.
"""

import math
from typing import NamedTuple

import numpy as np

from keyhole.kernels.classes import TINY, Tally
from keyhole.kernels.jit import allocating, inner, kernel
from keyhole.kernels.state import Floats, Integers
from keyhole.kernels.trees import draw_layout, fill_shapes

SPARE = 32
"""Profiles for which there is room at first, besides those with records."""


class Nodes(NamedTuple):
    """What all profiles share.

    shape, strength : float64 (edges,), s_u b_uc of an edge and s_u of the node where it begins.
    child : int64 (edges,), the node where an edge ends, -1 for one that ends at a level; mass : scratch of the nodes.
    path_start : int64 (layouts, levels + 1), path_edge : int64, the edges from the root to each level.
    """

    shape: Floats
    strength: Floats
    child: Integers
    mass: Floats
    path_start: Integers
    path_edge: Integers


class Held(NamedTuple):
    """What each profile has, with room for more profiles; one without records is a gap.

    records : int64 (room,); answers, layout : int64 (J, room); edge_count : int64 (room, edges), N_kc.
    chance : float64 (levels, room), E theta of an ordered variable, lambda pi_x + N_kx of a flat one.
    scale : float64 (room,), the number of records over what the chances of flat variables are to be divided by.
    """

    records: Integers
    answers: Integers
    layout: Integers
    edge_count: Integers
    chance: Floats
    scale: Floats


@inner
def is_flat(trees, j):
    """Return whether a variable has no order: one layout of one node, an edge for each level."""
    return trees.layout_start[j + 1] == trees.layout_start[j] + 1


@inner
def fill_children(trees, own, child):
    """Fill the nodes where the edges of a layout end; a node has the levels of the edge that leads to it."""
    for u in range(trees.node_start[own] + 1, trees.node_start[own + 1]):
        first, last = trees.edge_first[trees.edge_start[u]], trees.edge_last[trees.edge_start[u + 1] - 1]
        for e in range(trees.edge_start[trees.node_start[own]], trees.edge_start[u]):
            if trees.edge_first[e] == first and trees.edge_last[e] == last:
                child[e] = u


@allocating
def make_nodes(trees, level_start, strength, base_level):
    """Return what all profiles share."""
    edges, layouts, levels = trees.edge_first.shape[0], trees.node_start.shape[0] - 1, base_level.shape[0]
    nodes = Nodes(
        np.empty(edges), np.empty(edges), np.full(edges, -1), np.ones(trees.node_strength.shape[0]),
        np.zeros((layouts, levels + 1), np.int64), np.empty((trees.edge_last - trees.edge_first).sum(), np.int64),
    )  # fmt: skip
    for u in range(trees.node_strength.shape[0]):
        nodes.strength[trees.edge_start[u] : trees.edge_start[u + 1]] = strength[trees.node_strength[u]]
    for own in range(layouts):
        fill_children(trees, own, nodes.child)
    found = 0
    for j in range(level_start.shape[0] - 1):
        fill_shapes(trees, j, strength, base_level, nodes.shape)
        for own in range(trees.layout_start[j], trees.layout_start[j + 1]):
            for v in range(level_start[j], level_start[j + 1]):
                nodes.path_start[own, v] = found
                for e in range(trees.edge_start[trees.node_start[own]], trees.edge_start[trees.node_start[own + 1]]):
                    if trees.edge_first[e] <= v < trees.edge_last[e]:
                        nodes.path_edge[found] = e
                        found += 1
                nodes.path_start[own, v + 1] = found
    return nodes


@allocating
def make_held(variables, edges, levels, room):
    """Return profiles without records."""
    return Held(
        np.zeros(room, np.int64), np.zeros((variables, room), np.int64), np.zeros((variables, room), np.int64),
        np.zeros((room, edges), np.int64), np.zeros((levels, room)), np.zeros(room),
    )  # fmt: skip


@allocating
def enlarge_held(held):
    """Return the same with twice the room."""
    room = held.records.shape[0]
    larger = make_held(held.answers.shape[0], held.edge_count.shape[1], held.chance.shape[0], 2 * room)
    larger.records[:room] = held.records
    larger.answers[:, :room] = held.answers
    larger.layout[:, :room] = held.layout
    larger.edge_count[:room] = held.edge_count
    larger.chance[:, :room] = held.chance
    larger.scale[:room] = held.scale
    return larger


@inner
def count_answer(trees, nodes, held, j, v, k, number):
    """Add this many answers of level v, or take them away."""
    held.answers[j, k] += number
    own = trees.layout_start[j] + held.layout[j, k]
    for x in range(nodes.path_start[own, v], nodes.path_start[own, v + 1]):
        held.edge_count[k, nodes.path_edge[x]] += number


@inner
def fill_split(shape, strength, child, mass, edge_start, edge_first, first, last, edge_count, chance, k):
    """Fill the chances of all levels of an ordered variable whose layout has the nodes first <= u < last."""
    for u in range(first, last):
        start, end = edge_start[u], edge_start[u + 1]
        total = strength[start]
        for e in range(start, end):
            total += edge_count[k, e]
        for e in range(start, end):
            part = mass[u] * ((shape[e] + edge_count[k, e]) / total)
            if child[e] < 0:
                chance[edge_first[e], k] = part
            else:
                mass[child[e]] = part


@inner
def fill_chances(trees, nodes, held, j, k):
    """Fill the chances of all levels of a variable from the counts."""
    own = trees.layout_start[j] + held.layout[j, k]
    first, last = trees.node_start[own], trees.node_start[own + 1]
    if is_flat(trees, j):
        for e in range(trees.edge_start[first], trees.edge_start[last]):
            held.chance[trees.edge_first[e], k] = nodes.shape[e] + held.edge_count[k, e]
    else:
        fill_split(
            nodes.shape, nodes.strength, nodes.child, nodes.mass, trees.edge_start, trees.edge_first,
            first, last, held.edge_count, held.chance, k,
        )  # fmt: skip


@inner
def fill_scale(trees, nodes, held, k):
    """Fill the scale of a profile."""
    scale = float(held.records[k])
    for j in range(held.answers.shape[0]):
        if is_flat(trees, j):
            edge = trees.edge_start[trees.node_start[trees.layout_start[j]]]
            scale /= nodes.strength[edge] + held.answers[j, k]
    held.scale[k] = scale


@inner
def move_record(trees, nodes, held, level, k, number):
    """Add a record to a profile, or take it away."""
    held.records[k] += number
    for j in range(level.shape[0]):
        if level[j] < 0:
            continue
        count_answer(trees, nodes, held, j, level[j], k, number)
        if is_flat(trees, j):
            edge = nodes.path_edge[nodes.path_start[trees.layout_start[j], level[j]]]
            held.chance[level[j], k] = nodes.shape[edge] + held.edge_count[k, edge]
        else:
            fill_chances(trees, nodes, held, j, k)
    fill_scale(trees, nodes, held, k)


@inner
def open_profile(rng, trees, nodes, held, k):
    """Give a profile without records layouts."""
    for j in range(held.layout.shape[0]):
        held.layout[j, k] = draw_layout(rng, trees, j)
        fill_chances(trees, nodes, held, j, k)


@inner
def weigh_own(trees, nodes, held, level, k, each):
    """Return the weight of a record's own profile without the record; each : a factor for each of its answers."""
    weight = held.records[k] - 1.0
    if weight == 0.0:
        return 0.0
    for j in range(level.shape[0]):
        if level[j] < 0:
            continue
        own = trees.layout_start[j] + held.layout[j, k]
        weight *= each
        total = held.answers[j, k] - 1.0
        for x in range(nodes.path_start[own, level[j]], nodes.path_start[own, level[j] + 1]):
            e = nodes.path_edge[x]
            inside = held.edge_count[k, e] - 1.0
            weight *= (nodes.shape[e] + inside) / (nodes.strength[e] + total)
            total = inside
    return weight


@inner
def add_weights(score, used, cumulative):
    """Fill the cumulative sums of the weights of the profiles and of a new one."""
    total = 0.0
    for k in range(used + 1):
        total += score[k]
        cumulative[k] = total


@inner
def weigh_profiles(trees, nodes, held, gamma, base_level, level, used, score, cumulative):
    """Fill the weights for a cell, the last being that of a new profile; return the factor of each of its answers.

    The factor is 1, unless the weights are so small that they are computed in logarithms.
    """
    variables, answers, chance = level.shape[0], 0, held.chance
    for k in range(used):
        score[k] = held.scale[k]
    score[used] = gamma
    for j in range(variables):
        v = level[j]
        if v >= 0:
            answers += 1
            for k in range(used):
                score[k] *= chance[v, k]
            score[used] *= base_level[v]
        elif is_flat(trees, j):
            edge = trees.edge_start[trees.node_start[trees.layout_start[j]]]
            for k in range(used):
                score[k] *= nodes.strength[edge] + held.answers[j, k]
    add_weights(score, used, cumulative)
    if cumulative[used] >= TINY or answers == 0:
        return 1.0
    largest = -np.inf
    for k in range(used + 1):
        score[k] = math.log(held.records[k] if k < used else gamma)
        for j in range(variables):
            v = level[j]
            if v < 0:
                continue
            if k == used:
                score[k] += math.log(base_level[v])
            else:
                score[k] += math.log(held.chance[v, k])
                if is_flat(trees, j):
                    edge = trees.edge_start[trees.node_start[trees.layout_start[j]]]
                    score[k] -= math.log(nodes.strength[edge] + held.answers[j, k])
        largest = max(largest, score[k])
    for k in range(used + 1):
        score[k] = math.exp(score[k] - largest)
    add_weights(score, used, cumulative)
    return math.exp(-largest / answers)


@inner
def draw_other(rng, cumulative, used, k, own):
    """Draw a profile, `used` for a new one, k having the weight `own` in place of that in the cumulative sums."""
    before = cumulative[k - 1] if k > 0 else 0.0
    u = rng.random() * (before + (cumulative[used] - cumulative[k]) + own)
    if u < own:
        return k
    u -= own
    if u >= before:
        u += cumulative[k] - before
    low, high = 0, used
    while low < high:
        middle = (low + high) // 2
        if u < cumulative[middle]:
            high = middle
        else:
            low = middle + 1
    return low


@allocating
def hold_records(trees, nodes, cells, label, layout):
    """Return the profiles with their records."""
    variables, levels = cells.level.shape[1], cells.level_start[-1]
    held = make_held(variables, trees.edge_first.shape[0], levels, layout.shape[1] + SPARE)
    held.layout[:, : layout.shape[1]] = layout
    i = 0
    for c in range(cells.size.shape[0]):
        for _ in range(cells.size[c]):
            held.records[label[i]] += 1
            for j in range(variables):
                if cells.level[c, j] >= 0:
                    count_answer(trees, nodes, held, j, cells.level[c, j], label[i], 1)
            i += 1
    for k in range(layout.shape[1]):
        fill_scale(trees, nodes, held, k)
        for j in range(variables):
            fill_chances(trees, nodes, held, j, k)
    return held


@kernel
def count_labels(cells, label, profiles):
    """Return how many records and answers each profile has. label : of each record, in the order of the cells."""
    tally = Tally(np.zeros(profiles, np.int64), np.zeros((cells.level_start[-1], profiles), np.int64))
    i = 0
    for c in range(cells.size.shape[0]):
        for _ in range(cells.size[c]):
            tally.records[label[i]] += 1
            for v in cells.level[c]:
                if v >= 0:
                    tally.level_count[v, label[i]] += 1
            i += 1
    return tally


@inner
def visit_cell(rng, trees, nodes, held, gamma, base_level, level, label, first, last, used, score, cumulative):
    """Draw the labels of the records of a cell, first <= i < last; return the number of profiles in use.

    There must be room for a profile more for each record.
    """
    each = 0.0
    for i in range(first, last):
        if each == 0.0:
            each = weigh_profiles(trees, nodes, held, gamma, base_level, level, used, score, cumulative)
        k = label[i]
        own = weigh_own(trees, nodes, held, level, k, each)
        chosen = draw_other(rng, cumulative, used, k, own)
        if chosen == used:
            chosen = 0
            while chosen < used and held.records[chosen] > 0:
                chosen += 1
            if chosen == used:
                used += 1
            open_profile(rng, trees, nodes, held, chosen)
        if chosen != k:
            move_record(trees, nodes, held, level, k, -1)
            move_record(trees, nodes, held, level, chosen, 1)
            label[i], each = chosen, 0.0
    return used


@kernel
def visit_records(rng, cells, trees, label, old, passes):
    """Draw the label of every record `passes` times, one record after the other; return labels and layouts."""
    nodes = make_nodes(trees, cells.level_start, old.base_strength, old.base_level)
    held = hold_records(trees, nodes, cells, label, old.layout)
    found, used, gamma = label.copy(), old.layout.shape[1], old.weight_concentration[0]
    score, cumulative = np.zeros(held.records.shape[0]), np.zeros(held.records.shape[0])
    for _ in range(passes):
        i = 0
        for c in range(cells.size.shape[0]):
            last = i + cells.size[c]
            while used + cells.size[c] >= held.records.shape[0]:
                held = enlarge_held(held)
                score, cumulative = np.zeros(held.records.shape[0]), np.zeros(held.records.shape[0])
            used = visit_cell(
                rng, trees, nodes, held, gamma, old.base_level, cells.level[c], found, i, last, used, score, cumulative
            )
            i = last
    kept = np.flatnonzero(held.records[:used] > 0)
    name = np.zeros(used, np.int32)
    name[kept] = np.arange(kept.shape[0])
    for i in range(found.shape[0]):
        found[i] = name[found[i]]
    layout = np.empty((held.layout.shape[0], kept.shape[0]), np.int64)
    for x in range(kept.shape[0]):
        layout[:, x] = held.layout[:, kept[x]]
    return found, layout
