"""Plans: monotone risk, the search against brute force, hierarchies, suppression, and what is refused."""

import itertools
import json
import stat
import time

import numpy as np
import pytest

import keyhole as kh
from keyhole.data import Variable
from keyhole.data.order import note_order
from keyhole.errors import InputError, KeyholeError, OutputError, SettingsError
from keyhole.plan.hierarchies import read_hierarchies
from keyhole.plan.judge import Judge
from keyhole.plan.lattice import lose_entropy, make_lattice
from keyhole.plan.planning import make_plan, split_draws
from keyhole.plan.search import MET, MISSED, Search, decide, walk
from keyhole.plan.utility import measure_utility
from keyhole.risk.limits import read_limits
from keyhole.risk.local import LocalSteps
from keyhole.risk.release import evaluate_draws, evaluate_release, prepare_release
from tests.unit.test_release import RULES, make_posterior


def make_survey(n=500, seed=3):
    """A file with ordered and unordered keys that depend on each other."""
    import polars as pl

    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n)
    return pl.DataFrame(
        {
            "AGE": np.clip(kind * 2 + rng.poisson(2, n), 0, 8) + 1,
            "SEX": np.where(rng.random(n) < 0.5, "f", "m"),
            "WORK": np.clip(kind + rng.poisson(1, n), 0, 4) + 1,
            "PLACE": rng.choice(["north", "south", "west", "east", "isle"], n, p=[0.4, 0.3, 0.2, 0.07, 0.03]),
            "INCOME": rng.integers(1000, 9000, n),
        }
    )


@pytest.fixture(scope="module")
def survey():
    return make_survey()


@pytest.fixture(scope="module")
def assessed(survey):
    return kh.assess(survey, "AGE,SEX,WORK,PLACE", population=5000, quick=True, seed=2)


@pytest.fixture(scope="module")
def posterior(assessed):
    return assessed._posterior


CHANGES = [LocalSteps(), LocalSteps({0: (1, 2, 3)}), LocalSteps(remove=(4, 5))]


@pytest.mark.parametrize("rules", ["none", "several"])
def test_risk_falls_in_every_draw_as_a_release_gets_coarser(rng, tmp_path, rules):
    """All neighbours in the lattice, every draw, tau1 and tau2, every record and the sum of 1/F."""
    posterior, _, _ = make_posterior(rng, tmp_path, RULES[rules], records=14)
    variables = tuple(note_order(variable) for variable in posterior.microdata.variables)
    posterior = type(posterior)(**{**posterior.__dict__, "microdata": _with(posterior.microdata, variables)})
    lattice = make_lattice(posterior.microdata)
    assert lattice.size > 30
    found = {}
    for node in itertools.product(*map(range, lattice.shape)):
        release = prepare_release(posterior, lattice.coarsening(node))
        found[node] = release.unique_record.tolist(), evaluate_draws(posterior, release, range(3))
    compared = 0
    for node, (alone, draws) in found.items():
        for j, x in enumerate(node):
            for y in lattice.next_coarser(j, x):
                unique, coarse = found[(*node[:j], y, *node[j + 1 :])]
                assert set(unique) <= set(alone)
                place = [alone.index(i) for i in unique]
                for fine, merged in zip(draws, coarse, strict=True):
                    assert (merged.r1 <= fine.r1[place] + 1e-12).all()
                    assert (merged.r2 <= fine.r2[place] + 1e-12).all()
                    assert all(merged.expected[t] <= fine.expected[t] + 1e-12 for t in (0, 1))
                    compared += 1
    assert compared > 200


def _with(microdata, variables):
    from dataclasses import replace

    return replace(microdata, variables=variables)


@pytest.mark.parametrize("limit", ["tau1.upper=5", "tau1=2", "tau2.upper=12", "tau1.upper=1", "tau1.share=0.004"])
def test_the_plan_is_that_of_brute_force(posterior, limit):
    """Of a lattice of about 200 every release is evaluated: the plan is the one that meets the limit for the least."""
    limits = read_limits(limit)
    lattice = make_lattice(posterior.microdata, hierarchies=_levels(posterior))
    assert 150 < lattice.size < 300
    draws = split_draws(posterior)[0]
    judge = Judge(posterior, lattice, limits, draws)
    met = {}
    for node in itertools.product(*map(range, lattice.shape)):
        whole = judge.evaluate(node)
        assert judge.judge(node).met == whole.met
        met[node] = whole.met
    assert 0 < sum(met.values()) < len(met)
    expected = min((lattice.loss_of(node) for node, yes in met.items() if yes))
    judge.evaluations = 0
    search = Search(lattice, judge, time.monotonic() + 600)
    assert search.meets(lattice.coarsest)
    best = decide(search, walk(search, lambda node: judge.approximate(node, 4), lattice.finest))
    assert search.decided
    assert met[best]
    assert lattice.loss_of(best) == pytest.approx(expected, abs=1e-12)
    assert judge.evaluations < lattice.size / 2
    for node, yes in met.items():
        assert search.status[node] != (MISSED if yes else MET), "what was inferred is what is found"


def _levels(posterior):
    tree = {
        "AGE": [[[[1, 2], 3], [4, 5]], [[[6, 7], 8], 9]],
        "PLACE": [["north", "south"], ["west", ["east", "isle"]]],
    }
    return read_hierarchies(tree, posterior.microdata.variables)


def test_a_release_is_judged_as_an_assessment_would(posterior):
    """The sums over draws say the same as the interval of the averaged law, near the limit and far from it.

    Where chains disagree about a release alone, its interval is their envelope, which is looked at once it is chosen.
    """
    lattice = make_lattice(posterior.microdata)
    draws = split_draws(posterior)[0]
    judged = 0
    for node in [lattice.finest, (1, 0, 0, 0), (0, 0, 2, 0), (3, 1, 1, 0), (0, 0, 0, 1)]:
        found = evaluate_release(posterior, prepare_release(posterior, lattice.coarsening(node)), draws)
        if not found.tau1.pooled:
            continue
        judged += 1
        for name, measure in (("tau1", found.tau1), ("tau2", found.tau2)):
            step = 1.0 if name == "tau1" else 0.02 * measure.interval[1]
            for upper, end in ((".upper", measure.interval[1]), ("", measure.mean)):
                above, below = end + (step if upper else 1e-6), end - (step if upper else 1e-6)
                assert Judge(posterior, lattice, read_limits(f"{name}{upper}={above}"), draws).judge(node).met
                if below >= 0:
                    limit = read_limits(f"{name}{upper}={below}")
                    assert not Judge(posterior, lattice, limit, draws).judge(node).met
    assert judged >= 2


def test_the_loss_is_the_entropy_that_is_lost(posterior):
    lattice = make_lattice(posterior.microdata, importance={"AGE": 3})
    assert lattice.weight.tolist() == pytest.approx([0.5, 1 / 6, 1 / 6, 1 / 6])
    size = np.array([4, 4, 8])
    assert lose_entropy(((0, 1), (2,)), size) == pytest.approx((1.5 - 1.0) / 1.5)
    assert lose_entropy(None, size) == 1.0
    assert lattice.loss_of(lattice.finest) == 0.0
    assert lattice.loss_of(lattice.coarsest) == pytest.approx(1.0)
    for j, levels in enumerate(lattice.levels):
        for x, y in itertools.product(range(len(levels)), repeat=2):
            assert not lattice.coarser[j][x, y] or lattice.loss[j][x] >= lattice.loss[j][y] - 1e-12
    assert [level.words for level in lattice.levels[1]] == ["as it is", "left out"]
    assert lattice.losses[1, 0, 2, 1] == pytest.approx(lattice.loss_of((1, 0, 2, 1)))


def test_keys_are_kept_and_weighted(assessed):
    usual = assessed.plan("tau1.upper=4", suppress=0)
    kept = assessed.plan("tau1.upper=4", keep=["AGE", "WORK"], suppress=0)
    assert {key.name for key in kept.recipe.keys if key.unchanged} >= {"AGE", "WORK"}
    assert kept.loss >= usual.loss
    changed = {key.name for key in usual.recipe.keys if not key.unchanged}
    precious = assessed.plan("tau1.upper=4", importance=dict.fromkeys(changed, 50.0), suppress=0)
    assert {key.name for key in precious.recipe.keys if not key.unchanged} != changed
    assert usual.status == kept.status == "optimal"
    assert usual.after.tau1.interval[1] <= 4
    assert usual.before.tau1.mean > usual.after.tau1.mean


def test_the_figures_come_from_draws_that_did_not_choose(posterior):
    choosing, reporting = split_draws(posterior)
    chains, each = posterior.available
    assert not set(choosing) & set(reporting)
    for chain in range(chains):
        first = [x - chain * each for x in choosing if x // each == chain]
        second = [x - chain * each for x in reporting if x // each == chain]
        assert max(first) < each // 2 <= min(second)
    assert len({sum(x // each == c for x in choosing) for c in range(chains)}) == 1


def test_several_limits_and_all_records(assessed):
    one = assessed.plan(["tau1.upper=4"], suppress=0)
    both = assessed.plan({"tau1.upper": 4, "all.max": 0.6}, suppress=0)
    assert both.loss >= one.loss
    assert both.after.limits["all.max=0.6"] <= 0.6
    assert both.after.all_records["largest"]["mean"] <= 0.6


def test_suppression_meets_the_limit_for_less(assessed):
    coarse = assessed.plan("tau1.upper=4", suppress=0)
    local = assessed.plan("tau1.upper=4", suppress=0.2)
    assert local.status == "locally optimal"
    assert local.loss < coarse.loss * 0.9
    assert local.utility.values_blanked + local.utility.records_removed > 0
    assert local.after.tau1.interval[1] <= 4
    assert local.runners_up[0].loss == pytest.approx(coarse.loss)
    again = assessed.what_if(
        recode={key.name: [list(codes) for _, codes in key.groups] for key in local.recipe.keys if key.groups},
        drop=[key.name for key in local.recipe.keys if key.groups is None],
        blank=local.recipe.blank,
        remove=local.recipe.remove or None,
    )
    assert again.tau1.mean == pytest.approx(local.after.tau1.mean, rel=0.25)


def test_utility_by_hand(posterior):
    lattice = make_lattice(posterior.microdata)
    nothing = measure_utility(posterior, lattice, lattice.finest, LocalSteps())
    assert nothing.margin_change == pytest.approx(0.0, abs=1e-12)
    assert (nothing.categories_lost, nothing.values_blanked, nothing.records_removed) == (0, 0, 0)
    node = (0, len(lattice.levels[1]) - 1, 0, 0)
    without = measure_utility(posterior, lattice, node, LocalSteps({0: (1, 2)}, (3,)))
    assert (without.values_blanked, without.records_removed) == (2, 1)
    assert without.variables[1].entropy_kept == 0.0
    codes = posterior.microdata.codes
    table = np.zeros((9, 2))
    np.add.at(table, (codes[:, 0], codes[:, 1]), 1 / len(codes))
    apart = table.sum(axis=1, keepdims=True) * table.sum(axis=0, keepdims=True)
    alone = measure_utility(posterior, lattice, node, LocalSteps())
    assert alone.margin_change >= 0.5 * np.abs(table - apart).sum() - 1e-12


STATE = note_order(Variable("STATE", ("1", "2", "3", "4", "5", "6", "")), listed=True)


def test_hierarchies_of_yaml_and_of_arx(tmp_path):
    (tmp_path / "tree.yaml").write_text("STATE: {west: [1, 2], east: {north: [3, 4], south: [5, 6]}}\n")
    levels = read_hierarchies(tmp_path / "tree.yaml", [STATE])["STATE"]
    assert [level.names for level in levels] == [("west", "north", "south", ""), ("west", "east", "")]
    nested = read_hierarchies({"STATE": [[1, 2], [[3, 4], [5, 6]]]}, [STATE])["STATE"]
    assert [level.groups for level in nested] == [level.groups for level in levels]
    assert nested[1].names == ("1-2", "3+", "")
    (tmp_path / "state.csv").write_text("1;w;*\n2;w;*\n3;n;*\n4;n;*\n5;s;*\n6;s;*\n")
    table = read_hierarchies([f"STATE={tmp_path / 'state.csv'}"], [STATE])["STATE"]
    assert [level.groups for level in table] == [levels[0].groups]
    assert table[0].names == ("w", "n", "s", "")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("STATE: [[1, 2], [3, 9]]\n", "'9' is not a category of 'STATE'"),
        ("STATE: [[1, 2], [2, 3]]\n", "'2' of 'STATE' occurs twice"),
        ("TOWN: [[1, 2]]\n", "'TOWN' is not one of the keys"),
        ("[1, 2\n", "is not YAML"),
        ("- 1\n", "write KEY: [[1, 2], [3, 4]] for each key"),
    ],
)
def test_wrong_hierarchies_are_refused(tmp_path, content, message):
    (tmp_path / "tree.yaml").write_text(content)
    with pytest.raises(SettingsError, match=r"^[^\n]*$") as caught:
        read_hierarchies(tmp_path / "tree.yaml", [STATE])
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1;w\n2;w\n3;n\n", "lacks 3 categories"),
        ("1;w;a\n2;w;b\n3;n;b\n4;n;b\n5;s;a\n6;s;a\n", "level 2 divides a group of level 1"),
        ("1;w\n2\n", "as many in all lines"),
        ("1;w\n9;w\n", "line 2 is not a category"),
    ],
)
def test_wrong_tables_are_refused(tmp_path, content, message):
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(SettingsError, match=message):
        read_hierarchies({"STATE": tmp_path / "t.csv"}, [STATE])


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        ({"limits": "tau1.upper=0", "keep": ["AGE", "SEX", "WORK", "PLACE"]}, InputError, "no release meets"),
        ({"limits": "tau9=3"}, SettingsError, "limit tau9=3"),
        ({"limits": []}, SettingsError, "give at least one"),
        ({"limits": "tau1=5", "keep": ["TOWN"]}, SettingsError, "'TOWN' is not one of the keys"),
        ({"limits": "tau1=5", "importance": {"AGE": -1}}, SettingsError, "a number above 0"),
        ({"limits": "tau1=5", "at_most": "soon"}, SettingsError, "is not a duration"),
        ({"limits": "tau1=5", "suppress": 2}, SettingsError, "a share of the records"),
    ],
)
def test_what_cannot_be_planned_is_refused_in_one_line(assessed, asked, error, message):
    with pytest.raises(error) as caught:
        assessed.plan(**asked)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_files_of_a_plan(assessed, tmp_path):
    plan = assessed.plan("tau1.upper=4")
    plan.save(tmp_path / "plan")
    assert {path.name for path in (tmp_path / "plan").iterdir()} == {"plan.yaml", "plan.json", "plan.html"}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in (tmp_path / "plan").iterdir())
    content = json.loads((tmp_path / "plan" / "plan.json").read_text())
    assert content["status"] == plan.status
    assert content["after"]["tau1"]["mean"] == plan.after.tau1.mean
    page = (tmp_path / "plan" / "plan.html").read_text()
    assert "default-src &#39;none&#39;" in page
    assert "<svg" in page
    assert "<script" not in page
    with pytest.raises(OutputError, match=r"exists: choose another folder"):
        plan.save(tmp_path / "plan")
    assert kh.load_plan(tmp_path / "plan") == plan.recipe
    assert "Plan, " in repr(plan)


def test_a_file_that_meets_the_limit_stays_as_it_is(assessed):
    plan = assessed.plan("tau1.upper=4000")
    assert plan.steps == ()
    assert plan.loss == 0.0
    assert plan.status == "optimal"


def test_nothing_sampled_and_the_whole_population(survey):
    everybody = kh.assess(survey, "AGE,SEX,WORK,PLACE", population=survey.height)
    plan = everybody.plan("tau1=2", suppress=0)
    release = survey
    for key in plan.recipe.keys:
        if key.groups is None:
            release = release.drop(key.name)
        else:
            release = release.with_columns(release[key.name].cast(str).replace(key.published))
    names = [key.name for key in plan.recipe.keys if key.groups is not None]
    alone = int((release.group_by(names).len()["len"] == 1).sum()) if names else 0
    assert alone == plan.after.tau1.mean <= 2
    doubled = survey.vstack(survey)
    none = kh.assess(doubled, "AGE,SEX", population=9000)
    if none.summary.input.sample_uniques == 0:
        assert none.plan("tau1=0").steps == ()


def test_a_loaded_result_plans_as_the_run_did(assessed, survey, tmp_path):
    assessed.save(tmp_path / "r")
    loaded = kh.load(tmp_path / "r")
    with pytest.raises(KeyholeError, match="plan needs the records"):
        loaded.plan("tau1.upper=4")
    one, other = assessed.plan("tau1.upper=4"), loaded.plan("tau1.upper=4", data=survey)
    assert one.after == other.after
    assert one.recipe == other.recipe


def test_a_lattice_too_large_to_list_is_walked(assessed, monkeypatch):
    listed = assessed.plan("tau1.upper=4", suppress=0)
    monkeypatch.setattr("keyhole.plan.search.MOST_LISTED", 5)
    walked = assessed.plan("tau1.upper=4", suppress=0)
    assert walked.status == "locally optimal"
    assert not walked.search.decided
    assert walked.loss >= listed.loss - 1e-12
    assert walked.after.tau1.interval[1] <= 4
    assert all(other.met for other in walked.runners_up)


def test_what_other_draws_refuse_stays_refused(posterior):
    """A release that misses a limit on the draws of the figures is not taken, nor is any finer one."""
    lattice = make_lattice(posterior.microdata)
    judge = Judge(posterior, lattice, read_limits("tau1.upper=4"), split_draws(posterior)[0])
    search = Search(lattice, judge, time.monotonic() + 600)
    assert search.meets(lattice.coarsest)
    best = decide(search, walk(search, lambda node: judge.approximate(node, 4), lattice.finest))
    search.refuse(best)
    second = decide(search, search.next_best(best, lambda node: judge.approximate(node, 4)))
    assert second != best
    assert not search.meets(best)
    assert not lattice.is_coarser(best, second)
    assert lattice.loss_of(second) >= lattice.loss_of(best) - 1e-12
    losses = np.where(search.status == MET, lattice.losses, np.inf)
    assert lattice.loss_of(second) == pytest.approx(losses.min())


def test_wrong_words_are_errors_of_keyhole(assessed):
    for wrong in ({"importance": "AGE"}, {"importance": 5}, {"hierarchy": 5}, {"keep": 5}, {"suppress": "much"},
                  {"limits": 5}, {"importance": "AGE=much"}, {"at_most": []}):  # fmt: skip
        with pytest.raises(SettingsError):
            assessed.plan(**{"limits": "tau1.upper=4", "at_most": "5s", **wrong})
    usual = assessed.plan("tau1.upper=4", importance={"AGE": 3}, keep=["SEX", "WORK"], suppress=0.02)
    words = assessed.plan("tau1.upper=4", importance="AGE=3", keep="SEX,WORK", suppress="2%")
    assert words.recipe == usual.recipe


def test_levels_that_tell_nothing_apart_are_left_out():
    """One group of all answers, blanks aside, is as good as no key: wide bands, or groups of a tree."""
    import polars as pl

    n = 400
    frame = pl.DataFrame({"EDUC": np.arange(n) % 21, "SEX": np.arange(n) % 2}).with_columns(
        EDUC=pl.when(pl.int_range(n) % 11 == 0).then(None).otherwise("EDUC")
    )
    book = {"EDUC": list(range(60)), "SEX": [0, 1]}
    run = kh.assess(frame, "EDUC,SEX", population=9000, codebook=book, quick=True, max_sweeps=40)
    lattice = make_lattice(run._posterior.microdata)
    words = [level.words for level in lattice.levels[0]]
    assert "in bands of 50" not in words
    assert "in bands of 20" in words
    assert words[-1] == "left out"
    tree = read_hierarchies({"EDUC": [list(range(21)), [21, 22]]}, run._posterior.microdata.variables)
    assert [level.words for level in make_lattice(run._posterior.microdata, hierarchies=tree).levels[0]] == [
        "as it is",
        "left out",
    ]


def test_the_file_as_it_is_has_the_figures_of_the_assessment(assessed):
    """Before, in what-if of nothing, and in a plan that changes nothing."""
    plan = assessed.plan("tau1.upper=4", suppress=0)
    assert plan.before.tau1.mean == assessed.tau1.mean
    assert plan.before.tau1.interval == assessed.tau1.interval
    assert plan.before.tau2.interval == assessed.tau2.interval
    upper = assessed.tau1.interval[1]
    same = assessed.plan(f"tau1.upper={upper:g}", suppress=0)
    assert same.steps == ()
    assert same.after == same.before
    assert (same.after.tau1, same.after.tau2) == (plan.before.tau1, plan.before.tau2)
    assert assessed.plan(f"tau1.upper={upper - 1:g}", suppress=0).steps
    nothing = assessed.what_if()
    assert (nothing.tau1, nothing.tau2) == (assessed.tau1, assessed.tau2)
    assert nothing.notes == ("the release is the file as it is",)


def test_a_key_that_is_left_out_has_one_figure(assessed):
    """The attribution of a run that was long enough and what-if use the same draws."""
    told = assessed.summary.attribution
    stored = assessed._posterior.available[0] * assessed._posterior.available[1]
    for variable in told.variables:
        found = assessed.what_if(drop=[variable.name])
        assert found.draws == stored
        if told.draws == stored:
            assert found.tau1.mean == variable.tau1_without.mean
            assert found.tau1.interval == variable.tau1_without.interval


def test_counts_of_one_are_in_the_singular():
    from keyhole.plan.utility import describe_local

    steps = LocalSteps({0: (3,), 1: (2, 4)}, (7,))
    assert describe_local(steps, ("AGE", "SEX")) == [
        "AGE: 1 value blanked",
        "SEX: 2 values blanked",
        "1 record removed",
    ]


def test_time_is_limited_when_figures_take_long(assessed, monkeypatch):
    """The clock is looked at in every stage, so that a slow machine keeps the limit to 2 s and 5 %."""
    from keyhole.plan import planning

    figures = planning._figures

    def slowly(*given):
        time.sleep(1.0)
        return figures(*given)

    monkeypatch.setattr(planning, "_figures", slowly)
    start = time.monotonic()
    plan = assessed.plan("tau1.upper=4", at_most=4)
    assert time.monotonic() - start < 4 * 1.05 + 2
    assert plan.after.tau1.interval[1] <= 4


def test_time_is_limited(assessed):
    plan = assessed.plan("tau1.upper=4", at_most=0.001)
    assert plan.status == "locally optimal" or plan.search.decided
    assert plan.after.tau1.interval[1] <= 4


def test_rules_and_chains_that_disagree(rng, tmp_path):
    """Rules go the way of what-if; without agreement every chain has to meet the limit by itself."""
    from dataclasses import replace

    posterior, _, _ = make_posterior(rng, tmp_path, RULES["several"], records=14, draws=8)
    variables = tuple(note_order(variable) for variable in posterior.microdata.variables)
    posterior = replace(posterior, microdata=_with(posterior.microdata, variables))
    plan = make_plan(posterior, _reading(posterior), read_limits("tau1=0.2"), suppress_share=0.0)
    assert plan.after.tau1.mean <= 0.2
    assert plan.status == "optimal"
    low = tuple(draw for draw in posterior.draws[0][:4])
    high = tuple(draw for draw in posterior.draws[0][4:])
    apart = replace(posterior, draws=(low, high), grade="not converged")
    lattice = make_lattice(apart.microdata)
    limit = read_limits("tau1.upper=1")
    for node in itertools.product(*map(range, lattice.shape)):
        each = [
            Judge(replace(posterior, draws=(chain,)), lattice, limit, range(4)).judge(node).met for chain in (low, high)
        ]
        assert Judge(apart, lattice, limit, range(8)).judge(node).met == all(each)


def _reading(posterior):
    from keyhole.data.reading import Reading

    variables = posterior.microdata.variables
    return Reading("", posterior.microdata.rows, (), variables, (), {}, None, {}, "keep", None, "category")
