"""A result folder answers what-if as the run did: with the data, or with the keys that were kept."""

import stat

import numpy as np
import polars as pl
import pytest

import keyhole
from keyhole.errors import InputError, KeyholeError, OutputError
from keyhole.results.folder import MANIFEST, OUTPUTS
from keyhole.results.restored import KEYS

RULES = ["A == 1 and B == x", {"C": [4], "B": ["y"]}]
ASKED = {"drop": ["B"], "recode": {"C": [[1, 2], [3, 4]]}}


def make_frame() -> pl.DataFrame:
    rng = np.random.default_rng(8)
    columns = {"A": rng.integers(1, 6, 90), "B": rng.choice(["x", "y", "z"], 90), "C": rng.integers(1, 13, 90)}
    frame = pl.DataFrame({**columns, "AGE": rng.integers(18, 90, 90), "ONE": np.ones(90, int)})
    return frame.with_columns(B=pl.when(pl.int_range(90) % 11 == 0).then(None).otherwise("B"))


CASES = {
    "plain": {},
    "rules": {"zeros": RULES, "drop_contradictions": True},
    "codebook": {"codebook": {"A": [5, 4, 3, 2, 1, 9], "B": {"x": "X", "y": "Y", "z": "Z"}}},
    "bands": {"keys": "A,B,C,AGE", "bands": {"AGE": "20y"}},
    "merged": {
        "keys": "A,B,C,AGE",
        "bands": {"AGE": "20y"},
        "merge": {"AGE": "20-39,40-59", "B": [["x", "z"]], "A": {"low": [1, 2]}},
    },
    "merged, with labels": {
        "codebook": {"A": [5, 4, 3, 2, 1, 9], "B": {"x": "X", "y": "Y", "z": "Z"}},
        "merge": {"A": [[5, 3]], "B": "'',x"},
    },
    "dropped": {"missing": "drop"},
    "to the model": {"missing": "model", "zeros": RULES, "drop_contradictions": True},
    "merged, to the model": {"missing": "model", "merge": {"B": "x,z"}},
    "mixed": {"model": "mixed", "profiles": 3},
    "classes": {"quick": True, "zeros": RULES, "drop_contradictions": True},
    "a constant key": {"keys": "A,ONE,B,C"},
}


@pytest.mark.parametrize("case", CASES)
def test_a_folder_answers_as_the_run_did(case, tmp_path):
    """From the file, from dataframes, and from the keys that were kept."""
    options = {"keys": "A,B,C", "population": 700, "max_sweeps": 40, "chains": 2, **CASES[case]}
    frame = make_frame()
    frame.write_csv(tmp_path / "s.csv")
    run = keyhole.assess(tmp_path / "s.csv", keep_data=True, **options)
    expected = run.what_if(**ASKED)
    assert expected.tau1.mean > 0
    run.save(tmp_path / "r")
    assert stat.S_IMODE((tmp_path / "r" / KEYS).stat().st_mode) == 0o600
    loaded = keyhole.load(tmp_path / "r")
    for data in (None, tmp_path / "s.csv", frame, frame.to_pandas()):
        found = loaded.what_if(**ASKED, data=data)
        assert found == expected
        assert found.r1.tolist() == expected.r1.tolist()
        variables = run._posterior.microdata.variables
        for x, variable in enumerate(loaded._records("what_if", data).microdata.variables):
            assert (variable.ordered, variable.labels) == (variables[x].ordered, variables[x].labels)
            assert not variable.ordered or variable.orderable == variables[x].orderable
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again" / KEYS).read_bytes() == (tmp_path / "r" / KEYS).read_bytes()


def test_a_table_of_cells_is_kept_with_its_counts(tmp_path):
    cells = make_frame().group_by("A", "C", maintain_order=True).len("N")
    given = {"keys": "A,C", "count": "N", "population": 700, "max_sweeps": 40, "chains": 2}
    run = keyhole.assess(cells, keep_data=True, **given)
    run.save(tmp_path / "r")
    loaded = keyhole.load(tmp_path / "r")
    assert loaded.what_if(["C"]) == loaded.what_if(["C"], data=cells) == run.what_if(["C"])


@pytest.fixture
def folder(tmp_path):
    keyhole.assess(make_frame(), "A,B,C", population=700, max_sweeps=40, chains=2).save(tmp_path / "r")
    return tmp_path / "r"


def test_without_the_records_it_says_how_to_ask(folder):
    assert sorted(path.name for path in folder.iterdir()) == sorted([*OUTPUTS, MANIFEST])
    with pytest.raises(KeyholeError, match="give the file or dataframe that was assessed as `data`"):
        keyhole.load(folder).what_if(**ASKED)


@pytest.mark.parametrize("change", ["order", "fewer", "a value", "a new category"])
def test_other_data_are_refused_in_one_line(folder, tmp_path, change):
    frame = make_frame()
    other = {
        "order": frame.reverse(),
        "fewer": frame.head(89),
        "a value": frame.with_columns(A=pl.when(pl.int_range(90) == 5).then(frame["A"] % 5 + 1).otherwise("A")),
        "a new category": frame.with_columns(
            B=pl.when(pl.int_range(90) == 5).then(pl.lit("zzcanaryzz")).otherwise("B")
        ),
    }[change]
    other.write_csv(tmp_path / "s.csv")
    for data, where in ((other, "the dataframe"), (tmp_path / "s.csv", "s.csv")):
        with pytest.raises(InputError, match=f"{where} does not hold the records of this result") as caught:
            keyhole.load(folder).what_if(["A"], data=data)
        assert "\n" not in str(caught.value)
        assert "zzcanaryzz" not in str(caught.value)


def test_kept_keys_that_were_changed_are_refused(tmp_path):
    keyhole.assess(make_frame(), "A,B", population=700, max_sweeps=40, chains=2, keep_data=True).save(tmp_path / "r")
    frame = pl.read_parquet(tmp_path / "r" / KEYS)
    frame.reverse().write_parquet(tmp_path / "r" / KEYS)
    with pytest.raises(OutputError, match=r"keys.parquet is not as it was written"):
        keyhole.load(tmp_path / "r")


def test_a_result_without_kept_keys_takes_those_of_an_older_one_away(tmp_path):
    given = {"keys": "A,B", "population": 700, "max_sweeps": 40, "chains": 2}
    keyhole.assess(make_frame(), keep_data=True, **given).save(tmp_path / "r")
    keyhole.assess(make_frame(), **given).save(tmp_path / "r", overwrite=True)
    assert not (tmp_path / "r" / KEYS).exists()
    keyhole.load(tmp_path / "r")


@pytest.mark.parametrize("kept", [True, False])
def test_a_folder_names_no_category_that_only_the_records_show(kept, tmp_path):
    """As in the run itself: B comes from the records, A from the codebook."""
    options = {"population": 700, "max_sweeps": 40, "chains": 2, "codebook": {"A": [1, 2, 3, 4, 5]}}
    run = keyhole.assess(make_frame().with_columns(B=pl.col("B") + "man"), "A,B,C", keep_data=kept, **options)
    run.save(tmp_path / "r")
    data = None if kept else make_frame().with_columns(B=pl.col("B") + "man")
    for assessment in (run, keyhole.load(tmp_path / "r")):
        with pytest.raises(KeyholeError) as caught:
            assessment.what_if(recode={"B": [["xmen", "yman"]]}, data=data)
        assert "'xmen' is not a category of 'B'" in str(caught.value)
        assert "xman" not in str(caught.value)
        with pytest.raises(KeyholeError, match="nearest: '5' and '4'"):
            assessment.what_if(recode={"A": [[1, 7]]}, data=data)
