"""Weights of chains by how well they predict the records: each step against a judge of its own."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from keyhole.data import Variable
from keyhole.kernels.state import Records, no_rules
from keyhole.risk.diagnosis import weigh_groups
from keyhole.risk.stacking import choose_cells, find_log_densities, leave_one_out, maximise_score, weigh_chains
from keyhole.sampling import Trace, run_chains
from keyhole.sampling.events import describe_cells
from keyhole.sampling.layout import make_rules
from keyhole.settings import make_settings
from keyhole.zeros import Zeros, read_zeros

LEVELS = (4, 4, 4)
PEOPLE = 900
SHORT = {"chains": 2, "max_sweeps": 180, "seed": 4}


@pytest.fixture(scope="module")
def records() -> Records:
    """Ninety people who mostly give the same answer three times: a model that ignores this predicts badly."""
    rng = np.random.default_rng(11)
    first = rng.integers(0, 4, 90)
    codes = np.stack([np.where(rng.random(90) < 0.85, first, rng.integers(0, 4, 90)) for _ in LEVELS], axis=1)
    codes = codes[~((codes[:, 0] == 0) & (codes[:, 1] == 3))]
    start = np.concatenate([[0], np.cumsum(LEVELS)]).astype(np.int64)
    return Records((codes + start[:-1]).astype(np.int32), np.full(len(codes), 3), start)


@pytest.fixture(scope="module")
def zeros(tmp_path_factory) -> Zeros:
    path = tmp_path_factory.mktemp("rules") / "rules.yaml"
    path.write_text("impossible:\n  - {A: [0], B: [3]}\n")
    return read_zeros(path, tuple(Variable(name, tuple("0123")) for name in "ABC"))


def find_uniques(records: Records) -> np.ndarray:
    _, place, count = np.unique(records.level, axis=0, return_inverse=True, return_counts=True)
    return np.flatnonzero(count[place.ravel()] == 1).astype(np.int64)


def run(records: Records, zeros: Zeros | None = None, **changes) -> Trace:
    return run_chains(records, find_uniques(records), PEOPLE, make_settings(**SHORT | changes), zeros)


@pytest.fixture(scope="module")
def trace(records) -> Trace:
    return run(records)


@pytest.mark.parametrize("case", ["hdp", "mixed", "rules"])
def test_probabilities_from_a_trace_are_those_behind_its_risks(case, records, trace, zeros):
    rules = no_rules()
    if case == "mixed":
        trace = run(records, model="mixed", profiles=5)
    if case == "rules":
        trace = run(records, zeros)
        rules = make_rules(zeros.impossible, zeros.possible, records.level_start)
    cells = describe_cells(records.level[find_uniques(records)], records.level_start, None)
    draws = np.arange(trace.r1.shape[1])
    assert len(trace.draws[0]) == len(draws)
    found = find_log_densities(trace, draws, cells, rules)
    r1 = np.exp((PEOPLE - len(records.level)) * np.log1p(-np.exp(found)))
    # Profiles and risks are kept with seven digits.
    assert np.allclose(r1.transpose(0, 2, 1), trace.r1, rtol=1e-4, atol=1e-7)


def test_a_record_held_out_has_its_exact_probability(rng):
    """Categories with a Dirichlet(1) prior: without one record of category c the next is c with n_c / (n + C - 1)."""
    count = np.array([4, 9, 20, 40])
    draws = rng.dirichlet(count + 1, 4000)
    held_out, doubtful = leave_one_out(np.log(draws.T)[None])
    exact = np.log(count / (count.sum() + len(count) - 1))
    ratio = 1.0 / draws
    error = ratio.std(axis=0) / ratio.mean(axis=0) / np.sqrt(len(draws))
    assert (np.abs(held_out[0] - exact) / error < 4.5).all()
    assert not doubtful.any()
    # The negative control: the plain mean has seen the record, and 4.5 errors tell the difference.
    assert (np.abs(np.log(draws.mean(axis=0)) - exact) / error > 4.5).any()


def test_equal_draws_are_not_smoothed():
    held_out, doubtful = leave_one_out(np.full((2, 3, 30), -2.0))
    assert held_out == pytest.approx(-2.0)
    assert doubtful.all()


def test_weights_maximise_the_log_score(rng):
    log_density = rng.normal(0, 0.5, (4, 300))
    log_density[1] -= 0.5
    count = rng.integers(1, 5, 300)
    weights = maximise_score(log_density, count)

    def loss(w):
        return -(count * np.log(w @ np.exp(log_density))).sum() / count.sum()

    best = minimize(
        loss,
        np.full(4, 0.25),
        method="SLSQP",
        bounds=[(0, 1)] * 4,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        options={"ftol": 1e-12},
    )
    assert weights.sum() == pytest.approx(1.0)
    assert (weights >= 0).all()
    assert loss(weights) <= best.fun + 1e-7
    assert weights == pytest.approx(best.x, abs=1e-3)


def test_weights_do_not_depend_on_the_order_of_chains(rng):
    log_density = rng.normal(0, 0.5, (3, 100))
    count = np.ones(100, np.int64)
    assert maximise_score(log_density[::-1], count)[::-1] == pytest.approx(maximise_score(log_density, count))


def test_a_chain_that_predicts_badly_has_hardly_any_weight(records, trace):
    flat = tuple(draw._replace(level_profile=np.full_like(draw.level_profile, 0.25)) for draw in trace.draws[1])
    found = weigh_chains(replace(trace, draws=(trace.draws[0], flat)), records, no_rules())
    # A little of "every cell is as likely" helps with the odd record, so the weight need not be zero.
    assert found.weights[0] > 0.9
    # All draws are held in so short a run, so the law's mean is that of E(tau | draw).
    for name in ("tau1", "tau2"):
        means = trace.quantities[f"{name}_expected"].mean(axis=1)
        assert getattr(found, name).mean == pytest.approx(np.array(found.weights) @ means, rel=1e-6)
        ends = [trace.laws[name].interval((chain,)) for chain in range(len(means))]
        low, high = getattr(found, name).interval
        assert min(end[0] for end in ends) <= low <= max(end[0] for end in ends)
        assert min(end[1] for end in ends) <= high <= max(end[1] for end in ends)
    assert found.records == len(records.level)
    assert found.draws <= 50
    assert 0 <= found.unreliable <= 1
    assert "not the result" in found.note


def test_weights_of_groups_add_up(records, trace):
    from keyhole.risk import diagnose

    found = diagnose(trace)
    apart = replace(found, modes=2, groups=tuple(replace(found.groups[0], chains=(chain,)) for chain in (1, 2)))
    weighed = weigh_groups(apart, trace, records, None)
    assert sum(group.stacking for group in weighed.groups) == pytest.approx(1.0)
    assert [group.stacking for group in weighed.groups] == pytest.approx(weighed.stacking.weights)
    assert weigh_groups(replace(apart, modes=1), trace, records, None).stacking is None


def test_too_few_draws_or_too_many_variables_give_no_weights(records, trace):
    few = replace(trace, draws=tuple(chain[:24] for chain in trace.draws))
    assert weigh_chains(few, records, no_rules()) is None
    wide = Records(np.zeros((5, 20), np.int32), np.full(5, 20), np.arange(21))
    assert weigh_chains(trace, wide, no_rules()) is None
    blank = Records(np.full_like(records.level, -1), np.zeros_like(records.answer_total), records.level_start)
    assert weigh_chains(trace, blank, no_rules()) is None


def test_cells_are_those_of_complete_records_spread_over_the_file(rng):
    level = rng.integers(0, 50, (5000, 2)).astype(np.int32)
    level[::3, 1] = -1
    cells, count = choose_cells(Records(level, (level >= 0).sum(axis=1), np.array([0, 50, 100])), 100, 10)
    assert (cells >= 0).all()
    assert len(cells) <= 500
    assert len(cells) <= count.sum() <= 2000
