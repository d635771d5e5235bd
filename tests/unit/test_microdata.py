"""Reading: the same data give the same codes from every format; bad input gets one line without values."""

import json
import random
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyhole.data import (
    BLANK,
    Microdata,
    SourceOptions,
    Variable,
    count_cells,
    encode,
    find_cells,
    read_codebook,
    read_microdata,
)
from keyhole.errors import CodebookError, InputError, KeyholeError

CSV = "AGE,SEX,NAME\n2,m,anna\n10,f,bert\n1,f,anna\n2,,bert\n"
CANARY = "zzcanaryzz"


@pytest.fixture
def write(tmp_path):
    def write_file(content, name="data.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
        return path

    return write_file


def categories(data: Microdata) -> dict[str, tuple[str, ...]]:
    return {variable.name: variable.categories for variable in data.variables}


def test_observed_categories_are_ordered_numbers_as_numbers_and_blank_last(write):
    data = read_microdata(write(CSV), ["SEX", "AGE"])
    assert categories(data) == {"SEX": ("f", "m", BLANK), "AGE": ("1", "2", "10")}
    assert data.codes.tolist() == [[1, 1], [0, 2], [0, 0], [2, 1]]
    assert (data.rows, data.row_used.tolist(), data.ignored) == (4, [True] * 4, ())
    assert (data.levels, data.table_cells) == ((3, 3), 9)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "windows-1252", "latin-1"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_delimiter_encoding_and_line_ends_are_found(write, delimiter, encoding, newline):
    text = "Größe,AGE\nklein,1\ngroß,2\nklein,3\n".replace(",", delimiter).replace("\n", newline)
    content = ("\ufeff" if encoding == "utf-16-be" else "") + text
    data = read_microdata(write(content, encoding=encoding), ["Größe", "AGE"])
    assert categories(data) == {"Größe": ("groß", "klein"), "AGE": ("1", "2", "3")}


def test_quotes_protect_delimiters_and_line_ends(write):
    data = read_microdata(write('A;B\n"x;1";"two\nlines"\ny;z\n'), ["A", "B"])
    assert categories(data) == {"A": ("x;1", "y"), "B": ("two\nlines", "z")}


def test_a_single_column_needs_no_delimiter(write):
    data = read_microdata(write("A\n1\n\n2\n"), ["A"])
    assert categories(data) == {"A": ("1", "2", BLANK)}


def test_blank_lines_are_no_records_and_blank_values_are(write):
    data = read_microdata(write("A,B\n1,x\n\n2,\n1,x\n\n"), ["A", "B"])
    assert data.codes.tolist() == [[0, 0], [1, 1], [0, 0]]


def test_spaces_around_values_and_names_do_not_count(write):
    data = read_microdata(write("A , B\n1 ,x\n 1, x\n2,  \n"), ["A", "B"])
    assert data.codes.tolist() == [[0, 0], [0, 0], [1, 1]]


@pytest.mark.parametrize("make", [pl.DataFrame, pl.LazyFrame, pd.DataFrame, pa.table])
def test_any_dataframe_gives_what_the_file_gives(write, make):
    frame = make({"AGE": [2.0, 10.0, 1.0, 2.0], "SEX": ["m", "f", "f", None]})
    data = read_microdata(frame, ["AGE", "SEX"])
    expected = read_microdata(write(CSV), ["AGE", "SEX"])
    assert data.variables == expected.variables
    assert np.array_equal(data.codes, expected.codes)


@pytest.mark.parametrize("values", [[1.0, float("nan"), 2.0], [1.0, None, 2.0]])
def test_whole_floats_equal_codes_in_parquet_and_csv(tmp_path, write, values):
    path = tmp_path / "x.parquet"
    pl.DataFrame({"A": values}).write_parquet(path)
    book = {"A": [1, 2, 3]}
    assert read_microdata(path, ["A"], book).codes.T.tolist() == [[0, 3, 1]]
    assert read_microdata(write("A,B\n1.0,x\n,x\n2.0,y\n"), ["A"], book).codes.T.tolist() == [[0, 3, 1]]


def test_truth_values_dates_and_fractions_are_text(tmp_path):
    frame = pl.DataFrame(
        {"T": [True, False], "F": [0.5, 2.0], "D": pl.Series(["2020-01-02", "2020-01-01"]).str.to_date()}
    )
    data = read_microdata(frame, ["T", "F", "D"])
    assert categories(data) == {"T": ("false", "true"), "F": ("0.5", "2"), "D": ("2020-01-01", "2020-01-02")}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("b.json", '{"AGE": [1, 2, 10, 11], "SEX": {"m": "man", "f": "woman"}}'),
        ("b.yaml", "AGE: [1, 2, 10, 11]\nSEX: {m: man, f: woman}\n"),
    ],
)
def test_codebook_gives_order_labels_and_unobserved_categories(write, name, text):
    data = read_microdata(write(CSV), ["AGE", "SEX"], write(text, name))
    assert data.variables[0] == Variable("AGE", ("1", "2", "10", "11"))
    assert data.variables[1] == Variable("SEX", ("m", "f", BLANK), ("man", "woman", "(blank)"))


def test_yaml_words_stay_words(write):
    book = write("A: {no: No, yes: Yes, null: None, 01: One}\n", "b.yaml")
    assert read_microdata(write("A\nno\nyes\nno\n"), ["A"], book).variables[0].categories == (
        "no",
        "yes",
        "null",
        "01",
    )


def test_keys_with_one_category_are_ignored_and_named(write):
    data = read_microdata(write("A,B\n1,x\n1,y\n"), ["A", "B"])
    assert (data.ignored, data.codes.shape) == (("A",), (2, 1))


def test_fingerprint_is_that_of_the_bytes(write):
    import hashlib

    path = write(CSV)
    assert read_microdata(path, ["AGE"]).fingerprint == hashlib.sha256(path.read_bytes()).hexdigest()


def test_identifier_is_refused_unless_insisted_on(write):
    path = write("ID,SEX\n" + "".join(f"{i},{i % 2}\n" for i in range(100)))
    with pytest.raises(InputError, match="`allow_identifier` ID"):
        read_microdata(path, ["ID", "SEX"])
    assert read_microdata(path, ["ID", "SEX"], allow_identifier=["ID"]).levels == (100, 2)
    with pytest.raises(InputError, match="`allow_identifier` SEX"):
        read_microdata(path, ["SEX"], {"SEX": list(range(101))})


BAD_FILES = {
    "empty": ("x.csv", b"", "is empty"),
    "header only": ("x.csv", b"AGE,SEX\n", "a header but no record"),
    "single record": ("x.csv", b"AGE,SEX\n1,2\n", "single record"),
    "csv called parquet": ("x.parquet", b"AGE,SEX\n1,2\n2,2\n", "is not Parquet"),
    "binary called csv": ("x.csv", bytes(range(256)), "not text"),
    "zip called csv": ("x.csv", b"PK\x03\x04AGE", "zip"),
    "gzip": ("x.csv.gz", b"\x1f\x8b\x08", "gzip"),
    "cut parquet": ("x.parquet", b"PAR1abcdefgh", "not a readable Parquet"),
    "spss": ("x.sav", b"AGE", "is not SPSS"),
    "long row": ("x.csv", b"AGE,SEX\n1,2\n1,2,3\n", "row 2 has 3 values"),
    "short row": ("x.csv", b"AGE,SEX\n1,2\n1\n", "row 2 has fewer"),
    "two columns of one name": ("x.csv", b"AGE,SEX,AGE\n1,2,3\n1,2,4\n", "2 columns named 'AGE'"),
    "no such column": ("x.csv", b"AGES,SEX\n1,2\n1,2\n", "did you mean 'AGES'"),
    "no header": ("x.csv", b"1,2\n1,2\n", "add a header"),
    "blank header": ("x.csv", b"\n1,2\n", "no header"),
    "bad utf-16": ("x.csv", b"\xff\xfeA\x00\x00", "UTF-16"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files_get_one_line(write, case):
    name, content, message = BAD_FILES[case]
    with pytest.raises(InputError, match=message) as caught:
        read_microdata(write(content, name), ["AGE", "SEX"])
    assert "\n" not in str(caught.value)


def test_parquet_called_csv_and_missing_files(tmp_path):
    path = tmp_path / "x.csv"
    pl.DataFrame({"A": [1, 2]}).write_parquet(path)
    with pytest.raises(InputError, match=r"rename it to .parquet"):
        read_microdata(path, ["A"])
    with pytest.raises(InputError, match="does not exist"):
        read_microdata(tmp_path / "none.csv", ["A"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="is a folder without Parquet files"):
        read_microdata(tmp_path / "empty", ["A"])
    with pytest.raises(InputError, match="is a folder"):
        read_microdata(tmp_path, ["A"])


@pytest.mark.parametrize(
    ("keys", "message"), [("A,B,A", "twice"), ("", "no key"), ("A,,B", "empty name"), ([], "no key")]
)
def test_bad_lists_of_keys(write, keys, message):
    with pytest.raises(InputError, match=message):
        read_microdata(write("A,B\n1,2\n1,3\n"), keys)


def test_a_value_that_is_not_in_the_codebook_is_located_but_never_shown(write):
    path = write(f"A,B\n1,x\n2,x\n{CANARY},x\n{CANARY},x\n")
    with pytest.raises(CodebookError, match=r"row 3, column 'A'.*2 such rows") as caught:
        read_microdata(path, ["A", "B"], {"A": [1, 2]})
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("b.json", '{"A": [1,', "line 1 is not JSON"),
        ("b.json", "[1, 2]", "not a codebook"),
        ("b.json", '{"A": [1], "A": [2]}', "'A' occurs twice"),
        ("b.json", '{"A": [1, 1]}', "category '1' twice"),
        ("b.json", r'{"A": ["1\n2", "1\n2"]}', "category '1 2' twice"),
        ("b.json", r'{"A\nB": 3}', "'A B' must be a list"),
        ("b.json", '{"A": {"categories": [1], "missing": 9}}', "'missing' with a list"),
        ("b.json", '{"A": {"categories": [1], "absent": [9]}}', "'missing' with a list"),
        ("b.json", '{"A": {"categories": [1, 9], "missing": [9.0]}}', "both as a category and as missing"),
        ("b.json", '{"A": {"categories": [1], "missing": [8, 1]}}', "both as a category and as missing"),
        ("b.json", '{"A": []}', "no category"),
        ("b.json", '{"A": 3}', "must be a list"),
        ("b.yaml", "A: [1,\nB: [", "line 2 is not YAML"),
        ("b.yaml", "A: [1]\nA: [2]", "'A' occurs twice"),
        ("b.yaml", "? [1, 2]\n: x", "plain names"),
        ("b.yaml", "", "not a codebook"),
        ("b.yaml", b"A: \xff", "UTF-8"),
    ],
)
def test_bad_codebooks(write, name, text, message):
    path = write(text, name)
    with pytest.raises(CodebookError, match=message) as caught:
        read_microdata(write("A,B\n1,2\n1,3\n"), ["A"], path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(CodebookError, match="does not exist"):
        read_microdata(write("A,B\n1,2\n1,3\n"), ["A"], path.with_name("other.yaml"))


@pytest.mark.parametrize(
    "frame",
    [
        [1, 2],
        3,
        pd.DataFrame([[1, 2], [3, 4]], columns=["A", "A"]),
        pl.DataFrame({"A": [[1], [2]]}),
        {"A": [1, 2]},
    ],
)
def test_bad_dataframes(frame):
    with pytest.raises(InputError):
        read_microdata(frame, ["A"])


def test_mixed_objects_are_refused_without_quoting_them():
    with pytest.raises(InputError) as caught:
        read_microdata(pd.DataFrame({"A": [1, CANARY, (2, 3)]}), ["A"])
    assert CANARY not in str(caught.value)


def test_encode_numbers_levels_through(write):
    data = read_microdata(write(CSV), ["AGE", "SEX"])
    records = encode(data)
    assert records.level.tolist() == [[1, 4], [2, 3], [0, 3], [1, 5]]
    assert records.level.dtype == np.int32
    assert records.answer_total.tolist() == [2, 2, 2, 2]
    assert records.level_start.tolist() == [0, 3, 6]


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=40), st.booleans())
@settings(max_examples=200)
def test_count_cells_counts_as_a_dictionary_does(rows, wide):
    codes = np.array(rows, dtype=np.int32)
    if wide:
        # More cells than 64 bits hold: forty variables with a million categories each.
        codes = np.hstack([codes, *[codes[:, :1] + 1_000_000] * 40]).astype(np.int32)
    tally: dict[tuple[int, ...], int] = {}
    for row in rows:
        tally[row] = tally.get(row, 0) + 1
    counts = count_cells(codes)
    assert counts.cell_count.tolist() == [tally[row] for row in rows]
    assert counts.unique_record.tolist() == [i for i, row in enumerate(rows) if tally[row] == 1]
    assert counts.distinct == len(tally)
    cells, cell = find_cells(codes.T, len(codes))
    assert [tuple(row) for row in cells.tolist()] == sorted(set(map(tuple, codes.tolist())))
    assert np.array_equal(cells[cell], codes)


@given(st.data())
@settings(max_examples=300)
def test_hostile_bytes_are_read_or_refused_in_one_line(tmp_path_factory, data):
    pieces = [
        b"A",
        b"B",
        b",",
        b";",
        b"\n",
        b"\r\n",
        b'"',
        b"1",
        b"\t",
        b" ",
        b"\xff",
        b"\x00",
        b"\xef\xbb\xbf",
        b"\xe4",
        b"|",
    ]
    content = b"".join(data.draw(st.lists(st.sampled_from(pieces), max_size=60)))
    head = data.draw(st.sampled_from([b"", b"A,B\n", b"A;B\r\n", b"A\n"]))
    path = tmp_path_factory.mktemp("hostile") / "x.csv"
    path.write_bytes(head + content)
    try:
        read = read_microdata(path, ["A"])
    except KeyholeError as error:
        message = str(error)
    else:
        message = ""
        assert read.rows == len(read.codes) >= 2
    assert "\n" not in message


def test_damaged_parquet_is_read_or_refused_in_one_line(tmp_path, rng):
    path = tmp_path / "x.parquet"
    pl.DataFrame({"A": rng.integers(0, 5, 300), "B": [f"{CANARY}{i % 7}" for i in range(300)]}).write_parquet(path)
    whole = path.read_bytes()
    refused = 0
    for _ in range(200):
        damaged = bytearray(whole)
        for place in rng.integers(4, len(whole), size=2):
            damaged[place] = rng.integers(256)
        path.write_bytes(damaged[: len(whole) if rng.random() < 0.8 else rng.integers(4, len(whole))])
        try:
            read_microdata(path, ["A", "B"])
        except KeyholeError as error:
            refused += 1
            message = str(error)
        else:
            message = ""
        assert "\n" not in message
        assert CANARY not in message
    assert refused > 50


@given(st.text(alphabet='AB:,[]{}"\n -1.0#&*!?|>%@`', max_size=40), st.sampled_from([".json", ".yaml"]))
@settings(max_examples=300)
def test_hostile_codebooks_are_read_or_refused_in_one_line(tmp_path_factory, text, ending):
    path = tmp_path_factory.mktemp("hostile") / f"book{ending}"
    path.write_text(text)
    try:
        read_codebook(path)
    except CodebookError as error:
        message = str(error)
    else:
        message = ""
    assert "\n" not in message


def test_a_million_records_are_read_in_seconds(tmp_path, rng):
    path = tmp_path / "large.csv"
    sizes = (2, 100, 50, 6, 12, 30, 5, 8, 4, 20)
    pl.DataFrame({f"K{j}": rng.integers(0, size, 1_000_000) for j, size in enumerate(sizes)}).write_csv(path)
    code = (
        "import sys, time\n"
        "from benchmarks.machine import peak_megabytes\n"
        "from keyhole.data import count_cells, encode, read_codebook, read_microdata\n"
        "started = time.perf_counter()\n"
        "data = read_microdata(sys.argv[1], [f'K{j}' for j in range(10)])\n"
        "encode(data), count_cells(data.codes)\n"
        "print(time.perf_counter() - started, peak_megabytes() / 1e3)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    seconds, gigabytes = map(float, done.stdout.split())
    assert seconds < 10
    assert gigabytes < 1


def test_row_order_does_not_change_categories(write, request):
    order = list(range(50))
    random.Random(request.node.name).shuffle(order)
    rows = [f"{i % 7},{'abc'[i % 3]}\n" for i in range(50)]
    one = read_microdata(write("A,B\n" + "".join(rows)), ["A", "B"])
    two = read_microdata(write("A,B\n" + "".join(rows[i] for i in order), "y.csv"), ["A", "B"])
    assert one.variables == two.variables
    assert np.array_equal(one.codes[order], two.codes)


def test_json_codebook_is_what_python_passes(write):
    book = {"AGE": {1: "young", 2.0: "middle", 10: "old"}}
    from_file = write(json.dumps({"AGE": {"1": "young", "2": "middle", "10": "old"}}), "b.json")
    assert (
        read_microdata(write(CSV), ["AGE"], book).variables == read_microdata(write(CSV), ["AGE"], from_file).variables
    )


def test_pandas_is_read_alike_without_pyarrow(monkeypatch):
    frame = pd.DataFrame(
        {
            "TEXT": ["x", "y", None, "x"],
            "OBJECT": pd.Series(["x", "y", None, "x"], dtype=object),
            "CATEGORY": pd.Categorical(["b", None, "b", "a"], categories=["b", "a", "unseen"]),
            "NUMBER": pd.array([1, 2, None, 2], dtype="Int64"),
            "ANSWER": pd.array([True, None, False, True], dtype="boolean"),
            "FLOAT": [1.0, np.nan, 2.0, 1.0],
            "SMALL": np.array([1, 2, 3, 1], dtype=np.int8),
            "DAY": pd.to_datetime(["2020-01-01", None, "2020-01-02", "2020-01-01"]),
        }
    )
    keys, mixed = list(frame.columns), pd.DataFrame({"A": [1, "x", 2.5], "B": [1, 2, 1]})
    with_pyarrow = read_microdata(frame, keys, allow_identifier=keys)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    without = read_microdata(frame, keys, allow_identifier=keys)
    assert without.variables == with_pyarrow.variables
    assert without.codes.tolist() == with_pyarrow.codes.tolist()
    with pytest.raises(InputError, match="convert its key columns to text or numbers"):
        read_microdata(mixed, ["A", "B"])


@pytest.mark.parametrize("keys", ["AGE;SEX", "AGE SEX", "AGE|SEX|NAME"])
def test_keys_with_another_separator_are_told_of_commas(write, keys):
    with pytest.raises(InputError, match="separate the keys with commas") as error:
        read_microdata(write(CSV), keys)
    assert "did you mean" not in str(error.value)


def test_a_dataframe_is_not_told_to_add_a_line():
    with pytest.raises(InputError, match=r"nor any other of the keys: check the names\.$"):
        read_microdata(pl.DataFrame({"AGE": [1, 2], "SEX": [1, 2]}), ["PLACE"])


DECIMALS = "RENT;ROOMS;W;NOTE\n12,5;1;2,25;1,2,3\n7;2,5;3,5;4\n-0,5;2;1,125;1,2\n12,5;1;2;x\n"


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_decimal_commas_are_points(write, delimiter):
    keys = ["RENT", "ROOMS", "NOTE"]
    commas = read_microdata(write(DECIMALS.replace(";", delimiter)), keys, weight="W")
    points = DECIMALS
    for text in ("12,5", "2,25", "2,5", "3,5", "-0,5", "1,125"):
        points = points.replace(text, text.replace(",", "."))
    assert "1,2,3" in points
    expected = read_microdata(write(points.replace(";", delimiter), "points.csv"), keys, weight="W")
    assert categories(commas) == categories(expected)
    assert categories(commas)["RENT"] == ("-0.5", "7", "12.5")
    assert commas.codes.tolist() == expected.codes.tolist()
    assert commas.extra.weight.tolist() == [2.25, 3.5, 1.125, 2.0]
    assert commas.reading["decimal_comma"] == ["RENT", "ROOMS", "W"]
    assert not expected.reading["decimal_comma"]


def test_bands_and_codebooks_know_decimal_commas(write):
    text = "RENT;ROOMS\n12,5;1\nNA;2,5\n7,25;\n0;1\n"
    data = read_microdata(
        write(text),
        ["RENT", "ROOMS"],
        {"ROOMS": {"categories": ["1", "2,5", "3"], "missing": ["9,5"]}},
        options=SourceOptions(bands={"RENT": "5y"}),
    )
    assert categories(data) == {"RENT": ("0-4", "5-9", "10-14", BLANK), "ROOMS": ("1", "2.5", "3", BLANK)}
    assert data.codes.tolist() == [[2, 0], [3, 1], [1, 3], [0, 0]]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("A\tB\n1,234\t1\n2,500\t2\n", "1,234"),  # thousands, perhaps
        ("A;B\n1,2;1\n1.2;2\n", "1,2"),
        ("A;B\n1,2;1\nx;2\n", "1,2"),
        ("A;B\n1,2;1\n1,2,3;2\n", "1,2"),
    ],
)
def test_other_commas_stay(write, text, first):
    data = read_microdata(write(text), ["A", "B"])
    assert first in categories(data)["A"]
    assert not data.reading["decimal_comma"]


def test_three_decimals_after_a_semicolon_are_decimals(write):
    data = read_microdata(write("A;B\n1,234;1\n2,500;2\n"), ["A", "B"])
    assert categories(data)["A"] == ("1.234", "2.500")


@pytest.mark.parametrize("entry", ["age", "AGE ", "SXE", "NMAE", "NAMES"])
def test_a_misspelt_entry_of_a_key_is_refused_or_said(write, entry):
    book = {entry: ["1", "2", "10", "11"]}
    if entry == "NAMES":  # the beginning of another name may be a variable of its own
        assert read_microdata(write(CSV), ["AGE", "NAME"], book).reading["codebook_strangers"] == {"NAMES": "NAME"}
        return
    if entry == "SXE":  # SEX and SXE have two letters of three in common: too little to refuse
        assert read_microdata(write(CSV), ["AGE", "SEX"], book).reading["codebook_strangers"] == {"SXE": ""}
        return
    with pytest.raises(CodebookError, match=r"which is no column, and nothing describes the key '(AGE|NAME)'"):
        read_microdata(write(CSV), ["AGE", "NAME"], book)


@pytest.mark.parametrize(
    ("book", "strangers"),
    [
        ({"AGE": [1, 2, 10], "SEX": ["f", "m"], "NAMR": [1]}, {"NAMR": "NAME"}),  # which is no key
        ({"NAME": ["anna"], "AGE": [1, 2, 10]}, {}),
        ({"AGE": [1, 2, 10], "AGE2": [1]}, {"AGE2": ""}),
        ({"Q12": [1], "INCOME": [1]}, {"Q12": "", "INCOME": ""}),
    ],
)
def test_a_codebook_may_describe_more_than_the_file_has(write, book, strangers):
    assert read_microdata(write(CSV), ["AGE", "SEX"], book).reading["codebook_strangers"] == strangers
