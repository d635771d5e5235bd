"""The classical estimators: hand-computed cases, published numbers, brute force, and their own models simulated."""

import math
from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from scipy.stats import nbinom

from keyhole.classical import CLASSICAL, EstimatorError, estimate_classical, make_sample
from keyhole.classical import tables as tables_module
from keyhole.classical.individual import match_risk
from keyhole.classical.loglinear import Fitting, connect
from keyhole.classical.pitman import fit_pitman, log_likelihood, population_uniques
from keyhole.classical.pitman import match_risk as pitman_match
from keyhole.classical.poisson import measure_misfit, risk_alone, risk_match
from keyhole.classical.sample import Deadline
from keyhole.classical.tables import fit_table
from keyhole.classical.uniqueness import estimate_cells, slide_counts
from keyhole.data import Variable, read_microdata
from keyhole.zeros import read_zeros

LIMIT = 4.5  # standard errors; fewer than 30 comparisons here


def sample_of(codes, levels, population, zeros=None):
    """A sample whose categories are 0, 1, ... in variables A, B, ..."""
    names = [chr(65 + j) for j in range(len(levels))]
    frame = pl.DataFrame({name: codes[:, j] for j, name in enumerate(names)})
    book = {name: list(range(size)) for name, size in zip(names, levels, strict=True)}
    return make_sample(read_microdata(frame, names, book, names), population, zeros)


def clock():
    return Deadline(60.0)


def test_risk_of_poisson_counts_by_hand():
    mean = np.array([0.0, 0.5, 2.0])
    assert risk_alone(mean, 3.0) == pytest.approx([1.0, math.exp(-1.5), math.exp(-6.0)])
    assert risk_match(mean, 3.0) == pytest.approx([1.0, (1 - math.exp(-1.5)) / 1.5, (1 - math.exp(-6.0)) / 6.0])


def test_misfit_is_the_published_sum(rng):
    """Cell by cell, with derivatives taken by differences."""
    mean = 0.02 + rng.gamma(0.3, 2.0, 50)  # differences need means that are not tiny
    count = rng.poisson(rng.gamma(0.3, 2.0, 50))
    seen = count > 0
    found = measure_misfit(mean, mean[seen], count[seen], 4.0)
    for risk, value in ((risk_alone, found.tau1), (risk_match, found.tau2)):
        step = 1e-3 * mean
        first = (risk(mean + step, 4.0) - risk(mean - step, 4.0)) / (2 * step)
        second = (risk(mean + step, 4.0) - 2 * risk(mean, 4.0) + risk(mean - step, 4.0)) / step**2
        a, b = -mean * np.exp(-mean) * first, 0.5 * mean * np.exp(-mean) * second
        total = (a * (count - mean) + b * ((count - mean) ** 2 - count)).sum()
        assert value == pytest.approx(total / np.sqrt((a**2 * mean + 2 * b**2 * mean**2).sum()), rel=1e-3)


def test_misfit_is_standard_normal_under_its_model_and_large_under_another(rng):
    mean = rng.gamma(0.5, 0.4, 3000)
    right, wrong = [], []
    for _ in range(300):
        for means, found in ((mean, right), (rng.permutation(mean), wrong)):
            count = rng.poisson(means)
            seen = count > 0
            misfit = measure_misfit(mean, mean[seen], count[seen], 9.0)
            found.append((misfit.tau1, misfit.tau2))
    z = np.mean(right, axis=0) * math.sqrt(300)
    assert (np.abs(z) < LIMIT).all()
    spread = (np.var(right, axis=0) - 1.0) / math.sqrt(2.0 / 300)
    assert (np.abs(spread) < 2 * LIMIT).all()  # the statistics have heavier tails than the normal
    assert (np.mean(wrong, axis=0) > 10.0).all()


def test_fit_has_the_margins_and_no_interaction_of_three(rng):
    codes = rng.integers(0, [3, 2, 4], (400, 3)).astype(np.int32)
    terms = [(0, 1), (0, 2), (1, 2)]
    table = fit_table(codes, (3, 2, 4), terms, [], clock())
    dense = np.zeros(24)
    dense[table.place] = table.mean
    dense = dense.reshape(3, 2, 4)
    counts = np.zeros((3, 2, 4))
    np.add.at(counts, tuple(codes.T), 1)
    for axis in range(3):
        assert dense.sum(axis) == pytest.approx(counts.sum(axis), abs=2e-3)
    log = np.log(dense)
    third = log[:, 1, :] - log[:, 0, :]
    third = third[1:] - third[:-1]
    assert (third[:, 1:] - third[:, :-1]) == pytest.approx(0.0, abs=1e-9)


def test_main_effects_are_the_product_of_margins():
    codes = np.array([(0, 0), (0, 1), (0, 1), (1, 2), (1, 1)], dtype=np.int32)
    found = estimate_classical("loglinear-main", sample_of(codes, [2, 3], 50))
    # uniques (0,0), (1,2), (1,1): means 3*1/5, 2*1/5, 2*3/5; (1 - pi) / pi = 9
    mean = np.array([0.6, 0.4, 1.2])
    assert found.r1 == pytest.approx(np.exp(-9 * mean))
    assert found.tau2 == pytest.approx(((1 - np.exp(-9 * mean)) / (9 * mean)).sum())


def test_saturated_fit_is_the_table():
    codes = np.array([(0, 0), (0, 1), (0, 1), (1, 2), (1, 1)], dtype=np.int32)
    found = estimate_classical("loglinear-two-way", sample_of(codes, [2, 3], 50))
    assert found.tau1 == pytest.approx(3 * math.exp(-9.0))


def test_main_effects_hold_their_own_model(rng):
    """Independent keys: estimate less truth is 0 on average, in standard errors."""
    shares = [rng.dirichlet(np.ones(size)) for size in (6, 5, 4, 4, 3)]
    differences = []
    for _ in range(60):
        people = np.column_stack([rng.choice(len(share), 20_000, p=share) for share in shares]).astype(np.int32)
        rows = rng.choice(20_000, 500, replace=False)
        number = np.ravel_multi_index(tuple(people.T), (6, 5, 4, 4, 3))
        sample = sample_of(people[rows], (6, 5, 4, 4, 3), 20_000)
        count = np.bincount(number)[number[rows[sample.unique_record]]]
        found = estimate_classical("loglinear-main", sample)
        differences.append((found.tau1 - (count == 1).sum(), found.tau2 - (1 / count).sum()))
    differences = np.array(differences)
    z = differences.mean(0) / (differences.std(0, ddof=1) / math.sqrt(60))
    assert (np.abs(z) < LIMIT).all(), z


def test_forward_selection_finds_the_one_interaction_and_adds_none_without_need(rng):
    alone = rng.integers(0, [4, 4, 5, 6, 5], (800, 5)).astype(np.int32)
    assert estimate_classical("loglinear-forward", sample_of(alone, (4, 4, 5, 6, 5), 8000)).details["interactions"] == 0
    tied = alone.copy()
    tied[:, 1] = np.where(rng.random(800) < 0.97, tied[:, 0], tied[:, 1])
    sample = sample_of(tied, (4, 4, 5, 6, 5), 8000)
    found = estimate_classical("loglinear-forward", sample)
    assert found.details["interactions"] >= 1
    assert found.details["b1"] < 1.96 < estimate_classical("loglinear-main", sample).details["b1"]


def test_pieces_multiply_to_the_whole_fit(rng):
    codes = rng.integers(0, [3, 3, 2, 2], (300, 4)).astype(np.int32)
    sample = sample_of(codes, (3, 3, 2, 2), 3000)
    fitting = Fitting(sample, clock())
    pieces = fitting.fit([(0, 2)])
    assert sorted(pieces) == [(0, 2), (1,), (3,)]
    whole = fit_table(codes, (3, 3, 2, 2), [(0, 2), (1,), (3,)], [], clock())
    assert fitting.at(pieces, codes) == pytest.approx(whole.at(codes), rel=1e-6)
    assert connect(range(5), [(0, 1), (3, 4), (1, 3)]) == [(0, 1, 3, 4), (2,)]


@pytest.fixture
def rules(tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text("impossible:\n  - {A: [0], B: [1, 2]}\n  - {B: [0], C: [1]}\n")
    names = [Variable(name, tuple(map(str, range(size)))) for name, size in (("A", 3), ("B", 3), ("C", 2))]
    return read_zeros(path, names)


def test_rules_leave_impossible_cells_without_mean(rules, rng):
    codes = rng.integers(0, [3, 3, 2], (600, 3)).astype(np.int32)
    bad = ((codes[:, 0] == 0) & (codes[:, 1] > 0)) | ((codes[:, 1] == 0) & (codes[:, 2] == 1))
    codes = codes[~bad]
    table = fit_table(
        codes, (3, 3, 2), [(0,), (1,), (2,)], tables_module.split_levels(rules.impossible, (3, 3, 2)), clock()
    )
    assert len(table.place) == 18 - rules.impossible_cells
    assert table.mean.sum() == pytest.approx(len(codes), abs=0.01)
    sample = sample_of(codes[:40], (3, 3, 2), 400, rules)
    # Main effects over boxes and over the list of possible cells are the same fit.
    small = fit_table(
        codes[:40], (3, 3, 2), [(0,), (1,), (2,)], tables_module.split_levels(rules.impossible, (3, 3, 2)), clock()
    )
    unique = sample.codes[sample.unique_record]
    assert estimate_classical("loglinear-main", sample).r1 == pytest.approx(np.exp(-9 * small.at(unique)), rel=1e-2)
    assert estimate_classical("loglinear-two-way", sample).tau1 >= 0.0


def test_too_large_a_table_is_refused_in_one_line(monkeypatch, rng):
    monkeypatch.setattr(tables_module, "CELL_LIMIT", 50)
    sample = sample_of(rng.integers(0, 5, (60, 4)).astype(np.int32), (5, 5, 5, 5), 600)
    with pytest.raises(EstimatorError, match="cells") as refused:
        estimate_classical("loglinear-two-way", sample)
    assert "\n" not in str(refused.value)
    assert estimate_classical("loglinear-main", sample).details["b1"] is None


def test_individual_risk_is_what_sdcmicro_publishes():
    """The example `francdat` of Capobianchi, Polettini and Lucarelli in sdcMicro's documentation."""
    count = np.array([2, 2, 2, 1, 1, 1, 1, 2])
    weight = np.array([110.0, 84.5, 84.5, 17.0, 541.0, 8.0, 5.0, 110.0])
    published = [0.01714426, 0.02204233, 0.02204233, 0.17707583, 0.01165448, 0.29706308, 0.40235948, 0.01714426]
    assert match_risk(count, count / weight) == pytest.approx(published, rel=1e-5)


@pytest.mark.parametrize("count", [1, 3, 39, 40, 60, 500])
def test_individual_risk_is_the_mean_over_the_negative_binomial(count):
    extra = np.arange(0, 200_000)
    exact = (nbinom.pmf(extra, count, 0.03) / (extra + count)).sum()
    assert match_risk(np.array([count]), np.array([0.03])) == pytest.approx(exact, rel=1e-9)


def test_survey_weights_replace_the_fraction():
    codes = np.array([(0, 0), (0, 1), (1, 1), (1, 1)], dtype=np.int32)
    plain = sample_of(codes, (2, 2), 40)
    weighted = make_sample(
        read_microdata(pl.DataFrame({"A": codes[:, 0], "B": codes[:, 1]}), "A,B"),
        40,
        weights=np.array([17.0, 8.0, 5.0, 10.0]),
    )
    assert estimate_classical("individual-risk", plain).tau1 == pytest.approx(0.2)
    assert estimate_classical("individual-risk", weighted).tau2 == pytest.approx(0.17707583 + 0.29706308)


def test_pitman_uniques_by_enumeration():
    """Five people join cells one after the other; all ways are followed."""
    alpha, theta = 0.4, 1.3
    states = {(): 1.0}
    for joined in range(5):
        after: dict[tuple[int, ...], float] = {}
        for sizes, chance in states.items():
            cells = [(size - alpha, (*sizes[:k], size + 1, *sizes[k + 1 :])) for k, size in enumerate(sizes)]
            cells.append((theta + alpha * len(sizes), (*sizes, 1)))
            for weight, new in cells:
                after[new] = after.get(new, 0.0) + chance * weight / (theta + joined)
        states = after
    exact = sum(chance * sum(size == 1 for size in sizes) for sizes, chance in states.items())
    assert population_uniques(alpha, theta, 5) == pytest.approx(exact)


def test_pitman_likelihood_by_hand_and_its_maximum(rng):
    sizes, count = np.array([1, 3]), np.array([2, 1])
    by_hand = math.log((2 + 0.5) * (2 + 1.0)) - math.log(3 * 4 * 5 * 6) + math.log(0.5 * 1.5)
    assert log_likelihood(0.5, 2.0, sizes, count) == pytest.approx(by_hand)
    sizes, count = np.array([1, 2, 3, 5, 9, 30]), np.array([60, 22, 9, 4, 2, 1])
    alpha, theta = fit_pitman(sizes, count, clock())
    top = log_likelihood(alpha, theta, sizes, count)
    for step_alpha, step_theta in rng.normal(0.0, 0.05, (50, 2)):
        moved = min(max(alpha + step_alpha, 0.01), 0.99), theta * math.exp(step_theta)
        assert log_likelihood(*moved, sizes, count) <= top + 1e-6


def test_pitman_predicts_what_it_simulates(rng):
    alpha, theta, people, records = 0.5, 20.0, 1000, 200
    alone, match, uniques = [], [], []
    for _ in range(80):
        sizes: list[int] = []
        cell = np.empty(people, dtype=np.int64)
        draws = rng.random(people)
        for i in range(people):
            # The new record opens a cell, or joins that of an earlier record (minus alpha for each cell).
            if draws[i] * (theta + i) < theta + alpha * len(sizes):
                cell[i] = len(sizes)
                sizes.append(1)
            else:
                while True:
                    other = cell[rng.integers(i)]
                    if rng.random() < 1.0 - alpha / sizes[other]:
                        break
                cell[i] = other
                sizes[other] += 1
        early = np.bincount(cell[:records], minlength=len(sizes))
        final = np.array(sizes)[early == 1]
        uniques.append(len(final))
        alone.append((final == 1).sum())
        match.append((1.0 / final).sum())
    tau1 = records / people * population_uniques(alpha, theta, people)
    z = (np.mean(alone) - tau1) / (np.std(alone) / math.sqrt(80))
    assert abs(z) < LIMIT
    difference = np.array(match) - np.array(uniques) * pitman_match(alpha, theta, records, people)
    assert abs(difference.mean() / (difference.std() / math.sqrt(80))) < LIMIT


def test_zayatz_by_hand():
    codes = np.array([(0,), (1,), (2,), (2,)], dtype=np.int32)
    found = estimate_classical("zayatz", sample_of(codes, (4,), 8))
    # H(1; 8, 1, 4) = 1/2 and H(1; 8, 2, 4) = 40/70
    assert found.tau1 == pytest.approx(2 * 1.0 / (1.0 + 4 / 7))
    assert found.tau2 == pytest.approx(2 * (1.0 + 2 / 7) / (1.0 + 4 / 7))
    assert found.details["population_uniques"] == pytest.approx(2 * found.tau1)


def test_number_of_cells_by_hand():
    """s_1 = 4, s_2 = 1, q = 1/2."""
    first = (4 * 0.25 + 2 * 0.25 * 0.75) / (4 * 0.5 * 0.5 + 0.25 * 1.25)
    second = (4 * 0.5 + 0.25) / (4 * 0.5 + 2 * 0.5 * 0.5)
    assert estimate_cells(np.array([1, 2]), np.array([4, 1]), 0.5) == pytest.approx(5 + 4 * first * second**2)


def test_number_of_cells_when_one_holds_thousands_of_records():
    """The formula as it is printed, in numbers without a largest one."""
    sizes, count, q = [1, 2, 20_000], [40, 10, 3], Decimal("0.05")
    cells = list(zip(sizes, count, strict=True))
    first = sum(i * q**2 * (1 - q**2) ** (i - 1) * s for i, s in cells)
    first /= sum((1 - q) ** i * ((1 + q) ** i - 1) * s for i, s in cells)
    second = sum((1 - q) ** i * s for i, s in cells) / sum(i * q * (1 - q) ** (i - 1) * s for i, s in cells)
    found = estimate_cells(np.array(sizes), np.array(count), float(q))
    assert found == pytest.approx(float(53 + 40 * first * second**2))


def test_slide_model_by_summation_and_solved():
    alpha, beta, cells, q = 0.3, 0.2, 500.0, 0.15
    size = np.arange(1, 4000)
    chance = nbinom.pmf(size - 1, alpha, beta)
    one = (chance * size * q * (1 - q) ** (size - 1)).sum() * cells
    two = (chance * size * (size - 1) / 2 * q**2 * (1 - q) ** (size - 2.0)).sum() * cells
    match = (chance * q * (1 - q) ** (size - 1)).sum() * cells
    assert slide_counts(alpha, beta, cells, q) == pytest.approx((cells * chance[0], match, one, two))
    codes = np.repeat(np.arange(60), [1] * 40 + [2] * 10 + [3] * 5 + [6] * 5).astype(np.int32)[:, None]
    sample = sample_of(codes, (60,), 600)
    found = estimate_classical("slide-negative-binomial", sample)
    solved = slide_counts(
        found.details["alpha"], found.details["beta"], found.details["population_cells"], sample.fraction
    )
    assert solved[2:] == pytest.approx((40, 10), rel=1e-5)
    assert found.tau1 <= found.tau2 <= 40


def test_slide_model_without_pairs_says_so():
    codes = np.array([(0,), (1,), (2,), (2,), (2,)], dtype=np.int32)
    with pytest.raises(EstimatorError, match="two records"):
        estimate_classical("slide-negative-binomial", sample_of(codes, (3,), 10))


def test_dankar_follows_the_rule():
    codes = np.repeat(np.arange(60), [1] * 40 + [2] * 10 + [3] * 5 + [6] * 5).astype(np.int32)[:, None]
    assert estimate_classical("dankar", sample_of(codes, (60,), 2000)).details["chosen"] == "pitman"
    half = sample_of(codes, (60,), 210)
    both = [estimate_classical(name, half).tau1 for name in ("zayatz", "slide-negative-binomial")]
    assert estimate_classical("dankar", half).tau1 == pytest.approx(min(both))


def test_k_anonymity_counts():
    codes = np.repeat(np.arange(4), [1, 2, 4, 5]).astype(np.int32)[:, None]
    assert estimate_classical("k-anonymity", sample_of(codes, (4,), 100)).details == {
        "below_2": 1,
        "below_3": 3,
        "below_5": 7,
    }


@pytest.mark.parametrize("name", [name for name in CLASSICAL if name != "k-anonymity"])
def test_what_is_certain_is_not_estimated(name):
    codes = np.array([(0, 0), (0, 1), (1, 1), (1, 1)], dtype=np.int32)
    assert estimate_classical(name, sample_of(codes, (2, 2), 4)).tau1 == 2.0
    assert estimate_classical(name, sample_of(codes[2:], (2, 2), 9)).tau2 == 0.0


@pytest.mark.parametrize("name", [name for name in CLASSICAL if name != "k-anonymity"])
def test_risks_are_probabilities_and_add_up(name, rng):
    codes = rng.choice(6, (300, 4), p=[0.4, 0.3, 0.15, 0.1, 0.04, 0.01]).astype(np.int32)
    sample = sample_of(codes, (6, 6, 6, 6), 3000)
    found = estimate_classical(name, sample)
    for tau, risks in ((found.tau1, found.r1), (found.tau2, found.r2)):
        assert 0.0 <= tau <= sample.uniques
        assert ((risks >= 0.0) & (risks <= 1.0)).all()
        assert risks.sum() == pytest.approx(tau)
    assert CLASSICAL[name].reference
    assert CLASSICAL[name].assumes
