"""The risk of every record, not only of those that are alone in the sample (docs/model.md section 14).

The risk of a record is E(1/F | data), the probability that somebody who matches it to one of the F people with its keys
finds the right one: the mean of E(1/F | draw) over draws, once for each distinct cell. For sample uniques it is r2.

If all cells would take too long, those with the fewest records are evaluated. A cell of f records that is left out has
between f and f + M people, so its risk is at most 1/f; that bound is taken for its risk, and the lower limits of
intervals assume the other end.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keyhole.diagnostics.laws import (
    Estimate,
    Interval,
    Law,
    envelope,
    find_count_law,
    interval,
    law_of_matches,
    stack_laws,
)
from keyhole.kernels.freeze import Draw
from keyhole.kernels.records import measure_records
from keyhole.kernels.state import Floats, Integers, Rules
from keyhole.readable import Readable
from keyhole.risk.advice import Grade
from keyhole.risk.limits import Limit
from keyhole.risk.measures import Measure, Risk, limit_records, measure
from keyhole.risk.release import (
    Posterior,
    Release,
    count_coarse,
    estimate_work,
    expose_cells,
    over_draws,
    spread_draws,
)
from keyhole.sampling.costs import RECORDS
from keyhole.sampling.events import Coarsening
from keyhole.sampling.predict import Scratch, predict
from keyhole.sampling.strata import predict_strata

ABOVE = (0.05, 0.09, 0.1, 0.2, 0.5)
"""Risks for which the records above them are always counted: limits in use, and what they are compared with."""

K = (2, 3, 5, 11, 20)
"""Numbers of people for which the records in cells with fewer are always counted."""

BUDGET = 6e9
"""Nanoseconds for all cells and draws, by costs and never by the clock."""

MOST_DRAWS, FEWEST_DRAWS = 100, 40

MISSING = (
    "The risk of every record was not computed: missing answers that are left to the model leave open which records "
    "share a cell. Use `missing` category or drop."
)


@dataclass(frozen=True)
class AllRecords(Readable):
    """The block `all_records` of the summary.

    expected_matches: correct matches of somebody who tries all records; the interval is predictive. max_risk,
    mean_risk: of the column `risk`; above: how many records exceed each number there.
    largest: the largest risk of a record in a draw, which is at least that of the column: no record need be the
    riskiest in all draws. exceeding: records above each number in a draw. k: records in cells with F < k, predictive.
    cells: distinct cells; bounded: those that were left out, whose risk is taken as 1/f; draws: how many were used,
    none if nothing was sampled; message: what was left out, empty if nothing was.
    """

    expected_matches: Estimate
    max_risk: float
    mean_risk: float
    above: dict[str, int]
    k: dict[str, Estimate]
    largest: Estimate
    exceeding: dict[str, Estimate]
    cells: int
    bounded: int
    draws: int
    message: str


@dataclass(frozen=True)
class Points:
    """What is counted beside mean and largest risk: above, risks; k, numbers of people; both ascending."""

    above: tuple[float, ...] = ABOVE
    k: tuple[int, ...] = K


USUAL = Points()


def choose_points(limits: Iterable[Limit]) -> Points:
    """Return what is always counted, and what these limits judge."""
    above = {limit.at for limit in limits if limit.measure == "all.above" and limit.at is not None}
    k = {int(limit.at) for limit in limits if limit.measure == "all.k" and limit.at is not None}
    return Points(tuple(sorted({*ABOVE, *above})), tuple(sorted({*K, *k})))


@dataclass(frozen=True)
class Table:
    """The distinct cells of a release. size: f of each; cell: the cell of each record.

    evaluated: the cells that are evaluated, by f; release: their events; draws: the numbers of the draws that are used.
    """

    size: Integers
    cell: NDArray[np.int32]
    evaluated: Integers
    release: Release
    draws: tuple[int, ...]


@dataclass(frozen=True)
class CellRisks:
    """The risks of all cells of a table in all draws that were used.

    match: E(1/F | draw), (chain, draw, evaluated cell); matches: the law of the sum of 1/F over all records;
    largest, exceeding, k: as in AllRecords, with (chain, draw) or a law for each.
    least: the same with cells that were left out at their lowest risk; slack: by how much the sum of 1/F would fall,
    and by k, the number of records with F < k.
    """

    table: Table
    points: Points
    match: Floats
    matches: Law
    largest: Floats
    exceeding: dict[float, Floats]
    k: dict[int, Law]
    least: tuple[Floats, dict[float, Floats]]
    slack: tuple[float, dict[int, float]]


@dataclass(frozen=True)
class RecordRisk:
    """The risk of every distinct cell, with 95 % limits over draws; cell: the cell of each record."""

    cell: NDArray[np.int32]
    size: Integers
    risk: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class _CellDraw:
    match: Floats
    expected: float
    variance: float
    below: tuple[tuple[int, Floats], ...]
    count_mean: Floats
    count_variance: Floats


def prepare_cells(
    posterior: Posterior, coarsening: Coarsening, draws: Sequence[int] | None = None, budget: float = BUDGET
) -> Table | None:
    """Choose the cells and draws that the budget allows; None if missing answers leave open who shares a cell.

    draws: the numbers of the draws to use, if they are given.
    """
    cells, counts = count_coarse(posterior, coarsening)
    if cells.size and cells.min() < 0:
        return None
    one_of = np.zeros(counts.distinct, np.int64)
    one_of[counts.cell] = np.arange(len(counts.cell))
    order = np.argsort(counts.size, kind="stable")
    if not posterior.draws or posterior.n_unseen == 0:
        return Table(
            counts.size, counts.cell, order[:0], expose_cells(posterior, coarsening, cells, counts, one_of[:0]), ()
        )
    release = expose_cells(posterior, coarsening, cells, counts, one_of[order])
    work = estimate_draw(posterior, release)
    fewest = FEWEST_DRAWS if draws is None else len(draws)
    uniques = int((counts.size == 1).sum())
    most = max(int(len(order) * min(budget / (work * fewest), 1.0)), uniques)
    if most < len(order):
        order = order[:most]
        release = expose_cells(posterior, coarsening, cells, counts, one_of[order])
    if draws is None:
        draws = spread_draws(posterior.available, int(np.clip(budget / work, FEWEST_DRAWS, MOST_DRAWS)))
    return Table(counts.size, counts.cell, order, release, tuple(draws))


def estimate_draw(posterior: Posterior, release: Release) -> float:
    """Return the approximate cost of one draw in nanoseconds."""
    cells = len(release.unique_record)
    entries = cells if release.exposure is None else len(release.exposure.stratum)
    return estimate_work(posterior, release) + RECORDS * max(entries, 1)


def evaluate_cells(posterior: Posterior, table: Table, points: Points = USUAL) -> CellRisks:
    """Evaluate the cells of a table; without any draw, all of them are bounded."""
    chains = max(len(posterior.draws), 1) if table.draws else 1
    size = table.size[table.evaluated]
    left = np.ones(len(table.size), np.bool_)
    left[table.evaluated] = False
    others = table.size[left]
    rules = posterior.rules
    nothing, none = np.zeros(0), np.zeros(len(points.k))
    found = [_CellDraw(nothing, 0.0, 0.0, ((0, np.ones(1)),) * len(points.k), none, none)]
    if table.draws:
        found = over_draws(
            posterior,
            table.draws,
            lambda rng, draw, scratch: _measure_cells(rng, draw, table.release, size, rules, scratch, points),
        )
    shape = chains, len(found) // chains
    match = np.array([draw.match for draw in found]).reshape(*shape, len(size))
    most, people = int(table.size.sum()), posterior.n_unseen
    expected, variance = (
        np.array([getattr(draw, x) for draw in found]).reshape(shape) for x in ("expected", "variance")
    )
    laws, slack = {}, {}
    for i, k in enumerate(points.k):
        sure = int(others[others < k].sum())
        mean, spread = (
            np.array([getattr(draw, x)[i] for draw in found]).reshape(shape) for x in ("count_mean", "count_variance")
        )
        shifted = [(first + sure, law) for first, law in (draw.below[i] for draw in found)]
        laws[k] = stack_laws(shifted, mean + sure, spread, most)
        slack[k] = float(sure - others[others + people < k].sum())
    return CellRisks(
        table=table,
        points=points,
        match=match,
        matches=law_of_matches(expected + len(others), variance, most),
        largest=_largest(match, 1.0 / others),
        exceeding=_exceeding(match, size, 1.0 / others, others, points.above),
        k=laws,
        least=(
            _largest(match, 1.0 / (others + people)),
            _exceeding(match, size, 1.0 / (others + people), others, points.above),
        ),
        slack=(float(len(others) - (others / (others + people)).sum()), slack),
    )


def _largest(match: Floats, others: Floats) -> Floats:
    largest: Floats = np.maximum(match.max(axis=2, initial=0.0), others.max(initial=0.0))
    return largest


def _exceeding(
    match: Floats, size: Integers, others: Floats, their_size: Integers, above: Sequence[float]
) -> dict[float, Floats]:
    """Return how many records have a risk above each number, by chain and draw."""
    return {x: ((match > x) @ size + float(their_size[others > x].sum())).astype(np.float64) for x in above}


def _measure_cells(
    rng: np.random.Generator,
    draw: Draw,
    release: Release,
    size: Integers,
    rules: Rules,
    scratch: Scratch,
    points: Points,
) -> _CellDraw:
    exposure = release.exposure
    if exposure is not None:
        q, start, stratum = predict_strata(rng, draw, exposure, scratch), exposure.start, exposure.stratum
        people = exposure.people
    else:
        q = predict(rng, draw, release.events, rules, scratch).q
        start, stratum = np.arange(len(size) + 1), np.zeros(len(size), np.int64)
        people = np.array([release.n_unseen], np.int64)
    k = np.array(points.k, np.int64)
    match, below, spread = np.zeros(len(size)), np.zeros((len(size), len(k))), np.zeros(len(k))
    expected, variance = measure_records(size, np.minimum(q, 1.0), start, stratum, people, k, match, below, spread)
    laws = []
    for i, limit in enumerate(points.k):
        few = size < limit
        laws.append(find_count_law(size[few], below[few, i], float(spread[i])))
    return _CellDraw(match, expected, variance, tuple(laws), size @ below, spread)


def find_record_risk(found: CellRisks, n_unseen: int, pooled: bool) -> RecordRisk:
    """Return the risk of every cell; of those that were left out, the bounds."""
    table = found.table
    risk, low, high = 1.0 / table.size, 1.0 / (table.size + n_unseen), 1.0 / table.size
    if len(table.evaluated):
        risk[table.evaluated] = found.match.mean(axis=(0, 1), dtype=np.float64)
        low[table.evaluated], high[table.evaluated] = limit_records(found.match, pooled)
    return RecordRisk(table.cell, table.size, risk, low, high)


def take_uniques(records: RecordRisk, risk: Risk, unique_record: Integers) -> RecordRisk:
    """Return the risks with those of the sample uniques as they are: r2 of all draws of the run."""
    unique = records.cell[unique_record]
    columns = []
    for column, own in ((records.risk, risk.r2), (records.low, risk.r2_low), (records.high, risk.r2_high)):
        values = column.copy()
        values[unique] = own
        columns.append(values)
    return RecordRisk(records.cell, records.size, *columns)


def summarise_records(
    found: CellRisks, records: RecordRisk, n_unseen: int, grade: Grade, tau1: Measure | None = None
) -> AllRecords:
    """Return the block of the summary. tau1: of the run, which is the number of records with F < 2."""
    table, pooled = found.table, grade != "not converged"
    ends = interval if pooled else envelope
    share, slack = found.slack
    k = {f"{x}": _lower(measure(law, law.expected, grade), slack[x]) for x, law in found.k.items()}
    if tau1 is not None and "2" in k:
        k["2"] = Estimate(tau1.mean, tau1.interval)
    matches = _lower(measure(found.matches, found.matches.expected, grade), share)
    least, fewest = found.least
    bounded = len(table.size) - len(table.evaluated) if n_unseen else 0
    total = float(records.size @ records.risk)
    return AllRecords(
        expected_matches=Estimate(total, matches.interval),
        max_risk=float(records.risk.max()),
        mean_risk=total / len(records.cell),
        above={f"{x:g}": int(records.size[records.risk > x].sum()) for x in found.points.above},
        k=k,
        largest=Estimate(float(found.largest.mean()), _span(ends(least), ends(found.largest))),
        exceeding={
            f"{x:g}": Estimate(float(values.mean()), _span(ends(fewest[x]), ends(values)))
            for x, values in found.exceeding.items()
        },
        cells=len(table.size),
        bounded=bounded,
        draws=len(table.draws),
        message=describe_bounds(len(table.size), bounded, int(table.size[table.evaluated].max(initial=0))),
    )


def _lower(found: Measure, slack: float) -> Estimate:
    return Estimate(found.mean, (found.interval[0] - slack, found.interval[1]))


def _span(low: Interval, high: Interval) -> Interval:
    return low[0], high[1]


def describe_bounds(cells: int, bounded: int, largest: int) -> str:
    """Say which cells were left out, and what was taken for their risk."""
    if not bounded:
        return ""
    if bounded == cells:
        return (
            "Nothing was sampled, because no record is alone in the sample. The risk of a record is therefore only "
            "bounded: it is at most 1 divided by the number of records that share its keys, and that is shown."
        )
    return (
        f"The {cells - bounded:,} cells with the fewest records, up to {largest:,} each, were evaluated. The risk of "
        f"the records in the other {bounded:,} is taken as 1 divided by the number of records in the cell, which it "
        "cannot exceed."
    )


def probability_met(limit: Limit, found: CellRisks, pooled: bool) -> float:
    """Return P(the measure of a limit is within it): over draws, or in the worst chain if they do not agree."""
    at, threshold = limit.at, limit.threshold
    if limit.measure in ("all.max", "all.above"):
        values = found.largest if limit.measure == "all.max" or at is None else found.exceeding[at]
        by_chain = (values <= threshold).mean(axis=1)
        return float(by_chain.mean() if pooled else by_chain.min())
    law = found.matches if limit.measure != "all.k" or at is None else found.k[int(at)]
    return law_met(law, threshold * len(found.table.cell) if limit.measure == "all.mean" else threshold, pooled)


def law_met(law: Law, threshold: float, pooled: bool) -> float:
    """Return P(tau <= threshold): over draws, or in the worst chain if they do not agree."""
    if pooled:
        return 1.0 - law.probability_above(threshold)
    return min(1.0 - law.probability_above(threshold, (chain,)) for chain in range(len(law.below)))
