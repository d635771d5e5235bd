"""E 1/F, P(F < k) and the laws of sums over all records, against exact sums and simulated populations."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest

from keyhole.kernels.records import fill_count_law, measure_records
from keyhole.kernels.risk import fill_risks, find_variances
from keyhole.kernels.strata import measure_strata

Z = 4.5
K = np.array([2, 3, 5, 11, 20])
DIGITS = 60
NEGLIGIBLE = Decimal(10) ** -40


def measure(size, q, people, k=K):
    """Measure cells (cells, S) that may have people of every stratum; return match, below, sums and variances."""
    q = np.atleast_2d(np.asarray(q, float))
    cells, strata = q.shape
    match, below, spread = np.zeros(cells), np.zeros((cells, len(k))), np.zeros(len(k))
    start, stratum = np.arange(cells + 1) * strata, np.tile(np.arange(strata), cells)
    sums = measure_records(
        np.asarray(size), q.reshape(-1), start, stratum, np.asarray(people), np.asarray(k), match, below, spread
    )
    return match, below, sums, spread


def binomial_terms(people, q):
    """P(X = x), x = 0, 1, ..., to many digits, until no more is left."""
    q = Decimal(q)
    if q == 0:
        return [Decimal(1)]
    if q == 1:
        return [Decimal(0)] * people + [Decimal(1)]
    terms, most = [(Decimal(people) * (1 - q).ln()).exp()], people * q
    while len(terms) <= people and (len(terms) < most or terms[-1] > NEGLIGIBLE):
        x = len(terms)
        terms.append(terms[-1] * (people - x + 1) / x * q / (1 - q))
    return terms


def exact(size, q, people, k=K):
    """E 1/F, E 1/F^2, P(F < k), E(X; F < k) and E X, summed term by term."""
    with localcontext() as context:
        context.prec = DIGITS
        law = [Decimal(1)]
        for one, unseen in zip(q, people, strict=True):
            terms = binomial_terms(unseen, one)
            whole = [Decimal(0)] * (len(law) + len(terms) - 1)
            for x, a in enumerate(law):
                for y, b in enumerate(terms):
                    whole[x + y] += a * b
            law = whole
        first, second = (sum(p / (size + x) ** power for x, p in enumerate(law)) for power in (1, 2))
        below = [sum(law[: max(limit - size, 0)]) for limit in map(int, k)]
        part = [sum(x * p for x, p in enumerate(law[: max(limit - size, 0)])) for limit in map(int, k)]
        expected = sum(x * p for x, p in enumerate(law))
    return float(first), float(second), [float(p) for p in below], [float(p) for p in part], float(expected)


CASES = {
    "nobody else": ([0.0], [500]),
    "no unseen people": ([0.3], [0]),
    "everybody": ([1.0], [40]),
    "tiny": ([1e-12], [10**9]),
    "a few": ([3e-9], [10**9]),
    "some": ([0.02], [400]),
    "many": ([0.3], [1_000]),
    "two strata": ([0.01, 1e-6], [300, 10**6]),
    "certain in one": ([1.0, 0.0, 0.2], [4, 40, 9]),
    "four strata": ([1e-9, 0.02, 0.5, 1e-4], [10**9, 40, 6, 20_000]),
    "one of no people": ([0.1, 0.2], [0, 30]),
}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 19, 20, 150, 10_000])
@pytest.mark.parametrize("case", CASES)
def test_a_cell_by_direct_summation(case, size):
    q, people = CASES[case]
    match, below, sums, spread = measure([size], [q], people)
    first, second, fewer, part, expected = exact(size, q, people)
    assert match[0] == pytest.approx(first, rel=1e-13, abs=0)
    assert below[0] == pytest.approx(fewer, rel=1e-11, abs=1e-16)
    assert sums[0] == size * match[0]
    # What the fixed number of people of each stratum takes away, as the head of kernels/records.py says.
    means = [q_s * people_s for q_s, people_s in zip(q, people, strict=True)]
    taken = [mean**2 / people_s for mean, people_s in zip(means, people, strict=True) if people_s]
    fixed = [0.0, *np.zeros(len(K))]
    if expected:
        whole = size * (1.0 - first * (size + expected)) / expected
        counts = [size * (b - a * expected) / expected for a, b in zip(fewer, part, strict=True)]
        fixed = [sum(taken) * change**2 for change in (whole, *counts)]
    exact_sums = second - first**2 if second - first**2 > 1e-14 * second else 0.0
    # Above 50 people the tangent is taken.
    loose = {"rel": 0.12 if size + expected > 50 else 1e-5, "abs": 3e-13}
    assert sums[1] == pytest.approx(max(size**2 * exact_sums - fixed[0], 0.0), **loose)
    for i, a in enumerate(fewer):
        assert spread[i] == pytest.approx(max(size**2 * a * (1 - a) - fixed[i + 1], 0.0), rel=1e-8, abs=size**2 * 1e-14)


@pytest.mark.parametrize("people", [1, 1_000, 10**9])
def test_bounds_and_order(rng, people):
    """1 / (f + M q) <= E 1/F <= 1 / f (Jensen); more records or people mean less risk."""
    q = np.append(np.exp(-30.0 * rng.random(300)), [0.0, 1.0])
    last = np.full(len(q), np.inf)
    for size in (1, 2, 5, 30, 1_000, 10_000):
        match, below, _, _ = measure(np.full(len(q), size), q[:, None], [people])
        assert (match <= (1.0 + 1e-13) / size).all()
        assert (match >= (1.0 - 1e-13) / (size + people * q)).all()
        assert (match <= last * (1.0 + 1e-13)).all()
        assert (np.diff(below, axis=1) >= 0.0).all()
        assert ((below >= 0.0) & (below <= 1.0)).all()
        assert not below[:, size >= K].any()
        last = match


def test_one_record_in_one_stratum_is_r2_to_the_bit(rng):
    q = np.append(np.exp(-25.0 * rng.random(500)), 0.0)
    r1, r2 = np.zeros(501), np.zeros(501)
    expected = fill_risks(q, 700_000, r1, r2)
    match, below, sums, spread = measure(np.ones(501, int), q[:, None], [700_000])
    assert match.tolist() == r2.tolist()
    assert below[:, 0] == pytest.approx(r1, rel=1e-9, abs=1e-300)
    assert sums[0] == pytest.approx(expected[1], rel=1e-13)
    assert (spread[0], sums[1]) == pytest.approx(find_variances(r1, r2, 700_000), rel=1e-3)


def test_one_record_in_strata_is_r2_to_the_bit(rng):
    q = np.exp(-12.0 * rng.random((200, 3)))
    people = np.array([4_000, 10_000, 300])
    r1, r2 = np.zeros(200), np.zeros(200)
    start, stratum = np.arange(201) * 3, np.tile(np.arange(3), 200)
    found = measure_strata(q.reshape(-1), start, stratum, people, r1, r2)
    match, below, sums, spread = measure(np.ones(200, int), q, people)
    assert match.tolist() == r2.tolist()
    assert below[:, 0] == pytest.approx(r1, rel=1e-9, abs=1e-300)
    assert sums[0] == pytest.approx(found[1], rel=1e-13)
    assert (spread[0], sums[1]) == pytest.approx(found[2:], rel=1e-2)


def simulate(rng, size, q, people, rounds):
    """F of every cell in populations drawn from one multinomial for each stratum."""
    count = np.tile(np.asarray(size), (rounds, 1))
    for s, unseen in enumerate(people):
        count += rng.multinomial(unseen, [*q[:, s], 1.0 - q[:, s].sum()], size=rounds)[:, :-1]
    return count


@pytest.mark.parametrize("people", [[900], [300, 700, 90]])
def test_sums_over_records_follow_simulated_populations(rng, people):
    """Means, variances and laws; without what the fixed numbers of people take away, variances are too large."""
    rounds, cells = 40_000, 150
    size = rng.choice([1, 2, 3, 4, 9], cells, p=[0.5, 0.2, 0.1, 0.1, 0.1])
    q = rng.dirichlet(np.full(cells, 0.7), size=len(people)).T * 0.95
    _, below, sums, spread = measure(size, q, people)
    count = simulate(rng, size, q, people, rounds)
    matches = (size / count).sum(axis=1)
    assert abs(matches.mean() - sums[0]) < Z * matches.std() / math.sqrt(rounds)
    assert sums[1] == pytest.approx(matches.var(), rel=0.1)
    for i, k in enumerate(K.tolist()):
        fewer = ((count < k) * size).sum(axis=1)
        mean = float((size * below[:, i]).sum())
        assert abs(fewer.mean() - mean) < Z * fewer.std() / math.sqrt(rounds)
        # Counts are taken as Poisson given their sums, which is off by some per cent here.
        assert spread[i] == pytest.approx(fewer.var(), rel=0.07)
        if k == 11:
            assert ((size**2) * below[:, i] * (1 - below[:, i])).sum() > 1.08 * fewer.var()


def test_the_law_of_a_sum_of_counts():
    """Against the list of all outcomes, with certain and impossible ones among them."""
    size = np.array([1, 3, 2, 2, 7, 5, 1, 4])
    yes = np.array([0.3, 1.0, 0.0, 0.9, 1.0, 1e-3, 0.5, 0.2])
    law = np.zeros(size.sum() + 1)
    for chosen in np.ndindex(*[2] * len(size)):
        law[np.dot(chosen, size)] += np.prod(np.where(chosen, yes, 1.0 - yes))
    found = np.full(size.sum() + 1, np.nan)
    first, last = fill_count_law(size, yes, math.inf, found)
    assert found == pytest.approx(law, rel=1e-12, abs=1e-18)
    assert (first, last) == (10, 1 + np.flatnonzero(law)[-1])


def test_the_law_of_many_counts_is_cut_at_its_ends(rng):
    size, yes = rng.integers(1, 6, 3_000), rng.random(3_000)
    mean, variance = size @ yes, size**2 @ (yes * (1.0 - yes))
    law = np.zeros(size.sum() + 1)
    for wanted in (variance, 0.6 * variance):
        first, last = fill_count_law(size, yes, wanted, law)
        assert last - first < 24.0 * math.sqrt(variance)
        assert law.sum() == pytest.approx(1.0, abs=1e-12)
        assert law @ np.arange(len(law)) == pytest.approx(mean, rel=1e-3)
        assert law @ (np.arange(len(law)) - mean) ** 2 == pytest.approx(wanted, rel=0.01)
        assert not law[:first].any()
        assert not law[last:].any()


@pytest.mark.parametrize("wanted", [0, 3, 4])
def test_the_law_of_records_below_k_follows_simulated_populations(rng, wanted):
    """The whole distribution function, by the same multinomials."""
    rounds, cells, people = 40_000, 150, [900]
    size = rng.choice([1, 2, 3, 4, 9], cells, p=[0.5, 0.2, 0.1, 0.1, 0.1])
    q = rng.dirichlet(np.full(cells, 0.7), size=1).T * 0.95
    _, below, _, spread = measure(size, q, people)
    law = np.zeros(size.sum() + 1)
    fill_count_law(size, below[:, wanted], spread[wanted], law)
    fewer = ((simulate(rng, size, q, people, rounds) < K[wanted]) * size).sum(axis=1)
    counts = np.bincount(fewer, minlength=len(law)) / rounds
    assert np.abs(np.cumsum(law) - np.cumsum(counts)).max() < 0.02
