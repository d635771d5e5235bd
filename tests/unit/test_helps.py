"""What would help: the best single step for each key; judges: what-if for every step, and plain counting."""

import math
import shlex
from collections import Counter
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import keyhole
from keyhole.commands.flags import read_merges
from keyhole.data import Variable
from keyhole.report.sections import _option
from keyhole.risk import helps
from keyhole.risk.helps import ENOUGH, find_helps, list_steps, publish
from keyhole.risk.loss import count_categories, lose, lose_key
from keyhole.risk.release import evaluate_release, prepare_release, spread_draws
from keyhole.sampling.events import Coarsening, leave_out

pytestmark = pytest.mark.filterwarnings("ignore::keyhole.NotConvergedWarning")
QUICK = {"model": "classes", "max_sweeps": 80, "chains": 2, "population": 3_000, "seed": 3}
SIZES = {"AGE": 12, "SEX": 2, "JOB": 7, "EDU": 5}


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    rng = np.random.default_rng(6)
    jobs = [f"job{x}" for x in range(SIZES["JOB"])]
    return pl.DataFrame(
        {
            "AGE": rng.integers(0, SIZES["AGE"], 300),
            "SEX": rng.choice(["f", "m"], 300),
            "JOB": rng.choice(jobs, 300, p=[0.4, 0.25, 0.15, 0.1, 0.05, 0.03, 0.02]),
            "EDU": rng.integers(0, SIZES["EDU"], 300),
        }
    )


@pytest.fixture(scope="module")
def found(frame) -> keyhole.Assessment:
    return keyhole.assess(frame, list(SIZES), ordered=["AGE", "EDU"], **QUICK)


def coarse_column(frame, found, step):
    """The column of a key after the step, by name of group."""
    groups = {code: number for number, group in enumerate(step.merged) for code in group}
    return [groups.get(str(value), str(value)) for value in frame[step.name].to_list()]


def test_each_key_has_its_best_step(found, frame):
    """Of all steps in order of loss, the first whose bound takes away enough; its risk is that of what-if."""
    block = found.summary.helps
    assert [step.name for step in block] == list(SIZES)
    assert {step.step for step in block} - {"leave out"}, "the test would show little"
    for j, step in enumerate(block):
        share = found.summary.attribution.variables[j]
        if step.step == "leave out":
            assert step.tau1 == share.tau1_without
            assert step.share_lost == 1.0
            continue
        asked = found.what_if(recode={step.name: step.merged})
        assert step.sample_uniques == asked.sample_uniques
        # What-if uses more draws.
        assert step.tau1.mean == pytest.approx(asked.tau1.mean, rel=0.05)
        assert step.share_tau1 >= ENOUGH * share.share_tau1 - 1e-9
        assert 0.0 < step.share_lost < 1.0
        others = [name for name in SIZES if name != step.name]
        coarse = frame.select(others).with_columns(pl.Series("X", coarse_column(frame, found, step), dtype=pl.Object))
        rows = list(zip(*[coarse[name].to_list() for name in coarse.columns], strict=True))
        alone = [Counter(rows)[row] == 1 for row in rows]
        assert sum(alone) == step.sample_uniques


def test_what_is_chosen_loses_least_among_what_helps_enough(found):
    """Every step of every key evaluated, on the same draws."""
    posterior = found._posterior
    levels = posterior.microdata.levels
    draws = spread_draws(posterior.available, helps.FEW_DRAWS)

    def expect(coarsening):
        return evaluate_release(posterior, prepare_release(posterior, coarsening), draws).tau1.expected.mean

    whole = expect(leave_out(levels, None))
    counts = count_categories(posterior.microdata.cells, np.bincount(posterior.microdata.cell), levels)
    for j, step in enumerate(found.summary.helps):
        wanted = ENOUGH * (whole - expect(leave_out(levels, j)))
        every = list_steps(posterior.microdata.variables[j], counts[j])
        enough = [other for other in every if whole - expect(publish(levels, j, other.groups)) >= wanted]
        if step.step == "leave out":
            assert not enough
        else:
            least = min(enough, key=lambda other: other.loss)
            assert (step.step, step.loss) == (least.kind, pytest.approx(least.loss))


def test_the_steps_of_a_key():
    ordered = Variable("A", ("", *"012345"), orderable=(1, 7), ordered=True)
    count = np.array([3, 10, 20, 30, 20, 10, 5])
    steps = list_steps(ordered, count)
    assert [step.loss for step in steps] == sorted(step.loss for step in steps)
    groups = {step.groups: step.kind for step in steps}
    assert groups[((0,), (1, 2), (3, 4), (5, 6))] == "bands"
    assert groups[((0,), (1,), (2,), (3,), (4,), (5, 6))] == "top"
    assert groups[((0,), (1,), (2,), (3,), (4, 5, 6))] == "top"
    assert groups[((0,), (1, 2), (3,), (4,), (5,), (6,))] == "bottom"
    # The blank, which is no part of the order, is merged with nothing.
    assert all((0,) in groups for groups in groups)
    named = list_steps(replace(ordered, ordered=False), count)
    assert {step.kind for step in named} == {"rare"}
    assert named[0].groups == ((0, 6), (1,), (2,), (3,), (4,), (5,))
    assert all(len(step.groups) < 7 for step in named)
    assert list_steps(Variable("S", ("f", "m")), np.array([5, 7])) == []


def test_loss_is_counted_record_by_record(rng):
    cells = rng.integers(0, 4, (30, 2)).astype(np.int32)
    size = rng.integers(1, 6, 30)
    records = np.repeat(cells, size, axis=0)
    counts = count_categories(cells, size, (4, 4))
    groups = ((0, 2), (1,), (3,))
    bits = [
        math.log2((records[:, 0] % 2 == 0).sum() / (records[:, 0] == x).sum()) if x in (0, 2) else 0.0
        for x in records[:, 0].tolist()
    ]
    assert lose_key(counts[0], groups) == pytest.approx(np.mean(bits))
    share = np.bincount(records[:, 1]) / len(records)
    entropy = -(share[share > 0] * np.log2(share[share > 0])).sum()
    assert lose(counts, Coarsening((0,), (groups,))) == pytest.approx((np.mean(bits), entropy))
    assert lose(counts, leave_out((4, 4), None)) == (0.0, 0.0)
    assert lose_key(np.zeros(3, np.int64), None) == 0.0


def test_work_is_limited_by_sizes(found, monkeypatch):
    """Beyond the budgets keys are left out, and nothing else changes."""
    posterior = found._posterior
    levels = posterior.microdata.levels
    draws = spread_draws(posterior.available, 6)
    full, *without = (
        evaluate_release(posterior, prepare_release(posterior, leave_out(levels, j)), draws) for j in (None, 0, 1, 2, 3)
    )
    free = find_helps(posterior, full, without, draws)
    assert any(step.step != "leave out" for step in free)
    monkeypatch.setattr(helps, "BUDGET", 0.0)
    bound = find_helps(posterior, full, without, draws)
    assert {step.step for step in bound} == {"leave out"}
    assert [step.tau1.mean for step in bound] == [left.tau1.mean for left in without]


def test_nothing_to_estimate_means_nothing_to_help(frame):
    whole = keyhole.assess(frame, list(SIZES), **QUICK | {"population": 300})
    assert whole.summary.helps == []


def test_missing_answers_left_to_the_model_are_no_obstacle(frame):
    blank = frame.with_columns(pl.when(pl.int_range(300) % 9 > 0).then(pl.col("AGE")).alias("AGE"))
    found = keyhole.assess(blank, list(SIZES), missing="model", ordered="AGE", **QUICK)
    step = found.summary.helps[0]
    assert step.step in ("bands", "top", "bottom")
    assert step.tau1.mean == pytest.approx(found.what_if(recode={"AGE": step.merged}).tau1.mean, rel=0.05)


def test_the_option_in_the_report_means_the_same_step():
    """Names with commas, bars, quotes, and the blank."""
    merged = [["a,b", "", "it's"], ['5" pipe', "x|y"]]
    text = _option({"name": "A B", "merged": merged})
    option, value = shlex.split(text)
    assert option == "--merge"
    assert read_merges(None, None, (value,)) == {"A B": merged}
    assert _option({"name": "A B", "merged": []}) == "--drop 'A B'"
