"""What would help: for each key the single step that loses least information among those that help enough.

A step leaves the key out, merges neighbours in bands, merges its highest or lowest categories (top and bottom coding),
or merges its rarest categories. It helps enough if it takes away at least half of the tau1 that leaving the key out
takes away. Whether it does is decided without any probability: whoever is alone in the coarser sample was alone before,
with at least the same risk, so tau1 is at most the sum of r1 over the records that are still alone. Only the step that
is chosen is then evaluated, on the draws of the attribution. Sizes decide how much is done, never the clock.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from keyhole.data import Variable
from keyhole.diagnostics.laws import Estimate
from keyhole.readable import Readable
from keyhole.risk.loss import count_categories, lose_key
from keyhole.risk.release import (
    Posterior,
    ReleaseRisk,
    count_coarse,
    estimate_work,
    evaluate_release,
    prepare_release,
)
from keyhole.sampling.events import Coarsening, Groups, leave_out

Kind = Literal["leave out", "bands", "top", "bottom", "rare"]

WIDTHS = (2, 3, 4, 5, 10)
"""Neighbours that are merged into a band."""

ENOUGH = 0.5
"""Share of what leaving a key out takes away that another step must take away too."""

COUNTING = 2e9
"""Nanoseconds for counting the records of all steps, and STEP of them for each answer of a distinct cell."""

STEP = 100.0

EVALUATING = 4e9
"""Nanoseconds for evaluating the steps that are chosen; beyond it keys are only left out."""


@dataclass(frozen=True)
class Help(Readable):
    """An entry of the block `helps` of the summary: the best single step for a key.

    step: leave out; bands, of neighbours; top, bottom: the highest or lowest categories as one; rare: the rarest as
    one. merged: the codes of the categories that are merged, group by group.
    tau1, tau2, sample_uniques: after the step; share_tau1: the share of tau1 that it takes away, on the same draws.
    loss: bits that a record loses on average; share_lost: as a share of those of the key, 1 if it is left out.
    """

    name: str
    step: Kind
    merged: tuple[tuple[str, ...], ...]
    tau1: Estimate
    tau2: Estimate
    sample_uniques: int
    share_tau1: float
    loss: float
    share_lost: float


def word_step(kind: Kind, merged: Sequence[Sequence[str]]) -> str:
    """Return a step in words that name no category."""
    match kind:
        case "bands":
            return f"merge its neighbouring categories in groups of {max(map(len, merged))}"
        case "top":
            return "merge its highest categories into one"
        case "bottom":
            return "merge its lowest categories into one"
        case "rare":
            return "merge its rarest categories into one"
    return "leave it out"


def best_first(helps: Sequence[Help]) -> list[Help]:
    """Return the steps in the order of the share of tau1 that they take away for each bit."""
    return sorted(helps, key=lambda step: -step.share_tau1 / max(step.loss, 1e-12))


@dataclass(frozen=True)
class Step:
    """A candidate: how a key is published, and the bits that are lost."""

    kind: Kind
    groups: Groups
    loss: float


def list_steps(variable: Variable, count: NDArray[np.int64]) -> list[Step]:
    """Return the steps for a key but leaving it out, those first that lose least; count: records of each category."""
    steps = dict[Groups, Step]()
    for kind, merged in _merges(variable, count):
        groups = _complete(merged, len(count))
        if 1 < len(groups) < len(count) and groups not in steps:
            steps[groups] = Step(kind, groups, lose_key(count, groups))
    return sorted(steps.values(), key=lambda step: (step.loss, step.groups))


def _merges(variable: Variable, count: NDArray[np.int64]) -> Iterator[tuple[Kind, list[list[int]]]]:
    first, last = variable.orderable if variable.ordered else (0, 0)
    places = list(range(first, last))
    if places:
        for width in (width for width in WIDTHS if width < len(places)):
            yield "bands", [places[x : x + width] for x in range(0, len(places), width)]
        for cut in range(1, len(places) - 1):
            yield "top", [places[cut:]]
            yield "bottom", [places[: cut + 1]]
        return
    rarest = np.argsort(count, kind="stable").tolist()
    for many in range(2, len(rarest)):
        yield "rare", [rarest[:many]]


def _complete(merged: list[list[int]], categories: int) -> Groups:
    """Return all categories in groups, in the order of their first category."""
    taken = {x for group in merged for x in group}
    groups = [tuple(sorted(group)) for group in merged] + [(x,) for x in range(categories) if x not in taken]
    return tuple(sorted(groups))


def find_helps(
    posterior: Posterior, full: ReleaseRisk, without: Sequence[ReleaseRisk], draws: Sequence[int]
) -> list[Help]:
    """Return the best single step for each key, in the order of the keys; none if nothing had to be estimated.

    full, without: the risk as it is, and without each key, on these draws.
    """
    microdata = posterior.microdata
    if not posterior.draws or not full.sample_uniques:
        return []
    size = np.bincount(microdata.cell, minlength=len(microdata.cells))
    counts = count_categories(microdata.cells, size, microdata.levels)
    risk = np.zeros(microdata.rows)
    risk[full.unique_row - 1] = full.r1
    most = int(COUNTING / (STEP * microdata.cells.size * len(microdata.variables)))
    work, found = 0.0, []
    for j, variable in enumerate(microdata.variables):
        entropy = lose_key(counts[j], None)
        wanted = ENOUGH * (full.tau1.expected.mean - without[j].tau1.expected.mean)
        steps = list_steps(variable, counts[j])
        chosen, after = None, without[j]
        # With missing answers a record may become alone when a key is merged, so that nothing is known before.
        possible = _thin(steps, most) if wanted > 0.0 and microdata.cells.min() >= 0 else []
        for step in possible:
            if full.tau1.expected.mean - _bound(posterior, publish(microdata.levels, j, step.groups), risk) >= wanted:
                release = prepare_release(posterior, publish(microdata.levels, j, step.groups))
                work += estimate_work(posterior, release) * len(draws)
                if work <= EVALUATING:
                    chosen, after = step, evaluate_release(posterior, release, draws)
                break
        found.append(_make(variable, chosen, after, full, entropy))
    return found


def publish(levels: Sequence[int], j: int, groups: Groups) -> Coarsening:
    """Return the release in which key j has these groups and all others are as they are."""
    whole = leave_out(levels, None)
    return Coarsening(whole.kept, (*whole.groups[:j], groups, *whole.groups[j + 1 :]))


def _thin(steps: list[Step], most: int) -> list[Step]:
    """Return at most so many steps, evenly spread."""
    if len(steps) <= most:
        return steps
    return [steps[x] for x in np.unique(np.linspace(0, len(steps) - 1, max(most, 1)).round().astype(int))]


def _bound(posterior: Posterior, coarsening: Coarsening, risk: NDArray[np.float64]) -> float:
    """Return an upper bound of tau1: the risks, by row, of the records that are still alone."""
    _, counts = count_coarse(posterior, coarsening)
    return float(risk[posterior.microdata.record_row[counts.unique_record]].sum())


def _make(variable: Variable, step: Step | None, after: ReleaseRisk, full: ReleaseRisk, entropy: float) -> Help:
    before = full.tau1.expected.mean
    loss = entropy if step is None else step.loss
    merged = () if step is None else tuple(group for group in step.groups if len(group) > 1)
    return Help(
        name=variable.name,
        step="leave out" if step is None else step.kind,
        merged=tuple(tuple(variable.categories[x] for x in group) for group in merged),
        tau1=Estimate(after.tau1.mean, after.tau1.interval),
        tau2=Estimate(after.tau2.mean, after.tau2.interval),
        sample_uniques=after.sample_uniques,
        share_tau1=min(max(1.0 - after.tau1.expected.mean / before, 0.0), 1.0) if before > 0.0 else 0.0,
        loss=loss,
        share_lost=loss / entropy if entropy > 0.0 else 1.0,
    )
