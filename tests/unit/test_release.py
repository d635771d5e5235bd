"""Risk of coarser releases; judge: the full table of cells, listed and summed by the oracle."""

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from keyhole.data import Microdata, Variable, encode, find_cells
from keyhole.errors import SettingsError
from keyhole.kernels.state import no_rules
from keyhole.risk.local import make_local_steps
from keyhole.risk.policies import find_policies, judge_release
from keyhole.risk.release import Posterior, evaluate_release, make_coarsening, prepare_release
from keyhole.sampling.events import leave_out, make_events
from keyhole.sampling.predict import predict
from keyhole.sampling.problem import make_problem
from keyhole.settings import Settings
from keyhole.zeros import read_zeros
from tests.oracle import plain_cell_probability
from tests.oracle.risk import match_probability, simulate_file_risk, unique_probability
from tests.unit.test_cells import freeze_plain, make_draw

OTHERS = 40
RECORDS = 8
RULES = {
    "none": None,
    "one box": "impossible:\n  - {A: [1], B: [2, 3]}\n",
    "several": "impossible: [{A: [1], B: [2, 3]}, {C: [2], D: [1]}, {B: [1], D: [3]}, {A: [2], C: [1], D: [2]}]\n",
    "one value left": "impossible:\n  - {D: [1, 2], A: [2]}\n  - {B: [2]}\n",
}
NAMES, LEVELS = "ABCD", (2, 3, 2, 3)
RELEASES = {
    "nothing": ((), {}),
    "without A": (("A",), {}),
    "without D": (("D",), {}),
    "without A, C": (("A", "C"), {}),
    "without A, B, D": (("A", "B", "D"), {}),
    "B merged": ((), {"B": [[1, 3]]}),
    "D all one": ((), {"D": [[1, 2, 3]]}),
    "B and D merged, C left out": (("C",), {"B": [[2, 3]], "D": [[3, 1]]}),
}


def make_posterior(rng, tmp_path, rules, finite=False, draws=3, records=RECORDS):
    """Records that obey the rules, and made-up draws in the layout of a Trace, with the oracle's own beside them."""
    variables = tuple(
        Variable(name, tuple(str(x + 1) for x in range(d))) for name, d in zip(NAMES, LEVELS, strict=True)
    )
    zeros = None
    possible = list(itertools.product(*map(range, LEVELS)))
    if rules is not None:
        (tmp_path / "rules.yaml").write_text(rules)
        zeros = read_zeros(tmp_path / "rules.yaml", variables)
        start = np.concatenate([[0], np.cumsum(LEVELS)])
        inside = [
            any(all(box[start[j] + x] for j, x in enumerate(cell)) for box in zeros.possible) for cell in possible
        ]
        possible = [cell for cell, kept in zip(possible, inside, strict=True) if kept]
    codes = np.array([possible[x] for x in rng.integers(0, len(possible), records)], np.int32)
    made = [make_draw(rng, LEVELS, profiles=4, finite=finite) for _ in range(draws)]
    drawn = tuple(freeze_plain(draw, model) for draw, model in made)
    used = np.ones(len(codes), np.bool_)
    microdata = Microdata(variables, *find_cells(codes.T, len(codes)), len(codes), used, (), "")
    return Posterior(microdata, zeros, OTHERS, (drawn,), 5, 2), made, possible


def publish(cell, drop, recode):
    """The cell as it is published, by the plainest of means."""
    shown = []
    for name, x in zip(NAMES, cell, strict=True):
        if name not in drop:
            group = next((g for g in recode.get(name, ()) if x + 1 in g), [x + 1])
            shown.append((name, min(group)))
    return tuple(shown)


def enumerate_risk(posterior, made, possible, drop, recode):
    """Mean r1 and r2 of every record that is alone in the coarse sample, by listing the whole table."""
    shown = [publish(cell, drop, recode) for cell in posterior.microdata.codes.tolist()]
    unique = [i for i, cell in enumerate(shown) if Counter(shown)[cell] == 1]
    r1, r2 = [], []
    for draw, model in made:
        whole = {cell: plain_cell_probability(draw, model, cell) for cell in possible}
        total = sum(whole.values())
        for i in unique:
            q = sum(p for cell, p in whole.items() if publish(cell, drop, recode) == shown[i]) / total
            r1.append(unique_probability(q, OTHERS))
            r2.append(match_probability(q, OTHERS))
    shape = (len(made), len(unique))
    return unique, np.reshape(r1, shape), np.reshape(r2, shape)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("rules", RULES)
def test_coarser_risk_is_that_of_the_summed_table(rng, tmp_path, rules, release):
    drop, recode = RELEASES[release]
    posterior, made, possible = make_posterior(rng, tmp_path, RULES[rules])
    unique, r1, r2 = enumerate_risk(posterior, made, possible, drop, recode)
    assert unique or len(drop) == 3, "the test would show nothing"
    found = evaluate_release(
        posterior, prepare_release(posterior, make_coarsening(posterior.microdata.variables, drop, recode))
    )
    assert (found.unique_row - 1).tolist() == unique
    assert found.sample_uniques == len(unique)
    assert found.r1 == pytest.approx(r1.mean(axis=0), rel=1e-9)
    assert found.r2 == pytest.approx(r2.mean(axis=0), rel=1e-9)
    assert found.tau1.expected.mean == pytest.approx(r1.sum(axis=1).mean() if unique else 0.0, rel=1e-9)
    assert found.tau2.expected.mean == pytest.approx(r2.sum(axis=1).mean() if unique else 0.0, rel=1e-9)


def test_policies_judge_a_release(rng, tmp_path):
    """The probability of a limit is that of the law of tau1; one on all records needs a release that only coarsens."""
    posterior, _, _ = make_posterior(rng, tmp_path, None, draws=1)
    coarsening = make_coarsening(posterior.microdata.variables, ["D"])
    found = evaluate_release(posterior, prepare_release(posterior, coarsening))
    policies = find_policies(["tau1.upper=1", "all.max=0.9"])
    one, largest = judge_release(posterior, coarsening, found, policies)
    alone = np.ones(1)
    for r1 in found.r1:
        alone = np.convolve(alone, [1.0 - r1, r1])
    # The counts of 40 people are not quite independent.
    assert one.probability == pytest.approx(alone[:2].sum(), abs=0.05)
    assert one.met == (found.tau1.interval[1] <= 1)
    assert largest.value <= 1.0
    local = make_local_steps(list(NAMES), coarsening.kept, remove=[1])
    changed = evaluate_release(posterior, prepare_release(posterior, coarsening, local))
    with pytest.raises(SettingsError, match="only coarsen keys"):
        judge_release(posterior, coarsening, changed, policies)


def test_mixed_model_and_its_one_concentration(rng, tmp_path):
    posterior, made, possible = make_posterior(rng, tmp_path, RULES["several"], finite=True, records=5)
    _, r1, _ = enumerate_risk(posterior, made, possible, ("B",), {})
    found = evaluate_release(
        posterior, prepare_release(posterior, make_coarsening(posterior.microdata.variables, ["B"]))
    )
    assert len(found.r1) > 0
    assert found.r1 == pytest.approx(r1.mean(axis=0), rel=1e-9)


def test_a_wrong_table_would_be_seen(rng, tmp_path):
    """Negative control: the rules must matter, and so must the variable left out."""
    posterior, made, possible = make_posterior(rng, tmp_path, RULES["several"])
    found = evaluate_release(posterior, prepare_release(posterior, leave_out(LEVELS, 1)))
    everything = list(itertools.product(*map(range, LEVELS)))
    _, wrong, _ = enumerate_risk(posterior, made, everything, ("B",), {})
    assert found.r1 != pytest.approx(wrong.mean(axis=0), rel=1e-3)
    _, right, _ = enumerate_risk(posterior, made, possible, ("B",), {})
    assert found.r1 == pytest.approx(right.mean(axis=0), rel=1e-9)


@pytest.mark.parametrize("rules", RULES)
def test_dropping_nothing_gives_exactly_the_full_risk(rng, tmp_path, rules):
    """To the last bit what a run computes for its sample uniques."""
    posterior, _, _ = make_posterior(rng, tmp_path, RULES[rules])
    release = prepare_release(posterior, leave_out(LEVELS, None))
    records = encode(posterior.microdata)
    problem = make_problem(records, release.unique_record, OTHERS + RECORDS, Settings(), posterior.zeros)
    for draw in posterior.draws[0]:
        full = predict(rng, draw, problem.cells, problem.prior.rules).q[: len(release.unique_record)]
        coarse = predict(rng, draw, release.events, posterior.rules).q
        assert coarse.tolist() == full.tolist()


def test_the_interval_is_predictive(rng, tmp_path):
    """Against everybody else simulated by the oracle; the mean is held to its Monte Carlo error."""
    posterior, made, possible = make_posterior(rng, tmp_path, RULES["one box"], draws=1)
    drop, others = ("D",), 8
    shown = [publish(cell, drop, {}) for cell in posterior.microdata.codes.tolist()]
    cells = [cell for cell, count in Counter(shown).items() if count == 1]
    draw, model = made[0]
    whole = {cell: plain_cell_probability(draw, model, cell) for cell in possible}
    total = sum(whole.values())
    q = np.array([sum(p for c, p in whole.items() if publish(c, drop, {}) == cell) / total for cell in cells])
    tau1, tau2 = simulate_file_risk(rng, q, others, 20_000)
    many = replace(posterior, draws=(posterior.draws[0] * 400,), n_unseen=others)
    found = evaluate_release(many, prepare_release(many, leave_out(LEVELS, 3)), range(400))
    for measure, simulated in ((found.tau1, tau1), (found.tau2, tau2)):
        error = simulated.std() * np.sqrt(1 / 1_200 + 1 / 20_000)
        assert abs(measure.mean - simulated.mean()) < 4.5 * error
        spread = np.sqrt((np.mean((simulated - simulated.mean()) ** 4) / simulated.var() ** 2 - 1) / 4 / 1_200)
        assert abs(measure.sd / simulated.std() - 1) < 4.5 * spread
    assert found.tau1.interval[0] < found.tau1.mean < found.tau1.interval[1]


def test_threads_and_seeds_change_no_number(rng, tmp_path):
    posterior, _, _ = make_posterior(rng, tmp_path, RULES["one box"], draws=7)
    release = prepare_release(posterior, leave_out(LEVELS, 0))
    found = [evaluate_release(replace(posterior, workers=workers), release).tau1 for workers in (1, 2, 5)]
    assert found[0] == found[1] == found[2]
    other = evaluate_release(replace(posterior, seed=6), release).tau1
    assert other == found[0]


@pytest.mark.parametrize("rules", ["none", "several"])
def test_a_missing_answer_confines_nothing(rng, tmp_path, rules):
    posterior, made, possible = make_posterior(rng, tmp_path, RULES[rules], draws=1)
    codes = np.array([[0, 0, -1, 2], [1, -1, 0, 0], [-1, 1, -1, 2], [-1, -1, -1, -1]], np.int32)
    boxes = None if posterior.zeros is None else posterior.zeros.possible
    events = make_events(codes, leave_out(LEVELS, None), LEVELS, boxes)
    found = predict(rng, posterior.draws[0][0], events, no_rules()).q
    draw, model = made[0]
    for row, value in zip(codes.tolist(), found, strict=True):
        cells = [c for c in possible if all(known in (-1, x) for known, x in zip(row, c, strict=True))]
        assert value == pytest.approx(sum(plain_cell_probability(draw, model, cell) for cell in cells), rel=1e-9)


def test_with_very_many_variables_probabilities_are_estimated(rng, tmp_path, monkeypatch):
    """As in a run; unbiased, so the mean of many estimates is held to its own error."""
    posterior, _, _ = make_posterior(rng, tmp_path, RULES["one box"], draws=1)
    release = prepare_release(posterior, leave_out(LEVELS, 3))
    draw, rules = posterior.draws[0][0], posterior.rules
    exact = predict(rng, draw, release.events, rules).q
    monkeypatch.setattr("keyhole.sampling.predict.EXACT_STEPS", 0)
    batches = np.array([predict(rng, draw, release.events, rules).q for _ in range(60)])
    error = batches.std(axis=0, ddof=1) / np.sqrt(60)
    assert (error > 0).any()
    assert (np.abs(batches.mean(axis=0) - exact) < 4.5 * error + 1e-12).all()


@pytest.mark.parametrize(
    ("drop", "recode", "message"),
    [
        (["AA"], {}, "did you mean 'A'"),
        (["A"], {"A": [[1, 2]]}, "dropped and recoded"),
        ([], {"X": [[1, 2]]}, "not one of the keys"),
        ([], {"B": [[1, 9]]}, "group 1: '9' is not a category of 'B'"),
        ([], {"B": [[1, 2], [2, 3]]}, "group 2 names a category twice"),
        ([], {"B": [1, 2]}, "group 1 is not a list"),
        ([], {"B": ["12"]}, "group 1 is not a list"),
    ],
)
def test_nonsense_is_refused(drop, recode, message):
    variables = [Variable(name, ("1", "2", "3")[:d]) for name, d in zip(NAMES, LEVELS, strict=True)]
    with pytest.raises(SettingsError, match=message):
        make_coarsening(variables, drop, recode)
