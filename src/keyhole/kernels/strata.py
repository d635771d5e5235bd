"""Cells and risks if people are drawn at random within strata (docs/model.md section 12).

The stratum is one more variable of the model. P(c and s) is the sum of section 4 with s as variable 0: the sums over
sets without s are those of all strata, and a set T of keys with s adds
    |T|! phi(T and s) A(keys - T, b - 1),   phi(T and s) = sum_k beta_k theta^(k)_s prod_{j in T} theta^(k)_{j, c_j}.

With q_s = P(c | s) and M_s unseen people of stratum s, their number in a cell is X, a sum of independent
Binomial(M_s, q_s):
    r1 = prod_s (1 - q_s)^{M_s},   r2 = E 1/(1 + X), integrated as for all records (kernels/records.py).
A cell in which people of one stratum only may be has closed forms.

The counts of stratum s in all cells sum to at most M_s, which reduces the variances of tau1 and tau2 by
    sum_s (sum_c M_s q_s r1)^2 / M_s   and   sum_s (sum_c Cov(1/(1 + X), X_s))^2 / M_s,
Cov(1/(1 + X), X_s) being the share of s in E X, times 1 - r2 (1 + E X) (kernels/risk.py).

Entries are listed by cell: those of cell c are start[c] <= e < start[c + 1], with stratum[e] and q[e].
"""

import math

import numpy as np

from keyhole.kernels.cells import fill_cell, multiply_levels
from keyhole.kernels.distributions import draw_binomial
from keyhole.kernels.jit import kernel
from keyhole.kernels.lanes import LANES
from keyhole.kernels.partitions import add_products
from keyhole.kernels.records import integrate
from keyhole.kernels.risk import convolve, match_variance, tilt


@kernel
def mixture_strata(weight, level_profile, row, stratum, out):
    """Write the probability of each cell within each stratum, given that all answers of a person are at one table.

    row : (cells, f), sets; stratum : (S, K), the probability of each stratum under each profile; out : (cells, S).
    """
    profiles = weight.shape[0]
    product = np.empty(profiles)
    for i in range(row.shape[0]):
        multiply_levels(row, i, weight, level_profile, product)
        for s in range(stratum.shape[0]):
            total = 0.0
            for k in range(profiles):
                total += product[k] * stratum[s, k]
            out[i, s] = total


@kernel
def strata_probabilities(weight, level_profile, profiles, eppf, row, stratum, work, out):
    """Write the probability of each cell within each stratum; as in mixture_strata, work for f + 1 variables."""
    cells, variables = row.shape[0], row.shape[1] + 1
    partitions, half = work.partitions, 1 << (variables - 1)
    tilted = np.empty(profiles)
    for first in range(0, cells, LANES):
        lanes = min(LANES, cells - first)
        for lane in range(lanes):
            fill_cell(row, first + lane, lane, weight, profiles, level_profile, work, 1, 0)
        work.sums[0, 0, :] = 1.0
        add_products(
            partitions, partitions.without_first[1], partitions.without_first[half], work.block, work.sums, work.sums, 0
        )
        for s in range(stratum.shape[0]):
            for k in range(profiles):
                tilted[k] = weight[k] * stratum[s, k]
            for lane in range(lanes):
                fill_cell(row, first + lane, lane, tilted, profiles, level_profile, work, 1, 1)
            add_products(
                partitions, partitions.with_first[half - 1], partitions.with_first[half], work.block, work.sums,
                work.total, (half - 1) * work.sums.shape[1],
            )  # fmt: skip
            for lane in range(lanes):
                value = 0.0
                for b in range(variables):
                    value += eppf[variables, b + 1] * work.total[b, lane]
                out[first + lane, s] = value


@kernel
def measure_strata(q, start, stratum, people, r1, r2):
    """Write r1 and r2 of every cell; return E(tau1 | draw), E(tau2 | draw), and their variances given the draw."""
    with1, with2 = np.zeros(people.shape[0]), np.zeros(people.shape[0])
    sum1, sum2, variance1, variance2 = 0.0, 0.0, 0.0, 0.0
    for c in range(start.shape[0] - 1):
        entries, entry, expected = 0, 0, 0.0
        for e in range(start[c], start[c + 1]):
            if q[e] > 0.0:
                entries, entry = entries + 1, e
                expected += people[stratum[e]] * q[e]
        if entries == 0:
            r1[c], r2[c] = 1.0, 1.0
        elif entries == 1 and q[entry] < 1.0:
            others = people[stratum[entry]]
            log_other = math.log1p(-q[entry])
            r1[c] = math.exp(others * log_other)
            r2[c] = -math.expm1((others + 1.0) * log_other) / ((others + 1.0) * q[entry])
            variance2 += match_variance(r2[c], expected, others)
        else:
            r1[c], r2[c], square = integrate(1, q, stratum, start[c], start[c + 1], people)
            variance2 += max(square - r2[c] * r2[c], 0.0)
        sum1 += r1[c]
        sum2 += r2[c]
        variance1 += r1[c] * (1.0 - r1[c])
        for e in range(start[c], start[c + 1]):
            if q[e] > 0.0:
                own = people[stratum[e]] * q[e]
                with1[stratum[e]] += own * r1[c]
                with2[stratum[e]] += own / expected * (1.0 - r2[c] * (1.0 + expected))
    for s in range(people.shape[0]):
        variance1 -= with1[s] * with1[s] / people[s]
        variance2 -= with2[s] * with2[s] / people[s]
    return sum1, sum2, max(variance1, 0.0), max(variance2, 0.0)


@kernel
def draw_strata_matches(rng, q, start, stratum, people):
    """Draw how many of the unseen people are in each cell; return tau1 and tau2 of that population.

    The counts of each stratum are one multinomial: each cell is binomial given those before it.
    """
    left = people.copy()
    rest = np.ones(people.shape[0])
    tau1, tau2 = 0.0, 0.0
    for c in range(start.shape[0] - 1):
        count = 0
        for e in range(start[c], start[c + 1]):
            s = stratum[e]
            found = draw_binomial(rng, left[s], q[e] / rest[s]) if rest[s] > 0.0 else 0
            left[s] -= found
            rest[s] -= q[e]
            count += found
        if count == 0:
            tau1 += 1.0
        tau2 += 1.0 / (1.0 + count)
    return tau1, tau2


@kernel
def fill_strata_law(r1, variance, law):
    """Write P(tau1 = t | draw) to law[t], as fill_law in risk.py, with the variance that measure_strata returns."""
    first, last, mean, whole = convolve(r1, law)
    if 0.0 < variance < whole:
        tilt(law, first, last, mean, math.sqrt(whole - variance), whole * variance)
    else:
        tilt(law, first, last, mean, 0.0, 1.0)
    return first, last + 1
