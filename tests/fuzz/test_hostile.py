"""Whatever a file, codebook, rule or option holds: an answer or one line, soon, and never a value of the data."""

import gzip
import json
import random
from pathlib import Path

import click
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keyhole.cli import group
from keyhole.commands.config import read_config
from keyhole.data import SourceOptions, inspect, read_codebook, read_microdata
from keyhole.zeros import read_zeros
from tests.fuzz.hostile import CANARY, band_specs, judge, rows_by_the_book, seeded_table, seeds, tables, values
from tests.unit.formats import write

# On every change 10,000 cases in all; the long suite takes a hundred times as many.
LONG = 100
HEALTH = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path


def cases(count):
    """So many cases on every change; 100 times as many behind the marker `long`."""
    return [count, pytest.param(count * LONG, marks=pytest.mark.long)]


def run(property_, count):
    settings(max_examples=count, suppress_health_check=HEALTH)(property_)()


MISSING = ("category", "drop", "model")
codes = values.filter(lambda text: CANARY not in text)
options = st.builds(
    dict,
    missing=st.sampled_from(MISSING),
    count=st.sampled_from([None, None, None, "C", "B"]),
    bands=st.none() | st.dictionaries(st.sampled_from(["A", "B"]), band_specs, max_size=2),
    # A codebook is no data, and its own codes may be told: no canary there.
    codebook=st.none() | st.dictionaries(st.sampled_from(["A", "B"]), st.lists(codes, max_size=3), max_size=2),
)


KEYS = (["A"], ["A", "B"], ["A", "Größe"])


def check_table(path, content, chosen, keys):
    """Read and inspect a table; what is read holds together."""
    path.write_bytes(content)
    reading = SourceOptions(count=chosen["count"], bands=chosen["bands"])
    found = judge(lambda: read_microdata(path, keys, chosen["codebook"], (), chosen["missing"], reading))
    if found is not None:
        assert len(found.codes) == len(found.record_row) >= 2
        assert found.codes.min(initial=0) >= (-1 if chosen["missing"] == "model" else 0)
        assert not found.variables or (found.codes >= 0).any(axis=1).all()
        for j, variable in enumerate(found.variables):
            assert found.codes[:, j].max() < len(variable.categories)
    judge(lambda: inspect(path))


@pytest.mark.parametrize("count", cases(300))
def test_tables(place, count):
    @given(tables(), options, st.sampled_from(KEYS), st.booleans())
    def check(content, chosen, keys, packed):
        path = place / ("x.csv.gz" if packed else "x.csv")
        check_table(path, gzip.compress(content) if packed else content, chosen, keys)

    run(check, count)


@pytest.mark.parametrize("count", cases(4_000))
def test_many_tables(place, count):
    @given(seeds)
    def check(seed):
        pick = random.Random(seed)
        chosen = {
            "missing": pick.choice(MISSING),
            "count": pick.choice([None, None, None, "C", "B"]),
            "bands": pick.choice([None, None, {"A": "5y"}, {"A": "0,15"}, {"B": "-5,0,5"}]),
            "codebook": pick.choice([None, None, {"A": ["1", "2", "a"]}, {"B": ["1", ""]}]),
        }
        check_table(place / "x.csv", seeded_table(seed), chosen, pick.choice(KEYS))

    run(check, count)


def test_corpus(place):
    body = f"A,B\n1,{CANARY}\n2,x\n1,x\n"
    corpus = {
        "bom": b"\xef\xbb\xbf" + body.encode(),
        "nul": body.replace("x", "\0").encode(),
        "utf-16": body.encode("utf-16"),
        "utf-16 cut": body.encode("utf-16")[:-1],
        "utf-16 without bom": body.encode("utf-16-le"),
        "mixed newlines": f"A,B\r1,{CANARY}\n2,x\r\n1,x\r".encode(),
        "quotes": f'A,B\n"1,{CANARY}\n2,x\n'.encode(),
        "quote in the header": f'A,"B\n1,{CANARY}\n2,x\n'.encode(),
        "duplicated headers": f"A,A,B\n1,{CANARY},1\n2,2,2\n".encode(),
        "no rows": b"A,B\n",
        "one category": b"A,B\n" + b"1,2\n" * 30,
        "all unique": b"A,B\n" + b"".join(b"%d,%d\n" % (i, i) for i in range(100)),
        "many columns": ",".join(f"c{i}" for i in range(150_000)).encode() + b"\n",
        "long field": b"A,B\n1," + b"x" * 200_000 + b"\n2,x\n",
        "long line": b"A,B\n" + b"1,2," * 300_000,
        "only quotes": b'"' * 10_000,
        "only newlines": b"\n" * 100_000,
        "ragged": f"A,B\n1\n{CANARY},2,3\n".encode(),
        "numbers only": f"1,2\n{CANARY},4\n".encode(),
    }
    for name, content in corpus.items():
        for ending in ("x.csv", "x.tsv", "x", "x.sav.csv"):
            (place / ending).write_bytes(content)
            judge(lambda path=place / ending: read_microdata(path, ["A", "B"]))
            judge(lambda path=place / ending: inspect(path))
        for ending in (".parquet", ".sav", ".dta", ".xpt", ".sas7bdat", ".xlsx", ".gz"):
            path = place / f"x{ending}"
            path.write_bytes(content)
            if ending in (".sav", ".dta", ".xpt", ".sas7bdat"):
                with pytest.raises(Exception, match="is not S") as caught:
                    read_microdata(path, ["A", "B"])
                assert CANARY not in str(caught.value), name
            else:
                judge(lambda path=path: read_microdata(path, ["A", "B"]))


@pytest.mark.parametrize("count", cases(1_000))
def test_reading_agrees_with_the_standard_library(place, count):
    plain = st.text(alphabet="ab1 \"',;\n\r", max_size=5)

    @given(
        st.lists(st.tuples(plain, plain), min_size=2, max_size=8),
        st.sampled_from([",", ";"]),
        st.booleans(),
        st.sampled_from([["A", "B"], ["A"], ["B"]]),
    )
    def check(rows, delimiter, quoted, keys):
        def written(value):
            return f'"{value.replace(chr(34), chr(34) * 2)}"' if quoted else value

        text = "".join(delimiter.join(map(written, row)) + "\n" for row in [("A", "B"), *rows])
        path = place / "x.csv"
        path.write_bytes(text.encode())
        found = judge(lambda: read_microdata(path, keys))
        if found is None:
            return
        expected = rows_by_the_book(text.replace("\r\n", "\n").replace("\r", "\n"), delimiter)[1:]
        assert {len(row) for row in expected} == {2}, "a row with too few or too many values was accepted"
        header = rows_by_the_book(text, delimiter)[0]
        read = {
            variable.name: [variable.categories[code] for code in found.codes[:, j]]
            for j, variable in enumerate(found.variables)
        }
        for name, column in read.items():
            # A line end within quotes may stay as it is or become LF; no category hangs on it.
            wanted = [row[header.index(name)] for row in expected]
            if name in found.reading["decimal_comma"]:
                wanted = [value.replace(",", ".") for value in wanted]
            assert [value.replace("\r\n", "\n") for value in column] == wanted

    run(check, count)


@pytest.mark.parametrize("count", cases(1_500))
def test_codebooks(place, count):
    @given(st.text(alphabet='AB:,[]{}"\n -1.0#&*!?|>%@`\t', max_size=40) | st.binary(max_size=30), st.booleans())
    def check(text, is_json):
        path = place / ("x.json" if is_json else "x.yaml")
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        judge(lambda: read_codebook(path))

    run(check, count)


@pytest.mark.parametrize("count", cases(1_500))
def test_rules(place, count):
    data = read_microdata(pl.DataFrame({"A": [1, 2, 3], "B": ["x", "y", CANARY]}), "A,B", {"A": [1, 2, 3]})
    words = ["impossible:", "rules:", "\n", "  - ", "A", "B", " == ", "1", "x", "(", ")", "!", "&", "|", "{", "}", "[",
             "]", ": ", ",", "in", "<=", '"', "expr", "*", "1-3", "\t", "\x00"]  # fmt: skip

    @given(st.lists(st.sampled_from(words), max_size=25).map("".join), st.sampled_from([".yaml", ".csv"]))
    def check(text, ending):
        path = place / f"rules{ending}"
        path.write_text(text)
        judge(lambda: read_zeros(path, data.variables))

    run(check, count)


@pytest.mark.parametrize("count", cases(700))
def test_bands(count):
    frame = pl.DataFrame({"A": [1.0, 2.5, 3.0, None, -4.0] * 5, "B": ["1", " 2", CANARY, "", "1e400"] * 5})
    limits = st.lists(st.floats() | st.integers() | st.sampled_from(["a", None]), max_size=4)

    @given(st.sampled_from(["A", "B"]), band_specs | limits)
    def check(name, spec):
        judge(lambda: read_microdata(frame, "A,B", options=SourceOptions(bands={name: spec})))

    run(check, count)


@pytest.mark.parametrize("count", cases(1_000))
def test_configs(place, count):
    command = group.get_command(None, "assess")
    plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    nested = st.recursive(plain, lambda inner: st.lists(inner, max_size=3), max_leaves=4)
    names = ["keys", "seed", "json", "out", "fail-above", "keyVars", "x", "chains", "time-limit", "missing", "band"]
    contents = (
        st.binary(max_size=60)
        | st.text(alphabet=":[]{}-?&*!|>'\"#%@, \n\tab1~", max_size=60).map(str.encode)
        | st.dictionaries(st.sampled_from(names), nested, max_size=4).map(lambda entries: json.dumps(entries).encode())
    )

    @given(contents)
    def check(content):
        path = place / "run.yaml"
        path.write_bytes(content)
        found = judge(lambda: read_config(path, click.Context(command)))
        assert set(found or {}) <= {parameter.name for parameter in command.params}

    run(check, count)


DDI = """<?xml version="1.0"?><codeBook xmlns="ddi:codebook:2_5"><dataDscr>
<var name="A" nature="ordinal"><labl>First</labl><catgry><catValu>1</catValu><labl>one</labl></catgry>
<catgry missing="Y"><catValu>9</catValu><labl>not <b>stated</b></labl></catgry></var>
<var name="B"><catgry><catValu>x</catValu></catgry></var></dataDscr></codeBook>"""
BOMB = "".join(f'<!ENTITY e{x} "{f"&e{x - 1};" * 10 if x else "lol"}">' for x in range(10))


def test_corpus_of_ddi(place):
    """Bombs, files within files and broken XML are one line, soon; nothing of the data or of another file is shown."""
    source = place / "x.csv"
    source.write_text(f"A,B\n1,{CANARY}\n9,x\n1,x\n")
    (place / "secret").write_text(CANARY)
    deep = "<a>" * 200_000
    corpus = {
        "bomb": f"<?xml version='1.0'?><!DOCTYPE c [{BOMB}]><c><var name='A'>&e9;</var></c>",
        "file": f"<!DOCTYPE c [<!ENTITY x SYSTEM 'file://{place / 'secret'}'>]><c><var name='A'>&x;</var></c>",
        "parameter": f"<!DOCTYPE c [<!ENTITY % x SYSTEM 'file://{place / 'secret'}'>%x;]><c/>",
        "deep": deep,
        "deep in a variable": f"<c><var name='A'>{deep}",
        "cut": DDI[:-40],
        "no variable": "<codeBook/>",
        "no name": DDI.replace('name="A"', ""),
        "twice": DDI.replace('name="B"', 'name="A"'),
        "category twice": DDI.replace("<catValu>9", "<catValu>1"),
        "encoding": DDI.replace("?>", " encoding='klingon'?>", 1),
        "utf-16": DDI.replace("?>", " encoding='utf-16'?>", 1),
        "html": f"<html><body>{CANARY}</body>",
        "empty": "",
        "no xml": f"A: [{CANARY}]",
        "wide": "<c>" + "<var name='A'/>" * 200_000 + "</c>",
    }
    for name, text in corpus.items():
        (place / "x.xml").write_text(text, encoding="utf-16" if name == "utf-16" else "utf-8")
        found = judge(lambda: read_codebook(place / "x.xml"))
        assert (found is None) == (name != "utf-16"), name
        judge(lambda: read_microdata(source, "A,B", place / "x.xml"))


@pytest.mark.parametrize("count", cases(150))
def test_damaged_ddi(place, count):
    source = place / "x.csv"
    source.write_text(f"A,B\n1,{CANARY}\n9,x\n1,x\n")

    @given(seeds)
    def check(seed):
        pick = random.Random(seed)
        damaged = bytearray(DDI.encode())
        for _ in range(pick.randint(1, 4)):
            spot = pick.randrange(len(damaged))
            damaged[spot : spot + pick.randint(0, 20)] = bytes(
                pick.choice(b"<>&;'\"/!\x00\xff aA19=") for _ in range(2)
            )
        (place / "x.xml").write_bytes(damaged)
        judge(lambda: read_microdata(source, "A,B", place / "x.xml"))

    run(check, count)


@pytest.mark.parametrize("count", cases(20))
def test_databases(place, count):
    source = write(pl.DataFrame({"A": [1, 2, 1], "B": [CANARY, "x", "x"]}), place, "db")
    words = ["SELECT ", "*", "A", "B", ",", " FROM ", "people", " WHERE ", "=", "'x'", "(", ")", ";", "DELETE",
             "PRAGMA ", "CAST(B AS INTEGER)", "abs(B)", "json(B)", " AS ", "x'00'", "ATTACH ", "--", "\0"]  # fmt: skip

    @given(st.lists(st.sampled_from(words), max_size=10).map("".join))
    def check(query):
        judge(lambda: read_microdata(source, "A,B", options=SourceOptions(query=query)))

    run(check, count)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sav", "zsav", "dta", "xpt", "por"])
def test_damaged_statistical_files(place, rng, kind):
    frame = pl.DataFrame({"A": rng.integers(0, 5, 60), "B": [f"{CANARY}{i % 7}" for i in range(60)]})
    source = write(frame, place, kind)
    whole = Path(source).read_bytes()
    for _ in range(200):
        damaged = bytearray(whole)
        for spot in rng.integers(8, len(whole), rng.integers(1, 6)):
            damaged[spot] = rng.choice([0, 1, 127, 128, 255, rng.integers(256)])
        Path(source).write_bytes(damaged[: len(whole) if rng.random() < 0.8 else rng.integers(8, len(whole))])
        judge(lambda: read_microdata(source, "A,B"))
