"""Elementary draws against exact distributions, at level 1e-6 for each test."""

import math

import numba
import numpy as np
import pytest
from scipy.special import gammainc, gammaln
from scipy.stats import beta, chi2, kstest

from keyhole.kernels import distributions as draws

LEVEL = 1e-6


@numba.njit
def many_log_gammas(rng, shape, out):
    for x in range(len(out)):
        out[x] = draws.draw_log_gamma(rng, shape)


@numba.njit
def many_log_betas(rng, a, b, out):
    for x in range(len(out)):
        out[x] = draws.draw_log_beta(rng, a, b)


@numba.njit
def many_dirichlets(rng, shape, out):
    for x in range(len(out)):
        draws.draw_dirichlet(rng, shape, out[x])


@numba.njit
def many_categories(rng, weight, out):
    for x in range(len(out)):
        out[x] = draws.draw_categorical(rng, weight, len(weight))


@numba.njit
def many_multinomials(rng, total, weight, out):
    suffix = np.empty(len(weight) + 1)
    for x in range(len(out)):
        draws.draw_multinomial(rng, total, weight, len(weight), out[x], suffix)


@numba.njit
def many_table_counts(rng, customers, concentration, out):
    for x in range(len(out)):
        out[x] = draws.draw_table_count(rng, customers, concentration)


def chi_square_p(observed, probability):
    """Pearson's test; cells with fewer than 10 expected are merged."""
    expected = probability * observed.sum()
    large = expected >= 10
    cells = [(o, e) for o, e in zip(observed[large], expected[large], strict=True)]
    if expected[~large].sum() >= 10:
        cells.append((observed[~large].sum(), expected[~large].sum()))
    statistic = sum((o - e) ** 2 / e for o, e in cells)
    return chi2.sf(statistic, len(cells) - 1)


def log_gamma_cdf(shape):
    """Distribution function of log G, exact also where G underflows: F(g) = g^s / Gamma(s + 1) for tiny g."""

    def cdf(log_g):
        small = log_g < -30.0
        tail = np.exp(np.where(small, shape * log_g, 0.0) - gammaln(shape + 1.0))
        return np.where(small, tail, gammainc(shape, np.exp(np.where(small, 0.0, log_g))))

    return cdf


@pytest.mark.parametrize("shape", [1e-8, 1e-5, 1e-3, 0.1, 0.7, 1.0, 1.5, 10.0, 1e3])
def test_log_gamma(rng, shape):
    out = np.empty(50_000)
    many_log_gammas(rng, shape, out)
    assert np.isfinite(out).all()
    assert kstest(out, log_gamma_cdf(shape)).pvalue > LEVEL


def test_another_shape_is_noticed(rng):
    """Negative control: a shape 8 % off."""
    out = np.empty(50_000)
    many_log_gammas(rng, 0.1, out)
    assert kstest(out, log_gamma_cdf(0.108)).pvalue < LEVEL


@pytest.mark.parametrize(("a", "b"), [(1e-3, 2.0), (0.4, 0.3), (1.0, 1.0), (3.5, 40.0), (900.0, 2.0)])
def test_log_beta(rng, a, b):
    out = np.empty(20_000)
    many_log_betas(rng, a, b, out)
    assert (out <= 0.0).all()
    # Below 1e-250 the beta is a power: F(x) = x^a / (a B(a, b)).
    log_norm = math.log(a) + gammaln(a) + gammaln(b) - gammaln(a + b)

    def cdf(log_x):
        tiny = log_x < -500.0
        return np.where(tiny, np.exp(a * log_x - log_norm), beta.cdf(np.exp(np.maximum(log_x, -500.0)), a, b))

    assert kstest(out, cdf).pvalue > LEVEL


@pytest.mark.parametrize("shape", [(1.0, 1.0, 1.0), (0.2, 3.0, 0.7), (1e-8, 1e-8, 2e-8), (500.0, 2.0, 0.01)])
def test_dirichlet(rng, shape):
    shape = np.array(shape)
    out = np.empty((20_000, 3))
    many_dirichlets(rng, shape, out)
    assert np.abs(out.sum(axis=1) - 1.0).max() < 1e-12
    if shape.max() < 1e-6:
        # All the mass on one category, in proportion to the shapes.
        observed = np.bincount(out.argmax(axis=1), minlength=3)
        assert chi_square_p(observed, shape / shape.sum()) > LEVEL
        return
    for x in range(3):
        # A margin is Beta; its atom of underflowed zeros has the probability below the smallest number.
        positive = out[out[:, x] > 1e-300, x]
        law = beta(shape[x], shape.sum() - shape[x])
        below = law.cdf(1e-300)
        assert kstest(positive, lambda y, law=law, below=below: (law.cdf(y) - below) / (1 - below)).pvalue > LEVEL


def test_dirichlet_in_place(rng):
    """shape and out may be one array."""
    shape = np.array([0.5, 1.5, 2.5])
    one, other = np.empty(3), shape.copy()
    seed = int(rng.integers(2**32))
    draws.draw_dirichlet(np.random.default_rng(seed), shape, one)
    draws.draw_dirichlet(np.random.default_rng(seed), other, other)
    assert one.tolist() == other.tolist()


def test_categorical(rng):
    weight = np.array([0.0, 2.0, 0.0, 1.0, 5.0, 0.0])
    out = np.empty(50_000, np.int64)
    many_categories(rng, weight, out)
    observed = np.bincount(out, minlength=6)
    assert observed[weight == 0.0].sum() == 0
    assert chi_square_p(observed[weight > 0], weight[weight > 0] / weight.sum()) > LEVEL


def test_multinomial(rng):
    """All outcomes of 4 balls in 3 urns, one of them closed."""
    weight = np.array([1.0, 0.0, 3.0, 2.0])
    out = np.empty((50_000, 4), np.int64)
    many_multinomials(rng, 4, weight, out)
    assert (out.sum(axis=1) == 4).all()
    assert (out[:, 1] == 0).all()
    outcomes = [(a, b, 4 - a - b) for a in range(5) for b in range(5 - a)]
    probability = np.array(
        [
            math.factorial(4) / math.prod(map(math.factorial, o)) * (1 / 6) ** o[0] * 0.5 ** o[1] * (1 / 3) ** o[2]
            for o in outcomes
        ]
    )
    observed = np.array([(out[:, [0, 2, 3]] == o).all(axis=1).sum() for o in outcomes])
    assert chi_square_p(observed, probability) > LEVEL


def table_count_law(customers, concentration):
    """Exact: convolution of Bernoulli(c / (c + i)), that is unsigned Stirling numbers times c^m / (c)_n."""
    law = np.array([1.0])
    for i in range(customers):
        p = concentration / (concentration + i)
        law = np.append(law * (1 - p), 0.0) + np.append(0.0, law * p)
    return law


@pytest.mark.parametrize("customers", [0, 1, 2, 7, 8, 9, 10, 30, 200])
@pytest.mark.parametrize("concentration", [0.05, 1.0, 6.0, 80.0])
def test_table_count(rng, customers, concentration):
    law = table_count_law(customers, concentration)
    out = np.empty(30_000, np.int64)
    many_table_counts(rng, customers, concentration, out)
    observed = np.bincount(out, minlength=customers + 1)
    assert observed[law < 1e-300].sum() == 0
    if (law * len(out) >= 10).sum() > 1:
        assert chi_square_p(observed, law) > LEVEL


def test_another_concentration_is_noticed(rng):
    """Negative control: the article's alpha_0 in place of alpha_i, here 10 % off."""
    out = np.empty(30_000, np.int64)
    many_table_counts(rng, 200, 6.6, out)
    assert chi_square_p(np.bincount(out, minlength=201), table_count_law(200, 6.0)) < LEVEL


def test_table_count_of_tiny_concentrations(rng):
    """One table, and no overflow, compiled or not."""
    function = getattr(draws.draw_table_count, "py_func", draws.draw_table_count)
    for concentration in (1e-300, 1e-8, 1e-4):
        assert function(rng, 1_000, concentration) == 1


@pytest.mark.parametrize("steps", [0, 1, 2, 8, 9, 1000])
@pytest.mark.parametrize("start", [1e-6, 0.3, 5.0, 4e3])
def test_log_rising(start, steps):
    expected = math.fsum(math.log(start + i) for i in range(steps))
    assert draws.log_rising(start, steps) == pytest.approx(expected, rel=1e-11, abs=1e-11)
