"""Checks in a whole assessment: the model check always, the half-sample check when asked for."""

import json
from collections import Counter

import numpy as np
import polars as pl
import pytest

import keyhole
from keyhole.cli import main
from keyhole.data import encode, read_microdata
from keyhole.risk import check_half
from keyhole.risk.half_sample import count_matches
from keyhole.settings import make_settings

QUICK = {"chains": 2, "max_sweeps": 60, "time_limit": "60s"}
LEVELS = {"A": 5, "B": 4, "C": 3, "D": 6}


def make_frame(rows: int = 90) -> pl.DataFrame:
    rng = np.random.default_rng(11)
    return pl.DataFrame({name: rng.integers(0, size, rows) for name, size in LEVELS.items()})


@pytest.fixture(scope="module")
def checked() -> keyhole.Assessment:
    """A short run with both checks."""
    return keyhole.assess(make_frame(), "A,B,C,D", population=900, self_check=True, **QUICK)


def test_the_model_check_is_in_every_summary(checked):
    fit = checked.summary["fit"]
    assert fit["sample_uniques"]["observed"] == checked.summary["input"]["sample_uniques"]
    assert fit["distinct_cells"]["observed"] == checked.summary["input"]["distinct_cells"]
    assert fit["two_way"]["total"] == 6
    for name in ("sample_uniques", "doubles", "triples", "distinct_cells", "unseen_pairs"):
        low, high = fit[name]["predicted"]["interval"]
        assert 0 <= low <= high
        assert fit[name]["ok"] == (low <= fit[name]["observed"] <= high)
    assert fit["ok"] == all(fit[name]["ok"] for name in ("sample_uniques", "two_way", "unseen_pairs"))


def test_the_half_sample_check_counts_what_is_known(checked):
    found = checked.summary["self_check"]
    assert found["half"] == 45
    assert 0 <= found["observed"]["tau1"] <= found["observed"]["tau2"] <= found["uniques"] <= 45
    inside = []
    for name in ("tau1", "tau2"):
        low, high = found["predicted"][name]["interval"]
        assert 0 <= low <= high <= found["uniques"]
        inside.append(low <= found["observed"][name] <= high)
    assert found["ok"] == all(inside)
    assert f"Of {found['uniques']} records" in found["message"]


def test_the_checks_change_nothing_else(checked):
    plain = keyhole.assess(make_frame(), "A,B,C,D", population=900, **QUICK)
    assert plain.summary["self_check"] is None
    assert plain.summary["fit"] == checked.summary["fit"]
    assert plain.records.equals(checked.records)
    assert all(np.array_equal(plain.draws[name], checked.draws[name]) for name in checked.draws)
    other = keyhole.assess(make_frame(), "A,B,C,D", population=900, **QUICK, seed=2)
    assert other.summary["fit"] != checked.summary["fit"]


def test_checks_survive_saving(checked, tmp_path):
    checked.save(tmp_path / "r")
    loaded = keyhole.load(tmp_path / "r")
    for name in ("fit", "self_check"):
        assert loaded.summary[name]["ok"] == checked.summary[name]["ok"]
        assert loaded.summary[name]["message"] == checked.summary[name]["message"]


def test_truth_of_the_half_by_plain_counting(rng):
    level = np.column_stack([rng.integers(0, 4, 60), rng.integers(4, 9, 60)]).astype(np.int32)
    half = np.sort(rng.choice(60, 30, replace=False))
    size = Counter(map(tuple, level.tolist()))
    own = Counter(tuple(level[i].tolist()) for i in half)
    unique = [i for i in half if own[tuple(level[i].tolist())] == 1]
    found = count_matches(level, np.array(unique))
    sizes = [size[tuple(level[i].tolist())] for i in unique]
    assert found == {"tau1": sizes.count(1), "tau2": pytest.approx(sum(1 / s for s in sizes))}


def test_nothing_to_check():
    """Without sampling there is no model; a half without uniques predicts nothing."""
    found = keyhole.assess(pl.DataFrame({"A": [1, 2, 3]}), "A", population=3, self_check=True)
    assert found.summary["fit"] is None
    assert found.summary["self_check"] is None
    twins = encode(read_microdata(pl.DataFrame({"A": [1] * 30 + [2] * 30}), "A", None, ()))
    assert check_half(twins, make_settings(**QUICK)) is None


def test_impossible_combinations_without_rules_are_noticed():
    """Groups that never mix: the prior of the article takes them as one smooth population, and the check says so."""
    rng = np.random.default_rng(3)
    group = rng.integers(0, 6, 300)
    frame = pl.DataFrame({name: group * 2 + rng.integers(0, 2, 300) for name in "ABCDE"})
    settings = {"chains": 2, "max_sweeps": 150, "time_limit": "2m", "prior": "paper"}
    found = keyhole.assess(frame, "A,B,C,D,E", population=30_000, **settings).summary["fit"]
    assert not found["ok"]
    assert found["unseen_pairs"]["observed"] > found["unseen_pairs"]["predicted"]["interval"][1]
    assert "`prior` adaptive" in found["message"]
    assert "`zeros`" in found["message"]


def test_the_screen_shows_both_checks(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    make_frame().write_csv("data.csv")
    with pytest.raises(SystemExit) as stopped:
        main(["assess", "data.csv", "--keys", "A,B,C,D", "--population", "900", "--self-check", "--chains", "2",
              "--max-sweeps", "60", "--prior", "paper"])  # fmt: skip
    assert stopped.value.code in (0, 3)
    shown = capsys.readouterr()
    summary = json.loads((tmp_path / "data.keyhole" / "summary.json").read_text())
    assert "Model check" in shown.out
    assert "Half-sample check" in shown.out
    for name in ("fit", "self_check"):
        assert (summary[name]["message"] in shown.err) == (not summary[name]["ok"])
