"""Answers at the edges, and mistakes that only the whole line can see."""

import time

import numpy as np
import polars as pl
import pytest

import keyhole
from keyhole import InputError, KeyholeError, RulesError, SettingsError

FRAME = pl.DataFrame({"A": [1, 1, 2, 3, 3], "B": ["x", "x", "y", "x", "y"]})
QUICK = {"chains": 2, "max_sweeps": 60, "time_limit": "60s"}


@pytest.fixture(scope="module")
def small() -> keyhole.Assessment:
    """A short run on 60 records."""
    rng = np.random.default_rng(5)
    frame = pl.DataFrame({name: rng.integers(0, size, 60) for name, size in zip("ABCD", (5, 4, 3, 6), strict=True)})
    return keyhole.assess(frame, "A,B,C,D", population=600, **QUICK)


def test_the_whole_population_needs_no_sampling():
    found = keyhole.assess(FRAME, ["A", "B"], population=5)
    assert (found.tau1.mean, found.tau1.interval, found.tau2.mean) == (3, (3, 3), 3)
    assert found.records["sample_unique"].to_list() == [0, 0, 1, 1, 1]
    assert found.records["r1"].to_list() == [None, None, 1, 1, 1]
    assert found.records["cell_count"].to_list() == [2, 2, 1, 1, 1]
    assert found.diagnosis.converged
    assert "whole population" in found.diagnosis.message
    assert keyhole.assess(FRAME, ["A", "B"], fraction=1.0).tau1 == found.tau1


@pytest.mark.parametrize(
    "frame",
    [
        pl.DataFrame({"A": [1] * 10_000, "B": ["x"] * 10_000}),
        pl.DataFrame({"A": [1, 1, 2, 2], "B": ["x"] * 4}),
        pl.DataFrame({"A": ["", ""], "B": [None, None]}),
    ],
    ids=["identical records", "no sample unique", "all blank"],
)
def test_nobody_alone_in_the_sample_means_no_risk(frame):
    found = keyhole.assess(frame, "A,B", population=1_000_000)
    assert (found.tau1.mean, found.tau2.mean, found.tau1.interval) == (0, 0, (0, 0))
    assert found.diagnosis.converged
    assert found.records["r1"].null_count() == frame.height


def test_a_key_with_one_category_is_said_and_ignored():
    found = keyhole.assess(FRAME.with_columns(C=pl.lit("same")), "A,C,B", population=5)
    assert found.summary["input"]["ignored_keys"] == ["C"]
    assert found.summary["input"]["keys"] == ["A", "B"]


@pytest.mark.parametrize("keys", ["A", "A,B,C,D"])
def test_a_run_has_consistent_numbers(keys):
    rng = np.random.default_rng(7)
    frame = pl.DataFrame({name: rng.integers(0, 12, 40) for name in "ABCD"})
    found = keyhole.assess(frame, keys, population=400, **QUICK)
    uniques = found.summary["input"]["sample_uniques"]
    low, high = found.tau1.interval
    assert 0 <= low <= found.tau1.median <= high <= uniques
    # A count that is nearly always 0 has a mean of a little more, and an interval from 0 to 0.
    assert low - 1 < found.tau1.mean < high + 1
    assert found.tau2.interval[0] <= found.tau2.mean <= found.tau2.interval[1] <= uniques
    assert found.tau1.mean <= found.tau2.mean + 1e-9
    risk = found.records.filter(pl.col("sample_unique") == 1)
    assert risk.height == uniques
    for name in ("r1", "r2"):
        low, mean, high = (risk[column].to_numpy() for column in (f"{name}_low", name, f"{name}_high"))
        assert (low >= 0).all()
        assert (low <= high).all()
        assert (high <= 1).all()
        assert ((mean >= 0) & (mean <= 1)).all()
    assert (risk["r1"] <= risk["r2"] + 1e-6).all()
    assert risk["r1"].sum() == pytest.approx(found.tau1.expected.mean, rel=1e-3)
    assert found.records.filter(pl.col("sample_unique") == 0)["r1"].null_count() == 40 - uniques


def test_all_records_unique_is_an_answer():
    frame = pl.DataFrame({"A": list(range(12)), "B": list(range(12))})
    found = keyhole.assess(frame, "A,B", population=1000, **QUICK)
    assert found.summary["input"]["sample_uniques"] == 12
    assert 0 <= found.tau1.mean <= 12


def test_same_seed_same_numbers_whatever_the_workers(small):
    rng = np.random.default_rng(5)
    frame = pl.DataFrame({name: rng.integers(0, size, 60) for name, size in zip("ABCD", (5, 4, 3, 6), strict=True)})
    for workers in (1, 2):
        again = keyhole.assess(frame, "A,B,C,D", population=600, workers=workers, **QUICK)
        assert again.records.equals(small.records)
        assert again.draws.keys() == small.draws.keys()
        for name, draws in again.draws.items():
            assert np.array_equal(draws, small.draws[name], equal_nan=True), name


def test_saved_draws_come_back(small, tmp_path):
    small.save(tmp_path / "r")
    loaded = keyhole.load(tmp_path / "r")
    assert loaded.tau1 == small.tau1
    assert loaded.records.equals(small.records)
    for name, draws in small.draws.items():
        assert np.array_equal(draws, loaded.draws[name], equal_nan=True)
    for name, kept in small.profiles.items():
        assert np.array_equal(kept, loaded.profiles[name], equal_nan=True)


@pytest.mark.filterwarnings("ignore")
def test_arviz_takes_the_draws(small):
    tree = small.to_arviz()
    assert np.array_equal(tree["posterior"]["tau1"].values, small.draws["tau1"])
    assert "log_likelihood" in tree["sample_stats"]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, SettingsError, "give one of"),
        ({"population": 9, "fraction": 0.5}, SettingsError, "give one of"),
        ({"population": 4}, InputError, "smaller than the sample"),
        ({"population": 0}, InputError, "smaller than the sample"),
        ({"population": -5}, InputError, "smaller than the sample"),
        ({"population": 7.5}, SettingsError, "whole number"),
        ({"population": "many"}, SettingsError, "whole number"),
        ({"population": float("nan")}, SettingsError, "whole number"),
        ({"fraction": 0.0}, SettingsError, "above 0"),
        ({"fraction": 1.5}, SettingsError, "above 0"),
        ({"fraction": float("nan")}, SettingsError, "above 0"),
        ({"population": 9, "thin": 2}, SettingsError, "unknown option 'thin'"),
        ({"population": 9, "allow_identifier": ["C"]}, InputError, "not one of the keys"),
    ],
)
def test_mistakes_in_the_call(options, error, message):
    with pytest.raises(error, match=message) as caught:
        keyhole.assess(FRAME, "A,B", **options)
    assert isinstance(caught.value, KeyholeError)


def test_fraction_gives_the_population():
    assert keyhole.assess(FRAME.head(2), "A,B", fraction=0.01).summary["input"]["population"] == 200


def test_contradicted_rules_are_refused_or_the_records_left_out(tmp_path):
    rules = tmp_path / "rules.yaml"
    rules.write_text("impossible:\n  - {A: [2], B: [y]}\n")
    with pytest.raises(RulesError, match=r"row 3.*`drop_contradictions`"):
        keyhole.assess(FRAME, "A,B", population=5, zeros=rules)
    found = keyhole.assess(FRAME, "A,B", population=5, zeros=rules, drop_contradictions=True)
    assert found.records["used"].to_list() == [1, 1, 0, 1, 1]
    assert found.records["cell_count"].to_list() == [2, 2, None, 1, 1]
    assert found.summary["input"]["used"] == 4
    assert found.summary["zeros"]["impossible_cells"] == 1
    assert found.summary["zeros"]["left_out"] == 1
    assert found.summary["zeros"]["p0"] is None
    assert found.tau1.mean == 2


def test_rules_that_leave_nobody_are_refused(tmp_path):
    rules = tmp_path / "rules.yaml"
    rules.write_text("impossible:\n  - {A: [1, 2, 3]}\n")
    with pytest.raises(RulesError):
        keyhole.assess(FRAME, "A,B", population=5, zeros=rules, drop_contradictions=True)


def test_the_population_estimator_is_refused_with_rules(tmp_path):
    """It would simulate impossible people and call the risk too low."""
    rules = tmp_path / "rules.yaml"
    rules.write_text("impossible:\n  - {A: [1], B: [9]}\n")
    frame = pl.DataFrame({"A": [1, 2, 2, 1], "B": [1, 1, 9, 1]})
    with pytest.raises(keyhole.KeyholeError, match="population"):
        keyhole.assess(frame, "A,B", population=50, zeros=rules, estimator="population")


def test_the_time_of_compiling_is_that_of_both_models(monkeypatch):
    """The quick answer comes first, so it is what compiles."""
    monkeypatch.setattr("keyhole.sampling.runner.precompile", lambda *_: time.sleep(0.6))

    def compiled(**options) -> float:
        return keyhole.assess(FRAME, "A,B", population=90, **QUICK, **options).summary.seconds["compile"]

    assert compiled() >= 1.2
    assert 0.6 <= compiled(quick=True) < 1.2
    assert 0.6 <= compiled(model="classes") < 1.2
