"""`keyhole compare`: one line for each estimator, a failure is a line too, JSON and CSV hold the same figures."""

import csv
import json
import re

import polars as pl
import pytest

import keyhole
from keyhole.classical.catalogue import Guess
from keyhole.cli import main
from keyhole.errors import NotConvergedWarning, SettingsError
from keyhole.evaluation.comparison import (
    ESTIMATORS,
    Outcome,
    choose_estimators,
    prepare,
    run_estimator,
    run_estimators,
)
from keyhole.sampling import Progress
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
    assert "not estimable: the slide model needs cells with two records" in " ".join(out.split())
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


def test_a_table_that_exists_is_replaced_only_if_that_is_asked_for(run, tmp_path):
    (tmp_path / "table.csv").write_text("years of work")
    arguments = ("--population", "3000", "--estimators", "pitman", "--csv", "table.csv")
    status, out, err = run(*arguments)
    assert (status, out) == (1, "")
    assert err == "keyhole: table.csv exists: choose another with --csv, or replace it with --overwrite.\n"
    assert (tmp_path / "table.csv").read_text() == "years of work"
    assert run(*arguments, "--overwrite")[0] == 0
    assert (tmp_path / "table.csv").read_text().startswith("estimator,")


def test_bad_input_is_one_line_before_anything_else(run):
    status, out, err = run("--population", "30")
    assert (status, out, err.count("\n")) == (1, "", 1)


def test_sources_are_read_as_assess_reads_them(run, tmp_path, capsys):
    """Bands, a table of cells in a database, and records with blanks left out: as the same records written out."""
    counted = pl.read_csv(DATA.encode()).group_by("A", "B", "C", maintain_order=True).len("N")
    blank = counted.head(2).with_columns(B=pl.lit(None, pl.Int64))
    source = write(pl.concat([counted, blank]), tmp_path, "db")
    wanted = ("--population", "3000", "--estimators", "loglinear-main,pitman,k-anonymity", "--json")
    bands = ("--band", "C=0,3,6")
    _, plain, _ = run(*wanted, *bands)
    # The population counts the people behind the records with a blank too.
    people = round(3000 * (1 + blank["N"].sum() / counted["N"].sum()))
    with pytest.raises(SystemExit):
        main(["compare", "--url", source, "--query", "SELECT * FROM people", "--keys", "A,B,C", "--count", "N",
              "--population", str(people), *wanted[2:], *bands, "--missing", "drop"])  # fmt: skip
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


def print_at_80(run, monkeypatch, outcomes):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("keyhole.evaluation.comparison.run_estimators", lambda *_, **__: outcomes)
    status, out, _ = run("--population", "3000")
    assert status == 0
    assert max(map(len, out.splitlines())) <= 80
    return out


TAU1, TAU2 = Guess(12.0, (9.0, 15.0)), Guess(30.0, (25.0, 35.0))


def outcome(name, tau1=TAU1, tau2=TAU2, **rest):
    return Outcome(name, tau1, tau2, 25.0, **rest)


@pytest.mark.parametrize("scale", [1.0, 1e5])
def test_one_line_for_each_estimator_at_80_columns(run, monkeypatch, scale):
    """Also where numbers are too long for tau1 and tau2 side by side."""
    guess = Guess(12.0 * scale, (9.0 * scale, 15.0 * scale))
    outcomes = [outcome(name, guess, guess, details={"rules": "ignored"}) for name in ESTIMATORS]
    out = print_at_80(run, monkeypatch, outcomes)
    for name in ESTIMATORS:
        lines = [line for line in out.splitlines() if line.strip().startswith(f"{name} ")]
        assert len(lines) == (1 if scale == 1.0 else 2)
        assert all(f"({9 * scale:,.0f} to {15 * scale:,.0f})" in line for line in lines), lines


def test_what_is_no_estimate_is_marked(run, monkeypatch):
    out = print_at_80(
        run,
        monkeypatch,
        [
            outcome("hdp-adaptive", details={"grade": "converged"}),
            outcome("hdp-paper", converged=False, details={"grade": "not converged"}),
            outcome("mixed-5", converged=False, details={"grade": "usable"}),
            outcome("loglinear-main", Guess(44.0), Guess(50.0), details={"b1": 9.0, "b2": 1.0}),
            outcome("loglinear-two-way", Guess(10.0), Guess(20.0), details={"b1": -9.0, "b2": 1.0}),
            outcome("pitman", Guess(5.0), Guess(6.0), details={"rules": "ignored"}),
            outcome("zayatz", Guess(5.0), Guess(6.0), details={"rules": "ignored"}),
            outcome("slide-negative-binomial", Guess(), Guess(), error="its equations have no solution."),
        ],
    )
    for line in (
        r"hdp-adaptive +12 \(9 to 15\) ",
        r"hdp-paper \* +9 to 15 +25 to 35 ",
        r"mixed-5 \+ +12 \(9 to 15\) ",
        "loglinear-main a +44 ",
        "loglinear-two-way +10 ",
        "pitman b +5 ",
        "zayatz b +5 ",
        "slide-negative-binomial c +- +- ",
    ):
        assert re.search(rf"^ {line}", out, re.M), line
    notes = " ".join(out.split())
    for note in (
        "* NOT CONVERGED within --time-limit: the range over chains, no estimate. Give a longer --time-limit. That "
        "another line converged does not make its model better: `keyhole assess` checks whether a model fits",
        "+ usable but not fully converged",
        "a too simple for this file, so risk is overestimated (B1 = 9.0, B2 = 1.0; above 2)",
        "b not for this design: ignores the rules (--zeros)",
        "c not estimable: its equations have no solution.",
    ):
        assert notes.count(note) == 1, note


def test_methods_that_need_every_answer_are_not_for_this_design(run, tmp_path, monkeypatch):
    (tmp_path / "data.csv").write_text(DATA + "1,,3\n,2,2\n")
    status, out, _ = run("--population", "3000", "--estimators", "pitman", "--missing", "model")
    assert status == 0
    assert "not for this design: it needs every answer" in " ".join(out.split())


def test_time_and_progress_are_shown(run):
    arguments = ("--population", "3000", "--estimators", "mixed-5,pitman", "--max-sweeps", "40", "--chains", "2")
    _, _, err = run(*arguments, "--time-limit", "20s")
    lines = err.splitlines()
    assert lines[0].startswith("Up to 20 s of sampling (--time-limit 20 s for each of 1 model of keyhole")
    assert "seconds for 1 classical method (60 s each at most)" in lines[0]
    assert [line for line in lines if " of 2: " in line] == ["1 of 2: mixed-5", "2 of 2: pitman"]
    assert run(*arguments, "--quiet") == (0, "", "")


def test_events_of_our_models_are_passed_on(tmp_path):
    (tmp_path / "data.csv").write_text(DATA)
    given = prepare(tmp_path / "data.csv", "A,B,C", population=3000)
    events = []
    run_estimators(given, ["mixed-5", "pitman"], None, events.append, max_sweeps=40, chains=2)
    assert any(isinstance(event, Progress) for event in events)


def test_strata_are_for_our_models_and_the_others_say_so(tmp_path, run):
    rows = DATA.splitlines()
    (tmp_path / "data.csv").write_text(
        "\n".join([f"{rows[0]},R,W", *(f"{row},{i % 2},{3 if i % 2 else 47}" for i, row in enumerate(rows[1:]))])
    )
    (tmp_path / "sizes.csv").write_text("R,N\n0,2820\n1,180\n")
    design = ("--strata", "R", "--strata-sizes", "sizes.csv")
    names = ("--estimators", "classes,loglinear-main,individual-risk,k-anonymity", "--max-sweeps", "60")
    status, out, _ = run(*design, *names)
    assert status == 0
    text = " ".join(out.split())
    assert "of 120 records, drawn within strata of R, are alone" in text
    assert "ignores the strata and takes the records for a simple random sample" in text
    assert "uses the strata as weights only" in text
    _, out, _ = run(*design, *names, "--json")
    found = json.loads(out)
    by_name = {entry["name"]: entry for entry in found["estimators"]}
    assert (found["input"]["strata"], found["input"]["population"]) == (["R"], 3000)
    said = [by_name[name]["details"].get("strata") for name in ("loglinear-main", "individual-risk", "k-anonymity")]
    assert said == ["ignored", "used as weights", None]
    _, out, _ = run("--strata", "R", "--weight", "W", *names, "--json")
    assert json.loads(out)["estimators"][:2] == [
        {**entry, "seconds": json.loads(out)["estimators"][x]["seconds"]}
        for x, entry in enumerate(found["estimators"][:2])
    ]
    options = {"model": "classes", "max_sweeps": 60, "time_limit": 25.0}
    with pytest.warns(NotConvergedWarning):
        ours = keyhole.assess(
            tmp_path / "data.csv", "A,B,C", strata="R", strata_sizes=tmp_path / "sizes.csv", **options
        )
    assert by_name["classes"]["tau1"]["mean"] == ours.tau1.mean


def test_unequal_weights_alone_are_warned_of(tmp_path, run):
    rows = DATA.splitlines()
    (tmp_path / "data.csv").write_text(
        "\n".join([f"{rows[0]},W", *(f"{row},{3 if i % 2 else 47}" for i, row in enumerate(rows[1:]))])
    )
    names = ("--estimators", "loglinear-main,individual-risk")
    status, out, err = run("--weight", "W", *names)
    assert status == 0
    assert "the population has 3,000 people" in " ".join(out.split())
    assert "Weights are unequal" in err
    assert "--weight-classes" in err
    assert json.loads(run("--weight", "W", *names, "--json")[1])["input"]["warning"].startswith("Weights are unequal")
    assert "Weights are" not in run("--weight", "W", "--weight-classes", "2", *names)[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--strata", "A"), "--strata-sizes"),
        (("--strata", "A", "--weight", "B"), "zero or negative"),
        (("--weight", "NONE"), "no column 'NONE'"),
    ],
)
def test_a_wrong_design_is_one_line(run, arguments, message):
    status, out, err = run(*arguments)
    assert (status in (1, 2), out) == (True, "")
    assert message in err
    assert len(err.splitlines()) == 1
