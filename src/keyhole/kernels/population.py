"""People drawn from the model, given weights and profiles: for simulation and for the article's estimators.

A person's answers are seated one after the other, the concentration integrated out: given j answers at m tables of
sizes s_t, the next one joins table t with weight s_t V(j + 1, m) and opens a table with weight V(j + 1, m + 1) (they
sum to V(j, m)). A new table's profile is drawn from the weights, an answer's level from its table's profile.
"""

import numpy as np

from keyhole.kernels.draws import draw_cumulative
from keyhole.kernels.jit import inner, kernel


@inner
def accumulate_rows(weight, level_profile, profiles, level_start, weight_sum, level_sum):
    """Fill cumulative weights and, for each profile, cumulative levels within each variable."""
    total = 0.0
    for k in range(profiles):
        total += weight[k]
        weight_sum[k] = total
        for j in range(level_start.shape[0] - 1):
            row = 0.0
            for v in range(level_start[j], level_start[j + 1]):
                row += level_profile[v, k]
                level_sum[k, v] = row


@inner
def draw_affiliations(rng, seating, weight_sum, profiles, label, size, profile):
    """Write the profile of each answer of one new person to `profile`; return the number of tables."""
    tables = 0
    for j in range(profile.shape[0]):
        t = tables
        if tables > 0:
            u = rng.random() * seating[j, tables]
            joined = j * seating[j + 1, tables]
            if u < joined:
                u /= seating[j + 1, tables]
                t = 0
                while t < tables - 1 and u >= size[t]:
                    u -= size[t]
                    t += 1
        if t == tables:
            label[t] = draw_cumulative(rng, weight_sum, profiles)
            size[t] = 0
            tables += 1
        size[t] += 1
        profile[j] = label[t]
    return tables


@inner
def draw_level(rng, level_sum, k, first, last):
    """Draw a level of the variable whose levels are first <= v < last from profile k."""
    u = rng.random() * level_sum[k, last - 1]
    v = first
    while v < last - 1 and u >= level_sum[k, v]:
        v += 1
    return v


@kernel
def draw_people(rng, kept, level_start, out):
    """Fill `out` (people, J) with the levels of new people."""
    variables = level_start.shape[0] - 1
    profiles = kept.profile_total[0]
    weight_sum = np.zeros(profiles)
    level_sum = np.zeros((profiles, level_start[variables]))
    accumulate_rows(kept.weight, kept.level_profile, profiles, level_start, weight_sum, level_sum)
    label = np.zeros(variables, np.int64)
    size = np.zeros(variables, np.int64)
    profile = np.zeros(variables, np.int64)
    for i in range(out.shape[0]):
        draw_affiliations(rng, kept.seating, weight_sum, profiles, label, size, profile)
        for j in range(variables):
            out[i, j] = draw_level(rng, level_sum, profile[j], level_start[j], level_start[j + 1])
