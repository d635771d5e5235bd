"""The gates: met by chains at rest, failed by each thing that they stand against; what follows for the verdict."""

import math
from dataclasses import replace

import numpy as np
import pytest

from keyhole.diagnostics.gates import (
    DRIFT_LIMIT,
    END_LIMIT,
    FEWEST_IN_WINDOW,
    IGNORED,
    MEAN_LIMIT,
    RECORDS_KNOWN,
    RHAT_LIMIT,
    WINDOW,
    Gate,
    at_least,
    at_most,
    check_drift,
    check_known,
    check_mean,
    draws_needed,
    find_drift,
    is_usable,
    may_stop,
)
from keyhole.diagnostics.laws import law_of_matches
from keyhole.risk import diagnose, summarise_risk
from keyhole.risk.diagnosis import check_gates
from keyhole.risk.measures import ERRORS, measure
from keyhole.sampling import Trace
from keyhole.settings import make_settings
from keyhole.summary import ConvergenceBlock, describe_convergence
from tests.unit.traces import UNIQUES, make_trace

REST = [12.0, 12.0, 12.0, 12.0]
TAUS = ("tau1", "tau2")


def by_name(gates) -> dict[str, Gate]:
    return {gate.name: gate for gate in gates}


def failed(gates) -> list[str]:
    """Names of the gates that count and are not met."""
    return [gate.name for gate in gates if gate.role != "shown" and not gate.passed]


def change(trace: Trace, **quantities) -> Trace:
    return replace(trace, quantities=trace.quantities | quantities)


def discard(trace: Trace, draws: int) -> Trace:
    """The same draws, of which the first are warm-up."""
    return replace(
        trace,
        burn_in=draws * trace.thin,
        quantities={name: values[:, draws:] for name, values in trace.quantities.items()},
        discarded={name: values[:, :draws] for name, values in trace.quantities.items()},
        r1=trace.r1[:, draws:],
        r2=trace.r2[:, draws:],
    )


# What there is.


def test_every_gate_says_what_it_is_for(rng):
    gates = check_gates(make_trace(rng, REST))
    role = {gate.name: gate.role for gate in gates}
    assert len(role) == len(gates)
    decides = {"known(r1)", "known(r2)"}
    for name in TAUS:
        decides |= {f"rhat({name}_expected)", f"ess_bulk({name}_expected)"}
        decides |= {f"mcse_{part}({name})" for part in ("mean", "low", "high")}
    guards = {f"drift({name})" for name in ("tau1_expected", "tau2_expected", "log_likelihood")}
    assert {name for name in role if role[name] == "decides"} == decides
    assert {name for name in role if role[name] == "guards"} == guards
    shown = {name for name in role if role[name] == "shown"}
    assert {"ess_tail(tau1_expected)", "rhat(log_likelihood)", "rhat(effective_profiles)"} <= shown
    assert decides | guards | shown == set(role)
    limit = {gate.name: gate.limit for gate in gates}
    assert limit["rhat(tau1_expected)"] == RHAT_LIMIT == 1.05
    assert limit["mcse_mean(tau2)"] == MEAN_LIMIT == 0.05
    assert limit["mcse_high(tau1)"] == END_LIMIT == 0.15
    assert limit["drift(log_likelihood)"] == DRIFT_LIMIT == 2.5
    assert limit["known(r1)"] == RECORDS_KNOWN == 0.99
    assert limit["ess_bulk(tau1_expected)"] == make_settings().target_ess == 100


def test_chains_at_rest_meet_every_gate(rng):
    for draws in (100, 200, 400):
        trace = discard(make_trace(rng, REST, draws=draws + draws // 3), draws // 3)
        gates = check_gates(trace)
        assert failed(gates) == []
        assert may_stop(gates)
        assert is_usable(gates)
        assert draws_needed(gates) == 1.0
        assert diagnose(trace).grade == "converged"


def test_chains_at_rest_and_correlated_meet_every_gate(rng):
    """Twenty draws are worth one: 2,000 of each chain are enough."""
    trace = make_trace(rng, REST, draws=2000)
    noise = rng.standard_normal((4, 2000))
    for t in range(1, 2000):
        noise[:, t] = 0.9 * noise[:, t - 1] + math.sqrt(1 - 0.9**2) * noise[:, t]
    gates = check_gates(change(trace, tau1_expected=12 + noise))
    assert 200 < by_name(gates)["ess_bulk(tau1_expected)"].value < 800
    assert failed(gates) == []


# What they stand against.


def test_two_modes_disagree_and_only_their_envelope_is_given(rng):
    trace = make_trace(rng, [12, 30, 12, 30])
    gates = check_gates(trace)
    assert {"rhat(tau1_expected)", "rhat(tau2_expected)", "ess_bulk(tau1_expected)", "mcse_mean(tau1)"} <= set(
        failed(gates)
    )
    assert not may_stop(gates)
    assert not is_usable(gates)
    found = diagnose(trace)
    assert (found.grade, found.verdict.reason, found.verdict.remedy) == ("not converged", "disagree", "model")
    assert (found.converged, found.pooled, found.disagree, found.modes) == (False, False, True, 2)
    assert found.envelope == {name: trace.laws[name].envelope() for name in TAUS}
    assert found.verdict.numbers["seconds_more"] is None
    risk = summarise_risk(trace, found.grade)
    assert risk.tau1.interval == found.envelope["tau1"]
    assert (risk.tau1.pooled, risk.tau1.mcse) == (False, None)


@pytest.mark.parametrize("centres", [[14, 14, 14, 22], [22, 14, 14, 14], [14, 22, 22, 22], [14, 16, 14, 16]])
def test_a_second_mode_is_never_pooled_whichever_chains_are_in_it(rng, centres):
    assert diagnose(make_trace(rng, centres)).grade == "not converged"


def stray(trace: Trace, draws: slice, by: float, name: str = "tau1_expected") -> Trace:
    """One chain is elsewhere for a while."""
    values = trace.quantities[name].copy()
    values[2, draws] += by
    return change(trace, **{name: values})


def test_a_chain_that_was_elsewhere_for_a_third_is_found_out(rng):
    trace = discard(stray(make_trace(rng, REST, draws=300), slice(0, 100), 8.0), 75)
    gates = check_gates(trace)
    assert "drift(tau1_expected)" in failed(gates)
    assert not may_stop(gates)
    assert not is_usable(gates)
    found = diagnose(trace)
    assert found.grade == "not converged"
    assert "expected tau1 has moved by" in found.message or "and " in found.verdict.numbers["failed"]


def test_the_guard_looks_at_what_is_discarded(rng):
    """The kept draws are beyond reproach; the chain was elsewhere until just before them."""
    whole = stray(make_trace(rng, REST, draws=300), slice(0, 75), 8.0)
    trace = discard(whole, 75)
    assert failed(check_gates(replace(trace, discarded={}))) == []
    gates = check_gates(trace)
    assert failed(gates) == ["drift(tau1_expected)"]
    assert not may_stop(gates)
    assert not is_usable(gates)
    found = diagnose(trace)
    assert (found.grade, found.verdict.remedy) == ("not converged", "time")
    assert "expected tau1 has moved by" in found.message
    # The first eighth is a chain's own affair.
    assert failed(check_gates(discard(stray(make_trace(rng, REST, draws=300), slice(0, 37), 8.0), 75))) == []


def test_a_likelihood_that_still_rises_is_found_out(rng):
    """Started far away, and on the way for most of the run: the other gates see nothing of it."""
    trace = make_trace(rng, REST, draws=300)
    rise = np.zeros((4, 300))
    rise[1] = -400.0 * np.exp(-np.arange(300) / 60.0)
    rising = change(trace, log_likelihood=trace.quantities["log_likelihood"] + rise)
    gates = check_gates(discard(rising, 75))
    assert failed(gates) == ["drift(log_likelihood)"]
    assert not may_stop(gates)
    assert not is_usable(gates)
    assert diagnose(discard(rising, 75)).grade == "not converged"
    assert failed(check_gates(discard(trace, 75))) == []


def test_chains_may_differ_in_likelihood_and_profiles_but_not_move(rng):
    """Each is held against its own mean. What nobody reports is shown, and decides nothing."""
    trace = make_trace(rng, REST)
    offset = np.array([0.0, 50.0, 100.0, 150.0])[:, None]
    wandering = {
        name: trace.quantities[name] + offset
        for name in ("log_likelihood", "effective_profiles", "weight_concentration", "record_concentration")
    }
    gates = check_gates(change(trace, **wandering))
    shown = [gate for gate in gates if gate.role == "shown" and not gate.passed]
    assert {f"rhat({name})" for name in wandering} <= {gate.name for gate in shown}
    assert not any(gate.usable for gate in shown)
    assert failed(gates) == []
    assert may_stop(gates)
    assert draws_needed(gates) == 1.0
    found = diagnose(change(trace, **wandering))
    assert found.grade == "converged"
    assert found.rhat < RHAT_LIMIT
    assert found.verdict.numbers["rhat"] == found.rhat


def test_gates_that_are_shown_never_decide():
    wrong = Gate("rhat(p0)", 9.0, 1.05, False, "shown", usable=False)
    right = Gate("rhat(tau1_expected)", 1.0, 1.05, True)
    assert may_stop([right, wrong])
    assert is_usable([right, wrong])
    assert draws_needed([right, wrong]) == 1.0
    for role in ("decides", "guards"):
        assert not may_stop([right, replace(wrong, role=role)])
        assert not is_usable([right, replace(wrong, role=role)])
    nearly = Gate("drift(tau1_expected)", 2.6, 2.5, False, "guards", usable=True)
    assert not is_usable([right, nearly])
    assert is_usable([right, replace(nearly, role="decides")])


# Records.


def split_records(rng, uniques: int, split: int, noise: float = 0.01) -> np.ndarray:
    """Risks of records, of some of which two chains say 0.2 and two say 0.6."""
    risks = np.clip(0.3 + noise * rng.standard_normal((4, 200, uniques)), 0, 1)
    where = rng.choice(uniques, split, replace=False)
    risks[:, :, where] += np.array([-0.1, 0.3, -0.1, 0.3])[:, None, None]
    return risks.astype(np.float32)


@pytest.mark.parametrize(("split", "passed"), [(0, True), (2, True), (3, False), (40, False)])
def test_risks_of_one_record_in_a_hundred_may_be_unknown(rng, split, passed):
    gate = check_known("r1", split_records(rng, 200, split))
    assert (gate.name, gate.role, gate.limit) == ("known(r1)", "decides", 0.99)
    assert gate.value == pytest.approx(1 - split / 200)
    assert (gate.passed, gate.usable) == (passed, passed)


def test_records_known_to_twice_the_error_are_usable(rng):
    """Four chains a little apart: R-hat about 1.3, Monte Carlo error about 0.03."""
    risks = (0.3 + 0.05 * rng.standard_normal((4, 200, 50))).astype(np.float32)
    risks += np.array([-0.05, 0.05, -0.05, 0.05], np.float32)[:, None, None]
    gate = check_known("r2", risks)
    assert (gate.value, gate.passed, gate.usable) == (0.0, False, True)


def test_a_risk_that_varies_but_agrees_is_known(rng):
    """Few effective draws leave a large error; that R-hat is good is enough."""
    gate = check_known("r1", rng.random((4, 120, 30)).astype(np.float32))
    assert (gate.value, gate.passed) == (1.0, True)


def test_chains_that_agree_on_the_sum_but_not_on_records_have_not_converged(rng):
    trace = make_trace(rng, REST)
    r1 = trace.r1.copy()
    r1[[0, 1], :, :3], r1[[2, 3], :, :3] = 0.1, 0.5
    r1[[0, 1], :, 3:6], r1[[2, 3], :, 3:6] = 0.5, 0.1
    found = diagnose(replace(trace, r1=r1))
    gate = by_name(found.gates)["known(r1)"]
    assert gate.value == pytest.approx(1 - 6 / UNIQUES)
    assert not gate.passed
    assert "known(r1)" in failed(found.gates)
    assert found.grade == "not converged"
    assert "r1 is known well enough for 90 % of the records (at least 99 %)" in found.message
    assert not summarise_risk(replace(trace, r1=r1), found.grade).tau1.pooled


# Usable.


def test_limits_missed_by_less_than_two_are_usable_and_the_interval_is_wider(rng):
    trace = make_trace(rng, REST, target_ess=1200)
    gates = check_gates(trace)
    assert set(failed(gates)) == {"ess_bulk(tau1_expected)", "ess_bulk(tau2_expected)"}
    assert not may_stop(gates)
    found = diagnose(trace)
    assert (found.grade, found.converged, found.pooled) == ("usable", False, True)
    assert (found.modes, found.envelope, found.verdict.remedy) == (1, None, "time")
    assert found.message.startswith("USABLE: 4 chains that started from 1 to 100 profiles agree, but not to the last")
    for told in ("A longer run would move tau1 by less than ", "widened", "Not met yet: ", "(at least 1200)"):
        assert told in found.message
    assert found.message.endswith("more. Allow more time with `time_limit`.")
    assert "NOT CONVERGED" not in found.message
    narrow, wide = summarise_risk(trace, "converged"), summarise_risk(trace, found.grade)
    for name in TAUS:
        law = trace.laws[name]
        before, after = getattr(narrow, name), getattr(wide, name)
        low, high = (
            end + side * ERRORS * e for end, side, e in zip(law.interval(), (-1, 1), law.end_errors(), strict=True)
        )
        if name == "tau1":
            low, high = math.floor(low), math.ceil(high)
        assert after.interval == pytest.approx((low, high))
        assert after.interval[0] < before.interval[0] < before.interval[1] < after.interval[1]
        assert (after.mean, after.mcse, after.pooled) == (before.mean, before.mcse, True)


def test_a_widened_interval_stays_within_what_is_possible(rng):
    draws = rng.normal(0.1, 0.05, (4, 50))
    law = law_of_matches(np.clip(draws, 0, None), np.full((4, 50), 0.01), uniques=1)
    low, high = measure(law, draws, "usable").interval
    assert 0.0 <= low < high <= 1.0


def test_chains_slightly_apart_are_usable_and_further_apart_are_not(rng):
    side = np.array([-1.0, 1.0, -1.0, 1.0])
    grades = [diagnose(make_trace(rng, list(12 + apart * side))).grade for apart in (0.05, 0.3, 1.0)]
    assert grades == ["converged", "usable", "not converged"]


def test_limits_missed_by_more_than_two_are_not_usable(rng):
    found = diagnose(make_trace(rng, REST, target_ess=3000))
    assert (found.grade, found.verdict.reason) == ("not converged", "few draws")
    assert found.envelope is not None


def test_one_chain_is_never_usable(rng):
    assert diagnose(make_trace(rng, [12], draws=800)).grade == "not converged"


# How long it will take.


def test_twice_the_error_needs_four_times_the_draws():
    error = at_most("mcse_mean(tau1)", 2 * MEAN_LIMIT, MEAN_LIMIT, 2 * MEAN_LIMIT)
    assert (error.passed, error.usable) == (False, True)
    assert draws_needed([error]) == pytest.approx(4.0)
    effective = at_least("ess_bulk(tau1_expected)", 40.0, 100.0, 50.0)
    assert (effective.passed, effective.usable) == (False, False)
    assert draws_needed([effective]) == pytest.approx(2.5)
    # The worst decides; what is met or only shown does not count.
    shown = at_most("rhat(p0)", 5.0, 1.05, 1.1, "shown")
    met = at_most("mcse_low(tau1)", 0.1, END_LIMIT, 2 * END_LIMIT)
    assert draws_needed([error, effective, shown, met]) == pytest.approx(4.0)
    assert draws_needed([shown, met]) == draws_needed([]) == 1.0
    # R-hat^2 - 1 falls as one over the draws.
    apart = at_most("rhat(tau1_expected)", math.sqrt(1 + 3 * (RHAT_LIMIT**2 - 1)), RHAT_LIMIT, 1.1)
    assert draws_needed([apart]) == pytest.approx(3.0)
    assert draws_needed([at_most("rhat(tau1_expected)", math.inf, RHAT_LIMIT, 1.1)]) == math.inf


def test_the_error_does_fall_with_the_root_of_the_draws(rng):
    """What the estimate of the time rests on."""
    few, many = (
        next(gate.value for gate in check_mean("tau1", 12 + values, np.ones_like(values)) if "mcse" in gate.name)
        for values in (rng.standard_normal((4, 500)), rng.standard_normal((4, 2000)))
    )
    assert few / many == pytest.approx(2.0, rel=0.1)


def test_the_time_still_needed_is_told(rng):
    trace = make_trace(rng, REST, target_ess=5000, seconds={"sampling": 50.0, "risk": 10.0})
    found = diagnose(trace)
    more = found.verdict.numbers["seconds_more"]
    assert more == pytest.approx((draws_needed(found.gates) - 1.0) * 60.0)
    assert f"It is likely to need about {more / 60:.0f} min more." in found.message


# Drift.


def drift_by_loops(draws, centre, sd) -> float:
    total = draws.shape[1]
    window = min(max(total // WINDOW, FEWEST_IN_WINDOW), total)
    largest = 0.0
    for chain in range(draws.shape[0]):
        c, s = (float(np.broadcast_to(x, (draws.shape[0], 1))[chain, 0]) for x in (centre, sd))
        for first in range(min(total // IGNORED, total - window), total - window + 1):
            average = sum(float(x) for x in draws[chain, first : first + window]) / window
            largest = max(largest, abs(average - c) / s)
    return largest


@pytest.mark.parametrize("draws", [2, 3, 5, 8, 40, 61, 200, 1001])
def test_drift_is_that_of_a_plain_loop(rng, draws):
    values = rng.standard_normal((4, draws)).cumsum(axis=1) + 1000.0
    for axis in (None, 1):
        centre, sd = values.mean(axis=axis, keepdims=True), values.std(axis=axis, keepdims=True)
        assert find_drift(values, centre, sd) == pytest.approx(drift_by_loops(values, centre, sd), rel=1e-9)


def test_what_stands_still_has_not_moved():
    still = np.full((4, 100), 1234.5678)
    assert find_drift(still, still.mean(keepdims=True), still.std(keepdims=True)) == 0.0
    # One that stood still elsewhere, before, has.
    gates = check_drift(
        dict.fromkeys(("tau1_expected", "tau2_expected", "log_likelihood"), still),
        {"tau1_expected": still[:, :40] + 1.0},
    )
    assert [gate.passed for gate in gates] == [False, True, True]
    assert gates[0].value > 1e9


def test_the_guard_does_not_delay_chains_at_rest(rng):
    """Of 200 sets of chains at rest, correlated or not, hardly any is held up."""
    held = 0
    for _ in range(200):
        rho = rng.choice([0.0, 0.5, 0.8])
        values = rng.standard_normal((3, 4, 400))
        for t in range(1, 400):
            values[:, :, t] = rho * values[:, :, t - 1] + math.sqrt(1 - rho**2) * values[:, :, t]
        whole = dict(zip(("tau1_expected", "tau2_expected", "log_likelihood"), values, strict=True))
        gates = check_drift({k: v[:, 100:] for k, v in whole.items()}, {k: v[:, :100] for k, v in whole.items()})
        held += not may_stop(gates)
    assert held <= 4


# A verdict is a value that can be written and read.


@pytest.mark.parametrize("case", ["converged", "usable", "disagree", "stuck", "one chain", "few"])
def test_a_verdict_comes_back_from_its_block(rng, case):
    centres = {"disagree": [12, 30, 12, 30], "stuck": [12, 30, 12, 30], "one chain": [12]}.get(case, REST)
    options = {"usable": {"target_ess": 1200}, "few": {"draws": 8}}.get(case, {})
    trace = make_trace(rng, centres, **options)
    if case == "stuck":
        expected = trace.quantities["tau1_expected"]
        trace = change(trace, tau1_expected=np.repeat(expected[:, :1], expected.shape[1], axis=1))
    found = diagnose(trace)
    assert math.isinf(found.rhat) == (case in ("stuck", "one chain"))
    block = describe_convergence(found, make_settings(), trace)
    assert (block["converged"], block["grade"], block["message"]) == (found.converged, found.grade, found.message)
    read = ConvergenceBlock.read(block.to_json()).diagnosis
    assert read == found
    assert read.message == found.message


def test_an_error_that_cannot_be_known_is_none(rng):
    trace = make_trace(rng, REST, draws=3)
    for grade in ("converged", "usable"):
        risk = summarise_risk(trace, grade)
        assert (risk.tau1.mcse, risk.tau2.mcse) == (None, None)
    # An interval that is widened by what nobody knows is all that is possible.
    assert risk.tau1.interval == risk.tau2.interval == (0.0, float(UNIQUES))
    numbers = diagnose(trace).verdict.numbers
    assert (numbers["error"], numbers["end_error"]) == (None, None)
