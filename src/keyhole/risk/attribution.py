"""Which variables and categories carry tau1 and tau2, and what removing risky records would leave."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from keyhole.diagnostics.laws import Estimate
from keyhole.kernels.state import Integers
from keyhole.readable import Readable
from keyhole.risk.measures import Measure, Risk
from keyhole.risk.release import (
    Posterior,
    Release,
    ReleaseRisk,
    estimate_work,
    evaluate_release,
    prepare_release,
    spread_draws,
)
from keyhole.sampling import Trace
from keyhole.sampling.costs import sweep_cost
from keyhole.sampling.events import leave_out

THRESHOLDS = (0.5, 0.2, 0.1, 0.05, 0.01)
MOST_DRAWS = 100
FEWEST_DRAWS = 40
SHARE_OF_RUN = 0.1
"""Attribution uses MOST_DRAWS draws; fewer if they would take more than this share of the run."""

SHARE_FOR_ALL = 0.03
"""More draws, up to all that are stored, are used if they take no more than this share of the run."""


@dataclass(frozen=True)
class CategoryShare(Readable):
    """The contribution of the sample uniques with one category: tau1 and tau2 as sums of their mean r1 and r2."""

    code: str
    label: str | None
    tau1: float
    tau2: float
    uniques: int


@dataclass(frozen=True)
class VariableShare(Readable):
    """The risk that disappears if a variable is left out.

    share_tau1, share_tau2: the share of tau1 and tau2 that disappears, between 0 and 1, on the same draws.
    tau1_without, tau2_without, sample_uniques_without: what remains; categories: the contribution of each.
    """

    name: str
    share_tau1: float
    share_tau2: float
    tau1_without: Estimate
    tau2_without: Estimate
    sample_uniques_without: int
    categories: tuple[CategoryShare, ...]


@dataclass(frozen=True)
class Attribution(Readable):
    """The block `attribution` of the summary. draws: how many the shares rest on."""

    draws: int
    variables: tuple[VariableShare, ...]


@dataclass(frozen=True)
class Threshold(Readable):
    """How many records have r1 above a limit, and tau1 and tau2 of the others, were they removed."""

    above: float
    records: int
    tau1_after: float
    tau2_after: float


@dataclass(frozen=True)
class Without:
    """The risk as it is, and without each key, on the stored draws of these numbers."""

    draws: list[int]
    full: ReleaseRisk
    each: tuple[ReleaseRisk, ...]


def leave_each_out(posterior: Posterior, trace: Trace | None) -> Without:
    """Leave each variable out in turn."""
    levels = posterior.microdata.levels
    whole = prepare_release(posterior, leave_out(levels, None))
    releases = [prepare_release(posterior, leave_out(levels, j)) for j in range(len(levels))]
    draws = choose_draws(posterior, whole, releases, trace)
    full = evaluate_release(posterior, whole, draws)
    return Without(draws, full, tuple(evaluate_release(posterior, release, draws) for release in releases))


def attribute_risk(posterior: Posterior, unique_record: Integers, risk: Risk, found: Without) -> Attribution:
    """Return the risk without each variable, and the shares of its categories."""
    full, shares = found.full, []
    for variable, without, j in zip(posterior.microdata.variables, found.each, range(len(found.each)), strict=True):
        code = posterior.microdata.cells[posterior.microdata.cell[unique_record], j]
        labels = variable.labels or (None,) * len(variable.categories)
        has = [code == x for x in range(len(variable.categories))]
        shares.append(
            VariableShare(
                name=variable.name,
                share_tau1=_part_gone(full.tau1, without.tau1),
                share_tau2=_part_gone(full.tau2, without.tau2),
                tau1_without=Estimate(without.tau1.mean, without.tau1.interval),
                tau2_without=Estimate(without.tau2.mean, without.tau2.interval),
                sample_uniques_without=without.sample_uniques,
                categories=tuple(
                    CategoryShare(text, label, float(risk.r1[own].sum()), float(risk.r2[own].sum()), int(own.sum()))
                    for text, label, own in zip(variable.categories, labels, has, strict=True)
                ),
            )
        )
    return Attribution(len(found.draws), tuple(shares))


def choose_draws(posterior: Posterior, whole: Release, releases: Sequence[Release], trace: Trace | None) -> list[int]:
    """Choose stored draws, evenly spread, as many as fit into a share of the run; sizes decide, never the clock."""
    if trace is None or not posterior.draws:
        return []
    n, variables = posterior.microdata.records, len(posterior.microdata.variables)
    sweeps = trace.sweeps * len(trace.starts)
    sweep = sweep_cost(n, variables, posterior.zeros is not None)
    run = sweeps * (sweep + estimate_work(posterior, whole) / trace.thin)
    work = sum(estimate_work(posterior, release) for release in (whole, *releases))
    wanted = int(SHARE_OF_RUN * run / max(work, 1.0))
    cheap = int(SHARE_FOR_ALL * run / max(work, 1.0))
    return spread_draws(posterior.available, max(min(max(wanted, FEWEST_DRAWS), MOST_DRAWS), cheap))


def describe_thresholds(risk: Risk) -> list[Threshold]:
    found = []
    for above in THRESHOLDS:
        stays = risk.r1 <= above
        left = (float(value[stays].sum()) for value in (risk.r1, risk.r2))
        found.append(Threshold(above, int((~stays).sum()), *left))
    return found


def rank_uniques(risk: Risk) -> Integers:
    """Return the ranks of the sample uniques, 1 for the largest r1; ties by r2, then by row."""
    order = np.lexsort((-risk.r2, -risk.r1))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(1, len(order) + 1)
    return rank


def _part_gone(full: Measure, without: Measure) -> float:
    if full.expected.mean <= 0.0:
        return 0.0
    return min(max(1.0 - without.expected.mean / full.expected.mean, 0.0), 1.0)
