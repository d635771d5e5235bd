"""The risk of a coarser release (variables left out, categories merged) from the same fit (docs/model.md section 9).

Sample uniques are counted again in the coarse records. The probability of a coarse cell follows exactly from the
weights and profiles of stored draws, with V(f, .) for the f variables that are left: one pass over draws, no new
sampling.
"""

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from keyhole.data import CellCounts, Microdata, Variable, count_records, find_cells
from keyhole.data.codebook import code_text, whole_numbers
from keyhole.data.strata import Strata
from keyhole.diagnostics.gates import check_mean
from keyhole.diagnostics.laws import count_laws, law_of_matches, law_of_uniques
from keyhole.errors import SettingsError
from keyhole.kernels.freeze import Draw
from keyhole.kernels.state import Floats, Integers, Rules
from keyhole.risk.advice import Grade
from keyhole.risk.measures import Measure, about, certain_measure, measure
from keyhole.sampling.costs import cell_cost, class_evaluation_cost
from keyhole.sampling.events import Coarsening, Events, Groups, make_events
from keyhole.sampling.layout import find_rules
from keyhole.sampling.predict import Measured, Scratch, is_mixture, predict
from keyhole.sampling.predict import measure as measure_cells
from keyhole.sampling.strata import Exposure, make_exposure, measure_exposure, predict_strata
from keyhole.sampling.trace import Draws
from keyhole.seeds import RELEASE, make_seeds
from keyhole.words import did_you_mean, plural
from keyhole.zeros import Zeros

Item = TypeVar("Item")


def make_coarsening(
    variables: Sequence[Variable], drop: Iterable[str] = (), recode: Mapping[str, Iterable[Iterable[Any]]] | None = None
) -> Coarsening:
    """Leave out the variables in `drop`, and merge each list of categories in `recode`."""
    names = [variable.name for variable in variables]
    recode = {} if recode is None else recode
    dropped = {_find(name, names) for name in ([drop] if isinstance(drop, str) else drop)}
    merged = {_find(name, names): groups for name, groups in recode.items()}
    for j in sorted(dropped & merged.keys()):
        raise SettingsError(f"'{names[j]}' is dropped and recoded: do one of both")
    kept = tuple(j for j in range(len(names)) if j not in dropped)
    return Coarsening(kept, tuple(_merge(variables[j], merged.get(j, ())) for j in kept))


def _find(name: str, names: Sequence[str]) -> int:
    if name in names:
        return names.index(name)
    raise SettingsError(f"'{name}' is not one of the keys{did_you_mean(name, names)}: they are {', '.join(names)}")


def _merge(variable: Variable, lists: Iterable[Iterable[Any]]) -> Groups:
    """Return all categories in groups, in the order of their first category."""
    place = {category: index for index, category in enumerate(variable.categories)}
    groups: list[tuple[int, ...]] = []
    taken: set[int] = set()
    for number, members in enumerate(lists, start=1):
        where = f"recode of '{variable.name}', group {number}"
        if isinstance(members, str) or not isinstance(members, Iterable):
            raise SettingsError(f"{where} is not a list: write lists of categories, for instance [[1, 2], [3, 4]]")
        codes = whole_numbers([code_text(member) for member in members])
        unknown = next((code for code in codes if code not in place), None)
        if unknown is not None:
            raise SettingsError(
                f"{where}: '{unknown}' is not a category of '{variable.name}'{variable.hint(unknown)}: see its codebook"
            )
        chosen = {place[code] for code in codes}
        if len(chosen) < len(codes) or chosen & taken:
            raise SettingsError(f"{where} names a category twice: a category belongs to one group")
        taken |= chosen
        if chosen:
            groups.append(tuple(sorted(chosen)))
    groups += [(x,) for x in range(len(variable.categories)) if x not in taken]
    return tuple(sorted(groups))


FEWEST_TO_GRADE = 20
"""Fewest draws of each chain from which R-hat of a coarser release is computed."""

ENOUGH_DRAWS = 200
"""Stored draws that one release uses: neighbouring draws are similar, and more would only take longer."""


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
        Records that are unique in the coarser sample.
    unique_row : numpy.ndarray
        Their rows, from 1.
    r1, r2 : numpy.ndarray
        Their mean risks.
    draws : int
        Number of stored draws used, 0 if the answer is certain.
    grade : str
        Converged, usable or not converged, by its own draws: as the fit, or lower.
    """

    tau1: Measure
    tau2: Measure
    sample_uniques: int
    unique_row: Integers = field(compare=False)
    r1: Floats = field(compare=False)
    r2: Floats = field(compare=False)
    draws: int
    grade: Grade = "converged"

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
    """

    unique_record: Integers
    events: Events
    n_unseen: int | None
    exposure: Exposure | None = None


def prepare_release(posterior: Posterior, coarsening: Coarsening) -> Release:
    """Count the coarse cells of the records and make the events of those with one record."""
    cells, counts = count_coarse(posterior, coarsening)
    return expose_cells(posterior, coarsening, cells, counts, counts.unique_record)


def count_coarse(posterior: Posterior, coarsening: Coarsening) -> tuple[NDArray[np.int32], CellCounts]:
    """Return the distinct coarse cells (cells, kept), and how many records each has."""
    # Cells are merged, not records: there are far fewer of them in a large file.
    coarse = coarsening.apply(posterior.microdata.cells)
    cells, merged = find_cells(list(coarse.T), len(coarse))
    return cells, count_records(cells, merged[posterior.microdata.cell])


def expose_cells(
    posterior: Posterior, coarsening: Coarsening, cells: NDArray[np.int32], counts: CellCounts, records: Integers
) -> Release:
    """Make the events of the cells of these records, and say who may be in them."""
    possible = None if posterior.zeros is None or not len(posterior.zeros.impossible) else posterior.zeros.possible
    levels, strata, chosen = posterior.microdata.levels, posterior.strata, cells[counts.cell[records]]
    if strata is not None:
        unseen = strata.unseen
        if counts.blank:
            blank = np.asarray((cells < 0).all(axis=1))[counts.cell]
            unseen = unseen + np.bincount(strata.of_record[blank], minlength=len(unseen))
        exposure = make_exposure(strata, unseen, chosen, coarsening, levels, possible)
        return Release(records, exposure.pairs, None, exposure)
    return Release(records, make_events(chosen, coarsening, levels, possible), posterior.n_unseen + counts.blank)


def spread_draws(available: tuple[int, int], wanted: int) -> list[int]:
    """Choose about `wanted` stored draws, the same of each chain; return their numbers over all chains."""
    chains, draws = available
    place = np.unique(np.linspace(0, draws - 1, min(-(-wanted // max(chains, 1)), draws)).round().astype(int))
    return [int(chain * draws + x) for chain in range(chains) for x in place]


def evaluate_release(posterior: Posterior, release: Release, draws: Sequence[int] | None = None) -> ReleaseRisk:
    """Evaluate a coarser release on the stored draws of these numbers, by default on about ENOUGH_DRAWS of them."""
    uniques = len(release.unique_record)
    rows = posterior.microdata.record_row[release.unique_record] + 1
    if not posterior.draws or not uniques:
        one = np.ones(uniques)
        sure = certain_measure(float(uniques))
        return ReleaseRisk(sure, sure, uniques, rows, one, one, 0)
    chosen = spread_draws(posterior.available, ENOUGH_DRAWS) if draws is None else draws
    found = evaluate_draws(posterior, release, chosen)
    by_chain = (len(posterior.draws), -1)
    r1, r2 = (np.array([getattr(draw, name) for draw in found]).reshape(*by_chain, uniques) for name in ("r1", "r2"))
    expected = [np.array([draw.expected[x] for draw in found]).reshape(by_chain) for x in (0, 1)]
    variance = [np.array([draw.variance[x] for draw in found]).reshape(by_chain) for x in (0, 1)]
    # The law takes long with many uniques, so it is then computed for fewer draws.
    place = np.linspace(0, r1.shape[1] - 1, min(count_laws(len(r1), uniques, variance[0].mean()), r1.shape[1]))
    few = np.unique(place.astype(int))
    grade = grade_release(posterior.grade, expected, variance)
    return ReleaseRisk(
        tau1=measure(law_of_uniques(r1[:, few], r2[:, few], release.n_unseen, variance[0][:, few]), expected[0], grade),
        tau2=measure(law_of_matches(expected[1], variance[1], uniques), expected[1], grade),
        sample_uniques=uniques,
        unique_row=rows,
        r1=r1.mean(axis=(0, 1)),
        r2=r2.mean(axis=(0, 1)),
        draws=len(found),
        grade=grade,
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
    if release.exposure is not None:
        return measure_exposure(predict_strata(rng, draw, release.exposure, scratch), release.exposure)
    return measure_cells(predict(rng, draw, release.events, rules, scratch).q, release.n_unseen or 0)


def evaluate_draws(posterior: Posterior, release: Release, draws: Sequence[int]) -> list[Measured]:
    """Return the risks of a release in each of these draws."""
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
