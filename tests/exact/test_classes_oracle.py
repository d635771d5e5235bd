"""The judge of `classes` is judged: by hand, by definition, by weighted draws from the prior, and by limits."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tests.exact.classes_enumeration import CASES, CORNER, LEARNED, learned_answers, learned_risk, solve
from tests.exact.enumeration import chi_square_p
from tests.oracle.classes_oracle import (
    Lattice,
    LearnedPosterior,
    Urns,
    cell_moments,
    exact_posterior,
    make_hyper,
    partition_weights,
    possible_cells,
)
from tests.oracle.classes_sampler import (
    QUANTITIES,
    draw_log_dirichlet,
    draw_profile,
    draw_record,
    draw_record_by_rejection,
    draw_state,
    draw_state_given_partition,
    growth_string,
    measure,
    simulate_prior,
)
from tests.oracle.risk import count_expected_matches, count_population_uniques, sample_uniques
from tests.statistical.comparison import compare, p_values

LEVEL = 1e-6
PAIR = make_hyper(1.3, [1.2, 2.1], [[0.4, 0.6], [0.4, 0.6]])


def answers(exact):
    """All numbers of a posterior in one array."""
    return np.concatenate([[exact.evidence], exact.partition, exact.completion, exact.predictive, exact.risk])


# ---- by hand and by definition ----


def test_two_equal_records_by_hand():
    """One class: 1/2 x (1/2 x 2/3); two classes: 1/2 x 1/4."""
    exact = exact_posterior([(0,), (0,)], (2,), make_hyper(1.0, [2.0], [[0.5, 0.5]]))
    one, two = Fraction(1, 6), Fraction(1, 8)
    assert exact.evidence == pytest.approx(float(one + two), rel=1e-14)
    assert exact.classes == pytest.approx([0.0, float(one / (one + two)), float(two / (one + two))], rel=1e-14)


@pytest.mark.parametrize("rules", [(), CORNER, ({0: {1}},)], ids=["no rules", "corner", "category"])
def test_all_files_add_up_to_one(rules):
    files = itertools.product(possible_cells((2, 2), rules), repeat=3)
    profiles = Lattice((2, 2), PAIR, rules) if rules else Urns(PAIR)
    total = sum(partition_weights(file, PAIR.gamma, profiles)[1].sum() for file in files)
    assert total == pytest.approx(1.0, rel=1e-9)


def test_all_files_add_up_to_one_with_everything_learned():
    posterior = LearnedPosterior((2, 3))
    cells = list(np.ndindex(2, 3))
    total = sum(posterior.evidence(file) for file in itertools.product(cells, repeat=2))
    assert total == pytest.approx(1.0, rel=1e-7)


@pytest.mark.parametrize("name", ["two keys", "a corner is impossible"])
def test_risk_by_listing_everybody_else(name):
    """tau1 and tau2 are counted in every population of two more people, with its probability p(x, others) / p(x)."""
    case = CASES[name]
    profiles = Lattice(case.levels, case.hyper, case.rules) if case.rules else Urns(case.hyper)
    exact = exact_posterior(case.data, case.levels, case.hyper, case.rules, others=2)
    risk = np.zeros(2)
    for others in itertools.product(exact.cells, repeat=2):
        chance = partition_weights([*case.data, *others], case.hyper.gamma, profiles)[1].sum() / exact.evidence
        risk += chance * np.array(
            [count_population_uniques(case.data, others), count_expected_matches(case.data, others)]
        )
    assert exact.risk == pytest.approx(risk, rel=1e-9)


def test_moments_are_ratios_of_evidences():
    case = CASES["rules that overlap"]
    profiles = Lattice(case.levels, case.hyper, case.rules)
    partitions, weight = partition_weights(case.data, case.hyper.gamma, profiles)
    blocks = [[tuple(sorted(case.data[i] for i in block)) for block in partition] for partition in partitions]
    moments = [cell_moments(b, case.hyper.gamma, profiles, case.data[0], 2) for b in blocks]
    twice = partition_weights([*case.data, *case.data[:1] * 2], case.hyper.gamma, profiles)[1].sum()
    assert weight @ np.array(moments)[:, 2] == pytest.approx(twice, rel=1e-10)


# ---- limits, and two ways to the same number ----


def test_the_lattice_agrees_with_urns():
    case = CASES["six records"]
    lattice = Lattice(case.levels, case.hyper, ())
    one, other = (exact_posterior(case.data, case.levels, case.hyper, (), 12, way) for way in (lattice, None))
    assert answers(one) == pytest.approx(answers(other), rel=1e-9)


@pytest.mark.parametrize("name", ["a corner is impossible", "rules that overlap"])
def test_a_finer_lattice_changes_nothing(name):
    """Measured accuracy of every number with rules: better than 1e-9, relative."""
    case = CASES[name]
    fine = Lattice(case.levels, case.hyper, case.rules, refine=1.5)
    finer = exact_posterior(case.data, case.levels, case.hyper, case.rules, case.others, fine)
    assert answers(solve(case)[0]) == pytest.approx(answers(finer), rel=1e-9)


def test_an_impossible_category_is_one_category_less():
    """The rest of a Dirichlet row, divided by its sum, is the Dirichlet of the rest."""
    data = ((0, 1), (0, 1), (1, 0), (1, 1))
    less = exact_posterior(data, (2, 2), PAIR, others=12)
    wide = replace(PAIR, strength=[3.0, 2.1], base=[np.array([0.16, 0.24, 0.6]), PAIR.base[1]])
    more = exact_posterior(data, (3, 2), wide, ({0: {2}},), others=12)
    assert answers(more) == pytest.approx(answers(less), rel=1e-9)


def test_a_rule_on_what_never_happens_changes_nothing():
    """The difference falls in proportion to the probability of the impossible cell."""
    data, distance = ((0, 1), (1, 1), (1, 1)), []
    for rare in (1e-4, 1e-5):
        hyper = replace(PAIR, base=[PAIR.base[0], np.array([rare, 1.0 - rare])])
        pair = [exact_posterior(data, (2, 2), hyper, rules, 12) for rules in (CORNER, ())]
        distance.append(abs(pair[0].risk - pair[1].risk).max())
    assert 0.0 < distance[0] < 1e-3
    assert distance[1] == pytest.approx(distance[0] / 10.0, rel=0.01)


def test_missing_answers_can_be_left_out_without_rules():
    case = CASES["missing answers"]
    exact = solve(case)[0]
    _, weight = partition_weights(case.data, case.hyper.gamma, Urns(case.hyper))
    assert weight / weight.sum() == pytest.approx(exact.partition, rel=1e-12)
    assert weight.sum() == pytest.approx(exact.evidence, rel=1e-12)


# ---- by weighted draws from the prior, sticks broken and nothing integrated out ----


def draw_world(rng, levels, rules, hyper, learned, size, sticks):
    """gamma, log lambda (size, J), w (size, sticks) and P_k / s_k of the possible cells (size, sticks, cells)."""
    gamma, strength = np.full(size, hyper.gamma), np.tile(hyper.strength, (size, 1))
    base = [np.tile(b, (size, 1)) for b in hyper.base]
    if learned in ("gamma", "all"):
        gamma = rng.gamma(2.0, 1.0, size)
    for j in {"lambda": [0], "all": range(len(levels))}.get(learned, []):
        strength[:, j] = levels[j] * np.exp(1.5 * rng.standard_normal(size))
    if learned == "all":
        base = [rng.dirichlet(np.ones(d), size) for d in levels]
    left = rng.random((size, sticks)) ** (1.0 / gamma[:, None])
    left[:, -1] = 0.0  # the last class takes what is left
    weight = np.cumprod(np.hstack([np.ones((size, 1)), left[:, :-1]]), axis=1) * (1.0 - left)
    rows = [
        draw_log_dirichlet(rng, np.repeat((strength[:, j, None] * base[j])[:, None], sticks, axis=1))
        for j in range(len(levels))
    ]
    logs = np.stack(
        [sum(row[:, :, x] for row, x in zip(rows, c, strict=True)) for c in possible_cells(levels, rules)], -1
    )
    return gamma, np.log(strength), weight, np.exp(logs - np.logaddexp.reduce(logs, axis=2, keepdims=True))


def weigh(rng, data, levels, rules, hyper, learned, others, size, sticks=25):
    """Weight p(x | draw) of each draw; classes of the records, E tau, q and hyperparameters under it."""
    cells = possible_cells(levels, rules)
    gamma, log_strength, weight, probability = draw_world(rng, levels, rules, hyper, learned, size, sticks)
    q = np.einsum("rt,rtc->rc", weight, probability)
    importance, labels = np.ones(size), []
    for record in data:
        fits = [all(a in (-1, x) for a, x in zip(record, cell, strict=True)) for cell in cells]
        terms = weight * probability[:, :, fits].sum(axis=2)
        cumulative = np.cumsum(terms, axis=1)
        labels.append((cumulative < rng.random((size, 1)) * cumulative[:, -1:]).sum(axis=1))
        importance *= cumulative[:, -1]
    label = np.sort(np.array(labels), axis=0)
    total = 1 + (np.diff(label, axis=0) > 0).sum(axis=0)
    risk = np.zeros((size, 2))
    for cell in sample_uniques(data):
        if -1 not in cell:
            p = q[:, cells.index(cell)].clip(1e-12)
            risk[:, 0] += (1.0 - p) ** others
            risk[:, 1] += -np.expm1((others + 1) * np.log1p(-p.clip(max=1.0 - 1e-15))) / ((others + 1) * p)
    first = labels[0] == labels[-1]
    return importance, np.column_stack(
        [total[:, None] == np.arange(1, len(data) + 1), first, q, risk, np.log(gamma), log_strength]
    )


def z_scores(importance, found, evidence, exact):
    """Errors of the evidence and of the posterior means, in units of their Monte Carlo errors."""
    residuals = np.column_stack([importance - evidence, importance[:, None] * (found[:, : len(exact)] - exact)])
    error = residuals.std(axis=0) / math.sqrt(len(residuals))
    return residuals.mean(axis=0) / np.where(error > 0.0, error, 1.0)


DRAWS = 20_000


@pytest.mark.parametrize("name", CASES)
def test_weighted_draws_agree(rng, name):
    case = CASES[name]
    exact, log_hyper = solve(case)
    known = [*exact.classes[1:], sum(exact.partition[[row[0] == row[-1] for row in exact.labels]]), *exact.predictive]
    complete = not np.isnan(exact.risk[0])
    known += [*exact.risk] if complete else []
    importance, found = weigh(rng, case.data, case.levels, case.rules, case.hyper, case.learned, case.others, DRAWS)
    assert abs(z_scores(importance, found, exact.evidence, known)).max() < 4.5
    if case.learned:
        column = found[:, -len(case.levels) - 1 :][:, [{"gamma": 0, "lambda": 1}[case.learned]]]
        assert abs(z_scores(importance, column, exact.evidence, [log_hyper])).max() < 4.5


@pytest.mark.parametrize("name", LEARNED)
def test_weighted_draws_agree_with_everything_learned(rng, name):
    data, levels = LEARNED[name]
    exact = learned_answers(name)
    importance, found = weigh(rng, data, levels, (), PAIR, "all", 3, 2 * DRAWS)
    n, cells = len(data), math.prod(levels)
    chosen = [*range(n), *range(n + 1, n + 1 + cells), *range(-len(levels) - 1, 0)]
    known = [*exact.classes[1:], *exact.predictive, *exact.log_hyper]
    if name == "all learned":
        chosen += [n + 1 + cells, n + 2 + cells]
        known += [*learned_risk(name, 3)]
    assert abs(z_scores(importance, found[:, chosen], exact.evidence, known)).max() < 4.5


def test_a_wrong_gamma_is_noticed(rng):
    """Negative control: the weighted draws have another concentration."""
    case = CASES["six records"]
    exact = solve(case)[0]
    wrong = replace(case.hyper, gamma=1.5)
    importance, found = weigh(rng, case.data, case.levels, (), wrong, "", case.others, DRAWS)
    assert abs(z_scores(importance, found, exact.evidence, exact.classes[1:])).max() > 4.5


# ---- the sampler ----


@pytest.mark.parametrize("rules", [(), CORNER], ids=["no rules", "corner"])
def test_files_and_partitions_come_as_often_as_they_should(rng, rules):
    profiles = Lattice((2, 2), PAIR, rules) if rules else Urns(PAIR)
    expected, draws = {}, 5_000
    for file in itertools.product(possible_cells((2, 2), rules), repeat=3):
        partitions, weight = partition_weights(file, PAIR.gamma, profiles)
        for partition, p in zip(partitions, weight, strict=True):
            expected[file, tuple(sorted(map(tuple, partition)))] = draws * p
    names = {key: place for place, key in enumerate(expected)}
    observed = np.zeros(len(names), dtype=np.int64)
    for _ in range(draws):
        state = draw_state(rng, 3, (2, 2), rules, PAIR)
        blocks = {k: tuple(i for i in range(3) if state.label[i] == k) for k in state.label}
        observed[names[tuple(state.data), tuple(sorted(blocks.values()))]] += 1
    assert chi_square_p(observed, np.array(list(expected.values()))) > LEVEL


def test_records_are_those_of_rejection(rng):
    rows = draw_profile(rng, make_hyper(1.0, [9.0, 9.0], [[0.4, 0.6], [0.3, 0.7]]))
    possible = possible_cells((2, 2), CORNER)
    ways = (lambda: draw_record(rng, rows, possible), lambda: draw_record_by_rejection(rng, rows, CORNER))
    one, other = ([possible.index(draw()) for _ in range(4_000)] for draw in ways)
    count, again = (np.bincount(places, minlength=3) for places in (one, other))
    pooled = (count + again) / 2.0
    assert chi_square_p(np.append(count, again), np.append(pooled, pooled)) > LEVEL


def redraw(rng, state, rules, profiles):
    """Draw everything but the data again from the exact posterior."""
    partitions, weight = partition_weights(state.data, PAIR.gamma, profiles)
    chosen = partitions[rng.choice(len(weight), p=weight / weight.sum())]
    label = [next(k for k, block in enumerate(chosen) if i in block) for i in range(len(state.data))]
    return draw_state_given_partition(rng, growth_string(label), state.data, (2, 2), PAIR, rules)


def compare_with_exact_posterior(rng, rules, believed):
    profiles = Lattice((2, 2), PAIR, believed) if believed else Urns(PAIR)

    def draw(step, size):
        fresh = [list(simulate_prior(rng, 3, (2, 2), rules, PAIR).values()) for _ in range(size)]
        moved = [redraw(rng, draw_state(rng, 3, (2, 2), rules, PAIR), believed, profiles) for _ in range(size)]
        return np.array(fresh), np.array([list(measure(state, (2, 2), rules).values()) for state in moved])

    return compare(draw, QUANTITIES, first=1_000)


@pytest.mark.parametrize("rules", [(), CORNER], ids=["no rules", "corner"])
def test_the_exact_posterior_keeps_the_joint_law(rng, rules):
    verdict = compare_with_exact_posterior(rng, rules, rules)
    assert verdict.passed, verdict


def test_a_posterior_that_ignores_the_rules_is_noticed(rng):
    """Negative control."""
    assert not compare_with_exact_posterior(rng, CORNER, ()).passed


@pytest.mark.parametrize("blank", [0.0, 0.3])
def test_quantities_are_finite_and_vary(rng, blank):
    draws = [simulate_prior(rng, 4, (2, 3, 2), ({0: {0}, 1: {1, 2}},), blank=blank) for _ in range(300)]
    table = np.array([list(draw.values()) for draw in draws])
    assert np.isfinite(table).all()
    assert (table.std(axis=0) > 0.0).all()


def test_another_prior_of_the_hyperparameters_is_noticed(rng):
    """Negative control: hyperparameters fixed at the centre of their priors."""
    fixed = make_hyper(2.0, [2.0, 2.0], [[0.5, 0.5], [0.5, 0.5]])
    samples = [
        np.array([list(simulate_prior(rng, 4, (2, 2), CORNER, hyper).values()) for _ in range(1_000)])
        for hyper in (None, fixed)
    ]
    assert p_values(*samples).min() * len(QUANTITIES) < LEVEL
