"""Strata from a file to the result folder: what is read, what is refused, and what stays as it is without them."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import keyhole
from keyhole.cli import main
from keyhole.data import read_microdata
from keyhole.data.strata import class_weights, make_strata
from keyhole.errors import InputError, KeyholeError, NotConvergedWarning, SettingsError
from keyhole.evaluation import validate
from keyhole.evaluation.allocation import share

pytestmark = pytest.mark.filterwarnings("ignore::keyhole.NotConvergedWarning")
QUICK = {"model": "classes", "max_sweeps": 60, "chains": 2}
SIZES = pl.DataFrame({"R": ["north", "south"], "N": [600, 120]})


def make_frame(rows=80):
    rng = np.random.default_rng(8)
    columns = {"A": rng.integers(1, 6, rows), "B": rng.choice(["x", "y", "z"], rows), "C": rng.integers(1, 13, rows)}
    region = np.where(np.arange(rows) % 2, "north", "south")
    return pl.DataFrame(
        {**columns, "R": region, "W": np.where(np.arange(rows) % 2, 15.0, 3.0), "H": np.arange(rows) // 2}
    )


def assess(frame=None, keys="A,B,C", **options):
    return keyhole.assess(make_frame() if frame is None else frame, keys, **{**QUICK, **options})


def test_one_stratum_is_a_simple_random_sample():
    """To the bit, also with a column that is constant and with a key that is."""
    frame = make_frame().with_columns(ONE=pl.lit(1))
    plain = assess(frame, population=720)
    one = assess(frame, strata="ONE", strata_sizes=pl.DataFrame({"ONE": [1], "N": [720]}))
    assert one.tau1 == plain.tau1
    assert one.records.equals(plain.records)
    assert (one.summary.design.kind, one.summary.design.strata) == ("strata", 1)
    assert plain.summary.design.kind == "srs"
    key = assess(frame, "A,B,C,ONE", strata="ONE", strata_sizes=pl.DataFrame({"ONE": [1], "N": [720]}))
    assert key.tau2 == plain.tau2


def test_the_design_is_in_the_summary_and_in_words():
    found = assess(strata=["R"], strata_sizes=SIZES)
    design = found.summary.design
    assert (design.kind, design.strata, design.sizes, design.columns) == ("strata", 2, "file", ["R"])
    assert design.fractions == (40 / 600, 40 / 120)
    assert "at random within the strata of R" in design.assumes
    assert found.summary.input.population == 720
    assert all("strata ignored" in x.assumes for x in found.summary.comparators if x.name != "individual-risk")
    by_weight = assess(strata="R", weight="W").summary
    assert by_weight.design.sizes == "weights"
    assert by_weight.design.cv_within == 0.0
    assert by_weight.weights.warning is None
    assert by_weight.tau1 == found.tau1
    classes = assess(weight="W", weight_classes=5).summary
    assert (classes.design.kind, classes.design.strata) == ("weight-classes", 2)
    alone = assess(weight="W").summary
    assert alone.design.kind == "srs"
    assert "`strata`" in alone.weights.warning


def test_strata_of_keys_and_of_another_column_agree():
    """A key that is a copy of the stratum, or the stratum itself: the same probabilities of cells."""
    sizes = pl.DataFrame({"B": ["x", "y", "z"], "N": [400, 300, 100]})
    as_key = assess(strata="B", strata_sizes=sizes)
    assert 0.0 < as_key.tau1.mean < as_key.summary.input.sample_uniques
    both = assess(
        strata=["R", "B"], strata_sizes=make_frame().group_by("R", "B").len("N").with_columns(pl.col("N") * 9)
    )
    assert both.summary.design.strata == 6
    assert both.what_if(drop=["B"]).tau1.mean < both.tau1.mean


CASES = {
    "plain": {},
    "rules": {"zeros": ["A == 1 and B == x", {"C": [4], "B": ["y"]}], "drop_contradictions": True},
    "to the model": {"missing": "model", "zeros": ["A == 1 and B == x"], "drop_contradictions": True},
    "a key": {"strata": ["R", "B"], "strata_sizes": None, "weight": "W"},
    "classes of weights": {"strata": (), "strata_sizes": None, "weight": "W", "weight_classes": 3},
    "hdp": {"model": "hdp"},
    "mixed": {"model": "mixed", "profiles": 3},
}


@pytest.mark.parametrize("case", CASES)
def test_a_folder_answers_as_the_run_did(case, tmp_path):
    """What-if from the file and from the keys that were kept; households and attribution are there too."""
    frame = make_frame()
    if case == "to the model":
        # One record keeps no answer in the coarser release, and counts as one more unseen person of its stratum.
        for name, rows in (("A", [7, 12]), ("C", [7])):
            blank = pl.int_range(80).is_in(rows)
            frame = frame.with_columns(pl.when(blank).then(None).otherwise(name).alias(name))
    frame.write_csv(tmp_path / "s.csv")
    options = {"strata": "R", "strata_sizes": SIZES, "household": "H", **CASES[case]}
    run = assess(tmp_path / "s.csv", keep_data=True, **options)
    expected = run.what_if(drop=["B"], recode={"C": [[1, 2], [3, 4]]})
    assert 0.0 < expected.tau1.mean <= run.tau1.mean * 1.001
    assert run.summary.households.households > 30
    assert all(0.0 <= part.share_tau1 <= 1.0 for part in run.summary.attribution.variables)
    run.save(tmp_path / "r")
    loaded = keyhole.load(tmp_path / "r")
    for data in (None, tmp_path / "s.csv"):
        assert loaded.what_if(drop=["B"], recode={"C": [[1, 2], [3, 4]]}, data=data) == expected


def test_a_run_that_was_stopped_goes_on_to_the_same_numbers(tmp_path):
    whole = assess(strata="R", strata_sizes=SIZES, max_sweeps=120)
    with pytest.warns(NotConvergedWarning):
        assess(strata="R", strata_sizes=SIZES, max_sweeps=60, checkpoint=tmp_path / "c")
    again = assess(strata="R", strata_sizes=SIZES, max_sweeps=120, checkpoint=tmp_path / "c", resume=True)
    assert again.tau1 == whole.tau1
    other = SIZES.with_columns(N=pl.Series([610, 110]))
    assess(strata="R", strata_sizes=SIZES, checkpoint=tmp_path / "d")
    with pytest.raises(KeyholeError, match="other data"):
        assess(strata="R", strata_sizes=other, checkpoint=tmp_path / "d", resume=True)


def test_counts_of_a_table_of_cells_are_records_of_their_stratum():
    frame = make_frame()
    cells = frame.group_by("A", "B", "C", "R", maintain_order=True).len("COUNT")
    assert assess(cells, count="COUNT", strata="R", strata_sizes=SIZES).summary.design.fractions == (1 / 15, 1 / 3)


WRONG = {
    "no sizes": ({"strata": "R"}, r"`strata` needs the number of people.*`strata_sizes`"),
    "no strata": ({"strata_sizes": SIZES, "population": 720}, "`strata_sizes` needs `strata`"),
    "fewer people than records": (
        {"strata": "R", "strata_sizes": SIZES.with_columns(N=pl.Series([600, 39]))},
        r"row 2: the stratum has fewer people \(39\) than the file has records of it \(40\)",
    ),
    "an unknown stratum": (
        {"strata": "R", "strata_sizes": SIZES[:1]},
        r"lacks the stratum \(R\) of row 1 of the file: add it with its N\. Strata are compared exactly as",
    ),
    "a stratum without records": (
        {"strata": "R", "strata_sizes": pl.concat([SIZES, pl.DataFrame({"R": ["east"], "N": [5]})])},
        "row 3: the stratum has people but no record.*merge it",
    ),
    "twice": ({"strata": "R", "strata_sizes": pl.concat([SIZES, SIZES])}, "row 3: the stratum is there twice"),
    "another population": (
        {"strata": "R", "strata_sizes": SIZES, "population": 700},
        "the strata have 720 people in all, not the 700 of `population`: correct one of the two",
    ),
    "a fraction": ({"strata": "R", "strata_sizes": SIZES, "fraction": 0.1}, "omit `fraction`"),
    "no numbers": ({"strata": "R", "strata_sizes": SIZES.with_columns(N=pl.lit(-1))}, "a count must be a whole number"),
    "no column": ({"strata": "R", "strata_sizes": SIZES.rename({"N": "M"})}, "no column 'N'"),
    "a column twice": ({"strata": ["R", "R"], "strata_sizes": SIZES}, "names 'R' twice"),
    "classes without weights": ({"weight_classes": 3, "population": 720}, "`weight_classes` needs `weight`"),
    "classes and strata": ({"strata": "R", "weight": "W", "weight_classes": 3}, "exclude each other"),
    "too many classes": ({"weight": "W", "weight_classes": 11}, "from 1 to 10"),
    "negative weights": ({"strata": "R", "weight": "NEGATIVE"}, r"row 1, column 'NEGATIVE' is zero or negative"),
    "missing weights": ({"strata": "R", "weight": "LACKING"}, r"row 3, column 'LACKING' is blank"),
    "rescaled weights": ({"strata": "R", "weight": "SMALL"}, "rescaled"),
    "a blank stratum": ({"strata": "BLANK", "weight": "W"}, r"row 5, column 'BLANK' of `strata` is blank"),
    "an identifier": ({"strata": "ID", "weight": "W"}, "80 strata of 80 records: merge them"),
    "an estimator of the article": (
        {"strata": "R", "strata_sizes": SIZES, "model": "hdp", "estimator": "population"},
        "the estimator 'population' knows no strata",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_contradicts_itself_is_refused(case):
    options, message = WRONG[case]
    frame = make_frame().with_columns(
        NEGATIVE=-pl.col("W"),
        LACKING=pl.when(pl.int_range(80) == 2).then(None).otherwise("W"),
        SMALL=pl.col("W") / 20,
        BLANK=pl.when(pl.int_range(80) == 4).then(None).otherwise("R"),
        ID=pl.int_range(80),
    )
    with pytest.raises((InputError, SettingsError), match=message) as refused:
        assess(frame, **options)
    assert "\n" not in str(refused.value)
    assert "south" not in str(refused.value)


def run(*command):
    with pytest.raises(SystemExit) as ended:
        main(list(map(str, command)))
    return ended.value.code


def test_nothing_is_written_if_strata_are_refused(tmp_path, capsys):
    make_frame().write_csv(tmp_path / "s.csv")
    (tmp_path / "n.csv").write_text("R,N\nnorth,600\nsouth,39\n")
    command = ["assess", tmp_path / "s.csv", "--keys", "A,B,C", "--strata", "R", "--out", tmp_path / "r"]
    assert run(*command, "--strata-sizes", tmp_path / "n.csv") == 1
    assert run(*command) == 2
    assert "--strata-sizes" in capsys.readouterr().err
    assert not (tmp_path / "r" / "summary.json").exists()


def test_the_command_reads_sizes(tmp_path, capsys):
    make_frame().write_csv(tmp_path / "s.csv")
    SIZES.write_csv(tmp_path / "n.csv")
    command = ["assess", tmp_path / "s.csv", "--keys", "A,B,C", "--strata", "R", "--out", tmp_path / "r"]
    more = ["--model", "classes", "--max-sweeps", "60", "--json"]
    assert run(*command, "--strata-sizes", tmp_path / "n.csv", *more) in (0, 3)
    summary = json.loads(capsys.readouterr().out)
    assert summary["design"]["strata"] == 2
    report = (tmp_path / "r" / "report.html").read_text()
    assert "at random within the strata of R" in report
    assert json.loads((tmp_path / "r" / "manifest.json").read_text())["design"]["strata"]["people"] == [600, 120]


def test_classes_of_weights_have_the_least_squares(rng):
    """Against every way to cut a few values; many values are grouped first and nearly as good."""
    weight = np.exp(rng.normal(3.0, 1.0, 9))
    log = np.sort(np.log(weight))
    best = min(
        sum(part.var() * len(part) for part in np.split(log, [a, b])) for a in range(1, 8) for b in range(a + 1, 9)
    )
    variable, found = class_weights(weight, "W", 3)
    assert variable.categories == ("1", "2", "3")
    assert sum(np.log(weight)[found == k].var() * (found == k).sum() for k in range(3)) == pytest.approx(best)
    many = np.exp(rng.normal(3.0, 1.0, 5_000))
    _, found = class_weights(many, "W", 5)
    assert np.bincount(found).min() > 0
    assert (np.diff(found[np.argsort(many)]) >= 0).all()
    assert class_weights(np.array([2.0, 2.0, 0.5, 1.0]), "W", 4)[1].tolist() == [1, 1, 0, 0]


def test_weights_below_one_count_as_one():
    frame = make_frame().with_columns(W=pl.when(pl.col("R") == "north").then(0.5).otherwise(20.0))
    microdata = read_microdata(frame, "A,B,C", weight="W", strata=["R"])
    strata = make_strata(microdata, ["R"], weight="W")
    assert strata.people.tolist() == [40, 800]
    assert replace(strata, people=strata.records).unseen.tolist() == [0, 0]


def test_shares_add_up(rng):
    for _ in range(200):
        people = rng.integers(1, 60, rng.integers(1, 7))
        size = int(rng.integers(len(people), people.sum() + 1))
        for weight in (people.astype(float), np.ones(len(people))):
            found = share(weight, people, size)
            assert found.sum() == size
            assert (found >= 1).all()
            assert (found <= people).all()
    assert share(np.ones(4), np.full(4, 900), 500).tolist() == [125] * 4


def test_validate_draws_by_strata(tmp_path):
    people = make_frame(3_000)
    people.write_parquet(tmp_path / "p.parquet")
    given = {"keys": "A,B,C", "sample_size": 60, "replicates": 2, "strata": "R", "max_sweeps": 40, "workers": 1}
    found = validate(
        tmp_path / "p.parquet", **given, folder=tmp_path / "v", allocation="equal", estimators="classes,individual-risk"
    )
    assert all(entry["failed"] == 0 for entry in found["estimators"])
    (tmp_path / "n.csv").write_text("R,n\nnorth,40\nsouth,20\n")
    table = {"allocation": tmp_path / "n.csv", "estimators": "classes"}
    with_strata = validate(tmp_path / "p.parquet", **given, **table, folder=tmp_path / "w")
    without = validate(tmp_path / "p.parquet", **given, **table, folder=tmp_path / "x", ignore_strata=True)
    assert with_strata["truth"] == without["truth"]
    assert with_strata["estimators"][0]["estimates"] != without["estimators"][0]["estimates"]
    (tmp_path / "n.csv").write_text("R,n\nnorth,40\nsouth,21\n")
    with pytest.raises(InputError, match="must take 60 people"):
        validate(tmp_path / "p.parquet", **given, **table, folder=tmp_path / "y")
    with pytest.raises(SettingsError, match="need `strata`"):
        validate(tmp_path / "p.parquet", "A", 9, 1, tmp_path / "z", ignore_strata=True)


def blank_some():
    """Half of the records of the north, and a quarter of those of the south, have a blank key."""
    row = pl.int_range(80)
    blank = ((row % 2 == 1) & (row < 40)) | ((row % 2 == 0) & (row < 20))
    return make_frame().with_columns(pl.when(blank).then(None).otherwise("A").alias("A"))


def test_one_rule_for_the_population_however_it_is_given():
    """N counts the people like the records used: 720 people, of whom 37.5 % of the records, or of each stratum."""
    frame, more = blank_some(), {"missing": "drop"}
    plain = [
        assess(frame, population=720, **more),
        assess(frame, fraction=80 / 720, **more),
        assess(frame.with_columns(V=pl.lit(9.0)), weight="V", **more),
        assess(frame.filter(pl.col("A").is_not_null()), population=450),
    ]
    assert [found.summary.input.population for found in plain] == [450] * 4
    assert [found.summary.input.population_given for found in plain] == [720, None, None, 450]
    assert len({found.tau1.mean for found in plain}) == 1
    given = [
        {"strata_sizes": SIZES},
        {"strata_sizes": SIZES, "population": 720},
        {"weight": "W"},
        {"weight": "W", "population": 720},
        {"strata_sizes": SIZES, "weight": "W"},
    ]
    strata = [assess(frame, strata="R", **options, **more).summary for options in given]
    assert [found.input.population for found in strata] == [390] * 5
    assert [found.input.population_given for found in strata] == [720, 720, None, 720, 720]
    assert {found.design.fractions for found in strata} == {(20 / 300, 30 / 90)}
    assert len({found.tau1.mean for found in strata}) == 1
    weighted = [assess(frame, weight="W", **options, **more) for options in ({}, {"population": 720})]
    assert [found.summary.input.population for found in weighted] == [390, 390]


def test_a_stratum_that_is_a_blank_key_counts_in_all_alike():
    frame = make_frame().with_columns(R=pl.when(pl.int_range(80) < 16).then(None).otherwise("R"))
    found = assess(frame, "A,B,C,R", strata="R", strata_sizes=SIZES, missing="drop").summary
    assert (found.input.population, found.input.population_given) == (576, 720)
    assert found.design.fractions == (32 / 480, 32 / 96)
    frame = frame.with_columns(A=pl.when((pl.col("R") == "south") & (pl.int_range(80) < 48)).then(None).otherwise("A"))
    half = assess(frame, "A,B,C,R", strata="R", strata_sizes=SIZES, missing="drop").summary
    assert half.design.fractions == (32 / 480, 16 / 48)


def test_records_that_contradict_a_rule_leave_the_population_too():
    rules = {"zeros": ["A == 1"], "drop_contradictions": True}
    frame = make_frame()
    left = 80 - frame.filter(pl.col("A") == 1).height
    found = assess(frame, population=720, **rules).summary
    assert found.input.population == 9 * left
    cells = frame.group_by("A", "B", "C", "R", maintain_order=True).len("COUNT")
    by_cell = assess(cells, count="COUNT", population=720, **rules).summary
    assert (by_cell.input.population, by_cell.tau1) == (9 * left, found.tau1)
    everybody = assess(frame, population=80, **rules).summary
    assert (everybody.input.population, everybody.model.estimator) == (left, "none")
    with pytest.raises(
        InputError, match="population of 79 is smaller than the sample of 80 records, those left out included:"
    ):
        assess(frame, population=79, **rules)
    sizes = SIZES.with_columns(N=pl.Series([600, 39]))
    with pytest.raises(InputError, match=r"fewer people \(39\) than the file has records of it \(40\)"):
        assess(frame, strata="R", strata_sizes=sizes, **rules)


def test_compare_uses_the_same_population():
    frame = blank_some()
    options = {"estimators": "classes,individual-risk", "missing": "drop", **QUICK}
    found = keyhole.compare(frame, "A,B,C", 720, **options)
    assert (found.population, found.outcomes[0].error) == (450, None)
    assert found.outcomes[0].tau1.mean == assess(frame, population=720, missing="drop").tau1.mean
    by_strata = keyhole.compare(frame, "A,B,C", strata="R", strata_sizes=SIZES, **options)
    assert (by_strata.population, by_strata.outcomes[0].error) == (390, None)


def test_a_reduced_population_is_said(tmp_path):
    from keyhole.commands.screen import rows, sentences

    summary = assess(blank_some(), population=720, missing="drop").summary
    said = dict(rows(summary, None))["Records"]
    assert (
        said
        == "50 of 80 rows, from a population of 450: of the 720 given, those behind the records used (others "
        + ("were left out)")
    )
    caution = "More than 5 % of the records were left out."
    assert summary.cautions[0].startswith(caution)
    assert any(sentence.startswith(f"Caution: {caution}") for sentence in sentences(summary))
    everybody = assess(blank_some(), population=80, missing="drop")
    assert everybody.summary.model.estimator == "none"
    assert sentences(everybody.summary)[1].startswith(f"Caution: {caution}"), "also where nothing was estimated"
    everybody.report(tmp_path / "r.html")
    assert caution in (tmp_path / "r.html").read_text()
    whole = assess(population=720, missing="drop").summary
    assert not any("left out" in found for found in whole.cautions)
    assert dict(rows(whole, None))["Records"] == "80 of 80 rows, from a population of 720"


def test_labels_name_strata_too(tmp_path):
    """SPSS files store codes; a table of sizes may have either."""
    import pyreadstat

    frame = make_frame().with_columns(R=pl.when(pl.col("R") == "north").then(1.0).otherwise(2.0))
    labels = {"R": {1: "North", 2: "South", 3: "East"}}
    pyreadstat.write_sav(frame.to_pandas(), tmp_path / "s.sav", variable_value_labels=labels)
    by_code = assess(tmp_path / "s.sav", strata="R", strata_sizes=pl.DataFrame({"R": [1, 2], "N": [600, 120]}))
    named = pl.DataFrame({"R": ["North", "2"], "N": [600, 120]})
    for keys in ("A,B,C", "A,B,C,R"):
        found = assess(tmp_path / "s.sav", keys, strata="R", strata_sizes=named)
        assert found.summary.input.population == 720
        assert keys != "A,B,C" or found.tau1 == by_code.tau1
    wrong = pl.DataFrame({"R": ["north", "south"], "N": [600, 120]})
    with pytest.raises(
        InputError, match=r"row 1: the stratum has people but no .*labels of 'R', such as 1 or 'North'\."
    ):
        assess(tmp_path / "s.sav", strata="R", strata_sizes=wrong)


def test_weights_are_called_equal_only_if_they_are():
    from keyhole.commands.screen import rows

    def said(frame=None, **options):
        return dict(rows(assess(frame, **options).summary, None))["Weights"]

    assert said(strata="R", weight="W").endswith("Unequal (coefficient of variation 0.67), but equal within each "
        "stratum, which accounts for it.")  # fmt: skip
    frame = make_frame().with_columns(W=pl.col("W") * (1 + pl.int_range(80) % 3))
    assert "within each stratum 0.4" in said(frame, strata="R", weight="W")
    assert "within each weight class 0.00" not in said(frame, weight="W", weight_classes=2)
    assert said(make_frame().with_columns(W=pl.lit(9.0)), strata="R", weight="W").endswith("All are equal.")


def test_very_unequal_weights_are_said_in_the_first_sentence(tmp_path):
    from keyhole.commands.screen import sentences

    found = assess(weight="W")
    assert found.summary.weights.cv > 0.5
    assert found.summary.cautions[0].startswith("The weights are very unequal and no strata were given")
    first, *others = sentences(found.summary)
    assert first.endswith(". The weights are very unequal and no strata were given: do not rely on the interval.")
    assert any(
        "Caution: The weights are very unequal" in sentence and "--weight-classes 5" in sentence for sentence in others
    )
    found.report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert page.count("The weights are very unequal and no strata were given: do not rely on the interval.") == 2
    assert "<strong>Caution.</strong> The weights are very unequal" in page
    mild = make_frame().with_columns(W=pl.when(pl.int_range(80) % 2 == 0).then(6.0).otherwise(12.0))
    for quiet in (assess(mild, weight="W"), assess(strata="R", weight="W"), assess(weight="W", weight_classes=2)):
        assert not any("very unequal" in caution for caution in quiet.summary.cautions)
