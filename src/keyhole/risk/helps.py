"""What would help: for each key the single step that loses least information among those that help enough.

A step leaves the key out, merges neighbours in bands, merges its highest or lowest categories (top and bottom coding),
or merges its rarest categories. It helps enough if it takes away at least half of the tau1 that leaving the key out
takes away, on some of the stored draws. Steps are tried in the order of what they lose, and the one that is chosen is
evaluated on the draws of the attribution. Sizes decide how much is done, never the clock.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from keyhole.data import Variable
from keyhole.data.recoding import Groups
from keyhole.diagnostics.laws import Estimate
from keyhole.readable import Readable
from keyhole.risk.loss import count_categories, lose_key
from keyhole.risk.release import (
    Posterior,
    ReleaseRisk,
    estimate_work,
    evaluate_draws,
    evaluate_release,
    prepare_release,
    spread_draws,
)
from keyhole.sampling.events import Coarsening, leave_out

Kind = Literal["leave out", "bands", "top", "bottom", "rare"]

WIDTHS = (2, 3, 4, 5, 10)
"""Neighbours that are merged into a band."""

ENOUGH = 0.5
"""Share of what leaving a key out takes away that another step must take away too."""

TAILS = (0.02, 0.05, 0.1, 0.2, 0.4)
"""Shares of the records that the highest, lowest or rarest categories hold when they are merged, at least."""

FEW_DRAWS = 20
"""Draws on which steps are compared."""

BUDGET = 4e9
"""Nanoseconds for trying and evaluating steps; keys that it does not suffice for are only left out."""

PREPARE = 150.0
"""Cost of counting the records again after a step, for each answer of a distinct cell."""


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
    for width in (width for width in WIDTHS if width < len(places)):
        yield "bands", [places[x : x + width] for x in range(0, len(places), width)]
    orders: list[tuple[Kind, list[int]]] = [("top", places[::-1]), ("bottom", places)]
    if not places:
        orders = [("rare", np.argsort(count, kind="stable").tolist())]
    for kind, order in orders:
        reached = np.cumsum(count[order]) / count.sum()
        for tail in TAILS:
            yield kind, [order[: max(int(np.searchsorted(reached, tail)) + 1, 2)]]


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
    microdata, levels = posterior.microdata, posterior.microdata.levels
    if not posterior.draws or not full.sample_uniques or not microdata.records:
        return []
    counts = count_categories(microdata.cells, np.bincount(microdata.cell, minlength=len(microdata.cells)), levels)
    few = spread_draws(posterior.available, FEW_DRAWS)
    prepare = PREPARE * microdata.cells.size
    first = estimate_work(posterior, prepare_release(posterior, leave_out(levels, None))) * len(few)
    whole, spent = math.inf, BUDGET
    if 3.0 * (prepare + first) < BUDGET:
        whole, spent = _expect(posterior, leave_out(levels, None), few)
        spent += 2.0 * prepare
    found = {}
    # Keys that matter most come first, while the budget lasts.
    for j in sorted(range(len(levels)), key=lambda j: without[j].tau1.expected.mean):
        chosen, after = None, without[j]
        if spent + 2.0 * (prepare + first) < BUDGET:
            least, work = _expect(posterior, leave_out(levels, j), few)
            spent += prepare + work
            for step in list_steps(microdata.variables[j], counts[j]) if least < whole else []:
                if spent + prepare + work * (1.0 + len(draws) / len(few)) > BUDGET:
                    break
                expected, work = _expect(posterior, publish(levels, j, step.groups), few)
                spent += prepare + work
                if whole - expected >= ENOUGH * (whole - least):
                    release = prepare_release(posterior, publish(levels, j, step.groups))
                    spent += prepare + work * len(draws) / len(few)
                    chosen, after = step, evaluate_release(posterior, release, draws)
                    break
        found[j] = _make(microdata.variables[j], chosen, after, full, lose_key(counts[j], None))
    return [found[j] for j in range(len(levels))]


def _expect(posterior: Posterior, coarsening: Coarsening, draws: Sequence[int]) -> tuple[float, float]:
    """Return the mean of E(tau1 | draw) over these draws, and its cost in nanoseconds."""
    release = prepare_release(posterior, coarsening)
    expected = [draw.expected[0] for draw in evaluate_draws(posterior, release, draws)]
    return float(np.mean(expected)), estimate_work(posterior, release) * len(draws)


def publish(levels: Sequence[int], j: int, groups: Groups) -> Coarsening:
    """Return the release in which key j has these groups and all others are as they are."""
    whole = leave_out(levels, None)
    return Coarsening(whole.kept, (*whole.groups[:j], groups, *whole.groups[j + 1 :]))


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
