"""`keyhole.__all__` is sorted, complete and cheap."""

import ast
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import keyhole
from keyhole.settings import Options, make_settings, option_names

HEAVY = ("numba", "numpy", "polars", "scipy", "pydantic", "arviz_stats", "h5netcdf", "narwhals", "yaml", "jinja2")


def test_public_names_are_sorted_and_exist():
    assert keyhole.__all__ == sorted(keyhole.__all__)
    assert dir(keyhole) == keyhole.__all__
    for name in keyhole.__all__:
        assert getattr(keyhole, name) is not None


def test_names_that_type_checkers_see_are_those_that_are_imported():
    tree = ast.parse(Path(keyhole.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name: node.module for node in block.body for alias in node.names}
    assert seen == keyhole._HOME
    assert set(keyhole.__all__) == {*seen, "__version__"}


ZEROS = [keyhole.zeros.check, keyhole.zeros.suggest, keyhole.zeros.boxes]
PUBLIC = [getattr(keyhole, name) for name in keyhole.__all__ if inspect.isfunction(getattr(keyhole, name))]
METHODS = [member for name, member in vars(keyhole.Assessment).items() if inspect.isfunction(member) and name[0] != "_"]


@pytest.mark.parametrize("function", PUBLIC + ZEROS + METHODS, ids=lambda function: function.__qualname__)
def test_public_functions_document_their_parameters(function):
    """In numpydoc sections: every parameter, what is returned, and what is raised."""
    text = inspect.getdoc(function)
    sections = dict(zip(*[iter(re.split(r"^(\w+)\n-{3,}$", text, flags=re.MULTILINE)[1:])] * 2, strict=True))
    named = set(re.findall(r"^\*{0,2}(\w+)", sections.get("Parameters", ""), re.MULTILINE))
    named |= {name.strip(" *") for line in re.findall(r"^\S.*,.*$", sections.get("Parameters", ""), re.MULTILINE)
              for name in line.split(",")}  # fmt: skip
    signature = inspect.signature(function)
    assert {name for name in signature.parameters if name != "self"} <= named
    assert ("Returns" in sections) == (signature.return_annotation not in ("None", None))
    assert "Raises" in sections or function.__name__ == "report"


def test_options_are_those_of_settings():
    assert tuple(Options.__annotations__) == option_names()


def test_settings_come_as_an_object_or_as_options():
    base = make_settings(seed=5, chains=2)
    assert make_settings(base, chains=3) == make_settings(seed=5, chains=3)
    assert make_settings(base) == base


@pytest.fixture(scope="module")
def small() -> keyhole.Assessment:
    frame = pl.DataFrame(
        {"AGE": [str(70 + x % 7) for x in range(60)], "SEX": ["canary", "b", "c"] * 20, "W": range(60)}
    )
    return keyhole.assess(frame, "AGE,SEX", population=900, settings=make_settings(max_sweeps=20, chains=2))


def test_a_representation_is_five_lines_and_holds_nothing_of_a_record(small):
    text = repr(small)
    assert len(text.splitlines()) == 5
    assert str(small) == text
    assert "canary" not in text
    assert "60 records, 2 keys (AGE, SEX), population 900" in text
    released = repr(small.what_if(drop=["AGE"]))
    assert re.fullmatch(
        r"ReleaseRisk: tau1 .{5,40}, tau2 .{5,40}, \d+ sample uniques?; (usable|(not )?converged)", released
    )
    assert len(repr(small.tau1)) < 400  # without the bins of its picture
    assert "K1" not in repr(keyhole.simulate([2, 3], 50, 10))


def test_equality_does_not_raise(small):
    assert small == small
    assert small != keyhole.assess(pl.DataFrame({"A": ["x", "y"]}), "A", population=2)
    assert small.what_if() == small.what_if()
    assert len({small}) == 1


RULES = {"impossible": [{"AGE": [70], "SEX": ["b"]}, "AGE >= 75 and SEX == c"]}


@pytest.mark.parametrize("given", ["mapping", "list", "file"])
def test_rules_are_a_file_a_mapping_or_a_list(given, tmp_path):
    frame = pl.DataFrame({"AGE": [str(70 + x % 7) for x in range(42)], "SEX": ["a", "b", "c"] * 14})
    (tmp_path / "rules.yaml").write_text(json.dumps(RULES), encoding="utf-8")
    zeros = {"mapping": RULES, "list": RULES["impossible"], "file": tmp_path / "rules.yaml"}[given]
    options = {"population": 500, "drop_contradictions": True, "chains": 2, "max_sweeps": 20}
    found = keyhole.assess(frame, "AGE,SEX", zeros=zeros, **options)
    assert (found.summary["zeros"]["rules"], found.summary["zeros"]["impossible_cells"]) == (2, 3)
    assert len(found.manifest["rules"]) == 64


def test_rules_that_are_wrong_are_named():
    frame = pl.DataFrame({"A": ["x", "y", "x"], "B": ["u", "v", "w"]})
    with pytest.raises(keyhole.RulesError, match=r"`zeros`, line 2.*'C'"):
        keyhole.assess(frame, "A,B", population=50, zeros=["A == x and B == v", "C == x"])
    with pytest.raises(keyhole.RulesError, match="`zeros`: rules must be text"):
        keyhole.assess(frame, "A,B", population=50, zeros=[{"A": object()}])


def test_compare_takes_what_assess_takes():
    frame = pl.DataFrame({"A": [str(x % 5) for x in range(40)], "B": [str(x % 7) for x in range(40)]})
    found = keyhole.compare(frame, "A,B", population=400, estimators="hdp-adaptive,loglinear-main", max_sweeps=20)
    assert [outcome.name for outcome in found] == ["hdp-adaptive", "loglinear-main"]
    assert all(isinstance(outcome, keyhole.Outcome) and outcome.error is None for outcome in found)
    assert "array" not in repr(found)


def test_functions_answer_what_the_commands_print():
    frame = pl.DataFrame({"A": [str(x % 3) for x in range(60)], "B": ["x", "y", "y"] * 20, "ID": range(60)})
    rules, given = ["A == 0 and B == y", "A == 1 and B == y"], {"keys": "A,B"}
    found = keyhole.zeros.check(rules, frame, **given)
    assert not found.holds
    assert found.rows.tolist() == list(range(2, 61, 3))
    assert found.to_dict()["impossible_cells"] == 2
    assert repr(found) == "Check of 2 rules: 20 of 60 records contradict one"
    assert keyhole.zeros.check(rules[:1], frame, **given).holds
    boxes = keyhole.zeros.boxes(rules, frame, **given)
    assert [line.cells for line in boxes.lines] == [2]
    assert keyhole.zeros.boxes(rules, frame, possible=True, **given).lines[0].cells <= 4
    again = keyhole.zeros.check({"impossible": [{"A": ["0", "1"], "B": ["y"]}]}, frame, **given)
    assert again.zeros.impossible_cells == 2
    assert len(keyhole.zeros.suggest(pl.concat([frame] * 9), **given).items) > 0
    for wrong, message in (({"order": 4}, "`order`"), ({"false_discovery": 2.0}, "`false_discovery`")):
        with pytest.raises(keyhole.SettingsError, match=message):
            keyhole.zeros.suggest(frame, **given, **wrong)
    with pytest.raises(keyhole.SettingsError, match="`keys` or a `codebook`"):
        keyhole.zeros.boxes(rules, frame)
    seen = keyhole.inspect(frame)
    assert seen.keys == ("A", "B")
    assert [variable["looks_like"] for variable in seen.to_dict()["variables"]] == ["key", "key", "identifier"]


def test_keys_can_be_added_to_the_records():
    frame = pl.DataFrame({"A": ["1", "2", None, "2"] * 3, "B": ["x", "x", "y", "=1+1"] * 3, "ONE": [1] * 12})
    found = keyhole.assess(frame, "A,B,ONE", population=12, with_keys=True, missing="drop")
    plain = keyhole.assess(frame, "A,B,ONE", population=12, missing="drop")
    assert found.records.columns == [*plain.records.columns, "A", "B"]
    assert found.records["A"].to_list() == ["1", "2", None, "2"] * 3
    assert found.records["B"].to_list() == ["x", "x", None, "=1+1"] * 3
    with pytest.raises(keyhole.SettingsError, match="cannot add the key 'rank'"):
        keyhole.assess(frame.rename({"A": "rank"}), "rank,B", population=12, with_keys=True)


def test_unknown_names_are_refused():
    assert not hasattr(keyhole, "fit")


def test_importing_and_help_load_nothing_heavy():
    assert not find_loaded(["--help"], [*HEAVY, "difflib", "shlex", "subprocess"])


def test_a_certain_answer_of_a_file_loads_what_it_needs(tmp_path):
    pl.DataFrame({"A": [1, 1, 2, 3, 3], "B": ["x", "x", "y", "x", "y"]}).write_csv(tmp_path / "all.csv")
    command = f"assess {tmp_path / 'all.csv'} --keys A,B --population 5 --out {tmp_path / 'out'}"
    assert not find_loaded(command.split(), ["arviz_stats", "narwhals", "pandas", "scipy.special", "xarray"])
    assert (tmp_path / "out" / "summary.json").is_file()


def find_loaded(arguments: list[str], names: list[str]) -> list[str]:
    """Run a command in a process of its own; return which of these modules it has loaded."""
    code = (
        "import sys, keyhole, keyhole.cli\n"
        f"try: keyhole.cli.main({arguments})\n"
        "except SystemExit: pass\n"
        f"print('LOADED', *(name for name in {names} if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1].split()[1:]
