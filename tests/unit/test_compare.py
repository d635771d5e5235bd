"""`keyhole compare`: one line for each estimator, a failure is a line too, JSON and CSV hold the same figures."""

import csv
import json

import polars as pl
import pytest

from keyhole.cli import main
from keyhole.errors import SettingsError
from keyhole.evaluation.comparison import ESTIMATORS, choose_estimators, prepare, run_estimator
from tests.unit.formats import write

CLASSICAL_ONLY = "loglinear-main,loglinear-two-way,individual-risk,pitman,zayatz,dankar,k-anonymity"
DATA = "A,B,C\n" + "".join(f"{i % 7},{i * i % 5},{i % 13 * i % 11}\n" for i in range(120))


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    (tmp_path / "data.csv").write_text(DATA)

    def call(*arguments):
        with pytest.raises(SystemExit) as stopped:
            main(["compare", "data.csv", "--keys", "A,B,C", *arguments])
        captured = capsys.readouterr()
        return stopped.value.code, captured.out, captured.err

    return call


def test_table_json_and_csv_agree(run, tmp_path):
    arguments = ("--population", "3000", "--estimators", CLASSICAL_ONLY)
    status, out, _ = run(*arguments, "--csv", "table.csv")
    assert status == 0
    for name in CLASSICAL_ONLY.split(","):
        assert name in out
    status, out, err = run(*arguments, "--json")
    assert (status, err) == (0, "")
    found = {entry["name"]: entry for entry in json.loads(out)["estimators"]}
    rows = {row["estimator"]: row for row in csv.DictReader((tmp_path / "table.csv").read_text().splitlines())}
    assert list(found) == list(rows)
    assert float(rows["pitman"]["tau1_mean"]) == found["pitman"]["tau1"]["mean"]
    assert rows["k-anonymity"]["tau1_mean"] == ""
    assert found["k-anonymity"]["tau1"] == {"mean": None, "interval": None}
    assert (tmp_path / "table.csv").stat().st_mode & 0o777 == 0o600
    assert all(entry["reference"] and entry["assumes"] for entry in found.values())


def test_ours_stands_beside_with_interval(run):
    status, out, _ = run(
        "--population",
        "3000",
        "--estimators",
        "mixed-5,loglinear-main",
        "--max-sweeps",
        "40",
        "--chains",
        "2",
        "--json",
    )
    assert status == 0
    ours, theirs = json.loads(out)["estimators"]
    assert ours["tau1"]["interval"][0] <= ours["tau1"]["mean"] <= ours["tau1"]["interval"][1]
    assert ours["converged"] is False
    assert theirs["tau1"]["interval"] is None
    assert theirs["converged"] is None


def test_a_failing_estimator_is_a_line(run):
    """No cell holds two records, so the slide model has nothing to go by."""
    rows = "".join(f"{i},{i % 3},{i % 2}\n" * (3 if i < 5 else 1) for i in range(30))
    with open("data.csv", "w") as file:
        file.write("A,B,C\n" + rows)
    status, out, _ = run("--population", "3000", "--estimators", "slide-negative-binomial,zayatz")
    assert status == 0
    assert "FAILED: the slide model needs cells with two records" in " ".join(out.split())
    assert "zayatz" in out


def test_rules_are_followed_or_said_to_be_ignored(tmp_path, run):
    (tmp_path / "rules.yaml").write_text("impossible:\n  - {A: [0], C: [2]}\n")
    given = prepare("data.csv", "A,B,C", population=3000, zeros="rules.yaml")
    plain = prepare("data.csv", "A,B,C", population=3000)
    assert "rules" in run_estimator("pitman", given, {}).details
    with_rules, without = (run_estimator("loglinear-main", each, {}).tau1.mean for each in (given, plain))
    assert with_rules != without


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("--population", "10"), 1),
        (("--population", "3000", "--fraction", "0.1"), 2),
        (("--population", "3000", "--estimators", "guess"), 2),
        (("--population", "3000", "--zeros", "none.yaml"), 1),
        (("--population", "3000", "--time-limit", "soon"), 2),
    ],
)
def test_bad_input_is_one_line(run, arguments, status):
    found, out, err = run(*arguments)
    assert (found, out) == (status, "")
    assert "Traceback" not in err
    if status == 1:
        assert err.startswith("keyhole: ")
        assert err.count("\n") == 1


def test_estimators_keep_their_order():
    assert choose_estimators("pitman, hdp-paper") == ("hdp-paper", "pitman")
    assert choose_estimators(None) == ESTIMATORS
    with pytest.raises(SettingsError):
        choose_estimators("")


def figures(told):
    """What must be equal: all but times."""
    return [
        {name: value for name, value in entry.items() if name != "seconds"} for entry in json.loads(told)["estimators"]
    ]


def test_sources_are_read_as_assess_reads_them(run, tmp_path, capsys):
    """Bands, a table of cells in a database, and records with blanks left out: as the same records written out."""
    counted = pl.read_csv(DATA.encode()).group_by("A", "B", "C", maintain_order=True).len("N")
    blank = counted.head(2).with_columns(B=pl.lit(None, pl.Int64))
    source = write(pl.concat([counted, blank]), tmp_path, "db")
    wanted = ("--population", "3000", "--estimators", "loglinear-main,pitman,k-anonymity", "--json")
    bands = ("--band", "C=0,3,6")
    _, plain, _ = run(*wanted, *bands)
    with pytest.raises(SystemExit):
        main(["compare", "--url", source, "--query", "SELECT * FROM people", "--keys", "A,B,C", "--count", "N", *wanted,
              *bands, "--missing", "drop"])  # fmt: skip
    assert figures(capsys.readouterr().out) == figures(plain)
    assert run(*wanted, "--url", source)[0] == 2


def test_only_our_models_take_missing_answers(run, tmp_path):
    (tmp_path / "data.csv").write_text(DATA + "1,,3\n,2,2\n")
    arguments = ("--population", "3000", "--estimators", "mixed-5,pitman", "--max-sweeps", "40", "--chains", "2")
    status, out, _ = run(*arguments, "--missing", "model", "--json")
    ours, pitman = json.loads(out)["estimators"]
    assert (status, ours["error"]) == (0, None)
    assert ours["tau1"]["mean"] > 0
    assert pitman["error"] == "it needs every answer: make missing ones a category, or drop their records."
