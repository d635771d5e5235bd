"""`keyhole compare`: one line for each estimator, a failure is a line too, JSON and CSV hold the same figures."""

import csv
import json

import pytest

from keyhole.cli import main
from keyhole.comparison import ESTIMATORS, choose_estimators, prepare, run_estimator
from keyhole.errors import SettingsError

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
