"""The same records give the same numbers from every format; labels, missing values, bands and counts."""

import gzip
import sqlite3
import subprocess
import sys
import zlib

import numpy as np
import polars as pl
import pyreadstat
import pytest

import keyhole
from keyhole.data import BLANK, SourceOptions, Variable, count_cells, read_microdata
from keyhole.errors import CodebookError, InputError, SettingsError
from keyhole.files import json_text
from tests.unit.formats import QUERY, options, read, run_child_here, write

KEYS = "AGE,SEX,REGION,EDUC"


@pytest.fixture
def people(rng):
    n = 120
    return pl.DataFrame(
        {
            "AGE": pl.Series(rng.integers(0, 40, n)).set(pl.Series(rng.random(n) < 0.1), None),
            "SEX": rng.choice(["f", "m"], n),
            "REGION": rng.choice(["north", "sud", "öst", ""], n),
            "EDUC": rng.integers(1, 5, n).astype(np.float64),
        }
    ).with_columns(pl.col("REGION").replace("", None))


@pytest.fixture
def here(monkeypatch):
    run_child_here(monkeypatch)


def test_every_format_gives_the_same_records(here, people, tmp_path):
    first = read(write(people, tmp_path, "csv"), KEYS)
    assert first.variables[2].categories == ("north", "sud", "öst", BLANK)
    assert first.variables[3].categories == ("1", "2", "3", "4")
    for kind in ("csv.gz", "utf16.csv", "parquet", "zsav", "xpt", "db"):
        found = read(write(people, tmp_path, kind), KEYS)
        assert found.variables == first.variables, kind
        assert np.array_equal(found.codes, first.codes), kind
        assert (found.rows, found.ignored, found.reading) == (first.rows, first.ignored, first.reading), kind


def test_spss_portable_files_are_read(here, people, tmp_path):
    plain = people.with_columns(pl.col("REGION").replace("öst", "ost"))
    expected = read(write(plain, tmp_path, "csv"), KEYS)
    found = read(write(plain, tmp_path, "por"), KEYS)
    assert found.variables == expected.variables
    assert np.array_equal(found.codes, expected.codes)


def test_every_format_gives_byte_identical_summary_numbers(people, tmp_path):
    texts = set()
    for kind in ("csv", "parquet", "sav", "dta", "xpt", "db"):
        source = write(people, tmp_path, kind)
        found = keyhole.assess(
            source, KEYS, population=2000, query=options(source).query, bands={"AGE": "15y"}, chains=2, max_sweeps=20
        )
        summary = {name: value for name, value in found.summary.items() if name != "seconds"}
        summary["quick"] = summary["quick"].model_copy(update={"seconds": 0.0})
        texts.add(json_text(summary) + found.records.write_csv())
    assert len(texts) == 1


LABELS = {"EDUC": {4: "university", 1: "none", 2: "school", 9: "refused"}, "SEX": {"f": "woman", "m": "man"}}


@pytest.mark.parametrize("kind", ["sav", "dta"])
def test_value_labels_are_the_codebook(here, people, tmp_path, kind):
    told = LABELS if kind == "sav" else {"EDUC": LABELS["EDUC"]}
    source = write(people, tmp_path, kind, variable_value_labels=told)
    sex, educ = read(source, "SEX,EDUC").variables
    assert sex == Variable("SEX", ("f", "m"), ("woman", "man") if kind == "sav" else None)
    # SPSS keeps the order of the label table, here not that of the codes; Stata sorts it, so 3 finds its place.
    order = "41293" if kind == "sav" else "12349"
    names = {"4": "university", "1": "none", "2": "school", "9": "refused", "3": "3"}
    assert educ == Variable("EDUC", tuple(order), tuple(names[code] for code in order))
    given = read(source, "SEX,EDUC", codebook={"EDUC": [1, 2, 3, 4]})
    assert given.variables[1] == Variable("EDUC", ("1", "2", "3", "4"))


def test_user_missing_values_of_spss_are_kept_or_blank(here, people, tmp_path):
    source = write(
        people,
        tmp_path,
        "sav",
        variable_value_labels={"EDUC": LABELS["EDUC"]},
        missing_ranges={"EDUC": [{"lo": 3, "hi": 9}]},
    )
    kept = read(source, KEYS).variables[3]
    assert set(kept.categories) == {"1", "2", "3", "4", "9"}
    blank = read(source, KEYS, user_missing="blank").variables[3]
    assert blank == Variable("EDUC", ("1", "2", BLANK), ("none", "school", "(blank)"))
    banded = read(source, KEYS, bands={"EDUC": [0, 2]}).variables[3]
    assert banded == Variable("EDUC", ("0-1", "2+", "3", "4"), ("0-1", "2+", "3", "university"))
    with pytest.raises(SettingsError, match="`user_missing`"):
        read(source, KEYS, user_missing="maybe")


def test_missing_letters_of_stata_are_kept_or_blank(here, tmp_path):
    import pandas as pd

    frame = pd.DataFrame({"A": [1, 2, "a", None, 3, 2], "B": [1, 1, 2, 2, 1, 1]})
    path = tmp_path / "x.dta"
    pyreadstat.write_dta(
        frame, path, missing_user_values={"A": ["a"]}, variable_value_labels={"A": {1: "one", "a": "refused"}}
    )
    kept = read(str(path), "A,B").variables[0]
    assert kept == Variable("A", ("1", "2", "3", ".a", BLANK), ("one", "2", "3", "refused", "(blank)"))
    blank = read(str(path), "A,B", user_missing="blank").variables[0]
    assert blank == Variable("A", ("1", "2", "3", BLANK), ("one", "2", "3", "(blank)"))
    assert read(str(path), "A,B", bands={"A": "2y"}).variables[0].categories == ("0-1", "2-3", ".a", BLANK)


@pytest.mark.parametrize("kind", ["sav", "dta", "xpt"])
def test_a_cut_statistical_file_is_refused_in_one_line(people, tmp_path, kind):
    source = write(people, tmp_path, kind)
    path = tmp_path / f"people.{kind}"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 3])
    with pytest.raises(InputError, match=rf"people\.{kind} is not a readable") as caught:
        read(source, "SEX,EDUC")
    assert "\n" not in str(caught.value)


def test_a_crash_of_the_library_is_one_line(people, tmp_path, monkeypatch):
    source = write(people, tmp_path, "sav")
    child = tmp_path / "child.py"
    child.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    monkeypatch.setattr("keyhole.data.statistical_child.__file__", str(child))
    with pytest.raises(InputError, match="not a readable SPSS file"):
        read(source, KEYS)


def test_no_such_column_in_a_statistical_file(here, people, tmp_path):
    with pytest.raises(InputError, match="did you mean 'EDUC'"):
        read(write(people, tmp_path, "sav"), "SEX,EDUK")


@pytest.mark.parametrize(
    ("name", "start", "message"),
    [
        ("x.csv", b"$FL2@(#) SPSS", r"a file of SPSS.*rename it to \.sav or"),
        ("x.dta", b"AGE,SEX", "is not Stata"),
        ("x.db", b"SQLite format 3\0", r"`url` sqlite:///x\.db"),
        ("x.xpt", b"<stata_dta>", "is not SAS"),
        ("x.xlsx", b"PK\x03\x04", "save it as CSV"),
    ],
)
def test_false_endings(tmp_path, name, start, message):
    (tmp_path / name).write_bytes(start + b" " * 40)
    with pytest.raises(InputError, match=message):
        read(str(tmp_path / name), "AGE")


def test_a_blank_key_drops_the_record_and_nothing_else(people, tmp_path):
    source = write(people, tmp_path, "csv")
    found = read(source, KEYS, missing="drop")
    whole = people.drop_nulls()
    alone = read(write(whole, tmp_path, "parquet"), KEYS)
    assert found.variables == alone.variables
    assert np.array_equal(found.codes, alone.codes)
    assert found.rows == 120
    kept = people.select(pl.all_horizontal(pl.all().is_not_null())).to_series()
    assert found.row_used.tolist() == kept.to_list()
    assert found.reading["dropped"] == 120 - whole.height > 0
    with pytest.raises(InputError, match=r"fewer than two records without a blank.*`missing` category"):
        read_microdata(pl.DataFrame({"A": [1, None, None], "B": [None, 1, 2]}), "A,B", missing="drop")


def test_dropped_rows_are_said_everywhere(people):
    found = keyhole.assess(people, KEYS, fraction=1.0, missing="drop")
    block = found.summary["input"]
    assert (block["missing"], block["used"] + block["dropped"], block["rows"]) == ("drop", 120, 120)
    assert found.records["used"].sum() == block["used"]
    assert found.records.filter(pl.col("used") == 0)["cell_count"].null_count() == block["dropped"]
    from keyhole.commands.screen import rows

    assert f"{block['dropped']} records with a blank key left out" in str(rows(found.summary, None))


BANDED = pl.DataFrame({"AGE": [0, 14, 15, 29, 30, 74, 75, 101, None], "B": list("aabbaabba")})


def bands(spec, frame=BANDED):
    return read_microdata(frame, "AGE,B", options=SourceOptions(bands={"AGE": spec}))


@pytest.mark.parametrize("spec", ["0,15,30,45,60,75", [0, 15, 30, 45, 60, 75], " 0, 15,30,45,60,75 "])
def test_bands_by_lower_limits(spec):
    found = bands(spec)
    assert found.variables[0].categories == ("0-14", "15-29", "30-44", "45-59", "60-74", "75+", BLANK)
    assert found.codes[:, 0].tolist() == [0, 0, 1, 1, 2, 4, 5, 5, 6]
    assert found.reading["bands"] == {"AGE": "0,15,30,45,60,75"}


def test_bands_by_width_run_from_the_lowest_to_the_highest_value():
    frame = BANDED.with_columns(AGE=pl.Series([17, 18, 19, 20, 34, 17, 18, 17, 33]))
    assert bands("5y", frame).variables[0].categories == ("15-19", "20-24", "25-29", "30-34")
    assert bands("1y", frame).variables[0].categories[:2] == ("17", "18")
    frame = BANDED.with_columns(AGE=pl.Series([0.3, 0.1, 0.25, 0.2, 0.3, 0.1, 0.1, 0.3, 0.3]))
    assert bands("0.1y", frame).variables[0].categories == ("0.1 to <0.2", "0.2 to <0.3", "0.3 to <0.4")
    frame = BANDED.with_columns(AGE=pl.Series([-7, -1, 0, 4, 3, 2, 1, 0, 0]))
    assert bands("5y", frame).variables[0].categories == ("-10 to -6", "-5 to -1", "0 to 4")


def test_bands_take_fractions_and_text_and_leave_blanks():
    frame = pl.DataFrame({"AGE": ["14.99", " 15 ", "", None, "1e1"], "B": list("ababa")})
    found = bands("0,15", frame)
    assert found.variables[0].categories == ("0-14", "15+", BLANK)
    assert found.codes[:, 0].tolist() == [0, 1, 2, 2, 0]


@pytest.mark.parametrize(
    "spec", ["", "5", "a", "0;15", "15,0", "0,0", "0,nan", "0,inf", "0y", "-5y", "y", "1,,2", [], 5, {"a": 1}]
)
def test_bad_bands_are_refused(spec):
    with pytest.raises(SettingsError, match=r"^`bands` AGE: "):
        bands(spec)


@pytest.mark.parametrize("spec", ["5", "5000", [2.5]])
def test_a_single_limit_is_taken_for_a_width_without_its_letter(spec):
    number = spec if isinstance(spec, str) else "2.5"
    with pytest.raises(SettingsError, match=rf"did you mean {number}y \(bands of width {number}, whatever the unit\)"):
        bands(spec)
    with pytest.raises(SettingsError, match="single lower limit, so there is one band; write the lower limits, as in"):
        bands([0])


def test_values_without_a_band_are_located_but_never_shown():
    with pytest.raises(InputError, match=r"row 2, column 'AGE': the value is below the lowest limit") as caught:
        bands("15,30", BANDED.with_columns(AGE=pl.Series([20, 7, 20, 20, 20, 7, 20, 20, 20])))
    assert "7" not in str(caught.value)
    with pytest.raises(InputError, match="row 3, column 'AGE': the value is not a number") as caught:
        bands("0,30", BANDED.with_columns(AGE=pl.Series(["1", "2", "zzcanaryzz", *"123456"])))
    assert "zzcanaryzz" not in str(caught.value)
    with pytest.raises(InputError, match="more than 1000 bands"):
        bands("1y", BANDED.with_columns(pl.col("AGE") * 1_000_000))
    with pytest.raises(InputError, match="`bands` C: it is not one of the keys"):
        read_microdata(BANDED, "AGE,B", options=SourceOptions(bands={"C": "5y"}))


def test_a_codebook_for_a_banded_key_lists_the_bands():
    book = {"AGE": {"0-14": "children", "15-200": "x", "15+": "others"}}
    found = read_microdata(BANDED, "AGE,B", book, options=SourceOptions(bands={"AGE": "0,15"}))
    assert found.variables[0].labels == ("children", "x", "others", "(blank)")
    with pytest.raises(CodebookError, match="before `bands`"):
        read_microdata(BANDED, "AGE,B", {"AGE": [0, 1]}, options=SourceOptions(bands={"AGE": "0,15"}))


def test_continuous_keys_are_refused_with_the_remedy(rng):
    income = pl.DataFrame({"INCOME": rng.lognormal(8, 1, 30).round(2), "B": rng.integers(0, 2, 30)})
    with pytest.raises(InputError, match=r"looks continuous: .*`bands` INCOME=.*`allow_identifier` INCOME"):
        read_microdata(income, "INCOME,B")
    many = pl.DataFrame({"PRICE": rng.integers(0, 300, 5000), "B": rng.integers(0, 2, 5000)})
    for frame in (many, many.cast(pl.String), many.cast(pl.Float64)):
        with pytest.raises(InputError, match=r"'PRICE' has \d+ different numbers and no codebook.*`bands` PRICE="):
            read_microdata(frame, "PRICE,B")
    assert read_microdata(many, "PRICE,B", allow_identifier=["PRICE"]).levels[0] > 200
    assert read_microdata(many, "PRICE,B", {"PRICE": list(range(300))}).levels[0] == 300
    assert read_microdata(many, "PRICE,B", options=SourceOptions(bands={"PRICE": "50y"})).levels[0] == 6


def test_a_million_categories_are_refused(rng):
    frame = pl.DataFrame({"A": rng.permutation(1_000_000), "B": rng.integers(0, 2, 1_000_000)})
    with pytest.raises(InputError, match="more than 100,000 different values"):
        read_microdata(frame, "A,B", allow_identifier=["A"])


CELLS = pl.DataFrame({"A": [1, 1, 2, 2, 3, 1], "B": list("xyxyxx"), "N": [2, 0, 1, 3, None, 4]}).with_columns(
    pl.col("N").fill_null(0)
)


@pytest.mark.parametrize("kind", ["csv", "sav", "db"])
def test_a_table_of_cells_is_as_good_as_records(here, tmp_path, kind):
    found = read(write(CELLS, tmp_path, kind), "A,B", count="N")
    people = pl.DataFrame([row[:2] for row in CELLS.rows() for _ in range(row[2])], schema=["A", "B"], orient="row")
    expected = read_microdata(people, "A,B", {"A": [1, 2, 3]})
    assert found.variables == expected.variables
    assert np.array_equal(found.codes, expected.codes)
    assert (found.rows, found.row_used.tolist()) == (6, [True, False, True, True, False, True])
    assert found.record_row.tolist() == [0, 0, 2, 3, 3, 3, 5, 5, 5, 5]
    assert count_cells(found.codes).cell_count.tolist() == [6, 6, 1, 3, 3, 3, 6, 6, 6, 6]


def test_records_of_a_table_of_cells_have_one_row_per_input_row():
    found = keyhole.assess(CELLS, "A,B", population=10, count="N")
    assert found.records["cell_count"].to_list() == [6, None, 1, 3, None, 6]
    assert found.records["sample_unique"].to_list() == [0, 0, 1, 0, 0, 0]
    assert found.records["r1"].to_list() == [None, None, 1.0, None, None, None]
    assert (found.summary["input"]["rows"], found.summary["input"]["used"]) == (6, 10)
    assert found.summary["input"]["count"] == found.manifest["input"]["count"] == "N"


def test_rules_and_counts_go_together(tmp_path):
    rules = tmp_path / "rules.yaml"
    rules.write_text("impossible:\n  - {A: [2], B: [y]}\n")
    with pytest.raises(keyhole.RulesError, match=r"row 4\b") as caught:
        keyhole.assess(CELLS, "A,B", population=10, count="N", zeros=rules)
    assert "4, 4" not in str(caught.value)
    found = keyhole.assess(CELLS, "A,B", population=10, count="N", zeros=rules, drop_contradictions=True)
    assert (found.summary["input"]["used"], found.summary["zeros"]["left_out"]) == (7, 3)
    assert found.records["used"].to_list() == [1, 0, 1, 0, 0, 1]


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([1, 2, -1], "row 3, column 'N': a count must be"),
        ([1, 0.5, 1], "row 2"),
        ([1, None, 1], "row 2"),
        (["1", "x", "1"], "row 2"),
        ([10**7, 10**7, 1], "more than 20,000,000"),
        ([1e300, 1, 1], "more than"),
        ([0, 0, 0], "no record"),
        ([0, 1, 0], "single record"),
        ([True, True, False], "no numbers"),
    ],
)
def test_bad_counts(counts, message):
    with pytest.raises(InputError, match=message):
        read_microdata(pl.DataFrame({"A": [1, 2, 3], "N": counts}, strict=False), "A", options=SourceOptions(count="N"))


def test_a_count_is_no_key():
    with pytest.raises(InputError, match="it is one of the keys"):
        read_microdata(CELLS, "A,N", options=SourceOptions(count="N"))
    with pytest.raises(InputError, match="no column 'M'"):
        read_microdata(CELLS, "A,B", options=SourceOptions(count="M"))


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT AGE FROM people", "no column 'SEX'"),
        ("SELECT AGE, SEX, 1 AS SEX FROM people", "2 columns named 'SEX'"),
        ("SELEC", "syntax error"),
        ("SELECT * FROM nowhere", "no such table"),
        ("SELECT zz FROM people", "no such column"),
        ("DELETE FROM people", "single SELECT"),
        ("SELECT 1; SELECT 2", "single SELECT"),
        ("ATTACH 'other.db' AS other", "single SELECT"),
        ("PRAGMA writable_schema = 1", "single SELECT"),
        ("SELECT AGE, x'00ff' AS SEX FROM people", "holds bytes"),
        ("", "single SELECT"),
        ("SELECT AGE, SEX FROM people LIMIT 0", "no record"),
    ],
)
def test_queries_that_fail_are_one_line(people, tmp_path, query, message):
    source = write(people, tmp_path, "db")
    before = (tmp_path / "people.db").read_bytes()
    with pytest.raises(InputError, match=message) as caught:
        read_microdata(source, "AGE,SEX", options=SourceOptions(query=query))
    assert "\n" not in str(caught.value)
    assert (tmp_path / "people.db").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["people.db"]


def test_weights_and_households_stay_with_their_rows(rng, tmp_path):
    """A query without an order may give its rows in another order each time."""
    key = rng.integers(0, 5, 70)
    path = write(pl.DataFrame({"A": key, "B": rng.integers(0, 3, 70), "W": key + 1.0, "H": key * 10}), tmp_path, "db")
    shuffled = SourceOptions(query="SELECT * FROM people ORDER BY random()")
    found = read_microdata(path, "A,B", options=shuffled, weight="W", household="H")
    code = np.array([int(name) for name in found.variables[0].categories])[found.codes[:, 0]]
    assert (found.extra.weight == code + 1.0).all()
    assert (found.extra.household == np.unique(key).searchsorted(code)).all()


def test_an_address_and_a_query_go_together(tmp_path):
    for source, query in ((str(tmp_path / "x.csv"), QUERY), ("sqlite:///x.db", None)):
        with pytest.raises(SettingsError, match="`query`"):
            read_microdata(source, "A", options=SourceOptions(query=query))
    with pytest.raises(InputError, match="does not exist"):
        read_microdata(f"sqlite:///{tmp_path}/none.db", "A", options=SourceOptions(query=QUERY))
    (tmp_path / "x.db").write_bytes(b"no database " * 100)
    with pytest.raises(InputError, match="not an SQLite database"):
        read_microdata(f"sqlite:///{tmp_path}/x.db", "A", options=SourceOptions(query=QUERY))


@pytest.mark.parametrize(
    "url", ["nodb://u:zzcanaryzz@h/x", "postgresql://u:zzcanaryzz@127.0.0.1:1/x", "sqlite://[zzcanaryzz", "://"]
)
def test_addresses_are_never_shown(url):
    with pytest.raises(InputError) as caught:
        read_microdata(url, "A", options=SourceOptions(query=QUERY))
    assert "zzcanaryzz" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_databases_go_through_sqlalchemy(people, tmp_path):
    source = write(people, tmp_path, "db")
    expected = read(source, KEYS)
    # The second spelling is SQLAlchemy's own, which we leave to it.
    found = read(source.replace("sqlite://", "sqlite+pysqlite://"), KEYS)
    assert found.variables == expected.variables
    assert np.array_equal(found.codes, expected.codes)
    assert found.fingerprint == expected.fingerprint
    with pytest.raises(InputError, match="the query failed"):
        read_microdata(
            source.replace("sqlite://", "sqlite+pysqlite://"), "A", options=SourceOptions(query="SELECT zzcanaryzz")
        )


def test_an_error_of_a_driver_while_rows_are_read_is_one_line(people, tmp_path):
    url = write(people, tmp_path, "db").replace("sqlite://", "sqlite+pysqlite://")
    query = "SELECT 1 AS A UNION ALL SELECT abs(-9223372036854775807 - 1) UNION ALL SELECT 'zzcanaryzz'"
    with pytest.raises(InputError, match=r"^the query failed: check the address, the password and the query\.$"):
        read_microdata(url, "A", options=SourceOptions(query=query))


def test_an_error_of_ours_is_not_blamed_on_the_database(people, tmp_path, monkeypatch):
    monkeypatch.setattr("keyhole.data.database._texts", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        read(write(people, tmp_path, "db").replace("sqlite://", "sqlite+pysqlite://"), KEYS)


def test_a_lazy_frame_that_fails_is_one_line(tmp_path):
    def refuse(value):
        raise RuntimeError(f"zzcanaryzz {value}")

    lazy = pl.LazyFrame({"A": ["zzcanaryzz", "x"]})
    broken = lazy.with_columns(pl.col("A").map_elements(refuse, pl.String))
    for frame in (pl.scan_csv(tmp_path / "none.csv"), broken, lazy.select(pl.col("zzcanaryzz"))):
        with pytest.raises(InputError, match=r"^the dataframe cannot be read: ") as caught:
            read_microdata(frame, "A")
        assert "zzcanaryzz" not in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_child_without_memory_does_not_call_the_file_damaged(people, tmp_path, monkeypatch):
    source = write(people, tmp_path, "sav")
    child = tmp_path / "child.py"
    child.write_text("import sys\nsys.stdin.readline()\nsys.exit(4)\n")
    monkeypatch.setattr("keyhole.data.statistical.statistical_child.__file__", str(child))
    with pytest.raises(MemoryError):
        read(source, KEYS)


def test_a_want_of_memory_is_not_called_bad_input(people, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise MemoryError

    for place in ("narwhals.stable.v2.DataFrame.select", "narwhals.stable.v2.from_native"):
        with monkeypatch.context() as patched:
            patched.setattr(place, refuse)
            with pytest.raises(MemoryError):
                read_microdata(people, KEYS)
    source = write(people, tmp_path, "db").replace("sqlite://", "sqlite+pysqlite://")
    monkeypatch.setattr("keyhole.data.database._collect", refuse)
    with pytest.raises(MemoryError):
        read(source, KEYS)


def test_sqlalchemy_is_an_extra(people, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    assert read(write(people, tmp_path, "db"), KEYS).rows == 120
    with pytest.raises(InputError, match=r"keyhole\[sql\]"):
        read_microdata("postgresql://localhost/x", "A", options=SourceOptions(query=QUERY))


def same_records(one, two):
    """Whether both read the same records, in the same order."""
    return one.variables == two.variables and np.array_equal(one.codes, two.codes)


@pytest.mark.parametrize("kind", ["sav", "zsav", "dta", "xpt"])
def test_rows_read_in_parts_are_those_read_at_once(here, people, tmp_path, monkeypatch, kind):
    source = write(people, tmp_path, kind)
    expected = read(source, KEYS)
    monkeypatch.setattr("keyhole.data.statistical.ROWS_AT_ONCE", 7)
    found = read(source, KEYS)
    assert found.rows == 120
    assert same_records(found, expected)


@pytest.mark.parametrize("keep", ["keep", "blank"])
def test_missing_letters_may_occur_in_some_parts_only(here, tmp_path, monkeypatch, keep):
    answer = pl.Series("A", [1.0, 2.0, None, 1.0] * 10 + ["b", 2.0, "c", None], dtype=pl.Object)
    frame = pl.DataFrame([answer, pl.Series("B", [1.5, 2.0] * 22)])
    path = tmp_path / "x.dta"
    pyreadstat.write_dta(frame, path, missing_user_values={"A": ["b", "c"]})
    expected = read(str(path), "A,B", user_missing=keep)
    assert expected.variables[0].categories == (("1", "2", ".b", ".c", BLANK) if keep == "keep" else ("1", "2", BLANK))
    for rows in (1, 8, 41):
        monkeypatch.setattr("keyhole.data.statistical.ROWS_AT_ONCE", rows)
        assert same_records(read(str(path), "A,B", user_missing=keep), expected)


def write_parts(frame, folder):
    """Write a folder of Parquet files, with the notes that other programs leave."""
    folder.mkdir()
    for place, part in enumerate(frame.iter_slices(50)):
        part.write_parquet(folder / f"part-{place}.parquet")
    (folder / "_SUCCESS").touch()
    (folder / ".part-0.parquet.crc").write_bytes(b"crc")
    return folder


def test_a_folder_of_parquet_files_is_one_table(people, tmp_path):
    expected = read_microdata(people, KEYS)
    folder = write_parts(people, tmp_path / "people")
    found = read_microdata(folder, KEYS)
    assert found.rows == 120
    assert same_records(found, expected)
    # A column that is not wanted may differ.
    people[100:].drop("EDUC").write_parquet(folder / "part-2.parquet")
    again = read_microdata(folder, "AGE,SEX,REGION")
    assert same_records(again, read_microdata(people, "AGE,SEX,REGION"))
    assert again.fingerprint != found.fingerprint


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("part-2.parquet", lambda part: part.drop("EDUC"), "column 'EDUC' is in only one of them"),
        ("part-2.parquet", lambda part: part.cast({"EDUC": pl.Int64}), "column 'EDUC' has different types"),
        ("part-2.parquet", lambda part: b"PAR1zzcanaryzz", "part-2.parquet is not a readable Parquet"),
        ("part-2.parquet", lambda part: b"", "part-2.parquet is empty"),
        ("people.csv", lambda part: b"AGE\n1\n", "holds 'people.csv', which is not Parquet"),
    ],
)
def test_a_folder_of_other_files_is_refused_in_one_line(people, tmp_path, name, change, message):
    folder = write_parts(people, tmp_path / "people")
    content = change(people[100:])
    if isinstance(content, bytes):
        (folder / name).write_bytes(content)
    else:
        content.write_parquet(folder / name)
    with pytest.raises(InputError, match=message) as caught:
        read_microdata(folder, KEYS)
    assert "\n" not in str(caught.value)
    assert "zzcanaryzz" not in str(caught.value)


def test_a_column_that_no_file_of_a_folder_has_is_named(people, tmp_path):
    with pytest.raises(InputError, match=r"no column 'AGES' \(did you mean 'AGE'\?\): its columns are AGE, SEX"):
        read_microdata(write_parts(people, tmp_path / "people"), "AGES,SEX")


@pytest.mark.parametrize("dialect", ["sqlite", "sqlite+pysqlite"])
def test_a_database_counts_the_cells(people, tmp_path, dialect):
    source = write(people, tmp_path, "db").replace("sqlite://", f"{dialect}://")
    rows = read(source, KEYS)
    query = "SELECT * FROM people; -- everyone" if dialect == "sqlite" else "SELECT * FROM people -- everyone"
    found = read_microdata(source, KEYS, options=SourceOptions(query=query.replace(";", ""), count_cells=True))
    assert found.variables == rows.variables
    assert np.array_equal(found.cells, rows.cells)
    assert np.array_equal(found.cell_size, rows.cell_size)
    assert found.rows == len(rows.cells) < rows.rows
    assert found.records == rows.records
    assert found.row_records.sum() == 120


def test_counts_of_a_database_give_the_risks_of_its_rows(people, tmp_path):
    source = write(people, tmp_path, "db")
    rows, cells = (
        keyhole.assess(source, KEYS, population=120, query=QUERY, count_cells=counted) for counted in (False, True)
    )
    assert (cells.tau1, cells.tau2) == (rows.tau1, rows.tau2)
    assert cells.records.height == rows.summary["input"]["distinct_cells"]
    assert cells.records["cell_count"].sum() == 120
    assert cells.summary["input"]["count"] == "COUNT(*)"


@pytest.mark.parametrize(
    ("query", "keys", "more", "message"),
    [
        (QUERY, "AGE,zz", {}, "no column 'zz'"),
        ("SELECT AGE, AGE FROM people", "AGE", {}, "2 columns named 'AGE'"),
        ("SELECT 1; SELECT 2", "AGE", {}, "single SELECT"),
        ("DELETE FROM people", "AGE", {}, "single SELECT"),
        (QUERY, "AGE,SEX", {"household": "EDUC"}, "`count_cells` goes with neither"),
    ],
)
def test_a_count_in_the_database_is_refused_in_one_line(people, tmp_path, query, keys, more, message):
    source = write(people, tmp_path, "db")
    with pytest.raises(InputError, match=message) as caught:
        read_microdata(source, keys, options=SourceOptions(query=query, count_cells=True), **more)
    assert "\n" not in str(caught.value)


def test_a_file_cannot_count_its_cells(people, tmp_path):
    for chosen in (SourceOptions(count_cells=True), SourceOptions(QUERY, count="AGE", count_cells=True)):
        with pytest.raises(SettingsError, match="`count_cells` needs `query`"):
            read_microdata(people, KEYS, options=chosen)


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Enum(["a", " ", "NA"])])
def test_texts_that_are_numbered_are_blank_like_others(dtype):
    frame = pl.DataFrame({"A": pl.Series(["a", " ", "NA", "a", None, "a"]).cast(dtype), "B": [1, 2, 1, 2, 1, 2]})
    found = read_microdata(frame, "A,B", missing="drop")
    assert found.row_used.tolist() == [True, False, False, True, False, True]
    assert found.reading["na"]["found"] == {"A": 1}


def test_values_of_any_type_are_read_from_a_database(tmp_path):
    with sqlite3.connect(tmp_path / "x.db") as connection:
        connection.execute("CREATE TABLE people (A)")
        connection.executemany("INSERT INTO people VALUES (?)", [(1,), (1.0,), ("1",), (" 2 ",), (None,), ("",)])
    connection.close()
    found = read(f"sqlite:///{tmp_path}/x.db", "A")
    assert found.variables[0].categories == ("1", "2", BLANK)
    assert found.codes[:, 0].tolist() == [0, 0, 0, 1, 2, 2]


def test_a_gzip_bomb_is_refused_at_once_with_little_memory(tmp_path):
    path = tmp_path / "bomb.csv.gz"
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    block = b"1,2\n" * (1 << 20)
    path.write_bytes(packer.compress(b"A,B\n") + b"".join(packer.compress(block) for _ in range(16)) + packer.flush())
    code = (
        "import sys, time\n"
        "from benchmarks.machine import peak_megabytes\n"
        "from keyhole.errors import InputError\n"
        "from keyhole.data import read_microdata\n"
        "started, before = time.process_time(), peak_megabytes()\n"
        "try:\n    read_microdata(sys.argv[1], 'A,B')\n"
        "except InputError as error:\n    print('200 times' in str(error), time.process_time() - started,\n"
        "          peak_megabytes() - before)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    refused, seconds, megabytes = done.stdout.split()
    assert refused == "True"
    assert float(seconds) < 2
    assert float(megabytes) < 100


def test_gzip_that_is_no_table(tmp_path, monkeypatch):
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(gzip.compress(b"A,B\n1,2\n")))
    with pytest.raises(InputError, match="gzip inside gzip"):
        read(str(path), "A")
    path.write_bytes(gzip.compress(b"A,B\n1,2\n1,3\n" * 100)[:-12])
    with pytest.raises(InputError, match="cut off or damaged"):
        read(str(path), "A")
    monkeypatch.setattr("keyhole.data.opening.unpack_gzip.__defaults__", (100,))
    path.write_bytes(gzip.compress(b"A,B\n" + b"1,2\n" * 1000))
    with pytest.raises(InputError, match="unpacks to more than"):
        read(str(path), "A")
    path.write_bytes(gzip.compress(b"A,B\n1,2\n") + gzip.compress(b"1,3\n2,3\n"))
    assert read(str(path), "A,B").rows == 3


@pytest.mark.parametrize("kind", ["frame", "csv", "csv.gz", "parquet", "db", "sav"])
def test_texts_that_mean_missing_are_blank_in_every_format(here, tmp_path, kind):
    frame = pl.DataFrame({"AGE": ["30", "NA", "41", " na "] * 5, "SEX": ["f", "m", ".", "NULL", "m"] * 4})
    told = {} if kind == "frame" else {"missing": "drop"}
    source = frame if kind == "frame" else write(frame, tmp_path, kind)
    found = read_microdata(frame, "AGE,SEX", missing="drop") if not told else read(source, "AGE,SEX", **told)
    assert [variable.categories for variable in found.variables] == [("30", "41"), ("f", "m")]
    assert (found.rows, len(found.codes), found.reading["dropped"]) == (20, 6, 14)
    assert found.reading["na"]["found"] == {"AGE": 10, "SEX": 8}
    assert found.reading["na"]["met"] == {"AGE": ["NA", "na"], "SEX": [".", "NULL"]}


def test_a_declared_category_is_never_missing(here, tmp_path):
    frame = pl.DataFrame({"A": ["NA", "x", "NaN", ""] * 5, "B": ["u", "v"] * 10})
    found = read_microdata(frame, "A,B", {"A": ["x", "NA"]})
    assert found.variables[0].categories == ("x", "NA", BLANK)
    assert found.reading["na"]["found"] == {"A": 5}
    source = write(frame, tmp_path, "sav", variable_value_labels={"A": {"NA": "Namibia"}})
    assert read(source, "A,B").variables[0].labels == ("Namibia", "x", "(blank)")


def test_the_texts_that_mean_missing_are_chosen():
    frame = pl.DataFrame(
        {"A": ["NA", "-", "x", "Na", "inf"] * 5, "B": [1, 2, 3, 4, 5] * 5, "H": ["NA", "."] * 12 + ["."]}
    )

    def categories(na):
        return read_microdata(frame, "A,B", options=SourceOptions(na=na), household="H").variables[0].categories

    assert categories(None) == ("-", "Na", "inf", "x", BLANK)
    assert categories(["-", " Na "]) == ("NA", "inf", "x", BLANK)
    assert categories([""]) == categories([]) == ("-", "NA", "Na", "inf", "x")
    household = read_microdata(frame, "A,H", household="H").extra.household
    assert len(np.unique(household)) == 2
    for wrong in ("NA", [1]):
        with pytest.raises(SettingsError, match="`na`"):
            categories(wrong)


def test_numbers_with_texts_that_mean_missing_are_banded():
    frame = pl.DataFrame({"AGE": ["3.0", "NA", "17", "28"] * 5, "B": [1, 2] * 10})
    found = read_microdata(frame, "AGE,B", options=SourceOptions(bands={"AGE": "0,15"}))
    assert found.variables[0].categories == ("0-14", "15+", BLANK)
