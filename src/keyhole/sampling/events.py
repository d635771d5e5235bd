"""The events whose probabilities make up those of coarse cells (docs/model.md section 9).

A coarse cell C restricts some variables to sets of categories. Without rules that is one event. With rules,
    P(C among possible people) = sum over disjoint possible boxes D of P(C and D) / (1 - p_0),
and C and D together again restrict each variable to a set. Variables with all their categories are left out, and the
remaining boxes are merged where possible, so that a cell seldom needs more than one event. A missing answer (-1)
restricts nothing: the cell of a record consists of all cells that agree with its answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keyhole.data.recoding import Groups
from keyhole.kernels.state import Floats, Integers
from keyhole.zeros.boxes import Box, Grid, admitted, confine, make_grid, merge, pack

Levels = tuple[int, ...]
"""Levels of one variable, numbered over all variables."""

Sets = dict[Levels, int]
"""The number of each set of levels that occurs, in their order."""


@dataclass(frozen=True)
class Coarsening:
    """What is published.

    kept: indices of the published variables, ascending; groups: for each of them its categories, merged or single.
    """

    kept: tuple[int, ...]
    groups: tuple[Groups, ...]

    def apply(self, codes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the published codes (n, kept) of codes (n, J); -1 stays -1."""
        coarse = np.empty((len(codes), len(self.kept)), np.int32)
        for place, (j, groups) in enumerate(zip(self.kept, self.groups, strict=True)):
            # The additional last entry is the one that index -1, a missing answer, finds.
            to_group = np.full(sum(map(len, groups)) + 1, -1, np.int32)
            for g, group in enumerate(groups):
                to_group[list(group)] = g
            coarse[:, place] = to_group[codes[:, j]]
        return coarse


def leave_out(levels: Sequence[int], j: int | None) -> Coarsening:
    """Return the coarsening that leaves out variable j, or nothing if j is None."""
    kept = tuple(x for x in range(len(levels)) if x != j)
    return Coarsening(kept, tuple(tuple((v,) for v in range(levels[x])) for x in kept))


@dataclass(frozen=True)
class Part:
    """Events that restrict the same number of variables.

    row: int32 (events, f), the set of each restricted variable; cell: int64 (events,), the cell of each event.
    """

    row: NDArray[np.int32]
    cell: Integers


@dataclass(frozen=True)
class Events:
    """Events of `cells` coarse cells; set_level, set_start: the levels of all sets, concatenated."""

    cells: int
    parts: tuple[Part, ...]
    set_level: Integers
    set_start: Integers

    def set_profile(self, level_profile: NDArray[np.floating]) -> Floats:
        """Return the probability of each set under each profile, (sets, K)."""
        if not len(self.set_start):
            return np.zeros((0, level_profile.shape[1]))
        return np.add.reduceat(level_profile[self.set_level], self.set_start, axis=0)


def make_events(
    cells: NDArray[np.int32], coarsening: Coarsening, levels: Sequence[int], possible: NDArray[np.uint8] | None
) -> Events:
    """Return the events of these coarse cells (cells, kept); possible: disjoint boxes (D, levels), or None."""
    grid = make_grid(levels)
    start = np.concatenate([[0], np.cumsum(levels)]).astype(np.int64)
    boxes = [grid.full] if possible is None else pack(grid, possible)
    sets: Sets = {}
    rows: dict[int, list[NDArray[np.int32]]] = {}
    members: dict[int, list[Integers]] = {}
    met = _meets(cells, coarsening, grid, boxes)
    for chosen in _alike(cells, coarsening, met):
        example = cells[chosen[0]]
        for piece in _pieces(example, coarsening, grid, [boxes[b] for b in np.flatnonzero(met[chosen[0]])]):
            columns = _columns(piece, cells[chosen], example, coarsening, grid, start, sets)
            rows.setdefault(len(columns), []).append(
                np.stack(columns, axis=1) if columns else np.zeros((len(chosen), 0), np.int32)
            )
            members.setdefault(len(columns), []).append(chosen)
    parts = tuple(Part(np.ascontiguousarray(np.concatenate(rows[f])), np.concatenate(members[f])) for f in sorted(rows))
    flat = np.array([v for found in sets for v in found], np.int64)
    sizes = [len(found) for found in sets]
    return Events(len(cells), parts, flat, np.cumsum([0, *sizes])[:-1].astype(np.int64))


def describe_cells(cells: NDArray[np.int32], level_start: Integers, possible: NDArray[np.uint8] | None) -> Events:
    """Return the events of cells of records, given by levels (cells, J), -1 where an answer is missing.

    Records are possible, so the rules restrict only the cells of records with missing answers.
    """
    if not (cells < 0).any():
        possible = None
    codes = np.where(cells < 0, np.int32(-1), cells - level_start[:-1].astype(np.int32)).astype(np.int32)
    levels = [int(size) for size in np.diff(level_start)]
    return make_events(codes, leave_out(levels, None), levels, possible)


def _meets(cells: NDArray[np.int32], coarsening: Coarsening, grid: Grid, boxes: Sequence[Box]) -> NDArray[np.bool_]:
    """Return which cells intersect which boxes: (cells, boxes)."""
    met = np.ones((len(cells), len(boxes)), np.bool_)
    for b, box in enumerate(boxes):
        for place, (j, groups) in enumerate(zip(coarsening.kept, coarsening.groups, strict=True)):
            inside = set(admitted(grid, box, j))
            if len(inside) < grid.levels[j]:
                # The last entry is the one that a missing answer, -1, finds.
                meets = np.array([not inside.isdisjoint(group) for group in groups] + [True])
                met[:, b] &= meets[cells[:, place]]
    return met


def _alike(cells: NDArray[np.int32], coarsening: Coarsening, met: NDArray[np.bool_]) -> list[Integers]:
    """Group cells that meet the same boxes and agree in every variable with merged categories."""
    if not len(cells):
        return []
    single = np.array([all(len(group) == 1 for group in groups) for groups in coarsening.groups], np.bool_)
    key = np.where(single & (cells >= 0), 0, cells)
    bits = np.packbits(met, axis=1)
    whole = np.concatenate([np.ascontiguousarray(key.astype(np.int32)).view(np.uint8), bits], axis=1)
    _, group = np.unique(whole, axis=0, return_inverse=True)
    group = group.reshape(-1)
    order = np.argsort(group, kind="stable").astype(np.int64)
    return list(np.split(order, np.flatnonzero(np.diff(group[order])) + 1))


def _pieces(example: NDArray[np.int32], coarsening: Coarsening, grid: Grid, boxes: Sequence[Box]) -> list[Box]:
    """Return the intersections of boxes with a cell, merged; variables with a single category count as free."""
    within, free = grid.full, 0
    for j, groups, code in zip(coarsening.kept, coarsening.groups, example.tolist(), strict=True):
        if code >= 0:
            within &= confine(grid, j, groups[code])
            free |= grid.field[j] if len(groups[code]) == 1 else 0
    return merge(grid, [box & within | free for box in boxes])


def _columns(
    piece: Box,
    cells: NDArray[np.int32],
    example: NDArray[np.int32],
    coarsening: Coarsening,
    grid: Grid,
    start: Integers,
    sets: Sets,
) -> list[NDArray[np.int32]]:
    """Return, for each variable that the piece of these cells restricts, the number of its set in every cell."""
    place_of = {j: place for place, j in enumerate(coarsening.kept)}
    columns = []
    for j in range(len(grid.levels)):
        place = place_of.get(j)
        groups: Groups = () if place is None else coarsening.groups[place]
        if place is not None and example[place] >= 0 and len(groups[example[place]]) == 1:
            numbers = _singles(groups, cells[:, place], int(start[j]), sets)
            columns.append(numbers)
            continue
        inside = admitted(grid, piece, j)
        if len(inside) < grid.levels[j]:
            number = sets.setdefault(tuple(int(start[j]) + x for x in inside), len(sets))
            columns.append(np.full(len(cells), number, np.int32))
    return columns


def _singles(groups: Groups, codes: NDArray[np.int32], start: int, sets: Sets) -> NDArray[np.int32]:
    numbers = np.zeros(len(groups), np.int32)
    for code in np.unique(codes).tolist():
        numbers[code] = sets.setdefault((start + groups[code][0],), len(sets))
    return numbers[codes]
