"""The risk of every record; judges: the full table of cells summed by the oracle, and simulated populations."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom

import keyhole
from keyhole.errors import SettingsError
from keyhole.risk import all_records
from keyhole.risk.all_records import (
    Points,
    choose_points,
    evaluate_cells,
    find_record_risk,
    law_met,
    prepare_cells,
    probability_met,
    summarise_records,
)
from keyhole.risk.limits import parse_limits
from keyhole.risk.release import evaluate_release, make_coarsening, prepare_release
from keyhole.sampling.events import leave_out
from tests.oracle import plain_cell_probability
from tests.unit.test_release import LEVELS, OTHERS, RELEASES, RULES, make_posterior, publish

POINTS = Points((0.05, 0.3), (2, 4, 12))
Z = 4.5


def evaluate(posterior, coarsening, points=POINTS, **options):
    table = prepare_cells(posterior, coarsening, **options)
    found = evaluate_cells(posterior, table, points)
    records = find_record_risk(found, posterior.n_unseen, True)
    return found, records, summarise_records(found, records, posterior.n_unseen, "converged")


def list_cells(posterior, made, possible, drop, recode):
    """For each draw the probability of every record's coarse cell, by listing the whole table; and its f."""
    shown = [publish(cell, drop, recode) for cell in posterior.microdata.codes.tolist()]
    q = []
    for draw, model in made:
        whole = {cell: plain_cell_probability(draw, model, cell) for cell in possible}
        coarse = Counter()
        for cell, p in whole.items():
            coarse[publish(cell, drop, recode)] += p / sum(whole.values())
        q.append([coarse[cell] for cell in shown])
    return np.array(q), np.array([Counter(shown)[cell] for cell in shown]), shown


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("rules", RULES)
def test_every_record_by_the_summed_table(rng, tmp_path, rules, release):
    drop, recode = RELEASES[release]
    posterior, made, possible = make_posterior(rng, tmp_path, RULES[rules])
    q, size, _ = list_cells(posterior, made, possible, drop, recode)
    count = np.arange(OTHERS + 1)
    law = binom.pmf(count, OTHERS, q[:, :, None])  # (draw, record, X)
    people = size[:, None] + count
    risk = (law / people).sum(axis=2)
    found, records, block = evaluate(posterior, make_coarsening(posterior.microdata.variables, drop, recode))
    assert records.risk[records.cell] == pytest.approx(risk.mean(axis=0), rel=1e-9)
    assert block.expected_matches.mean == pytest.approx(risk.sum(axis=1).mean(), rel=1e-9)
    assert block.mean_risk == pytest.approx(risk.mean(), rel=1e-9)
    assert block.max_risk == pytest.approx(risk.mean(axis=0).max(), rel=1e-9)
    assert block.largest.mean == pytest.approx(risk.max(axis=1).mean(), rel=1e-9)
    for x in POINTS.above:
        assert block.above[f"{x:g}"] == (risk.mean(axis=0) > x).sum()
        assert block.exceeding[f"{x:g}"].mean == (risk > x).sum(axis=1).mean()
    for k in POINTS.k:
        fewer = (law * (people < k)).sum(axis=2)
        assert block.k[f"{k}"].mean == pytest.approx(fewer.sum(axis=1).mean(), rel=1e-9, abs=1e-12)
    assert (block.bounded, block.message, block.draws) == (0, "", len(made))
    assert found.largest[0] == pytest.approx(risk.max(axis=1), rel=1e-9)


def test_a_record_more_in_every_cell_would_be_seen(rng, tmp_path):
    """Negative control: f must count, beside the people who are not in the file."""
    posterior, made, possible = make_posterior(rng, tmp_path, None)
    q, size, _ = list_cells(posterior, made, possible, (), {})
    count = np.arange(OTHERS + 1)
    wrong = (binom.pmf(count, OTHERS, q[:, :, None]) / (size[:, None] + 1 + count)).sum(axis=2)
    _, records, _ = evaluate(posterior, leave_out(LEVELS, None))
    assert not np.allclose(records.risk[records.cell], wrong.mean(axis=0), rtol=1e-2)


def test_laws_are_those_of_simulated_populations(rng, tmp_path):
    """Everybody drawn from the summed table: matches of all records, and records in cells with F < k."""
    posterior, made, possible = make_posterior(rng, tmp_path, None, draws=1, records=14)
    q, _, shown = list_cells(posterior, made, possible, ("D",), {})
    probability = dict(zip(shown, q[0], strict=True))
    cells = list(probability)
    size = np.array([Counter(shown)[cell] for cell in cells])
    rest = 1.0 - sum(probability.values())
    rounds = 30_000
    drawn = rng.multinomial(OTHERS, [*probability.values(), max(rest, 0.0)], size=rounds)[:, :-1]
    people = size + drawn
    coarsening = make_coarsening(posterior.microdata.variables, ["D"], {})
    found, _, block = evaluate(posterior, coarsening, Points((0.05, 0.3), (2, 4, 7)))
    matches = (size / people).sum(axis=1)
    assert abs(matches.mean() - block.expected_matches.mean) < Z * matches.std() / math.sqrt(rounds)
    assert block.expected_matches.interval == pytest.approx(np.quantile(matches, [0.025, 0.975]), rel=0.06)
    for k, law in found.k.items():
        fewer = ((people < k) * size).sum(axis=1)
        below = np.array([(fewer <= x).mean() for x in law.point])
        # Cells are few here, and their counts, taken as Poisson given the sum, far from it.
        assert np.abs(below - law.average()).max() < 0.05
        for x in (0, 3, 8):
            assert law_met(law, x, True) == pytest.approx((fewer <= x).mean(), abs=0.05)


def test_uniques_have_the_risk_of_a_release(rng, tmp_path):
    posterior, _, _ = make_posterior(rng, tmp_path, RULES["several"])
    coarsening = leave_out(LEVELS, 1)
    release = prepare_release(posterior, coarsening)
    found = evaluate_release(posterior, release)
    _, records, _ = evaluate(posterior, coarsening)
    assert records.risk[records.cell[release.unique_record]].tolist() == pytest.approx(found.r2, rel=1e-12)


def test_with_everybody_in_the_file_risk_is_one_over_f(rng, tmp_path):
    posterior, _, _ = make_posterior(rng, tmp_path, None)
    for whole in (replace(posterior, n_unseen=0), replace(posterior, n_unseen=0, draws=())):
        _, records, block = evaluate(whole, leave_out(LEVELS, None))
        assert records.risk.tolist() == records.low.tolist() == records.high.tolist() == (1.0 / records.size).tolist()
        matches = block.expected_matches
        assert (matches.mean, *matches.interval) == pytest.approx((float(block.cells),) * 3)
        assert (block.bounded, block.draws, block.message) == (0, 0, "")
        few = int(records.size[records.size < 4].sum())
        assert (block.k["4"].mean, block.k["4"].interval) == (few, (few, few))
        assert block.largest.interval == (1.0, 1.0)


def test_without_draws_risks_are_bounded_and_it_is_said(rng, tmp_path):
    posterior, _, _ = make_posterior(rng, tmp_path, None)
    truth = evaluate(posterior, leave_out(LEVELS, None))[2]
    _, records, block = evaluate(replace(posterior, draws=()), leave_out(LEVELS, None))
    assert records.risk.tolist() == (1.0 / records.size).tolist()
    assert records.low.tolist() == (1.0 / (records.size + OTHERS)).tolist()
    assert "Nothing was sampled" in block.message
    low, high = block.expected_matches.interval
    assert low < truth.expected_matches.mean < high == block.cells
    assert block.k["12"].interval == (0, int(records.size[records.size < 12].sum()))
    assert block.largest.interval == (1.0 / (1 + OTHERS), 1.0)
    assert block.exceeding["0.3"].interval[0] == 0.0


def test_beyond_the_budget_the_largest_cells_are_bounded(rng, tmp_path):
    """What is evaluated keeps its numbers; what is left out is bounded from both sides."""
    posterior, _, _ = make_posterior(rng, tmp_path, None, records=40)
    coarsening = leave_out(LEVELS, 1)
    full, every, whole = evaluate(posterior, coarsening)
    found, records, block = evaluate(posterior, coarsening, budget=2e5)
    kept = found.table.evaluated
    assert 0 < len(kept) < len(full.table.evaluated)
    left = np.setdiff1d(np.arange(len(every.size)), kept)
    assert every.size[kept].max() <= every.size[left].min()
    assert records.risk[kept].tolist() == every.risk[kept].tolist()
    assert (records.risk[left] == 1.0 / every.size[left]).all()
    assert (records.risk >= every.risk).all()
    assert (records.low[left] < every.low[left]).all()
    assert block.bounded == len(left)
    assert f"{len(left)}" in block.message
    for name in ("expected_matches", "largest"):
        assert getattr(block, name).interval[0] <= getattr(whole, name).interval[0]
        assert getattr(block, name).interval[1] >= getattr(whole, name).interval[1]
    for k in block.k:
        assert block.k[k].interval[0] <= whole.k[k].interval[0]
        assert block.k[k].interval[1] >= whole.k[k].interval[1]


def test_sample_uniques_are_always_evaluated(rng, tmp_path):
    posterior, _, _ = make_posterior(rng, tmp_path, None, records=40)
    table = prepare_cells(posterior, leave_out(LEVELS, None), budget=1.0)
    assert table.size[table.evaluated].tolist() == [1] * int((table.size == 1).sum())


def test_risk_falls_as_a_release_gets_coarser(rng, tmp_path):
    """In every draw and for every record, with rules too (docs/model.md section 14)."""
    posterior, _, _ = make_posterior(rng, tmp_path, RULES["several"], records=30)
    last = None
    for drop, recode in (((), {}), ((), {"B": [[1, 3]]}), (("B",), {}), (("B", "D"), {}), (("A", "B", "D"), {})):
        found, records, block = evaluate(posterior, make_coarsening(posterior.microdata.variables, drop, recode))
        place = np.empty(len(records.size), int)
        place[found.table.evaluated] = np.arange(len(records.size))
        risk = found.match[:, :, place[records.cell]]
        assert block.expected_matches.mean == pytest.approx(risk.mean(axis=(0, 1)).sum())
        if last is not None:
            assert (risk <= last + 1e-12).all()
        last = risk


def test_chains_that_disagree_give_the_envelope(rng, tmp_path):
    posterior, _, _ = make_posterior(rng, tmp_path, None, draws=6)
    drawn = posterior.draws[0]
    posterior = replace(posterior, draws=(drawn[:3], drawn[3:]), grade="not converged")
    found = evaluate_cells(posterior, prepare_cells(posterior, leave_out(LEVELS, None)), POINTS)
    records = find_record_risk(found, OTHERS, False)
    block = summarise_records(found, records, OTHERS, "not converged")
    ends = [found.matches.interval((chain,)) for chain in (0, 1)]
    assert block.expected_matches.interval == (min(a for a, _ in ends), max(b for _, b in ends))
    assert block.largest.interval == (found.largest.min(), found.largest.max())
    limit = parse_limits([f"all.max={np.median(found.largest)}"])[0]
    by_chain = [(found.largest[chain] <= limit.threshold).mean() for chain in (0, 1)]
    assert probability_met(limit, found, pooled=False) == min(by_chain)
    assert probability_met(limit, found, pooled=True) == np.mean(by_chain)
    law = found.k[4]
    worst = min(law.average((chain,))[0] for chain in (0, 1))
    assert law_met(law, law.point[0], pooled=False) == pytest.approx(worst)


def test_limits_choose_what_is_counted():
    points = choose_points(parse_limits(["all.above.0.3=0", "all.k.7=1", "all.k.11.upper=0", "tau1=3", "all.max=.2"]))
    assert points.above == (0.05, 0.09, 0.1, 0.2, 0.3, 0.5)
    assert points.k == (2, 3, 5, 7, 11, 20)


def test_probabilities_of_limits(rng, tmp_path):
    posterior, _, _ = make_posterior(rng, tmp_path, None, draws=8)
    found, records, block = evaluate(posterior, leave_out(LEVELS, None))
    n = len(records.cell)
    mean = block.expected_matches.mean
    matches, average = parse_limits([f"all.matches={mean}", f"all.mean={mean / n}"])
    assert probability_met(matches, found, True) == pytest.approx(probability_met(average, found, True), abs=1e-9)
    assert 0.2 < probability_met(matches, found, True) < 0.8
    above = parse_limits(["all.above.0.3=2"])[0]
    assert probability_met(above, found, True) == (found.exceeding[0.3] <= 2).mean()
    sure, never = parse_limits([f"all.k.4={n}", "all.max=0"])
    assert (probability_met(sure, found, True), probability_met(never, found, True)) == (1.0, 0.0)


def test_missing_answers_left_to_the_model_have_no_answer(rng, tmp_path):
    posterior, _, _ = make_posterior(rng, tmp_path, None)
    cells = posterior.microdata.cells.copy()
    cells[0, 0] = -1
    posterior = replace(posterior, microdata=replace(posterior.microdata, cells=cells))
    assert prepare_cells(posterior, leave_out(LEVELS, None)) is None
    assert "missing" in all_records.MISSING


# ---- in a run ----

QUICK = {"model": "classes", "max_sweeps": 80, "chains": 2, "seed": 3}
QUIET = pytest.mark.filterwarnings("ignore::keyhole.NotConvergedWarning")


def make_frame(rows=200):
    rng = np.random.default_rng(5)
    frame = pl.DataFrame({name: rng.integers(0, size, rows) for name, size in zip("ABCD", (3, 5, 4, 6), strict=True)})
    return frame.with_columns(R=pl.Series(np.where(np.arange(rows) % 3, "north", "south")))


SIZES = pl.DataFrame({"R": ["north", "south"], "N": [1_200, 800]})
DESIGNS = {
    "simple": {"population": 2_000},
    "strata": {"strata": "R", "strata_sizes": SIZES},
    "rules": {"population": 2_000, "zeros": "A == 0 and B == 1", "drop_contradictions": True},
    "hdp": {"population": 2_000, "model": "hdp", "max_sweeps": 60},
}


@QUIET
@pytest.mark.parametrize("design", DESIGNS)
def test_the_columns_of_a_run_and_its_summary_agree(design):
    options = QUICK | DESIGNS[design]
    if "zeros" in options:
        options["zeros"] = [options["zeros"]]
    found = keyhole.assess(make_frame(), list("ABCD"), **options)
    block, records = found.summary.all_records, found.records.filter(pl.col("used") == 1)
    unique = records.filter(pl.col("sample_unique") == 1)
    assert len(unique) == found.summary.input.sample_uniques > 0
    for end in ("", "_low", "_high"):
        assert unique[f"risk{end}"].to_list() == unique[f"r2{end}"].to_list()
    risk = records["risk"].to_numpy()
    assert (risk <= 1.0 / records["cell_count"].to_numpy() + 1e-9).all()
    assert (records["risk_low"].to_numpy() <= risk + 1e-9).all()
    assert (risk <= records["risk_high"].to_numpy() + 1e-9).all()
    assert block.max_risk == risk.max()
    assert block.mean_risk == pytest.approx(risk.mean())
    assert block.expected_matches.mean == pytest.approx(risk.sum())
    assert block.above == {f"{x:g}": int((risk > x).sum()) for x in all_records.ABOVE}
    assert block.expected_matches.interval[0] < block.expected_matches.mean < block.expected_matches.interval[1]
    # Nobody but the record itself: alone in the sample and in the population.
    assert (block.k["2"].mean, block.k["2"].interval) == (found.tau1.mean, found.tau1.interval)
    means = [block.k[f"{k}"].mean for k in all_records.K]
    assert means == sorted(means)
    assert block.largest.mean >= block.max_risk - 0.05


@QUIET
def test_threads_change_no_number(tmp_path):
    one, two = (keyhole.assess(make_frame(), list("ABCD"), population=2_000, workers=x, **QUICK) for x in (1, 3))
    assert one.summary.all_records == two.summary.all_records
    assert one.records.equals(two.records)
    one.save(tmp_path / "r")
    again = keyhole.load(tmp_path / "r")
    assert again.summary.all_records == one.summary.all_records
    assert again.records["risk"].to_list() == one.records["risk"].to_list()


@QUIET
def test_a_run_with_missing_answers_says_why_there_is_no_risk_of_every_record():
    frame = make_frame().with_columns(pl.when(pl.int_range(200) % 9 > 0).then(pl.col("C")).alias("C"))
    found = keyhole.assess(frame, list("ABCD"), population=2_000, missing="model", **QUICK)
    assert found.summary.all_records is None
    assert found.summary.all_records_missing == all_records.MISSING
    alone = found.records["sample_unique"] == 1
    assert found.records["risk"].is_null().to_list() == (~alone).to_list()
    with pytest.raises(SettingsError, match=r"all\.max needs the risk of every record"):
        keyhole.assess(frame, list("ABCD"), population=2_000, missing="model", policy="ema-0070", **QUICK)
    full = keyhole.assess(make_frame(), list("ABCD"), population=2_000, missing="model", **QUICK)
    assert full.summary.all_records is not None
