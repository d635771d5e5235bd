"""Search the lattice for the release that meets the limits with the least loss.

Risk falls in every draw as a release gets coarser, so a release that meets the limits shows that all coarser ones do,
and one that misses them that all finer ones do. First a greedy walk from the file as it is, by risk removed for each
unit of loss, and steps back as long as the limits are met. Then every release with less loss than the best so far is
decided, by inference or by judging it, those with the largest loss first: if one misses the limits, many are decided.
If time is left for all of them, the best is optimal.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from keyhole.plan.judge import Judge
from keyhole.plan.lattice import Lattice, Node

UNKNOWN, MET, MISSED = 0, 1, 2
MOST_LISTED = 2_000_000
"""Most releases of a lattice that is listed; of a larger one only the walk is taken."""

MOST_ASKED = 300
"""Most releases that are judged to find others than the best."""

EQUAL = 1e-12
"""Losses that differ by less are equal."""


@dataclass
class Search:
    """What is known about the releases of a lattice; met, missed: those that were judged; path: the walk.

    deadline: of the search; end: when the figures have to be done, which are then made for fewer releases.
    """

    lattice: Lattice
    judge: Judge
    deadline: float
    end: float = math.inf
    status: NDArray[np.int8] | None = None
    met: list[Node] = field(default_factory=list)
    missed: list[Node] = field(default_factory=list)
    path: list[Node] = field(default_factory=list)
    decided: bool = False

    def __post_init__(self) -> None:
        if self.lattice.size <= MOST_LISTED:
            self.status = np.zeros(self.lattice.shape, np.int8)

    @property
    def late(self) -> bool:
        return time.monotonic() > self.deadline

    def over(self, share: float = 0.0) -> bool:
        """Whether the end is near: less than this share of the time between deadline and end is left."""
        return time.monotonic() > self.end - share * (self.end - self.deadline)

    def meets(self, node: Node) -> bool:
        """Decide a release, by inference if that is possible."""
        if self.status is not None and self.status[node] != UNKNOWN:
            return bool(self.status[node] == MET)
        if any(self.lattice.is_coarser(other, node) for other in self.missed):
            return False
        if any(self.lattice.is_coarser(node, other) for other in self.met):
            return True
        met = self.judge.judge(node).met
        (self.met if met else self.missed).append(node)
        if self.status is not None:
            # A release that other draws have refused stays refused.
            index = self.lattice.all_coarser(node) if met else self.lattice.all_finer(node)
            self.status[index] = np.where(self.status[index] == MISSED, MISSED, MET) if met else MISSED
        return met

    def refuse(self, node: Node) -> None:
        """Take a release as missing the limits, and all finer ones, because other draws show it."""
        if self.status is not None:
            self.status[self.lattice.all_finer(node)] = MISSED
        for other in [other for other in self.met if self.lattice.is_coarser(node, other)]:
            self.met.remove(other)
        self.missed.append(node)

    def next_best(self, node: Node, risk: Callable[[Node], float]) -> Node:
        """Return the best release known to meet the limits, after one was refused."""
        if self.status is not None:
            losses = np.where(self.status == MET, self.lattice.losses, np.inf)
            return tuple(int(x) for x in np.unravel_index(int(losses.argmin()), losses.shape))
        return walk(self, risk, node)


def walk(search: Search, risk: Callable[[Node], float], start: Node) -> Node:
    """Go to coarser releases until the limits are met, by risk removed for each unit of loss; then steps back."""
    lattice, node = search.lattice, start
    now = risk(node)
    search.path.append(node)
    while not search.meets(node):
        moves = [(*node[:j], y, *node[j + 1 :]) for j, x in enumerate(node) for y in lattice.next_coarser(j, x)]
        if not moves or search.late:
            node = lattice.coarsest
            break
        gains = []
        for move in moves:
            if search.late:
                break
            lost = lattice.loss_of(move) - lattice.loss_of(node)
            gains.append((now - risk(move)) / max(lost, EQUAL))
        if len(gains) < len(moves):
            node = lattice.coarsest
            break
        node = moves[int(np.argmax(gains))]
        now = risk(node)
        search.path.append(node)
    return step_back(search, node)


def step_back(search: Search, node: Node) -> Node:
    """Take back coarsening, the largest loss first, as long as the limits are met."""
    lattice = search.lattice
    moved = True
    while moved and not search.late:
        moved = False
        moves = [
            (*node[:j], y, *node[j + 1 :])
            for j, x in enumerate(node)
            for y in range(len(lattice.levels[j]))
            if y != x and lattice.loss[j][y] < lattice.loss[j][x] - EQUAL
        ]
        for move in sorted(moves, key=lattice.loss_of):
            if search.meets(move):
                node, moved = move, True
                break
            if search.late:
                break
    return node


def decide(search: Search, best: Node) -> Node:
    """Decide all releases with less loss than the best; return the best, which is then optimal."""
    lattice, status = search.lattice, search.status
    search.decided = False
    if status is None:
        return best
    losses, flat = lattice.losses.ravel(), status.ravel()
    order = np.argsort(losses, kind="stable")
    for x in order[: int(np.searchsorted(losses[order], lattice.loss_of(best) - EQUAL))][::-1]:
        if flat[x] == UNKNOWN:
            if search.late:
                return best
            search.meets(_node(lattice, int(x)))
        if flat[x] == MET:
            best = _node(lattice, int(x))
    search.decided = True
    return best


def list_others(search: Search, best: Node, most: int) -> list[Node]:
    """Return the next releases by loss that meet the limits and are not merely coarser than one before them."""
    lattice, status = search.lattice, search.status
    found = [best]
    if status is None:
        found += sorted((node for node in search.met if node != best), key=lattice.loss_of)
        return [node for x, node in enumerate(found) if x and not _adds_nothing(lattice, node, found[:x])][:most]
    losses, flat = lattice.losses.ravel(), status.ravel()
    order = np.argsort(losses, kind="stable")
    asked = search.judge.evaluations
    for x in order[int(np.searchsorted(losses[order], lattice.loss_of(best) - EQUAL)) :]:
        if len(found) > most or search.late or search.judge.evaluations - asked > MOST_ASKED:
            break
        if flat[x] == MISSED:
            continue
        node = _node(lattice, int(x))
        if not _adds_nothing(lattice, node, found) and search.meets(node):
            found.append(node)
    return found[1:]


def _adds_nothing(lattice: Lattice, node: Node, others: list[Node]) -> bool:
    return any(lattice.is_coarser(node, other) for other in others)


def _node(lattice: Lattice, place: int) -> Node:
    return tuple(int(x) for x in np.unravel_index(place, lattice.shape))
