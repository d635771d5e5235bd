"""Classical estimators beside an assessment: the same figures as `compare`, a reason where there is none."""

import numpy as np
import polars as pl
import pytest

import keyhole
from keyhole.classical.catalogue import QUICK
from keyhole.evaluation.comparison import prepare, run_estimators
from keyhole.report import make_content

RUN = {"chains": 2, "max_sweeps": 60, "time_limit": "60s"}


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    rng = np.random.default_rng(8)
    return pl.DataFrame({name: rng.integers(0, size, 150) for name, size in {"A": 6, "B": 5, "C": 4}.items()})


def test_the_figures_are_those_of_compare(frame):
    block = keyhole.assess(frame, "A,B,C", population=900, **RUN).summary["comparators"]
    others = run_estimators(prepare(frame, "A,B,C", population=900), QUICK)
    assert [item["name"] for item in block] == [outcome.name for outcome in others] == list(QUICK)
    for item, outcome in zip(block, others, strict=True):
        assert (item["tau1"]["mean"], item["tau2"]["mean"]) == (outcome.tau1.mean, outcome.tau2.mean)
        assert item["error"] is None
        assert item["assumes"]
        assert item["reference"]


def test_one_that_says_nothing_tells_why(frame):
    blank = frame.with_columns(pl.when(pl.int_range(pl.len()) < 3).then(None).otherwise(pl.col("A")).alias("A"))
    found = keyhole.assess(blank, "A,B,C", population=900, missing="model", **RUN)
    assert all(
        "every answer" in item["error"] and item["tau1"]["mean"] is None for item in found.summary["comparators"]
    )
    assert {item.tau1 for item in make_content(found).comparators} == {"not given"}


def test_weights_are_used(frame):
    weighted = frame.with_columns(pl.Series("W", np.where(np.arange(150) < 75, 2.0, 10.0)))
    found, plain = (
        {
            item["name"]: item
            for item in keyhole.assess(weighted, "A,B,C", population=900, weight=w, **RUN).summary["comparators"]
        }
        for w in ("W", None)
    )
    assert found["individual-risk"]["tau2"] != plain["individual-risk"]["tau2"]
    assert found["zayatz"] == plain["zayatz"]


def test_nothing_is_compared_where_nothing_is_estimated(frame):
    found = keyhole.assess(frame, "A,B,C", population=150)
    assert found.summary["comparators"] is None
    assert make_content(found).comparators == ()


def test_a_count_that_is_not_shown_is_not_told_by_other_estimators():
    """Nine sample uniques: a safe report shows "<10", and Zayatz would tell how many."""
    frame = pl.DataFrame({"A": [*range(9), *([9] * 60)], "B": [0, 1, 2] * 23})
    found = keyhole.assess(frame, "A,B", population=900, **RUN)
    assert found.summary["input"]["sample_uniques"] == 9
    assert make_content(found).comparators == ()
    assert [item.name for item in make_content(found, internal=True).comparators] == list(QUICK)


def test_want_of_memory_is_a_reason_and_ends_no_assessment(frame, monkeypatch):
    def exhaust(*_):
        raise MemoryError

    monkeypatch.setattr("keyhole.classical.loglinear.fit_main_effects", exhaust)
    block = keyhole.assess(frame, "A,B,C", population=900, **RUN).summary["comparators"]
    assert block[0]["error"] == "not enough memory."
    assert all(item["error"] is None for item in block[1:])
