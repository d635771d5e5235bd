"""The predictive law against brute force: populations drawn one by one with NumPy's own multinomial."""

import math

import numpy as np
import pytest
from scipy import stats

from keyhole.diagnostics.laws import Law, count_laws, law_of_matches, law_of_uniques
from keyhole.diagnostics.series import monte_carlo_error
from keyhole.kernels.risk import fill_law, fill_risks, find_variances

POPULATIONS = 40_000

CASES = {
    "many uniques in a small population": (300, 600, 0.9),
    "few uniques": (5, 40, 0.6),
    "a large population": (400, 1_000_000, 0.001),
    "nobody is likely to be unique": (50, 10_000, 0.5),
    "a dozen unseen people": (20, 12, 0.5),
}


def make_cells(rng: np.random.Generator, uniques: int, share: float) -> np.ndarray:
    """Probabilities of the cells, of very different size, that hold this share of all people."""
    raw = rng.gamma(0.5, 1.0, uniques) + 1e-3
    return share * raw / raw.sum()


def simulate(rng: np.random.Generator, q: np.ndarray, people: int) -> tuple[np.ndarray, np.ndarray]:
    """tau1 and tau2 of many populations."""
    counts = rng.multinomial(people, [*q, 1.0 - q.sum()], size=POPULATIONS)[:, :-1]
    return (counts == 0).sum(axis=1).astype(float), (1.0 / (1.0 + counts)).sum(axis=1)


@pytest.fixture(params=CASES, name="case")
def find_case(request, rng):
    uniques, people, share = CASES[request.param]
    q = make_cells(rng, uniques, share)
    r1, r2 = np.zeros(uniques), np.zeros(uniques)
    fill_risks(q, people, r1, r2)
    return r1, r2, people, *simulate(rng, q, people)


def test_variances_are_those_of_multinomial_counts(case):
    r1, r2, people, tau1, tau2 = case
    for variance, drawn in zip(find_variances(r1, r2, people), (tau1, tau2), strict=True):
        centred = (drawn - drawn.mean()) ** 2
        error = centred.std() / math.sqrt(len(drawn))
        # Both formulas leave out terms of the order of one over the population.
        assert abs(variance - centred.mean()) < 5 * error + 0.02 * centred.mean() + 2.0 / people * centred.mean()


def test_the_law_of_tau1_is_that_of_simulated_populations(case):
    r1, r2, people, tau1, _ = case
    law = np.zeros(len(r1) + 1)
    first, last = fill_law(r1, r2, people, law)
    assert law.sum() == pytest.approx(1.0, abs=1e-12)
    assert (law[:first] == 0.0).all()
    assert (law[last:] == 0.0).all()
    below = np.cumsum(law)
    drawn = np.cumsum(np.bincount(tau1.astype(int), minlength=len(law))) / len(tau1)
    # Half a percent for the approximation, four times the largest error of a share for the simulation.
    allowed = 0.005 if people >= 40 else 0.02
    assert np.abs(below - drawn).max() < allowed + 4 * 0.5 / math.sqrt(len(tau1))
    # The negative control: indicators taken as independent are too spread out where cells hold most people.
    if people == 600:
        plain = np.zeros(len(r1) + 1)
        fill_law(r1, r2, 10**12, plain)
        assert np.abs(np.cumsum(plain) - drawn).max() > 0.015


def test_without_dependence_the_law_is_the_binomial():
    """Equal cells of a huge population: independent indicators, a binomial law."""
    r1 = np.full(80, 0.3)
    law = np.zeros(81)
    fill_law(r1, np.full(80, 0.5), 10**13, law)
    np.testing.assert_allclose(law, stats.binom.pmf(np.arange(81), 80, 0.3), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("others", [0.01, 0.3, 2.0, 30.0, 49.0, 80.0, 3_000.0])
@pytest.mark.parametrize("people", [200, 10**7])
def test_the_variance_of_one_match_is_that_of_a_binomial(others, people):
    if others > people:
        return
    q = np.array([others / people])
    r1, r2 = np.zeros(1), np.zeros(1)
    fill_risks(q, people, r1, r2)
    counts = np.arange(0, min(people, int(others + 40 * math.sqrt(others) + 60)) + 1)
    weight = stats.binom.pmf(counts, people, q[0])
    exact = (weight / (1.0 + counts) ** 2).sum() - (weight / (1.0 + counts)).sum() ** 2
    covariance = (weight * counts / (1.0 + counts)).sum() - (weight / (1.0 + counts)).sum() * others
    found = find_variances(r1, r2, people)[1]
    assert found == pytest.approx(exact - covariance**2 / people, rel=1e-6 if others < 50 else 0.12)


def test_the_average_law_is_that_of_draws_with_different_parameters(rng):
    """Mean, sd, quantiles and the probability of a limit, against one simulated population for each of many draws."""
    people, uniques, draws = 2_000, 60, 40
    factors = rng.lognormal(0.0, 0.5, (4, draws))
    base = make_cells(rng, uniques, 0.05)
    r1, r2 = (np.zeros((4, draws, uniques)) for _ in range(2))
    variance = np.zeros((2, 4, draws))
    tau1, tau2 = [], []
    for c in range(4):
        for d in range(draws):
            fill_risks(base * factors[c, d], people, r1[c, d], r2[c, d])
            variance[:, c, d] = find_variances(r1[c, d], r2[c, d], people)
            q = base * factors[c, d]
            counts = rng.multinomial(people, [*q, 1.0 - q.sum()], size=400)[:, :-1]
            tau1.append((counts == 0).sum(axis=1))
            tau2.append((1.0 / (1.0 + counts)).sum(axis=1))
    laws = (
        (law_of_uniques(r1, r2, people, variance[0]), np.concatenate(tau1)),
        (law_of_matches(r2.sum(axis=2), variance[1], uniques), np.concatenate(tau2)),
    )
    for law, drawn in laws:
        assert law.expected.mean() == pytest.approx(drawn.mean(), abs=5 * drawn.std() / math.sqrt(len(drawn)))
        assert law.sd == pytest.approx(drawn.std(), rel=0.03)
        for share in (0.025, 0.1, 0.5, 0.9, 0.975):
            end = law.quantile(share)
            slack = 0.01 + 4 * math.sqrt(share * (1 - share) / len(drawn))
            assert (drawn < end).mean() <= share + slack
            assert (drawn <= end).mean() >= share - slack
        limit = float(np.quantile(drawn, 0.8))
        assert law.probability_above(limit) == pytest.approx((drawn > limit).mean(), abs=0.015)
        assert (law.probability_above(-1.0), law.probability_above(1e9)) == (1.0, 0.0)


def make_law(rng: np.random.Generator, draws: int, carried: float, whole: bool = False) -> Law:
    """A law whose parameters carry this share of a variance of 100."""
    expected = rng.normal(50.0, 10.0 * math.sqrt(carried), (4, draws))
    return law_of_matches(expected, np.full(expected.shape, 100.0 * (1.0 - carried)), 200)


@pytest.mark.parametrize("carried", [0.1, 0.5, 0.9])
def test_the_error_of_an_end_is_that_of_repeated_runs(rng, carried):
    runs = [make_law(rng, 60, carried) for _ in range(300)]
    for end in (0, 1):
        spread = np.std([law.interval()[end] for law in runs])
        told = np.median([law.end_errors()[end] for law in runs])
        assert told == pytest.approx(spread, rel=0.2)
        # Simulated counts would be far worse unless the parameters carry nearly everything.
        simulated = np.std([np.quantile(rng.normal(50, 10, 240), (0.025, 0.975)[end]) for _ in range(300)])
        assert carried > 0.8 or spread < 0.75 * simulated


def test_chains_that_differ_have_an_envelope_and_weights(rng):
    law = make_law(rng, 50, 0.3)
    shifted = Law(
        law.point, law.below, law.expected + np.array([0.0, 0, 0, 9])[:, None], law.variance, 200, whole=False
    )
    assert shifted.weighted(np.array([0.0, 0.0, 0.0, 1.0])).mean == pytest.approx(shifted.expected[3].mean())
    low, high = law.envelope()
    for chain in range(4):
        ends = law.interval((chain,))
        assert low <= ends[0] < ends[1] <= high
    assert law.weighted(np.full(4, 0.25)).interval == pytest.approx(law.interval())


def test_a_certain_law_is_a_point():
    ones = np.ones((2, 3, 4))
    law = law_of_uniques(ones, ones, 10, np.zeros((2, 3)))
    assert (law.interval(), law.median, law.sd, law.end_errors()) == ((4.0, 4.0), 4.0, 0.0, (0.0, 0.0))
    matches = law_of_matches(np.full((2, 3), 4.0), np.zeros((2, 3)), 4)
    assert (matches.interval(), matches.end_errors()) == ((4.0, 4.0), (0.0, 0.0))


def test_the_number_of_laws_is_bounded_by_what_they_cost():
    assert count_laws(4, 500, 10.0) == 250
    assert count_laws(4, 100_000, 1e4) == 40
    assert monte_carlo_error(np.ones((2, 10))) == 0.0
