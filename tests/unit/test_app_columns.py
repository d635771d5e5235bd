"""What the page counts without a fit: the same as `assess`, at once, and nothing that a name or label can upset."""

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyreadstat
import pytest

import keyhole
from keyhole.app.choices import Choices
from keyhole.app.columns import count_alone, describe_variables, open_columns
from keyhole.app.desk import Desk, reply
from keyhole.app.home import Project
from keyhole.app.screens import rules_text
from keyhole.data import count_records, read_microdata
from keyhole.errors import KeyholeError
from keyhole.words import as_flags


def make_frame(rng: np.random.Generator, rows: int = 240) -> pl.DataFrame:
    sex = rng.choice(["f", "m", ""], rows, p=[0.5, 0.45, 0.05])
    return pl.DataFrame(
        {
            "AGE": rng.integers(0, 90, rows),
            "SEX": [None if one == "" else one for one in sex],
            "WORK": rng.choice(["none", "part time", "full time", "NA"], rows),
            "ID": [f"person {x}" for x in range(rows)],
            "INCOME": rng.normal(3e4, 9e3, rows).round(2),
            "ONE": ["same"] * rows,
        }
    )


@pytest.fixture
def path(rng: np.random.Generator, tmp_path: Path) -> str:
    make_frame(rng).write_csv(tmp_path / "survey.csv")
    return str(tmp_path / "survey.csv")


@pytest.mark.parametrize("missing", ["category", "drop", "model"])
@pytest.mark.parametrize(("bands", "merge"), [
    ({}, {}),
    ({"AGE": "5y"}, {"AGE": [["5-9", "10-14"], ["85-89", "80-84"]], "WORK": [["none", "part time"]]}),
    ({"AGE": "0,15,30,45,60"}, {"AGE": [["0-14", "60+"]], "SEX": []}),
])  # fmt: skip
def test_those_alone_are_those_that_assess_finds(
    path: str, missing: Any, bands: dict[str, str], merge: dict[str, Any]
) -> None:
    _, columns = open_columns(path)
    keys = ["AGE", "SEX", "WORK"]
    used = {name: groups for name, groups in merge.items() if groups}
    options = keyhole.data.SourceOptions(bands=bands or None, merge=used)  # type: ignore[attr-defined]
    wanted = read_microdata(path, keys, missing=missing, options=options)
    found = columns.make_microdata(keys, bands, missing, merge)
    assert found.variables == wanted.variables
    assert [one.ordered for one in found.variables] == [one.ordered for one in wanted.variables]
    assert np.array_equal(found.codes, wanted.codes)
    assert np.array_equal(found.row_used, wanted.row_used)
    alone = len(count_records(wanted.cells, wanted.cell).unique_record)
    assert columns.count_alone(keys, bands, missing, merge) == (alone, wanted.records)


def test_a_codebook_lists_the_categories(path: str, tmp_path: Path) -> None:
    book = tmp_path / "book.yaml"
    book.write_text("SEX: {m: men, f: women, x: others}\nAGE: {ordered: true, categories: [0-44, 45-89]}\n", "utf-8")
    keys, bands = ["AGE", "SEX"], {"AGE": "0,45,90"}
    with pytest.raises(KeyholeError, match="codebook"):
        open_columns(path, str(book))[1].count_alone(keys, bands, "category", {})
    book.write_text("SEX: {m: men, f: women, x: others}\n", encoding="utf-8")
    seen, columns = open_columns(path, str(book))
    options = keyhole.data.SourceOptions(bands=bands)  # type: ignore[attr-defined]
    wanted = read_microdata(path, keys, str(book), options=options)
    found = columns.make_microdata(keys, bands, "category", {})
    assert found.variables == wanted.variables
    assert np.array_equal(found.codes, wanted.codes)
    bars = {one["name"]: one["bars"] for one in describe_variables(seen, columns)["variables"]}
    assert [text for text, _ in bars["SEX"]] == ["men", "women", "others", "(blank)"]


def test_counts_agree_with_counting_by_hand(rng: np.random.Generator) -> None:
    for sizes in ([2], [3, 4, 2], [500, 400, 300, 200, 100, 90, 80, 70], [2**15] * 6):
        columns = [rng.integers(0, size, 400).astype(np.int32) for size in sizes]
        columns[0] = columns[0] % 3
        by_hand = sum(count == 1 for count in Counter(zip(*columns, strict=True)).values())
        assert count_alone(columns, sizes, 400) == (by_hand, 400)
    assert count_alone([], [], 5) == (0, 5)
    assert count_alone([], [], 1) == (1, 1)


def test_a_click_is_answered_at_once_on_a_large_file(rng: np.random.Generator) -> None:
    """Four million records are a file of about 200 MB."""
    sizes = (90, 2, 6, 10, 50, 8, 5, 20)
    columns = [rng.integers(0, size, 4_000_000).astype(np.int16) for size in sizes]
    started = time.process_time()
    count_alone(columns, sizes, len(columns[0]))
    assert time.process_time() - started < 0.9  # 0.3 on a processor of today that has nothing else to do


def test_what_cannot_be_a_key_is_named_with_the_reason(path: str) -> None:
    desk = Desk()
    answer = reply(desk, {"id": 1, "do": "alone", "with": {
        "path": path, "codebook": None, "keys": ["AGE", "ID", "INCOME", "NOTHING"], "bands": {"AGE": "x"},
        "merge": {}, "missing": "category",
    }})["answer"]  # fmt: skip
    assert set(answer["refused"]) == {"AGE", "ID", "INCOME", "NOTHING"}
    assert answer["alone"] == 0
    assert "person" not in str(answer)
    found = describe_variables(*open_columns(path))
    bars = {one["name"]: one["bars"] for one in found["variables"]}
    assert dict(map(tuple, bars["SEX"])) == {
        "f": bars["SEX"][0][1],
        "m": bars["SEX"][1][1],
        "(blank)": bars["SEX"][2][1],
    }
    assert sum(count for _, count in bars["SEX"]) == 240
    assert bars["ID"] == bars["INCOME"] == bars["ONE"] == []


def ask(desk: Desk, what: str, **given: Any) -> Any:
    found = reply(desk, {"id": 1, "do": what, "with": given})
    if "error" in found:
        raise KeyholeError(found["error"])
    return found["answer"]


def test_rules_are_checked_as_by_the_command(path: str) -> None:
    keys, bands, merge = ["AGE", "SEX", "WORK"], {"AGE": "15y"}, {"AGE": [["60-74", "75-89"]]}
    rules: list[Any] = ["AGE == '0-14' and WORK != none", "SEX == f and WORK == none", {"SEX": ["m"], "AGE": ["60+"]}]
    desk = Desk()
    found = ask(
        desk,
        "rules",
        path=path,
        codebook=None,
        keys=keys,
        bands=bands,
        merge=merge,
        missing="category",
        rules=[*rules, "RGE == 1", "("],
    )
    wanted = keyhole.zeros.check(rules, path, keys, bands=bands, merge=merge)
    for shown, check in zip(found["rules"], wanted.rules, strict=False):
        assert f"{check.cells:,} combination" in shown["removes"]
        assert shown["contradicted"] == len(check.rows)
        assert shown["rows"] == check.rows[:20].tolist()
    assert found["whole"]["share"] == wanted.zeros.share
    assert found["whole"]["contradicted"] == len(wanted.rows)
    assert ["error" in one for one in found["rules"]] == [False] * 3 + [True] * 2
    assert "RGE" in found["rules"][3]["error"]


def test_accepted_suggestions_are_rules(tmp_path: Path) -> None:
    frame = pl.DataFrame({"A": [str(x % 3) for x in range(540)], "B": ["x", "y", "y"] * 180, "C": ["p", "q"] * 270})
    frame.write_csv(tmp_path / "a.csv")
    given = {
        "path": str(tmp_path / "a.csv"),
        "codebook": None,
        "keys": ["A", "B"],
        "bands": {},
        "missing": "category",
        "merge": {},
    }
    desk = Desk()
    items = ask(desk, "suggest", **given, population=9000)["items"]
    assert items
    checked = ask(desk, "rules", **given, rules=[item["rule"] for item in items])
    assert all("error" not in one and one["contradicted"] == 0 for one in checked["rules"])
    assert [one["words"] for one in checked["rules"]] == [item["words"] for item in items]
    rules = [{"rule": item["rule"], "words": item["words"]} for item in items]
    project = Project(tmp_path, "a.csv", given["path"], 0.0, 1, Choices().change({"rules": rules}))
    (tmp_path / "rules.yaml").write_text(rules_text(project), encoding="utf-8")
    again = keyhole.zeros.check(tmp_path / "rules.yaml", given["path"], ["A", "B"])
    assert again.zeros.share == checked["whole"]["share"]


def test_labels_of_a_statistical_file_are_shown(tmp_path: Path) -> None:
    frame = pl.DataFrame({"SEX": [1.0, 2.0, 1.0, 2.0] * 9, "AGE": [float(x % 6) for x in range(36)]})
    labels = {"SEX": {1.0: "<b>men</b>", 2.0: "women & girls"}}
    pyreadstat.write_sav(frame, str(tmp_path / "a.sav"), variable_value_labels=labels, column_labels={"SEX": "Sex?"})
    found = describe_variables(*open_columns(str(tmp_path / "a.sav")))
    sex = found["variables"][0]
    assert sex["title"] == "Sex?"
    assert sex["bars"] == [["<b>men</b>", 18], ["women & girls", 18]]


def test_other_errors_than_ours_are_not_quoted(path: str) -> None:
    for question in (
        {"do": "alone", "with": {"keys": [object()]}},
        {"do": "main", "with": {}},
        {"do": "read", "with": {"path": 5, "out": ""}},
    ):
        found = reply(Desk(), {"id": 3, **question})
        assert found["id"] == 3
        assert "object" not in found["error"]
    json.dumps(found)


def test_the_categories_of_a_key_are_shown_as_they_are_merged(path: str) -> None:
    desk = Desk()

    def show(name: str, bands: str = "", merge: Any = "", missing: str = "category") -> Any:
        return ask(
            desk, "categories", path=path, codebook=None, name=name, bands=bands, merge=merge, missing=missing
        )  # fmt: skip

    frame = pl.read_csv(path)
    found = show("AGE", "0,30,60", "30-59,60+")
    assert [item["codes"] for item in found["categories"]] == [["0-29"], ["30-59", "60+"]]
    assert [item["count"] for item in found["categories"]] == [(frame["AGE"] < 30).sum(), (frame["AGE"] >= 30).sum()]
    assert found["groups"] == [["30-59", "60+"]]
    assert found["text"] == "30-59,60+"
    assert found["ordered"] == ["0-29", "30-59", "60+"]
    assert found["numbers"]["limits"] == [0, 30, 60]
    assert sum(found["numbers"]["bars"]) == frame.height
    assert show("AGE", "30y")["numbers"]["limits"] == [0, 30, 60]
    assert show("WORK", merge="'full time',none")["categories"][0]["texts"] == ["full time", "none"]
    assert show("WORK")["numbers"] is None
    # What does not fit is said, and the categories are there all the same, so that it can be mended.
    wrong = show("SEX", merge=[["f", "x"]])
    assert "'x' is not a category" in wrong["refused"]
    assert wrong["groups"] == [["f", "x"]]
    assert [item["codes"] for item in wrong["categories"]] == [["f"], ["m"], [""]]
    assert "blank category" in show("SEX", merge="'',f", missing="drop")["refused"]
    assert "fractions" in show("INCOME")["refused"]
    assert show("INCOME")["numbers"]["limits"] == []
    assert len(show("INCOME", "10000y")["categories"]) > 2
    with pytest.raises(KeyholeError, match="Write the categories"):
        show("SEX", merge=",|")


def test_few_ways_of_cutting_a_key_are_remembered(path: str) -> None:
    """Whoever drags a cut through a large file asks for many."""
    _, columns = open_columns(path)
    for limit in range(20, 60):
        columns.encode("AGE", f"0,{limit}", "category")
    assert len(columns.encoded) < 8


def test_a_file_of_stratum_sizes_is_compared_with_the_strata(tmp_path: Path) -> None:
    """The strata have the categories of the keys, merged ones too, and what is wrong is what a run would say."""
    desk, sizes, path = Desk(), tmp_path / "sizes.csv", tmp_path / "a.csv"
    frame = pl.DataFrame({"AGE": [str(x % 5) for x in range(60)], "REGION": ["n", "s", "w"] * 20, "PART": ["x"] * 60})
    frame.write_csv(path)
    given: dict[str, Any] = {
        "path": str(path), "codebook": None, "keys": ["AGE", "REGION"], "bands": {}, "missing": "category",
        "merge": {"REGION": [["n", "s"]]}, "strata": ["REGION", "PART"], "sizes": str(sizes),
    }  # fmt: skip
    for text, message in (
        ("REGION,N\nn|s,500\nw,300\n", "PART"),
        ("REGION,PART,N\nn,x,500\nw,x,300\n", "no record in the file"),
        ("REGION,PART,N\nn|s,x,500\n", "lacks the stratum"),
        ("REGION,PART,N\nn|s,x,39\nw,x,300\n", "fewer people"),
    ):
        sizes.write_text(text, encoding="utf-8")
        with pytest.raises(KeyholeError, match=message) as shown:
            ask(desk, "sizes", **given)
        options = {"merge": given["merge"], "strata": given["strata"], "strata_sizes": sizes, "max_sweeps": 10}
        with pytest.raises(KeyholeError) as run:
            keyhole.assess(path, given["keys"], **options)
        assert str(shown.value) == as_flags(str(run.value))
    sizes.write_text("REGION,PART,N\nn|s,x,500\nw,x,300\n", encoding="utf-8")
    assert ask(desk, "sizes", **given)["text"] == "Strata of the file: 2, with 800 people in all."
