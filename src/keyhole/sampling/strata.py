"""Cells as the unseen people of each stratum meet them: P(c | s) = P(c and s) / P(s) (docs/model.md section 12).

A stratum restricts the keys that define it to one category each, and the further variable, which stands for all columns
that are no keys, to one level. Strata that agree in their keys form a group: the event of a cell within a group is an
event of keys, and the levels of the further variable share its sums. A cell that contradicts a group has no people of
its strata; so if all columns are keys, only one stratum counts for a cell with these keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keyhole.data.strata import Strata
from keyhole.kernels.freeze import Draw
from keyhole.kernels.state import Floats, Integers, no_rules
from keyhole.kernels.strata import measure_strata, mixture_strata, strata_probabilities
from keyhole.sampling.costs import EXACT_STEPS, exact_steps
from keyhole.sampling.events import Coarsening, Events, make_events
from keyhole.sampling.predict import Measured, Scratch, find_work, is_mixture, lengthen, predict, predict_part


@dataclass(frozen=True)
class Exposure:
    """Which strata with unseen people may have people in which cells.

    pairs: events of cells within groups; groups: events of the groups themselves; further: levels of the further
    variable, none if all strata are made of keys.
    start: int64 (cells + 1,), the first entry of each cell; of each entry: stratum, int64, its row in pairs and groups,
    and its column among the levels of the further variable; people: int64 (S,), M_s.
    """

    pairs: Events
    groups: Events
    further: Integers
    start: Integers
    stratum: Integers
    pair: Integers
    group: Integers
    column: Integers
    people: Integers


def make_exposure(
    strata: Strata,
    unseen: Integers,
    cells: NDArray[np.int32],
    coarsening: Coarsening,
    levels: Sequence[int],
    possible: NDArray[np.uint8] | None,
) -> Exposure:
    """Return what the unseen people of each stratum mean for coarse cells (cells, kept), -1 where answers are missing.

    unseen: int64 (S,); levels, possible: of the keys.
    """
    left = np.flatnonzero(unseen > 0)
    category, group = np.unique(strata.category[left], axis=0, return_inverse=True)
    group = group.reshape(-1)
    groups = dict(zip(coarsening.kept, coarsening.groups, strict=True))
    single = {j: tuple((v,) for v in range(levels[j])) for j in strata.keys}
    finer = Coarsening(
        tuple(sorted({*groups, *single})), tuple((groups | single)[j] for j in sorted({*groups, *single}))
    )
    place = {j: x for x, j in enumerate(finer.kept)}
    whole = np.full((len(cells), len(finer.kept)), -1, np.int32)
    whole[:, [place[j] for j in coarsening.kept]] = cells
    codes, members, of_pair = [], [], []
    for g, row in enumerate(category):
        met = np.ones(len(cells), np.bool_)
        within = whole.copy()
        for j, code in zip(strata.keys, row.tolist(), strict=True):
            if j in groups:
                # The last entry is the one that a missing answer, -1, finds.
                met &= np.array([code in merged for merged in groups[j]] + [True])[whole[:, place[j]]]
            within[:, place[j]] = code
        codes.append(within[met])
        members.append(np.flatnonzero(met))
        of_pair.append(np.full(int(met.sum()), g))
    cell, pair_group = np.concatenate(members), np.concatenate(of_pair)
    strata_of = [np.flatnonzero(group == g) for g in range(len(category))]
    pair = np.repeat(np.arange(len(cell)), np.array([len(found) for found in strata_of])[pair_group])
    stratum = np.concatenate([strata_of[g] for g in pair_group]) if len(cell) else np.zeros(0, np.int64)
    order = np.argsort(cell[pair], kind="stable")
    further = int(sum(levels)) + np.arange(strata.further_levels, dtype=np.int64)
    own = Coarsening(tuple(sorted(strata.keys)), tuple(single[j] for j in sorted(strata.keys)))
    return Exposure(
        pairs=make_events(np.concatenate(codes), finer, levels, possible),
        groups=make_events(np.ascontiguousarray(category[:, np.argsort(strata.keys)]), own, levels, possible),
        further=further,
        start=np.searchsorted(cell[pair][order], np.arange(len(cells) + 1)).astype(np.int64),
        stratum=stratum[order].astype(np.int64),
        pair=pair[order].astype(np.int64),
        group=pair_group[pair][order].astype(np.int64),
        column=strata.further[left][stratum[order]] if len(further) else np.zeros(len(order), np.int64),
        people=unseen[left].astype(np.int64),
    )


def predict_strata(rng: np.random.Generator, draw: Draw, exposure: Exposure, scratch: Scratch | None = None) -> Floats:
    """Return P(c | s) of every entry. 1 - p_0 is left out: it divides P(c and s) and P(s) alike."""
    scratch = {} if scratch is None else scratch
    draw = lengthen(draw)
    joint, mass = (_predict_levels(rng, draw, part, exposure, scratch) for part in (exposure.pairs, exposure.groups))
    return joint[exposure.pair, exposure.column] / mass[exposure.group, exposure.column]


def measure_exposure(q: Floats, exposure: Exposure) -> Measured:
    """Return the risks of cells with one record each, from P(c | s) of every entry."""
    r1, r2 = np.zeros(len(exposure.start) - 1), np.zeros(len(exposure.start) - 1)
    found = measure_strata(q, exposure.start, exposure.stratum, exposure.people, r1, r2)
    return Measured(r1, r2, found[:2], found[2:])


def _predict_levels(
    rng: np.random.Generator, draw: Draw, events: Events, exposure: Exposure, scratch: Scratch
) -> Floats:
    """Return the probability of each event of keys with each level of the further variable: (cells, levels or 1)."""
    if not len(exposure.further):
        return predict(rng, draw, events, no_rules(), scratch).q[:, None]
    stratum = np.ascontiguousarray(draw.level_profile[exposure.further])
    profile = np.ascontiguousarray(events.set_profile(draw.level_profile))
    total = np.zeros((events.cells, len(stratum)))
    for part in events.parts:
        found = np.zeros((len(part.cell), len(stratum)))
        size = part.row.shape[1]
        if is_mixture(draw):
            mixture_strata(draw.weight, profile, part.row, stratum, found)
        elif size and exact_steps(size + 1) <= EXACT_STEPS:
            profiles = len(draw.weight)
            work = find_work(scratch, size + 1, profiles)
            strata_probabilities(draw.weight, profile, profiles, draw.eppf, part.row, stratum, work, found)
        else:
            every = draw._replace(level_profile=np.concatenate([profile, stratum]))
            for s in range(len(stratum)):
                row = np.column_stack([part.row, np.full(len(part.row), len(profile) + s, np.int32)])
                found[:, s], _ = predict_part(rng, every, row, scratch)
        np.add.at(total, part.cell, found)
    return total
