"""Coverage on populations from the model: the bookkeeping of benchmarks/coverage.py, and `simulate` with rules."""

import json

import numpy as np
import pytest
from benchmarks import coverage
from scipy import stats

from keyhole.demo import simulate
from keyhole.diagnostics.laws import Law
from keyhole.errors import KeyholeError
from keyhole.sampling.predictive import draw_population
from keyhole.settings import Settings


def make_law(point, below, whole) -> Law:
    """The law of a single draw."""
    one = np.ones((1, 1))
    return Law(np.asarray(point, float), np.asarray(below, float)[None, None], one, one, 100, whole)


def test_places_are_uniform_when_truth_follows_the_law(rng):
    """Counts with many ties: Kolmogorov-Smirnov at 1e-4 (fixed seed)."""
    point = np.arange(30)
    law = make_law(point, stats.poisson.cdf(point, 1.5), whole=True)
    places = [coverage.place_truth(rng, float(rng.poisson(1.5)), law, (0.0, 4.0))["place"] for _ in range(500)]
    assert stats.kstest(places, "uniform").pvalue > 1e-4


def test_truth_in_the_interval_is_covered_whatever_the_order_of_its_sum(rng):
    law = make_law([0.5, 1.0, 2.0], [1 / 3, 2 / 3, 1.0], whole=True)
    found = coverage.place_truth(rng, sum([0.1] * 10), law, (0.5, 1.0))
    assert found["covered"]
    assert found["mass"] == pytest.approx(2 / 3)
    assert not coverage.place_truth(rng, 1.1, law, (0.5, 1.0))["covered"]


def test_verdict_tells_wrong_intervals(rng):
    point = np.linspace(-6.0, 6.0, 1001)
    law = make_law(point, stats.norm.cdf(point), whole=False)

    def rows(shift):
        truths = rng.standard_normal(400) + shift
        places = (coverage.place_truth(rng, truth, law, law.interval()) for truth in truths)
        return coverage.judge([{"tau1": place | {"mean": 0.0}} for place in places], "tau1")

    right, wrong = rows(0.0), rows(0.7)
    assert right["band"][0] <= right["coverage"] <= right["band"][1]
    assert right["uniform_p"] > 1e-4
    assert wrong["coverage"] < wrong["band"][0]
    assert wrong["uniform_p"] < 1e-8


def test_a_line_that_was_cut_off_is_run_again(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"replicate": 1}) + "\n" + '{"replicate": 2, "ta')
    assert coverage.read_rows(path) == [{"replicate": 1}]


@pytest.fixture
def rules(tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text("impossible:\n  - {K1: [1], K2: [2]}\n")
    return path


def test_nobody_impossible_is_simulated(rules):
    found = simulate([3, 2], 2_000, 200, rules, seed=4)
    assert found.truth["impossible_cells"] == 1
    assert not ((found.population["K1"] == 1) & (found.population["K2"] == 2)).any()
    assert found.sample.height == 200


def test_rules_on_keys_that_do_not_exist_are_refused(tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text("impossible:\n  - {AGE: [1], K2: [2]}\n")
    with pytest.raises(KeyholeError):
        simulate([3, 2], 100, 10, path)


def test_people_with_rules_follow_the_law_of_possible_people(rules):
    """First possible person, and whether the next one shares the cell, against people drawn without rules.

    Given the parameters people are independent, so the first possible ones of a population without rules have the law
    that a population with rules must have. Chi-square at 1e-5 (fixed seed).
    """
    from keyhole.data import Variable
    from keyhole.zeros import read_zeros

    zeros = read_zeros(rules, [Variable("K1", ("1", "2", "3")), Variable("K2", ("1", "2"))])
    settings = Settings()
    table = np.zeros((2, 12))
    for seed in range(600):
        plain = draw_population(np.random.default_rng([1, seed]), [3, 2], 3_000, settings)
        plain = plain[~((plain[:, 0] == 0) & (plain[:, 1] == 1))]
        ruled = draw_population(np.random.default_rng([2, seed]), [3, 2], 2, settings, zeros)
        for row, people in enumerate((plain, ruled)):
            if len(people) < 2:
                continue
            same = bool((people[0] == people[1]).all())
            table[row, 2 * (2 * people[0, 0] + people[0, 1]) + same] += 1
    table = table[:, table.sum(axis=0) > 0]
    assert stats.chi2_contingency(table).pvalue > 1e-5
