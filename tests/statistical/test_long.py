"""The long suite (scripts/test-long): invariance at 500,000, Geweke, simulation-based calibration.

Seeds rotate; a failure prints its own, and KEYHOLE_SEED repeats it. KEYHOLE_LONG_SCALE < 1 shrinks it all.
"""

import numpy as np
import pytest

from tests.statistical import classes_calibration
from tests.statistical.calibration import QUANTITIES, Size, rank_truths
from tests.statistical.classes_bench import BENCHES, Bench
from tests.statistical.comparison import LEVEL, detectable_distance, p_values
from tests.statistical.invariance import SETTINGS, Setting
from tests.statistical.long_runs import (
    SCALE,
    geweke_sample,
    long_seed,
    moment_scores,
    moved_sample,
    outside_band,
    prior_sample,
)
from tests.statistical.quantities import NAMES

MODELS = [name for name in SETTINGS if name != "one profile"]
BAND = 0.999
RULES = ({0: {0}, 1: {0, 1}}, {0: {1}, 1: {2}, 2: {0}})
MEDIUM = {
    name: Setting(
        name,
        setting.finite,
        setting.adaptive,
        200,
        (5 if setting.ordered else 2, 3, 4, 2, 3, 5),
        8,
        ordered=setting.ordered,
    )
    for name, setting in SETTINGS.items()
    if name != "one profile"
}


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_invariance_of_the_sweep_at_500_000(name):
    seed, draws = long_seed(), int(500_000 * SCALE)
    fresh = prior_sample(SETTINGS[name], draws, seed)
    moved = moved_sample(SETTINGS[name], draws, 10, seed + 1)
    values = p_values(fresh, moved) * len(NAMES)
    assert SCALE < 1 or detectable_distance(draws, len(NAMES)) < 0.012
    assert values.min() > LEVEL, f"{NAMES[int(values.argmin())]}: p = {values.min():.1e}, KEYHOLE_SEED={seed}"


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_geweke(name):
    """Moments along a chain that also redraws its data, against independent draws: |z| < 5.5."""
    seed, sweeps = long_seed(), int(4_000_000 * SCALE)
    chain = geweke_sample(SETTINGS[name], sweeps, 4, seed)
    fresh = prior_sample(SETTINGS[name], sweeps // 4, seed + 1)
    scores = np.abs(moment_scores(chain, fresh))
    worst = NAMES[int(scores.max(axis=0).argmax())]
    assert scores.max() < 5.5, f"{worst}: z = {scores.max():.1f}, KEYHOLE_SEED={seed}"


@pytest.mark.long
def test_geweke_notices_another_prior():
    """Negative control: a chain of `adaptive` against draws of `paper`."""
    seed = long_seed()
    chain = geweke_sample(SETTINGS["hdp adaptive"], 200_000, 4, seed)
    fresh = prior_sample(SETTINGS["hdp paper"], 50_000, seed + 1)
    assert np.abs(moment_scores(chain, fresh)).max() > 5.5


def check_ranks(ranks, draws, seed, names=QUANTITIES):
    """Every quantity's ranks within the simultaneous band."""
    level = 1 - (1 - BAND) / len(names)
    outside = [name for q, name in enumerate(names) if outside_band(ranks[:, q], draws + 1, level)]
    assert not outside, f"{outside}, KEYHOLE_SEED={seed}"


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_calibration_tiny(name):
    """10,000 data sets of 4 records; the chains start from one profile."""
    seed, size = long_seed(), Size(burn_in=100, draws=19, thin=10)
    check_ranks(rank_truths(SETTINGS[name], size, max(int(10_000 * SCALE), 20), seed), size.draws, seed)


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_calibration_medium(name):
    """1,000 data sets of 200 records and 6 variables."""
    seed, size = long_seed(), Size(burn_in=1_000, draws=99, thin=20)
    check_ranks(rank_truths(MEDIUM[name], size, max(int(1_000 * SCALE), 10), seed), size.draws, seed)


@pytest.mark.long
@pytest.mark.parametrize("name", ["hdp paper", "hdp adaptive", "mixed paper", "mixed adaptive"])
def test_calibration_with_rules(name):
    """2,000 data sets of 4 records among those that two rules allow."""
    seed, size = long_seed(), Size(burn_in=100, draws=19, thin=10)
    ranks = rank_truths(SETTINGS[name], size, max(int(2_000 * SCALE), 20), seed, RULES)
    check_ranks(ranks, size.draws, seed)


CLASSES = ("no rules", "missing answers, shards", "rules", "rules, missing answers, shards")
MEDIUM_LEVELS = (2, 3, 4, 2, 3, 5)
MEDIUM_RULES = ({0: {0}, 1: {0, 1}}, {0: {1}, 2: {2, 3}, 3: {0}}, {4: {2}, 5: {0, 4}})


@pytest.mark.long
@pytest.mark.parametrize("name", CLASSES)
def test_calibration_of_classes_tiny(name):
    """5,000 data sets of 5 records; the chains start from one profile. With rules lambda moves slowly."""
    seed, size = long_seed(), Size(burn_in=300, draws=19, thin=30)
    ranks = classes_calibration.rank_truths(BENCHES[name], size, max(int(5_000 * SCALE), 20), seed)
    check_ranks(ranks, size.draws, seed, classes_calibration.RANKED)


@pytest.mark.long
@pytest.mark.parametrize("rules", [(), MEDIUM_RULES], ids=["no rules", "rules"])
def test_calibration_of_classes_medium(rules):
    """500 data sets of 200 records and 6 variables."""
    seed, size = long_seed(), Size(burn_in=1_000, draws=49, thin=20)
    bench = Bench("medium", MEDIUM_LEVELS, rules, records=200)
    ranks = classes_calibration.rank_truths(bench, size, max(int(500 * SCALE), 10), seed)
    check_ranks(ranks, size.draws, seed, classes_calibration.RANKED)


def test_the_band_holds_uniform_ranks_and_no_others(rng):
    """Negative control of the band: ranks squeezed by a tenth leave it."""
    assert not outside_band(rng.integers(0, 20, 2_000), 20, BAND)
    assert outside_band((rng.beta(1.25, 1.25, 2_000) * 20).astype(np.int64), 20, BAND)
