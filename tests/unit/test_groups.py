"""When chains disagree: groups, envelope, and what a data steward is told."""

from dataclasses import replace

import numpy as np
import pytest

from keyhole.commands.screen import describe_error, explain_weights, group_table
from keyhole.diagnostics.groups import CUT, LINKED, group_chains
from keyhole.diagnostics.laws import interval
from keyhole.diagnostics.series import rhat
from keyhole.risk import diagnose, summarise_risk
from keyhole.risk.stacking import NOTE, Stacking, share_weights
from keyhole.sampling.trace import Trace
from keyhole.words import number, rounded
from tests.unit.traces import UNIQUES, make_trace


def drift(trace: Trace, from_: float) -> Trace:
    """The same chains, of which the log-likelihood still rises."""
    drawn = dict(trace.quantities)
    draws = drawn["log_likelihood"].shape[1]
    drawn["log_likelihood"] = drawn["log_likelihood"] - np.linspace(from_, 0, draws)
    return replace(trace, quantities=drawn)


def make_part(trace: Trace, chains: list[int]) -> Trace:
    """Some of the chains, as if there were no others."""
    return replace(
        trace,
        starts=tuple(trace.starts[chain] for chain in chains),
        quantities={name: draws[chains] for name, draws in trace.quantities.items()},
        r1=trace.r1[chains],
        r2=trace.r2[chains],
    )


def test_chains_that_agree_are_pooled_and_the_message_says_why(rng):
    trace = make_trace(rng, [12, 12, 12, 12], stopped="gates")
    found = diagnose(trace)
    assert (found.grade, found.converged, found.pooled) == ("converged", True, True)
    assert (found.modes, found.envelope, found.disagree, found.stacking) == (1, None, False, None)
    assert found.groups[0].chains == (1, 2, 3, 4)
    assert found.message.startswith("4 chains that started from 1 to 100 profiles agree: R-hat 1.0")
    assert "effective draws; the Monte Carlo error of tau1 is 0." in found.message
    risk = summarise_risk(trace, found.grade)
    assert risk.tau1.pooled
    assert risk.tau1.interval == trace.laws["tau1"].interval()
    assert 0 < risk.tau1.mcse < 0.3
    # The error of E(tau1), of which the standard deviation is smaller than that of tau1 itself.
    assert risk.tau1.mcse <= risk.tau1.sd / np.sqrt(found.ess_bulk) * 1.5


def test_the_message_says_what_chains_had_in_common(rng):
    trace = replace(make_trace(rng, [12, 12, 12, 12], stopped="gates"), start_sweeps=400)
    told = "from 1 to 100 profiles (and 400 sweeps of the model classes) agree: R-hat 1.0"
    assert told in diagnose(trace).message


def test_the_error_is_told_alike_beside_the_estimate_and_in_the_verdict(rng):
    trace = make_trace(rng, [12, 12, 12, 12], stopped="gates")
    tau1 = summarise_risk(trace, "converged").tau1
    told = describe_error(tau1).removeprefix("; Monte Carlo error ")
    assert diagnose(trace).message.endswith(f"the Monte Carlo error of tau1 is {told}.")
    assert describe_error(replace(tau1, mcse=0.12)).endswith(" 0.2")
    assert describe_error(replace(tau1, mcse=None)) == ""


def test_two_groups_that_have_settled(rng):
    trace = make_trace(rng, [12, 30, 12, 30])
    found = diagnose(trace)
    assert not found.converged
    assert found.modes == 2
    assert found.disagree
    assert [group.chains for group in found.groups] == [(1, 3), (2, 4)]
    assert all(group.settled for group in found.groups)
    drawn = trace.quantities["tau1_expected"]
    for group, chains in zip(found.groups, ([0, 2], [1, 3]), strict=True):
        own = make_part(trace, chains)
        assert group.tau1.mean == pytest.approx(drawn[chains].mean())
        assert group.tau1.interval == own.laws["tau1"].interval()
    upper = f"{found.envelope['tau1'][1]:.0f}"
    for told in (
        "NOT CONVERGED: the chains disagree.",
        "So far the mean of tau1 of all chains is between 12 and 30.",
        "Two groups of chains give different estimates: tau1 is about 12 (",
        "by chains 1 and 3; about 30 (",
        "by chains 2 and 4",
        f"Until then use {upper} as the upper limit of tau1, the largest of any chain",
        "`chains` 8",
    ):
        assert told in found.message
    # What is known comes before what is missing, and that before what to do.
    parts = ("So far the mean", "give different estimates", "Until then use", "`chains` 8")
    places = [found.message.index(part) for part in parts]
    assert places == sorted(places)
    assert "\n" not in found.message


def test_the_envelope_holds_the_interval_of_every_chain(rng):
    trace = make_trace(rng, [12, 30, 20, 45])
    found = diagnose(trace)
    risk = summarise_risk(trace, found.grade)
    assert not risk.tau1.pooled
    assert risk.tau1.mcse is None
    for name, measure in (("tau1", risk.tau1), ("tau2", risk.tau2)):
        assert measure.interval == found.envelope[name]
        limits = [make_part(trace, [chain]).laws[name].interval() for chain in range(4)]
        # tau2 is not a whole number: its law is kept on a grid, which all chains share.
        widest = (min(low for low, _ in limits), max(high for _, high in limits))
        assert measure.interval == pytest.approx(widest, abs=0.0 if name == "tau1" else 0.01)
        limits = [interval(draws) for draws in trace.quantities[f"{name}_expected"]]
        assert measure.expected.interval == (min(low for low, _ in limits), max(high for _, high in limits))
    for name, draws in (("r1", trace.r1), ("r2", trace.r2)):
        low, high = getattr(risk, f"{name}_low"), getattr(risk, f"{name}_high")
        for unique in range(0, UNIQUES, 7):
            limits = [interval(chain[:, unique]) for chain in draws]
            assert (low[unique], high[unique]) == (min(a for a, _ in limits), max(b for _, b in limits))
    # Pooled limits would be narrower: a group of one chain in four disappears behind the others.
    pooled = summarise_risk(trace, "converged")
    assert pooled.tau1.interval[1] <= risk.tau1.interval[1]
    assert (pooled.r1_high <= risk.r1_high).all()
    assert (pooled.r1_high < risk.r1_high).any()


def test_too_few_draws_are_not_called_a_disagreement(rng):
    trace = make_trace(rng, [12, 12, 12, 12], draws=10)
    found = diagnose(trace)
    assert not found.converged
    assert not found.disagree
    assert "not enough draws yet" in found.message
    assert "disagree" not in found.message
    assert "effective draws (at least 100)" in found.message
    assert "It is likely to need about " in found.message


def test_one_group_with_gates_that_fail_is_one_mode(rng):
    found = diagnose(make_trace(rng, [12, 12, 12, 12], draws=200, target_ess=5000))
    assert not found.converged
    assert (found.modes, found.disagree) == (1, False)
    assert "agreed as far as so few draws can show when the time limit was reached" in found.message


def test_chance_hardly_ever_disagrees(rng):
    """Chains from one distribution, correlated and few: of 40 sets at most one may be called a disagreement."""
    called, grouped = 0, 0
    for _ in range(40):
        drawn = {name: rng.standard_normal((4, 60)) for name in LINKED}
        for draws in drawn.values():
            for t in range(1, 60):
                draws[:, t] += 0.5 * draws[:, t - 1]
        groups, disagree = group_chains(drawn)
        grouped += len(groups) > 1
        called += disagree
    assert called <= 1
    # The negative control: the cut at 1.05 alone would call most of them different.
    assert grouped > 20


def test_chains_that_still_move_have_not_met(rng):
    found = diagnose(drift(make_trace(rng, [12, 12, 30, 30], stopped="sweeps"), 30.0))
    assert found.disagree
    assert not any(group.settled for group in found.groups)
    assert "the chains have not met yet" in found.message
    assert found.message.endswith("Allow more sweeps with `max_sweeps`, or omit that limit.")


def test_one_chain_alone_is_no_proof(rng):
    found = diagnose(make_trace(rng, [12]))
    assert not found.converged
    assert found.modes == 1
    assert found.message.startswith("NOT CONVERGED. So far the mean of tau1 is ")
    assert "One chain alone cannot show that it has converged." in found.message
    assert found.message.endswith("Use `chains` 4.")


def test_many_groups_are_told_in_one_clause(rng):
    found = diagnose(make_trace(rng, [3, 10, 20, 30, 40, 55]))
    assert found.modes == 6
    assert "Six chains give different estimates: tau1 is about 3" in found.message
    assert " by one and 5" in found.message


def test_linkage_is_complete(rng):
    """Chains in a row, each near the next: those at the ends must not share a group."""
    drawn = {name: rng.standard_normal((4, 2000)) for name in LINKED}
    drawn["tau1_expected"] += np.array([0.0, 0.35, 0.7, 1.05])[:, None]
    near = rhat(drawn["tau1_expected"][[0, 1]])
    assert near <= CUT
    assert rhat(drawn["tau1_expected"][[0, 3]]) > CUT
    groups, _ = group_chains(drawn)
    assert len(groups) >= 2
    for group in groups:
        for first in group:
            for second in group:
                if first < second:
                    assert all(rhat(draws[[first, second]]) <= CUT for draws in drawn.values())


def test_constant_and_stuck_draws_are_grouped(rng):
    drawn = {name: np.zeros((4, 50)) for name in LINKED}
    assert group_chains(drawn) == ([[0, 1, 2, 3]], False)
    drawn["tau1_expected"] = np.repeat([[0.0], [0.0], [1.0], [1.0]], 50, axis=1)
    assert group_chains(drawn) == ([[0, 1], [2, 3]], True)


@pytest.mark.parametrize(
    ("value", "error", "told"),
    [
        (12.14, 0.1, "12.1"),
        (12.14, 0.11, "12"),
        (12.14, 0.04, "12.1"),
        (113.6, 1.0, "114"),
        (113.6, 2.0, "110"),
        (1234.5, 0.3, "1,234"),
        (0.0342, 0.002, "0.03"),
        (0.0342, 0.00001, "0.034"),
        (0.4, 0.5, "0"),
        (4.26, None, "4.3"),
        (12.6, 0.0, "13"),
        (12.6, float("inf"), "13"),
    ],
)
def test_estimates_are_rounded_to_their_error(value, error, told):
    assert rounded(value, error) == told


@pytest.mark.parametrize(
    ("value", "told"), [(0.0, "0"), (0.0178, "0.02"), (4.26, "4.3"), (7.0, "7"), (1234.5, "1,234")]
)
def test_numbers_on_the_screen(value, told):
    assert number(value) == told


def test_weights_are_shown_as_a_comparison_and_only_when_groups_disagree(rng):
    found = diagnose(make_trace(rng, [12, 30, 12, 30]))
    groups = found.groups
    weights = Stacking(
        NOTE, (0.1, 0.2, 0.3, 0.4), groups[0].tau1, groups[0].tau2, records=800, draws=50, unreliable=0.2
    )
    block = replace(found, stacking=weights, groups=share_weights(groups, weights))
    header, body = group_table(block)
    assert header[-1] == "Weight *"
    assert [row[0] for row in body] == ["1, 3", "2, 4", "* weighted"]
    assert [row[-1] for row in body] == ["40 %", "60 %", "100 %"]
    assert "a sensitivity, not the result. From 800 records, 20 % of them" in explain_weights(block)
    for hidden in (replace(block, disagree=False), replace(block, stacking=None)):
        header, body = group_table(hidden)
        assert header[-1] == "Still moving"
        assert len(body) == 2
        assert explain_weights(hidden) == ""
