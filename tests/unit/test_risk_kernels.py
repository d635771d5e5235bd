"""r1, r2, tau1, tau2 against direct summation and simulated populations."""

import math

import numpy as np
import pytest

from keyhole.kernels.risk import count_matches, draw_matches, fill_risks
from tests.oracle import risk as oracle
from tests.oracle.model import Model, draw_from_prior

Z = 4.5


@pytest.mark.parametrize("people", [0, 1, 7, 400])
@pytest.mark.parametrize("q", [1e-12, 1e-4, 0.03, 0.5, 0.999])
def test_risks_by_direct_summation(q, people):
    r1, r2 = np.zeros(1), np.zeros(1)
    sums = fill_risks(np.array([q]), people, r1, r2)
    assert r1[0] == pytest.approx(oracle.unique_probability(q, people), rel=1e-10, abs=1e-300)
    assert r2[0] == pytest.approx(oracle.match_probability(q, people), rel=1e-9)
    assert sums == (r1[0], r2[0])


def test_risks_of_a_huge_population():
    """q N = 1e-3: r1 = 1 - 1e-3, r2 = 1 - q N / 2, to first order."""
    r1, r2 = np.zeros(1), np.zeros(1)
    fill_risks(np.array([1e-12]), 10**9, r1, r2)
    assert r1[0] == pytest.approx(math.exp(-1e-3), rel=1e-11)
    assert r2[0] == pytest.approx(-math.expm1(-1e-3) / 1e-3, rel=1e-8)


def test_risks_at_the_ends():
    r1, r2 = np.zeros(3), np.zeros(3)
    fill_risks(np.array([0.0, 1.0, 1.0 + 1e-12]), 9, r1, r2)
    assert r1.tolist() == [1.0, 0.0, 0.0]
    assert r2 == pytest.approx([1.0, 0.1, 0.1])


def test_risks_fall_as_the_population_grows(rng):
    q = np.exp(-20.0 * rng.random(200))
    previous = np.ones(200), np.ones(200)
    for people in (0, 1, 10, 1_000, 10**6):
        r1, r2 = np.zeros(200), np.zeros(200)
        fill_risks(q, people, r1, r2)
        assert ((r1 >= 0) & (r1 <= r2) & (r2 <= 1)).all()
        assert (r1 <= previous[0]).all()
        assert (r2 <= previous[1]).all()
        previous = r1, r2


def test_predictive_draws_follow_a_simulated_population(rng):
    q = np.array([0.001, 0.02, 0.3, 0.1, 1e-5])
    rounds = 20_000
    drawn = np.array([draw_matches(rng, q, 50) for _ in range(rounds)])
    tau1, tau2 = oracle.simulate_file_risk(rng, q, 50, rounds)
    for found, expected in ((drawn[:, 0], tau1), (drawn[:, 1], tau2)):
        for power in (1, 2):
            x, y = found**power, expected**power
            error = math.sqrt((x.var() + y.var()) / rounds)
            assert abs(x.mean() - y.mean()) < Z * error
    r1, r2 = np.zeros(5), np.zeros(5)
    expected1, expected2 = fill_risks(q, 50, r1, r2)
    assert abs(drawn[:, 0].mean() - expected1) < Z * drawn[:, 0].std() / math.sqrt(rounds)
    assert abs(drawn[:, 1].mean() - expected2) < Z * drawn[:, 1].std() / math.sqrt(rounds)
    # Negative control: one person more outside the sample is not noticed, ten are.
    assert abs(drawn[:, 0].mean() - fill_risks(q, 60, r1, r2)[0]) > Z * drawn[:, 0].std() / math.sqrt(rounds)


def test_draw_matches_when_the_cells_hold_everybody(rng):
    """Probabilities that sum to one, up to rounding: all people are somewhere."""
    q = np.array([0.7, 0.2, 0.1])
    for _ in range(200):
        tau1, tau2 = draw_matches(rng, q, 3)
        assert 0.0 <= tau1 <= 2.0
        assert 0.25 <= tau2 <= 3.0


def test_count_matches():
    r1, r2 = np.zeros(3), np.zeros(3)
    assert count_matches(np.array([0, 1, 4]), r1, r2) == (1.0, pytest.approx(1.0 + 0.5 + 0.2))
    assert r1.tolist() == [1.0, 0.0, 0.0]
    assert r2.tolist() == [1.0, 0.5, 0.2]


def test_risk_of_a_known_population(rng):
    """Mean of tau1 over populations of the oracle = sum of r1 over the cells, by the oracle's cell law."""
    model = Model((2, 3, 2), finite=True, profiles=3)
    draw = draw_from_prior(rng, model, 1)
    sample = oracle.draw_people(rng, draw, model, 8)
    uniques = oracle.sample_uniques(sample)
    q = np.array([oracle.plain_cell_probability(draw, model, cell) for cell in uniques])
    r1, r2 = np.zeros(len(q)), np.zeros(len(q))
    expected = fill_risks(q, 12, r1, r2)
    counts = []
    for _ in range(1_500):
        others = oracle.draw_people(rng, draw, model, 12)
        counts.append((oracle.count_population_uniques(sample, others), oracle.count_expected_matches(sample, others)))
    found = np.array(counts, dtype=float)
    for column in (0, 1):
        error = found[:, column].std() / math.sqrt(len(found))
        assert abs(found[:, column].mean() - expected[column]) < Z * error + 1e-12
