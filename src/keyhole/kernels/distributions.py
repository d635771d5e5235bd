"""Random draws that NumPy's generator lacks or that need care inside compiled code."""

import math

import numpy as np

from keyhole.kernels.jit import inner


@inner
def draw_log_gamma(rng, shape):
    """Draw log G, G ~ Gamma(shape, 1). In logarithms, since a G of shape 1e-8 nearly always underflows.

    For shape < 1: G = G' U^(1/shape) with G' ~ Gamma(shape + 1, 1).
    """
    if shape >= 1.0:
        return math.log(rng.standard_gamma(shape))
    return math.log(rng.standard_gamma(shape + 1.0)) - rng.standard_exponential() / shape


@inner
def draw_log_beta(rng, a, b):
    """Draw log B, B ~ Beta(a, b)."""
    log_x = draw_log_gamma(rng, a)
    log_y = draw_log_gamma(rng, b)
    if log_x > log_y:
        return -math.log1p(math.exp(log_y - log_x))
    return log_x - log_y - math.log1p(math.exp(log_x - log_y))


@inner
def draw_dirichlet(rng, shape, out):
    """Write one draw of Dirichlet(shape) to `out`; `shape` and `out` may be the same array."""
    size = shape.shape[0]
    largest = -np.inf
    for x in range(size):
        out[x] = draw_log_gamma(rng, shape[x])
        largest = max(largest, out[x])
    total = 0.0
    for x in range(size):
        out[x] = math.exp(out[x] - largest)
        total += out[x]
    for x in range(size):
        out[x] /= total


@inner
def draw_categorical(rng, weight, size):
    """Draw an index below `size` with probability proportional to weight."""
    total = 0.0
    for x in range(size):
        total += weight[x]
    u = rng.random() * total
    last = 0
    for x in range(size):
        if weight[x] > 0.0:
            last = x
            if u < weight[x]:
                return x
            u -= weight[x]
    return last


@inner
def draw_cumulative(rng, cumulative, size):
    """Draw an index with weights whose cumulative sums are given."""
    u = rng.random() * cumulative[size - 1]
    low, high = 0, size - 1
    while low < high:
        middle = (low + high) // 2
        if u < cumulative[middle]:
            high = middle
        else:
            low = middle + 1
    return low


@inner
def draw_binomial(rng, total, probability):
    """Draw Binomial(total, probability), even if rounding left the probability just outside [0, 1]."""
    if total <= 0 or probability <= 0.0:
        return 0
    if probability >= 1.0:
        return total
    return rng.binomial(total, probability)


@inner
def draw_multinomial(rng, total, weight, size, out, suffix):
    """Write Multinomial(total, weight / sum(weight)) to out[:size], `suffix` being scratch of that size.

    Each category is binomial given those before it. The remaining weights are summed from the end: subtracting from
    the total would lose the small ones.
    """
    rest = 0.0
    for x in range(size - 1, -1, -1):
        rest += weight[x]
        suffix[x] = rest
    left = total
    for x in range(size):
        out[x] = draw_binomial(rng, left, weight[x] / suffix[x]) if left > 0 and weight[x] > 0.0 else 0
        left -= out[x]


@inner
def draw_table_count(rng, customers, concentration):
    """Draw the number of tables of a Chinese restaurant: sum over i < customers of Bernoulli(c / (c + i)).

    From the 9th customer on, without a loop over customers: Bernoulli(c / (c + i)) indicates whether a Poisson process
    with mean log(1 + c / i) on (i - 1, i] has a point there. A process of rate c / x has mean
    c log(i / (i - 1)) >= log(1 + c / i) there; its points are generated one from the other and thinned.
    """
    tables = 0
    head = min(customers, 8)
    for i in range(head):
        if rng.random() * (concentration + i) < concentration:
            tables += 1
    log_x = math.log(7.0)
    counted = 7
    while customers > 8:
        log_x += rng.standard_exponential() / concentration
        if log_x > math.log(customers - 1.0):
            break
        i = math.ceil(math.exp(log_x))
        if i > counted:
            bound = concentration * -math.log1p(-1.0 / i)
            if rng.random() * bound < math.log1p(concentration / i):
                tables += 1
                counted = i
    return tables


@inner
def log_rising(start, steps):
    """Return log of start (start + 1) ... (start + steps - 1) = lnGamma(start + steps) - lnGamma(start)."""
    if steps == 0:
        return 0.0
    if steps <= 8:
        product = start
        for i in range(1, steps):
            product *= start + i
        return math.log(product)
    return math.lgamma(start + steps) - math.lgamma(start)
