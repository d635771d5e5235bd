"""lambda_j and pi_j under the rules, with the rows of all profiles in tow, the impossible people integrated out.

Given its rows the base of a variable moves by what K profiles leave open, and given the base so do the rows: where only
impossible people have a level the two creep along together (levels.py, glide.py). Here they move at once. Levels that
no rule tells apart form a class. For the classes c of variable j, b_c = lambda_j pi_jc, d_c levels in class c, and
shapes a_kc = b_c + N_kc, the density is
    Normal(log lambda_j | log d_j, strength_sd^2) prod_c pi_jc^d_c        in the coordinates log b_c
    prod_k DirichletMultinomial(N_kj | lambda_j pi_j) Dirichlet(theta_kj | lambda_j pi_j + N_kj)
    prod_k beta_k^m_k R^gamma (1 - p_0)^-n                                in log (beta_k / R), R the weight of the rest
One b_c is shifted on the log scale, or all of them together. With T_k ~ Gamma(sum_c a_kc), which is made and forgotten,
the sums over classes times T_k are independent gammas G, and each goes to where its new shape a' has it:
    log G' = psi(a') + (log G - psi(a)) (psi_1(a') / psi_1(a))^(1/2).
How a class is shared among its levels does not matter for p_0: it is drawn anew. Half of the time the weights move
against the rows, beta_k times s_k / s'_k, s_k the probability that answers of profile k alone are possible.
"""

import math

from keyhole.kernels.draws import draw_log_gamma, log_rising
from keyhole.kernels.jit import inner

SMALLEST_SHAPE = 1e-8
SMALL_STEP, STEP_RANGE = -2.0, 2.5
"""Steps of log b have a standard deviation between exp(-2) and exp(0.5), its own logarithm uniform."""
LOWEST = -690.0
"""Logarithm of the smallest probability whose value is used; below, only that it is smaller is."""


@inner
def digamma(x):
    """Return psi(x), x > 0."""
    value = 0.0
    while x < 6.0:
        value -= 1.0 / x
        x += 1.0
    y = 1.0 / (x * x)
    return value + math.log(x) - 0.5 / x - y * (1.0 / 12.0 - y * (1.0 / 120.0 - y * (1.0 / 252.0 - y / 240.0)))


@inner
def trigamma(x):
    """Return psi_1(x), x > 0."""
    value = 0.0
    while x < 6.0:
        value += 1.0 / (x * x)
        x += 1.0
    y = 1.0 / (x * x)
    return value + 1.0 / x + 0.5 * y + y / x * (1.0 / 6.0 - y * (1.0 / 30.0 - y * (1.0 / 42.0 - y / 30.0)))


@inner
def fill_carriage(shape, new_shape, out, c):
    """Write how log gammas of this shape are carried to the new one: psi(a), psi(a'), and the ratio of spreads."""
    out[0, c] = digamma(shape)
    out[1, c] = digamma(new_shape)
    out[2, c] = math.sqrt(trigamma(new_shape) / trigamma(shape))
    out[3, c] = math.log(out[2, c])


@inner
def propose_base(rng, first, last, level_class, strength, base_level, sd, base):
    """Shift log b of one class or of all; return lambda'_j, the log density that the prior gains, and the classes.

    Class c = first, first + 1, ... has b, b' and its number of levels in rows 0 to 2 of `base`; rows 3 to 6 say how
    log gammas of the shapes b are carried along, row 7 has lnGamma(b) - lnGamma(b'). lambda'_j is 0 if the move cannot
    be made.
    """
    classes = 0
    base[0, first:last] = 0.0
    base[2, first:last] = 0.0
    for v in range(first, last):
        c = level_class[v]
        classes = max(classes, c + 1)
        base[0, first + c] += strength * base_level[v]
        base[2, first + c] += 1.0
    step = math.exp(SMALL_STEP + STEP_RANGE * rng.random()) * rng.standard_normal()
    chosen = int(rng.random() * (classes + 1))
    new_strength = 0.0
    for c in range(first, first + classes):
        moves = c == first + chosen or chosen == classes
        base[1, c] = base[0, c] * (math.exp(step) if moves else 1.0)
        if not (base[0, c] > SMALLEST_SHAPE and SMALLEST_SHAPE < base[1, c] < 1.0 / SMALLEST_SHAPE):
            return 0.0, 0.0, 0
        new_strength += base[1, c]
    before, after = math.log(strength / (last - first)) / sd, math.log(new_strength / (last - first)) / sd
    gain = 0.5 * (before * before - after * after)
    for c in range(first, first + classes):
        gain += base[2, c] * math.log(base[1, c] / base[0, c] * (strength / new_strength))
        fill_carriage(base[0, c], base[1, c], base[3:7], c)
        base[7, c] = math.lgamma(base[0, c]) - math.lgamma(base[1, c])
    return new_strength, gain, classes


@inner
def carry_row(
    rng, first, last, classes, level_class, strength, new_strength, base_level, base, level_count, level_profile, k, row
):  # fmt: skip
    """Write the row of profile k as it is carried along; return the log density gained.

    Beyond what propose_base wrote: rows 8 to 12 of `base` are scratch.
    """
    answers, several = 0, 0
    for c in range(first, first + classes):
        base[8, c] = 0.0
        base[9, c] = 0.0
    for v in range(first, last):
        base[8, first + level_class[v]] += level_profile[v, k]
        base[9, first + level_class[v]] += level_count[v, k]
        answers += level_count[v, k]
    for c in range(first, first + classes):
        several += base[9, c] > 0.0
    held = answers if several > 1 else 0
    log_total = draw_log_gamma(rng, strength + held)
    gain, largest, sum_of_terms = 0.0, -math.inf, 0.0
    for c in range(first, first + classes):
        x = log_total + LOWEST
        if base[8, c] > 0.0:
            x = log_total + math.log(base[8, c])
        if x <= log_total + LOWEST:
            x = log_total + LOWEST - rng.standard_exponential() / (base[0, c] + base[9, c])
        new_x = x
        if base[1, c] != base[0, c]:
            way = 3
            if held > 0 and base[9, c] > 0.0:
                fill_carriage(base[0, c] + base[9, c], base[1, c] + base[9, c], base[10:14], c)
                way = 10
            new_x = base[way + 1, c] + (x - base[way, c]) * base[way + 2, c]
            gain += base[way + 3, c] + base[7, c]
        if new_x > 600.0:
            return -math.inf
        gain += (base[1, c] + base[9, c]) * new_x - (base[0, c] + base[9, c]) * x
        base[8, c] = new_x
        largest = max(largest, new_x)
    for c in range(first, first + classes):
        sum_of_terms += math.exp(base[8, c] - largest)
    new_log_total = largest + math.log(sum_of_terms)
    gain += (held - answers) * (new_log_total - log_total) - math.exp(new_log_total) + math.exp(log_total)
    gain += log_rising(strength, held) - log_rising(new_strength, held)
    for c in range(first, first + classes):
        top, within = -math.inf, 0.0
        ratio = base[1, c] / base[0, c]
        if base[9, c] > 0.0 and ratio != 1.0:
            gain += log_rising(base[0, c], int(base[9, c])) - log_rising(base[1, c], int(base[9, c]))
        share = math.exp(base[8, c] - new_log_total)
        for v in range(first, last):
            if first + level_class[v] == c:
                shape = strength * base_level[v]
                count = level_count[v, k]
                if count > 0 and ratio != 1.0:
                    gain += log_rising(ratio * shape, count) - log_rising(shape, count)
                row[v, k] = draw_log_gamma(rng, ratio * shape + count) if base[2, c] > 1.0 else 0.0
                top = max(top, row[v, k])
        for v in range(first, last):
            if first + level_class[v] == c:
                row[v, k] = math.exp(row[v, k] - top)
                within += row[v, k]
        for v in range(first, last):
            if first + level_class[v] == c:
                row[v, k] *= share / within
    return gain


@inner
def fill_sets(rules, j, row, profiles, set_factor):
    """Fill the probability of every set of levels of variable j under every profile."""
    for s in range(rules.set_variable.shape[0]):
        if rules.set_variable[s] == j:
            set_factor[s, :profiles] = 0.0
            for x in range(rules.set_start[s], rules.set_start[s + 1]):
                for k in range(profiles):
                    set_factor[s, k] += row[rules.set_level[x], k]


