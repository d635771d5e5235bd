"""From cell probabilities to risks (docs/model.md section 8).

With q the probability of a cell among possible people and M unseen people,
    r1 = (1 - q)^M,   r2 = E 1 / (1 + Binomial(M, q)) = (1 - (1 - q)^(M + 1)) / ((M + 1) q).
q may be 1e-12 and M 1e9, so everything goes through log1p and expm1.

The counts X_c of unseen people in the cells of the sample uniques are one multinomial. If they were independent, tau1
would be a sum of independent indicators with probabilities r1, and its distribution a convolution. They are distributed
as independent Poisson counts given that all counts sum to M. That condition has probability about
exp(-(t - mean)^2 b^2 / (2 s^2)) at tau1 = t, where b = -S / v is the regression of the number of unseen people in these
cells on tau1, S = sum lambda r1, lambda = M q, v = sum r1 (1 - r1), and s^2 = M - S^2 / v the residual variance. The
distribution of tau1 is the convolution times this factor, and its variance is v - S^2 / M. In the same way
    Var tau2 = sum Var 1/(1 + X) - (sum Cov(1/(1 + X), X))^2 / M,   Cov = 1 - r2 (1 + lambda).
lambda is recovered from r1, or from r2 where r1 is nearly zero, so that the stored risks suffice.
"""

import math

from keyhole.kernels.distributions import draw_binomial
from keyhole.kernels.jit import inner, kernel

NEGLIGIBLE = 1e-18
"""Probabilities at the ends of a distribution that are cut off."""

SMALLEST_R1 = 1e-30
LARGE = 50.0
"""Expected people in a cell above which the variance of 1/(1 + X) is that of its tangent; it is then below 1e-5."""


@kernel
def fill_risks(probability, people, r1, r2):
    """Write r1 and r2 of every cell; return their sums, E(tau1 | draw) and E(tau2 | draw)."""
    sum1, sum2 = 0.0, 0.0
    for c in range(probability.shape[0]):
        q = min(probability[c], 1.0)
        if q <= 0.0 or people == 0:
            r1[c], r2[c] = 1.0, 1.0
        elif q >= 1.0:
            r1[c], r2[c] = 0.0, 1.0 / (people + 1.0)
        else:
            log_other = math.log1p(-q)
            r1[c] = math.exp(people * log_other)
            r2[c] = -math.expm1((people + 1.0) * log_other) / ((people + 1.0) * q)
        sum1 += r1[c]
        sum2 += r2[c]
    return sum1, sum2


@kernel
def draw_matches(rng, probability, people):
    """Draw how many of the unseen people are in each cell; return tau1 and tau2 of that population.

    The counts are one multinomial: each cell is binomial given those before it.
    """
    tau1, tau2 = 0.0, 0.0
    left = people
    rest = 1.0
    for c in range(probability.shape[0]):
        count = draw_binomial(rng, left, probability[c] / rest) if rest > 0.0 else 0
        left -= count
        rest -= probability[c]
        if count == 0:
            tau1 += 1.0
        tau2 += 1.0 / (1.0 + count)
    return tau1, tau2


@kernel
def count_matches(count, r1, r2):
    """Write 1 (count = 0) and 1 / (1 + count) for counts of a simulated population; return their sums."""
    tau1, tau2 = 0.0, 0.0
    for c in range(count.shape[0]):
        r1[c] = 1.0 if count[c] == 0 else 0.0
        r2[c] = 1.0 / (1.0 + count[c])
        tau1 += r1[c]
        tau2 += r2[c]
    return tau1, tau2


@inner
def expected_others(r1, r2, people):
    """Return lambda = M q, the unseen people expected in a cell, from the risks of its record."""
    if r1 > SMALLEST_R1:
        return -people * math.expm1(math.log(r1) / people)
    return people / ((people + 1.0) * r2)


@inner
def match_variance(r2, others, people):
    """Return the variance of 1/(1 + X), X ~ Binomial(M, lambda / M)."""
    q = others / people
    if q >= 1.0:
        return 0.0
    if others > LARGE:
        return others * (1.0 - q) / (1.0 + others) ** 4
    term = math.exp(people * math.log1p(-q))
    square, count = term, 0.0
    while count < people and (count < others or term > NEGLIGIBLE):
        term *= (people - count) / (count + 1.0) * q / (1.0 - q)
        count += 1.0
        square += term / (1.0 + count) ** 2
    return max(square - r2 * r2, 0.0)


@kernel
def find_variances(r1, r2, people):
    """Return the variances of tau1 and tau2 given a draw."""
    variance1, variance2, with1, with2 = 0.0, 0.0, 0.0, 0.0
    if people == 0:
        return 0.0, 0.0
    for c in range(r1.shape[0]):
        others = expected_others(r1[c], r2[c], people)
        variance1 += r1[c] * (1.0 - r1[c])
        variance2 += match_variance(r2[c], others, people)
        with1 += others * r1[c]
        with2 += 1.0 - r2[c] * (1.0 + others)
    return max(variance1 - with1 * with1 / people, 0.0), max(variance2 - with2 * with2 / people, 0.0)


@inner
def convolve(r1, law):
    """Write the distribution of a sum of independent indicators; return its first and last value, mean and variance."""
    law[:] = 0.0
    law[0] = 1.0
    first, last = 0, 0
    mean, variance = 0.0, 0.0
    for c in range(r1.shape[0]):
        yes = r1[c]
        if yes <= NEGLIGIBLE:
            continue
        no = 1.0 - yes
        last += 1
        for t in range(last, first, -1):
            law[t] = law[t] * no + law[t - 1] * yes
        law[first] *= no
        while law[first] < NEGLIGIBLE and first < last:
            law[first] = 0.0
            first += 1
        while law[last] < NEGLIGIBLE and last > first:
            law[last] = 0.0
            last -= 1
        mean += yes
        variance += yes * no
    return first, last, mean, variance


@inner
def tilt(law, first, last, mean, factor, divisor):
    """Multiply a distribution by exp(-(t - mean)^2 factor^2 / (2 divisor)), and divide it by its sum."""
    total = 0.0
    for t in range(first, last + 1):
        law[t] *= math.exp(-0.5 * (t - mean) ** 2 * factor * factor / divisor)
        total += law[t]
    for t in range(first, last + 1):
        law[t] /= total


@kernel
def fill_law(r1, r2, people, law):
    """Write P(tau1 = t | draw) to law[t]; it is positive for first <= t < last. Return first and last."""
    first, last, mean, variance = convolve(r1, law)
    together = 0.0
    for c in range(r1.shape[0]):
        if r1[c] > NEGLIGIBLE:
            together += expected_others(r1[c], r2[c], people) * r1[c]
    left = variance * people - together * together
    if left > 0.0 and variance > 0.0:
        tilt(law, first, last, mean, together, variance * left)
    else:
        tilt(law, first, last, mean, 0.0, 1.0)
    return first, last + 1
