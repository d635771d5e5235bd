"""A first look: what each variable is and looks like, and never a value of the data."""

import json
import re
import shlex

import polars as pl
import pytest

import keyhole
from keyhole.cli import main
from keyhole.data import inspect
from keyhole.data.categories import find_missing_codes
from keyhole.errors import InputError, SettingsError
from tests.unit.formats import QUERY, run_child_here, write

CANARY = "zzcanaryzz"


@pytest.fixture
def people(rng):
    n = 200
    return pl.DataFrame(
        {
            "AGE": pl.Series(rng.integers(0, 70, n)).set(pl.Series(rng.random(n) < 0.1), None),
            "SEX": rng.choice(["f", "m"], n),
            "NAME": [f"{CANARY}{i}" for i in range(n)],
            "INCOME": rng.lognormal(8, 1, n),
            "HH_ID": rng.integers(0, 40, n),
            "YEAR": [2020] * n,
            "NOTE": pl.Series([None] * n, dtype=pl.String),
            "OK": rng.random(n) < 0.5,
        }
    )


EXPECTED = {
    "AGE": ("whole numbers", "key"),
    "SEX": ("text", "key"),
    "NAME": ("text", "identifier"),
    "INCOME": ("numbers", "continuous"),
    "HH_ID": ("whole numbers", "identifier"),
    "YEAR": ("whole numbers", "constant"),
    "NOTE": ("text", "constant"),
    "OK": ("true/false", "key"),
}


@pytest.mark.parametrize("kind", ["frame", "csv", "parquet", "db"])
def test_variables_are_recognised(people, tmp_path, kind):
    source = people if kind == "frame" else write(people, tmp_path, kind)
    found = inspect(source, query=QUERY if kind == "db" else None)
    assert found.rows == 200
    for variable in found.variables:
        expected, looks = EXPECTED[variable.name]
        assert variable.looks_like == looks, variable
        if kind == "frame":
            assert variable.kind == expected
        assert variable.reason
        assert CANARY not in repr(variable)
        assert variable.blank == (people[variable.name].null_count())


def test_labels_are_shown_and_more_columns_than_fit_at_once(rng, tmp_path, monkeypatch):
    run_child_here(monkeypatch)
    monkeypatch.setattr("keyhole.data.inspection.FIRST_COLUMNS", 2)
    monkeypatch.setattr("keyhole.data.inspection.VALUES_AT_ONCE", 1)
    frame = pl.DataFrame({f"V{i}": rng.integers(1, 4, 30) for i in range(3)})
    labels = {"V0": {1: "one", 2: "two", 5: "five"}}
    source = write(frame, tmp_path, "sav", variable_value_labels=labels, column_labels={"V2": "Third"})
    found = inspect(source)
    assert [variable.name for variable in found.variables] == ["V0", "V1", "V2"]
    assert found.variables[0].categories == (("1", "one"), ("2", "two"), ("5", "five"))
    assert found.variables[2].title == "Third"


def test_a_codebook_names_categories(tmp_path):
    (tmp_path / "x.csv").write_text("A,B\n1,2\n1,3\n")
    found = inspect(tmp_path / "x.csv", {"A": {1: "one", 2: "two"}})
    assert found.variables[0].categories == (("1", "one"), ("2", "two"))
    assert found.variables[0].looks_like == "key"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f'A,"B\n{CANARY},3\n', "unbalanced quotes"),
        (f"A,A\n{CANARY},3\n", "2 columns named 'A'"),
        ("", "is empty"),
    ],
)
def test_files_without_a_header_show_nothing(tmp_path, text, message):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        inspect(tmp_path / "x.csv")
    assert CANARY not in str(caught.value)
    with pytest.raises(SettingsError):
        inspect(tmp_path / "x.csv", query=QUERY)


def call(capsys, *arguments):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    told = capsys.readouterr()
    return caught.value.code, told.out, told.err


def test_the_command_prints_what_helps_to_choose(people, tmp_path, capsys):
    source = write(people, tmp_path, "csv")
    status, out, err = call(capsys, "inspect", source)
    assert (status, err) == (0, "")
    assert "--keys AGE,SEX,OK" in out
    assert CANARY not in out
    status, out, err = call(capsys, "inspect", source, "--json")
    found = json.loads(out)
    assert (status, err, found["rows"]) == (0, "", 200)
    assert set(found["variables"][0]) == {
        "name", "title", "kind", "different", "blank", "categories", "looks_like", "reason", "missing_codes"
    }  # fmt: skip
    assert CANARY not in out


def test_the_command_reads_databases(people, tmp_path, capsys):
    source = write(people, tmp_path, "db")
    status, out, _ = call(capsys, "inspect", "--url", source, "--query", "SELECT SEX, AGE FROM people")
    assert status == 0
    assert "--keys SEX,AGE" in out
    for arguments in (("--url", source), ("x.csv", "--query", QUERY), ("x.csv", "--url", source, "--query", QUERY), ()):
        status, out, err = call(capsys, "inspect", *arguments)
        assert (status, out) == (2, "")
        assert "--url" in err


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("--band", "AGE=0,15"), 0, "AGE: 0,15"),
        (("--band", "AGE=5y", "--band", "SEX=5y"), 1, "column 'SEX': the value is not a number"),
        (("--band", "AGE"), 2, "AGE=0,15,30"),
        (("--band", "AGE=5y", "--band", "AGE=6y"), 2, "two --band"),
        (("--band", "AGE=15,0"), 2, "limits must rise"),
        (("--band", "RACE=5y"), 1, "not one of the keys"),
        (("--count", "YEAR"), 0, "counted by YEAR"),
        (("--missing", "drop"), 0, "with a blank key left out"),
        (("--user-missing", "blank"), 0, "200 of 200 rows"),
        (("--user-missing", "drop"), 2, "--user-missing"),
    ],
)
def test_assess_takes_the_options_of_reading(people, tmp_path, capsys, monkeypatch, arguments, status, message):
    monkeypatch.chdir(tmp_path)
    write(people, tmp_path, "csv")
    population = "404000" if "--count" in arguments else "200"
    keys = (
        ("--keys", "AGE,SEX", "--fraction", "1")
        if "drop" in arguments
        else ("--keys", "AGE,SEX", "--population", population)
    )
    found, out, err = call(capsys, "assess", "people.csv", *keys, *arguments)
    assert found == status, err
    assert message in re.sub(r"\s+", " ", out + err)
    assert (tmp_path / "people.keyhole").exists() == (status == 0)


def test_assess_and_zeros_read_databases(people, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = write(people, tmp_path, "db")
    database = ("--url", source, "--query", QUERY, "--keys", "AGE,SEX", "--band", "AGE=0,30")
    status, _, err = call(capsys, "assess", *database, "--population", "200")
    assert status == 0, err
    assert (tmp_path / "people.keyhole" / "summary.json").exists()
    (tmp_path / "rules.yaml").write_text('impossible:\n  - {AGE: ["0-29"], SEX: [m]}\n')
    status, out, err = call(capsys, "zeros", "check", "rules.yaml", *database, "--json")
    assert (status, err) == (1, "")
    assert json.loads(out)["contradicting_rows"]
    status, out, _ = call(capsys, "zeros", "suggest", *database)
    assert status == 0


@pytest.fixture
def from_r(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "AGE,SEX\n" + "30,f\nNA,m\n41,NULL\n30,NA\n" * 6
    (tmp_path / "r.csv").write_text(text)
    return "r.csv"


TAKEN = "AGE: 6 values 'NA'; SEX: 12 values 'NA', 'NULL' are taken as missing (--na)"
BOTH = {"AGE": 6, "SEX": 12}


def test_inspect_says_what_is_missing(from_r, capsys):
    status, out, err = call(capsys, "inspect", from_r)
    assert (status, err) == (0, f"keyhole: {TAKEN}.\n")
    _, out, _ = call(capsys, "inspect", from_r, "--json")
    found = json.loads(out)
    assert found["na"]["found"] == BOTH
    assert [(variable["kind"], variable["blank"]) for variable in found["variables"]] == [
        ("whole numbers", 6),
        ("text", 12),
    ]
    status, out, err = call(capsys, "inspect", from_r, "--na", "", "--json")
    found = json.loads(out)
    assert (status, err, found["na"]) == (0, "", {"texts": [""], "found": {}, "met": {}})
    assert found["variables"][0]["blank"] == 0


def test_assess_says_what_is_missing(from_r, tmp_path, capsys):
    command = ("assess", from_r, "--keys", "AGE,SEX", "--fraction", "1", "--missing", "drop")
    status, out, err = call(capsys, *command)
    assert (status, err) == (0, "")
    assert TAKEN in re.sub(r"\s+", " ", out)
    source = json.loads((tmp_path / "r.keyhole" / "summary.json").read_text())["input"]
    assert (source["na"]["found"], source["dropped"], source["used"]) == (BOTH, 18, 6)
    assert "NULL" not in (tmp_path / "r.keyhole" / "report.html").read_text(encoding="utf-8")
    assert keyhole.load(tmp_path / "r.keyhole").summary.input.na.found == BOTH
    (tmp_path / "run.yaml").write_text('na: ["", "NULL"]\n')
    status, out, err = call(capsys, *command, "--config", "run.yaml", "--json", "--out", "second")
    found = json.loads(out)["input"]
    assert (found["na"]["texts"], found["na"]["found"], found["dropped"]) == (["", "NULL"], {"SEX": 6}, 6)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_other_commands_say_what_is_missing(from_r, tmp_path, capsys, ending):
    source = f"r.{ending}"
    if ending == "parquet":
        pl.read_csv(from_r, infer_schema=False).write_parquet(source)
    (tmp_path / "rules.yaml").write_text("impossible:\n  - {AGE: [30], SEX: [m]}\n")
    for command in (
        ("zeros", "check", "rules.yaml", source, "--keys", "AGE,SEX"),
        ("compare", source, "--keys", "AGE,SEX", "--population", "50", "--estimators", "pitman"),
        (
            "validate",
            source,
            "--keys",
            "AGE,SEX",
            "--sample-size",
            "8",
            "--replicates",
            "1",
            "--estimators",
            "pitman",
        ),
    ):
        status, out, err = call(capsys, *command, *(("--workers", "1") if command[0] == "validate" else ()))
        assert status == 0, err
        assert f"keyhole: {TAKEN}.\n" in err
        assert "taken as missing" not in out
    assert json.loads((tmp_path / "r.validate" / "validation.json").read_text())["na"]["found"] == BOTH


ROWS = "married,f,35,{c}0\nsingle,m,17,{c}1\nmarried,m,41,{c}2\n"


@pytest.mark.parametrize(
    "text",
    [
        "married,f,35,{c}\n" + ROWS,
        "married,f,{c},{c}\n" + ROWS,
        "{c};17;3\n{c}1;17;4\n",
        "1,2\n{c},3\n",
        '"{c}"\n"{c}"\nx\n',
    ],
)
def test_a_first_row_that_is_a_record_is_never_shown(tmp_path, capsys, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.csv").write_text(text.replace("{c}", CANARY))
    status, out, err = call(capsys, "inspect", "x.csv")
    assert status == 0
    assert err.startswith("keyhole: x.csv: its first row looks like a record, not names: add a header line")
    assert err.count("\n") == 1
    assert "V1" in out
    assert "--keys" not in out
    status, shown, _ = call(capsys, "inspect", "x.csv", "--json")
    found = json.loads(shown)
    assert found["named"] is False
    assert [variable["name"] for variable in found["variables"]] == [
        f"V{j + 1}" for j in range(len(found["variables"]))
    ]
    status, _, refused = call(capsys, "assess", "x.csv", "--keys", "AGE,V1", "--population", "100")
    assert status == 1
    assert "its first row looks like a record, not names: add a header line" in refused
    for told in (out, err, shown, refused):
        assert not re.search(f"{CANARY}|married|35|17", told)


@pytest.mark.parametrize(
    "text",
    [
        "STATE,SEX,AGE\n" + "married,f,35\nsingle,m,17\n",
        "COUNTRY,SEX,2020\nno,f,1\nse,m,2\n",  # one year among names
        "WALK,BUS,WHO\nWALK,,a\n,BUS,b\nWALK,BUS,a\n",  # boxes named after their value
        "STATE,SEX\nmarried,f\nsingle,m\nSTATE,SEX\nmarried,m\n",  # two files joined
        "sex,other\nf,other\nm,none\n",  # a name that is a value as well
    ],
)
def test_real_names_are_shown(tmp_path, text):
    (tmp_path / "x.csv").write_text(text)
    found = inspect(tmp_path / "x.csv")
    assert found.named
    assert [variable.name for variable in found.variables] == text.split("\n")[0].split(",")


@pytest.mark.parametrize(
    ("name", "values", "looks"),
    [
        *(
            (name, [12.5, 33.0, 100.0], "weight")
            for name in ("PERWT", "wgt", "hh_weight", "WTFINL", "pwgtp", "FINALWT2")
        ),
        *((name, [1, 2, 3], "key") for name in ("overweight", "growth", "wtype", "tweight_class")),
        ("weight", [0, 1, 2], "key"),
        *((name, [0.5, 1.2, 3.0], "weight") for name in ("w", "W", "pw", "weight", "wt", "pweight", "weights", "W1")),
        *((name, [1, 2, 3], "key") for name in ("w", "W1", "pw")),
        *((name, [0.5, 1.5, 3.0], "key") for name in ("rooms", "wood")),
        ("factor", [103.2581, 87.75, 201.125], "weight"),
        ("factor", [-103.2581, 87.75, 201.125], "key"),
        ("weight", ["light", "heavy", "light"], "key"),
    ],
)
def test_a_survey_weight_is_no_key(name, values, looks):
    found = inspect(pl.DataFrame({name: values * 20, "SEX": ["f", "m"] * 30}))
    assert found.variables[0].looks_like == looks


def test_what_is_printed_to_paste_is_quoted(tmp_path, capsys):
    """Names with spaces; a weight is named apart."""
    path = tmp_path / "data.csv"
    path.write_text("Age group,it's,PERWT\n" + "1,2,10\n2,1,20\n" * 20)
    with pytest.raises(SystemExit):
        main(["inspect", str(path)])
    out = capsys.readouterr().out
    pasted = out[out.index("  --keys ") :].splitlines()[0]
    assert shlex.split(pasted) == ["--keys", "Age group,it's"]
    assert "--weight: PERWT" in out


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (["White", "white", "Black"], "1 value differs from another only in capitals, spaces or leading zeros"),
        (["a b", "ab", "01", "1"], "2 values differ from another only in capitals, spaces or leading zeros"),
        (["00", "02", "10"], "codes have leading zeros, which programs that read them as numbers lose"),
        (["Köln".encode().decode("cp1252"), "Köln", "Bonn"], "some letters look damaged"),
        (["Köln", "Bonn", "Łódź", "São Paulo", "Ürgüp", "1"], ""),
    ],
)
def test_odd_spelling_is_said_without_the_values(tmp_path, capsys, values, said):
    pl.DataFrame({"A": values * 20, "B": ["1", "2"] * (10 * len(values))}).write_csv(tmp_path / "x.csv")
    reason = inspect(tmp_path / "x.csv").variables[0].reason
    assert reason == f"{len(values)} categories" if not said else said in reason
    assert not any(value in reason for value in values if len(value) > 1)
    if said and "leading zeros, which" not in said:
        main_status(["assess", str(tmp_path / "x.csv"), "--keys", "A,B", "--fraction", "0.1", "--max-sweeps", "16",
                     "--out", str(tmp_path / "r"), "--quiet"])  # fmt: skip
        assert f"keyhole: A: {said}" in capsys.readouterr().err


def main_status(words):
    with pytest.raises(SystemExit) as caught:
        main(words)
    return caught.value.code


def test_the_same_data_by_path_and_by_pandas(tmp_path):
    """Text has the same codes either way; what pandas reads as numbers has lost its zeros, which inspect announces."""
    pandas = pytest.importorskip("pandas")
    pl.DataFrame({"A": ["00", "01", "1", "10"] * 10, "B": ["1", "2"] * 20}).write_csv(tmp_path / "x.csv")

    def codes(source):
        return [variable.categories for variable in keyhole.data.read_microdata(source, "A,B").variables]

    assert codes(tmp_path / "x.csv") == codes(pandas.read_csv(tmp_path / "x.csv", dtype=str))
    assert codes(pandas.read_csv(tmp_path / "x.csv"))[0] == ("0", "1", "10")
    assert "leading zeros" in inspect(tmp_path / "x.csv").variables[0].reason


def test_a_huge_value_is_named_by_its_line(tmp_path):
    lines = ["A,B,C", *["1,2,"] * 56, f'1,"{"x" * 140_000}",', "1,2,3"]
    (tmp_path / "x.csv").write_text("\n".join(lines))
    with pytest.raises(InputError, match=r"line 58: field larger than field limit .*look for unbalanced quotes"):
        inspect(tmp_path / "x.csv")
    (tmp_path / "y.csv").write_text("\n".join(["A,B,C", *["1,2,3"] * 7, "    "]))
    with pytest.raises(InputError, match="row 8 has fewer values than the 3 columns"):
        inspect(tmp_path / "y.csv")


@pytest.mark.parametrize(
    ("lines", "where"),
    [
        (["A,B", *["1,2"] * 700, f'"{CANARY},1', *["1,2"] * 900], "in row 701"),  # swallows all that follows
        (["A,B", *["1,2"] * 7, "", f'"{CANARY},1', "3,4"], "in row 8"),
    ],
)
def test_an_open_quote_is_told_by_its_row(tmp_path, lines, where):
    (tmp_path / "x.csv").write_text("\n".join(lines))
    with pytest.raises(InputError, match=rf"look for unbalanced quotes {where}\.$") as caught:
        inspect(tmp_path / "x.csv")
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("option", ["household", "weight"])
def test_another_column_that_is_missing_does_not_deny_the_keys(tmp_path, option):
    pl.DataFrame({"A": [1, 2] * 20, "B": [1, 2, 3, 4] * 10}).write_csv(tmp_path / "x.csv")
    with pytest.raises(InputError, match=r"has no column 'Nope': its columns are A, B\.$"):
        keyhole.assess(tmp_path / "x.csv", "A,B", 400, **{option: "Nope"})


def test_columns_without_a_name_are_told(tmp_path, capsys):
    from_r, several = tmp_path / "r.csv", tmp_path / "several.csv"
    from_r.write_text('"","AGE","SEX"\n"1",30,"f"\n"2",31,"m"\n"3",30,"f"\n')
    several.write_text("A,,B,\nx,1,y,2\nx,2,z,3\n")
    for path, places, words in (
        (from_r, (1,), "the first column has no name (R's row names): it is no key, and should not be released."),
        (several, (2, 4), "columns 2 and 4 have no name, so they are not listed: name what should be a key"),
    ):
        found = inspect(path)
        assert found.unnamed == places
        assert found.to_dict()["unnamed"] == list(places)
        with pytest.raises(SystemExit):
            main(["inspect", str(path)])
        assert words in capsys.readouterr().err
    assert inspect(pl.DataFrame({"": [1, 2], "B": [1, 1]})).unnamed == ()


def test_decimal_commas_are_said_once_without_a_value(tmp_path, capsys):
    path = tmp_path / "x.csv"
    path.write_text("SEX;RENT\n" + "".join(f"{'mf'[i % 2]};{400 + i},{i % 10}\n" for i in range(60)))
    found = inspect(path)
    assert (found.variables[1].kind, found.variables[1].looks_like) == ("numbers", "continuous")
    assert found.to_dict()["decimal_comma"] == ["RENT"]
    with pytest.raises(SystemExit):
        main(["inspect", str(path)])
    assert capsys.readouterr().err == "keyhole: RENT: the comma was read as a decimal point.\n"


def test_entries_that_are_no_variable_are_said_with_the_nearest(tmp_path, capsys):
    path, book = tmp_path / "x.csv", tmp_path / "book.yaml"
    path.write_text("SEX,EDUC\n" + "m,1\nf,2\n" * 20)
    book.write_text("SEX: [m, f]\nEDCU: [1, 2, 3]\nREGION: [1, 2]\n")
    with pytest.raises(SystemExit):
        main(["inspect", str(path), "--codebook", str(book)])
    said = "keyhole: 'EDCU' (did you mean 'EDUC'?), 'REGION' of the codebook are no columns of the file, and ignored.\n"
    assert capsys.readouterr().err == said
    assert inspect(path, book).codebook_strangers == {"EDCU": "EDUC", "REGION": ""}


def test_codes_that_may_mean_missing_are_said(tmp_path, capsys):
    path = tmp_path / "x.csv"
    path.write_text("SEX,AGE,KIDS\n" + "".join(f"{i % 2 + 1},{20 + i % 60},{i % 6}\n" for i in range(200)) + "9,99,8\n")
    with pytest.raises(SystemExit):
        main(["inspect", str(path)])
    said = capsys.readouterr().err
    assert "SEX: 9 looks like a code for missing" in said
    assert "AGE: 99 looks like a code for missing, but counts as a number like the others. If so, declare it in" in said
    assert "(missing: [99]), or in a text file with --na 99.\n" in said
    assert "KIDS" not in said
    assert not any(x.missing_codes for x in inspect(path, na=["9", "99"]).variables)
    assert not any(x.missing_codes for x in inspect(path, {"SEX": [1, 2, 9], "AGE": [*range(20, 80), 99]}).variables)


@pytest.mark.parametrize(
    ("numbers", "codes"),
    [
        ([1, 2, 9], ["9"]),
        ([1, 2, 3, 4, 5, 9], ["9"]),
        ([1, 2, 3, 4, 5, 6, 7, 9], []),
        ([*range(90), 99], ["99"]),
        ([*range(96), 99], []),
        ([*range(0, 100, 11)], []),
        ([1, 2, 3, 97, 98, 99], ["97", "98", "99"]),
        ([0, 100, 250, 9999], ["9999"]),
        ([0, 1, 2, 3, -1], ["-1"]),
        ([-9, -8, 1, 2, 99], ["-9", "-8", "99"]),
        ([-12, -1, 0, 1, 2], []),
        ([1, 9], []),
        ([1, 2, 8], []),
        ([1.5, 2, 99], []),
    ],
)
def test_which_numbers_look_like_codes(numbers, codes):
    assert find_missing_codes([str(number) for number in numbers]) == codes
