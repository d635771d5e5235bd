"""Chains that disagree are pooled nowhere, and what is said about it is made of the verdict's value."""

import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

import keyhole
from keyhole.commands.demo import _what_failed
from keyhole.data import encode, read_microdata
from keyhole.report import make_content
from keyhole.risk import attribution, check_half, diagnose, summarise_risk
from keyhole.risk import half_sample as self_check
from keyhole.risk.advice import describe_remedy
from keyhole.risk.households import find_household_risk
from keyhole.risk.release import FEWEST_TO_GRADE, evaluate_release, grade_release, prepare_release
from keyhole.sampling import Trace
from keyhole.sampling.events import leave_out
from keyhole.settings import make_settings
from tests.unit.report_results import make_result
from tests.unit.traces import UNIQUES, make_trace

QUICK = {"chains": 2, "max_sweeps": 60, "time_limit": "60s"}
APART = [12.0, 30.0, 12.0, 30.0]
TAILS = (0.025, 0.975)


def make_frame() -> pl.DataFrame:
    rng = np.random.default_rng(5)
    return pl.DataFrame({name: rng.integers(0, size, 60) for name, size in zip("ABCD", (5, 4, 3, 6), strict=True)})


def limits(draws: np.ndarray) -> tuple[float, float]:
    low, high = np.quantile(draws, TAILS, method="inverted_cdf")
    return float(low), float(high)


def widest(ends: list[tuple[float, float]]) -> tuple[float, float]:
    return min(low for low, _ in ends), max(high for _, high in ends)


# Households.


def test_households_have_the_envelope_over_chains(rng):
    # 187 draws: no limit falls on the border between two of them.
    trace = make_trace(rng, APART, draws=187)
    grade = diagnose(trace).grade
    assert grade == "not converged"
    members = np.arange(UNIQUES) // 3
    block, columns = find_household_risk("HH", members, np.arange(UNIQUES), summarise_risk(trace, grade), trace)
    by_hand = 1.0 - (1.0 - trace.r1.astype(np.float64)).reshape(4, 187, -1, 3).prod(axis=3)
    found = block.with_population_unique
    total = by_hand.sum(axis=2)
    assert found.mean == pytest.approx(total.mean(), rel=1e-5)
    assert found.interval == pytest.approx(widest([limits(chain) for chain in total]), rel=1e-5)
    for house in (0, 7, 19):
        low, high = widest([limits(chain[:, house]) for chain in by_hand])
        assert columns["household_r1_low"][3 * house] == pytest.approx(low, rel=1e-5)
        assert columns["household_r1_high"][3 * house] == pytest.approx(high, rel=1e-5)
    # The negative control: draws put together lie closer.
    risk = summarise_risk(trace, "converged")
    pooled, narrow = find_household_risk("HH", members, np.arange(UNIQUES), risk, trace)
    assert pooled.with_population_unique.interval == pytest.approx(limits(total), rel=1e-5)
    assert (narrow["household_r1_high"] < columns["household_r1_high"]).any()
    assert (narrow["household_r1_high"] <= columns["household_r1_high"]).all()


# The half-sample check.


@pytest.mark.parametrize("centres", [APART, [12.0] * 4])
def test_the_half_sample_check_pools_only_chains_that_agree(rng, monkeypatch, centres):
    trace = make_trace(rng, centres, stopped="time")
    monkeypatch.setattr(self_check, "run_chains", lambda *_, **__: trace)
    found = check_half(encode(read_microdata(make_frame(), "A,B,C,D", None, ())), make_settings())
    agree = centres != APART
    for name, law in trace.laws.items():
        assert found.predicted[name].interval == (law.interval() if agree else law.envelope())
    assert found.message.endswith("(The chains of this check had too little time to agree.)") != agree


# ReleaseRisk releases and what each variable carries.


@pytest.fixture(scope="module")
def run() -> keyhole.Assessment:
    return keyhole.assess(make_frame(), "A,B,C,D", population=600, **QUICK)


def test_a_coarser_release_has_the_envelope_over_chains(run):
    posterior = replace(run._posterior, grade="not converged")
    release = prepare_release(posterior, leave_out(posterior.microdata.levels, 3))
    found = evaluate_release(posterior, release)
    alone = [
        evaluate_release(replace(posterior, draws=posterior.draws[chain : chain + 1]), release) for chain in range(2)
    ]
    assert found.grade == "not converged"
    for name in ("tau1", "tau2"):
        measure = getattr(found, name)
        assert (measure.pooled, measure.mcse) == (False, None)
        ends = widest([getattr(one, name).interval for one in alone])
        # tau2 is not a whole number: its law is kept on a grid, which all chains share.
        assert measure.interval == pytest.approx(ends, abs=0.0 if name == "tau1" else 0.02)
    pooled = evaluate_release(replace(posterior, grade="converged"), release)
    assert pooled.tau1.mean == found.tau1.mean
    assert pooled.tau1.interval[1] <= found.tau1.interval[1]


def test_the_attribution_has_the_envelope_over_chains(run, rng):
    told = {}
    for grade in ("converged", "not converged"):
        posterior = replace(run._posterior, grade=grade)
        risk = summarise_risk(make_trace(rng, [12, 12]), grade)
        r = np.full(run.summary["input"]["sample_uniques"], 0.1)
        unique = np.flatnonzero(run.records["sample_unique"].to_numpy())
        steps = SimpleNamespace(sweeps=60, thin=3, starts=(1, 5))
        without = attribution.leave_each_out(posterior, steps)
        found = attribution.attribute_risk(posterior, unique, replace(risk, r1=r, r2=r), without)
        assert found.draws >= min(attribution.FEWEST_DRAWS, int(np.prod(posterior.available)))
        told[grade] = found.variables
    for agree, apart in zip(told["converged"], told["not converged"], strict=True):
        assert agree.share_tau1 == apart.share_tau1
        assert apart.tau1_without.interval[0] <= agree.tau1_without.interval[0]
        assert apart.tau1_without.interval[1] >= agree.tau1_without.interval[1]


def test_a_release_is_no_better_known_than_its_own_chains_allow(rng):
    def judge(fit, centres, draws=100):
        expected = [np.array(centres)[:, None] + rng.normal(0, 1, (4, draws)) for _ in range(2)]
        return grade_release(fit, expected, [np.full((4, draws), 9.0)] * 2)

    for fit in ("converged", "usable", "not converged"):
        assert judge(fit, [12.0] * 4) == fit
        assert judge(fit, APART) == "not converged"
    # With a handful of draws R-hat says nothing, and the fit's own grade stands.
    assert judge("converged", APART, FEWEST_TO_GRADE - 1) == "converged"


# The remedy is a value.

REMEDIES = {
    "none": "",
    "chains": "Use --chains 4.",
    "sweeps": "Allow more sweeps with --max-sweeps, or omit that limit.",
    "time": "It is likely to need about 40 s more. Allow more time with --time-limit.",
    "model": "Use more chains (--chains 8) and more time (--time-limit), or fewer or coarser keys, or state "
    "impossible combinations (--zeros).",
}


@pytest.mark.parametrize("remedy", REMEDIES)
def test_the_remedy_does_not_come_from_the_message(remedy):
    """The message is one thing, the remedy another: a message in other words changes nothing."""
    told = []
    for message in ("NOT CONVERGED. They differ. Do nothing.", "no sentence at all", "e.g. 1. 2. 3."):
        result = make_result(converged=False)
        block = result.summary["convergence"]
        block["message"] = message
        block["verdict"]["remedy"] = remedy
        content = make_content(result)
        told.append(content.convergence.remedy)
        assert content.convergence.message == message
        assert REMEDIES[remedy] in [step.how for step in content.verdict.steps]
    assert told == [REMEDIES[remedy]] * 3


@pytest.mark.parametrize("remedy", REMEDIES)
def test_the_demonstration_tells_the_remedy_of_the_verdict(rng, remedy):
    found = diagnose(make_trace(rng, APART))
    numbers = found.verdict.numbers | {"seconds_more": 40.0}
    judged = replace(found, verdict=replace(found.verdict, remedy=remedy, numbers=numbers))
    counted = [gate for gate in found.gates if gate.role != "shown"]
    missed = sum(not gate.passed for gate in counted)
    told = f"{missed} of {len(counted)} conditions are not met. {REMEDIES[remedy]}"
    assert _what_failed(SimpleNamespace(diagnosis=judged)) == told


def test_the_message_ends_with_the_remedy(rng):
    cases = {
        "model": make_trace(rng, APART),
        "chains": make_trace(rng, [12]),
        "time": make_trace(rng, [12] * 4, target_ess=5000),
        "sweeps": make_trace(rng, [12] * 4, target_ess=5000, stopped="sweeps"),
        "none": make_trace(rng, [12] * 4),
    }
    for remedy, trace in cases.items():
        found = diagnose(trace)
        assert found.verdict.remedy == remedy
        assert found.message.endswith(describe_remedy(found.verdict))
        assert bool(describe_remedy(found.verdict)) == (remedy != "none")


# Python is warned.


def test_python_is_warned_of_what_has_not_converged():
    with pytest.warns(keyhole.NotConvergedWarning, match=r"^NOT CONVERGED.*Use `chains` 4\.$") as told:
        found = keyhole.assess(make_frame(), "A,B,C,D", population=600, chains=1, max_sweeps=60)
    assert (found.grade, found.converged) == ("not converged", False)
    assert [str(warning.message) for warning in told] == [found.diagnosis.message]
    assert told[0].filename == __file__
    assert issubclass(keyhole.NotConvergedWarning, UserWarning)


def test_python_is_warned_of_what_is_only_usable(monkeypatch):
    import importlib

    module = importlib.import_module("keyhole.risk.quick")
    real = module.diagnose

    def nearly(trace: Trace):
        found = real(trace)
        return replace(found, modes=1, verdict=replace(found.verdict, grade="usable"))

    monkeypatch.setattr(module, "diagnose", nearly)
    with pytest.warns(keyhole.NotConvergedWarning, match="^USABLE: "):
        found = keyhole.assess(make_frame(), "A,B,C,D", population=600, **QUICK)
    assert (found.grade, found.converged, found.tau1.pooled) == ("usable", False, True)
    assert found.summary["convergence"]["grade"] == "usable"


def test_nobody_is_warned_of_a_certain_answer():
    with warnings.catch_warnings():
        warnings.simplefilter("error", keyhole.NotConvergedWarning)
        assert keyhole.assess(make_frame(), "A,B,C,D", population=60).grade == "converged"
