"""The model check: its counts by hand, its false alarms when the model is right, its alarms when it is not."""

import itertools
from collections import Counter

import numpy as np
import pytest
from scipy.stats import binom

from keyhole.diagnostics.laws import Estimate
from keyhole.kernels.state import Records
from keyhole.risk import check_fit
from keyhole.risk.advice import describe_fit, explain_fit, join_fit
from keyhole.risk.fit import (
    COUNTED,
    MOST_PAIRS,
    Check,
    TwoWay,
    check_counts,
    check_distances,
    check_unseen,
    choose_pairs,
    compare_margins,
    count_sizes,
    judge,
    left_out,
    split_files,
)
from keyhole.sampling import Trace
from keyhole.sampling.predict import make_draw
from keyhole.sampling.predictive import draw_replicates
from keyhole.settings import make_settings

LEVELS = (3, 4, 5)
START = np.concatenate([[0], np.cumsum(LEVELS)]).astype(np.int64)
SETTINGS = make_settings(seed=1)


def make_records(codes) -> Records:
    level = np.where(codes >= 0, codes + START[:-1], -1).astype(np.int32)
    return Records(level, (level >= 0).sum(axis=1), START)


def make_trace(weight, level_profile, record=(2.0, 1.0), sweeps=1) -> Trace:
    """A trace that is sure of its parameters: two chains with three equal draws."""
    profiles = level_profile.astype(np.float32)
    draw = make_draw(np.asarray(weight), profiles, np.array(record), np.ones(1), False, len(LEVELS))
    none = np.zeros((2, 3, 1), np.float32)
    return Trace(
        (1, 5), sweeps, 0, 3, {}, none, none, 1, ((draw,) * 3,) * 2, "exact", None, "gates", {}, 400, n_unseen=100
    )


def draw_parameters(rng, profiles=4, spread=0.5):
    weight = rng.dirichlet(np.ones(profiles))
    rows = [rng.dirichlet(np.full(d, spread), size=profiles).T for d in LEVELS]
    return weight, np.concatenate(rows)


def draw_file(rng, weight, level_profile, n, record=(2.0, 1.0)):
    """People of the model one by one, in plain Python."""
    people = []
    for _ in range(n):
        concentration, sizes, labels, person = rng.gamma(record[0]) / record[1], [], [], []
        for j, d in enumerate(LEVELS):
            chance = np.array([*sizes, concentration])
            t = rng.choice(len(chance), p=chance / chance.sum())
            if t == len(sizes):
                sizes.append(0)
                labels.append(rng.choice(len(weight), p=weight))
            sizes[t] += 1
            row = level_profile[START[j] : START[j + 1], labels[t]]
            person.append(rng.choice(d, p=row / row.sum()))
        people.append(person)
    return np.array(people, np.int32)


def test_cells_are_counted_by_size(tiny_codes):
    assert count_sizes(tiny_codes) == (2, 2, 0, 4)
    assert count_sizes(np.zeros((3, 2), np.int32)) == (0, 0, 1, 1)


@pytest.mark.parametrize(("replicates", "k"), [(40, 1), (78, 1), (79, 2), (100, 2)])
def test_the_interval_leaves_out_five_percent_at_most(replicates, k):
    assert left_out(replicates) == k
    assert 2 * k / (replicates + 1) <= 0.05


def simulate_learning(rng, weight, replicates, files, cells=4_000):
    """A Poisson count, and files simulated from a posterior of its rate that gives the file this weight."""
    rate = cells * (1.0 + rng.standard_normal() * (weight / (1.0 - weight) / cells) ** 0.5)
    observed = rng.poisson(rate)
    mean, variance = (1.0 - weight) * cells + weight * observed, weight * cells
    rates = mean + variance**0.5 * rng.standard_normal((replicates, 1))
    return observed, rng.poisson(rates, (replicates, files))


@pytest.mark.parametrize("weight", [0.0, 0.3, 0.6])
def test_scores_of_a_file_that_taught_the_parameters_are_standard_normal(rng, weight):
    """A conjugate case: the prior of the rate is as wide as the weight says."""
    scores, naive = [], []
    for _ in range(400):
        observed, drawn = simulate_learning(rng, weight, 60, 5)
        scores.append(check_counts([observed], drawn[:, :, None].astype(float))[0].score)
        naive.append((observed - drawn.mean()) / drawn[:, 0].std())
    # The standard deviation of 400 standard normal values has error 0.035; estimated variances widen them a little.
    assert 0.88 < np.std(scores) < 1.2
    expected = ((1.0 - weight) / (1.0 + weight)) ** 0.5
    assert abs(np.std(naive) - expected) < 0.13


def test_counts_by_hand():
    drawn = np.full((40, 3, 2), 100.0)
    same, other = check_counts([101, 97], drawn)
    assert (same.predicted.mean, same.predicted.interval, same.ok) == (100.0, (100, 101), True)
    assert not other.ok
    assert other.score < -3.0
    nobody = check_counts([0, 1], np.zeros((40, 5, 2)))
    assert all(check.ok for check in nobody)
    assert not check_counts([3], np.zeros((40, 5, 1)))[0].ok
    # Without further files of a draw, the variance of simulated files decides.
    spread = np.random.default_rng(1).poisson(100.0, (4_000, 1, 1)).astype(float)
    low, high = check_counts([100], spread)[0].predicted.interval
    assert abs(low - 73) < 2
    assert abs(high - 132) < 2


def test_a_draw_gives_as_many_files_as_there_are_people():
    drawn, others = np.zeros((3, 2), np.int32), np.ones((7, 2), np.int32)
    assert [len(codes) for codes in split_files(drawn, others)] == [3, 3, 3]
    assert len(split_files(drawn, others[:2])) == 1


def test_margins_agree_with_plain_counting(rng):
    sizes = (40, 40, 60)
    files = tuple(np.column_stack([rng.integers(-1, d, n) for d in LEVELS]).astype(np.int32) for n in sizes)
    *compared, others = files
    pairs = choose_pairs(LEVELS)
    assert pairs == [(0, 1), (0, 2), (1, 2)]
    distance, unseen, unseen_of = compare_margins(tuple(compared), others, pairs, LEVELS)
    for x, codes in enumerate(compared):
        alone = set()
        for p, (a, b) in enumerate(pairs):
            mine, theirs = (Counter((row[a], row[b]) for row in file.tolist()) for file in (codes, others))
            plain = sum((mine[cell] ** 0.5 - (theirs[cell] * 40 / 60) ** 0.5) ** 2 for cell in mine | theirs)
            assert distance[x, p] == pytest.approx(plain)
            new = {i for i, row in enumerate(others.tolist()) if not mine[row[a], row[b]]}
            assert unseen_of[x, p] == pytest.approx(len(new) * 40 / 60)
            alone |= new
        assert unseen[x] == pytest.approx(len(alone) * 40 / 60)


def test_pairs_are_limited():
    assert choose_pairs((2,)) == []
    assert choose_pairs((2_000, 2, 2_000)) == [(0, 1), (1, 2)]
    many = choose_pairs((2,) * 60)
    assert len(many) == MOST_PAIRS
    assert len(set(many)) == MOST_PAIRS
    assert choose_pairs((2,) * 25) == list(itertools.combinations(range(25), 2))


def test_distances_and_unseen_pairs_by_hand():
    low, high = np.full((40, 1), 10.0), np.full((40, 1), 11.0)
    assert check_unseen(np.hstack([low, low])).ok
    far = check_unseen(np.hstack([high, low]))
    assert (far.observed, far.predicted.mean, far.ok) == (11.0, 10.0, False)
    assert far.predicted.interval == pytest.approx((11.0 * 10.5 / 11.5,) * 2)
    nobody = check_unseen(np.zeros((40, 2)))
    assert (nobody.predicted.interval, nobody.ok) == ((0.0, 0.0), True)
    distance = np.stack([np.hstack([low, high]), np.hstack([low, low])], axis=1)
    found = check_distances(distance, [("A", "B"), ("A", "C")])
    assert found == TwoWay(1, 2, ("A", "C"), ok=False, named=(("A", "C"),))
    assert check_distances(distance[:, ::-1], [("A", "B"), ("A", "C")]) == TwoWay(0, 2, (), ok=True)
    assert check_distances(distance[:, :, :0], []).ok


def test_false_alarms_are_as_rare_as_they_should_be(rng):
    """With the parameters known the file is one of the simulated ones, exactly. Binomial bound at 1e-6 for each."""
    files, replicates = 120, 40
    alarms = Counter()
    for seed in range(files):
        weight, rows = draw_parameters(rng)
        records = make_records(draw_file(rng, weight, rows, 40))
        found = check_fit(make_trace(weight, rows), records, "ABC", make_settings(seed=seed))
        assert found.replicates == replicates
        checks = ("sample_uniques", "doubles", "triples", "distinct_cells", "unseen_pairs", "two_way")
        alarms.update(name for name in checks if not getattr(found, name).ok)
        alarms["any"] += not found.ok
    for name, total in alarms.items():
        # Four counts at 0.3 %; unseen pairs of both sides and margins of one side at 2 / (replicates + 1).
        counted = 0.003 if name in COUNTED else 2 / (replicates + 1)
        chance = 0.012 + 3 / (replicates + 1) if name == "any" else counted
        assert total <= binom.ppf(1 - 1e-6, files, chance), name


def test_a_model_that_smooths_too_much_is_noticed(rng):
    """Negative control: answers hang together, the model takes them as independent."""
    codes = np.repeat(rng.integers(0, 3, 200), 3).reshape(200, 3).astype(np.int32)
    weight, rows = np.ones(1), np.concatenate([np.bincount(codes[:, j], minlength=d) for j, d in enumerate(LEVELS)])
    found = check_fit(make_trace(weight, rows[:, None] / 200.0), make_records(codes), "ABC", SETTINGS)
    assert not found.ok
    assert not found.two_way.ok
    assert found.two_way.outside == 3
    assert not found.unseen_pairs.ok
    assert found.unseen_pairs.observed > found.unseen_pairs.predicted.interval[1]
    assert not found.distinct_cells.ok
    assert found.verdict == "does not fit"
    assert found.message.startswith("The model does not fit the file: do not rely on the interval.")
    assert found.exceptions == ()


def test_keys_without_which_counts_agree_are_named(rng):
    """The model has the first two keys right and takes the third, which follows from them, as independent."""
    levels = (6, 6, 12)
    start = np.concatenate([[0], np.cumsum(levels)]).astype(np.int64)
    pair = rng.integers(0, 6, (400, 2))
    codes = np.column_stack([pair, (2 * pair[:, 0] + 3 * pair[:, 1]) % 12]).astype(np.int32)
    rows = np.concatenate([np.bincount(codes[:, j], minlength=d) / 400.0 for j, d in enumerate(levels)])
    records = Records((codes + start[:-1]).astype(np.int32), np.full(400, 3), start)
    found = check_fit(make_trace(np.ones(1), rows[:, None]), records, "ABC", SETTINGS)
    assert found.verdict == "does not fit"
    assert found.without[0] == "C"
    assert "merge categories of C" in found.message


def test_the_verdict_has_three_states():
    ok, off = fine(1, 2, 3, True), fine(1, 5, 3, False)
    pairs, few, most = (TwoWay(x, 10, ("A", "B"), ok=not x, named=(("A", "B"),)) for x in (0, 2, 6))
    assert judge([ok] * 4, pairs, ok) == "fits"
    assert judge([ok] * 4, few, ok) == judge([ok] * 4, pairs, off) == "fits except"
    assert judge([ok] * 4, most, ok) == "does not fit"
    for x in range(4):
        assert judge([off if x == y else ok for y in range(4)], pairs, ok) == "does not fit"


def test_the_first_sentence_ends_with_the_verdict():
    said = {
        verdict: join_fit("Of 9 records 2 are alone.", {"verdict": verdict, "exceptions": [["A", "B"], ["A", "C"]]})
        for verdict in ("fits", "fits except", "does not fit")
    }
    assert said == {
        "fits": "Of 9 records 2 are alone, and the model fits the file.",
        "fits except": "Of 9 records 2 are alone, and the model fits the file except for the margins of A and B "
        "and of A and C.",
        "does not fit": "Of 9 records 2 are alone, but the model does not fit the file: do not rely on the interval.",
    }
    assert join_fit("None.", None) == "None."
    assert describe_fit("fits except", [["A", "B"]]).endswith("except for the margin of A and B")


def test_replicates_look_like_the_file_and_repeat(rng):
    weight, rows = draw_parameters(rng)
    codes = draw_file(rng, weight, rows, 30)
    codes[::7, 1] = -1
    records, places = make_records(codes), np.arange(30).repeat(2)
    trace = make_trace(weight, rows)
    first, again = (list(draw_replicates(trace, records, places, SETTINGS, None)) for _ in range(2))
    other = next(draw_replicates(trace, records, places, make_settings(seed=2), None))
    assert len(first) == 40
    for (file, others), (same, same_others) in zip(first, again, strict=True):
        assert np.array_equal(file, same)
        assert np.array_equal(others, same_others)
        for people, blank in ((file, codes < 0), (others, codes[places] < 0)):
            assert np.array_equal(people < 0, blank)
            assert (people < LEVELS).all()
    assert not np.array_equal(first[0][0], other[0])
    assert len(list(draw_replicates(make_trace(weight, rows, sweeps=10**6), records, places, SETTINGS, None))) == 100


def fine(low, observed, high, ok):
    return Check(observed, Estimate((low + high) / 2, (low, high)), ok)


FINE = fine(1, 5, 9, True)
COUNTS = dict.fromkeys(COUNTED, FINE) | {"sample_uniques": fine(690, 720, 740, True)}
FEW, MANY = ({**COUNTS, "sample_uniques": fine(690, x, 740, False)} for x in (680, 780))
PAIRED = {**COUNTS, "doubles": fine(20, 45, 40, False)}


@pytest.mark.parametrize(
    ("counts", "unseen", "two_way", "options", "words"),
    [
        (COUNTS, FINE, TwoWay(1, 45, ("A", "B"), True), {},
         ["The model fits the file. It expects 690 to 740 records that are alone in the sample; the file has 720.",
          "1 of 45 pairs of keys is further from the model than expected, A and B most. This may be chance."]),
        (COUNTS, FINE, TwoWay(0, 45, (), True), {}, ["has 720. Pairs of key values agree too."]),
        (FEW, FINE, TwoWay(1, 45, (), True), {},
         ["do not rely on the interval", "tau1 is likely too high", "`zeros`", "`self_check`", "in groups"]),
        (MANY, FINE, TwoWay(1, 45, (), True), {"prior": "paper"}, ["tau1 is likely too low", "`prior` adaptive"]),
        (PAIRED, FINE, TwoWay(0, 45, (), True), {},
         ["It expects 20 to 40 combinations of two records; the file has 45.", "in groups", "merge categories of SEX"]),
        (COUNTS, fine(30, 85, 70, False), TwoWay(1, 45, (), True), {"model": "mixed"},
         ["except for the margin of AGE and SEX", "Of 1,000 people drawn from the model 85 have a pair", "30 to 70",
          "too high", "`model` hdp", "merge rare categories of AGE or SEX"]),
        (COUNTS, fine(30, 10, 70, False), TwoWay(1, 45, (), True), {}, ["more rare pairs"]),
        (COUNTS, FINE, TwoWay(3, 45, ("AGE", "SEX"), False, (("AGE", "SEX"),)), {},
         ["except for the margin of AGE and SEX", "3 of 45 pairs of keys", "AGE with SEX"]),
        (COUNTS, FINE, TwoWay(0, 45, (), False, (("AGE", "SEX"),)), {}, ["taken together"]),
    ],
    ids=[
        "fits but for a pair", "fits", "too many expected", "too few expected", "more doubles", "unseen pairs",
        "rare pairs", "margins", "margins together",
    ],
)  # fmt: skip
def test_the_verdict_says_what_it_means_and_what_to_do(counts, unseen, two_way, options, words):
    verdict = judge(tuple(counts.values()), two_way, unseen)
    pairs = [("AGE", "SEX")] if verdict == "fits except" else []
    without = ["SEX"] if verdict == "does not fit" else []
    given = verdict, pairs, without, counts, unseen, two_way, 1000, make_settings(**options)
    message = explain_fit(*given, rules=False, finished=True)
    assert all(word in message for word in words), message
    assert ("What to do" in message) == (verdict != "fits")
    late = explain_fit(*given, rules=True, finished=False)
    assert "state which combinations" not in late
    assert ("run longer" in late) == (verdict != "fits")
