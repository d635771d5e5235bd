"""Cell probabilities without the exact sum: an importance sampler for many variables, and the article's estimator.

Importance (a sequential urn): for each particle the cell's answers are seated one after the other. Given j answers
seated in m blocks B_t of s_t answers, answer j joins block t with weight s_t V(j + 1, m) phi(B_t + j) / phi(B_t) and
opens a block with weight V(j + 1, m + 1) phi({j}), all over V(j, m). The particle's estimate of P is the product over j
of the sums of these weights: unbiased, and exact when no choice is left.

Monte Carlo (the article): affiliations z of T new people are drawn; P is the mean over them of prod_j theta^(z_j)_j.
"""

import math

import numpy as np

from keyhole.kernels.jit import inner, kernel
from keyhole.kernels.population import draw_affiliations


@inner
def weigh_particle(rng, weight, level_profile, profiles, eppf, levels, block, mass, size, score):
    """Seat the answers of one cell once; return the estimate of its probability.

    block : (J, K), beta_k prod theta over each block's answers; mass : (J,), its sums over k.
    """
    estimate = 1.0
    tables = 0
    for j in range(levels.shape[0]):
        v = levels[j]
        total = 0.0
        for t in range(tables + 1):
            joint = 0.0
            if t < tables:
                for k in range(profiles):
                    joint += block[t, k] * level_profile[v, k]
                joint *= size[t] * eppf[j + 1, tables] / mass[t]
            else:
                for k in range(profiles):
                    joint += weight[k] * level_profile[v, k]
                joint *= eppf[j + 1, tables + 1]
            score[t] = joint
            total += joint
        estimate *= total / (eppf[j, tables] if j > 0 else 1.0)
        u = rng.random() * total
        t = 0
        while t < tables and u >= score[t]:
            u -= score[t]
            t += 1
        if t == tables:
            for k in range(profiles):
                block[t, k] = weight[k]
            size[t] = 0
            tables += 1
        size[t] += 1
        mass[t] = 0.0
        for k in range(profiles):
            block[t, k] *= level_profile[v, k]
            mass[t] += block[t, k]
    return estimate


@kernel
def importance_probabilities(rng, draw, cell_level, particles, out):
    """Write estimated cell probabilities to `out`; return the mean relative standard error."""
    cells, variables = cell_level.shape
    profiles = draw.weight.shape[0]
    block = np.zeros((variables, profiles))
    mass = np.zeros(variables)
    size = np.zeros(variables)
    score = np.zeros(variables + 1)
    error = 0.0
    for c in range(cells):
        mean, square = 0.0, 0.0
        for particle in range(particles):
            estimate = weigh_particle(
                rng, draw.weight, draw.level_profile, profiles, draw.eppf, cell_level[c], block, mass, size, score
            )
            gap = estimate - mean
            mean += gap / (particle + 1.0)
            square += gap * (estimate - mean)
        out[c] = mean
        if particles > 1 and mean > 0.0:
            error += math.sqrt(square / (particles - 1.0) / particles) / mean
    return error / max(cells, 1)


@kernel
def monte_carlo_probabilities(rng, draw, cell_level, people, out):
    """Write the article's estimates from this many new people to `out`; return the mean relative standard error."""
    cells, variables = cell_level.shape
    profiles = draw.weight.shape[0]
    weight_sum = np.cumsum(draw.weight)
    label = np.zeros(variables, np.int64)
    size = np.zeros(variables, np.int64)
    profile = np.zeros((people, variables), np.int64)
    for i in range(people):
        draw_affiliations(rng, draw.eppf, weight_sum, profiles, label, size, profile[i])
    error = 0.0
    for c in range(cells):
        mean, square = 0.0, 0.0
        for i in range(people):
            estimate = 1.0
            for j in range(variables):
                estimate *= draw.level_profile[cell_level[c, j], profile[i, j]]
            gap = estimate - mean
            mean += gap / (i + 1.0)
            square += gap * (estimate - mean)
        out[c] = mean
        if people > 1 and mean > 0.0:
            error += math.sqrt(square / (people - 1.0) / people) / mean
    return error / max(cells, 1)
