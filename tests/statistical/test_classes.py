"""A sweep of `classes`, and its second half alone, leaves the joint law of parameters, classes and data as it is.

States are drawn from the prior by tests/oracle/classes_sampler.py, which shares no code with keyhole. The exact
posterior of tiny files is in tests/exact/test_classes_posterior.py.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from unittest.mock import patch

import numpy as np
import pytest

from keyhole.sampling import shards
from tests.conftest import seed_from_name
from tests.oracle.classes_sampler import QUANTITIES
from tests.statistical.classes_bench import BENCHES, FEW, MOVES, Bench, check_tallies, draw_fresh, draw_moved, lay_out
from tests.statistical.classes_labels import sweep_labelled
from tests.statistical.comparison import compare, detectable_distance
from tests.statistical.long_runs import SCALE, long_seed

FIRST = 700
LONG_FIRST = 20_000
QUICK = (
    "missing answers, shards",
    "a slice that refuses often",
    "rules",
    "rules, missing answers, shards",
    "many equal records, rules",
    "visits",
    "visits, missing answers",
    "visits, many equal records",
)


@cache
def stored_fresh(bench: Bench, replicates: int) -> np.ndarray:
    """Quantities of prior draws, shared by the tests of a bench."""
    return draw_fresh(np.random.default_rng(seed_from_name(f"classes {bench.name}")), bench, replicates)


def check(rng, bench, times, move, first=FIRST):
    """Compare draws from the prior with others after some moves."""

    def draw(step, size):
        fresh = stored_fresh(bench, size) if step == 0 and first == FIRST else draw_fresh(rng, bench, size)
        return fresh, draw_moved(rng, bench, size, times, move)

    return compare(draw, QUANTITIES, first=first)


@pytest.mark.parametrize(
    ("name", "step"),
    [
        pytest.param(name, step, marks=() if name in QUICK and step == "sweep" else pytest.mark.long)
        for name in BENCHES
        for step in MOVES
    ],
)
def test_moves_keep_the_joint_law(rng, name, step):
    verdict = check(rng, BENCHES[name], 4, MOVES[step])
    assert verdict.passed, verdict


@pytest.mark.long
@pytest.mark.parametrize("times", [1, 10])
@pytest.mark.parametrize("name", BENCHES)
def test_sweeps_keep_the_joint_law_at_20_000(name, times):
    seed = long_seed()
    verdict = check(np.random.default_rng(seed), BENCHES[name], times, sweep_labelled, int(LONG_FIRST * SCALE))
    assert verdict.passed, f"{verdict}, KEYHOLE_SEED={seed}"


def test_power():
    """Distances that the comparison finds but for one time in a million."""
    assert detectable_distance(FIRST, len(QUANTITIES)) < 0.315
    assert detectable_distance(LONG_FIRST, len(QUANTITIES)) < 0.058


def ignore_rules(rng, cells, prior, state):
    return sweep_labelled(rng, cells, BENCHES["no rules"].prior, state)


def believe_in_more_classes(rng, cells, prior, state):
    """gamma ~ Gamma(4, 1)."""
    return sweep_labelled(rng, cells, prior._replace(weight_concentration=np.array([4.0, 1.0])), state)


@pytest.mark.parametrize(("name", "wrong"), [("rules", ignore_rules), ("no rules", believe_in_more_classes)])
def test_a_wrong_sweep_is_noticed(rng, name, wrong):
    """Negative controls."""
    assert not check(rng, BENCHES[name], 4, wrong).passed


@pytest.mark.parametrize("name", ["missing answers, shards", "rules, missing answers, shards"])
def test_shards_may_be_drawn_anywhere(rng, name):
    """The same bits from threads, and several shards indeed."""
    bench = BENCHES[name]
    cells, state = lay_out(bench.draw(rng), bench.start, bool(bench.boxes))
    asked = []

    def count(work, merge, whole, ends, own, common):
        asked.append(len(own))
        return shards.here(work, merge, whole, ends, own, common)

    paths = []
    with patch.object(shards, "SHARD", FEW), ThreadPoolExecutor(2) as pool:
        for each in (count, shards.on_threads(pool)):
            ours, moved = np.random.default_rng(1), state
            for _ in range(20):
                moved = sweep_labelled(ours, cells, bench.prior, moved, each)
            paths.append([*moved.labels, *moved.profiles])
    assert min(asked) > 1
    assert all(np.array_equal(a, b) for a, b in zip(*paths, strict=True))


@pytest.mark.parametrize("name", ["no rules", "rules", "visits"])
def test_everything_moves(rng, name):
    """Within 150 sweeps every hyperparameter changes, and so does the number of classes."""
    bench = BENCHES[name]
    for _ in range(15):
        cells, state = lay_out(bench.draw(rng), bench.start, bool(bench.boxes))
        state = state._replace(visited=bench.visited)
        seen, total = [], set()
        for _ in range(150):
            state = sweep_labelled(rng, cells, bench.prior, state)
            check_tallies(cells, state, bool(bench.boxes))
            profiles = state.profiles
            seen.append(np.concatenate([profiles.weight_concentration, profiles.base_strength, profiles.base_level]))
            total.add(len(profiles.weight))
        assert (np.ptp(seen, axis=0) > 0.0).all()
        assert len(total) > 1
