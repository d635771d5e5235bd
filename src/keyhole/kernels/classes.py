"""A sweep of `classes`: each record has one profile, and equal records are one cell with a count (docs/model.md
section 11).

The state holds how many records and answers each profile has, and the parameters given that. A sweep draws all labels
anew, so no record and no cell has a state of its own. With rules each profile is truncated: given profile k a possible
cell c has probability P_k(c) / s_k, s_k its possible mass. Nobody is imputed, and without rules s_k = 1.

Labels, given weights and profiles, by a slice with a cap, which keeps the number of profiles finite:
    g = min(CAP / n, smallest weight of a profile with records), u ~ Uniform(0, g);
    break sticks, rows from H, until the remainder is below u, and use the profiles with weight > u;
    the records of a cell are one multinomial with weights w_k P_k(c) / s_k;
    accept with probability min(1, g / g'), g' being the bound of the new labels, or keep the old ones.
The cells are independent of each other, so shards of them may be drawn anywhere, each with its own generator.

Hyperparameters and rows, variable by variable, given the other rows. s_k is linear in row j: s_k = sum_x theta_x g_kx,
g_kx the possible mass if variable j is x (g = 1 if no rule names j). With theta_j = G / S, S ~ Gamma(lambda_j) and
t_k ~ Gamma(n_k, rate S s_k) the density of the G_x is prod_x G_x^(alpha_x + N_kx - 1) exp(-G_x (1 + t_k g_kx)),
alpha = lambda_j pi_j. Integrating them out leaves
    prod_k prod_x Gamma(alpha_x + N_kx) / Gamma(alpha_x) (1 + t_k g_kx)^(-alpha_x),
so that with L_x, the number of tables of Chinese restaurants with N_kx customers and concentration alpha_x, and
c_x = sum_k log(1 + t_k g_kx), alpha has density prod_x alpha_x^L_x exp(-alpha_x c_x) times its prior. The proposal
    pi' ~ normalised Gamma(1 + L_x, rate e_x),  lambda' | pi' ~ Gamma(sum L, rate e'pi'),  e_x = max(c_x, c_max / 100)
is accepted with the ratio of (e'pi)^d exp(lambda (e - c)'pi - log(lambda / d)^2 / (2 strength_sd^2)). Then G_x ~
Gamma(alpha_x + N_kx, rate 1 + t_k g_kx).

If no rule names j, g = 1, and its rows, strengths and pi are drawn as in trees.py. So are those of an ordered variable,
whose nodes have no t_k: with h_kx = g_kx / max g_k, s_k^(-n_k) is the sum over numbers M_k of impossible answers, each
at a level x with probability theta_x (1 - h_kx), of C(n_k + M_k - 1, M_k) times their probabilities. So given the rows
    M_k ~ Poisson(Gamma(n_k) (1 - h_k) / h_k), h_k = sum_x theta_x h_kx,
its answers are spread by theta_x (1 - h_kx), and beside them the row has the counts of a row without rules.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.kernels.distributions import (
    draw_binomial,
    draw_categorical,
    draw_cumulative,
    draw_dirichlet,
    draw_log_gamma,
    draw_multinomial,
    draw_table_count,
)
from keyhole.kernels.jit import allocating, inner, kernel
from keyhole.kernels.missing import fill_record, weigh_box
from keyhole.kernels.state import Floats, Integers
from keyhole.kernels.trees import draw_base, draw_layout, draw_layouts, draw_row, fill_below, fill_shapes
from keyhole.kernels.weights import draw_gamma

SEARCHES = 3
"""Up to so many records for each profile the profiles of a cell are looked up one record after the other."""

FEW = 3
"""Of more records the profile with the largest weight gets its share first: it often leaves few or none."""

TINY = 1e-250
"""Sums of weights below this are computed in logarithms."""

SMALLEST = 1e-200
"""Smallest possible mass of a profile."""

MOST_IMPOSSIBLE = 1e15
"""Most impossible answers of a row: a bound for the generator, far beyond what profiles with records have."""


class Cells(NamedTuple):
    """Distinct cells in lexicographic order.

    level : int32 (D, J)
        Level of each answer, -1 where it is missing.
    size : int64 (D,)
        Records in each cell.
    level_start : int64 (J + 1,)
        First level of each variable; the last entry is the number of levels.
    """

    level: NDArray[np.int32]
    size: Integers
    level_start: Integers


class Labels(NamedTuple):
    """How many records of each cell each profile has: entries in the order of the cells.

    start : int64 (D + 1,), first entry of each cell; profile, size : int32 (entries,), size > 0.
    records, level_count : those of Tally.
    """

    start: Integers
    profile: NDArray[np.int32]
    size: NDArray[np.int32]
    records: Integers
    level_count: Integers


class Tally(NamedTuple):
    """What the parameters need of the labels.

    records : int64 (K,), records of each profile.
    level_count : int64 (levels, K), their answers that are not missing; with rules the missing ones are drawn and
    counted.
    """

    records: Integers
    level_count: Integers


class Profiles(NamedTuple):
    """The parameters given the labels; each of the K profiles has records.

    weight : float64 (K,), remainder : float64 (1,), the weight of all other profiles.
    level_profile : float64 (levels, K); possible : float64 (K,), s_k.
    weight_concentration : float64 (1,), base_strength : float64 (strengths,), base_level : float64 (levels,).
    layout : int64 (J, K), of each row.
    """

    weight: Floats
    remainder: Floats
    level_profile: Floats
    possible: Floats
    weight_concentration: Floats
    base_strength: Floats
    base_level: Floats
    layout: Integers


@inner
def fill_sets(rules, level_profile, profiles, j, set_factor):
    """Fill the probability of every set of levels of variable j (of all if j < 0) under every profile."""
    for s in range(rules.set_variable.shape[0]):
        if j >= 0 and rules.set_variable[s] != j:
            continue
        set_factor[s, :profiles] = 0.0
        for x in range(rules.set_start[s], rules.set_start[s + 1]):
            for k in range(profiles):
                set_factor[s, k] += level_profile[rules.set_level[x], k]


@inner
def fill_possible(rules, set_factor, profiles, box_mass, possible):
    """Fill s_k, the possible mass of every profile. All terms are positive, so that a tiny s_k keeps its digits."""
    possible[:profiles] = 0.0
    for box in range(rules.possible_start.shape[0] - 1):
        box_mass[:profiles] = 1.0
        for x in range(rules.possible_start[box], rules.possible_start[box + 1]):
            s = rules.possible_set[x]
            for k in range(profiles):
                box_mass[k] *= set_factor[s, k]
        for k in range(profiles):
            possible[k] += box_mass[k]


@inner
def fill_masses(rules, set_factor, profiles, j, first, last, box_mass, mass):
    """Fill mass[v, k] = g_kv, the possible mass of profile k if variable j has level v; return whether any differ."""
    confined = False
    mass[first:last, :profiles] = 0.0
    for box in range(rules.possible_start.shape[0] - 1):
        box_mass[:profiles] = 1.0
        own = -1
        for x in range(rules.possible_start[box], rules.possible_start[box + 1]):
            s = rules.possible_set[x]
            if rules.set_variable[s] == j:
                own = s
                continue
            for k in range(profiles):
                box_mass[k] *= set_factor[s, k]
        if own < 0:
            for v in range(first, last):
                for k in range(profiles):
                    mass[v, k] += box_mass[k]
        else:
            confined = True
            for x in range(rules.set_start[own], rules.set_start[own + 1]):
                for k in range(profiles):
                    mass[rules.set_level[x], k] += box_mass[k]
    return confined


@kernel
def find_possible(rules, level_profile):
    """Return s_k, the possible mass of every profile, at least SMALLEST: an empty profile may underflow."""
    profiles = level_profile.shape[1]
    possible, box_mass = np.ones(profiles), np.zeros(profiles)
    if rules.possible_start.shape[0] > 1:
        set_factor = np.zeros((rules.set_variable.shape[0], profiles))
        fill_sets(rules, level_profile, profiles, -1, set_factor)
        fill_possible(rules, set_factor, profiles, box_mass, possible)
        for k in range(profiles):
            possible[k] = max(possible[k], SMALLEST)
    return possible


@kernel
def extend_profiles(rng, level_start, trees, old, until, above):
    """Break sticks off the remainder until it is below `until`; return weights, rows, layouts, and what is left of it.

    The profiles with records come first, in their order, then those with a weight above `above`, rows from H.
    """
    used, levels, variables = old.weight.shape[0], old.base_level.shape[0], level_start.shape[0] - 1
    sticks = [0.0][:0]
    remainder = old.remainder[0]
    while remainder >= until:
        log_nu = -rng.standard_exponential() / old.weight_concentration[0]
        stick = -math.expm1(log_nu) * remainder
        if stick > above:
            sticks.append(stick)
        remainder *= math.exp(log_nu)
    weight = np.empty(used + len(sticks))
    level_profile = np.empty((levels, used + len(sticks)))
    weight[:used] = old.weight
    level_profile[:, :used] = old.level_profile
    layout = np.empty((variables, used + len(sticks)), np.int64)
    layout[:, :used] = old.layout
    shape, below, split = np.empty(trees.edge_first.shape[0]), np.zeros(levels + 1, np.int64), np.empty(levels)
    for j in range(variables):
        fill_shapes(trees, j, old.base_strength, old.base_level, shape)
    column = np.empty(levels)
    for x in range(len(sticks)):
        weight[used + x] = sticks[x]
        for j in range(variables):
            layout[j, used + x] = draw_layout(rng, trees, j)
            own = trees.layout_start[j] + layout[j, used + x]
            draw_row(rng, trees, own, level_start[j], level_start[j + 1], shape, below, split, column)
        level_profile[:, used + x] = column
    return weight, level_profile, layout, remainder


@inner
def score_profiles(level, weight, level_profile, score):
    """Fill the weights of one cell, scaled by the largest, from their logarithms."""
    largest = -np.inf
    for k in range(weight.shape[0]):
        score[k] = math.log(weight[k])
        for j in range(level.shape[0]):
            if level[j] >= 0:
                score[k] += math.log(level_profile[level[j], k])
        largest = max(largest, score[k])
    for k in range(weight.shape[0]):
        score[k] = math.exp(score[k] - largest)


@allocating
def weigh_missing(rules, level, label, level_profile, score):
    """Multiply the weights of a cell by the probability that its missing answers leave it possible."""
    for k in range(score.shape[0]):
        label[:] = k
        mass = 0.0
        for box in range(rules.possible_start.shape[0] - 1):
            mass += weigh_box(rules, box, level, label, level_profile)
        score[k] *= mass


@allocating
def count_missing(rng, rules, cells, c, k, number, level_profile, label, box_score, answers, level_count):
    """Draw the missing answers of this many records of a cell, given their profile, and count them."""
    boxes = rules.possible_start.shape[0] - 1
    label[:] = k
    for box in range(boxes):
        box_score[box] = weigh_box(rules, box, cells.level[c], label, level_profile)
    chances = box_score[:boxes].copy()
    for _ in range(number):
        box = draw_categorical(rng, chances, boxes)
        fill_record(rng, rules, box, cells.level_start, cells.level[c], label, level_profile, box_score, answers)
        for j in range(answers.shape[0]):
            if cells.level[c, j] < 0:
                level_count[answers[j], k] += 1


@inner
def add_up(score, cumulative):
    """Fill the cumulative sums; return the total, the profile with the largest weight, and the sum of all others."""
    total, others, weight, largest = 0.0, 0.0, 0.0, 0
    for k in range(score.shape[0]):
        total += score[k]
        cumulative[k] = total
        if score[k] > weight:
            others += weight
            weight, largest = score[k], k
        else:
            others += score[k]
    return total, largest, others


@inner
def draw_rest(rng, number, chance):
    """Draw Binomial(number, chance), by inversion where it is nearly always 0: (1 - q)^n is at least 1 - n q."""
    if number * chance > 0.5:
        return draw_binomial(rng, number, chance)
    u = rng.random()
    if u < 1.0 - number * chance:
        return 0
    count, term = 0, math.exp(number * math.log1p(-chance))
    while u >= term and count < number:
        u -= term
        term *= (number - count) / (count + 1.0) * chance / (1.0 - chance)
        count += 1
    return count


@kernel
def draw_labels(rng, cells, first, last, rules, weight, level_profile, possible):
    """Draw how many records of the cells first <= c < last each profile has."""
    variables, profiles = cells.level.shape[1], weight.shape[0]
    boxes = rules.possible_start.shape[0] - 1
    room = 0
    for c in range(first, last):
        room += min(cells.size[c], profiles)
    start = np.zeros(last - first + 1, np.int64)
    profile, size = np.empty(room, np.int32), np.empty(room, np.int32)
    records = np.zeros(profiles, np.int64)
    level_count = np.zeros((level_profile.shape[0], profiles), np.int64)
    # Row j + 1 holds the weights times the probabilities of the first j + 1 answers, which neighbours often share.
    product = np.empty((variables + 1, profiles))
    product[0] = weight / possible
    score, cumulative = np.empty(profiles), np.empty(profiles)
    chosen = np.zeros(profiles, np.int64)
    label, answers = np.zeros(variables, np.int64), np.zeros(variables, np.int32)
    box_score = np.zeros(max(boxes, level_profile.shape[0]))
    entries = 0
    for c in range(first, last):
        j = 0
        if c > first:
            while j < variables - 1 and cells.level[c, j] == cells.level[c - 1, j]:
                j += 1
        missing = False
        for i in range(variables):
            missing = missing or cells.level[c, i] < 0
        for i in range(j, variables):
            v = cells.level[c, i]
            if v < 0:
                product[i + 1] = product[i]
            else:
                for k in range(profiles):
                    product[i + 1, k] = product[i, k] * level_profile[v, k]
        score[:] = product[variables]
        imputed = missing and boxes > 0
        if imputed:
            weigh_missing(rules, cells.level[c], label, level_profile, score)
        total, largest, others = add_up(score, cumulative)
        if total < TINY:
            score_profiles(cells.level[c], product[0], level_profile, score)
            if imputed:
                weigh_missing(rules, cells.level[c], label, level_profile, score)
            total, largest, others = add_up(score, cumulative)
        number = cells.size[c]
        if number > FEW:
            rest = draw_rest(rng, number, others / total)
            chosen[largest] = number - rest
            number = rest
            if rest > 0:
                score[largest] = 0.0
                add_up(score, cumulative)
        if number <= SEARCHES * profiles:
            for _ in range(number):
                chosen[draw_cumulative(rng, cumulative, profiles)] += 1
        else:
            # From the end, the sum of all weights up to k is at hand without rounding.
            for k in range(profiles - 1, 0, -1):
                part = draw_binomial(rng, number, score[k] / cumulative[k]) if number > 0 else 0
                chosen[k] += part
                number -= part
            chosen[0] += number
        for k in range(profiles):
            if chosen[k] == 0:
                continue
            profile[entries], size[entries] = k, chosen[k]
            entries += 1
            records[k] += chosen[k]
            for i in range(variables):
                if cells.level[c, i] >= 0:
                    level_count[cells.level[c, i], k] += chosen[k]
            if imputed:
                count_missing(rng, rules, cells, c, k, chosen[k], level_profile, label, box_score, answers, level_count)
            chosen[k] = 0
        start[c - first + 1] = entries
    return Labels(start, profile[:entries].copy(), size[:entries].copy(), records, level_count)


@allocating
def draw_confined_base(rng, prior, first, last, level_count, rate, mass, strength, base_level, tables, cost):
    """Draw lambda_j and pi_j of a confined variable given the t_k, rows integrated out; return lambda_j."""
    profiles = rate.shape[0]
    total = 0.0
    for v in range(first, last):
        tables[v], cost[v] = 0.0, 0.0
        for k in range(profiles):
            if level_count[v, k] > 0:
                tables[v] += draw_table_count(rng, level_count[v, k], strength * base_level[v])
            cost[v] += math.log1p(rate[k] * mass[v, k])
        total += tables[v]
    if total == 0.0:
        return strength
    size = last - first
    least = cost[first:last].max() / 100.0
    proposal = np.empty(size)
    largest = -np.inf
    for x in range(size):
        proposal[x] = draw_log_gamma(rng, 1.0 + tables[first + x]) - math.log(max(cost[first + x], least))
        largest = max(largest, proposal[x])
    for x in range(size):
        proposal[x] = math.exp(proposal[x] - largest)
    proposal /= proposal.sum()
    before, after, surplus_before, surplus_after = 0.0, 0.0, 0.0, 0.0
    for x in range(size):
        rate_x = max(cost[first + x], least)
        before += rate_x * base_level[first + x]
        after += rate_x * proposal[x]
        surplus_before += (rate_x - cost[first + x]) * base_level[first + x]
        surplus_after += (rate_x - cost[first + x]) * proposal[x]
    proposed = rng.standard_gamma(total) / after
    if not 0.0 < proposed < np.inf:
        return strength
    ratio = size * math.log(after / before) + proposed * surplus_after - strength * surplus_before
    ratio += (math.log(strength / size) ** 2 - math.log(proposed / size) ** 2) / (2.0 * prior.strength_sd**2)
    if -rng.standard_exponential() < ratio:
        base_level[first:last] = proposal
        return proposed
    return strength


@allocating
def complete_answers(rng, first, last, mass, level_profile, level_count, completed):
    """Fill the counts of an ordered variable with the impossible answers in them, given the rows."""
    share, drawn, suffix = np.empty(last - first), np.empty(last - first, np.int64), np.empty(last - first)
    for k in range(level_profile.shape[1]):
        most = max(mass[first:last, k].max(), SMALLEST)
        answers, inside, outside = 0, 0.0, 0.0
        for v in range(first, last):
            answers += level_count[v, k]
            inside += level_profile[v, k] * (mass[v, k] / most)
            share[v - first] = level_profile[v, k] * (1.0 - mass[v, k] / most)
            outside += share[v - first]
        missing = 0
        if answers > 0 and outside > 0.0 and inside > 0.0:
            missing = rng.poisson(min(rng.standard_gamma(float(answers)) * outside / inside, MOST_IMPOSSIBLE))
        drawn[:] = 0
        if missing > 0:
            draw_multinomial(rng, missing, share, last - first, drawn, suffix)
        for v in range(first, last):
            completed[v, k] = level_count[v, k] + drawn[v - first]


@kernel
def draw_profiles(rng, cells, prior, tally, old_strength, old_level, gamma, rows, layouts):
    """Draw the concentration, the base distribution, the weights and the rows, given the labels.

    rows : float64 (levels, K), the rows of these profiles up to now, on which only those of confined variables depend;
    layouts : int64 (J, K), theirs.
    """
    rules, trees = prior.rules, prior.trees
    layout = layouts.copy()
    profiles, variables, levels = tally.records.shape[0], cells.level.shape[1], old_level.shape[0]
    strength, base_level, level_profile = old_strength.copy(), old_level.copy(), rows.copy()
    records = tally.records.sum()
    shape = prior.weight_concentration
    concentration = draw_gamma(rng, gamma[0], records, profiles, shape[0], shape[1])
    weight = np.empty(profiles + 1)
    weight[:profiles] = tally.records
    weight[profiles] = concentration
    draw_dirichlet(rng, weight, weight)
    set_factor = np.zeros((rules.set_variable.shape[0], profiles))
    mass = np.ones((levels, profiles))
    box_mass, possible = np.zeros(profiles), np.ones(profiles)
    rate, tables, cost = np.empty(profiles), np.empty(levels), np.empty(levels)
    boxes = rules.possible_start.shape[0] - 1
    shape, below, column = np.empty(trees.edge_first.shape[0]), np.zeros(levels + 1, np.int64), np.empty(levels)
    completed = np.zeros((levels if boxes > 0 else 0, profiles), np.int64)
    if boxes > 0:
        fill_sets(rules, level_profile, profiles, -1, set_factor)
    for j in range(variables):
        first, last = cells.level_start[j], cells.level_start[j + 1]
        confined = boxes > 0 and fill_masses(rules, set_factor, profiles, j, first, last, box_mass, mass)
        count = tally.level_count
        ordered = trees.layout_start[j + 1] > trees.layout_start[j] + 1
        if confined and ordered:
            complete_answers(rng, first, last, mass, level_profile, count, completed)
            count = completed
        if ordered or not confined:
            fill_shapes(trees, j, strength, base_level, shape)
            if prior.adaptive:
                draw_layouts(rng, trees, j, first, last, count, profiles, strength, shape, layout, below)
                draw_base(
                    rng, trees, prior.strength_sd, j, first, last, count, profiles, layout, shape, strength, base_level,
                    below,
                )  # fmt: skip
            for k in range(profiles):
                fill_below(count, k, first, last, below)
                draw_row(rng, trees, trees.layout_start[j] + layout[j, k], first, last, shape, below, cost, column)
                level_profile[first:last, k] = column[first:last]
            if confined:
                fill_sets(rules, level_profile, profiles, j, set_factor)
            continue
        s = trees.strength_start[j]
        for k in range(profiles):
            answers, inside = 0, 0.0
            for v in range(first, last):
                answers += tally.level_count[v, k]
                inside += level_profile[v, k] * mass[v, k]
            log_rate = draw_log_gamma(rng, float(answers)) if answers > 0 else -np.inf
            log_rate -= draw_log_gamma(rng, strength[s]) + math.log(inside)
            rate[k] = math.exp(min(log_rate, 690.0))
        if prior.adaptive:
            strength[s] = draw_confined_base(
                rng, prior, first, last, tally.level_count, rate, mass, strength[s], base_level, tables, cost
            )
        for k in range(profiles):
            largest, total = -np.inf, 0.0
            for v in range(first, last):
                log_g = draw_log_gamma(rng, strength[s] * base_level[v] + tally.level_count[v, k])
                cost[v] = log_g - math.log1p(rate[k] * mass[v, k])
                largest = max(largest, cost[v])
            for v in range(first, last):
                cost[v] = math.exp(cost[v] - largest)
                total += cost[v]
            for v in range(first, last):
                level_profile[v, k] = cost[v] / total
        fill_sets(rules, level_profile, profiles, j, set_factor)
    if boxes > 0:
        fill_possible(rules, set_factor, profiles, box_mass, possible)
    return Profiles(
        weight[:profiles].copy(), weight[profiles:].copy(), level_profile, possible,
        np.full(1, concentration), strength, base_level, layout,
    )  # fmt: skip
