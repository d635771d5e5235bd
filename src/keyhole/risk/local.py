"""Releases in which single records are changed: removed, with blank values, or a random share of them published.

The order is fixed: keys are coarsened, values blanked, records removed, then a share is drawn, so that options given in
any order mean the same. Conditions on the risk of records are judged after the steps before them.

Blanked values. The risk of a record is that of the union of all cells that agree with what is left of it. f counts the
true values of all records in that union, and F = f + Binomial(M, q of the union). A release is then *items*: published
rows, of which a record counts if no other released record lies in its union. Of an item,
    known     f, the records of the file in its union, removed ones included: they exist in the population
    released  those of them that are released
    weight    the expected number of its records that are alone in what is published: with `released` = f' of n' records
              and a share m of m' drawn, each is alone with probability C(m' - f', m - 1) / C(m', m), m' being n'
tau1 = sum over items with known = 1 of r1, thinned: hypergeometric given tau1. E tau2 = sum of weight E 1/(known + X).
Removing one of twins therefore leaves tau1 and adds E 1/(2 + X) of the other to tau2.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.data.cells import Codes, count_agreements, count_equal, find_cells
from keyhole.data.variables import Microdata
from keyhole.errors import OptionError, SettingsError
from keyhole.kernels.records import NODE, REACH, SHARE
from keyhole.kernels.state import Floats, Integers
from keyhole.sampling.predict import Measured
from keyhole.words import did_you_mean

CONDITION = re.compile(r"\s*(r1|r2|risk)\s*(>=|>)\s*(\d*\.?\d+)\s*")
MOST_PAIRS = 5_000
"""Most overlapping pairs of unions that are evaluated; with more, these stand for all of them."""

ITEMS_AT_ONCE = 20_000
LARGEST = 1.0 - 1e-15

_NODE, _SHARE = np.polynomial.legendre.leggauss(8)
COARSE_NODE, COARSE_SHARE = 0.5 * (_NODE + 1.0), 0.5 * _SHARE
"""For covariances, which need not be as exact as means."""


@dataclass(frozen=True)
class Condition:
    """Records whose mean risk exceeds a limit; measure: r1 or r2 of sample uniques, risk = E(1/F) of every record."""

    measure: str
    limit: float
    strict: bool
    text: str

    def holds(self, risks: Floats) -> NDArray[np.bool_]:
        return np.asarray(risks > self.limit if self.strict else risks >= self.limit)


Where = Condition | tuple[int, ...]
"""Records: by their risk, or by their rows, from 1."""


@dataclass(frozen=True)
class LocalSteps:
    """What is done to single records; blank: by the index of the key."""

    blank: Mapping[int, Where] = field(default_factory=dict)
    remove: Where | None = None
    subsample: float | None = None

    @property
    def any(self) -> bool:
        return bool(self.blank) or self.remove is not None or self.subsample is not None


def make_local_steps(
    names: Sequence[str],
    kept: Sequence[int],
    blank: Mapping[str, Any] | None = None,
    remove: Any = None,
    subsample: float | None = None,
) -> LocalSteps:
    """Check what is asked for single records; kept: the keys that are published."""
    blanked = {}
    for name, where in (blank or {}).items():
        if name not in names:
            raise OptionError(f"`blank` '{name}' is not one of the keys{did_you_mean(name, names)}")
        if names.index(name) not in kept:
            raise SettingsError(f"'{name}' is dropped and blanked: do only one of the two")
        blanked[names.index(name)] = read_where(where, "blank")
    if subsample is not None and (isinstance(subsample, bool) or not 0.0 < float(subsample) <= 1.0):
        raise SettingsError("`subsample` must be a share above 0 and at most 1, such as 0.5")
    return LocalSteps(blanked, None if remove is None else read_where(remove, "remove"), subsample)


def read_where(given: Any, option: str) -> Where:
    """Parse a condition such as "r1>0.2", or take rows."""
    remedy = 'write a condition on risk, such as "r1>0.2", "r2>=0.1" or "risk>0.09"'
    if isinstance(given, str):
        found = CONDITION.fullmatch(given)
        if found is None:
            raise SettingsError(f"`{option}` '{given}': {remedy}")
        return Condition(found[1], float(found[3]), found[2] == ">", "".join(given.split()))
    try:
        return tuple(sorted({int(row) for row in given}))
    except (TypeError, ValueError):
        raise SettingsError(f"`{option}`: {remedy}, or give a list of rows") from None


def find_rows(microdata: Microdata, rows: tuple[int, ...], option: str) -> NDArray[np.bool_]:
    """Mark the records of these rows; refuse rows without a record."""
    used = np.flatnonzero(microdata.row_used) + 1
    outside = next((row for row in rows if row not in set(used.tolist())), None) if rows else None
    if outside is not None:
        raise OptionError(f"`{option}`: row {outside} is no row of the file that was used")
    return np.isin(microdata.record_row + 1, rows)


@dataclass(frozen=True)
class Items:
    """Distinct published rows (items, kept) of the records, as described above.

    record: int64 (items,), the first released record of each; of_record: int32 (n,), the item of each record.
    pairs: int64 (pairs, 2), items with known = 1 whose unions overlap; overlaps: the rows of these intersections.
    times: how many pairs each of these stands for.
    """

    rows: Codes
    record: Integers
    of_record: NDArray[np.int32]
    known: Integers
    released: Integers
    weight: Floats
    pairs: Integers
    overlaps: Codes
    times: float


def list_items(
    coarse: Codes, published: Codes, removed: NDArray[np.bool_], share: float | None, every: bool = False
) -> tuple[Items, tuple[int, int] | None]:
    """Return the items of a release, and of how many records how many are drawn if a share is.

    coarse, published: codes of all records (n, kept), before and after values are blanked; every: keep items that
    cannot count too.
    """
    rows, of_record = find_cells(list(published.T), len(published))
    cells, cell = find_cells(list(coarse.T), len(coarse))
    own = np.bincount(of_record[~removed], minlength=len(rows))
    known = count_in_unions(rows, cells, np.bincount(cell, minlength=len(cells)))
    released = count_in_unions(rows, cells, np.bincount(cell[~removed], minlength=len(cells)))
    answered = np.ones(len(rows), np.bool_)
    if coarse.shape[1]:
        answered[of_record[(coarse < 0).all(axis=1)]] = False  # not compared with anybody
    left = int((~removed).sum())
    drawn = None if share is None else (left, max(round(share * left), 1))
    weight = np.where((released == 1) & answered, own, 0).astype(np.float64)
    if drawn is not None:
        weight = np.where(answered, own * alone_in_share(released, *drawn), 0.0)
    chosen = np.ones(len(rows), np.bool_) if every else weight > 0.0
    first = np.full(len(rows), -1, np.int64)
    order = np.flatnonzero(~removed)[::-1]
    first[of_record[order]] = order
    # In the order of the file, as sample uniques are.
    place = np.flatnonzero(chosen)
    place = place[np.argsort(first[place], kind="stable")]
    number = np.full(len(rows), -1, np.int32)
    number[place] = np.arange(len(place))
    pairs, overlaps, times = find_overlaps(rows[place], known[place] == 1)
    items = Items(
        rows[place], first[place], number[of_record], known[place], released[place], weight[place], pairs, overlaps,
        times,
    )  # fmt: skip
    return items, drawn


def count_in_unions(rows: Codes, cells: Codes, size: Integers) -> Integers:
    """Count for each row the records in its union of cells; -1 in either agrees with everything."""
    if not (rows < 0).any() and not (cells < 0).any():
        return count_equal(rows, cells, size)
    agree, _, _ = count_agreements(np.concatenate([cells, rows]), np.concatenate([size, np.zeros(len(rows), np.int64)]))
    return agree[len(cells) :]


def alone_in_share(released: Integers, records: int, drawn: int) -> Floats:
    """Return the probability that a record is drawn and no other of `released` is: C(n - f, m - 1) / C(n, m)."""
    once: Floats = np.exp(_log_choose(records - released, drawn - 1) - _log_choose(records, drawn))
    return once


def _log_choose(of: Any, chosen: Any) -> Any:
    from scipy.special import gammaln

    of, chosen = np.asarray(of, np.float64), np.asarray(chosen, np.float64)
    possible = (chosen >= 0) & (chosen <= of)
    found = (
        gammaln(of + 1) - gammaln(np.where(possible, chosen, 0) + 1) - gammaln(np.where(possible, of - chosen, 0) + 1)
    )
    return np.where(possible, found, -np.inf)


def find_overlaps(rows: Codes, alone: NDArray[np.bool_]) -> tuple[Integers, Codes, float]:
    """Return pairs of items whose unions overlap, and the rows of their intersections."""
    blanked = np.flatnonzero(alone & (rows < 0).any(axis=1))
    found = []
    for place, x in enumerate(blanked[:-1]):
        others = rows[blanked[place + 1 :]]
        meets = ((others == rows[x]) | (others < 0) | (rows[x] < 0)).all(axis=1)
        found.append(np.column_stack([np.full(int(meets.sum()), x), blanked[place + 1 :][meets]]))
    pairs = np.concatenate(found) if found else np.zeros((0, 2), np.int64)
    times = max(len(pairs) / MOST_PAIRS, 1.0)
    if times > 1.0:
        pairs = pairs[np.linspace(0, len(pairs) - 1, MOST_PAIRS).astype(int)]
    return pairs.astype(np.int64), np.maximum(rows[pairs[:, 0]], rows[pairs[:, 1]]), times


@dataclass(frozen=True)
class Entries:
    """Probabilities, below 1, of unions and their intersections: those of cell c are start[c] <= e < start[c + 1].

    stratum: that of each entry; people: M of it, float64; without strata there is one entry for each cell.
    """

    q: Floats
    start: Integers
    people: Floats
    stratum: Integers


def make_entries(q: Floats, start: Integers | None, people: Integers | int, stratum: Integers | None = None) -> Entries:
    """Return the entries of cells; without strata people is M, and start and stratum are None."""
    numbers = np.arange(len(q) + 1) if start is None else start
    each = np.broadcast_to(np.asarray(people, np.float64), q.shape)
    # A union of all cells has probability 1.
    return Entries(np.minimum(q, LARGEST), numbers, each, np.zeros(len(q), np.int64) if stratum is None else stratum)


def measure_items(entries: Entries, items: Items, drawn: tuple[int, int] | None) -> Measured:
    """Return r1 and r2 of every item, and tau1 (before a share is drawn) and tau2 given a draw.

    E 1/(f + X) and E 1/(f + X)^2 are integrals of t^(f-1) G(t) and -log(t) t^(f-1) G(t), as in kernels/strata.py.
    """
    size = len(items.rows)
    others = _sum_entries(entries.people * entries.q, entries.start)
    alone = np.exp(_sum_entries(entries.people * np.log1p(-entries.q), entries.start))[:size]
    shared, others = others[size:], others[:size]
    r1 = np.where(items.known == 1, alone, 0.0)
    r2, square = np.empty(size), np.empty(size)
    for first in range(0, size, ITEMS_AT_ONCE):
        part = slice(first, min(first + ITEMS_AT_ONCE, size))
        r2[part], square[part] = _integrate(entries, items.known, alone, others, part)
    once = items.weight if drawn is None else np.where(items.released == 1, 1.0, 0.0)
    counts = (items.known == 1) & (once > 0.0)
    r1 = np.where(counts, r1, 0.0)
    together2 = items.weight * (1.0 - r2 * (items.known + others))
    variance1 = float((r1 * (1.0 - r1)).sum()) - _joint(entries, r1)
    share = np.divide(together2, others, out=np.zeros(size), where=others > 0.0)
    variance2 = float((items.weight**2 * (square - r2**2)).sum()) - _joint(entries, share)
    if len(items.pairs):
        x, y = items.pairs.T
        both = np.minimum(r1[x] * r1[y] * np.expm1(np.minimum(shared, 700.0)), np.minimum(r1[x], r1[y]))
        variance1 += 2.0 * items.times * float(both.sum())
        weight = items.weight[x] * items.weight[y]
        variance2 += 2.0 * items.times * float(weight @ covary(others[x], others[y], shared))
    if drawn is not None:
        variance2 += _sampling_variance(items, r2, square, *drawn)
    expected = float(r1.sum()), float((items.weight * r2).sum())
    return Measured(r1, r2, expected, (max(variance1, 0.0), max(variance2, 0.0)))


def covary(one: Floats, other: Floats, shared: Floats) -> Floats:
    """Return Cov(1/(1 + X), 1/(1 + Y)) of Poisson counts with these means, of which `shared` is common to both.

    E s^X t^Y = exp(-(1 - s) E X - (1 - t) E Y + (1 - s)(1 - t) shared), integrated over s and t in (0, 1).
    """
    found = np.zeros(len(one))
    width, height = (REACH / np.maximum(mean, REACH) for mean in (one, other))
    for a, weight in zip(COARSE_NODE, COARSE_SHARE, strict=True):
        for b, weight_b in zip(COARSE_NODE, COARSE_SHARE, strict=True):
            u, v = width * a, height * b
            log_none = -one * u - other * v
            found += weight * weight_b * width * height * (np.exp(log_none + shared * u * v) - np.exp(log_none))
    return found


def _sum_entries(values: Floats, start: Integers) -> Floats:
    """Sum the entries of each cell; a cell may have none."""
    if np.array_equal(start, np.arange(len(values) + 1)):
        return values
    if not len(values):
        return np.zeros(len(start) - 1)
    sums = np.add.reduceat(values, np.minimum(start[:-1], len(values) - 1))
    return np.where(np.diff(start) > 0, sums, 0.0)


def _integrate(entries: Entries, known: Integers, alone: Floats, others: Floats, part: slice) -> tuple[Floats, Floats]:
    """Return E 1/(f + X) and E 1/(f + X)^2 of some items."""
    first, last = entries.start[part.start], entries.start[part.stop]
    q, people = entries.q[first:last], entries.people[first:last]
    start = entries.start[part.start : part.stop + 1] - first
    f = known[part].astype(np.float64)
    reach = f - 1.0 + others[part]
    width = np.where(reach > REACH, REACH / np.maximum(reach, REACH), 1.0)
    entry_width = np.repeat(width, np.diff(start))
    rest = np.where((width == 1.0) & (f == 1.0), alone[part], 0.0)
    match, square = np.zeros(len(f)), np.zeros(len(f))
    for node, weight in zip(NODE, SHARE, strict=True):
        log_none = _sum_entries(people * np.log1p(-q * entry_width * node), start)
        log_t = np.log1p(-width * node)
        none = np.exp((f - 1.0) * log_t + log_none)
        match += weight * none
        square -= weight * (none - rest) * log_t
    return width * match, width * square + rest


def _joint(entries: Entries, per_other: Floats) -> float:
    """Return what the fixed numbers of unseen people take from a variance: sum over strata of (sum M q g)^2 / M."""
    size = len(per_other)
    last = entries.start[size]
    item = np.repeat(np.arange(size), np.diff(entries.start[: size + 1]))
    lost = entries.people[:last] * entries.q[:last] * per_other[item]
    people = np.zeros(int(entries.stratum.max(initial=0)) + 1)
    people[entries.stratum] = entries.people
    total = np.bincount(entries.stratum[:last], lost, minlength=len(people))
    return float((total[people > 0] ** 2 / people[people > 0]).sum())


def _sampling_variance(items: Items, r2: Floats, square: Floats, records: int, drawn: int) -> float:
    """Return the variance that the draw of records adds to tau2: of indicators that depend on sizes alone."""
    sizes, place = np.unique(items.released, return_inverse=True)
    once = alone_in_share(sizes, records, drawn)
    a, b = sizes[:, None], sizes[None, :]
    both = np.exp(_log_choose(records - a - b, drawn - 2) - _log_choose(records, drawn))
    covariance = both - once[:, None] * once[None, :]
    own = items.weight / once[place]
    sums = np.bincount(place, own * r2, minlength=len(sizes))
    squares = np.bincount(place, (own * r2) ** 2, minlength=len(sizes))
    pairs = float(sums @ covariance @ sums) - float(squares @ np.diag(covariance))
    single = float((items.weight * np.maximum(1.0 - items.weight, 0.0) * square).sum())
    return single + pairs


def thin_moments(expected: Floats, variance: Floats, records: int, drawn: int) -> tuple[Floats, Floats]:
    """Return mean and variance of tau1 after a draw of records, from those before: hypergeometric given tau1."""
    share = drawn / records
    if records < 2:
        return share * expected, share**2 * variance
    square = variance + expected**2
    within = share * (records - drawn) / (records - 1) * (expected - square / records)
    return share * expected, share**2 * variance + np.maximum(within, 0.0)
