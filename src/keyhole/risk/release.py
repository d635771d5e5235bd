"""The risk of a coarser release (variables left out, categories merged) from the same fit (docs/model.md section 9).

Sample uniques are counted again in the coarse records. The probability of a coarse cell follows exactly from the
weights and profiles of stored draws, with V(f, .) for the f variables that are left: one pass over draws, no new
sampling.
"""

import math
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from keyhole.data import CellCounts, Microdata, Variable, count_cells, count_records, find_cells
from keyhole.data.bands import read_bands
from keyhole.data.cells import Codes
from keyhole.data.recoding import Groups, join_groups, merge_bands, merge_bottom, merge_lists, merge_top
from keyhole.data.strata import Strata
from keyhole.diagnostics.gates import check_mean
from keyhole.diagnostics.laws import Law, count_laws, law_of_matches, law_of_uniques, thin_law
from keyhole.errors import OptionError, SettingsError
from keyhole.kernels.freeze import Draw
from keyhole.kernels.state import Floats, Integers, Rules
from keyhole.risk.advice import Grade
from keyhole.risk.local import (
    Condition,
    Entries,
    Items,
    LocalSteps,
    Where,
    find_rows,
    list_items,
    make_entries,
    measure_items,
    thin_moments,
)
from keyhole.risk.measures import Measure, about, certain_measure, measure
from keyhole.sampling.costs import cell_cost, class_evaluation_cost
from keyhole.sampling.events import Coarsening, Events, make_events
from keyhole.sampling.layout import find_rules
from keyhole.sampling.predict import Measured, Scratch, is_mixture, predict
from keyhole.sampling.predict import measure as measure_cells
from keyhole.sampling.strata import Exposure, make_exposure, measure_exposure, predict_strata
from keyhole.sampling.trace import Draws
from keyhole.seeds import RELEASE, make_seeds
from keyhole.words import did_you_mean, plural
from keyhole.zeros import Zeros

if TYPE_CHECKING:
    from keyhole.risk.policies import PolicyVerdict

Item = TypeVar("Item")


def make_coarsening(
    variables: Sequence[Variable],
    drop: Iterable[str] = (),
    recode: Mapping[str, Iterable[Iterable[Any]]] | None = None,
    bands: Mapping[str, Any] | None = None,
    top: Mapping[str, Any] | None = None,
    bottom: Mapping[str, Any] | None = None,
) -> Coarsening:
    """Leave out the variables in `drop`, and merge what lists, bands, top and bottom coding merge of the others."""
    return join_merges(variables, drop, list_merges(variables, recode, bands, top, bottom))


@dataclass(frozen=True)
class Merge:
    """What one option merges of the categories of key j."""

    option: str
    j: int
    groups: Groups


def list_merges(
    variables: Sequence[Variable],
    recode: Mapping[str, Iterable[Iterable[Any]]] | None = None,
    bands: Mapping[str, Any] | None = None,
    top: Mapping[str, Any] | None = None,
    bottom: Mapping[str, Any] | None = None,
) -> list[Merge]:
    """Return what lists, bands, top and bottom coding merge."""
    names = [variable.name for variable in variables]
    asked: list[tuple[str, Mapping[str, Any] | None, Callable[[Variable, Any], Groups]]] = [
        ("recode", recode, merge_lists),
        ("bands", read_bands(bands), merge_bands),
        ("top", top, merge_top),
        ("bottom", bottom, merge_bottom),
    ]
    found = []
    for option, entries, merge in asked:
        for name, entry in (entries or {}).items():
            j = _find(name, names)
            found.append(Merge(option, j, merge(variables[j], entry)))
    return found


def join_merges(variables: Sequence[Variable], drop: Iterable[str], merges: Sequence[Merge]) -> Coarsening:
    """Leave out the variables in `drop`, and merge what any of these options merges of the others."""
    names = [variable.name for variable in variables]
    dropped = {_find(name, names) for name in ([drop] if isinstance(drop, str) else drop)}
    found: dict[int, list[Groups]] = {}
    for merge in merges:
        if merge.j in dropped:
            raise SettingsError(f"'{names[merge.j]}' is dropped and recoded: do only one of the two")
        found.setdefault(merge.j, []).append(merge.groups)
    kept = tuple(j for j in range(len(names)) if j not in dropped)
    return Coarsening(kept, tuple(join_groups(len(variables[j].categories), found.get(j, [])) for j in kept))


IDLE = {
    "recode": "no group has two categories",
    "bands": "no two of its categories lie in one band",
    "top": "no other category is above",
    "bottom": "no other category is below",
}


def describe_idle(variables: Sequence[Variable], merges: Sequence[Merge]) -> list[str]:
    """Name the options that merge nothing."""
    return [
        f"`{merge.option}` {variables[merge.j].name} changes nothing: {IDLE[merge.option]}"
        for merge in merges
        if len(merge.groups) == len(variables[merge.j].categories)
    ]


def _find(name: str, names: Sequence[str]) -> int:
    if name in names:
        return names.index(name)
    raise OptionError(
        f"'{name}' is not one of the keys{did_you_mean(name, names)}: they are {', '.join(names)}; a release can only "
        "be coarser than what was assessed, so a further variable needs an assessment of its own"
    )


FEWEST_TO_GRADE = 20
"""Fewest draws of each chain from which R-hat of a coarser release is computed."""

ENOUGH_DRAWS = 200
"""Stored draws that one release uses at least; neighbouring draws are similar."""

BUDGET = 4e9
"""Nanoseconds of one release; all stored draws are used if they take no longer."""


@dataclass(frozen=True)
class Posterior:
    """What evaluating a coarser release needs.

    n_unseen: M, the number of unseen people; draws: as in Trace, empty if nothing had to be sampled.
    workers: draws evaluated at the same time, which changes no number.
    strata: if there are several; draws then have the levels of their further variable after those of the keys.
    grade: of the fit; chains that disagree are not pooled for a coarser release either.
    """

    microdata: Microdata
    zeros: Zeros | None
    n_unseen: int
    draws: Draws
    seed: int
    workers: int | None
    grade: Grade = "converged"
    strata: Strata | None = None

    @property
    def available(self) -> tuple[int, int]:
        """Number of chains, and of draws of each."""
        return len(self.draws), len(self.draws[0]) if self.draws else 0

    @cached_property
    def rules(self) -> Rules:
        start = np.concatenate([[0], np.cumsum(self.microdata.levels)]).astype(np.int64)
        return find_rules(self.zeros, start)


@dataclass(frozen=True, repr=False)
class ReleaseRisk:
    """The risk of a coarser release.

    Attributes
    ----------
    tau1, tau2 : Measure
        As of an `Assessment`.
    sample_uniques : int
        Records that are unique in the coarser sample; with `subsample`, how many are expected.
    unique_row : numpy.ndarray
        Their rows, from 1.
    r1, r2 : numpy.ndarray
        Their mean risks.
    draws : int
        Number of stored draws used, 0 if the answer is certain.
    grade : str
        Converged, usable or not converged, by its own draws: as the fit, or lower.
    records : int
        Records that are published.
    removed : int
        Records that are not, because of `remove`.
    blanked : int
        Values that are blank because of `blank`.
    policies : tuple of PolicyVerdict
        Whether it meets the policies that were asked for.
    notes : tuple of str
        Steps that were asked for and change nothing.
    """

    tau1: Measure
    tau2: Measure
    sample_uniques: int
    unique_row: Integers = field(compare=False)
    r1: Floats = field(compare=False)
    r2: Floats = field(compare=False)
    draws: int
    grade: Grade = "converged"
    records: int = 0
    removed: int = 0
    blanked: int = 0
    policies: "tuple[PolicyVerdict, ...]" = ()
    notes: tuple[str, ...] = ()
    # The laws of tau1 and tau2, or the numbers if they are certain: for the probabilities of limits.
    _laws: tuple[Law, Law] | tuple[float, float] | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        """One line that holds nothing of a record."""
        return (
            f"ReleaseRisk: tau1 {about(self.tau1)}, tau2 {about(self.tau2)}, "
            f"{plural(self.sample_uniques, 'sample unique')}; {self.grade}"
        )


@dataclass(frozen=True)
class Release:
    """A coarser release, ready to be evaluated: its sample uniques and the events of their cells.

    For the risk of every record, unique_record has one record of each cell that is evaluated.
    n_unseen: people who may share these cells: unseen people, and records that have no answer left; None with strata,
    of which `exposure` has them, and `events` is its pairs.
    items: the published rows, if single records are changed; `events` then are theirs and those of their overlaps.
    drawn: of how many records how many are published, if a share of them is drawn.
    idle: steps for single records that change nothing.
    """

    unique_record: Integers
    events: Events
    n_unseen: int | None
    exposure: Exposure | None = None
    items: Items | None = None
    drawn: tuple[int, int] | None = None
    records: int = 0
    removed: int = 0
    blanked: int = 0
    idle: tuple[str, ...] = ()

    @property
    def as_it_is(self) -> bool:
        """Whether all records are published, with all values of the keys that are left."""
        return not self.removed and not self.blanked and (self.drawn is None or self.drawn[0] == self.drawn[1])


def prepare_release(posterior: Posterior, coarsening: Coarsening, local: LocalSteps | None = None) -> Release:
    """Count the coarse cells of the records and make the events of those with one record."""
    if local is not None and local.any:
        return _prepare_local(posterior, coarsening, local)
    cells, counts = count_coarse(posterior, coarsening)
    return expose_cells(posterior, coarsening, cells, counts, counts.unique_record)


def count_coarse(posterior: Posterior, coarsening: Coarsening) -> tuple[Codes, CellCounts]:
    """Return the distinct coarse cells (cells, kept), and how many records each has."""
    # Cells are merged, not records: there are far fewer of them in a large file.
    coarse = coarsening.apply(posterior.microdata.cells)
    cells, merged = find_cells(list(coarse.T), len(coarse))
    return cells, count_records(cells, merged[posterior.microdata.cell])


def expose_cells(
    posterior: Posterior, coarsening: Coarsening, cells: Codes, counts: CellCounts, records: Integers
) -> Release:
    """Make the events of the cells of these records, and say who may be in them."""
    blank = np.asarray((cells < 0).all(axis=1))[counts.cell] if counts.blank else None
    return _expose(posterior, coarsening, cells[counts.cell[records]], blank, records)


def _expose(
    posterior: Posterior, coarsening: Coarsening, cells: Codes, blank: NDArray[np.bool_] | None, records: Integers
) -> Release:
    """Make the events of cells; blank: which records have no answer, and may be anybody."""
    levels, strata, published = posterior.microdata.levels, posterior.strata, posterior.microdata.records
    possible = None if posterior.zeros is None or not len(posterior.zeros.impossible) else posterior.zeros.possible
    if strata is not None:
        unseen = strata.unseen
        if blank is not None:
            unseen = unseen + np.bincount(strata.of_record[blank], minlength=len(unseen))
        exposure = make_exposure(strata, unseen, cells, coarsening, levels, possible)
        return Release(records, exposure.pairs, None, exposure, records=published)
    n_unseen = posterior.n_unseen + (0 if blank is None else int(blank.sum()))
    return Release(records, make_events(cells, coarsening, levels, possible), n_unseen, records=published)


def _prepare_local(posterior: Posterior, coarsening: Coarsening, local: LocalSteps) -> Release:
    """Blank values, remove records and draw a share of them, in this order."""
    coarse = coarsening.apply(posterior.microdata.cells)[posterior.microdata.cell]
    published, blanked = coarse.copy(), 0
    nobody = np.zeros(len(coarse), np.bool_)
    risks: dict[str, Floats] = {}
    idle = []
    for j, where in local.blank.items():
        chosen = _choose(posterior, coarsening, coarse, coarse, where, "blank", risks)
        column = published[:, coarsening.kept.index(j)]
        values = int((chosen & (column >= 0)).sum())
        if not values:
            idle.append(_word_idle(f"`blank` {posterior.microdata.variables[j].name}", where))
        blanked += values
        column[chosen] = -1
    removed = nobody
    if local.remove is not None:
        risks = risks if not blanked else {}
        removed = _choose(posterior, coarsening, coarse, published, local.remove, "remove", risks)
        if not removed.any():
            idle.append(_word_idle("`remove`", local.remove))
    if removed.all():
        raise SettingsError("`remove` leaves no record")
    _refuse_missing(coarse, removed, local.subsample)
    items, drawn = list_items(coarse, published, removed, local.subsample)
    release = release_items(posterior, coarsening, coarse, items)
    left = len(coarse) - int(removed.sum()) if drawn is None else drawn[1]
    if drawn is not None and drawn[0] == drawn[1]:
        idle.append("`subsample` changes nothing: all records are published")
    return replace(release, drawn=drawn, records=left, removed=int(removed.sum()), blanked=blanked, idle=tuple(idle))


def _word_idle(step: str, where: Where) -> str:
    """Say that a step for single records concerns none of them."""
    condition = f" with {where.text}" if isinstance(where, Condition) else ""
    return f"{step} changes nothing: it concerns no record{condition}"


def release_items(posterior: Posterior, coarsening: Coarsening, coarse: Codes, items: Items) -> Release:
    """Make the events of published rows; coarse: the codes of all records before single values were changed."""
    if posterior.n_unseen and not posterior.draws and len(items.rows):
        raise SettingsError(
            "no record is alone in the file, so nothing was estimated: `remove`, `blank` and `subsample` need draws"
        )
    blank = np.asarray((coarse < 0).all(axis=1)) if coarse.shape[1] else np.zeros(len(coarse), np.bool_)
    cells = np.concatenate([items.rows, items.overlaps])
    unique = items.record[items.released == 1]
    return replace(_expose(posterior, coarsening, cells, blank if blank.any() else None, unique), items=items)


def _refuse_missing(coarse: Codes, removed: NDArray[np.bool_], share: float | None) -> None:
    """Refuse what has no exact answer where missing answers are left to the model."""
    if not (coarse < 0).any():
        return
    if share is not None:
        raise SettingsError("`subsample` is not available with `missing` model: who shares a cell is not known")
    unique = np.zeros(len(coarse), np.bool_)
    unique[count_cells(coarse).unique_record] = True
    if (removed & ~unique).any():
        raise SettingsError("with `missing` model only sample uniques can be removed: use a condition on r1 or r2")


def _choose(
    posterior: Posterior,
    coarsening: Coarsening,
    coarse: Codes,
    published: Codes,
    where: Where,
    option: str,
    risks: dict[str, Floats],
) -> NDArray[np.bool_]:
    """Return which records a step concerns; risks: those found for the same published rows, by measure."""
    if not isinstance(where, Condition):
        return find_rows(posterior.microdata, where, option)
    if where.measure not in risks:
        nobody = np.zeros(len(coarse), np.bool_)
        items, _ = list_items(coarse, published, nobody, None, every=where.measure == "risk")
        release = release_items(posterior, coarsening, coarse, items)
        found = evaluate_draws(posterior, release, choose_draws(posterior, release))
        by_item = np.mean([draw.r1 if where.measure == "r1" else draw.r2 for draw in found], axis=0)
        risks[where.measure] = np.append(by_item, 0.0)[items.of_record]
    return where.holds(risks[where.measure])


def spread_draws(available: tuple[int, int], wanted: int) -> list[int]:
    """Choose about `wanted` stored draws, the same of each chain; return their numbers over all chains."""
    chains, draws = available
    place = np.unique(np.linspace(0, draws - 1, min(-(-wanted // max(chains, 1)), draws)).round().astype(int))
    return [int(chain * draws + x) for chain in range(chains) for x in place]


def choose_draws(posterior: Posterior, release: Release) -> list[int]:
    """Choose the stored draws for one release: all of them, or as many as the budget allows; sizes decide."""
    affordable = int(BUDGET / max(estimate_work(posterior, release), 1.0))
    return spread_draws(posterior.available, max(ENOUGH_DRAWS, affordable))


def evaluate_release(posterior: Posterior, release: Release, draws: Sequence[int] | None = None) -> ReleaseRisk:
    """Evaluate a coarser release on the stored draws of these numbers, by default on as many as `choose_draws`."""
    uniques = len(release.unique_record)
    rows = posterior.microdata.record_row[release.unique_record] + 1
    done = {name: getattr(release, name) for name in ("records", "removed", "blanked")}
    cells = uniques if release.items is None else len(release.items.rows)
    if not cells or not (posterior.draws or release.items):
        one = np.ones(uniques)
        sure = certain_measure(float(uniques))
        return ReleaseRisk(sure, sure, uniques, rows, one, one, 0, **done, _laws=(float(uniques), float(uniques)))
    chosen = choose_draws(posterior, release) if draws is None else draws
    found = evaluate_draws(posterior, release, chosen)
    by_chain = (max(len(posterior.draws), 1), -1)
    r1, r2 = (np.array([getattr(draw, name) for draw in found]).reshape(*by_chain, cells) for name in ("r1", "r2"))
    expected = [np.array([draw.expected[x] for draw in found]).reshape(by_chain) for x in (0, 1)]
    variance = [np.array([draw.variance[x] for draw in found]).reshape(by_chain) for x in (0, 1)]
    # The law takes long with many uniques, so it is then computed for fewer draws.
    place = np.linspace(0, r1.shape[1] - 1, min(count_laws(len(r1), uniques, variance[0].mean()), r1.shape[1]))
    few = np.unique(place.astype(int))
    n_unseen = release.n_unseen
    most = float(uniques)
    if release.items is not None:
        # Unions may overlap, so the law takes its variance as it was computed.
        alone = release.items.released == 1
        r1, r2, n_unseen, most = r1[:, :, alone], r2[:, :, alone], None, float(release.items.weight.sum())
    law = law_of_uniques(r1[:, few], r2[:, few], n_unseen, variance[0][:, few])
    if release.drawn is not None:
        expected[0], variance[0] = thin_moments(expected[0], variance[0], *release.drawn)
        law = thin_law(law, *release.drawn)
        uniques = round(most)
    grade = grade_release(posterior.grade, expected, variance)
    highest = math.ceil(most) if release.drawn is None else min(release.drawn[1], cells)
    matches = law_of_matches(expected[1], variance[1], highest)
    return ReleaseRisk(
        tau1=measure(law, expected[0], grade),
        tau2=measure(matches, expected[1], grade),
        sample_uniques=uniques,
        unique_row=rows,
        r1=r1.mean(axis=(0, 1)),
        r2=r2.mean(axis=(0, 1)),
        draws=len(found) if posterior.draws else 0,
        grade=grade,
        **done,
        _laws=(law, matches),
    )


def grade_release(fit: Grade, expected: Sequence[Floats], variance: Sequence[Floats]) -> Grade:
    """Return the grade of a coarser release: that of the fit, or lower if the chains differ for this release.

    The gates of R-hat and of the Monte Carlo error of the mean are applied with their limits for a usable result,
    because the draws are only a part of those of the fit.
    """
    if fit == "not converged" or expected[0].shape[1] < FEWEST_TO_GRADE:
        return fit
    gates = [gate for x in (0, 1) for gate in check_mean(("tau1", "tau2")[x], expected[x], variance[x])]
    return fit if all(gate.usable for gate in gates) else "not converged"


def estimate_work(posterior: Posterior, release: Release) -> float:
    """Return the approximate cost of one draw in nanoseconds."""
    profiles = max((len(draw.weight) for chain in posterior.draws for draw in chain), default=0)
    shapes = [part.row.shape for part in release.events.parts]
    levels = 1 if release.exposure is None else max(len(release.exposure.further), 1)
    if posterior.draws and is_mixture(posterior.draws[0][0]):
        return class_evaluation_cost(len(posterior.microdata.levels), levels * sum(events for events, _ in shapes))
    return float(sum(levels * events * cell_cost(max(variables, 1), profiles) for events, variables in shapes))


def _measure(rng: np.random.Generator, draw: Draw, release: Release, rules: Rules, scratch: Scratch) -> Measured:
    if release.items is not None:
        return measure_items(_predict_entries(rng, draw, release, rules, scratch), release.items, release.drawn)
    if release.exposure is not None:
        return measure_exposure(predict_strata(rng, draw, release.exposure, scratch), release.exposure)
    return measure_cells(predict(rng, draw, release.events, rules, scratch).q, release.n_unseen or 0)


def _predict_entries(rng: np.random.Generator, draw: Draw, release: Release, rules: Rules, scratch: Scratch) -> Entries:
    exposure = release.exposure
    if exposure is not None:
        q = predict_strata(rng, draw, exposure, scratch)
        return make_entries(q, exposure.start, exposure.people[exposure.stratum], exposure.stratum)
    return make_entries(predict(rng, draw, release.events, rules, scratch).q, None, release.n_unseen or 0)


def evaluate_draws(posterior: Posterior, release: Release, draws: Sequence[int]) -> list[Measured]:
    """Return the risks of a release in each of these draws."""
    if not posterior.draws:
        # The sample is the whole population.
        assert release.items is not None
        none = make_entries(np.zeros(release.events.cells), None, 0)
        return [measure_items(none, release.items, release.drawn)]
    rules = posterior.rules
    return over_draws(posterior, draws, lambda rng, draw, scratch: _measure(rng, draw, release, rules, scratch))


def over_draws(
    posterior: Posterior, draws: Sequence[int], work: Callable[[np.random.Generator, Draw, Scratch], Item]
) -> list[Item]:
    """Evaluate draws in threads; each draw has its own generator, so that threads change no number."""
    workers = max(min(posterior.workers or os.cpu_count() or 1, len(draws)), 1)
    each = posterior.available[1]
    stopped = threading.Event()

    def run(first: int) -> list[Item]:
        scratch = Scratch()
        found = []
        for number in draws[first::workers]:
            if stopped.is_set():
                break
            rng = np.random.default_rng(make_seeds(posterior.seed, RELEASE, number))
            found.append(work(rng, posterior.draws[number // each][number % each], scratch))
        return found

    with ThreadPoolExecutor(max_workers=workers) as pool:
        futures = [pool.submit(run, first) for first in range(workers)]
        try:
            lists = [future.result() for future in futures]
        except BaseException:
            stopped.set()
            raise
    return [lists[x % workers][x // workers] for x in range(len(draws))]
