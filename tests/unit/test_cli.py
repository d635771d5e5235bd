"""The command line: exit status, one line for each mistake, every option, nothing written when refused."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import click
import polars as pl
import pytest

import keyhole
from keyhole.cli import COMMANDS, group, main
from keyhole.commands.flags import FRACTION_OR_PERCENT, read_merges
from keyhole.risk.advice import Verdict
from keyhole.settings import option_names
from tests.unit.test_settings import BAD

CANARY = "zzcanaryzz"
GOOD = "AGE,SEX,ID\n" + "".join(f"{i % 4 + 1},{'mf'[i % 2]},{i}\n" for i in range(100))


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run the command in an empty folder; return status, output, and the names of files in the folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")

    def call(*arguments: str) -> SimpleNamespace:
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        captured = capsys.readouterr()
        names = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
        return SimpleNamespace(status=stopped.value.code, out=captured.out, err=captured.err, names=names)

    return call


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text(GOOD)
    return str(path)


def refuse(found: SimpleNamespace, status: int, names: list[str]) -> None:
    """One line on standard error, nothing on standard output, nothing written, no traceback, no value."""
    assert found.status == status, found.err
    assert found.out == ""
    assert found.err.startswith("keyhole: ")
    assert found.err.count("\n") == 1
    assert CANARY not in found.err
    assert found.names == names


BAD_FILES = {
    "missing": None,
    "empty": b"",
    "header only": b"AGE,SEX\n",
    "single record": b"AGE,SEX\n1,m\n",
    "binary": b"AGE,SEX\n\x00\x01\x02",
    "parquet": b"PAR1 and so on",
    "unknown key": b"AGES,SEX\n1,m\n2,f\n",
    "ragged": f"AGE,SEX\n1,m\n2,f,{CANARY}\n".encode(),
    "no header": b"1,2\n3,4\n",
    "open quote": f'AGE,SEX\n1,"{CANARY}\n2,f\n'.encode(),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files_are_refused(run, tmp_path, case):
    content = BAD_FILES[case]
    if content is not None:
        (tmp_path / "x.csv").write_bytes(content)
    found = run("assess", "x.csv", "--keys", "AGE,SEX", "--population", "1000")
    refuse(found, 1, [] if content is None else ["x.csv"])


def test_csv_called_parquet_is_refused(run, tmp_path):
    (tmp_path / "x.parquet").write_text(GOOD)
    refuse(run("assess", "x.parquet", "--keys", "AGE", "--population", "1000"), 1, ["x.parquet"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--keys", "AGE,RACE", "--population", "1000"), "its columns are AGE, SEX, ID"),
        (("--keys", "AGE,SEX,AGE", "--population", "1000"), "given twice"),
        (("--keys", ",", "--population", "1000"), "no key variable"),
        (("--keys", "AGE,SEX", "--population", "99"), "smaller than the sample"),
        (("--keys", "AGE,ID", "--population", "1000"), "--allow-identifier ID"),
        (("--keys", "AGE", "--population", "1000", "--out", "data.csv"), "is a file"),
        (("--keys", "AGE", "--population", "1000", "--out", "data.csv/r"), "cannot be written"),
        (("--keys", "AGE", "--population", "1000", "--out", "/proc/r"), "cannot be written"),
        (("--keys", "AGE", "--population", "1000", "--out", "."), "holds other files"),
        (("--keys", "AGE", "--population", "1000", "--codebook", "none.yaml"), "does not exist"),
        (("--keys", "AGE", "--population", "1000", "--zeros", "none.yaml"), "none.yaml"),
    ],
)
def test_bad_input_is_refused(run, data, arguments, message):
    found = run("assess", data, *arguments)
    refuse(found, 1, ["data.csv"])
    assert message in found.err


def test_a_value_outside_the_codebook_is_placed_but_not_shown(run, tmp_path):
    (tmp_path / "x.csv").write_text(f"AGE,SEX\n1,m\n{CANARY},f\n")
    (tmp_path / "book.json").write_text('{"AGE": [1, 2]}')
    found = run("assess", "x.csv", "--keys", "AGE", "--population", "9", "--codebook", "book.json")
    refuse(found, 1, ["book.json", "x.csv"])
    assert "row 2, column 'AGE'" in found.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("assess {} --keys AGE --population 500 --population 5000", "--population is given twice: give it once."),
        (
            "assess {} --keys AGE --keys=SEX --population 500",
            "--keys is given twice: give it once, with commas between",
        ),
        (
            "assess {} --keys AGE --population 500 --ordered AGE --ordered SEX",
            "--ordered is given twice: give it once, wi",
        ),
        ("compare {} --keys AGE --fraction 0.1 --fraction 0.2", "--fraction is given twice"),
        ("inspect {} --codebook a.yaml --codebook b.yaml", "--codebook is given twice"),
        ("zeros check r.yaml {} --keys AGE --keys SEX", "--keys is given twice"),
        ("what-if dir --data a --data b --drop AGE", "--data is given twice"),
    ],
)
def test_a_single_value_is_not_given_twice(run, data, arguments, message):
    found = run(*(data if word == "{}" else word for word in arguments.split()))
    assert (found.status, found.names) == (2, ["data.csv"])
    assert message in found.err


def test_flags_and_repeatable_options_may_be_given_twice(run, data):
    words = "--keys AGE --population 100 --na NA --na - -q -q --band AGE=1,3"
    found = run("assess", data, *words.split())
    assert found.status == 0, found.err


@pytest.mark.parametrize("name", option_names())
def test_every_option_has_a_flag_that_is_checked(run, data, name):
    flag = f"--{name.replace('_', '-')}"
    found = run("assess", data, "--keys", "AGE", "--population", "100", flag, str(BAD[name]))
    refuse(found, 2, ["data.csv"])
    assert name.replace("_", "-") in found.err


GOOD_VALUES = {
    "model": "mixed",
    "profiles": "7",
    "prior": "paper",
    "estimator": "monte-carlo",
    "mc_draws": "50",
    "missing": "category",
    "ordered": "AGE",
    "unordered": "AGE",
    "chains": "3",
    "seed": "11",
    "workers": "1",
    "scheduler": "processes",
    "time_limit": "2m",
    "target_ess": "50",
    "max_sweeps": "100",
}


@pytest.mark.parametrize("name", option_names())
def test_every_option_reaches_the_run(run, data, name):
    together = {"profiles": ("--model", "mixed"), "mc_draws": ("--estimator", "monte-carlo")}.get(name, ())
    flag = f"--{name.replace('_', '-')}"
    found = run(
        "assess",
        data,
        "--keys",
        "AGE,SEX",
        "--population",
        "100",
        "--out",
        "r",
        flag,
        GOOD_VALUES[name],
        *together,
    )
    assert found.status == 0, found.err
    settings = keyhole.load("r").manifest["settings"]
    assert str(settings[name]) == {"time_limit": "120.0"}.get(name, GOOD_VALUES[name])


@pytest.mark.parametrize(
    "arguments",
    [
        ("assess",),
        ("assess", "x.csv"),
        ("assess", "x.csv", "--keys", "A"),
        ("assess", "x.csv", "--keys", "A", "--population", "9", "--fraction", "0.5"),
        ("assess", "x.csv", "--keys", "A", "--population", "many"),
        ("assess", "x.csv", "--keys", "A", "--population", "9", "--thin", "3"),
        ("fit",),
        ("zeros", "check", "rules.yaml"),
        ("zeros", "check", "rules.yaml", "x.csv"),
    ],
)
def test_wrong_usage_is_status_2(run, arguments):
    found = run(*arguments)
    assert (found.status, found.out, found.names) == (2, "", [])
    assert "Traceback" not in found.err


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(run, name):
    found = run(name, "--help")
    assert found.status == 0
    assert "Usage: keyhole" in found.out
    assert group.get_command(None, name).short_help == COMMANDS[name]


def test_help_names_every_command_and_the_version_is_shown(run):
    found = run("--help")
    assert all(name in found.out for name in COMMANDS)
    assert run("--version").out == f"keyhole, version {keyhole.__version__}\n"


def test_a_certain_answer_on_the_screen(run, data):
    found = run("assess", data, "--keys", "AGE,SEX", "--population", "100")
    assert found.status == 0
    assert found.out.startswith("No record is alone in the sample")
    for phrase in (
        "simple random sample",
        "none given",
        "AGE (4), SEX (2)",
        "data.keyhole",
        "seed 1",
        "blank key",
    ):
        assert phrase in found.out
    assert found.err == ""
    assert "data.keyhole/summary.json" in found.names


def test_json_is_the_summary_and_nothing_else(run, data):
    found = run("assess", data, "--keys", "AGE,SEX", "--population", "100", "--json")
    with open("data.keyhole/summary.json") as file:
        assert json.loads(found.out) == json.load(file)
    assert found.err == ""


def test_quiet_is_quiet(run, data):
    found = run("assess", data, "--keys", "AGE,SEX", "--population", "100", "--quiet")
    assert (found.status, found.out, found.err) == (0, "", "")


def test_an_identifier_can_be_insisted_on(run, data):
    found = run("assess", data, "--keys", "AGE,ID", "--population", "100", "--allow-identifier", "ID")
    assert found.status == 0
    assert found.out.startswith("The sample is the whole population: all 100 records")


def test_names_that_look_like_markup_are_names(run, tmp_path):
    (tmp_path / "x.csv").write_text("[red]A[/red],=B\n1,2\n2,3\n")
    found = run("assess", "x.csv", "--keys", "[red]A[/red],=B", "--fraction", "1")
    assert "[red]A[/red] (2)" in found.out


def test_ctrl_c_is_status_130(run, data, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(keyhole, "assess", interrupted)
    found = run("assess", data, "--keys", "AGE", "--population", "1000")
    found.err = found.err.lstrip("\n")  # click goes to a new line after ^C
    refuse(found, 130, ["data.csv"])


def test_no_memory_is_one_line(run, data, monkeypatch):
    def hungry(*_, **__):
        raise MemoryError

    monkeypatch.setattr(keyhole, "assess", hungry)
    refuse(run("assess", data, "--keys", "AGE", "--population", "1000"), 1, ["data.csv"])


@pytest.fixture
def graded(monkeypatch):
    """Make `assess` return its result with a verdict of this grade."""
    real = keyhole.assess

    def use(grade: str) -> None:
        def judged(*arguments, **options):
            found = real(*arguments, **options)
            verdict = Verdict(grade, "certain", "time", {"why": "2 of 4 chains do not agree.", "tau1_upper": 7.0})
            return replace(found, diagnosis=replace(found.diagnosis, verdict=verdict))

        monkeypatch.setattr(keyhole, "assess", judged)

    return use


@pytest.mark.parametrize(
    ("grade", "options", "status"),
    [
        ("converged", (), 0),
        ("converged", ("--accept", "usable"), 0),
        ("usable", (), 3),
        ("usable", ("--accept", "usable"), 0),
        ("not converged", (), 3),
        ("not converged", ("--accept", "usable"), 3),
        ("usable", ("--accept", "usable", "--fail-above", "tau1.upper=0"), 0),
        ("not converged", ("--accept", "usable", "--fail-above", "tau1.upper=0"), 3),
    ],
)
def test_the_status_says_how_far_chains_agree_and_the_folder_is_written(run, data, graded, grade, options, status):
    graded(grade)
    found = run("assess", data, "--keys", "AGE,SEX", "--population", "100", "--quiet", *options)
    assert found.status == status, found.err
    expected = {
        "converged": "",
        "usable": "keyhole: 2 of 4 chains do not agree. Allow more time with --time-limit.\n",
        "not converged": "keyhole: 2 of 4 chains do not agree. Until then use 7 as the upper limit of tau1, the "
        "largest of any chain; it may still rise. Allow more time with --time-limit.\n",
    }
    assert found.err == expected[grade]
    assert "data.keyhole/summary.json" in found.names


def test_a_limit_that_is_crossed_weighs_more_than_the_grade(run, tmp_path, graded):
    (tmp_path / "x.csv").write_text("A,B\n1,2\n2,3\n")
    for grade in ("usable", "not converged"):
        graded(grade)
        found = run("assess", "x.csv", "--keys", "A,B", "--fraction", "1", "--fail-above", "tau1=1", "--out", grade)
        assert found.status == 4
        assert f"keyhole: {grade.upper()}: see Convergence in the table." in found.err


def test_only_usable_can_be_accepted(run, data):
    found = run("assess", data, "--keys", "AGE,SEX", "--population", "100", "--accept", "anything")
    assert (found.status, found.out, found.names) == (2, "", ["data.csv"])
    assert "Traceback" not in found.err


@pytest.fixture
def rules(tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text("impossible:\n  - {AGE: [1], SEX: [f]}\n  - {AGE: [2], SEX: [f]}\n")
    return str(path)


def test_zeros_check(run, data, rules):
    found = run("zeros", "check", rules, data, "--keys", "AGE,SEX")
    assert found.status == 1
    assert found.err == ""
    assert "2 rules: 2 of 8 combinations (25 %) are impossible, so 6 are possible." in found.out
    assert "2, 6, 10" in found.out
    assert "25 of 100 records contradict a rule." in found.out
    assert "--drop-contradictions" in found.out
    assert "Says nothing new" not in found.out
    content = json.loads(run("zeros", "check", rules, data, "--keys", "AGE,SEX", "--json").out)
    assert content["impossible_cells"] == 2
    assert [len(rule["rows"]) for rule in content["rules"]] == [0, 25]


def test_zeros_check_of_rules_that_hold(run, data, tmp_path):
    rules = "impossible:\n  - {AGE: [1, 3], SEX: [f]}\n  - {AGE: [1], SEX: [f]}\n"
    (tmp_path / "rules.yaml").write_text(rules)
    found = run("zeros", "check", "rules.yaml", data, "--keys", "AGE,SEX")
    assert "covered by rule 1" in found.out
    assert "Rows that contradict" not in found.out
    assert "None of 100 records contradicts a rule." in found.out
    assert found.status == 0


def test_zeros_boxes(run, data, rules):
    found = run("zeros", "boxes", rules, data, "--keys", "AGE,SEX")
    assert "AGE is 1 or 2 and SEX is f" in found.out
    assert json.loads(run("zeros", "boxes", rules, data, "--keys", "AGE,SEX", "--json").out)["boxes"][0]["cells"] == 2
    assert "All impossible combinations, 2 of 8 (25 %), as 1 box; each is in one box only." in found.out
    possible = run("zeros", "boxes", rules, data, "--keys", "AGE,SEX", "--possible")
    assert "All possible combinations, 6 of 8 (75 %)" in possible.out


def test_zeros_suggest(run, tmp_path):
    frame = pl.DataFrame({"A": ["1", "2"] * 500, "B": ["x", "y"] * 500, "C": ["u", "u", "v", "v"] * 250})
    frame.write_csv(tmp_path / "x.csv")
    found = run("zeros", "suggest", "x.csv", "--keys", "A,B,C")
    assert "SUGGESTION 1" in found.out
    found = run("zeros", "suggest", "x.csv", "--keys", "A,B,C", "--out", "rules.yaml")
    assert "2 suggestions in rules.yaml. None has an effect yet." in found.out
    assert (tmp_path / "rules.yaml").stat().st_mode & 0o777 == 0o600
    assert run("zeros", "check", "rules.yaml", "x.csv", "--keys", "A,B,C").status == 0
    again = run("zeros", "suggest", "x.csv", "--keys", "A,B,C", "--out", "rules.yaml")
    refuse(again, 1, ["rules.yaml", "x.csv"])
    assert "rules.yaml exists" in again.err
    command = ("assess", "x.csv", "--keys", "A,B,C", "--fraction", "1", "--zeros", "rules.yaml", "--json", "--out")
    assert json.loads(run(*command, "r").out)["zeros"]["rules"] == 0
    text = (tmp_path / "rules.yaml").read_text()
    (tmp_path / "rules.yaml").write_text(text.replace("# - {", "- {", 1))
    assert json.loads(run(*command, "s").out)["zeros"]["rules"] == 1
    found = run("zeros", "suggest", "x.csv", "--keys", "A,B,C", "--population", "20,000")
    assert " of 20,000 people (" in found.out
    found = run("zeros", "suggest", "x.csv", "--keys", "A", "--out", "x.csv/r")
    refuse(found, 1, found.names)
    assert "cannot be written" in found.err


def test_contradicted_rules_are_refused_or_the_records_left_out(run, data, rules):
    wanted = ("assess", data, "--keys", "AGE,SEX", "--population", "100", "--zeros", rules, "--out", "r")
    found = run(*wanted)
    refuse(found, 1, ["data.csv", "rules.yaml"])
    assert "25 records contradict the rules: rule 2 (rules.yaml, line 3): rows 2, 6, 10" in found.err
    assert "--drop-contradictions" in found.err
    found = run(*wanted, "--drop-contradictions")
    assert found.status == 0, found.err
    assert "25 records that contradict them left out" in " ".join(found.out.split())
    with open("r/summary.json") as file:
        summary = json.load(file)
    assert summary["zeros"]["left_out"] == 25
    assert (summary["input"]["used"], summary["input"]["rows"]) == (75, 100)


def test_bad_rules_are_refused(run, data, tmp_path):
    (tmp_path / "rules.yaml").write_text("impossible:\n  - {AGES: [1]}\n")
    found = run("assess", data, "--keys", "AGE,SEX", "--population", "1000", "--zeros", "rules.yaml")
    refuse(found, 1, ["data.csv", "rules.yaml"])


def test_python_m_keyhole_is_the_command():
    done = subprocess.run([sys.executable, "-m", "keyhole", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"keyhole, version {keyhole.__version__}\n"


@pytest.mark.parametrize("option", ["--household", "--weight", "--count"])
def test_a_column_that_does_not_exist_is_named_alone(run, data, option):
    """It is the column of the option that is missing, not the keys."""
    found = run("assess", data, "--keys", "AGE,SEX", "--population", "1000", option, "Nope")
    refuse(found, 1, ["data.csv"])
    assert "has no column 'Nope': its columns are AGE, SEX, ID." in found.err
    assert "keys" not in found.err


@pytest.mark.parametrize("text", ["20,293", "20_293", "20 293", "20'293", "20\N{NO-BREAK SPACE}293", "20293"])
def test_separators_of_thousands_are_understood(run, data, tmp_path, text):
    wanted = ("assess", data, "--keys", "AGE,SEX", "--json")
    found = run(*wanted, "--population", text)
    assert json.loads(found.out)["input"]["population"] == 20293
    (tmp_path / "run.yaml").write_text(f"population: {text}\n")
    found = run(*wanted, "--config", "run.yaml", "--out", "again")
    assert json.loads(found.out)["input"]["population"] == 20293


@pytest.mark.parametrize("text", ["20.293", "2,0293", "20,293.5", "20,293_120", "2e4", ",293", "many"])
def test_what_may_mean_another_number_is_refused(run, data, text):
    found = run("assess", data, "--keys", "AGE,SEX", "--population", text)
    assert (found.status, found.names) == (2, ["data.csv"])
    assert f"'{text}' is not a whole number: write 20293, 20,293 or 20_293." in found.err


@pytest.mark.parametrize(("words", "near"), [(("asess", "x.csv"), "assess"), (("zeros", "chek"), "check")])
def test_a_mistyped_command_is_suggested(run, words, near):
    found = run(*words)
    assert (found.status, found.out) == (2, "")
    assert found.err.count(f"Did you mean '{near}'?") == 1


def test_an_unknown_command_is_not_guessed(run):
    assert "Did you mean" not in run("frobnicate").err


def test_names_in_remedies_can_be_pasted(run, tmp_path):
    (tmp_path / "x.csv").write_text("A B,SEX\n" + "".join(f"{i}.5,{'mf'[i % 2]}\n" for i in range(99)))
    found = run("assess", "x.csv", "--keys", "A B,SEX", "--population", "1000")
    refuse(found, 1, ["x.csv"])
    for part in ("--band 'A B=0,15,30' (lower", "--band 'A B=5y' (width)", "--allow-identifier 'A B'."):
        assert part in found.err


def test_no_sentence_is_printed_twice(run, tmp_path):
    """Neither within the screen nor on both outputs: the table has the message, standard error points to it."""
    (tmp_path / "x.csv").write_text("A,B\n" + "".join(f"{i % 7},{i * i % 23}\n" for i in range(60)))
    call = ("assess", "x.csv", "--keys", "A,B", "--population", "1000", "--max-sweeps", "10", "--chains", "1")
    found = run(*call)
    assert found.status == 3, found.err
    table = " ".join(found.out.split())
    assert "One chain alone cannot show that it has converged" in table
    assert found.err.splitlines()[-1] == "keyhole: NOT CONVERGED: see Convergence in the table."
    sentences = [part for part in re.split(r"(?<=[.:;])\s+", f"{table} {found.err}") if len(part) > 30]
    assert len(set(sentences)) == len(sentences)
    quiet = run(*call, "--quiet", "--out", "quiet")
    assert "One chain alone cannot show that it has converged" in quiet.err


def test_what_if_answers_from_a_folder(run, tmp_path):
    rows = "".join(f"{i % 7},{i * i % 23},{'xyz'[i % 3]}\n" for i in range(90))
    (tmp_path / "x.csv").write_text(f"A,B,C\n{rows}")
    call = ("assess", "x.csv", "--keys", "A,B,C", "--population", "1000", "--max-sweeps", "40", "--chains", "2")
    assert run(*call, "--quiet", "--out", "r").status == 3
    refused = run("what-if", "r", "--drop", "B")
    assert (refused.status, refused.out, refused.err.count("\n")) == (1, "", 1)
    assert "as --data, or make runs with --keep-data" in refused.err
    asked = ("what-if", "r", "--data", "x.csv", "--drop", "B", "--merge", "A=0,1|2,3")
    found = run(*asked)
    assert found.status == 0, found.err
    assert re.search(r"Alone in the sample\s+\d+\s+\d+", found.out)
    assert "Before" in found.out
    content = json.loads(run(*asked, "--json").out)
    assert content["after"]["sample_uniques"] < content["before"]["sample_uniques"]
    summary = json.loads((tmp_path / "r" / "summary.json").read_text())
    assert content["before"]["tau1"]["mean"] == summary["tau1"]["mean"]
    kept = run(*call, "--keep-data", "--with-keys", "--out", "kept")
    assert re.search("keyhole: kept/keys.parquet holds the keys of all records .--keep-data.: treat", kept.err)
    assert json.loads(run("what-if", "kept", "--drop", "B", "--merge", "A=0,1|2,3", "--json").out) == content
    header, first = (tmp_path / "kept" / "records.csv").read_text().splitlines()[:2]
    assert header.endswith(",rank,A,B,C")
    assert first.endswith(",0,0,x")
    (tmp_path / "x.csv").write_text(f"A,B,C\n{rows[::-1].strip()}\n".replace("\n,", "\n"))
    other = run(*asked)
    assert (other.status, other.out, other.err.count("\n")) == (1, "", 1)


def test_what_if_combines_steps_in_any_order(run, tmp_path):
    rows = "".join(f"{i % 7},{i * i % 23},{'xyz'[i % 3]}\n" for i in range(90))
    (tmp_path / "x.csv").write_text(f"A,B,C\n{rows}")
    call = ("assess", "x.csv", "--keys", "A,B,C", "--population", "1000", "--max-sweeps", "40", "--chains", "2")
    assert run(*call, "--quiet", "--keep-data", "--out", "r").status == 3
    steps = [("--band", "B=5y"), ("--top", "B=15"), ("--bottom", "A=1"), ("--blank", "C=r2>0.01"),
             ("--remove", "r2>=0.02"), ("--subsample", "50%"), ("--merge", "A=3,4")]  # fmt: skip
    one = run("what-if", "r", *(part for step in steps for part in step), "--json")
    other = run("what-if", "r", *(part for step in reversed(steps) for part in step), "--json")
    assert one.status == 0, one.err
    assert one.out == other.out
    after = json.loads(one.out)["after"]
    assert after["records"] == round((90 - after["removed"]) / 2)
    assert after["removed"] > 0
    assert after["blanked"] > 0
    judged = run("what-if", "r", "--drop", "B", "--policy", "tau1.upper=90", "--policy", "all.max=0.99")
    assert "The release meets the limit of tau1.upper=90" in " ".join(judged.out.split())
    assert len(json.loads(run("what-if", "r", "--drop", "B", "--policy", "tau1=1", "--json").out)["policies"]) == 1
    shown = run("what-if", "r", "--remove", "r2>0.1", "--blank", "C=r2>0.01")
    assert re.search(r"Values blanked\s+\d+", shown.out)
    refused = run("what-if", "r", "--band", "A=0,2,5", "--top", "D=1")
    assert (refused.status, refused.out, refused.err.count("\n")) == (1, "", 1)
    assert "a release can only be coarser" in refused.err


def test_what_if_says_what_changes_nothing(run, tmp_path, monkeypatch):
    """And shows the risk that was assessed, to the digit, if that is so of all steps."""
    monkeypatch.setattr("keyhole.sampling.trace.KEPT_DRAWS", 20)
    rows = "".join(f"{5 * (i % 7)},{i * i % 23},{'xyz'[i % 3]}\n" for i in range(90))
    (tmp_path / "x.csv").write_text(f"A,B,C\n{rows}")
    call = ("assess", "x.csv", "--keys", "A,B,C", "--population", "1000", "--max-sweeps", "600", "--chains", "2")
    run(*call, "--quiet", "--keep-data", "--out", "r")
    steps = ("--band", "A=3y", "--top", "B=18", "--remove", "r1>0.99", "--blank", "C=r2>=1", "--subsample", "1")
    found = run("what-if", "r", *steps)
    assert found.status == 0, found.err
    text = " ".join(found.out.split())
    for note in ("--band A changes nothing: no two of its categories lie in one band",
                 "--top B changes nothing: no other category is above",
                 "--remove changes nothing: it concerns no record with r1>0.99", "--blank C changes nothing",
                 "--subsample changes nothing",
                 "the release is the file as it is"):  # fmt: skip
        assert f"NOTE: {note}" in text
    content = json.loads(run("what-if", "r", *steps, "--json").out)
    assert len(content["notes"]) == 6
    assert content["before"]["tau1"] == content["after"]["tau1"]
    assert content["before"]["tau2"] == content["after"]["tau2"]
    other = run("what-if", "r", "--band", "A=10y")
    assert "NOTE" not in other.out
    assert re.search(r"Before: from all [\d,]+ draws; after: from the [\d,]+ of them", " ".join(other.out.split()))


@pytest.mark.parametrize(
    "arguments",
    [
        ("what-if", "r", "--drop", "Q"),
        ("what-if", "r", "--merge", "A=0,77"),
        ("what-if", "r", "--top", "A=high"),
        ("what-if", "r", "--blank", "Q=r1>0.1"),
        ("plan", "r", "--limit", "tau1=1", "--keep", "Q"),
        ("plan", "r", "--limit", "tau1=1", "--importance", "Q=2"),
        ("plan", "r", "--limit", "tau1=1", "--hierarchy", "tree.yaml"),
        ("plan", "r", "--limit", "tau1=1", "--hierarchy", "none.yaml"),
        ("assess", "x.csv", "--keys", "A,Q", "--population", "1000"),
    ],
)
def test_what_the_data_do_not_have_is_bad_input(run, tmp_path, arguments):
    """In every command, with the words of the command line and in one line."""
    rows = "".join(f"{i % 7},{'xyz'[i % 3]}\n" for i in range(60))
    (tmp_path / "x.csv").write_text(f"A,C\n{rows}")
    (tmp_path / "tree.yaml").write_text("C: [[x, nobody]]\n")
    run("assess", "x.csv", "--keys", "A,C", "--population", "1000", "--max-sweeps", "10", "--quiet", "--keep-data",
        "--out", "r")  # fmt: skip
    found = run(*arguments)
    assert (found.status, found.out, found.err.count("\n")) == (1, "", 1)
    assert "`" not in found.err
    assert "recode" not in found.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--top", "A"), "write KEY=CATEGORY"),
        (("--top", "A=1", "--top", "A=2"), "A has two --top"),
        (("--blank", "A"), "write 'KEY=r1>0.2'"),
        ((), "give --drop KEY or --merge KEY=A,B"),
        (("--merge", "A"), "write AGE=1,2|3,4"),
        (("--merge", "A=1,2||3"), "write AGE=1,2|3,4"),
        (("--merge", "A=1,"), "'' is the blank category"),
        (("--merge", "A=1,2", "--merge", "A=3,4"), "A has two --merge"),
    ],
)
def test_what_if_says_how_it_is_asked(run, arguments, message):
    found = run("what-if", "r", *arguments)
    assert found.status == 2
    assert message in " ".join(found.err.split())


def test_little_data_are_said_beside_the_number(run, tmp_path):
    (tmp_path / "x.csv").write_text("A,B\n" + "".join(f"{i % 7},{i * i % 23}\n" for i in range(40)))
    call = ("assess", "x.csv", "--keys", "A,B", "--population", "1000", "--max-sweeps", "40")
    found = run(*call)
    text = " ".join(found.out.split())
    assert "Caution: The file has fewer than 50 records, too few to show whether the model fits" in text
    assert "Caution: The categories of A and B were taken from fewer than 300 records." in text
    assert "list all of them in a --codebook." in text
    assert text.index("Caution") < text.index("Records")
    (tmp_path / "book.yaml").write_text(f"A: {list(range(7))}\nB: {list(range(23))}\n")
    listed = run(*call, "--codebook", "book.yaml", "--json", "--out", "listed")
    assert len(json.loads(listed.out)["cautions"]) == 1
    assert json.loads(listed.out)["input"]["observed_keys"] == []
    page = (tmp_path / "x.keyhole" / "report.html").read_text(encoding="utf-8")
    assert "<strong>Caution.</strong> The file has fewer than 50 records" in page


def test_one_record_alone_and_nobody_expected(run, tmp_path):
    """A single sample unique in a large file and a huge population, where an interval is from zero to zero."""
    (tmp_path / "x.csv").write_text("A,B\n" + "".join(f"{i % 2},{i % 3}\n" for i in range(600)) + "0,3\n")
    call = ("assess", "x.csv", "--keys", "A,B", "--population", "1000000", "--model", "classes")
    text = " ".join(run(*call).out.split())
    sentence = "Of 1 record that is alone in the sample, none is expected to be alone in the population, and the model "
    assert f"{sentence}fits the file." in text
    assert "tau1 = none expected" in text


def test_the_quick_answer_is_explained(run, tmp_path):
    """Both before the full model runs and in the table; no mean of chains that disagree."""
    (tmp_path / "x.csv").write_text("A,B\n" + "".join(f"{i % 7},{i * i % 397}\n" for i in range(300)))
    found = run(
        "assess", "x.csv", "--keys", "A,B", "--allow-identifier", "B", "--population", "9000", "--max-sweeps", "40"
    )
    assert "by the simpler model classes: tau1 " in " ".join(found.err.split())
    assert "Now the full model, hdp." in " ".join(found.err.split())
    assert "the simpler and faster model classes was run first, for " in " ".join(found.out.split())
    page = (tmp_path / "x.keyhole" / "report.html").read_text(encoding="utf-8")
    assert "The simpler and faster model classes, in which every person has one profile, was run first" in page


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("1, 2 |3,4", [["1", "2"], ["3", "4"]]),
        ("'Installation, repair',Sales|\"a|b\",''", [["Installation, repair", "Sales"], ["a|b", ""]]),
        ("'s-Gravenhage,Rock 'n' roll", [["'s-Gravenhage", "Rock 'n' roll"]]),
    ],
)
def test_names_of_categories_to_merge_may_be_quoted(text, groups):
    assert read_merges(None, None, (f"A={text}",)) == {"A": groups}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"file": "none.csv"}, "none.csv does not exist"),
        ({"--fraction": "5"}, "fraction must be above 0 and at most 1"),
        ({"--band": "AGE=5"}, "did you mean 5y"),
        ({"--chains": "0"}, "chains"),
        ({}, "r holds the results of a run"),
    ],
)
def test_what_was_asked_wrongly_is_said_before_the_folder_is_refused(run, tmp_path, changed, message):
    (tmp_path / "x.csv").write_text(GOOD)
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "manifest.json").write_text('{"program": "keyhole"}')
    asked = {"--keys": "AGE,SEX", "--fraction": "0.1", "--out": "r", **changed}
    file = asked.pop("file", "x.csv")
    found = run("assess", file, *(word for pair in asked.items() for word in pair))
    assert (found.status != 0, found.out) == (True, "")
    assert message in " ".join(found.err.split())
    assert ("holds the results" in found.err) == (not changed)


@pytest.mark.parametrize(("text", "share"), [("0.05", 0.05), ("5%", 0.05), ("2.5 %", 0.025)])
def test_a_fraction_may_be_in_percent(text, share):
    assert FRACTION_OR_PERCENT.convert(text, None, None) == share
    with pytest.raises(click.BadParameter):
        FRACTION_OR_PERCENT.convert("x%", None, None)


def test_bounds_are_called_bounds(run, tmp_path):
    """Nobody is alone in the sample: every number about all records is an upper bound, on screen and in the report."""
    (tmp_path / "x.csv").write_text("AGE,SEX\n" + "1,m\n1,m\n2,m\n2,m\n2,m\n" * 20)
    found = run("assess", "x.csv", "--keys", "AGE,SEX", "--population", "5000", "--out", "r")
    assert found.status == 0, found.err
    text = " ".join(found.out.split())
    said = "at most 2 correct matches expected if all are tried; the largest match risk of a record is at most 0.025"
    assert said in text
    assert "match risk: at most 0 records above 0.09, at most 0 records above 0.2" in text
    assert "people with the same keys: at most 0 records with fewer than 3" in text
    assert run("report", "r", "--internal").status == 0
    page = next((tmp_path / "r").glob("report-internal.html")).read_text()
    assert page.count("at most") >= 3
    everybody = run("assess", "x.csv", "--keys", "AGE,SEX", "--population", "100", "--out", "e")
    assert "2 (2 to 2) correct matches expected" in " ".join(everybody.out.split()), "which is exact"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--keys", "AGES,SEX"),
        ("--keys", "AGE;SEX"),
        ("--keys", "AGE", "--ordered", "SEXE"),
        ("--keys", "AGE", "--unordered", "SEXE"),
        ("--keys", "AGE", "--band", "SEXE=5y"),
        ("--keys", "AGE", "--allow-identifier", "SEXE"),
        ("--keys", "AGE", "--weight", "WGT"),
        ("--keys", "AGE", "--strata", "SEXE", "--weight", "ID"),
        ("--keys", "AGE", "--count", "COUNTS"),
        ("--keys", "AGE,SEX", "--codebook", "book.json"),
        ("--keys", "AGE,SEX", "--codebook", "slip.json"),
        ("--keys", "AGE,SEX", "--zeros", "rules.yaml"),
    ],
)
@pytest.mark.parametrize("command", ["assess", "compare"])
def test_a_misspelt_name_of_the_data_is_bad_input(run, data, tmp_path, command, arguments):
    """Status 1, not that of wrong usage: the command is right, and the file does not hold what it names."""
    (tmp_path / "book.json").write_text('{"AGE": [1, 2], "SEX": ["m", "f"]}')
    (tmp_path / "slip.json").write_text('{"AGE": [1, 2, 3, 4], "SE X": ["m", "f"]}')
    (tmp_path / "rules.yaml").write_text("impossible:\n  - {SEX: [male]}\n")
    found = run(command, data, *arguments, "--population", "1000")
    assert found.status == 1, found.err
    assert found.err.count("\n") == 1
