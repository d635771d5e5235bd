"""The risk of every record (docs/model.md section 14).

A record in a cell with f records has F = f + X people, X = sum over strata s of independent Binomial(M_s, q_s):
    E 1/F = integral over t in (0, 1) of t^{f-1} G(t) dt,   G(t) = prod_s (1 - (1 - t) q_s)^{M_s},
    E 1/F^2 = integral of -log(t) t^{f-1} G(t) dt.
1 - t runs from 0 to W = min(1, 40 / R), R = f - 1 + sum_s M_s q_s, beyond which the integrand is below 1e-17, as
W (1 - u^2) at Gauss-Legendre nodes u, which are dense where -log(t) is singular. With f = 1 and people of one stratum
only there is a closed form, that of r2. A simple random sample is one stratum.

P(F < k) = P(X < k - f), by terms of the binomials, convolved over strata.

The counts of stratum s in all cells sum to at most M_s, which reduces the variance of a sum over records of h(F) by
    sum_s (sum_c f Cov(h, X_s))^2 / M_s,
Cov(h, X_s) being the share of s in E X, times Cov(h, X): 1 - (f + E X) E 1/F for 1/F, and
E(X; F < k) - P(F < k) E X for F < k (kernels/risk.py).

Entries are listed by cell: those of cell c are start[c] <= e < start[c + 1], with stratum[e] and q[e].
"""

import math

import numpy as np

from keyhole.kernels.jit import inner, kernel
from keyhole.kernels.risk import NEGLIGIBLE, tilt

REACH = 40.0
"""Expected people up to which the whole of (0, 1) is integrated over."""

LARGE = 50.0
"""Expected people in a cell above which the variance of 1/F is that of its tangent: the difference of the two moments
would lose its digits, and the tangent is off by less than a tenth."""

_NODE, _SHARE = np.polynomial.legendre.leggauss(32)
NODE = 1.0 - (0.5 * (_NODE + 1.0)) ** 2
SHARE = 0.5 * (_NODE + 1.0) * _SHARE
"""Nodes x = 1 - u^2 in (0, 1) and their weights 2 u w."""


@inner
def integrate(size, q, stratum, first, last, people):
    """Return P(X = 0), E 1/F and E 1/F^2 of a cell of `size` records with these entries; E X must be positive."""
    expected, log_none = 0.0, 0.0
    for e in range(first, last):
        expected += people[stratum[e]] * q[e]
        log_none += people[stratum[e]] * (math.log1p(-q[e]) if q[e] < 1.0 else -math.inf)
    width = min(1.0, REACH / (size - 1.0 + expected))
    none = math.exp(log_none)
    rest = none if width == 1.0 and size == 1 else 0.0
    match, square = 0.0, 0.0
    for i in range(NODE.shape[0]):
        x = width * NODE[i]
        exponent = (size - 1.0) * math.log1p(-x)
        for e in range(first, last):
            exponent += people[stratum[e]] * math.log1p(-q[e] * x)
        value = math.exp(exponent)
        match += SHARE[i] * value
        # Without its value at t = 0 the integrand is smooth there.
        square -= SHARE[i] * (value - rest) * math.log1p(-x)
    return none, width * match, width * square + rest


@inner
def fill_binomial(q, people, terms, law):
    """Write P(X = x) for x < terms, X ~ Binomial(people, q)."""
    law[:terms] = 0.0
    if q >= 1.0:
        if people < terms:
            law[people] = 1.0
        return
    law[0] = math.exp(people * math.log1p(-q))
    odds = q / (1.0 - q)
    for x in range(1, min(terms - 1, people) + 1):
        law[x] = law[x - 1] * odds * (people - x + 1.0) / x


@inner
def fill_others(q, stratum, first, last, people, terms, law, own, before):
    """Write P(X = x) for x < terms, X the unseen people in a cell with these entries."""
    law[:terms] = 0.0
    law[0] = 1.0
    for e in range(first, last):
        if people[stratum[e]] * q[e] <= 0.0:
            continue
        fill_binomial(q[e], people[stratum[e]], terms, own)
        for x in range(terms):
            before[x] = law[x]
        for x in range(terms):
            law[x] = 0.0
            for y in range(x + 1):
                law[x] += before[y] * own[x - y]


@inner
def measure_match(size, q, stratum, first, last, people):
    """Return E 1/F, its variance, and E X of a cell."""
    entries, entry, expected, spread = 0, 0, 0.0, 0.0
    for e in range(first, last):
        if people[stratum[e]] * q[e] > 0.0:
            entries, entry = entries + 1, e
            expected += people[stratum[e]] * q[e]
            spread += people[stratum[e]] * q[e] * (1.0 - q[e])
    if entries == 0:
        return 1.0 / size, 0.0, 0.0
    _, match, square = integrate(size, q, stratum, first, last, people)
    if size == 1 and entries == 1 and q[entry] < 1.0:
        others = people[stratum[entry]] + 1.0
        match = -math.expm1(others * math.log1p(-q[entry])) / (others * q[entry])
    if size + expected > LARGE:
        return match, spread / (size + expected) ** 4, expected
    return match, max(square - match * match, 0.0), expected


@kernel
def measure_records(size, q, start, stratum, people, k, match, below, count_variance):
    """Write E 1/F of every cell, P(F < k) for every k, and the variance of the number of records with F < k.

    size : (cells,), f; k : ascending; match : (cells,); below : (cells, k). Return mean and variance of the sum of 1/F
    over all records.
    """
    strata, limits, longest = people.shape[0], k.shape[0], 0
    if limits > 0:
        longest = k[limits - 1]
    law, own, before = np.zeros(longest), np.zeros(longest), np.zeros(longest)
    with_match, with_count = np.zeros(strata), np.zeros((limits, strata))
    below[:] = 0.0
    count_variance[:] = 0.0
    mean, variance = 0.0, 0.0
    for c in range(size.shape[0]):
        records, first, last = size[c], start[c], start[c + 1]
        match[c], spread, expected = measure_match(records, q, stratum, first, last, people)
        mean += records * match[c]
        variance += records * records * spread
        if expected > 0.0:
            change = records * (1.0 - match[c] * (records + expected)) / expected
            for e in range(first, last):
                with_match[stratum[e]] += people[stratum[e]] * q[e] * change
        terms = longest - records
        if terms <= 0:
            continue
        fill_others(q, stratum, first, last, people, terms, law, own, before)
        total, part, x = 0.0, 0.0, 0
        for i in range(limits):
            while x < k[i] - records:
                total += law[x]
                part += x * law[x]
                x += 1
            if x == 0:
                continue
            below[c, i] = min(total, 1.0)
            count_variance[i] += records * records * below[c, i] * (1.0 - below[c, i])
            if expected > 0.0:
                change = records * (part - total * expected) / expected
                for e in range(first, last):
                    with_count[i, stratum[e]] += people[stratum[e]] * q[e] * change
    for s in range(strata):
        if people[s] > 0:
            variance -= with_match[s] * with_match[s] / people[s]
            for i in range(limits):
                count_variance[i] -= with_count[i, s] * with_count[i, s] / people[s]
    for i in range(limits):
        count_variance[i] = max(count_variance[i], 0.0)
    return mean, max(variance, 0.0)


@inner
def shift(law, first, last, size, no, yes):
    """Replace the distribution of T by that of T + size with probability yes, else T."""
    for t in range(last + size, first - 1, -1):
        value = law[t] * no if t <= last else 0.0
        if t - size >= first:
            value += law[t - size] * yes
        law[t] = value


@kernel
def fill_count_law(size, yes, variance, law):
    """Write to law[t] the distribution of a sum of counts, each `size` with probability `yes`, else 0.

    The counts are independent but for what reduces the variance to `variance`, as in fill_law of risk.py. law holds the
    sum of all sizes and one more. Return the first value and one after the last.
    """
    law[:] = 0.0
    law[0] = 1.0
    first, last, certain = 0, 0, 0
    mean, whole = 0.0, 0.0
    for c in range(size.shape[0]):
        if yes[c] <= NEGLIGIBLE:
            continue
        no = 1.0 - yes[c]
        if no <= NEGLIGIBLE:
            certain += size[c]
            continue
        mean += size[c] * yes[c]
        whole += size[c] * size[c] * yes[c] * no
        shift(law, first, last, size[c], no, yes[c])
        last += size[c]
        while law[first] < NEGLIGIBLE and first < last:
            law[first] = 0.0
            first += 1
        while law[last] < NEGLIGIBLE and last > first:
            law[last] = 0.0
            last -= 1
    if 0.0 < variance < whole:
        tilt(law, first, last, mean, math.sqrt(whole - variance), whole * variance)
    else:
        tilt(law, first, last, mean, 0.0, 1.0)
    if certain > 0:
        for t in range(last, first - 1, -1):
            law[t + certain] = law[t]
        law[first : min(first + certain, last + 1)] = 0.0
    return first + certain, last + certain + 1
