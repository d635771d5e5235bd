"""summary.json is written from a typed value and read back into it; what is not one is refused."""

import hashlib
import json
from dataclasses import is_dataclass

import numpy as np
import polars as pl
import pytest

import keyhole
from keyhole.errors import OutputError
from keyhole.readable import ReadableModel
from keyhole.results.folder import MANIFEST, SEAL, seal
from keyhole.summary import Summary

CASES = ("plain", "rules", "certain", "one chain", "households", "self check", "missing")


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict[str, keyhole.Assessment]:
    """A result of each kind."""
    rng = np.random.default_rng(4)
    frame = pl.DataFrame({name: rng.integers(0, 4, 60) for name in "ABCD"})
    frame = frame.with_columns(A=frame["A"].clip(upper_bound=2 + frame["B"]), H=pl.int_range(60) // 3, W=pl.lit(5.0))
    wide = frame.with_columns(W=3.0 + pl.int_range(60) % 2)
    blank = frame.with_columns(pl.when(pl.int_range(60) % 7 > 0).then(pl.col("C")).alias("C"))
    rules = tmp_path_factory.mktemp("rules") / "rules.yaml"
    rules.write_text("impossible:\n  - {A: [3], B: [0]}\n")
    options = {
        "plain": (frame, {}),
        "rules": (frame, {"zeros": rules}),
        "certain": (frame, {"population": 60}),
        "one chain": (frame, {"chains": 1}),
        "households": (wide, {"household": "H", "weight": "W", "population": None}),
        "self check": (frame, {"self_check": True}),
        "missing": (blank, {"missing": "model"}),
    }
    assert tuple(options) == CASES
    common = {"population": 400, "chains": 2, "max_sweeps": 60, "seed": 2}
    return {
        name: keyhole.assess(data, list("ABCD"), **{**common, **more}, workers=2)
        for name, (data, more) in options.items()
    }


@pytest.fixture
def summary(results) -> Summary:
    return results["plain"].summary


@pytest.mark.parametrize("case", CASES)
def test_what_is_read_is_what_was_written(results, case):
    written = results[case].summary
    read = Summary.read(written.to_json())
    assert case == "certain" or read == written  # NaN equals nothing
    assert read.to_json() == written.to_json()
    assert read.convergence.diagnosis.verdict == results[case].diagnosis.verdict
    grades = {"certain": "converged", "one chain": "not converged"}
    assert read.convergence.grade == grades.get(case, read.convergence.grade)
    assert np.isinf(read.convergence.rhat) == (case == "one chain")
    assert np.isnan(read.convergence.rhat) == (case == "certain")


@pytest.mark.parametrize("case", CASES)
def test_fields_are_attributes_and_items(results, case):
    def compare(value, plain):
        if isinstance(plain, dict):
            assert list(value) == list(plain)
            for name in plain:
                # A mapping has a method of that name.
                attribute = "key_variables" if name == "keys" else name
                if is_dataclass(value) or isinstance(value, ReadableModel):
                    assert getattr(value, attribute) is value[name]
                compare(value[name], plain[name])
        elif isinstance(plain, list):
            for part, plain_part in zip(value, plain, strict=True):
                compare(part, plain_part)
        elif plain is None:
            assert value is None or not np.isfinite(value)
        else:
            assert value == plain
            assert type(value) is type(plain)

    compare(results[case].summary, json.loads(results[case].summary.to_json()))


def test_a_field_that_does_not_apply_is_absent(results):
    plain, missing = (results[name].summary for name in ("plain", "missing"))
    assert "undecided" in missing["input"]
    assert "undecided" not in plain["input"]
    assert plain["input"].get("undecided", "none") == "none"
    with pytest.raises(KeyError):
        plain["input"]["undecided"]
    assert "by_chain" not in results["certain"].summary["convergence"]
    assert "workers" not in plain["settings"]
    with pytest.raises(TypeError):
        plain["tau1"] = None
    with pytest.raises(ValueError, match="frozen"):
        plain.tau1 = None


def change(text: str, path: str, value: object) -> str:
    content = json.loads(text)
    *above, last = path.split(".")
    block = content
    for name in above:
        block = block[int(name) if isinstance(block, list) else name]
    if value is None:
        del block[last]
    else:
        block[last] = value
    return json.dumps(content)


WRONG = [
    ("surprise", 1),
    ("input.surprise", 1),
    ("input.key_variables", ["A"]),
    ("tau1.surprise", 1),
    ("convergence.gates.0.surprise", 1),
    ("settings.surprise", 1),
    ("version", None),
    ("tau1.mean", None),
    ("convergence.verdict", None),
    ("input.rows", "60"),
    ("input.rows", 60.5),
    ("input.keys", "A,B"),
    ("tau1.mean", "12"),
    ("tau1.interval", [1.0]),
    ("tau1.pooled", 1),
    ("convergence.grade", "perfect"),
    ("convergence.groups", {}),
    ("fit", []),
    ("settings.chains", -1),
    ("seconds", [1.0]),
]


@pytest.mark.parametrize(("path", "value"), WRONG)
def test_what_is_no_summary_is_refused(summary, path, value):
    with pytest.raises(ValueError, match=r"validation error"):
        Summary.read(change(summary.to_json(), path, value))


def test_a_foreign_summary_is_one_line(results, tmp_path):
    """Also one whose hash is right."""
    results["plain"].save(tmp_path / "r")
    manifest = json.loads((tmp_path / "r" / MANIFEST).read_text())
    for text in ("", "{}", "[]", "\0", change(results["plain"].summary.to_json(), "tau1.mean", "12")):
        (tmp_path / "r" / "summary.json").write_text(text)
        manifest["outputs"]["summary.json"] = hashlib.sha256(text.encode()).hexdigest()
        (tmp_path / "r" / MANIFEST).write_text(json.dumps(seal(manifest)))
        with pytest.raises(OutputError, match="is damaged: run the assessment again") as caught:
            keyhole.load(tmp_path / "r")
        assert "\n" not in str(caught.value)


# Results of earlier versions.

ADDED_LATER = [
    *("design", "all_records", "policies", "quick", "fit", "self_check", "attribution", "helps", "thresholds"),
    *("weights", "households", "comparators", "cautions"),
    *("input.distinct_cells", "input.ignored_keys", "input.ordered", "input.count", "input.bands"),
    *("input.user_missing", "input.na", "input.dropped", "input.observed_keys", "input.spelling"),
    *("design.sizes", "design.columns", "design.fractions", "design.cv_within"),
    *("zeros.left_out", "zeros.words", "zeros.words_declared", "model.why", "model.estimator_error"),
    *("tau1.pooled", "tau1.mcse", "tau1.bins", "settings.ordered", "settings.target_ess"),
    *("convergence.grade", "convergence.groups", "convergence.disagree", "convergence.envelope"),
    *("convergence.stacking", "convergence.gates", "convergence.start_sweeps", "convergence.warm_up"),
    *("convergence.spacing", "convergence.starts", "convergence.stopped", "convergence.by_chain"),
    *("all_records.largest", "fit.doubles", "fit.verdict", "quick.message", "quick.convergence.grade"),
    *("helps.0.share_lost", "thresholds.0.tau2_after", "comparators.0.reference"),
]
MANIFEST_ADDED_LATER = ["design", "asked", *(f"input.{x}" for x in ("ignored_keys", "order", "count", "bands", "na"))]


def strip(text: str, paths: list[str]) -> str:
    """Remove these fields if they are there."""
    for path in paths:
        try:
            text = change(text, path, None)
        except (KeyError, IndexError, TypeError):
            continue
    return text


def strip_folder(folder, paths: list[str], manifest_paths: list[str]) -> None:
    """Make a folder that was written by a version which had none of these fields."""
    path = folder / "summary.json"
    path.write_text(strip(path.read_text(), paths))
    manifest = json.loads(strip((folder / MANIFEST).read_text(), manifest_paths))
    manifest["outputs"]["summary.json"] = hashlib.sha256(path.read_bytes()).hexdigest()
    manifest.pop(SEAL)
    (folder / MANIFEST).write_text(json.dumps(manifest))


@pytest.mark.parametrize("path", ADDED_LATER)
@pytest.mark.parametrize("case", ["plain", "rules"])
def test_a_summary_without_a_field_that_was_added_later_is_read(results, case, path):
    written = results[case].summary
    text = strip(written.to_json(), [path])
    read = Summary.read(text)
    assert (read.tau1.mean, read.convergence.message) == (written.tau1.mean, written.convergence.message)
    assert Summary.read(read.to_json()) == read


def test_a_grade_follows_from_what_there_was(results):
    for case in ("plain", "one chain", "certain"):
        written = results[case].summary
        read = Summary.read(change(written.to_json(), "convergence.grade", None))
        assert read.convergence.converged == (read.convergence.grade == "converged") == written.convergence.converged


@pytest.mark.parametrize("path", [*ADDED_LATER, "all"])
def test_a_folder_of_an_earlier_version_answers(results, tmp_path, path):
    results["rules"].save(tmp_path / "r")
    keeps = {"attribution"}  # the categories, without which nothing can be made coarser
    everything = [found for found in ADDED_LATER if found not in keeps]
    strip_folder(tmp_path / "r", everything if path == "all" else [path], MANIFEST_ADDED_LATER)
    found = keyhole.load(tmp_path / "r")
    assert found.tau1.mean == results["rules"].tau1.mean
    assert len(repr(found).splitlines()) == 5
    found.report(tmp_path / "safe.html")
    found.report(tmp_path / "internal.html", internal=True)
    rng = np.random.default_rng(4)
    frame = pl.DataFrame({name: rng.integers(0, 4, 60) for name in "ABCD"})
    frame = frame.with_columns(A=frame["A"].clip(upper_bound=2 + frame["B"]))
    if path == "attribution":
        with pytest.raises(OutputError, match="stored less than what-if needs: run the assessment again"):
            found.what_if(drop=["C"], data=frame)
    else:
        released = found.what_if(drop=["C"], data=frame)
        if path != "all":
            assert released.tau1.mean == results["rules"].what_if(drop=["C"]).tau1.mean


def test_the_screen_shows_a_summary_of_an_earlier_version(results, capsys):
    from keyhole.commands.screen import print_summary

    text = strip(results["plain"].summary.to_json(), ADDED_LATER)
    print_summary(Summary.read(text), None)
    assert "Alone in the population" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("version", "surprise", "told"),
    [
        ("99.0.1", None, "was written by keyhole 99.0.1, and this is "),
        ("0.1.0", "surprise", "was written by keyhole of a newer version, and this is "),
        ("0.1.0", "fit.surprise", "was written by keyhole of a newer version, and this is "),
    ],
)
def test_a_folder_of_a_later_version_is_refused_in_one_line(results, tmp_path, version, surprise, told):
    results["plain"].save(tmp_path / "r")
    path = tmp_path / "r" / "summary.json"
    if surprise:
        path.write_text(change(path.read_text(), surprise, 1))
    manifest = json.loads((tmp_path / "r" / MANIFEST).read_text())
    manifest["version"] = version
    manifest["outputs"]["summary.json"] = hashlib.sha256(path.read_bytes()).hexdigest()
    (tmp_path / "r" / MANIFEST).write_text(json.dumps(seal(manifest)))
    with pytest.raises(OutputError, match=told) as caught:
        keyhole.load(tmp_path / "r")
    assert str(caught.value).endswith(": update keyhole.")
    assert "\n" not in str(caught.value)
