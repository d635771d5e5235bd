"""Policies: what may be asked for, what is refused, and what the verdict says."""

import json
import math

import numpy as np
import polars as pl
import pytest

import keyhole
from keyhole.cli import main
from keyhole.errors import SettingsError
from keyhole.risk.limits import MEASURES, SHARES, parse_limit
from keyhole.risk.policies import (
    Chances,
    Policy,
    find_policies,
    judge,
    read_policies,
    refuse_unfit,
    shipped_policies,
    word_limit,
)

pytestmark = pytest.mark.filterwarnings("ignore::keyhole.NotConvergedWarning")
QUICK = {"model": "classes", "max_sweeps": 80, "chains": 2, "population": 2_000, "seed": 3}


def make_frame(rows=200):
    rng = np.random.default_rng(5)
    return pl.DataFrame({name: rng.integers(0, size, rows) for name, size in zip("ABCD", (3, 5, 4, 6), strict=True)})


@pytest.fixture(scope="module")
def found():
    asked = [
        "ema-0070", "uniqueness-20", "tau1.upper=0.5", "gdpr:all.mean=0.5", "all.above.0.3=150", "all.k.7.upper=3",
        "all.matches=1000", "sphn-high:0.05",
    ]  # fmt: skip
    return keyhole.assess(make_frame(), list("ABCD"), policy=asked, **QUICK)


def test_what_is_shipped():
    """Every one has a source and a limit that can be missed, or says that it has no number."""
    policies = shipped_policies()
    assert {"ema-0070", "health-canada-prci", "cihi-pumf", "uniqueness-5", "hipaa-expert", "gdpr", "ico"} <= set(
        policies
    )
    for name, policy in policies.items():
        assert policy.source
        assert policy.title
        assert (policy.limit is None) == bool(policy.template)
        if policy.limit is not None:
            assert policy.limit.upper, f"{name} is judged on the mean"
            assert policy.limit.measure in MEASURES
            assert policy.limit.measure not in SHARES or 0.0 < policy.limit.threshold < 1.0
            assert word_limit(policy.limit)
    assert policies["ema-0070"].limit == parse_limit("all.max.upper=0.09")
    words = " ".join(str(policy) for policy in policies.values()).lower()
    assert "anonymous" not in words
    assert "compl" not in words


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("ema-007", r"did you mean 'ema-0070'\?"),
        ("tau3=5", "is not known"),
        ("gdpr", r"gives no number: give yours, as in gdpr:all\.max\.upper=0\.05"),
        ("gdpr:0.05", "gives no number"),
        ("hipaa-expert:all.max=7", "gives no number"),
        ("ema-0070:0.5", "takes nothing after its name"),
        ("sphn-low:0", "probability of an attempt above 0 and at most 1"),
        ("sphn-low:2", "probability of an attempt"),
        ("none.yaml", "none.yaml cannot be read"),
    ],
)
def test_what_is_refused(asked, message):
    with pytest.raises(SettingsError, match=message):
        find_policies([asked])


def test_a_probability_of_an_attempt_raises_the_limit():
    low, scaled = find_policies(["sphn-low", "sphn-low:0.5"])
    assert scaled.limit.threshold == 2 * low.limit.threshold
    assert "0.5" in scaled.note


FILE = """
- name: ours
  title: Our own rule
  limit: all.k.11.upper=0
  source: Handbook, p. 3
  checked: 2026-11-01
- {name: second, limit: tau1=3}
"""


def test_a_file_of_policies(tmp_path):
    path = tmp_path / "ours.yaml"
    path.write_text(FILE)
    ours, second = find_policies([str(path)])
    assert ours == Policy("ours", parse_limit("all.k.11.upper=0"), "Our own rule", "Handbook, p. 3", "2026-11-01")
    assert second.limit == parse_limit("tau1=3")
    path.write_text("name: one\nlimit: tau2.upper=9\nmost_keys: 2\n")
    (one,) = read_policies(path)
    with pytest.raises(SettingsError, match="is about at most 2 keys, and there are 4"):
        refuse_unfit([one], 4, False)
    refuse_unfit([one], 2, True)
    with pytest.raises(SettingsError, match="missing answers"):
        refuse_unfit([ours], 2, True)


@pytest.mark.parametrize(
    "content",
    [
        "", "- 1", "a: [", "name: x", "name: x\nlimit: tau9=1", "limit: tau1=1", "name: x\nlimit: tau1=1\nsecret: 4",
        "name: x\nlimit: [tau1=1]", "name: x\nlimit: tau1=1\nmost_keys: 1.5", "[]",
        "name: x\nlimit: tau1=1\nattempt: perhaps", "name: x\nlimit: tau1=1\ntemplate: small",
        "!!python/object:os.system {}", "\x00",
    ],
)  # fmt: skip
def test_files_that_are_none_are_one_line_without_their_content(tmp_path, content):
    path = tmp_path / "p.yaml"
    path.write_text(content)
    with pytest.raises(SettingsError) as error:
        read_policies(path)
    assert "\n" not in str(error.value)
    assert "secret" not in str(error.value)
    assert str(error.value).startswith(str(path))


def test_verdicts_agree_with_the_summary(found):
    summary = found.summary
    by_name = {verdict.name: verdict for verdict in summary.policies}
    block = summary.all_records
    assert by_name["ema-0070"].value == block.largest.interval[1]
    assert by_name["uniqueness-20"].value == summary.tau1.interval[1] / 200
    assert by_name["gdpr"].value == block.expected_matches.mean / 200
    assert by_name["all.above.0.3=150"].value == block.exceeding["0.3"].mean
    assert by_name["all.k.7.upper=3"].value == block.k["7"].interval[1]
    for verdict in summary.policies:
        assert verdict.met == (verdict.value <= verdict.limit)
        assert 0.0 <= verdict.probability <= 1.0
        assert verdict.words.startswith("meets the limit" if verdict.met else "does not meet the limit")
        # The upper end is a quantile of 0.975 of what the probability is of.
        if verdict.upper and verdict.measure != "tau1":
            assert verdict.met == (verdict.probability >= 0.975) or math.isclose(
                verdict.probability, 0.975, abs_tol=0.02
            )
    assert by_name["sphn-high"].limit == pytest.approx(1.0)
    assert by_name["sphn-high"].met
    assert by_name["sphn-high"].probability == 1.0
    assert "above 0.99" in by_name["sphn-high"].words
    assert summary.policies == keyhole.summary.Summary.read(summary.to_json()).policies


def test_the_probability_of_tau1_is_that_of_its_law(found):
    """Counted from simulated draws of tau1, which share nothing with the law but the draws."""
    chosen = round(found.summary.tau1.median)
    options = QUICK | {"max_sweeps": 4_000, "target_ess": 2_000}
    result = keyhole.assess(make_frame(), list("ABCD"), policy=[f"tau1={chosen + x}" for x in (-2, 0, 3)], **options)
    assert result.draws["tau1"].size > 400
    for x, verdict in zip((-2, 0, 3), result.summary.policies, strict=True):
        assert verdict.probability == pytest.approx((result.draws["tau1"] <= chosen + x).mean(), abs=0.08)


def test_policies_change_no_number(found):
    plain = keyhole.assess(make_frame(), list("ABCD"), **QUICK)
    assert plain.summary.policies == []
    assert plain.records.equals(found.records)
    assert plain.summary.all_records.expected_matches == found.summary.all_records.expected_matches


def test_a_certain_answer_is_judged_for_certain():
    whole = keyhole.assess(
        make_frame(), list("ABCD"), policy=["tau1=0", "all.max=0.99", "tau2=200"], **QUICK | {"population": 200}
    )
    assert [verdict.probability for verdict in whole.summary.policies] == [0.0, 0.0, 1.0]
    assert "has probability 0" in whole.summary.policies[0].words
    assert "with probability 1" in whole.summary.policies[2].words
    pairs = pl.concat([make_frame(), make_frame()])
    bounded = keyhole.assess(pairs, list("ABCD"), policy=["all.max=0.4", "all.max=0.6", "tau1=0"], **QUICK)
    unsure, sure, none = bounded.summary.policies
    assert "is not shown to meet" in unsure.words
    assert (unsure.met, sure.met, none.met) == (False, True, True)


def test_chains_that_disagree_are_judged_by_the_worst(found):
    from keyhole.diagnostics.laws import law_of_uniques

    r1 = np.array([[[0.1, 0.2]], [[0.9, 0.95]]])
    law = law_of_uniques(r1, r1, None, np.full((2, 1), np.inf))
    numbers = {"tau1": {"mean": 1.0, "interval": (0, 2)}, "input": {"used": 10}}
    policy = Policy("x", parse_limit("tau1=1"))
    pooled, apart = (judge([policy], numbers, Chances(law, law, 10, None, x))[0].probability for x in (True, False))
    assert apart == pytest.approx(1 - 0.9 * 0.95)
    assert pooled == pytest.approx(1 - (0.9 * 0.95 + 0.1 * 0.2) / 2)


def run(*words):
    with pytest.raises(SystemExit) as stopped:
        main(list(words))
    return stopped.value.code


def test_the_command_says_it_on_the_first_screen_and_exits_with_4(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make_frame().write_csv("data.csv")
    common = ("assess", "data.csv", "--keys", "A,B,C,D", "--population", "200", "--overwrite")
    assert run(*common, "--policy", "uniqueness-5", "--fail-above", "tau1=300") == 4
    out, err = capsys.readouterr()
    assert "does not meet the limit of uniqueness-5" in " ".join(out.split())
    assert err == (
        "keyhole: --policy: the file does not meet the limit of uniqueness-5 (share of the records that are population "
        "uniques at most 0.05, by the upper end of the interval); that it is met has probability 0.\n"
    )
    assert run(*common, "--policy", "tau1=300", "--fail-above", "tau2=300", "--json") == 0
    assert [verdict["met"] for verdict in json.loads(capsys.readouterr().out)["policies"]] == [True, True]
    assert run(*common, "--fail-above", "all.max=0.5", "--quiet") == 4
    assert capsys.readouterr().err == "keyhole: --fail-above: all.max is 1 (the mean), 0.5 above 0.5.\n"
    assert run(*common, "--policy", "gdpr", "--out", "none") == 2
    assert not (tmp_path / "none").exists()
    page = (tmp_path / "data.keyhole" / "report.html").read_text()
    assert "The file" not in page  # counted answers stay out of safe reports
