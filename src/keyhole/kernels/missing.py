"""Missing answers under rules (docs/model.md section 7).

Without rules a missing answer has no seat, and nothing here is used. With rules it keeps its seat, because the missing
answers must leave the record possible. Given seats, labels and profiles its level has weight theta^(label)_v, for all
missing answers of a record jointly among the possible cells that agree with its other answers. The possible cells are
disjoint boxes D, so a box is drawn with weight
    prod over missing j that D restricts of theta^(label j)_{j,D_j}   (0 if an answer of the record lies outside D),
then each missing answer within its set. The draw does not depend on the previous one, so nothing is stored.
"""

import numpy as np

from keyhole.kernels.distributions import draw_categorical
from keyhole.kernels.jit import kernel


@kernel
def weigh_box(rules, box, answers, labels, level_profile):
    """Return the probability that the missing answers of one record lie in a possible box; 0 if a given one does not.

    answers, labels : (J,), levels (-1: missing) and the profile of each answer's table.
    """
    weight = 1.0
    for x in range(rules.possible_start[box], rules.possible_start[box + 1]):
        s = rules.possible_set[x]
        j = rules.set_variable[s]
        inside = 0.0
        for y in range(rules.set_start[s], rules.set_start[s + 1]):
            v = rules.set_level[y]
            if answers[j] < 0:
                inside += level_profile[v, labels[j]]
            elif answers[j] == v:
                inside = 1.0
        if inside == 0.0:
            return 0.0
        weight *= inside
    return weight


@kernel
def fill_record(rng, rules, box, level_start, answers, labels, level_profile, score, out):
    """Write the missing answers of one record to `out`, drawn within a possible box."""
    for j in range(answers.shape[0]):
        if answers[j] >= 0:
            continue
        confined = -1
        for x in range(rules.possible_start[box], rules.possible_start[box + 1]):
            if rules.set_variable[rules.possible_set[x]] == j:
                confined = rules.possible_set[x]
        if confined < 0:
            first, last = level_start[j], level_start[j + 1]
        else:
            first, last = rules.set_start[confined], rules.set_start[confined + 1]
        for y in range(first, last):
            v = y if confined < 0 else rules.set_level[y]
            score[y - first] = level_profile[v, labels[j]]
        y = first + draw_categorical(rng, score, last - first)
        out[j] = y if confined < 0 else rules.set_level[y]


@kernel
def draw_missing(rng, rules, level, level_start, seat, table_label, level_profile, out):
    """Write the levels of all records to `out` (n, J), drawing those of missing answers."""
    n, variables = level.shape
    boxes = rules.possible_start.shape[0] - 1
    score = np.zeros(max(boxes, level_start[variables]))
    labels = np.zeros(variables, np.int64)
    for i in range(n):
        missing = 0
        for j in range(variables):
            out[i, j] = level[i, j]
            labels[j] = table_label[i, seat[i, j]]
            missing += level[i, j] < 0
        if missing == 0:
            continue
        for box in range(boxes):
            score[box] = weigh_box(rules, box, level[i], labels, level_profile)
        box = draw_categorical(rng, score, boxes)
        fill_record(rng, rules, box, level_start, level[i], labels, level_profile, score, out[i])
