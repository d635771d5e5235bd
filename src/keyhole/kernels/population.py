"""New people drawn from the model given weights and profiles, with rules only possible ones (docs/model.md section 5).

Without rules a person's answers are seated one after the other, the concentration integrated out: given j answers at m
tables of sizes s_t, the next one joins table t with weight s_t V(j + 1, m) and opens a table with weight
V(j + 1, m + 1) (they sum to V(j, m)). A new table's profile is drawn from the weights, an answer's level from its
table's profile.

With rules the possible cells are disjoint boxes, over which people are distributed by a multinomial with the boxes'
probabilities. In a box that restricts f variables the number of blocks b has weight V(f, b) A(all, b); given a set S
left to seat in b blocks, the block T that holds min(S) has weight (|T| - 1)! phi(T) A(S - T, b - 1) (the sums of
cells.py followed backwards); a block's profile has weight beta_k prod theta_{j,A}, and an answer's level in its set A
has weight theta_x / theta_A. That is the distribution of the restricted answers given the box; the free answers follow
as above. The draws are exact, and none is rejected.
"""

import numpy as np

from keyhole.kernels.boxes import box_probability, fill_set_factors, sum_box
from keyhole.kernels.distributions import draw_categorical, draw_cumulative, draw_multinomial
from keyhole.kernels.jit import allocating, inner, kernel


@allocating
def accumulate_rows(weight, level_profile, profiles, level_start):
    """Return cumulative weights and, for each profile, cumulative levels within each variable."""
    weight_sum = np.zeros(profiles)
    level_sum = np.zeros((profiles, level_profile.shape[0]))
    total = 0.0
    for k in range(profiles):
        total += weight[k]
        weight_sum[k] = total
        for j in range(level_start.shape[0] - 1):
            row = 0.0
            for v in range(level_start[j], level_start[j + 1]):
                row += level_profile[v, k]
                level_sum[k, v] = row
    return weight_sum, level_sum


@inner
def seat_answer(rng, eppf, weight_sum, profiles, seated, tables, label, size):
    """Seat one more answer of a person who has `seated` answers at this many tables; return its table."""
    t = tables
    if tables > 0:
        u = rng.random() * eppf[seated, tables]
        if u < seated * eppf[seated + 1, tables]:
            u /= eppf[seated + 1, tables]
            t = 0
            while t < tables - 1 and u >= size[t]:
                u -= size[t]
                t += 1
    if t == tables:
        label[t] = draw_cumulative(rng, weight_sum, profiles)
        size[t] = 0
    size[t] += 1
    return t


@inner
def draw_affiliations(rng, eppf, weight_sum, profiles, label, size, profile):
    """Write the profile of each answer of one new person to `profile`."""
    tables = 0
    for j in range(profile.shape[0]):
        t = seat_answer(rng, eppf, weight_sum, profiles, j, tables, label, size)
        tables = max(tables, t + 1)
        profile[j] = label[t]


@inner
def draw_level(rng, level_sum, k, first, last):
    """Draw a level of the variable whose levels are first <= v < last from profile k."""
    u = rng.random() * level_sum[k, last - 1]
    v = first
    while v < last - 1 and u >= level_sum[k, v]:
        v += 1
    return v


@kernel
def draw_people(rng, draw, level_start, out):
    """Fill `out` (people, J) with the levels of new people."""
    variables = level_start.shape[0] - 1
    profiles = draw.weight.shape[0]
    weight_sum, level_sum = accumulate_rows(draw.weight, draw.level_profile, profiles, level_start)
    label = np.zeros(variables, np.int64)
    size = np.zeros(variables, np.int64)
    profile = np.zeros(variables, np.int64)
    for i in range(out.shape[0]):
        draw_affiliations(rng, draw.eppf, weight_sum, profiles, label, size, profile)
        for j in range(variables):
            out[i, j] = draw_level(rng, level_sum, profile[j], level_start[j], level_start[j + 1])


@inner
def draw_block(rng, rest, blocks, half, cells):
    """Draw the block that holds the lowest variable of a set to be seated in this many blocks.

    rest : the set, without variable 0, as a mask >> 1, or `half` for all variables. Return the block, as a mask, and
    the rest of the set, again as a mask >> 1.
    """
    low = rest & -rest if rest < half else 0
    others = rest ^ low if rest < half else half - 1
    first = 0 if rest < half else 1
    u = rng.random() * (cells.sums[rest, blocks - 1, 0] if rest < half else cells.total[blocks - 1, 0])
    taken = others
    chosen, chosen_left = 0, 0
    while True:
        left = others ^ taken
        if cells.members[left] >= blocks - 1 and (left > 0) == (blocks > 1):
            block = (low | taken) << 1 | first
            weight = cells.block[block, 0] * (cells.sums[left, blocks - 2, 0] if blocks > 1 else 1.0)
            if weight > 0.0:
                # If rounding leaves u above the last weight, the last possible block is returned.
                chosen, chosen_left = block, left
                if u < weight:
                    break
                u -= weight
        if taken == 0:
            break
        taken = (taken - 1) & others
    return chosen, chosen_left


@inner
def seat_confined(rng, size, eppf, cells, score, block):
    """Draw the blocks of the restricted answers of one person, the box's sums being filled; return their number."""
    half = 1 << (size - 1)
    for b in range(size):
        score[b] = eppf[size, b + 1] * cells.total[b, 0]
    tables = 1 + draw_categorical(rng, score, size)
    rest = half
    for t in range(tables):
        block[t], rest = draw_block(rng, rest, tables - t, half, cells)
    return tables


@inner
def fill_confined(rng, rules, first_set, block, weight, level_profile, profiles, set_factor, score, person):
    """Draw the profile of a block and its answers' levels, each within its set; return the profile."""
    for k in range(profiles):
        score[k] = weight[k]
    x, rest = first_set, block
    while rest > 0:
        if rest & 1:
            s = rules.possible_set[x]
            for k in range(profiles):
                score[k] *= set_factor[s, k]
        x += 1
        rest >>= 1
    label = draw_categorical(rng, score, profiles)
    x, rest = first_set, block
    while rest > 0:
        if rest & 1:
            s = rules.possible_set[x]
            first, last = rules.set_start[s], rules.set_start[s + 1]
            for y in range(first, last):
                score[y - first] = level_profile[rules.set_level[y], label]
            person[rules.set_variable[s]] = rules.set_level[first + draw_categorical(rng, score, last - first)]
        x += 1
        rest >>= 1
    return label


@inner
def fill_free(rng, eppf, weight_sum, level_sum, level_start, profiles, tables, label, size, person):
    """Draw the answers that a person lacks (-1), given the tables of the others."""
    seated = 0
    for t in range(tables):
        seated += size[t]
    for j in range(person.shape[0]):
        if person[j] >= 0:
            continue
        t = seat_answer(rng, eppf, weight_sum, profiles, seated, tables, label, size)
        tables = max(tables, t + 1)
        seated += 1
        person[j] = draw_level(rng, level_sum, label[t], level_start[j], level_start[j + 1])


@kernel
def draw_possible_people(rng, rules, weight, level_profile, profiles, eppf, level_start, cells, out):
    """Fill `out` (people, J) with the levels of new people, box after box.

    weight : (K,), including the remainder; level_profile : (levels, K); cells : scratch for as many variables as a
    possible box restricts.
    """
    people, variables = out.shape
    weight_sum, level_sum = accumulate_rows(weight, level_profile, profiles, level_start)
    label = np.zeros(variables, np.int64)
    size = np.zeros(variables, np.int64)
    block = np.zeros(variables, np.int64)
    score = np.zeros(max(profiles, level_start[variables]))
    set_factor = np.zeros((rules.set_variable.shape[0], profiles))
    fill_set_factors(rules, level_profile, profiles, set_factor)
    boxes = rules.possible_start.shape[0] - 1
    chance, suffix, count = np.zeros(boxes), np.zeros(boxes), np.zeros(boxes, np.int64)
    for box in range(boxes):
        chance[box] = box_probability(
            rules.possible_start, rules.possible_set, box, weight, profiles, set_factor, eppf, cells
        )
    draw_multinomial(rng, people, chance, boxes, count, suffix)
    out[:, :] = -1
    i = 0
    for box in range(boxes):
        if count[box] == 0:
            continue
        confined = sum_box(rules.possible_start, rules.possible_set, box, weight, profiles, set_factor, cells)
        first = rules.possible_start[box]
        for _ in range(count[box]):
            tables = seat_confined(rng, confined, eppf, cells, score, block)
            for t in range(tables):
                label[t] = fill_confined(
                    rng, rules, first, block[t], weight, level_profile, profiles, set_factor, score, out[i]
                )
                size[t] = cells.members[block[t]]
            fill_free(rng, eppf, weight_sum, level_sum, level_start, profiles, tables, label, size, out[i])
            i += 1
    if boxes == 0:
        for x in range(people):
            fill_free(rng, eppf, weight_sum, level_sum, level_start, profiles, 0, label, size, out[x])
