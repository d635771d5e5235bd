"""What all chains of a run share, and the choices that follow from the size of the file."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keyhole.data.strata import Strata
from keyhole.errors import SettingsError
from keyhole.kernels.classes import Cells
from keyhole.kernels.state import Floats, Integers, Prior, Records, has_rules
from keyhole.sampling.classes import VISITS, are_visited, count_distinct
from keyhole.sampling.costs import (
    EXACT_STEPS,
    cell_cost,
    class_evaluation_cost,
    class_sweep_cost,
    exact_steps,
    find_spacing,
    guess_profiles,
    strata_cost,
    sweep_cost,
)
from keyhole.sampling.events import Events, describe_cells, leave_out
from keyhole.sampling.layout import find_rules
from keyhole.sampling.start import make_prior, seat_missing
from keyhole.sampling.strata import Exposure, make_exposure
from keyhole.settings import Settings
from keyhole.zeros import Zeros

FEWEST_SWEEPS, FEWEST_CLASS_SWEEPS = 2, 4
"""Fewest sweeps from one draw to the next, of `hdp` and `mixed`, and of `classes`."""


@dataclass(frozen=True)
class Problem:
    """The data, the model and how a draw is evaluated.

    records: sorted, so that equal records are neighbours; distinct: their distinct cells. `classes` needs only these.
    cell_level: int32 (uniques, J), the cells of the sample uniques; n_unseen: M, the number of unseen people.
    cells: the events of these cells and, if probabilities are exact, of those that several records share;
    shared_count: float64, how many records share each.
    exposure: with strata, who may be in the cells of the sample uniques; everybody: people for whom enough profiles
    must be explicit, M, or more if a stratum has a larger share of the unseen people than of the records.
    """

    model: str
    records: Records
    distinct: Cells
    prior: Prior
    cell_level: NDArray[np.int32]
    shared_count: Floats
    cells: Events
    n_unseen: int
    profiles: int
    estimator: str
    mc_draws: int
    thin: int
    everybody: int
    exposure: Exposure | None = None


def make_problem(
    records: Records,
    unique_record: Integers,
    population: int,
    settings: Settings,
    zeros: Zeros | None,
    strata: Strata | None = None,
) -> Problem:
    """Choose estimator and thinning from sizes alone, never from the clock, so that equal data give equal runs.

    strata: if there are several; their further variable is the last of the records, and the rules have its levels.
    """
    if strata is not None and settings.estimator != "exact":
        raise SettingsError(f"the estimator '{settings.estimator}' knows no strata: use 'exact', or omit `strata`")
    if zeros is not None and settings.estimator == "population":
        raise SettingsError(
            "the estimator 'population' cannot take rules into account: "
            "use 'exact' or 'monte-carlo' with zeros, or leave the rules out."
        )
    cells = np.ascontiguousarray(records.level[unique_record])
    variables = records.level.shape[1]
    estimator: str = settings.estimator
    if estimator == "exact" and settings.model != "classes" and exact_steps(variables) > EXACT_STEPS:
        estimator = "importance"
    rules = find_rules(zeros, records.level_start)
    shared, shared_count = find_shared_cells(records, unique_record)
    possible = zeros.possible if zeros is not None and has_rules(rules) else None
    every_cell = describe_cells(np.concatenate([cells, shared]), records.level_start, possible)
    sorting, distinct = count_distinct(records.level, records.level_start)
    prior = make_prior(settings.model, settings.prior, records.level_start, rules, records.ordered)
    events = sum(len(part.cell) for part in every_cell.parts)
    if settings.model == "classes":
        sweep = class_sweep_cost(distinct, prior.trees, VISITS if are_visited(distinct, prior) else 0)
        evaluation = class_evaluation_cost(variables, events)
        least = FEWEST_CLASS_SWEEPS
    else:
        sweep = sweep_cost(len(records.level), variables, has_rules(rules))
        evaluation = events * cell_cost(variables, guess_profiles(settings))
        least = FEWEST_SWEEPS
    exposure, everybody = None, population - len(records.level)
    if strata is not None:
        exposure = expose_uniques(strata, records, unique_record, possible)
        rows = [part.row.shape for part in exposure.pairs.parts]
        evaluation += strata_cost(rows, len(exposure.further), len(exposure.stratum), settings)
        everybody = int(len(records.level) * (strata.unseen / strata.records).max())
    return Problem(
        model=settings.model,
        records=seat_missing(sort_records(records, sorting, settings.model), prior),
        distinct=distinct,
        prior=prior,
        cell_level=cells,
        shared_count=shared_count,
        cells=every_cell if estimator == "exact" else describe_cells(cells, records.level_start, possible),
        n_unseen=population - len(records.level),
        profiles=settings.profiles,
        estimator=estimator,
        mc_draws=settings.mc_draws,
        thin=find_spacing(sweep, evaluation, least),
        everybody=everybody,
        exposure=exposure,
    )


def expose_uniques(
    strata: Strata, records: Records, unique_record: Integers, possible: NDArray[np.uint8] | None
) -> Exposure:
    """Return who may be in the cells of the sample uniques; possible: boxes (D, levels) with the further variable."""
    sizes = [int(size) for size in np.diff(records.level_start)]
    keys = sizes[:-1] if strata.further_levels else sizes
    codes = records.level[unique_record, : len(keys)]
    codes = np.where(codes < 0, np.int32(-1), codes - records.level_start[: len(keys)].astype(np.int32))
    boxes = None if possible is None else np.ascontiguousarray(possible[:, : sum(keys)])
    return make_exposure(strata, strata.unseen, codes.astype(np.int32), leave_out(keys, None), keys, boxes)


def sort_records(records: Records, order: Integers, model: str) -> Records:
    """Return the records in this order; none for `classes`, which knows cells only."""
    chosen = order[:0] if model == "classes" else order
    level = np.ascontiguousarray(records.level[chosen])
    return records._replace(level=level, answer_total=np.ascontiguousarray(records.answer_total[chosen]))


def find_shared_cells(records: Records, unique_record: Integers) -> tuple[NDArray[np.int32], Floats]:
    """Return the cells that several records share, and how many share each."""
    several = np.ones(len(records.level), np.bool_)
    several[unique_record] = False
    cells, count = np.unique(records.level[several], axis=0, return_counts=True)
    return np.ascontiguousarray(cells), count.astype(np.float64)
