"""Whether releases meet limits, judged on given draws, with as little work as that takes.

A limit on tau1 or tau2 is a sum over draws: of P(tau > limit | draw) for the upper end of the interval, of
E(tau | draw) for the mean. All terms are at least zero, so a release is known to miss a limit as soon as the sum over
some of the draws is too large; most are after a few. Draws with the largest risk come first.

In a search tau1 given a draw is a sum of independent indicators, without the small correction for the number of unseen
people, which would reduce its variance: its upper end is then never too low, and rises with every r1. Limits on all
records are judged on all draws at once.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from keyhole.diagnostics.laws import TAILS
from keyhole.kernels.freeze import Draw
from keyhole.kernels.risk import fill_risks, find_variances
from keyhole.kernels.state import Floats, Integers, has_rules
from keyhole.kernels.strata import fill_strata_law
from keyhole.plan.lattice import Lattice, Node
from keyhole.risk.limits import Limit
from keyhole.risk.policies import describe_cells_of
from keyhole.risk.release import Posterior, Release, prepare_release
from keyhole.sampling.predict import Scratch, lengthen, possible_mass, predict_part
from keyhole.sampling.strata import measure_exposure, predict_strata
from keyhole.seeds import RELEASE, make_seeds

SLACK = 1e-9
"""By how much a sum may exceed its limit through rounding."""

ALL_DRAWS = 40
"""Draws on which limits on all records are judged in a search: every one takes all cells."""

WIDEST = 4_000_000
"""Most cells of a table that is counted directly."""


@dataclass(frozen=True)
class Uniques:
    """The sample uniques of a release. cell: their distinct cells in the file; release: their events, if these are not
    looked up; row: otherwise their sets.
    """

    cell: Integers
    release: Release | None
    row: NDArray[np.int32] | None


@dataclass(frozen=True)
class Judged:
    """Whether a release meets the limits; r1, r2: (draw, unique) of its uniques if all draws were evaluated."""

    met: bool
    uniques: Uniques
    r1: Floats | None = None
    r2: Floats | None = None


class Judge:
    """Judges the releases of a lattice on the draws of these numbers.

    pooled: whether chains agree; otherwise each chain has to meet the limits by itself.
    """

    def __init__(self, posterior: Posterior, lattice: Lattice, limits: Sequence[Limit], draws: Sequence[int]) -> None:
        self.posterior, self.lattice = posterior, lattice
        self.taus = [limit for limit in limits if not limit.needs_all_records]
        self.others = [limit for limit in limits if limit.needs_all_records]
        self.numbers = list(draws)
        self.evaluations = 0
        each = max(posterior.available[1], 1)
        # If nothing was sampled, the sample is the population or has no uniques: one draw in which nobody is unseen.
        self.draws: list[Draw | None] = [lengthen(posterior.draws[x // each][x % each]) for x in draws] or [None]
        self.possible = [1.0 if draw is None else possible_mass(posterior.rules, draw) for draw in self.draws]
        chain = np.array([x // each for x in draws] or [0], np.int64)
        self.chain = np.zeros(len(chain), np.int64) if posterior.grade != "not converged" else chain
        self.chains = int(self.chain.max(initial=0)) + 1
        self.in_chain = np.bincount(self.chain, minlength=self.chains)
        self.order = np.arange(len(self.draws))
        self.scratch: Scratch = {}
        cells = posterior.microdata.cells
        self.simple = posterior.strata is None and not has_rules(posterior.rules) and not (cells < 0).any()
        self.group = [
            [_group_of(level.groups, len(variable.categories)) for level in lattice.levels[j]]
            for j, variable in enumerate(lattice.variables)
        ]
        self.table: list[Floats] = []
        self.offset: list[list[int]] = []
        if self.simple:
            self._list_sets()
        uniques = self.find_uniques(lattice.finest)
        risk = [self.risks(uniques, d)[0].sum() for d in range(len(self.draws))]
        self.order = np.argsort(-np.array(risk), kind="stable")

    def _list_sets(self) -> None:
        """Add up the profiles of all groups of all levels once, for every draw."""
        start = np.concatenate([[0], np.cumsum(self.posterior.microdata.levels)]).astype(np.int64)
        members: list[Integers] = []
        for j, levels in enumerate(self.lattice.levels):
            self.offset.append([])
            for level in levels:
                self.offset[j].append(len(members))
                members += [start[j] + np.array(group, np.int64) for group in level.groups or ()]
        flat, sizes = np.concatenate(members), [len(found) for found in members]
        first = np.concatenate([[0], np.cumsum(sizes)])[:-1].astype(np.int64)
        self.table = [
            np.zeros((0, 0)) if draw is None else np.add.reduceat(draw.level_profile[flat], first, axis=0)
            for draw in self.draws
        ]

    def find_uniques(self, node: Node) -> Uniques:
        """Return the sample uniques of a release."""
        microdata = self.posterior.microdata
        if not self.simple:
            release = prepare_release(self.posterior, self.lattice.coarsening(node))
            return Uniques(microdata.cell[release.unique_record].astype(np.int64), release, None)
        cell = self.count_alone(node)
        kept = [j for j, x in enumerate(node) if self.lattice.levels[j][x].groups is not None]
        row = np.empty((len(cell), len(kept)), np.int32)
        for place, j in enumerate(kept):
            row[:, place] = self.group[j][node[j]][microdata.cells[cell, j]] + self.offset[j][node[j]]
        return Uniques(cell, None, row)

    def count_alone(self, node: Node) -> Integers:
        """Return the distinct cells whose record is alone in a release; without missing answers."""
        cells, span = self.posterior.microdata.cells, 1
        number = np.zeros(len(cells), np.int64)
        for j, x in enumerate(node):
            groups = self.lattice.levels[j][x].groups
            if groups is not None:
                number = number * len(groups) + self.group[j][x][cells[:, j]]
                span *= len(groups)
                if span > WIDEST:
                    _, number = np.unique(number, return_inverse=True)
                    span = int(number.max()) + 1
        size = np.bincount(number, self.posterior.microdata.cell_size)
        return np.flatnonzero(size[number] == 1)

    def risks(self, uniques: Uniques, d: int) -> tuple[Floats, Floats]:
        """Return r1 and r2 of these uniques in one draw."""
        draw, release = self.draws[d], uniques.release
        size = len(uniques.cell)
        if draw is None or not size:
            return np.ones(size), np.ones(size)
        rng = np.random.default_rng(make_seeds(self.posterior.seed, RELEASE, self.numbers[d]))
        if uniques.row is not None:
            q, _ = predict_part(rng, draw._replace(level_profile=self.table[d]), uniques.row, self.scratch)
            people = self.posterior.n_unseen
        else:
            assert release is not None
            if release.exposure is not None:
                found = measure_exposure(predict_strata(rng, draw, release.exposure, self.scratch), release.exposure)
                return found.r1, found.r2
            profile = np.ascontiguousarray(release.events.set_profile(draw.level_profile))
            q, people = np.zeros(size), release.n_unseen or 0
            for part in release.events.parts:
                own, _ = predict_part(rng, draw._replace(level_profile=profile), part.row, self.scratch)
                q += np.bincount(part.cell, weights=own, minlength=size)
            q /= self.possible[d]
        r1, r2 = np.zeros(size), np.zeros(size)
        fill_risks(q, people, r1, r2)
        return r1, r2

    def evaluate(self, node: Node) -> Judged:
        """Return the risks of a release in all draws."""
        uniques = self.find_uniques(node)
        found = [self.risks(uniques, d) for d in range(len(self.draws))]
        r1, r2 = (np.array([pair[x] for pair in found]).reshape(len(found), -1) for x in (0, 1))
        return Judged(self.within(r1, r2) and self._others_met(node), uniques, r1, r2)

    def approximate(self, node: Node, draws: int) -> float:
        """Return the risk of a release on a few draws: expected tau1 and tau2, each in units of its limit."""
        uniques = self.find_uniques(node)
        total = 0.0
        for d in self.order[:: max(len(self.order) // draws, 1)][:draws]:
            r1, r2 = self.risks(uniques, int(d))
            for limit in self.taus:
                name, most = self.bound(limit)
                total += float((r1 if name == "tau1" else r2).sum()) / max(most, 0.5)
            total += float(r2.sum()) if self.others else 0.0
        return total

    def judge(self, node: Node) -> Judged:
        """Return whether a release meets the limits; stop at the first draws that show that it does not."""
        self.evaluations += 1
        uniques = self.find_uniques(node)
        total = np.zeros((len(self.taus), self.chains))
        size = len(uniques.cell)
        r1, r2 = np.zeros((len(self.draws), size)), np.zeros((len(self.draws), size))
        for d in self.order if self.taus else ():
            r1[d], r2[d] = self.risks(uniques, int(d))
            total[:, self.chain[d]] += self.terms(r1[d], r2[d])
            if self.beyond(total):
                return Judged(False, uniques)
        if not self._others_met(node):
            return Judged(False, uniques)
        return Judged(True, uniques, r1, r2)

    def terms(self, r1: Floats, r2: Floats) -> Floats:
        """Return what a draw adds to the sum of each limit on tau1 and tau2."""
        return np.array([self._term(limit, r1, r2) for limit in self.taus])

    def _term(self, limit: Limit, r1: Floats, r2: Floats) -> float:
        name, most = self.bound(limit)
        if not limit.upper:
            return float((r1 if name == "tau1" else r2).sum())
        if name == "tau1":
            law = np.zeros(len(r1) + 1)
            first, last = fill_strata_law(r1, math.inf, law)
            return float(law[max(math.floor(most + SLACK) + 1, first) : last].sum())
        _, variance = find_variances(r1, r2, self.posterior.n_unseen)
        mean = float(r2.sum())
        return float(ndtr((mean - most) / math.sqrt(variance))) if variance > 0.0 else float(mean > most)

    def bound(self, limit: Limit) -> tuple[str, float]:
        """Return tau1 or tau2, and the largest value of it that meets a limit."""
        name, _, share = limit.measure.partition(".")
        return name, limit.threshold * (self.posterior.microdata.records if share else 1.0)

    def beyond(self, total: Floats) -> bool:
        """Whether the sums show that a limit is missed; total: (limits, chains)."""
        for x, limit in enumerate(self.taus):
            if limit.upper:
                if (total[x] > (1.0 - TAILS[1]) * self.in_chain + SLACK).any():
                    return True
            elif total[x].sum() > self.bound(limit)[1] * len(self.draws) + SLACK:
                return True
        return False

    def within(self, r1: Floats, r2: Floats) -> bool:
        """Whether these risks (draw, unique) meet the limits on tau1 and tau2."""
        total = np.zeros((len(self.taus), self.chains))
        for d in self.order if self.taus else ():
            total[:, self.chain[d]] += self.terms(r1[d], r2[d])
            if self.beyond(total):
                return False
        return True

    def _others_met(self, node: Node) -> bool:
        """Whether the limits on all records are met."""
        if not self.others:
            return True
        step = max(len(self.numbers) // ALL_DRAWS, 1)
        draws = _evenly(self.posterior, self.numbers[::step])
        block, _ = describe_cells_of(self.posterior, self.lattice.coarsening(node), self.others, draws)
        return all(limit.met({"all_records": block}) for limit in self.others)


def _group_of(groups: Any, levels: int) -> NDArray[np.int64]:
    place = np.zeros(levels, np.int64)
    for g, group in enumerate(groups or ()):
        place[list(group)] = g
    return place


def _evenly(posterior: Posterior, draws: Sequence[int]) -> list[int]:
    """Keep equally many draws of each chain, in their order."""
    chains, each = posterior.available
    own = [[x for x in draws if x // max(each, 1) == chain] for chain in range(chains)]
    size = min((len(found) for found in own), default=0)
    return [x for found in own for x in found[:size]]
