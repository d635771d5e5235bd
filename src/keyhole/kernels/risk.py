"""From cell probabilities to risks (MODEL.md section 7).

With q the probability of a cell among possible people and M people outside the sample,
    r1 = (1 - q)^M,   r2 = E 1 / (1 + Binomial(M, q)) = (1 - (1 - q)^(M + 1)) / ((M + 1) q).
q may be 1e-12 and M 1e9: everything through log1p and expm1.
"""

import math

from keyhole.kernels.draws import draw_binomial
from keyhole.kernels.jit import kernel


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
    """Draw how many of the people outside the sample fall in each cell; return tau1 and tau2 of that population.

    The counts are one multinomial: a binomial for each cell given those before it.
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
