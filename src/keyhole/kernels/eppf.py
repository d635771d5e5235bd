"""The EPPF weight V(f, m): prior weight of a seating of f answers at m tables (docs/model.md section 3).

One concentration for all records (`mixed`): V(f, m) = alpha^m Gamma(alpha) / Gamma(alpha + f).
One for each record, integrated out (`hdp`): V(f, m) = E[the same] over alpha ~ Gamma(a, b), that is
    V(f, m) = b^a / Gamma(a) * integral of alpha^(a + m - 2) exp(-b alpha) / ((alpha + 1) ... (alpha + f - 1)).
The integral is computed for the largest f only; the others follow from V(f, m) = f V(f + 1, m) + V(f + 1, m + 1).

Quadrature: alpha = exp(u), u = t - exp(-t), which turns the slow left tail alpha^a of a small a into a
double-exponential one, then the trapezoidal rule over the t at which the integrand is not negligible.
"""

import math

from keyhole.kernels.jit import inner, kernel


@inner
def log_integrand(u, shape, rate, answers, tables):
    """Return the log of the integrand in u = log alpha, up to a constant."""
    alpha = math.exp(u)
    product = 1.0
    for i in range(1, answers):
        product *= alpha + i
    return (shape + tables - 1.0) * u - rate * alpha - math.log(product)


@inner
def find_mode(shape, rate, answers, tables):
    """Return the u at which the integrand is largest, by bisection on its slope (it is log-concave in u)."""
    low, high = -800.0, math.log((shape + tables) / rate) + 1.0
    for _ in range(60):
        u = 0.5 * (low + high)
        alpha = math.exp(u)
        slope = shape + tables - 1.0 - rate * alpha
        for i in range(1, answers):
            slope -= alpha / (alpha + i)
        if slope > 0.0:
            low = u
        else:
            high = u
        if high - low < 0.01:
            break
    return 0.5 * (low + high)


@inner
def find_edge(shape, rate, answers, tables, mode, direction):
    """Return a u on one side of the mode (direction: -1 or 1) at which the integrand is below exp(-42) of its peak."""
    peak = log_integrand(mode, shape, rate, answers, tables)
    step = direction * 0.05
    while log_integrand(mode + step, shape, rate, answers, tables) > peak - 42.0 and abs(step) < 2000.0:
        step *= 1.5
    return mode + step


@inner
def invert_stretch(u):
    """Return t with t - exp(-t) = u, by Newton's method."""
    t = u if u > 0.0 else -math.log1p(-u)
    for _ in range(30):
        decay = math.exp(-t)
        change = (t - decay - u) / (1.0 + decay)
        t -= change
        if abs(change) < 1e-10:
            break
    return t


@inner
def shorten(eppf):
    """Fill the rows of smaller f from the last row."""
    longest = eppf.shape[0] - 1
    for f in range(longest - 1, 0, -1):
        for m in range(1, f + 1):
            eppf[f, m] = f * eppf[f + 1, m] + eppf[f + 1, m + 1]


@kernel
def fill_random_alpha_eppf(shape, rate, eppf):
    """Fill V(f, m) = eppf[f, m] for alpha ~ Gamma(shape, rate)."""
    answers = eppf.shape[0] - 1
    eppf[:, :] = 0.0
    left = find_edge(shape, rate, answers, 1, find_mode(shape, rate, answers, 1), -1.0)
    right = find_edge(shape, rate, answers, answers, find_mode(shape, rate, answers, answers), 1.0)
    first, last = invert_stretch(left), invert_stretch(right)
    nodes = 128
    gap = (last - first) / (nodes - 1)
    peak = log_integrand(find_mode(shape, rate, answers, 1), shape, rate, answers, 1)
    for x in range(nodes):
        t = first + x * gap
        decay = math.exp(-t)
        u = t - decay
        alpha = math.exp(u)
        term = math.exp(log_integrand(u, shape, rate, answers, 1) - peak) * (1.0 + decay)
        for m in range(1, answers + 1):
            eppf[answers, m] += term
            term *= alpha
    shorten(eppf)
    # The constant b^a / Gamma(a), the peak and the gap cancel: V(1, 1) = 1.
    scale = 1.0 / eppf[1, 1]
    for f in range(1, answers + 1):
        for m in range(1, f + 1):
            eppf[f, m] *= scale


@kernel
def fill_fixed_alpha_eppf(alpha, eppf):
    """Fill V(f, m) = eppf[f, m] for a given alpha."""
    answers = eppf.shape[0] - 1
    eppf[:, :] = 0.0
    for f in range(1, answers + 1):
        value = 1.0
        for i in range(1, f):
            value /= alpha + i
        for m in range(1, f + 1):
            eppf[f, m] = value
            value *= alpha
