"""Missing answers left to the model: who agrees with whom, cells by what records have, what is refused."""

import itertools
import json
from collections import Counter
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

import keyhole
from keyhole.cli import main
from keyhole.data import SourceOptions, count_cells, encode, find_cells, read_microdata
from keyhole.errors import SettingsError
from keyhole.kernels.missing import draw_missing
from keyhole.risk.release import prepare_release
from keyhole.sampling.events import leave_out
from keyhole.sampling.predict import predict
from keyhole.sampling.problem import make_problem
from keyhole.settings import Settings, make_settings
from tests.oracle import plain_cell_probability
from tests.unit.test_release import LEVELS, OTHERS, RULES, make_posterior

QUICK = {"chains": 2, "max_sweeps": 40, "seed": 4}


def agree(one, other):
    """No answer that both have differs."""
    return all(a == b or a < 0 or b < 0 for a, b in zip(one, other, strict=True))


@given(st.lists(st.tuples(*[st.integers(-1, 2)] * 4), min_size=1, max_size=40))
@settings(max_examples=200)
def test_records_are_compared_on_what_both_have(rows):
    counts = count_cells(np.array(rows, np.int32))
    told = [i for i, row in enumerate(rows) if max(row) >= 0]
    friends = {i: [k for k in told if agree(rows[i], rows[k])] for i in told}
    assert [counts.cell_count[i] for i in told] == [len(friends[i]) for i in told]
    alone = [i for i in told if len(friends[i]) == 1]
    assert counts.unique_record.tolist() == alone
    assert counts.distinct == len(set(rows))
    assert counts.blank == len(rows) - len(told)
    open_question = [
        i
        for i in told
        if i not in alone
        and all(k == i or any(b < 0 <= a for a, b in zip(rows[i], rows[k], strict=True)) for k in friends[i])
    ]
    assert counts.undecided == len(open_question)
    for i, k in itertools.combinations(alone, 2):
        assert any(a != b and min(a, b) >= 0 for a, b in zip(rows[i], rows[k], strict=True)), "cells overlap"


def with_codes(microdata, codes):
    cells, cell = find_cells(codes.T, len(codes))
    return replace(microdata, cells=cells, cell=cell)


@pytest.mark.parametrize("finite", [False, True])
@pytest.mark.parametrize("rules", RULES)
def test_a_cell_is_all_cells_that_agree_with_what_the_record_has(rng, tmp_path, rules, finite):
    """Against the oracle's sum over the whole table."""
    posterior, made, possible = make_posterior(rng, tmp_path, RULES[rules], finite, records=12)
    codes = posterior.microdata.codes.copy()
    codes[rng.random(codes.shape) < 0.3] = -1
    codes[0] = [0, -1, -1, -1]
    codes[1] = possible[-1]
    records = encode(with_codes(posterior.microdata, codes))
    chosen = make_settings(model="mixed") if finite else Settings()
    problem = make_problem(records, np.arange(len(codes)), 100, chosen, posterior.zeros)
    everything = list(itertools.product(*map(range, LEVELS)))
    for number, (draw, model) in enumerate(made):
        found = predict(rng, posterior.draws[0][number], problem.cells, problem.prior.rules)
        table = {cell: plain_cell_probability(draw, model, cell) for cell in everything}
        among = sum(table[cell] for cell in possible)
        truth = [sum(table[cell] for cell in possible if agree(row, cell)) / among for row in codes.tolist()]
        assert found.error == 0.0
        assert found.q == pytest.approx(truth, rel=1e-9)


def test_a_record_that_has_no_answer_left_counts_among_the_others(rng, tmp_path):
    posterior, _, _ = make_posterior(rng, tmp_path, None)
    codes = posterior.microdata.codes.copy()
    codes[3] = [1, -1, -1, -1]
    changed = replace(posterior, microdata=with_codes(posterior.microdata, codes))
    release = prepare_release(changed, leave_out(LEVELS, 0))
    assert release.n_unseen == OTHERS + 1
    assert 3 not in release.unique_record


def test_missing_answers_are_drawn_among_what_leaves_the_record_possible(rng, tmp_path):
    """Joint frequencies of all missing answers of two records, against every way to fill them."""
    posterior, _, possible = make_posterior(rng, tmp_path, RULES["several"])
    codes = posterior.microdata.codes[:2].copy()
    codes[0, [0, 1, 3]] = -1
    codes[1, 1:] = -1
    records = encode(with_codes(posterior.microdata, codes))
    problem = make_problem(records, np.arange(2), 100, Settings(), posterior.zeros)
    assert problem.records.answer_total.tolist() == [4, 4]
    seat = np.array([[0, 1, 0, 2], [0, 0, 1, 1]], np.uint8)
    label = np.array([[2, 0, 1, 0], [1, 2, 0, 0]], np.int32)
    profile = np.ascontiguousarray(posterior.draws[0][0].level_profile)
    start = records.level_start
    expected = [{}, {}]
    for i, cell in itertools.product(range(2), possible):
        if agree(codes[i], cell):
            weights = [profile[start[j] + x, label[i, seat[i, j]]] for j, x in enumerate(cell) if codes[i, j] < 0]
            expected[i][cell] = np.prod(weights)
    draws, out = 20_000, np.zeros_like(records.level)
    found = [Counter(), Counter()]
    for _ in range(draws):
        draw_missing(rng, problem.prior.rules, records.level, start, seat, label, profile, out)
        for i in range(2):
            found[i][tuple((out[i] - start[:-1]).tolist())] += 1
    for i in range(2):
        assert set(found[i]) <= set(expected[i])
        cells = [cell for cell in expected[i] if expected[i][cell] * draws >= 10 * sum(expected[i].values())]
        assert len(cells) > 2
        counts = [found[i][cell] for cell in cells]
        chances = np.array([expected[i][cell] for cell in cells])
        assert chisquare(counts, chances / chances.sum() * sum(counts)).pvalue > 1e-6


def make_frame(blank):
    rng = np.random.default_rng(8)
    keys = {name: rng.integers(0, size, 60).astype(str) for name, size in zip("ABCD", (9, 7, 6, 8), strict=True)}
    frame = pl.DataFrame(keys)
    if blank:
        for j, name in enumerate("ABCD"):
            hidden = pl.Series(rng.random(60) < 0.03 * (j + 1))
            frame = frame.with_columns(pl.when(hidden).then(pl.lit("")).otherwise(pl.col(name)).alias(name))
    return frame


@pytest.mark.parametrize("zeros", [None, "impossible: [{A: [0], B: [1, 2]}]\n"])
def test_nothing_missing_gives_the_same_numbers(tmp_path, zeros):
    path = None
    if zeros is not None:
        path = tmp_path / "rules.yaml"
        path.write_text(zeros)
    first, second = (
        keyhole.assess(make_frame(False), list("ABCD"), 400, zeros=path, drop_contradictions=True, missing=how, **QUICK)
        for how in ("category", "model")
    )
    assert first.records.equals(second.records)
    assert all(np.array_equal(first.draws[name], second.draws[name]) for name in first.draws)
    told = [dict(found.summary) for found in (first, second)]
    for summary in told:
        del summary["seconds"], summary["settings"]
        summary["quick"] = summary["quick"].model_copy(update={"seconds": 0.0})
        summary["input"] = {
            name: value
            for name, value in summary["input"].items()
            if name not in ("missing", "missing_answers", "records_with_missing", "undecided")
        }
    assert json.dumps(told[0], default=str) == json.dumps(told[1], default=str)


@pytest.mark.parametrize("rules", [None, "impossible: [{A: [0], B: [1, 2]}, {C: [2], D: [5]}]\n"])
def test_a_run_from_a_file_to_the_folder(tmp_path, capsys, rules):
    """From the command line, with and without rules; uniques by plain counting."""
    frame = make_frame(True)
    frame = pl.concat([frame, pl.DataFrame({name: [" "] for name in "ABCD"})])
    data, out = tmp_path / "data.csv", tmp_path / "out"
    frame.write_csv(data)
    command = ["assess", str(data), "--keys", "A,B,C,D", "--population", "400", "--missing", "model", "--out", str(out)]
    command += ["--chains", "2", "--max-sweeps", "40"]
    if rules is not None:
        (tmp_path / "rules.yaml").write_text(rules)
        command += ["--zeros", str(tmp_path / "rules.yaml"), "--drop-contradictions"]
    with pytest.raises(SystemExit) as status:
        main(command)
    assert status.value.code in (0, 3)
    found = keyhole.load(out)
    source = found.summary["input"]
    used = found.records["used"].to_numpy() == 1
    assert not used[60]
    assert source["dropped"] == 1
    rows = [[-1 if not x.strip() else int(x) for x in row] for row in frame.filter(pl.Series(used)).rows()]
    friends = [sum(agree(one, other) for other in rows) for one in rows]
    assert found.records.filter(pl.Series(used))["cell_count"].to_list() == friends
    assert source["sample_uniques"] == friends.count(1) > 0
    assert source["missing_answers"] == sum(row.count(-1) for row in rows)
    assert source["undecided"] > 0
    blank = np.array([min(row) < 0 for row in rows])
    alone = found.records.filter(pl.Series(used))["r1"].is_not_null().to_numpy()
    assert (alone & blank).any(), "a record with a missing answer has a risk"
    assert f"{source['undecided']} more records may be alone" in " ".join(capsys.readouterr().out.split())
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "agrees with it on all the values that both have" in page
    if rules is not None:
        assert found.summary["zeros"]["words"] == ["A is 0 and B is 1 or 2", "C is 2 and D is 5"]
        assert found.summary["zeros"]["words_declared"] == [False, False]
        assert "A is 0 and B is 1" not in page, "categories that only the records name"


def test_what_is_missing_after_reading():
    frame = pl.DataFrame(
        {"A": ["1", None, "2", " "], "B": ["x", "", "x", ""], "C": [20, None, 40, 61], "N": [1, 3, 2, 1]}
    )
    options = SourceOptions(count="N", bands={"C": [0, 30]})
    found = read_microdata(frame, ["A", "B", "C"], missing="model", options=options)
    assert [variable.categories for variable in found.variables] == [("1", "2"), ("0-29", "30+")]
    assert found.ignored == ("B",), "one category and blanks tell nobody apart"
    assert found.codes.tolist() == [[0, 0], [1, 1], [1, 1], [-1, 1]]
    assert found.row_used.tolist() == [True, False, True, True]
    assert found.reading["dropped"] == 3
    book = {"A": ["1", "2", ""], "C": [20, 40, 61]}
    listed = read_microdata(frame, ["A", "C"], book, missing="model")
    assert listed.codes.tolist() == [[0, 0], [2, -1], [1, 1], [2, 2]], "a blank that the codebook lists is a category"


def test_what_needs_every_answer_is_refused():
    with pytest.raises(SettingsError, match="does not support missing answers"):
        make_settings(missing="model", estimator="monte-carlo")
    with pytest.raises(SettingsError, match="`self_check` needs every answer"):
        keyhole.assess(make_frame(True), list("ABCD"), 400, missing="model", self_check=True)


@pytest.mark.parametrize("kind", ["csv", "floats in csv", "integers", "floats"])
def test_a_codebook_declares_what_means_missing(kind, tmp_path):
    """In text and in numbers, for its own variable only; counted, and the same from a result folder."""
    frame = pl.DataFrame({"A": [1, 2, 3, -9] * 10, "B": [-9, 1] * 20, "C": list(range(8)) * 5})
    if "floats" in kind:
        frame = frame.with_columns(pl.col("A").cast(pl.Float64))
    frame.write_csv(tmp_path / "x.csv")
    source = tmp_path / "x.csv" if "csv" in kind else frame
    book = {"A": {"categories": {1: "one", 2: "two", 3: "three"}, "missing": [-9]}}
    found = keyhole.assess(source, "A,B,C", 400, codebook=book, missing="drop", max_sweeps=20, chains=2)
    assert found.summary.input.dropped == 10
    assert found.summary.input.na.found == {"A": 10}
    assert found.summary.input.na.met == {"A": ["-9"]}
    assert found.summary.input.levels == {"A": 3, "B": 2, "C": 6}
    found.save(tmp_path / "r")
    assert keyhole.load(tmp_path / "r").what_if(drop=["C"], data=source) == found.what_if(drop=["C"])
    assert {item.name: item.blank for item in keyhole.inspect(source, book).variables} == {"A": 10, "B": 0, "C": 0}
    # A label may be called so.
    assert keyhole.data.read_codebook({"A": {"categories": "many", "missing": "none"}})["A"].labels == ("many", "none")
