"""Plans applied to files: what is changed and what is not, in every format, and what is refused."""

import json
import stat
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import yaml

import keyhole as kh
from keyhole.errors import InputError, OutputError, SettingsError
from keyhole.plan.protect import apply_plan
from keyhole.plan.recipe import FILE, Recoded, load_plan
from tests.unit.test_plan import make_survey

KEYS = "AGE,SEX,WORK,PLACE"
# The columns NOTE and INCOME look like identifiers.
pytestmark = pytest.mark.filterwarnings("ignore::keyhole.TelltaleWarning")


@pytest.fixture(scope="module")
def survey():
    """With a blank key in some rows, and columns that are no keys."""
    frame = make_survey(300)
    blank = pl.int_range(frame.height) % 23 == 0
    return frame.with_columns(
        SEX=pl.when(blank).then(None).otherwise("SEX"), NOTE=pl.int_range(frame.height).cast(pl.String) + ' = x,"y"'
    )


@pytest.fixture(scope="module")
def recipe(survey):
    """A plan by hand: AGE merged, WORK top coded, PLACE left out, SEX as it is, single steps."""
    plan = kh.assess(survey, KEYS, population=3000, quick=True, max_sweeps=60).plan("tau1.upper=3000", suppress=0)
    merged = {
        "AGE": (("1-4", ("1", "2", "3", "4")), ("5-7", ("5", "6", "7")), ("8", ("8",)), ("9", ("9",))),
        "WORK": (("1", ("1",)), ("2", ("2",)), ("3+", ("3", "4", "5"))),
        "PLACE": None,
    }
    keys = tuple(Recoded(key.name, merged[key.name]) if key.name in merged else key for key in plan.recipe.keys)
    return replace(plan.recipe, keys=keys, blank={"SEX": (2, 3), "AGE": (5,)}, remove=(7, 9))


def expected(survey):
    """The same by plain means."""
    age = {"1": "1-4", "2": "1-4", "3": "1-4", "4": "1-4", "5": "5-7", "6": "5-7", "7": "5-7", "8": "8", "9": "9"}
    rows = []
    for number, row in enumerate(survey.rows(named=True), start=1):
        if number in (7, 9):
            continue
        row["AGE"] = None if number == 5 else age[str(row["AGE"])]
        row["SEX"] = None if number in (2, 3) else row["SEX"]
        row["WORK"] = "3+" if row["WORK"] >= 3 else str(row["WORK"])
        del row["PLACE"]
        rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)


def not_stated(survey, recipe):
    """SEX as it is released: blank only where the plan says so."""
    rows = enumerate(survey["SEX"].to_list(), start=1)
    return [
        None if row in recipe.blank["SEX"] else sex or "not stated" for row, sex in rows if row not in recipe.remove
    ]


def test_a_dataframe_is_changed_as_planned(survey, recipe):
    found = kh.protect(survey, recipe)
    shown = expected(survey).with_columns(SEX=pl.Series(not_stated(survey, recipe)))
    assert found.equals(shown)
    assert found["INCOME"].dtype == survey["INCOME"].dtype
    assert kh.protect(survey.to_pandas(), recipe)["NOTE"].tolist() == found["NOTE"].to_list()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("out", ["csv", "parquet"])
def test_files_of_every_format(survey, recipe, tmp_path, ending, out):
    getattr(survey, f"write_{ending}")(tmp_path / f"s.{ending}")
    kh.protect(tmp_path / f"s.{ending}", recipe, out=tmp_path / f"p.{out}")
    found = getattr(pl, f"read_{out}")(tmp_path / f"p.{out}", **({"infer_schema": False} if out == "csv" else {}))
    shown = expected(survey).with_columns(SEX=pl.Series(not_stated(survey, recipe)))
    assert found.cast(pl.String).equals(shown.cast(pl.String))
    if out == "parquet":
        assert found["INCOME"].dtype == pl.Int64
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in tmp_path.iterdir() if path.stem.startswith("p"))
    book = yaml.safe_load((tmp_path / "p.codebook.yaml").read_text())
    assert book["AGE"] == {"categories": ["1-4", "5-7", "8", "9"], "ordered": True}
    assert book["SEX"] == {"categories": ["f", "m", "not stated"], "ordered": False}
    assert "PLACE" not in book
    log = (tmp_path / "p.log.txt").read_text()
    for line in ("AGE: 9 categories merged into 4", "AGE: 1 value blanked", "SEX: 2 values blanked", "PLACE: left out",
                 "2 records removed", "298 rows and 5 columns released", "--missing model",
                 "SEX: 14 values that were blank in the file released as 'not stated', a category"):  # fmt: skip
        assert line in log
    assert "= x" not in log


def test_rows_in_random_order(survey, recipe):
    usual = kh.protect(survey, recipe)
    mixed = kh.protect(survey, recipe, shuffle=True, seed=4)
    assert mixed["NOTE"].to_list() != usual["NOTE"].to_list()
    assert mixed.sort("NOTE").equals(usual.sort("NOTE"))
    assert mixed.equals(kh.protect(survey, recipe, shuffle=True, seed=4))


def test_bands_of_the_assessment_are_released(survey):
    plan = kh.assess(survey, "INCOME,SEX", population=3000, bands={"INCOME": "2000y"}, quick=True, max_sweeps=60).plan(
        "tau1.upper=3000"
    )
    assert plan.steps == ()
    found = kh.protect(survey, plan)
    assert set(found["INCOME"].unique()) == {f"{x}-{x + 1999}" for x in range(0, 10000, 2000)}
    assert found["SEX"].equals(survey["SEX"])
    ages = survey.with_columns(YEAR=2000 - pl.col("AGE"), GROUP=pl.col("AGE") // 3)
    plan = kh.assess(ages, "AGE,SEX", population=3000, bands={"AGE": "3y"}, quick=True, max_sweeps=60).plan("tau1=3000")
    assert dict(apply_plan(ages, plan.recipe).telltale.tell) == {"YEAR": ("AGE",)}


def test_merged_categories_of_the_assessment_are_released(survey, tmp_path):
    merge = {"WORK": "3,4,5", "SEX": [["m", ""]]}
    plan = kh.assess(survey, KEYS, population=3000, merge=merge, quick=True, max_sweeps=60).plan("tau1.upper=3000")
    assert plan.steps == ()
    plan.save(tmp_path / "plan")
    found = kh.protect(survey, load_plan(tmp_path / "plan"))
    work = [str(value) if value < 3 else "3+" for value in survey["WORK"]]
    assert found["WORK"].to_list() == work
    assert set(found["SEX"]) == {"f", "m|blank"}
    assert found.equals(kh.protect(survey, plan))


def test_rows_that_were_not_assessed_are_left_out(survey):
    run = kh.assess(survey, KEYS, population=3000, missing="drop", quick=True, max_sweeps=60)
    found = apply_plan(survey, run.plan("tau1.upper=3000").recipe)
    blank = int(survey["SEX"].null_count())
    assert found.frame.height == survey.height - blank
    assert f"{blank} rows left out that were not assessed" in found.log


def test_other_files_are_refused(survey, recipe, tmp_path):
    changed = survey.with_columns(AGE=pl.when(pl.int_range(survey.height) == 50).then(9).otherwise("AGE"))
    for other in (changed if not changed.equals(survey) else survey[1:], survey.reverse(), survey.head(200)):
        with pytest.raises(InputError, match="does not hold the records of this plan"):
            kh.protect(other, recipe)
    with pytest.raises(InputError, match="row 4000, which is no record"):
        kh.protect(survey, replace(recipe, remove=(4000,)))
    with pytest.raises(SettingsError, match=r"ends in \.csv or \.parquet"):
        kh.protect(survey, recipe, out=tmp_path / "p.sav")
    (tmp_path / "p.log.txt").write_text("mine")
    with pytest.raises(OutputError, match="exists"):
        kh.protect(survey, recipe, out=tmp_path / "p.csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.log.txt"]


def test_a_plan_is_read_as_it_was_written(recipe, tmp_path):
    (tmp_path / FILE).write_text(recipe.to_yaml())
    assert load_plan(tmp_path) == load_plan(tmp_path / FILE) == recipe


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: "keys: [", "is not YAML"),
        (lambda text: "keys: {AGE: as it is}", "is not a plan of keyhole"),
        (lambda text: text.replace("3+: ['3', '4', '5']", "3+: ['3', '4', '7']"), "one that the file does not have"),
        (lambda text: text.replace("3+: ['3', '4', '5']", "2: ['3', '4', '5']"), "would have one name"),
        (lambda text: text.replace("PLACE: left out", "PLACE: gone"), "'left out' or groups of categories for PLACE"),
        (lambda text: text.replace("PLACE: left out", "TOWN: left out"), "what becomes of each of"),
        (lambda text: text.replace("  SEX: [2, 3]", "  TOWN: [2, 3]"), "`blank` names TOWN"),
        (lambda text: text.replace("remove: [7, 9]", "remove: [x]"), "is not a plan of keyhole"),
    ],
)
def test_plans_that_were_broken_by_hand_are_refused(recipe, tmp_path, change, message):
    text = recipe.to_yaml()
    assert change(text) != text
    (tmp_path / FILE).write_text(change(text))
    with pytest.raises(InputError, match=r"^[^\n]*$") as caught:
        load_plan(tmp_path / FILE)
    assert message in str(caught.value)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_is_released_is_as_risky_as_planned(seed):
    """The coarser file is assessed by itself: the same sample uniques, an estimate that agrees, the limit met."""
    source = make_survey(seed=seed)
    run = kh.assess(source, KEYS, population=5000, quick=True, seed=5)
    plan = run.plan("tau1.upper=4", suppress=0)
    released = kh.protect(source, plan)
    assert plan.steps
    kept = [key.name for key in plan.recipe.keys if key.groups is not None]
    again = kh.assess(released, kept, population=5000, quick=True, seed=6)
    assert again.summary.input.sample_uniques == plan.after.sample_uniques
    low, high = again.tau1.interval
    assert low <= plan.after.tau1.mean <= high
    assert high <= 4 + 2


def test_commands(survey, tmp_path, monkeypatch):
    from click.testing import CliRunner

    from keyhole.cli import group

    monkeypatch.chdir(tmp_path)
    survey.write_csv("s.csv")
    kh.assess("s.csv", KEYS, population=3000, quick=True, max_sweeps=100).save("r")

    def call(*words):
        return CliRunner().invoke(group, list(words), standalone_mode=False)

    asked = ("plan", "r", "--data", "s.csv", "--limit", "tau1.upper=6")
    found = call(*asked, "--out", "p", "--keep", "SEX", "--suppress", "0")
    assert found.exception is None, found.output
    assert "keyhole protect s.csv --plan p/plan.yaml" in found.output
    assert "Before" in found.output
    as_json = call(*asked, "--out", "q", "--json")
    assert json.loads(as_json.output)["after"]["limits"]["tau1.upper=6"] <= 6
    assert isinstance(call("plan", "r", "--data", "s.csv", "--limit", "tau1=6", "--out", "p").exception, OutputError)
    assert "give --limit" in str(call("plan", "r").exception)
    assert "write EDUC=3" in str(call("plan", "r", "--importance", "x").exception)
    done = call("protect", "s.csv", "--plan", "p/plan.yaml", "--out", "p.csv")
    assert done.exception is None
    assert "keyhole assess p.csv --keys" in done.output.replace("\n", " ")
    assert "CAUTION: the release holds 2 columns that may undo the plan" in done.stderr
    assert "use --drop-columns INCOME,NOTE" in done.stderr
    less = call("protect", "s.csv", "--plan", "p/plan.yaml", "--out", "q.csv", "--drop-columns", "INCOME,NOTE")
    assert less.stderr == ""
    assert not {"INCOME", "NOTE"} & set(pl.read_csv("q.csv").columns)
    assert isinstance(call("protect", "s.csv", "--plan", "p/plan.yaml", "--out", "p.csv").exception, OutputError)
    assert not np.any([name.name.startswith(".") for name in tmp_path.iterdir()])


def make_blank_survey(seed, n=400, people=4000):
    """Blank answers that mean something: of the young in WORK, and here and there in PLACE, ordered and not."""
    rng = np.random.default_rng(seed)
    whole = make_survey(people, seed)
    young = pl.col("AGE") <= 2
    whole = whole.with_columns(
        WORK=pl.when(young | pl.Series(rng.random(people) < 0.08)).then(None).otherwise("WORK"),
        PLACE=pl.when(pl.Series(rng.random(people) < 0.05)).then(None).otherwise("PLACE"),
    )
    return whole[rng.choice(people, n, replace=False)]


@pytest.mark.parametrize(("source", "out"), [("csv", "csv"), ("csv", "parquet"), ("pandas", "parquet")])
def test_the_printed_command_assesses_what_was_promised(tmp_path, monkeypatch, source, out):
    """Values are blanked in keys with blanks of their own, which stay a category: the figures are those of the plan."""
    from click.testing import CliRunner

    from keyhole.cli import group

    monkeypatch.chdir(tmp_path)
    frame = make_blank_survey(3)
    frame.write_csv("s.csv")
    data = tmp_path / "s.csv" if source == "csv" else frame.to_pandas()
    run = kh.assess(data, KEYS, population=4000, model="classes", seed=5)
    plan = run.plan(f"tau1.upper={run.tau1.interval[1] - 4:g}", suppress=0.05)
    blanks = {name for name in plan.recipe.blank if frame[name].null_count()}
    assert blanks
    released = apply_plan(data, plan.recipe, path=tmp_path / f"p.{out}")
    kh.protect(data, plan, out=f"p.{out}")
    for name in ("WORK", "PLACE"):
        stated = released.codebook[name]["categories"][-1]
        assert stated == ("not stated" if name in blanks else "")
        assert released.typed[name].null_count() == (
            len(plan.recipe.blank[name]) if name in blanks else frame[name].null_count()
        )
    done = CliRunner().invoke(
        group, [*released.command[1:], "--model", "classes", "--json", "--seed", "6"], standalone_mode=False
    )
    assert done.exception is None
    found = json.loads(done.stdout)
    # Records that agree with one of which a value was blanked may be alone.
    alone = found["input"]["sample_uniques"]
    assert alone <= plan.after.sample_uniques <= alone + found["input"]["undecided"]
    assert found["input"]["undecided"] <= 20
    assert found["tau1"]["mean"] == pytest.approx(plan.after.tau1.mean, rel=0.25)
    for x in (0, 1):
        assert abs(found["tau1"]["interval"][x] - plan.after.tau1.interval[x]) <= 2


def test_blanks_stay_outside_the_order_of_a_key():
    """The name of what was blank is neither the highest nor the lowest category."""
    frame = make_blank_survey(3)
    run = kh.assess(frame, "AGE,WORK", population=4000, quick=True, max_sweeps=60)
    plan = run.plan("tau1.upper=4000")
    recipe = replace(plan.recipe, blank={"WORK": (3, 4, 5)})
    released = apply_plan(frame, recipe)
    again = kh.assess(
        released.frame, "AGE,WORK", population=4000, quick=True, max_sweeps=60, codebook=released.codebook,
        missing="model",
    )  # fmt: skip
    assert run.manifest["input"]["order"]["WORK"] == again.manifest["input"]["order"]["WORK"]
    assert again.summary.input.levels == run.summary.input.levels


def test_texts_that_mean_missing_still_do(tmp_path):
    """The printed command and the codebook name them as the assessment did."""
    frame = make_blank_survey(3).with_columns(pl.col("PLACE").fill_null("?"), pl.col("WORK").fill_null(-9))
    book = {"WORK": {"categories": [1, 2, 3, 4, 5], "missing": [-9]}}
    run = kh.assess(frame, "AGE,PLACE,WORK", population=4000, quick=True, max_sweeps=60, na=["?"], codebook=book)
    released = apply_plan(frame, run.plan("tau1.upper=4000").recipe)
    assert released.command[-2:] == ("--na", "?")
    again = kh.assess(
        released.frame, "AGE,PLACE,WORK", population=4000, quick=True, max_sweeps=60, na=["?"],
        codebook=released.codebook,
    )  # fmt: skip
    assert again.summary.input.levels == run.summary.input.levels
    assert again.tau1 == run.tau1


def test_columns_that_undo_a_plan_are_named(survey, recipe, tmp_path):
    """Identifiers, and columns that tell what was merged, left out or blanked, exactly or by their order."""
    rng = np.random.default_rng(4)
    town = {"north": "Bergen", "south": "Ghent", "west": "Cork", "east": "Lublin", "isle": "Naxos"}
    frame = survey.drop("INCOME").with_columns(
        MONTHS=pl.col("AGE") * 12.5 + pl.Series(rng.random(survey.height) * 12.0),  # increases with AGE
        TOWN=pl.col("PLACE").replace(town),
        GENDER=pl.when(pl.col("SEX") == "f").then(pl.lit("woman")).otherwise(pl.lit("man")),
        HALF=pl.Series(rng.choice(["x", "y"], survey.height)),
        SCORE=pl.Series(rng.normal(size=survey.height).round(3)),
        BAND=(pl.col("AGE") > 4) & (pl.col("AGE") < 8),  # no more than the groups that are released
    )
    found = apply_plan(frame, recipe)
    assert found.telltale.identifiers == ("NOTE",)
    assert dict(found.telltale.tell) == {"MONTHS": ("AGE",), "TOWN": ("PLACE",)}
    line = (
        "CAUTION: the release holds 3 columns that may undo the plan: NOTE looks like an identifier; MONTHS tells the "
        "original AGE; TOWN tells the original PLACE. To leave them out, use `drop_columns` NOTE,MONTHS,TOWN"
    )
    assert found.log[-1] == line
    assert {"NOTE", "MONTHS", "TOWN"} <= set(found.frame.columns)
    with pytest.warns(kh.TelltaleWarning, match="NOTE looks like an identifier"):
        kh.protect(frame, recipe, out=tmp_path / "p.csv")
    assert line.replace("`drop_columns`", "--drop-columns") in (tmp_path / "p.log.txt").read_text()
    # A key of which values are blanked and nothing else.
    sexes = tuple(Recoded(key.name, tuple((code, (code,)) for code in variable.categories))
                  for key, variable in zip(recipe.keys, recipe.reading.variables, strict=True))  # fmt: skip
    only = replace(recipe, keys=sexes, blank={"SEX": (2, 3)}, remove=())
    full = frame.with_columns(SEX=pl.col("SEX"))
    told = apply_plan(full.with_columns(GENDER=pl.col("SEX").fill_null("none")), only).telltale
    assert dict(told.tell) == {"GENDER": ("SEX",)}
    less = apply_plan(frame, recipe, drop_columns="NOTE,MONTHS, TOWN")
    assert not less.telltale.sentence
    assert less.frame.columns == [name for name in found.frame.columns if name not in ("NOTE", "MONTHS", "TOWN")]
    assert "NOTE: left out, as asked" in less.log
    for name, message in (("AGE", "it is a key"), ("TWON", "TWON")):
        with pytest.raises(InputError, match=message):
            apply_plan(frame, recipe, drop_columns=[name])


def test_numbers_of_a_text_file_have_a_type_where_nothing_is_lost(survey, recipe, tmp_path):
    height = survey.height
    odd = pl.int_range(height, eager=True)
    frame = survey.cast(pl.String).with_columns(
        ZIP=odd.cast(pl.String).str.zfill(5),
        SHARE=(odd / 8).cast(pl.String),
        PRICE=pl.lit("1.50"),
        BIG=pl.lit("98765432109876543210"),
        MIXED=pl.when(odd == 3).then(pl.lit("n/k")).otherwise(odd.cast(pl.String)),
        SOME=pl.when(odd % 2 == 0).then(pl.lit(None, pl.String)).otherwise(odd.cast(pl.String)),
    )
    frame.write_csv(tmp_path / "s.csv")
    kinds = {"ZIP": pl.String, "SHARE": pl.Float64, "PRICE": pl.String, "BIG": pl.String, "MIXED": pl.String,
             "SOME": pl.Int64, "INCOME": pl.Int64, "AGE": pl.String, "NOTE": pl.String}  # fmt: skip
    found = kh.protect(tmp_path / "s.csv", recipe, out=tmp_path / "p.parquet")
    written = pl.read_parquet(tmp_path / "p.parquet")
    assert {name: written[name].dtype for name in kinds} == kinds
    assert written.equals(found)
    kh.protect(tmp_path / "s.csv", recipe, out=tmp_path / "q.csv")
    again = pl.read_csv(tmp_path / "q.csv", infer_schema=False)
    for name in ("ZIP", "SHARE", "PRICE", "BIG", "MIXED", "SOME", "INCOME"):
        kept = [x for x in range(height) if x + 1 not in recipe.remove]
        assert again[name].to_list() == frame[name][kept].to_list()
        assert written[name].cast(pl.String).to_list() == frame[name][kept].to_list()
    # A table that has types keeps them.
    assert kh.protect(frame, recipe)["INCOME"].dtype == pl.String


@pytest.mark.parametrize("given", ["weights", "sizes", "classes"])
def test_the_release_of_a_stratified_sample_is_assessed_as_one(tmp_path, monkeypatch, given):
    from click.testing import CliRunner

    from keyhole.cli import group

    monkeypatch.chdir(tmp_path)
    frame = make_survey(400).with_columns(REGION=pl.int_range(400) % 3, W=(pl.int_range(400) % 3 + 1) * 5.0)
    frame.write_csv("s.csv")
    people = frame.group_by("REGION").agg(N=pl.col("W").sum().cast(pl.Int64)).sort("REGION")
    people.write_csv("sizes.csv")
    options = {
        "weights": {"strata": ["REGION"], "weight": "W"},
        "sizes": {"strata": ["REGION"], "strata_sizes": "sizes.csv"},
        "classes": {"weight": "W", "weight_classes": 3},
    }[given]
    run = kh.assess("s.csv", KEYS, quick=True, max_sweeps=150, **options)
    plan = run.plan(f"tau1.upper={run.tau1.interval[1] - 2:g}", suppress=0)
    plan.save("plan")
    recipe = load_plan("plan")
    assert (recipe.keys, recipe.design) == (plan.recipe.keys, plan.recipe.design)
    released = apply_plan("s.csv", recipe, path=tmp_path / "p.csv")
    kh.protect("s.csv", recipe, out="p.csv")
    found = CliRunner().invoke(
        group, [*released.command[1:], "--quick", "--json", "--seed", "6"], standalone_mode=False
    )
    assert found.exception is None
    content = json.loads(found.stdout)
    assert content["design"]["kind"] == run.summary.design.kind
    assert content["input"]["population"] == run.summary.input.population
    assert content["tau1"]["mean"] == pytest.approx(plan.after.tau1.mean, rel=0.35)
    needed = "REGION" if "strata" in options else "W"
    assert f"the release does not hold {needed} as it was" in " ".join(
        apply_plan("s.csv", recipe, drop_columns=needed).log
    )
