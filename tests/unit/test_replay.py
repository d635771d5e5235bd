"""`replay`: the same run gives the same bits; whatever was changed on the way is noticed."""

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import keyhole as kh
from keyhole import replaying
from keyhole.cli import main
from keyhole.errors import InputError, OutputError
from keyhole.results.folder import MANIFEST, OUTPUTS, SEAL, seal

CANARY = "zzcanaryzz"
pytestmark = pytest.mark.filterwarnings("ignore::keyhole.NotConvergedWarning")
RUN = {"population": 900, "chains": 2, "max_sweeps": 60, "seed": 4, "workers": 1}
RULES = "impossible:\n  - {A: [3], B: [0]}\n"
BOOK = "A: [0, 1, 2, 3, 4]\nB: {0: none, 1: one, 2: two, 3: three}\n"


def make_frame() -> pl.DataFrame:
    rng = np.random.default_rng(6)
    frame = pl.DataFrame({name: rng.integers(0, 4, 90) for name in "ABC"})
    return frame.with_columns(
        A=frame["A"].clip(upper_bound=2 + frame["B"]), D=pl.Series([CANARY, "x", "y"] * 30), W=pl.lit(10.0),
        H=pl.int_range(90) // 3, R=pl.int_range(90) % 2,
    )  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with a file, rules and a codebook, and a result of them."""
    place = tmp_path_factory.mktemp("made")
    make_frame().write_csv(place / "survey.csv")
    (place / "rules.yaml").write_text(RULES)
    (place / "book.yaml").write_text(BOOK)
    book, rules = place / "book.yaml", place / "rules.yaml"
    kh.assess(place / "survey.csv", "A,B,C,D", codebook=book, zeros=rules, with_keys=True, **RUN).save(place / "r")
    return place


@pytest.fixture
def copy(made, tmp_path) -> Path:
    """A copy of the result, whose files are elsewhere."""
    shutil.copytree(made / "r", tmp_path / "r")
    return tmp_path


def change(folder: Path, sealed: bool, **fields) -> None:
    """Change a manifest, as somebody who also computes its hash anew would."""
    manifest = json.loads((folder / MANIFEST).read_text())
    for path, value in fields.items():
        block = manifest
        *above, last = path.split("__")
        for name in above:
            block = block[name]
        if value is None:
            del block[last]
        else:
            block[last] = value
    (folder / MANIFEST).write_text(json.dumps(seal(manifest) if sealed else manifest))


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    return stopped.value.code


def test_the_same_run_is_the_same_to_the_bit(made, tmp_path):
    found = kh.replay(made / "r" / MANIFEST, made / "survey.csv", tmp_path / "again")
    assert found.same
    assert (found.differs, found.reasons, found.clock) == ((), (), False)
    assert found.message == "The same to the bit: tau1, tau2, records and draws."
    for name in ("records.csv", "records.parquet", "draws.nc"):
        assert (tmp_path / "again" / name).read_bytes() == (made / "r" / name).read_bytes()
    assert kh.load(tmp_path / "again").summary.settings.seed == 4
    again = kh.replay(tmp_path / "again", made / "survey.csv")
    assert again.same, "a replay can be replayed"
    assert again.folder == tmp_path / "again-replay"
    assert CANARY not in repr(again)


KINDS = {
    "plain": {},
    "quick": {"quick": True},
    "mixed": {"model": "mixed", "profiles": 4},
    "design": {"population": None, "weight": "W", "household": "H"},
    "strata": {"population": None, "weight": "W", "strata": "R"},
    "reading": {"bands": {"C": "2y"}, "missing": "drop", "user_missing": "blank", "na": ["y"], "unordered": "A"},
    "certain": {"population": 90},
    "fraction": {"population": None, "fraction": 0.1},
    "self check": {"self_check": True, "keep_data": True, "policy": ["all.max=0.5"]},
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_option_of_a_run_is_repeated(made, tmp_path, kind):
    shutil.copy(made / "survey.csv", tmp_path / "survey.csv")
    first = kh.assess(tmp_path / "survey.csv", "A,B,C", **RUN | KINDS[kind])
    first.save(tmp_path / "r")
    found = kh.replay(tmp_path / "r", tmp_path / "survey.csv")
    assert found.same, found.message
    one, other = (json.loads((x / "summary.json").read_text()) for x in (tmp_path / "r", found.folder))
    for name in ("seconds",):
        one.pop(name), other.pop(name)
    one["settings"].pop("time_limit"), other["settings"].pop("time_limit")
    if one.get("quick"):
        one["quick"].pop("seconds"), other["quick"].pop("seconds")
    assert one == other


@pytest.mark.parametrize(
    "values", [{"zeros": {"impossible": [{"A": [3], "B": [0]}]}}, {"codebook": {"C": [0, 1, 2, 3]}}]
)
def test_what_was_given_as_values_is_asked_for_and_checked(tmp_path, values):
    frame = make_frame()
    kh.assess(frame, "A,B,C", **RUN | values).save(tmp_path / "r")
    ((name, value),) = values.items()
    with pytest.raises(InputError, match=f"given its `{name}` as values: give the same as `{name}`"):
        kh.replay(tmp_path / "r", frame)
    other = {"C": [0, 1, 2, 3, 4]} if name == "codebook" else {"impossible": [{"A": [2], "B": [0]}]}
    with pytest.raises(InputError, match=f"what was given is not the one that the run used: give that one as `{name}`"):
        kh.replay(tmp_path / "r", frame, **{name: other})
    assert kh.replay(tmp_path / "r", frame, **{name: value}).same
    with pytest.raises(InputError, match="what was given as `data` is not what the run read"):
        kh.replay(tmp_path / "r", frame.reverse(), **{name: value})


def test_a_query_and_sizes_of_strata_are_found_again(tmp_path):
    import sqlite3

    frame = make_frame().select("A", "B", "C", "R")
    with sqlite3.connect(tmp_path / "x.db") as db:
        db.execute("CREATE TABLE people (A, B, C, R)")
        db.executemany("INSERT INTO people VALUES (?, ?, ?, ?)", frame.rows())
    db.close()
    (tmp_path / "sizes.csv").write_text("R,N\n0,500\n1,700\n")
    url = f"sqlite:///{tmp_path / 'x.db'}"
    more = {"query": "SELECT * FROM people", "strata": "R", "strata_sizes": tmp_path / "sizes.csv", "population": None}
    kh.assess(url, "A,B,C", **RUN | more).save(tmp_path / "r")
    assert kh.replay(tmp_path / "r", url).same
    (tmp_path / "sizes.csv").write_text("R,N\n0,500\n1,701\n")
    with pytest.raises(InputError, match=r"sizes\.csv is not the one that the run used"):
        kh.replay(tmp_path / "r", url)


def test_files_are_found_beside_the_manifest_or_named(made, copy):
    for name in ("rules.yaml", "book.yaml", "survey.csv"):
        shutil.copy(made / name, copy / name)
    change(copy / "r", True, asked__zeros="/nowhere/rules.yaml", asked__codebook="/nowhere/book.yaml")
    data = copy / "survey.csv"
    assert kh.replay(copy / "r", data).same
    (copy / "rules.yaml").rename(copy / "moved.yaml")
    with pytest.raises(InputError, match=r"^/nowhere/rules\.yaml does not exist: give the file .* as `zeros`\.$"):
        kh.replay(copy / "r", data)
    assert kh.replay(copy / "r", data, zeros=copy / "moved.yaml").same
    (copy / "moved.yaml").write_text(RULES.replace("[3]", "[2]"))
    with pytest.raises(InputError, match=r"moved\.yaml is not the one that the run used"):
        kh.replay(copy / "r", data, zeros=copy / "moved.yaml")


# Tampering.


@pytest.mark.parametrize("name", OUTPUTS)
def test_any_file_of_the_result_that_was_changed_is_noticed(made, copy, rng, name):
    path = copy / "r" / name
    for _ in range(5):
        content = bytearray((made / "r" / name).read_bytes())
        content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
        path.write_bytes(content)
        with pytest.raises(OutputError, match=f"{name} is not as it was written"):
            kh.replay(copy / "r", made / "survey.csv")
    assert not list(copy.glob("r-replay*"))


@pytest.mark.parametrize("number", range(20))
def test_a_manifest_that_was_changed_anywhere_is_noticed(made, copy, number):
    path = copy / "r" / MANIFEST
    text = path.read_text()
    rng = np.random.default_rng(number)
    places = [x for x, letter in enumerate(text) if letter.isalnum()]
    place = int(rng.choice(places))
    path.write_text(text[:place] + ("7" if text[place] != "7" else "3") + text[place + 1 :])
    with pytest.raises(OutputError, match=r"is not as it was written|is not a manifest of keyhole") as told:
        kh.replay(copy / "r", made / "survey.csv")
    assert "\n" not in str(told.value)
    with pytest.raises(OutputError):
        kh.load(copy / "r")


@pytest.mark.parametrize("changed", [{"settings__seed": 5}, {"population": 901}, {"settings__chains": 3}])
def test_a_change_with_a_hash_made_anew_gives_another_result(made, copy, changed):
    if "population" in changed:
        changed = {"population": 901, "asked__population": 901}
    change(copy / "r", True, **changed)
    found = kh.replay(copy / "r", made / "survey.csv")
    assert "tau1" in found.differs
    assert "draws" in found.differs
    assert found.message.startswith("Not the same: tau1, tau2, records and draws differ.")


@pytest.mark.parametrize(
    "changed",
    [{"settings": 3}, {"settings__seed": "x"}, {"asked__keys": None}, {"input": []}, {"outputs": None}, {"version": 1},
     {"program": "other"}, {"result": 5}, {"asked": [1]}, {"design": "x"}, {"settings__chains": -1}],
)  # fmt: skip
def test_a_manifest_that_makes_no_sense_is_one_line(made, copy, changed):
    change(copy / "r", True, **changed)
    with pytest.raises(kh.KeyholeError) as told:
        kh.replay(copy / "r", made / "survey.csv")
    assert "\n" not in str(told.value)
    assert not isinstance(told.value, kh.SettingsError)


@pytest.mark.parametrize("text", ["", "{", "[]", "[1, 2]", '{"program": "keyhole"}', "[" * 100_000, "\xff"])
def test_what_is_no_manifest_is_one_line(tmp_path, text):
    (tmp_path / "m.json").write_text(text, encoding="latin-1")
    with pytest.raises(OutputError, match=r"m\.json is not a manifest of keyhole, or is damaged"):
        kh.replay(tmp_path / "m.json", "x.csv")
    with pytest.raises(OutputError, match="cannot be read"):
        kh.replay(tmp_path / "none.json", "x.csv")


def test_other_data_is_refused_before_the_run(made, tmp_path, monkeypatch):
    monkeypatch.setattr(replaying, "assess", None)
    other = make_frame().with_columns(C=pl.lit(1))
    other.write_csv(tmp_path / "survey.csv")
    with pytest.raises(InputError, match=r"survey\.csv is not what the run read \(its hash differs\)"):
        kh.replay(made / "r", tmp_path / "survey.csv", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_nothing_is_overwritten(made, copy):
    (copy / "r-replay").mkdir()
    (copy / "r-replay-2").write_text("")
    assert replaying.choose_folder(copy / "r", None) == copy / "r-replay-3"
    with pytest.raises(OutputError, match="exists: choose a new folder with `out`"):
        kh.replay(copy / "r", made / "survey.csv", copy / "r-replay")


# What may be the reason.


def test_versions_that_differ_are_named(made, copy):
    change(copy / "r", True, settings__seed=9, kernels="0" * 64, libraries__numba="0.1", python="3.1")
    found = kh.replay(copy / "r", made / "survey.csv")
    assert not found.same
    assert found.reasons[0].startswith("Python 3.1 then, ")
    assert found.reasons[1].startswith("numba 0.1 then, ")
    assert found.reasons[2] == "the compiled code (hash of the kernels)"
    assert "What is different: Python 3.1 then, " in found.message


def test_a_run_that_the_clock_ended_is_repeated_with_its_sweeps(made, tmp_path):
    options = RUN | {"model": "mixed", "max_sweeps": None, "target_ess": 1_000_000, "time_limit": 1.5}
    first = kh.assess(made / "survey.csv", "A,B,C", **options)
    first.save(tmp_path / "r")
    assert first.summary.convergence.stopped == "time"
    found = kh.replay(tmp_path / "r", made / "survey.csv")
    assert found.clock
    assert found.assessment.summary.convergence.sweeps == first.summary.convergence.sweeps
    assert {"tau1", "tau2"}.isdisjoint(found.differs), "the draws are the same, only thinned otherwise if at all"
    assert "The clock ended the first run, so this one ended after as many sweeps (" in found.message


def test_a_manifest_of_an_early_version_takes_the_result_from_its_folder(made, copy):
    change(copy / "r", False, result=None, codebook=None, sha256=None, asked__quick=None)
    assert SEAL not in json.loads((copy / "r" / MANIFEST).read_text())
    assert kh.replay(copy / "r", made / "survey.csv").same


# The command.


def test_the_command(made, copy, capsys):
    data = str(made / "survey.csv")
    assert call("replay", str(copy / "r" / MANIFEST), "--data", data, "--quiet", "--out", str(copy / "one")) == 0
    assert capsys.readouterr().out == ""
    assert call("replay", str(copy / "r"), "--data", data, "--json", "--out", str(copy / "two")) == 0
    found = json.loads(capsys.readouterr().out)
    assert call("replay", str(copy / "r"), "--data", data, "--out", str(copy / "four")) == 0
    assert "of memory at most" not in capsys.readouterr().err, "there is no time limit to which that would be"
    assert (found["same"], found["differs"], found["folder"]) == (True, [], str(copy / "two"))
    assert call("replay", str(copy / "r"), "--data", data, "--out", str(copy / "two")) == 1
    assert capsys.readouterr().err == f"keyhole: {copy / 'two'} exists: choose a new folder with --out.\n"
    change(copy / "r", True, settings__seed=5)
    assert call("replay", str(copy / "r"), "--data", data, "--out", str(copy / "three")) == 5
    told = " ".join(capsys.readouterr().out.split())
    assert told.startswith("Not the same: tau1, tau2, records and draws differ.")
    assert told.endswith("three holds the new result.")
    change(copy / "r", False, settings__seed=6)
    assert call("replay", str(copy / "r"), "--data", data) == 1
    assert "manifest.json is not as it was written" in capsys.readouterr().err
