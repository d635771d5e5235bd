"""What holds for every risk: a probability, in sum no more than the uniques, less in a larger population."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from keyhole.diagnostics.laws import TAILS
from keyhole.kernels.risk import draw_matches, fill_risks
from keyhole.risk import summarise_risk
from keyhole.risk.measures import limit_records
from tests.unit.traces import UNIQUES, make_trace

ROUNDING = 1e-12
"""A few thousand roundings; risks are kept with seven digits."""

probabilities = st.lists(st.floats(-16, 0).map(lambda x: 10.0**x), min_size=1, max_size=12).map(
    lambda values: np.array(values) / max(1.0, sum(values))
)
people = st.integers(0, 10**10)


def risks(probability: np.ndarray, outside: int) -> tuple[np.ndarray, np.ndarray, float, float]:
    r1, r2 = np.zeros(len(probability)), np.zeros(len(probability))
    tau1, tau2 = fill_risks(probability, outside, r1, r2)
    return r1, r2, tau1, tau2


@given(probabilities, people)
@settings(max_examples=300)
def test_risks_are_probabilities(probability, outside):
    r1, r2, tau1, tau2 = risks(probability, outside)
    for values in (r1, r2):
        assert np.isfinite(values).all()
        assert (values >= 0).all()
        assert (values <= 1 + ROUNDING).all()
        assert (values.astype(np.float32) <= 1).all()
    # Alone in the population is one way of being matched.
    assert (r1 <= r2 + ROUNDING).all()
    assert 0 <= tau1 <= len(probability) * (1 + ROUNDING)
    assert tau1 <= tau2 + ROUNDING * len(probability)
    assert tau2 <= len(probability) * (1 + ROUNDING)


@given(probabilities, people, people)
@settings(max_examples=300)
def test_a_larger_population_means_less_expected_risk(probability, first, second):
    smaller, larger = sorted((first, second))
    before, after = risks(probability, smaller), risks(probability, larger)
    for place in range(4):
        assert np.all(after[place] <= before[place] * (1 + ROUNDING) + 1e-300)


@given(probabilities, st.integers(0, 10**7), st.integers(0, 2**32))
@settings(max_examples=200)
def test_drawn_populations_have_no_more_uniques_than_the_sample(probability, outside, seed):
    tau1, tau2 = draw_matches(np.random.default_rng(seed), probability, outside)
    assert 0 <= tau1 <= tau2 <= len(probability)


@given(st.lists(st.floats(0, UNIQUES), min_size=1, max_size=4), st.integers(8, 60), st.booleans(), st.integers(0, 99))
@settings(max_examples=40)
def test_reported_risks_stay_in_range(centres, draws, pooled, seed):
    risk = summarise_risk(make_trace(np.random.default_rng(seed), centres, draws), pooled)
    for low, mean, high in ((risk.r1_low, risk.r1, risk.r1_high), (risk.r2_low, risk.r2, risk.r2_high)):
        assert (low >= 0).all()
        assert (low <= high).all()
        assert (high <= 1).all()
        assert ((mean >= 0) & (mean <= 1)).all()
    for interval in (risk.tau1.interval, risk.tau1.expected.interval):
        assert 0 <= interval[0] <= interval[1] <= UNIQUES
    assert 0 <= risk.tau1.mean <= UNIQUES


@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(1, 60), st.booleans())
@settings(max_examples=100)
def test_limits_of_a_record_enclose_its_mean(seed, chains, draws, pooled):
    """Risks of records are skewed: the mean of a small one may be above nearly all draws."""
    rng = np.random.default_rng(seed)
    drawn = np.exp(-rng.gamma(0.2, 60.0, (chains, draws, 8))).astype(np.float32)
    mean = drawn.mean(axis=(0, 1), dtype=np.float64)
    low, high = limit_records(drawn, pooled)
    assert (low <= mean).all()
    assert (mean <= high).all()
    quantiles = np.quantile(drawn, TAILS, axis=(0, 1) if pooled else 1, method="inverted_cdf")
    ends = quantiles if pooled else (quantiles[0].min(axis=0), quantiles[1].max(axis=0))
    assert np.array_equal(low, np.minimum(ends[0], mean)), "no wider than that"
    assert np.array_equal(high, np.maximum(ends[1], mean))
