"""`keyhole validate`: truth by brute force, the same samples whatever the workers, resume, bad input."""

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from keyhole.cli import main
from keyhole.commands.validate import print_scores
from keyhole.data import SourceOptions
from keyhole.errors import SettingsError
from keyhole.evaluation import validate
from keyhole.evaluation.plot import draw_plot
from keyhole.evaluation.population import count_people, open_population, take_rows
from keyhole.evaluation.scoring import calibrate, score
from tests.unit.formats import write

KEYS = ["A", "B", "C", "D"]
QUICK = ["loglinear-main", "individual-risk", "zayatz"]


@pytest.fixture
def people(rng):
    return pl.DataFrame(
        {name: rng.choice(8, 3000, p=np.arange(8, 0, -1) / 36.0) for name in KEYS}
        | {"E": [str(i) for i in range(3000)]}
    )


@pytest.fixture(params=["csv", "parquet"])
def file(request, tmp_path, people):
    path = tmp_path / f"people.{request.param}"
    people.write_csv(path) if request.param == "csv" else people.write_parquet(path)
    return path


def brute_counts(people):
    rows = list(people.select(KEYS).iter_rows())
    return [sum(row == other for other in rows) for row in rows[:40]]


def test_cells_are_counted_as_by_hand(file, people, monkeypatch):
    monkeypatch.setattr("keyhole.evaluation.population.BATCH", 700)
    population = open_population(file, KEYS, None)
    assert population.people == 3000
    rows = np.array([0, 3, 699, 700, 1500, 2999])
    frame = take_rows(population, rows)
    assert (frame.to_numpy() == people[rows].select(KEYS).to_numpy()).all()
    first = take_rows(population, np.arange(40))
    assert count_people(population, first).tolist() == brute_counts(people)


def test_one_category_written_in_two_ways_is_one_cell(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("A,B\n" + "1,x\n 1,x\n1.0,x\n,y\n ,y\n2,y\n" * 20)
    population = open_population(path, "A,B", None)
    assert [len(variable.categories) for variable in population.variables] == [3, 2]
    assert count_people(population, take_rows(population, np.arange(6))).tolist() == [60, 60, 60, 40, 40, 20]


def test_truth_and_figures(file, people, tmp_path):
    out = tmp_path / "out"
    result = validate(file, KEYS, 200, 3, out, estimators=QUICK)
    assert (result["population"], result["sample_size"], result["replicates"]) == (3000, 200, 3)
    stored = json.loads((out / "replicate-00002.json").read_text())
    assert stored["truth"]["tau1"] == sum(count == 1 for count in stored["people"])
    assert result["truth"]["tau2"][1] == pytest.approx(sum(1 / count for count in stored["people"]))
    entry = result["estimators"][0]
    error = np.array(entry["estimates"]["tau1"]) - np.array(result["truth"]["tau1"])
    assert entry["tau1"]["bias"] == pytest.approx(error.mean())
    assert entry["tau1"]["rmse"] == pytest.approx(np.sqrt((error**2).mean()))
    assert entry["tau1"]["coverage"] is None
    assert len(entry["calibration"]["r1"]) == 10
    assert json.loads((out / "validation.json").read_text())["estimators"][0]["name"] == "loglinear-main"
    ElementTree.fromstring((out / "validation.svg").read_text())
    for path in out.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
    assert out.stat().st_mode & 0o777 == 0o700


def without_times(result):
    for entry in result["estimators"]:
        entry.pop("seconds")
    return result


def test_workers_change_nothing_and_finished_replicates_are_kept(file, tmp_path):
    alone = without_times(validate(file, KEYS, 150, 4, tmp_path / "one", estimators=QUICK, workers=1))
    several = validate(file, KEYS, 150, 2, tmp_path / "two", estimators=QUICK, workers=4)
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "two").glob("replicate*")}
    several = without_times(validate(file, KEYS, 150, 4, tmp_path / "two", estimators=QUICK, workers=4))
    assert several == alone
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "two").glob("replicate*")}
    assert len(after) == 4
    assert all(after[name] == time for name, time in before.items())
    more = validate(file, KEYS, 150, 4, tmp_path / "two", estimators=[*QUICK, "pitman"])
    assert more["truth"] == alone["truth"]
    assert [entry["name"] for entry in more["estimators"]] == ["loglinear-main", "individual-risk", "pitman", "zayatz"]


def test_ours_is_the_same_whatever_the_workers(file, tmp_path):
    found = [
        validate(
            file, KEYS, 60, 2, tmp_path / str(workers), estimators=["mixed-5"], workers=workers, max_sweeps=40, chains=2
        )
        for workers in (1, 2)
    ]
    first, second = (without_times(result) for result in found)
    assert first == second
    assert first["estimators"][0]["tau1"]["coverage"] is not None
    assert first["estimators"][0]["not_converged"] == 2


def test_figures_by_hand():
    def said(tau1, interval, r1):
        return {
            "tau1": tau1, "tau1_interval": interval, "tau2": None, "tau2_interval": None, "seconds": 1.0,
            "converged": True, "error": None, "r1": r1, "r2": None,
        }  # fmt: skip

    replicates = [
        {"sample_uniques": 2, "truth": {"tau1": 1, "tau2": 1.5}, "people": [1, 2],
         "estimators": {"hdp-paper": said(2.0, [0, 3], [0.9, 0.1])}},
        {"sample_uniques": 2, "truth": {"tau1": 0, "tau2": 0.5}, "people": [4, 4],
         "estimators": {"hdp-paper": said(3.0, [1, 5], [0.8, 0.2])}},
    ]  # fmt: skip
    result = score(replicates, 100, 10, ["hdp-paper"])
    entry = result["estimators"][0]
    assert entry["tau1"] == {"bias": 2.0, "bias_se": 1.0, "rmse": pytest.approx(5**0.5), "coverage": 0.5, "width": 3.5}
    assert entry["tau2"]["rmse"] is None
    groups = calibrate([(found, found["estimators"]["hdp-paper"]) for found in replicates], "r1")
    assert [(group["predicted"], group["observed"]) for group in groups] == [(0.1, 0), (0.2, 0), (0.8, 0), (0.9, 1)]
    assert "hdp-paper" in draw_plot(result)


@pytest.fixture
def run(tmp_path, people, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    people.write_csv("people.csv")

    def call(*arguments):
        with pytest.raises(SystemExit) as stopped:
            main(["validate", "people.csv", *arguments])
        captured = capsys.readouterr()
        return stopped.value.code, captured.out, captured.err

    return call


GOOD = {"--keys": "A,B", "--sample-size": "100", "--replicates": "2", "--estimators": "zayatz,loglinear-main"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"--sample-size": "3001"}, "cannot be drawn"),
        ({"--sample-size": "1"}, "at least 2"),
        ({"--replicates": "0"}, "at least 1"),
        ({"--keys": "A,Z"}, "no column 'Z'"),
        ({"--keys": "A,E"}, "identifier"),
        ({"--codebook": "book.yaml"}, "not in the codebook"),
        ({"--zeros": "rules.yaml"}, "contradict"),
        ({"--zeros": "absent.yaml"}, "absent.yaml"),
        ({"--out": "full"}, "other files"),
    ],
)
def test_bad_input_is_one_line(run, tmp_path, change, words):
    (tmp_path / "book.yaml").write_text("A: [0, 1, 2, 3, 4, 5, 6]\n")
    (tmp_path / "rules.yaml").write_text("impossible:\n  - {A: [0], B: [0]}\n")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "diary.txt").write_text("mine")
    status, out, err = run(*(part for pair in (GOOD | change).items() for part in pair))
    assert (status, out) == (1, "")
    assert err.startswith("keyhole: ")
    assert err.count("\n") == 1
    assert words in err


def test_screen_and_json(run):
    arguments = [part for pair in GOOD.items() for part in pair]
    status, out, err = run(*arguments)
    assert status == 0
    assert "loglinear-main" in out
    assert "2 of 2 replicates" in err
    status, out, err = run(*arguments, "--json")
    assert (status, err) == (0, "")
    assert json.loads(out)["replicates"] == 2
    status, out, err = run(*arguments[:-2], "--estimators", "zayatz", "--seed", "9")
    assert status == 1
    assert "other data or options" in err


def test_sources_are_read_as_assess_reads_them(people, tmp_path):
    """Bands, counts, a query and blanks left out: the people of a file that holds all that already."""
    banded = people.select("A", pl.when(pl.col("B") < 3).then(pl.lit("0-2")).otherwise(pl.lit("3+")).alias("B"))
    banded.write_csv(tmp_path / "plain.csv")
    cells = people.group_by("A", "B", maintain_order=True).len("N")
    blank = cells.head(3).with_columns(A=pl.lit(None, pl.Int64))
    source = write(pl.concat([cells, blank]), tmp_path, "db")
    reading = SourceOptions(query="SELECT * FROM people", count="N", bands={"B": "0,3"})
    plain = open_population(tmp_path / "plain.csv", "A,B", None)
    found = open_population(source, "A,B", None, reading, drop=True)
    assert found.people == plain.people
    # Bands are ordered by definition, their names only if there are three.
    assert found.codebook == plain.codebook | {"B": {"categories": plain.codebook["B"], "ordered": True}}
    tables = [each.frame.select(pl.col("A").cast(pl.Int64), "B").collect().sort("A", "B") for each in (found, plain)]
    assert tables[0].equals(tables[1])
    kept = open_population(source, "A,B", None, reading)
    assert kept.people == plain.people + int(blank["N"].sum())


def test_validate_by_the_command_line(file, tmp_path, capsys):
    wanted = [
        "--keys",
        "A,B",
        "--sample-size",
        "100",
        "--replicates",
        "1",
        "--estimators",
        "zayatz",
        "--json",
        "--quiet",
    ]
    with pytest.raises(SystemExit) as stopped:
        main(["validate", str(file), *wanted, "--band", "B=0,3", "--missing", "drop", "--out", str(tmp_path / "o")])
    assert stopped.value.code == 0
    assert json.loads(capsys.readouterr().out)["population"] == 3000
    with pytest.raises(SettingsError, match="'category' or 'drop'"):
        validate(file, KEYS, 100, 1, tmp_path / "p", missing="model")


def entry(name, estimates, intervals=None, **rest):
    intervals = intervals or [None] * len(estimates)
    both = {
        field: dict.fromkeys(("tau1", "tau2"), value)
        for field, value in {"estimates": estimates, "intervals": intervals}.items()
    }
    scores = {"bias": 1.0, "rmse": 1.0, "width": 2.0 if intervals[0] else None}
    scores["coverage"] = 0.5 if intervals[0] else None
    counts = {"not_converged": 0, "failed": 0, "errors": []}
    return {"name": name, "seconds": 1.0, "tau1": scores, "tau2": scores, **both, **counts, **rest}


def validated(entries, replicates):
    truth = [10.0] * replicates
    return {
        "population": 1000, "sample_size": 100, "replicates": replicates, "sample_uniques": [40] * replicates,
        "truth": {"tau1": truth, "tau2": truth}, "estimators": entries,
    }  # fmt: skip


def test_what_lies_above_the_frame_is_marked_and_counted():
    """The frame ends at about three times the truth: one estimate and one interval are above it."""
    inside = validated([entry("pitman", [12.0, 14.0])], 2)
    assert "above the frame" not in draw_plot(inside)
    outside = validated([entry("pitman", [12.0, 14.0]), entry("zayatz", [90.0, 12.0], [[80, 99], [9, 60]])], 2)
    svg = ElementTree.fromstring(draw_plot(outside))
    texts = [text.text for text in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert {f"{tau}: 1 above the frame, up to 90" for tau in ("tau1", "tau2")} <= set(texts)
    triangles = [path.get("fill") for path in svg.iter("{http://www.w3.org/2000/svg}path")]
    assert sum(fill == "white" for fill in triangles) == 2 + 1
    assert len(triangles) == 4 + 2
    circles = list(svg.iter("{http://www.w3.org/2000/svg}circle"))
    assert len(circles) == 2 * 3 + 2


@pytest.mark.parametrize(("replicates", "few"), [(19, True), (20, False)])
def test_few_samples_say_little_about_coverage(replicates, few, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    entries = [
        entry("hdp-adaptive", [10.0] * replicates, [[9.0, 11.0]] * replicates, not_converged=3),
        entry("slide-negative-binomial", [10.0] * replicates),
    ]
    print_scores(validated(entries, replicates), Path("a folder"))
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "hdp-adaptive * " in out
    assert "* hdp-adaptive: 3 not converged" in out
    words = " ".join(out.split())
    assert ("19 samples are too few to speak of coverage" in words) == few
    assert ("50 %" in out) != few
    if few:
        assert "Use --replicates 20 or more." in words
        assert "10 of 19" in out
    else:
        assert "In 20 samples coverage has a standard error of 4.9 percentage points." in words


def test_no_interval_no_word_about_coverage(capsys):
    print_scores(validated([entry("pitman", [10.0, 12.0])], 2), Path("out"))
    assert "speak of coverage" not in capsys.readouterr().out


def test_the_time_that_is_left_is_said(run):
    _, _, err = run(*(part for pair in GOOD.items() for part in pair))
    assert re.search(r"^1 of 2 replicates, about \d+ s left$", err, re.M)
    assert err.endswith("2 of 2 replicates\n")
