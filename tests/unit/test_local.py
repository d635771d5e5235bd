"""Releases with single records changed; judge: populations simulated given a draw, counted record by record."""

import itertools

import numpy as np
import pytest

from keyhole.diagnostics.laws import law_of_uniques, thin_law
from keyhole.errors import SettingsError
from keyhole.risk.local import Items, alone_in_share, list_items, make_entries, make_local_steps, measure_items
from keyhole.risk.release import evaluate_release, make_coarsening, prepare_release
from tests.oracle import plain_cell_probability
from tests.unit.test_release import NAMES, OTHERS, RULES, make_posterior, publish

POPULATIONS = 40_000
CASES = {
    "removed": {"remove": [1, 4, 9]},
    "a twin removed": {"drop": ["D"], "remove": [2, 3, 5, 8, 13]},
    "a share": {"subsample": 0.4},
    "a share of a coarser release": {"drop": ["C"], "recode": {"D": [[1, 2]]}, "subsample": 0.5},
    "blanked": {"blank": {"B": [1, 2, 3, 7], "D": [2, 3, 9, 11]}},
    "blanked in a coarser release": {"recode": {"D": [[1, 2]]}, "blank": {"A": [1, 2, 5, 6], "B": [9, 12]}},
    "all values blanked": {"blank": {name: [1, 6] for name in NAMES}},
    "all together": {"recode": {"D": [[1, 3]]}, "blank": {"B": [1, 2, 3, 5]}, "remove": [2, 8, 9], "subsample": 0.6},
}


def simulate(rng, posterior, model, possible, case):
    """tau1 and tau2 of simulated populations, by the definitions."""
    draw, about = model
    drop, recode = case.get("drop", ()), case.get("recode", {})
    whole = np.array([plain_cell_probability(draw, about, cell) for cell in possible])
    codes = posterior.microdata.codes.tolist()
    n = len(codes)
    true = [dict(publish(cell, drop, recode)) for cell in codes]
    shown = [dict(row) for row in true]
    for name, rows in case.get("blank", {}).items():
        for row in rows:
            shown[row - 1].pop(name, None)
    table = [dict(publish(cell, drop, recode)) for cell in possible]
    agree = np.array([[row.items() <= cell.items() for cell in table] for row in shown], float)
    among = np.array([[row.items() <= other.items() for other in true] for row in shown])
    left = np.array([i for i in range(n) if i + 1 not in case.get("remove", ())])
    others = rng.multinomial(OTHERS, whole / whole.sum(), POPULATIONS) @ agree.T + among.sum(axis=1)
    published = np.zeros((POPULATIONS, n), bool)
    share = case.get("subsample")
    if share is None:
        published[:, left] = True
    else:
        size = max(round(share * len(left)), 1)
        order = np.argsort(rng.random((POPULATIONS, len(left))), axis=1)[:, :size]
        np.put_along_axis(published, left[order], True, axis=1)
    alone = published & (published.astype(float) @ among.T.astype(float) == 1)
    return (alone & (others == 1)).sum(axis=1), (alone / others).sum(axis=1)


def ask(posterior, case, draws):
    coarsening = make_coarsening(posterior.microdata.variables, case.get("drop", ()), case.get("recode"))
    asked = [case.get(name) for name in ("blank", "remove", "subsample")]
    local = make_local_steps(list(NAMES), coarsening.kept, *asked)
    return evaluate_release(posterior, prepare_release(posterior, coarsening, local), draws)


@pytest.mark.parametrize("rules", ["none", "several"])
@pytest.mark.parametrize("case", CASES)
def test_agrees_with_simulated_populations(rng, tmp_path, case, rules):
    posterior, made, possible = make_posterior(rng, tmp_path, RULES[rules], records=16, draws=1)
    found = ask(posterior, CASES[case], [0])
    for measure, values in zip(
        (found.tau1, found.tau2), simulate(rng, posterior, made[0], possible, CASES[case]), strict=True
    ):
        values = values.astype(float)
        assert values.mean() > 0.0, "the test would show nothing"
        error = values.std() / np.sqrt(POPULATIONS) + 1e-9
        assert abs(measure.expected.mean - values.mean()) < 4.5 * error
        # The variance of overlapping unions is that of Poisson counts.
        spread = ((values - values.mean()) ** 2).std() / np.sqrt(POPULATIONS)
        poisson = 0.12 * values.var() if "blank" in CASES[case] else 1e-9
        assert abs(measure.sd**2 - values.var()) < 4.5 * spread + poisson


def test_the_law_covers_what_is_simulated(rng, tmp_path):
    posterior, made, possible = make_posterior(rng, tmp_path, None, records=24, draws=1)
    case = {"blank": {"B": list(range(1, 20)), "D": list(range(5, 24))}, "subsample": 0.7}
    found = ask(posterior, case, [0])
    tau1, tau2 = simulate(rng, posterior, made[0], possible, case)
    for measure, values in ((found.tau1, tau1), (found.tau2, tau2)):
        low, high = measure.interval
        assert 0.93 < np.mean((values >= low) & (values <= high)) <= 1.0


def test_records_whose_unions_overlap_are_alone_together(rng):
    """(any, 0) and (1, any) share the cell (1, 0); without it the variances of both would be too small."""
    coarse, published = np.array([[0, 0], [1, 1]], np.int32), np.array([[-1, 0], [1, -1]], np.int32)
    items, drawn = list_items(coarse, published, np.zeros(2, bool), None)
    assert items.overlaps.tolist() == [[1, 0]]
    people, table = 400, np.array([[0.2, 0.1], [1.4, 0.1], [0.1, 0.3]]) / 400
    table = np.append(table.ravel(), 1.0 - table.sum())
    union, both = [(0, 2, 4), (2, 3)], (2,)
    q = np.array([table[list(cells)].sum() for cells in (*union, both)])
    found = measure_items(make_entries(q, None, people), items, drawn)
    counts = rng.multinomial(people, table, 400_000)
    others = np.stack([counts[:, list(cells)].sum(axis=1) for cells in union])
    for x, values in enumerate(((others == 0).sum(axis=0), (1.0 / (1.0 + others)).sum(axis=0))):
        assert found.expected[x] == pytest.approx(values.mean(), abs=4.5 * values.std() / np.sqrt(values.size))
        assert found.variance[x] == pytest.approx(values.var(), rel=0.02)
        alone = measure_items(make_entries(q * (1.0, 1.0, 0.0), None, people), items, drawn).variance[x]
        assert alone < 0.8 * values.var()


def test_removing_uniques_takes_exactly_their_risk_away(rng, tmp_path):
    posterior, _, _ = make_posterior(rng, tmp_path, RULES["several"], records=14)
    whole = ask(posterior, {}, None)
    gone = whole.unique_row[:3].tolist()
    left = ask(posterior, {"remove": gone}, None)
    assert left.unique_row.tolist() == whole.unique_row[3:].tolist()
    assert left.r1 == pytest.approx(whole.r1[3:], rel=1e-12)
    assert left.tau1.expected.mean == pytest.approx(whole.tau1.expected.mean - whole.r1[:3].sum(), rel=1e-12)
    assert left.tau2.expected.mean == pytest.approx(whole.tau2.expected.mean - whole.r2[:3].sum(), rel=1e-10)
    assert (left.removed, left.records) == (3, 11)


def test_removing_one_of_twins_keeps_tau1_and_raises_tau2(rng, tmp_path):
    posterior, _, _ = make_posterior(rng, tmp_path, None, records=30)
    codes = posterior.microdata.codes
    twins = next(
        (i, j) for i, j in itertools.combinations(range(30), 2)
        if (codes[i] == codes[j]).all() and (codes == codes[i]).all(axis=1).sum() == 2
    )  # fmt: skip
    before, after = ask(posterior, {}, None), ask(posterior, {"remove": [twins[0] + 1]}, None)
    assert after.tau1.expected.mean == pytest.approx(before.tau1.expected.mean, rel=1e-12)
    added = after.tau2.expected.mean - before.tau2.expected.mean
    assert 0.0 < added <= 0.5
    assert (twins[1] + 1) in after.unique_row


def test_risk_falls_with_every_value_blanked(rng, tmp_path):
    posterior, _, _ = make_posterior(rng, tmp_path, RULES["one box"], records=14)
    last = [np.inf, np.inf]
    for rows in ([1], [1, 2, 3], list(range(1, 9)), list(range(1, 15))):
        found = ask(posterior, {"blank": {"B": rows}}, None)
        means = [found.tau1.expected.mean, found.tau2.expected.mean]
        assert all(new <= old + 1e-12 for new, old in zip(means, last, strict=True))
        last = means


def test_conditions_are_judged_after_the_steps_before(rng, tmp_path):
    posterior, _, _ = make_posterior(rng, tmp_path, None, records=14)
    coarse = ask(posterior, {"drop": ["C"]}, None)
    limit = float(np.median(coarse.r1))
    found = ask(posterior, {"drop": ["C"], "remove": f"r1 > {limit:.6f}"}, None)
    assert found.removed == int((coarse.r1 > round(limit, 6)).sum()) > 0
    assert found.r1.max() <= limit + 1e-6
    everybody = ask(posterior, {"drop": ["C"], "remove": f"risk>{limit:.6f}"}, None)
    assert everybody.removed >= int((coarse.r2 > round(limit, 6)).sum())


@pytest.mark.parametrize("drawn", [None, (9, 5)])
def test_strata_agree_with_simulated_populations(rng, drawn):
    """Four cells of 1, 1, 2 and 3 released records, one of a pair removed; people of three strata."""
    people = np.array([30.0, 12.0, 200.0])
    q = rng.dirichlet([1, 1, 1, 1, 12], 3)[:, :4] * [[1], [0.5], [0.3]]
    known, released = np.array([1, 1, 3, 4]), np.array([1, 1, 2, 3])
    n, m = (9, 5) if drawn else (9, 9)
    own = released.astype(float)
    weight = own * alone_in_share(released, n, m) if drawn else np.where(released == 1, 1.0, 0.0)
    none = np.zeros((0, 2), np.int64)
    items = Items(np.zeros((4, 1), np.int32), np.arange(4), np.zeros(0, np.int32), known, released, weight, none,
                  np.zeros((0, 1), np.int32), 1.0)  # fmt: skip
    stratum = np.tile(np.arange(3), 4)
    entries = make_entries(q.T.ravel(), np.arange(0, 13, 3), people[stratum], stratum)
    found = measure_items(entries, items, drawn)
    rest = np.column_stack([q, 1.0 - q.sum(axis=1)])
    size = 300_000
    others = sum(rng.multinomial(int(people[s]), rest[s], size)[:, :4] for s in range(3))
    cell = np.repeat(np.arange(5), [*released, n - released.sum()])
    chosen = np.argsort(rng.random((size, n)), axis=1)[:, :m] if drawn else np.tile(np.arange(n), (size, 1))
    counts = np.stack([(cell[chosen] == c).sum(axis=1) for c in range(4)], axis=1)
    once = counts == 1
    tau1 = ((released == 1) & (known == 1) & (others == 0)).sum(axis=1)
    tau2 = (once / (known + others)).sum(axis=1)
    for x, values in enumerate((tau1, tau2)):
        assert found.expected[x] == pytest.approx(values.mean(), abs=4.5 * values.std() / np.sqrt(size))
        spread = ((values - values.mean()) ** 2).std() / np.sqrt(size)
        assert found.variance[x] == pytest.approx(values.var(), abs=4.5 * spread + 0.01 * values.var())


def test_shares_of_records_are_those_of_all_subsets():
    """h(f) / f by listing every subset."""
    n, drawn = 7, 3
    for size in range(1, 8):
        hits = [
            0 in chosen and not any(x < size for x in chosen if x) for chosen in itertools.combinations(range(n), drawn)
        ]
        assert alone_in_share(np.array([size]), n, drawn)[0] == pytest.approx(np.mean(hits), abs=1e-12)


def test_thinning_is_hypergeometric(rng):
    r1 = rng.random((1, 3, 9))
    variance = (r1 * (1 - r1)).sum(axis=2)
    law = law_of_uniques(r1, r1, None, variance)
    thinned = thin_law(law, 12, 5)
    whole = np.concatenate([r1, np.zeros((1, 3, 3))], axis=2)
    counts = []
    for draw in whole[0]:
        alone = rng.random((60_000, 12)) < draw
        counts.append(np.take_along_axis(alone, np.argsort(rng.random(alone.shape), axis=1)[:, :5], axis=1).sum(axis=1))
    counts = np.concatenate(counts)
    for t, reached in zip(thinned.point, thinned.average(), strict=True):
        assert reached == pytest.approx((counts <= t).mean(), abs=4.5 * 0.5 / np.sqrt(len(counts)))
    assert thinned.expected.mean() == pytest.approx(5 / 12 * r1.sum(axis=2).mean())
    mass = np.diff(thinned.below, axis=2, prepend=0.0)
    spread = (mass * thinned.point**2).sum(axis=2) - (mass @ thinned.point) ** 2
    assert thinned.variance == pytest.approx(spread, rel=1e-6)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"remove": "r1"}, 'write a condition on risk, such as "r1>0.2"'),
        ({"remove": "r3>0.2"}, "`remove`"),
        ({"remove": [99]}, "row 99 is no row of the file"),
        ({"remove": list(range(1, 9))}, "leaves no record"),
        ({"subsample": 0.0}, "a share above 0"),
        ({"subsample": 1.5}, "a share above 0"),
        ({"blank": {"E": [1]}}, "'E' is not one of the keys"),
        ({"drop": ["A"], "blank": {"A": [1]}}, "'A' is dropped and blanked"),
    ],
)
def test_bad_steps_are_refused(rng, tmp_path, asked, message):
    posterior, _, _ = make_posterior(rng, tmp_path, None)
    with pytest.raises(SettingsError) as caught:
        ask(posterior, asked, None)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
