"""Risks within strata, by enumeration and by simulated multinomials; probabilities by the oracle's set partitions."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from keyhole.data.strata import Strata
from keyhole.diagnostics.laws import law_of_uniques
from keyhole.kernels.freeze import Draw
from keyhole.kernels.risk import fill_risks, find_variances
from keyhole.kernels.strata import draw_strata_matches, fill_strata_law, measure_strata
from keyhole.sampling.events import Coarsening, leave_out
from keyhole.sampling.predict import make_draw as make_stored
from keyhole.sampling.strata import make_exposure, measure_exposure, predict_strata
from tests.oracle import plain_cell_probability
from tests.unit.test_cells import freeze_plain, make_draw

Z = 4.5
LEVELS = (2, 3, 2)
UNSEEN = np.array([4, 40, 9])


def measure(q, people):
    """Measure cells (cells, S) that may have people of every stratum."""
    cells, strata = q.shape
    r1, r2 = np.zeros(cells), np.zeros(cells)
    start, stratum = np.arange(cells + 1) * strata, np.tile(np.arange(strata), cells)
    found = measure_strata(q.reshape(-1), start, stratum, np.asarray(people), r1, r2)
    return r1, r2, found


def count_law(q, people):
    """The distribution of the number of people in a cell, by convolution of binomials."""
    law = np.ones(1)
    for q_s, people_s in zip(q, people, strict=True):
        terms = [math.comb(people_s, x) * q_s**x * (1.0 - q_s) ** (people_s - x) for x in range(people_s + 1)]
        law = np.convolve(law, terms)
    return law


CASES = {
    "small": ([1e-3, 0.02, 0.3], [4, 40, 9]),
    "tiny": ([1e-9, 1e-12, 1e-10], [400, 40, 9]),
    "certain": ([1.0, 0.0, 0.2], [4, 40, 9]),
    "large": ([0.4, 0.2, 0.7], [300, 500, 200]),
    "about the reach": ([0.05, 0.02, 0.04], [300, 500, 400]),
}


@pytest.mark.parametrize("case", CASES)
def test_risks_by_direct_summation(case):
    q, people = CASES[case]
    r1, r2, found = measure(np.array([q]), people)
    law = count_law(q, people)
    one_over = 1.0 / (1.0 + np.arange(len(law)))
    match, square = law @ one_over, law @ one_over**2
    assert r1[0] == pytest.approx(law[0], rel=1e-10, abs=1e-300)
    assert r2[0] == pytest.approx(match, rel=1e-12)
    expected = np.dot(q, people)
    # What the fixed number of people of each stratum takes away, as the head of kernels/strata.py says.
    count = (1.0 - match * (1.0 + expected)) / expected
    fixed = [people_s * (q_s * count) ** 2 for q_s, people_s in zip(q, people, strict=True)]
    assert found[3] == pytest.approx(max(square - match**2 - sum(fixed), 0.0), rel=1e-6, abs=1e-13)


def test_a_single_stratum_is_a_simple_random_sample(rng):
    q = np.exp(-12.0 * rng.random(50))
    r1, r2 = np.zeros(50), np.zeros(50)
    expected = fill_risks(q, 700, r1, r2)
    found = measure(q[:, None], [700])
    assert found[0].tolist() == r1.tolist()
    assert found[1].tolist() == r2.tolist()
    assert found[2] == pytest.approx((*expected, *find_variances(r1, r2, 700)), rel=1e-9)


def test_strata_that_are_alike_are_one(rng):
    """Equal q: the sum of binomials is one binomial, by quadrature as in closed form."""
    q = np.exp(-14.0 * rng.random(200))
    r1, r2 = np.zeros(200), np.zeros(200)
    expected = fill_risks(q, 1_000_000, r1, r2)
    found = measure(np.column_stack([q, q]), [900_000, 100_000])
    assert found[0] == pytest.approx(r1, rel=1e-9, abs=1e-300)
    assert found[1] == pytest.approx(r2, rel=1e-12)
    variances = find_variances(r1, r2, 1_000_000)
    assert found[2] == pytest.approx((*expected, *variances), rel=1e-5)


def simulate(rng, q, people, rounds):
    """tau1 and tau2 by simulating everybody, one multinomial for each stratum."""
    count = np.zeros((rounds, len(q)), np.int64)
    for s, unseen in enumerate(people):
        count += rng.multinomial(unseen, [*q[:, s], 1.0 - q[:, s].sum()], size=rounds)[:, :-1]
    return (count == 0).sum(axis=1), (1.0 / (1.0 + count)).sum(axis=1)


def test_means_variances_and_law_follow_multinomials(rng):
    """Several strata; without what their fixed numbers take away, the variance of tau1 is visibly too large."""
    rounds, cells, people = 40_000, 300, [40, 300, 150]
    q = rng.dirichlet(np.full(cells, 0.7), size=3).T * np.array([0.9, 0.7, 0.99])
    tau1, tau2 = simulate(rng, q, people, rounds)
    r1, _, found = measure(q, people)
    for x, drawn in enumerate((tau1, tau2)):
        assert abs(drawn.mean() - found[x]) < Z * drawn.std() / math.sqrt(rounds)
        # The cells' counts are taken as Poisson given their sums, which is off by a few per cent here.
        assert found[x + 2] == pytest.approx(drawn.var(), rel=0.06)
    assert (r1 * (1.0 - r1)).sum() > 1.12 * tau1.var()
    law = np.zeros(cells + 1)
    first, last = fill_strata_law(r1, found[2], law)
    counts = np.bincount(tau1, minlength=cells + 1) / rounds
    assert law[first:last].sum() == pytest.approx(1.0)
    assert np.abs(np.cumsum(law) - np.cumsum(counts)).max() < 0.02
    laws = law_of_uniques(r1[None, None], r1[None, None], None, np.array([[found[2]]]))
    assert laws.quantile(0.5) == np.argmax(np.cumsum(law) >= 0.5)


def test_predictive_draws_follow_a_simulated_population(rng):
    rounds, people = 20_000, np.array([30, 50])
    q = np.array([[0.001, 0.2], [0.02, 0.0], [0.3, 0.01], [0.1, 1e-5]])
    start, stratum = np.arange(5) * 2, np.tile([0, 1], 4)
    drawn = np.array([draw_strata_matches(rng, q.reshape(-1), start, stratum, people) for _ in range(rounds)])
    for x, expected in enumerate(simulate(rng, q, people, rounds)):
        for power in (1, 2):
            a, b = drawn[:, x] ** power, np.asarray(expected, float) ** power
            assert abs(a.mean() - b.mean()) < Z * math.sqrt((a.var() + b.var()) / rounds)
    # Negative control: people of the strata exchanged.
    wrong = simulate(rng, q, people[::-1], rounds)[1]
    assert abs(drawn[:, 1].mean() - wrong.mean()) > Z * drawn[:, 1].std() / math.sqrt(rounds)


def make_strata(keys=(), category=None, further=None, people=UNSEEN):
    """Strata with as many unseen people as given, of one record each."""
    count = len(people)
    return Strata(
        kind="strata",
        sizes="file",
        columns=("R",),
        cv_within=None,
        keys=tuple(keys),
        category=np.zeros((count, 0), np.int32) if category is None else np.array(category, np.int32),
        further=np.zeros(count, np.int64) if further is None else np.array(further),
        further_levels=0 if further is None else max(further) + 1,
        of_record=np.arange(count, dtype=np.int32),
        records=np.ones(count, np.int64),
        people=np.asarray(people) + 1,
    )


def published(cell, coarsening):
    """The cells of the full table of keys that look like this one when published."""
    members = []
    for j, d in enumerate(LEVELS):
        if j in coarsening.kept:
            place = coarsening.kept.index(j)
            members.append(range(d) if cell[place] < 0 else coarsening.groups[place][cell[place]])
        else:
            members.append(range(d))
    return list(itertools.product(*members))


def judge(draw, model, strata, cells, coarsening, possible):
    """P(c | s) and the risks by listing the whole table of keys and stratum, with the oracle's set partitions."""
    levels = (*LEVELS, strata.further_levels) if strata.further_levels else LEVELS
    table = {cell: plain_cell_probability(draw, model, cell) for cell in itertools.product(*map(range, levels))}
    q = np.zeros((len(cells), len(strata.people)))
    for s in range(len(strata.people)):

        def inside(cell, s=s):
            fixed = all(cell[j] == code for j, code in zip(strata.keys, strata.category[s], strict=True))
            return fixed and (not strata.further_levels or cell[-1] == strata.further[s]) and possible(cell)

        mass = sum(p for cell, p in table.items() if inside(cell))
        for c, cell in enumerate(cells):
            members = set(published(cell, coarsening))
            q[c, s] = sum(p for full, p in table.items() if inside(full) and full[: len(LEVELS)] in members) / mass
    return q


DESIGNS = {
    "not a key": {"further": [0, 1, 2]},
    "one key": {"keys": [1], "category": [[0], [1], [2]]},
    "two keys": {"keys": [2, 0], "category": [[0, 0], [1, 0], [0, 1]]},
    "a key and another column": {"keys": [0], "category": [[0], [0], [1]], "further": [0, 1, 1]},
}
RELEASES = {
    "as it is": leave_out(LEVELS, None),
    "without B": leave_out(LEVELS, 1),
    "A all one, B merged": Coarsening((0, 1, 2), (((0, 1),), ((0, 2), (1,)), ((0,), (1,)))),
}


@pytest.mark.parametrize("rules", [False, True])
@pytest.mark.parametrize("finite", [False, True])
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("design", DESIGNS)
def test_cells_within_strata(design, release, finite, rules, rng):
    """Exact sums, with rules and coarse cells; strata made of keys leave one stratum for a cell that has them all."""
    strata, coarsening = make_strata(**DESIGNS[design]), RELEASES[release]
    levels = (*LEVELS, strata.further_levels) if strata.further_levels else LEVELS
    oracle, model = make_draw(rng, levels, profiles=3, finite=finite)
    sizes = [len(groups) for groups in coarsening.groups]
    cells = np.array(list(itertools.product(*map(range, sizes))), np.int32)
    boxes = None
    if rules:
        boxes = np.array([[1, 0, 1, 0, 0, 1, 1], [0, 1, 1, 1, 1, 1, 0]], np.uint8)

    def possible(cell):
        return not rules or any(all(box[start + x] for start, x in zip((0, 2, 5), cell, strict=False)) for box in boxes)

    expected = judge(oracle, model, strata, cells.tolist(), coarsening, possible)
    exposure = make_exposure(strata, strata.unseen, cells, coarsening, LEVELS, boxes)
    found = predict_strata(rng, freeze_plain(oracle, model), exposure)
    spread = np.zeros_like(expected)
    cell = np.repeat(np.arange(len(cells)), np.diff(exposure.start))
    spread[cell, exposure.stratum] = found
    assert spread == pytest.approx(expected, rel=1e-9, abs=1e-15)
    assert len(found) == len(set(zip(cell, exposure.stratum, strict=True)))
    measured = measure_exposure(found, exposure)
    for c, q in enumerate(expected):
        law = count_law(q, UNSEEN)
        assert measured.r1[c] == pytest.approx(law[0], rel=1e-9)
        assert measured.r2[c] == pytest.approx(law @ (1.0 / (1.0 + np.arange(len(law)))), rel=1e-9)
    if release == "as it is" and not strata.further_levels:
        assert np.diff(exposure.start).max() <= 1


def test_one_table_and_particles_agree_with_exact_sums(rng, monkeypatch):
    """`classes` is a sum over profiles; beyond the exact sums events are estimated one by one."""
    strata = make_strata(further=[0, 1, 2])
    weight, rows = rng.dirichlet(np.ones(4)), np.concatenate([rng.dirichlet(np.ones(d), 4).T for d in (*LEVELS, 3)])
    cells = np.array(list(itertools.product(*map(range, LEVELS))), np.int32)
    exposure = make_exposure(strata, strata.unseen, cells, leave_out(LEVELS, None), LEVELS, None)
    mixture = make_stored(weight, rows, np.zeros(2), np.zeros(1), True, 4)
    found = predict_strata(rng, mixture, exposure).reshape(-1, 3)
    joint = weight * np.array(
        [np.prod([rows[s + x] for s, x in zip((0, 2, 5), c, strict=True)], axis=0) for c in cells]
    )
    expected = joint @ rows[7:].T / (rows[7:] @ weight)
    assert found == pytest.approx(expected, rel=1e-12)
    full = make_stored(weight, rows, np.array([2.0, 1.0]), np.ones(1), False, 4)
    exact = predict_strata(rng, full, exposure)
    monkeypatch.setattr("keyhole.sampling.strata.EXACT_STEPS", 0)
    assert predict_strata(rng, full, exposure) == pytest.approx(exact, rel=1e-12)


def test_a_stratum_that_is_all_in_the_file_adds_nobody(rng):
    strata = make_strata(further=[0, 1, 2], people=np.array([4, 0, 9]))
    cells = np.array([[0, 0, 0], [1, 2, 1]], np.int32)
    exposure = make_exposure(strata, strata.unseen, cells, leave_out(LEVELS, None), LEVELS, None)
    assert exposure.people.tolist() == [4, 9]
    assert exposure.column.tolist() == [0, 2, 0, 2]


PLANTED = {
    "M_s exchanged": lambda exposure: replace(exposure, people=exposure.people[::-1].copy()),
    "not divided by P(s)": None,
    "a stratum counted twice": lambda exposure: replace(exposure, people=exposure.people * np.array([1, 1, 2])),
    "a level counted twice": lambda exposure: replace(exposure, column=np.maximum(exposure.column, 1)),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bugs_show(bug, rng):
    """What the tests above compare differs by far more than they allow."""
    strata = make_strata(further=[0, 1, 2])
    oracle, model = make_draw(rng, (*LEVELS, 3), profiles=3, finite=False)
    draw: Draw = freeze_plain(oracle, model)
    cells = np.array(list(itertools.product(*map(range, LEVELS))), np.int32)
    exposure = make_exposure(strata, strata.unseen, cells, leave_out(LEVELS, None), LEVELS, None)
    right = measure_exposure(predict_strata(rng, draw, exposure), exposure)
    if PLANTED[bug] is None:
        q = predict_strata(rng, draw, exposure)
        mass = draw.level_profile[7:] @ draw.weight
        wrong = measure_exposure(q * mass[exposure.stratum], exposure)
    else:
        wrong_exposure = PLANTED[bug](exposure)
        wrong = measure_exposure(predict_strata(rng, draw, wrong_exposure), wrong_exposure)
    assert abs(wrong.expected[0] / right.expected[0] - 1.0) > 0.01
