"""Plans: the release that meets limits with the least loss, chosen on half of the draws, reported on the other."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from keyhole.data.reading import Reading
from keyhole.diagnostics.laws import Estimate
from keyhole.errors import InputError, SettingsError
from keyhole.files import json_text
from keyhole.plan.hierarchies import read_hierarchies
from keyhole.plan.judge import Judge
from keyhole.plan.lattice import Lattice, Node, make_lattice
from keyhole.plan.recipe import Recipe, make_recoded
from keyhole.plan.search import Search, decide, list_others, walk
from keyhole.plan.suppress import NOTHING, Suppression, suppress, within_reach
from keyhole.plan.utility import Utility, describe_local, measure_utility
from keyhole.readable import Readable
from keyhole.risk.advice import Grade
from keyhole.risk.limits import Limit
from keyhole.risk.local import LocalSteps
from keyhole.risk.measures import Measure
from keyhole.risk.policies import Chances, describe_cells_of, word_probability
from keyhole.risk.release import Posterior, evaluate_release, prepare_release, spread_draws
from keyhole.settings import parse_duration
from keyhole.words import number, percent

MOST_DRAWS = 200
"""Draws of either half that are used."""

FEW_DRAWS = 4
"""Draws on which steps of the walk are compared."""

MOST_TRIED, TRIED_LATE = 30, 10
"""Most releases whose figures are looked at on the draws that were not used in the search; fewer when time is up."""

RUNNERS_UP, WALKED = 5, 5
"""Most other releases whose figures are shown: those that meet the limits, and those that the search walked through."""

SHOWN_DRAWS = 40
"""Draws on which the figures of the latter rest."""

NEIGHBOURS = 40
"""Most releases that are tried with local suppression."""

SAVING = 0.1
"""Share of the loss that suppression has to save: it is harder to explain than coarser keys."""

SEARCH_SHARE = 0.7
"""Share of the time for the search; the rest is for the figures."""

FOR_THE_REST = 0.6
"""Share of the rest that is kept for figures other than those by which the release is chosen."""

Status = Literal["optimal", "locally optimal"]


@dataclass(frozen=True)
class Figures(Readable):
    """The risk of a release.

    limits: the measure of each limit, by how it is written; probability: P(the measure is within the limit).
    """

    records: int
    sample_uniques: int
    tau1: Estimate
    tau2: Estimate
    limits: dict[str, float]
    probability: dict[str, float]
    all_records: dict[str, Any] | None = None


@dataclass(frozen=True)
class Alternative(Readable):
    """Another release that was considered. limits: on the draws of the search; met: whether it meets them there."""

    steps: tuple[str, ...]
    loss: float
    sample_uniques: int
    tau1: Estimate
    tau2: Estimate
    limits: dict[str, float]
    met: bool


@dataclass(frozen=True)
class SearchReport(Readable):
    """How a plan was found.

    releases: size of the lattice; decided: whether it is known of all with less loss that they miss the limits;
    evaluated: releases that were judged on draws, the others by inference; seconds; draws, report_draws: in the search,
    and for the figures; tried: releases whose figures were looked at, of which the last was taken.
    search, report: tau1 of the plan on the draws that chose it, and on the others; grade: of the fit.
    """

    releases: int
    decided: bool
    evaluated: int
    seconds: float
    draws: int
    report_draws: int
    tried: int
    search: Estimate
    report: Estimate
    grade: Grade


@dataclass(frozen=True, repr=False)
class Plan:
    """The release that meets the limits with the least loss of information.

    Attributes
    ----------
    steps : tuple of str
        What is done, in words.
    limits : tuple of Limit
        The limits that it meets.
    status : str
        "optimal" if every release with less loss is known to miss the limits, else "locally optimal".
    loss : float
        The share of information that is lost: non-uniform entropy, weighted by the importance of keys.
    before, after : Figures
        The risk of the file as it was assessed, and of the release, on draws that were not used to choose it.
    utility : Utility
        What is left of keys, values, records and margins.
    runners_up, path : tuple of Alternative
        Other releases that meet the limits, and those that the search walked through, by loss.
    search : SearchReport
        How it was found, and how much the choice flatters it.
    recipe : Recipe
        What `protect` applies.
    """

    steps: tuple[str, ...]
    limits: tuple[Limit, ...]
    status: Status
    loss: float
    before: Figures
    after: Figures
    utility: Utility
    runners_up: tuple[Alternative, ...]
    path: tuple[Alternative, ...]
    search: SearchReport
    recipe: Recipe

    def __repr__(self) -> str:
        """Four lines that hold nothing of a record."""
        return (
            f"Plan, {self.status}: {'; '.join(self.steps) or 'the file as it is'}\n"
            f"  {'; '.join(self.describe_limits())}\n"
            f"  {percent(self.loss)} of the information of the keys is lost\n"
            "  see .before, .after, .utility, .runners_up, .save(folder), keyhole.protect(data, plan)"
        )

    def describe_limits(self) -> list[str]:
        """Say how each limit is met."""
        return [
            f"meets the limit of {limit.text}: {number(self.after.limits[limit.text])} ({limit.judged}); that the "
            f"number is within {limit.threshold:g} has probability "
            f"{word_probability(self.after.probability[limit.text], self.search.draws == 0)}"
            for limit in self.limits
        ]

    def to_json(self) -> str:
        """Return the text of plan.json."""
        return json_text(
            {
                "status": self.status,
                "steps": list(self.steps),
                "limits": [limit.text for limit in self.limits],
                "loss": self.loss,
                **{name: asdict(getattr(self, name)) for name in ("before", "after", "utility", "search")},
                "runners_up": [asdict(found) for found in self.runners_up],
                "path": [asdict(found) for found in self.path],
            }
        )

    def save(self, folder: str | Path, overwrite: bool = False) -> None:
        """Write plan.yaml, plan.json and plan.html, readable by their owner only.

        Parameters
        ----------
        folder
            A folder; it is made if it does not exist.
        overwrite
            Replace a plan that the folder holds.

        Raises
        ------
        OutputError
            If the folder holds a plan, or cannot be written.
        """
        from keyhole.plan.page import write_plan

        write_plan(self, Path(folder), overwrite)


def make_plan(
    posterior: Posterior,
    reading: Reading,
    limits: Sequence[Limit],
    keep: Iterable[str] = (),
    importance: Mapping[str, float] | None = None,
    hierarchy: Any = None,
    at_most: float | str = "60s",
    suppress_share: float | None = 0.01,
    fit: tuple[Measure, Measure] | None = None,
    design: Mapping[str, Any] | None = None,
) -> Plan:
    """Find the release that meets the limits with the least loss.

    fit: tau1 and tau2 of the file, as assessed; design: how the sample was drawn, for the recipe.
    """
    clock = time.monotonic()
    if not limits:
        raise SettingsError("`limit`: give at least one, for instance tau1.upper=10")
    try:
        seconds = float(parse_duration(at_most))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise SettingsError("`at_most` is not a duration: write 30s, 5m or 1h") from None
    if suppress_share is None or not 0.0 <= suppress_share < 1.0:
        raise SettingsError("`suppress` must be a share of the records below 1, such as 0.01; 0 for none")
    lattice = make_lattice(
        posterior.microdata, keep, importance, read_hierarchies(hierarchy, posterior.microdata.variables)
    )
    choosing, reporting = split_draws(posterior)
    judge = Judge(posterior, lattice, limits, choosing)
    search = Search(lattice, judge, clock + SEARCH_SHARE * seconds, clock + seconds)
    if not search.meets(lattice.coarsest):
        kept = " apart from those in `keep`" if keep else ""
        raise InputError(
            f"no release meets {' and '.join(limit.text for limit in limits)}, not even with all keys left out{kept}: "
            "set another limit, or keep fewer keys."
        )
    before = _figures(posterior, lattice, lattice.finest, None, limits, None, fit)
    if _met(limits, before):
        best, decided, tried, figures = lattice.finest, True, 1, [before, before]
    else:
        # Half of the draws may say otherwise than all of them.
        search.refuse(lattice.finest)
        best, decided, tried, figures = _choose(search, posterior, lattice, limits, choosing, reporting)
    local, status = NOTHING, "optimal" if decided else "locally optimal"
    others = list_others(search, best, RUNNERS_UP)
    found = _suppress(search, best, others, int(suppress_share * posterior.microdata.records))
    if found is not None:
        node, own = found
        steps = own.steps(posterior.microdata.record_row)
        again = [_figures(posterior, lattice, node, steps, limits, draws) for draws in (choosing, reporting)]
        tried += 1
        if all(_met(limits, each) for each in again):
            others = [best, *others]
            best, local, status, figures = node, own, "locally optimal", again
    steps = local.steps(posterior.microdata.record_row) if local.size else LocalSteps()
    names = tuple(variable.name for variable in lattice.variables)
    few = _thin(posterior, choosing, SHOWN_DRAWS)
    # All records take all cells in every draw.
    shown = few if search.late or judge.others else choosing
    recipe = Recipe(
        reading=reading,
        keys=tuple(make_recoded(v, lattice.levels[j][best[j]]) for j, v in enumerate(lattice.variables)),
        blank={names[j]: where for j, where in steps.blank.items() if isinstance(where, tuple)},
        remove=steps.remove if isinstance(steps.remove, tuple) else (),
        limits=tuple(limit.text for limit in limits),
        population=posterior.n_unseen + posterior.microdata.records,
        design=design or {},
    )
    walked = [node for node in dict.fromkeys([lattice.finest, *search.path]) if node != best and node not in others]
    # The file as it is, and the end of the walk.
    walked = walked[:1] + walked[1:][-WALKED:]
    return Plan(
        steps=(*lattice.describe(best), *describe_local(steps, names)),
        limits=tuple(limits),
        status=status,  # type: ignore[arg-type]
        loss=lattice.loss_of(best) + local.loss,
        before=before,
        after=figures[1],
        utility=measure_utility(posterior, lattice, best, steps),
        runners_up=_alternatives(search, others, limits, shown),
        path=_alternatives(search, walked, limits, few),
        search=SearchReport(
            releases=lattice.size,
            decided=decided,
            evaluated=judge.evaluations,
            seconds=time.monotonic() - clock,
            draws=len(choosing),
            report_draws=len(reporting),
            tried=tried,
            search=figures[0].tau1,
            report=figures[1].tau1,
            grade=posterior.grade,
        ),
        recipe=recipe,
    )


def split_draws(posterior: Posterior) -> tuple[list[int], list[int]]:
    """Choose draws for the search from the first half of every chain, and for the figures from the second."""
    chains, each = posterior.available
    if not chains:
        return [], []
    half = each // 2
    if half == 0:
        both = spread_draws((chains, each), MOST_DRAWS)
        return both, both
    first = spread_draws((chains, half), MOST_DRAWS)
    second = spread_draws((chains, each - half), MOST_DRAWS)
    return (
        [x // half * each + x % half for x in first],
        [x // (each - half) * each + half + x % (each - half) for x in second],
    )


def _choose(
    search: Search,
    posterior: Posterior,
    lattice: Lattice,
    limits: Sequence[Limit],
    choosing: Sequence[int],
    reporting: Sequence[int],
) -> tuple[Node, bool, int, list[Figures]]:
    """Return the best release that meets the limits on either half of the draws."""
    judge = search.judge

    def risk(node: Node) -> float:
        return judge.approximate(node, FEW_DRAWS)

    best = walk(search, risk, lattice.finest)
    tried = 0
    while True:
        best = decide(search, best)
        tried += 1
        figures = [_figures(posterior, lattice, best, None, limits, draws) for draws in (choosing, reporting)]
        if all(_met(limits, found) for found in figures):
            return best, search.decided, tried, figures
        if best == lattice.coarsest:
            raise InputError(
                f"no release meets {' and '.join(limit.text for limit in limits)} on the draws that are kept for the "
                "figures: set another limit, or keep fewer keys."
            )
        search.refuse(best)
        enough = tried >= (TRIED_LATE if search.late else MOST_TRIED) or search.over(FOR_THE_REST)
        best = lattice.coarsest if enough else search.next_best(best, risk)


def _figures(
    posterior: Posterior,
    lattice: Lattice,
    node: Node,
    local: LocalSteps | None,
    limits: Sequence[Limit],
    draws: Sequence[int] | None,
    fit: tuple[Measure, Measure] | None = None,
) -> Figures:
    """Return the risk of a release on these draws, with the limits' measures as an assessment judges them.

    draws: None for those that an assessment uses; fit: tau1 and tau2 if they are known from more draws.
    """
    release = prepare_release(posterior, lattice.coarsening(node), local)
    found = evaluate_release(posterior, release, list(draws or ()) or None)
    found = found if fit is None else replace(found, tau1=fit[0], tau2=fit[1])
    block, cells = None, None
    others = [limit for limit in limits if limit.needs_all_records]
    if others:
        block, cells = describe_cells_of(
            posterior,
            lattice.coarsening(node),
            others,
            None if draws is None else _thin(posterior, draws, len(draws)),
        )
    numbers = {
        "tau1": _estimate(found.tau1), "tau2": _estimate(found.tau2),
        "input": {"used": found.records}, "all_records": block,
    }  # fmt: skip
    tau1, tau2 = found._laws or (found.tau1.mean, found.tau2.mean)
    chances = Chances(tau1, tau2, found.records, cells, found.tau1.pooled)
    return Figures(
        records=found.records,
        sample_uniques=found.sample_uniques,
        tau1=_estimate(found.tau1),
        tau2=_estimate(found.tau2),
        limits={limit.text: limit.value(numbers) for limit in limits},
        probability={limit.text: min(max(chances.probability(limit), 0.0), 1.0) for limit in limits},
        all_records=None if block is None else asdict(block),
    )


def _estimate(measure: Measure) -> Estimate:
    return Estimate(measure.mean, measure.interval)


def _met(limits: Sequence[Limit], found: Figures) -> bool:
    return all(found.limits[limit.text] <= limit.threshold for limit in limits)


def _suppress(search: Search, best: Node, others: Sequence[Node], most: int) -> tuple[Node, Suppression] | None:
    """Return a finer release with local suppression, if the two together lose less than the best release."""
    lattice, judge = search.lattice, search.judge
    target = lattice.loss_of(best) * (1.0 - SAVING)
    if not most or target == 0.0 or judge.others:
        return None
    around = {node for start in (best, *others) for node in _neighbours(lattice, start)} | set(search.path)
    nodes = sorted((node for node in around if lattice.loss_of(node) < target), key=lattice.loss_of, reverse=True)
    found: tuple[Node, Suppression] | None = None
    longest, last = 0.0, time.monotonic()
    for node in nodes[:NEIGHBOURS]:
        now = time.monotonic()
        longest, last = max(longest, now - last), now
        if now + longest > search.deadline:
            break
        if lattice.loss_of(node) >= target or not within_reach(judge, node, most):
            continue
        room = target - lattice.loss_of(node)
        own = suppress(judge, node, judge.evaluate(node), most, room)
        if own is not None:
            target = lattice.loss_of(node) + own.loss
            found = node, own
    return found


def _neighbours(lattice: Lattice, node: Node) -> list[Node]:
    return [
        (*node[:j], y, *node[j + 1 :])
        for j, x in enumerate(node)
        for y in range(len(lattice.levels[j]))
        if lattice.loss[j][y] < lattice.loss[j][x]
    ]


def _alternatives(
    search: Search, nodes: Sequence[Node], limits: Sequence[Limit], draws: Sequence[int]
) -> tuple[Alternative, ...]:
    """Return the figures of these releases, as far as there is time."""
    found = []
    for node in nodes:
        if search.over():
            break
        found.append(_alternative(search, node, limits, draws))
    return tuple(found)


def _alternative(search: Search, node: Node, limits: Sequence[Limit], draws: Sequence[int]) -> Alternative:
    lattice, met = search.lattice, search.meets(node)
    found = _figures(search.judge.posterior, lattice, node, None, limits, draws)
    return Alternative(
        steps=tuple(lattice.describe(node)) or ("the file as it is",),
        loss=lattice.loss_of(node),
        sample_uniques=found.sample_uniques,
        tau1=found.tau1,
        tau2=found.tau2,
        limits=found.limits,
        met=met,
    )


def _thin(posterior: Posterior, draws: Sequence[int], wanted: int) -> list[int]:
    """Keep about so many draws, equally many of each chain."""
    chains, each = posterior.available
    if not chains or not draws:
        return []
    own = [[x for x in draws if x // each == chain] for chain in range(chains)]
    step = max(len(draws) // wanted, 1)
    return [x for found in own for x in found[::step]]
