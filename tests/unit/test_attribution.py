"""Who carries the risk: shares of variables and categories, thresholds, ranks, households; judges: plain counting."""

from collections import Counter
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import keyhole
from keyhole.data import count_cells
from keyhole.diagnostics.laws import Estimate
from keyhole.risk import Risk
from keyhole.risk.attribution import FEWEST_DRAWS, MOST_DRAWS, choose_draws, describe_thresholds, rank_uniques
from keyhole.risk.households import find_household_risk
from keyhole.risk.measures import certain_measure
from keyhole.risk.release import prepare_release
from keyhole.sampling.events import leave_out

QUICK = {"chains": 2, "max_sweeps": 60, "time_limit": "60s"}
SIZES = {"A": 5, "B": 4, "C": 3, "D": 6}


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    rng = np.random.default_rng(5)
    keys = {name: rng.integers(0, size, 60) for name, size in SIZES.items()}
    return pl.DataFrame({**keys, "W": rng.integers(5, 20, 60), "HH": [f"h{x // 3}" for x in range(60)]})


@pytest.fixture(scope="module")
def found(frame) -> keyhole.Assessment:
    """A short run with weights and households."""
    return keyhole.assess(frame, "A,B,C,D", weight="W", household="HH", **QUICK)


def test_attribution_has_the_fields_of_the_interface(found):
    block = found.summary["attribution"]
    assert [variable["name"] for variable in block["variables"]] == list("ABCD")
    assert 4 <= block["draws"] <= MOST_DRAWS
    for variable in block["variables"]:
        assert set(variable) == {
            "name", "share_tau1", "share_tau2", "tau1_without", "tau2_without", "sample_uniques_without", "categories",
        }  # fmt: skip
        assert 0.0 <= variable["share_tau1"] <= 1.0
        assert 0.0 <= variable["share_tau2"] <= 1.0
        for name in ("tau1_without", "tau2_without"):
            low, high = variable[name]["interval"]
            assert 0 <= low <= variable[name]["mean"] <= high <= variable["sample_uniques_without"]


def test_categories_sum_to_the_risk_of_records(found, frame):
    risk = found.records.filter(pl.col("sample_unique") == 1)
    joined = risk.join(frame.with_row_index("row", offset=1).cast({"row": pl.Int64}), on="row")
    for variable in found.summary["attribution"]["variables"]:
        assert sum(c["uniques"] for c in variable["categories"]) == risk.height
        assert [c["code"] for c in variable["categories"]] == [str(x) for x in range(SIZES[variable["name"]])]
        for category in variable["categories"]:
            own = joined.filter(pl.col(variable["name"]).cast(pl.String) == category["code"])
            assert category["uniques"] == own.height
            assert category["tau1"] == pytest.approx(own["r1"].sum())
            assert category["tau2"] == pytest.approx(own["r2"].sum())
            assert category["label"] is None


def test_uniques_without_a_variable_are_counted_anew(found, frame):
    for variable in found.summary["attribution"]["variables"]:
        rest = [name for name in "ABCD" if name != variable["name"]]
        counts = Counter(frame.select(rest).rows())
        assert variable["sample_uniques_without"] == sum(count == 1 for count in counts.values())


def test_labels_of_the_codebook_are_told(frame):
    book = {"C": {"0": "none", "1": "some", "2": "=many"}}
    told = keyhole.assess(frame, "A,C", population=60, codebook=book).summary["attribution"]["variables"][1]
    assert [c["label"] for c in told["categories"]] == ["none", "some", "=many"]


def test_what_if_agrees_with_the_attribution_and_with_the_run(found):
    whole = found.what_if()
    assert whole.sample_uniques == found.summary["input"]["sample_uniques"]
    # The kept profiles are stored in single precision, and all draws are kept in so short a run.
    assert whole.tau1.expected.mean == pytest.approx(found.tau1.expected.mean, rel=1e-5)
    assert whole.tau2.expected.interval == pytest.approx(found.tau2.expected.interval, rel=1e-5)
    risk = found.records.filter(pl.col("sample_unique") == 1)
    assert whole.r1 == pytest.approx(risk["r1"].to_numpy(), rel=1e-4, abs=1e-7)
    assert whole.unique_row.tolist() == risk["row"].to_list()
    without = found.what_if(drop=["D"])
    told = found.summary["attribution"]["variables"][3]
    assert told["sample_uniques_without"] == without.sample_uniques
    assert told["share_tau1"] == pytest.approx(1 - without.tau1.expected.mean / whole.tau1.expected.mean, rel=1e-6)
    merged = found.what_if(recode={"D": [[0, 1, 2, 3, 4, 5]]})
    assert merged.tau1 == without.tau1
    half = found.what_if(recode={"D": [[0, 1, 2], [3, 4, 5]]})
    assert without.tau1.expected.mean < half.tau1.expected.mean < whole.tau1.expected.mean
    assert found.what_if(drop=list("ABCD")).tau1.mean == 0


def test_what_if_needs_the_records(found, tmp_path):
    found.save(tmp_path / "r")
    with pytest.raises(keyhole.KeyholeError, match="give the file or dataframe that was assessed as `data`"):
        keyhole.load(tmp_path / "r").what_if(drop=["A"])


def test_a_certain_answer_is_attributed_by_counting(frame):
    told = keyhole.assess(frame, "A,B,C,D", population=60)
    uniques = told.summary["input"]["sample_uniques"]
    for variable in told.summary["attribution"]["variables"]:
        left = variable["sample_uniques_without"]
        assert variable["tau1_without"] == Estimate(left, (left, left))
        assert variable["share_tau1"] == pytest.approx(1 - left / uniques)
    nobody = keyhole.assess(pl.DataFrame({"A": [1, 1, 2, 2]}), "A", population=1000)
    assert nobody.summary["attribution"]["variables"][0]["share_tau1"] == 0.0
    assert all(line["records"] == 0 for line in nobody.summary["thresholds"])


def make_risk(r1, r2) -> Risk:
    r1, r2 = np.array(r1), np.array(r2)
    sure = certain_measure(0.0)
    return Risk(sure, sure, r1, r1, r1, r2, r2, r2)


def test_thresholds_by_hand():
    risk = make_risk([0.6, 0.5, 0.15, 0.02, 0.001], [0.8, 0.7, 0.3, 0.1, 0.05])
    told = describe_thresholds(risk)
    assert [(line["above"], line["records"]) for line in told] == [(0.5, 1), (0.2, 2), (0.1, 3), (0.05, 3), (0.01, 4)]
    assert told[0]["tau1_after"] == pytest.approx(0.671)
    assert told[2]["tau2_after"] == pytest.approx(0.15)


def test_ranks_by_hand_and_in_the_file(found):
    assert rank_uniques(make_risk([0.1, 0.5, 0.1, 0.1], [0.2, 0.6, 0.3, 0.2])).tolist() == [3, 1, 2, 4]
    assert found.records.columns[-1] == "rank"
    assert found.records.filter(pl.col("sample_unique") == 0)["rank"].null_count() == (
        found.records.height - found.summary["input"]["sample_uniques"]
    )
    ranked = found.records.drop_nulls("rank").sort("rank")
    assert ranked["rank"].to_list() == list(range(1, ranked.height + 1))
    assert ranked["r1"].is_sorted(descending=True)


def test_draws_are_few_when_they_are_costly(found):
    posterior = found._posterior
    levels = posterior.microdata.levels
    whole, rest = (
        prepare_release(posterior, leave_out(levels, None)),
        [prepare_release(posterior, leave_out(levels, 0))],
    )

    class Run:
        sweeps, thin, starts = 60, 3, (1, 5)

    assert choose_draws(posterior, whole, rest, None) == []
    few = choose_draws(posterior, whole, rest * 100_000, Run())
    assert len(few) == min(FEWEST_DRAWS, int(np.prod(posterior.available)))
    many = choose_draws(replace(posterior, draws=((posterior.draws[0][0],) * 200,) * 4), whole, rest, Run())
    assert len(many) > MOST_DRAWS
    # More than these only if they are cheap.
    four = choose_draws(replace(posterior, draws=((posterior.draws[0][0],) * 200,) * 4), whole, rest * 12, Run())
    assert len(four) == MOST_DRAWS
    assert (many[0], many[-1]) == (0, 799)


def test_household_risk_by_hand(rng):
    """In each draw 1 - prod(1 - r), then mean and interval; a household without a sample unique has risk 0."""
    household = np.array([0, 0, 1, 1, 2, 0])
    unique = np.array([0, 1, 3, 5])
    r1 = rng.random((2, 50, 4)).astype(np.float32)
    r1[0, 0, 0] = 1.0

    class Run:
        pass

    run = Run()
    run.r1 = run.r2 = r1
    block, columns = find_household_risk("HH", household, unique, make_risk([0.0] * 4, [0.0] * 4), run)
    expected = np.array(
        [[1 - (1 - a) * (1 - b) * (1 - d), c, 0.0] for a, b, c, d in r1.astype(np.float64).reshape(-1, 4)]
    )
    assert columns["household_r1"] == pytest.approx(expected.mean(axis=0)[household], rel=1e-6)
    low, high = np.quantile(expected, [0.025, 0.975], axis=0, method="inverted_cdf")
    assert columns["household_r2_low"] == pytest.approx(low[household], rel=1e-6)
    assert columns["household_r2_high"] == pytest.approx(high[household], rel=1e-6)
    assert (block.column, block.households, block.with_sample_unique) == ("HH", 3, 2)
    assert (block.largest, block.mean_size) == (3, 2.0)
    assert block.with_population_unique.mean == pytest.approx(expected.sum(axis=1).mean(), rel=1e-6)


def test_households_of_a_run(found):
    records, block = found.records, found.summary["households"]
    assert block["households"] == 20
    assert records["household_r1"].null_count() == 0
    # Every member has the household's risk, and it is at least that of its riskiest member.
    by_house = records.with_columns(house=(pl.col("row") - 1) // 3)
    assert by_house.group_by("house").agg(pl.col("household_r1").n_unique())["household_r1"].max() == 1
    alone = by_house.filter(pl.col("sample_unique") == 1)
    assert (alone["household_r1"] >= alone["r1"] - 1e-6).all()
    per_house = by_house.group_by("house").first()
    assert block["with_population_unique"]["mean"] == pytest.approx(per_house["household_r1"].sum(), rel=1e-5)
    assert block["with_match"]["mean"] == pytest.approx(per_house["household_r2"].sum(), rel=1e-5)


def test_weights_of_a_run(found, frame):
    block, weight = found.summary["weights"], frame["W"].to_numpy()
    assert found.summary["input"]["population"] == weight.sum()
    assert block["gave_population"] is True
    assert block["cv"] == pytest.approx(weight.std() / weight.mean())
    assert block["effective_sample_size"] == pytest.approx(weight.sum() ** 2 / (weight**2).sum())
    assert block["ratio"] == weight.max() / weight.min()
    assert "simple random sample" in block["warning"]
    told = keyhole.assess(frame, "A", weight="W", population=60)
    assert told.summary["weights"]["gave_population"] is False
    assert told.summary["input"]["population"] == 60
    equal = keyhole.assess(frame.with_columns(W=pl.lit(1.0)), "A", weight="W").summary["weights"]
    assert (equal["equal"], equal["warning"], equal["effective_sample_size"]) == (True, None, 60)


def test_weights_count_the_records_that_are_used(frame, tmp_path):
    rules = tmp_path / "rules.yaml"
    rules.write_text("impossible:\n  - {A: [0]}\n")
    told = keyhole.assess(frame, "A,B", weight="W", household="HH", zeros=rules, drop_contradictions=True, **QUICK)
    used = frame.filter(pl.col("A") != 0)
    assert told.summary["input"]["population"] == used["W"].sum()
    assert told.summary["households"]["households"] == used["HH"].n_unique()
    assert told.records["household_r1"].null_count() == frame.height - used.height


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, 0.0, 2.0], "row 2, column 'W' is zero or negative"),
        ([1.0, 2.0, -3.0], "row 3, column 'W' is zero or negative"),
        ([None, 2.0, 1.0], "row 1, column 'W' is blank or not a number"),
        ([1.0, float("nan"), 1.0], "row 2, column 'W' is blank"),
        (["1", "zzcanaryzz", ""], r"row 2, column 'W' is blank or not a number \(2 such rows\)"),
        ([1.0, float("inf"), 1.0], "row 2, column 'W' is infinite"),
        ([0.5, 0.5, 0.5], "sum to 2, fewer than the 3 records"),
    ],
)
def test_bad_weights_are_refused(values, message):
    data = pl.DataFrame({"A": [1, 2, 2], "W": values})
    with pytest.raises(keyhole.InputError, match=message) as caught:
        keyhole.assess(data, "A", weight="W")
    assert "zzcanaryzz" not in str(caught.value)


@pytest.mark.parametrize("values", [["a", "", "b"], ["a", None, "b"], ["a", "  ", "b"], [1, None, 2]])
def test_blank_households_are_refused(values):
    data = pl.DataFrame({"A": [1, 2, 2], "HH": values})
    with pytest.raises(keyhole.InputError, match="row 2, column 'HH' is blank"):
        keyhole.assess(data, "A", population=9, household="HH")


def test_the_design_is_read_alike_from_every_source(frame, tmp_path):
    frame.write_csv(tmp_path / "x.csv")
    frame.write_parquet(tmp_path / "x.parquet")
    (tmp_path / "semi.csv").write_text(frame.write_csv(separator=";").replace("\n", "\r\n"), encoding="utf-16")
    told = [
        keyhole.assess(source, "A,B,C,D", population=60, weight="W", household="HH")
        for source in (frame, frame.to_pandas(), *(tmp_path / name for name in ("x.csv", "x.parquet", "semi.csv")))
    ]
    for other in told[1:]:
        assert other.records.equals(told[0].records)
        for block in ("weights", "households", "attribution", "thresholds"):
            assert other.summary[block] == told[0].summary[block]
    with pytest.raises(keyhole.InputError, match="has no column 'WW'"):
        keyhole.assess(tmp_path / "x.csv", "A", weight="WW")


def test_count_cells_without_variables():
    assert len(count_cells(np.zeros((3, 0), np.int32)).unique_record) == 0
