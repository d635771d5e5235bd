"""Local suppression: values blanked, or records removed, for what a coarser release leaves above the limits.

A record is compared with the people who agree with what is left of it (risk/local.py), so records can be planned one by
one: for each the step that takes most risk away for what it loses. Blanking the value x of key j loses
log(n / n_group(x)) / (n H(key)) of the key, as if this value alone were left out; removing a record loses all of its
values, and 1/n for the columns that are no keys. Only limits on tau1 and tau2 are met in this way.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from keyhole.kernels.state import Floats, Integers
from keyhole.plan.judge import Judge, Judged
from keyhole.plan.lattice import Lattice, Node
from keyhole.risk.local import Items, LocalSteps, count_in_unions
from keyhole.risk.loss import count_categories, lose_key
from keyhole.risk.release import Posterior, evaluate_draws, release_items

CANDIDATES = 400
"""Most sample uniques whose values may be blanked: those with the largest risk."""

FEW_DRAWS = 20
"""Draws on which the steps of records are compared."""

COMPARED = 8
"""Draws on which it is checked whether suppression may do at all."""

NO_KEY = -1
"""The record is removed."""


@dataclass(frozen=True)
class Suppression:
    """Single steps: record[i] loses its value of key[i], or is removed if that is NO_KEY; loss: of all together."""

    record: Integers
    key: Integers
    loss: float

    @property
    def size(self) -> int:
        return len(self.record)

    def steps(self, rows: Integers) -> LocalSteps:
        """Return the steps by rows; rows: the input row of each record, from 0."""
        blank = {
            int(j): tuple(sorted((rows[self.record[self.key == j]] + 1).tolist()))
            for j in np.unique(self.key[self.key != NO_KEY])
        }
        removed = tuple(sorted((rows[self.record[self.key == NO_KEY]] + 1).tolist()))
        return LocalSteps(blank, removed or None)


NOTHING = Suppression(np.zeros(0, np.int64), np.zeros(0, np.int64), 0.0)


def lose_values(posterior: Posterior, lattice: Lattice, node: Node, cells: Integers) -> Floats:
    """Return what blanking each key of these distinct cells loses: (cells, J), infinite where a key is left out."""
    microdata = posterior.microdata
    n = microdata.records
    counts = count_categories(microdata.cells, microdata.cell_size, microdata.levels)
    lost = np.full((len(cells), len(node)), np.inf)
    for j, x in enumerate(node):
        groups = lattice.levels[j][x].groups
        if groups is None:
            continue
        whole = lose_key(counts[j], None)
        code = microdata.cells[cells, j]
        for group in groups:
            own = np.isin(code, group)
            share = counts[j][list(group)].sum() / n
            if own.any() and whole > 0.0:
                lost[own, j] = lattice.weight[j] * -np.log2(share) / (n * whole)
    return lost


def suppress(judge: Judge, node: Node, judged: Judged, most: int, best: float) -> Suppression | None:
    """Return the steps after which a release meets the limits, at most `most` and with a loss below `best`.

    judged: the risks of the release in all draws.
    """
    posterior, lattice = judge.posterior, judge.lattice
    assert judged.r1 is not None
    assert judged.r2 is not None
    if judge.others or (posterior.microdata.cells < 0).any():
        return None
    worth = _worth(judge, judged.r1, judged.r2)
    order = np.argsort(-worth, kind="stable")[: min(CANDIDATES, max(4 * most, most))]
    uniques = judged.uniques.cell
    record_of = np.full(len(posterior.microdata.cells), -1, np.int64)
    record_of[posterior.microdata.cell] = np.arange(posterior.microdata.records)
    chosen = order[worth[order] > 0.0]
    if not len(chosen):
        return None
    values = lose_values(posterior, lattice, node, uniques[chosen])
    whole = np.where(np.isfinite(values), values, 0.0).sum(axis=1) + 1.0 / posterior.microdata.records
    left = _risks_left(judge, node, record_of[uniques[chosen]], values, FEW_DRAWS)
    gained = worth[chosen][:, None] - left
    rate = np.column_stack([gained / values, worth[chosen] / whole])
    pick = rate.argmax(axis=1)
    ranks = np.argsort(-rate[np.arange(len(chosen)), pick], kind="stable")
    if not _reachable(judge, judged, chosen[ranks[:most]]):
        return None
    key = np.where(pick == len(node), NO_KEY, pick).astype(np.int64)
    loss = np.where(key == NO_KEY, whole, values[np.arange(len(chosen)), np.minimum(pick, len(node) - 1)])
    risks = _exact_risks(judge, node, record_of[uniques[chosen[ranks[:most]]]], key[ranks[:most]])

    def met(count: int) -> bool:
        r1, r2 = judged.r1.copy(), judged.r2.copy()  # type: ignore[union-attr]
        place = chosen[ranks[:count]]
        r1[:, place], r2[:, place] = risks[0][:, :count], risks[1][:, :count]
        return judge.within(r1, r2)

    low, high = 0, min(most, len(ranks))
    if not met(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if met(middle) else (middle, high)
    taken = ranks[:high]
    total = float(loss[taken].sum())
    if total >= best:
        return None
    return Suppression(record_of[uniques[chosen[taken]]], key[taken], total)


def within_reach(judge: Judge, node: Node, most: int) -> bool:
    """Whether the expected risk without the `most` riskiest records is within the limits, on a few draws."""
    uniques = judge.find_uniques(node)
    draws = range(0, len(judge.draws), max(len(judge.draws) // COMPARED, 1))
    pairs = [judge.risks(uniques, d) for d in draws]
    r1, r2 = (np.array([pair[x] for pair in pairs]) for x in (0, 1))
    for limit in judge.taus:
        name, largest = judge.bound(limit)
        left = np.sort((r1 if name == "tau1" else r2).mean(axis=0))[: max(r1.shape[1] - most, 0)]
        if left.sum() > largest:
            return False
    return True


def _worth(judge: Judge, r1: Floats, r2: Floats) -> Floats:
    """Return how much each record adds to the limited measures, each in units of its limit."""
    total = np.zeros(r1.shape[1])
    for limit in judge.taus:
        name, most = judge.bound(limit)
        total += (r1 if name == "tau1" else r2).mean(axis=0) / max(most, 0.5)
    return total


def _reachable(judge: Judge, judged: Judged, gone: Integers) -> bool:
    """Whether the limits would be met without these records."""
    assert judged.r1 is not None
    assert judged.r2 is not None
    r1, r2 = judged.r1.copy(), judged.r2.copy()
    r1[:, gone], r2[:, gone] = 0.0, 0.0
    return judge.within(r1, r2)


def _risks_left(judge: Judge, node: Node, records: Integers, values: Floats, draws: int) -> Floats:
    """Return what each record still adds if one of its keys is blanked, (records, J), on a few draws."""
    place, keys = np.nonzero(np.isfinite(values))
    step = max(len(judge.numbers) // draws, 1)
    r1, r2 = _exact_risks(judge, node, records[place], keys.astype(np.int64), judge.numbers[::step])
    left = np.zeros(values.shape)
    left[place, keys] = _worth(judge, r1, r2)
    return left


def _exact_risks(
    judge: Judge, node: Node, records: Integers, keys: Integers, numbers: Sequence[int] | None = None
) -> tuple[Floats, Floats]:
    """Return r1 and r2 (draw, step) of records with a value blanked; zero if removed, or if others are in the union."""
    posterior = judge.posterior
    numbers = judge.numbers if numbers is None else numbers
    coarsening = judge.lattice.coarsening(node)
    coarse = coarsening.apply(posterior.microdata.cells)
    rows = coarse[posterior.microdata.cell[records]]
    place = {j: x for x, j in enumerate(coarsening.kept)}
    for x, j in enumerate(keys.tolist()):
        if j != NO_KEY:
            rows[x, place[j]] = -1
    known = count_in_unions(rows, coarse, posterior.microdata.cell_size)
    r1, r2 = np.zeros((len(numbers), len(records))), np.zeros((len(numbers), len(records)))
    open_ = np.flatnonzero((known == 1) & (keys != NO_KEY))
    if len(open_):
        one = np.ones(len(open_), np.int64)
        items = Items(
            rows[open_], records[open_], np.zeros(0, np.int32), one, one, one.astype(np.float64),
            np.zeros((0, 2), np.int64), rows[:0], 1.0,
        )  # fmt: skip
        release = release_items(posterior, coarsening, coarse[posterior.microdata.cell], items)
        for d, found in enumerate(evaluate_draws(posterior, release, numbers)):
            r1[d, open_], r2[d, open_] = found.r1, found.r2
    return r1, r2
