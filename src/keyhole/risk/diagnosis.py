"""The diagnosis of a trace: the gates, the grade that follows, and groups of chains if the gates are not met."""

import math
from dataclasses import dataclass, replace

from keyhole.diagnostics.gates import Gate, check_ends, check_records, check_series, check_shown, is_usable, may_stop
from keyhole.diagnostics.groups import Group, describe_groups, group_chains
from keyhole.diagnostics.laws import Interval
from keyhole.diagnostics.series import finite, monte_carlo_error
from keyhole.kernels.state import Records
from keyhole.risk.advice import Grade, Verdict, counts, make_verdict, worst
from keyhole.risk.stacking import Stacking, share_weights, weigh_chains
from keyhole.sampling.layout import find_rules
from keyhole.sampling.trace import Trace
from keyhole.zeros import Zeros


@dataclass(frozen=True)
class Diagnosis:
    """The verdict and what it is based on. rhat and the effective draws are the worst over E(tau1) and E(tau2).

    groups: chains that agree with each other; modes: number of groups.
    disagree: whether groups are further apart than chance allows with so many draws.
    envelope: if not converged, the smallest lower and largest upper limit of any chain, of tau1 and tau2.
    stacking: if groups disagree, the result with weights by prediction: a sensitivity analysis, not the result.
    """

    verdict: Verdict
    rhat: float
    ess_bulk: float
    ess_tail: float
    modes: int
    gates: tuple[Gate, ...]
    groups: tuple[Group, ...] = ()
    disagree: bool = False
    envelope: dict[str, Interval] | None = None
    stacking: Stacking | None = None

    @property
    def grade(self) -> Grade:
        return self.verdict.grade

    @property
    def converged(self) -> bool:
        return self.grade == "converged"

    @property
    def pooled(self) -> bool:
        """Whether draws of different chains may be pooled."""
        return self.grade != "not converged"

    @property
    def message(self) -> str:
        return self.verdict.message


def check_gates(trace: Trace) -> list[Gate]:
    series = check_series(trace.quantities, trace.discarded, trace.target_ess)
    return [*series, *check_ends(trace.laws), *check_records(trace.r1, trace.r2), *check_shown(trace.quantities)]


def diagnose(trace: Trace) -> Diagnosis:
    """Apply every gate to the draws; if they are not met, find which chains agree and how far apart they all are."""
    drawn = trace.quantities
    gates = check_gates(trace)
    several = len(trace.starts) >= 2
    grade: Grade = "not converged"
    if several and may_stop(gates):
        grade = "converged"
    elif several and is_usable(gates):
        grade = "usable"
    # Pooled chains form one group, even if the R-hat of a pair is slightly above the cut.
    members, disagree = group_chains(drawn) if grade == "not converged" else ([list(range(len(trace.starts)))], False)
    groups = describe_groups(drawn, trace.laws, members)
    errors = {
        "error": finite(monte_carlo_error(drawn["tau1_expected"])),
        "end_error": finite(max(trace.laws["tau1"].end_errors())),
    }
    limits = {name: law.envelope() for name, law in trace.laws.items()} if grade == "not converged" else None
    return Diagnosis(
        verdict=make_verdict(trace, gates, grade, groups, disagree, errors),
        rhat=worst(gates, "rhat"),
        ess_bulk=min(gate.value for gate in gates if counts(gate) and gate.name.startswith("ess_bulk")),
        ess_tail=min(gate.value for gate in gates if gate.name.startswith("ess_tail")),
        modes=len(groups),
        gates=tuple(gates),
        groups=groups,
        disagree=disagree,
        envelope=limits,
    )


def certain_diagnosis(reason: str) -> Diagnosis:
    """Return the diagnosis of an answer that needed no sampling."""
    verdict = Verdict("converged", "certain", "none", {"why": reason})
    return Diagnosis(verdict, rhat=math.nan, ess_bulk=math.nan, ess_tail=math.nan, modes=1, gates=())


def weigh_groups(diagnosis: Diagnosis, trace: Trace, records: Records, zeros: Zeros | None) -> Diagnosis:
    """Add stacking weights if there are several groups of chains; otherwise return the diagnosis unchanged."""
    if diagnosis.modes < 2:
        return diagnosis
    stacking = weigh_chains(trace, records, find_rules(zeros, records.level_start))
    if stacking is None:
        return diagnosis
    return replace(diagnosis, stacking=stacking, groups=share_weights(diagnosis.groups, stacking))
