"""The model check: its counts by hand, its false alarms when the model is right, its alarms when it is not."""

import itertools
from collections import Counter

import numpy as np
import pytest
from scipy.stats import binom

from keyhole.diagnostics.laws import Estimate
from keyhole.kernels.state import Records
from keyhole.risk import check_fit
from keyhole.risk.advice import explain_fit
from keyhole.risk.fit import (
    MOST_PAIRS,
    Check,
    TwoWay,
    check_count,
    check_distances,
    check_unseen,
    choose_pairs,
    compare_margins,
    count_sizes,
    left_out,
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
    drawn = np.random.default_rng(1).permutation(replicates).astype(float)
    found = check_count(float(replicates), drawn)
    assert found.predicted.interval == (k - 1, replicates - k)
    assert not found.ok
    assert check_count(k - 1.0, drawn).ok
    assert not check_count(k - 1.5, drawn).ok


def test_margins_agree_with_plain_counting(rng):
    sizes = (40, 40, 60)
    files = tuple(np.column_stack([rng.integers(-1, d, n) for d in LEVELS]).astype(np.int32) for n in sizes)
    *compared, others = files
    pairs = choose_pairs(LEVELS)
    assert pairs == [(0, 1), (0, 2), (1, 2)]
    distance, unseen = compare_margins(tuple(compared), others, pairs, LEVELS)
    for x, codes in enumerate(compared):
        alone = set()
        for p, (a, b) in enumerate(pairs):
            mine, theirs = (Counter((row[a], row[b]) for row in file.tolist()) for file in (codes, others))
            plain = sum((mine[cell] ** 0.5 - (theirs[cell] * 40 / 60) ** 0.5) ** 2 for cell in mine | theirs)
            assert distance[x, p] == pytest.approx(plain)
            alone |= {i for i, row in enumerate(others.tolist()) if not mine[row[a], row[b]]}
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
    assert found == TwoWay(1, 2, ("A", "C"), ok=False)
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
        # Three checks decide: two of both sides, one of one side.
        chance = 5 / (replicates + 1) if name == "any" else 2 / (replicates + 1)
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
    assert found.message.startswith("THE MODEL DOES NOT FIT.")


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


@pytest.mark.parametrize(
    ("uniques", "unseen", "two_way", "options", "words"),
    [
        (fine(690, 720, 740, True), fine(1, 5, 9, True), TwoWay(1, 45, ("A", "B"), True), {},
         ["The model expects 690 to 740 records that are alone in the sample; the file has 720.",
          "1 of 45 pairs of keys is further from the model than expected, A and B most. This may be chance."]),
        (fine(690, 720, 740, True), fine(1, 5, 9, True), TwoWay(0, 45, (), True), {},
         ["has 720. Pairs of key values agree too."]),
        (fine(690, 680, 740, False), fine(1, 5, 9, True), TwoWay(1, 45, (), True), {},
         ["DOES NOT FIT", "tau1 is likely too high", "`zeros`", "`self_check`"]),
        (fine(690, 780, 740, False), fine(1, 5, 9, True), TwoWay(1, 45, (), True), {"prior": "paper"},
         ["tau1 is likely too low", "`prior` adaptive"]),
        (fine(690, 700, 740, True), fine(30, 85, 70, False), TwoWay(1, 45, (), True), {"model": "mixed"},
         ["Of 1,000 people drawn from the model 85 have a pair", "30 to 70", "too high", "`model` hdp"]),
        (fine(690, 700, 740, True), fine(30, 10, 70, False), TwoWay(1, 45, (), True), {}, ["more rare pairs"]),
        (fine(690, 700, 740, True), fine(1, 5, 9, True), TwoWay(3, 45, ("AGE", "SEX"), False), {},
         ["3 of 45 pairs of keys", "AGE with SEX"]),
        (fine(690, 700, 740, True), fine(1, 5, 9, True), TwoWay(0, 45, (), False), {}, ["taken together"]),
    ],
    ids=[
        "fits but for a pair", "fits", "too many expected", "too few expected", "unseen pairs", "rare pairs", "margins",
        "margins together",
    ],
)  # fmt: skip
def test_the_verdict_says_what_it_means_and_what_to_do(uniques, unseen, two_way, options, words):
    message = explain_fit(uniques, unseen, two_way, 1000, make_settings(**options), rules=False, finished=True)
    assert all(word in message for word in words), message
    assert ("What to do" in message) == message.startswith("THE MODEL DOES NOT FIT. ")
    late = explain_fit(uniques, unseen, two_way, 1000, make_settings(**options), rules=True, finished=False)
    assert "say which combinations" not in late
    assert ("run longer" in late) == late.startswith("THE MODEL DOES NOT FIT YET. ") == ("What to do" in late)
