"""One chain: its state, its two generators and the draws it has kept.

Sweeps and risks have a generator each, so that the path of a chain does not depend on how often risk is evaluated.
"""

import time
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from keyhole.errors import KeyholeError
from keyhole.kernels.cells import CellWork, make_cell_work
from keyhole.kernels.keep import Kept
from keyhole.kernels.state import Floats, State
from keyhole.kernels.sweep import run_sweeps
from keyhole.kernels.work import GROW, OK, Work
from keyhole.sampling.evaluate import evaluate_draw
from keyhole.sampling.problem import Problem
from keyhole.sampling.start import enlarge, start_state

RECORD_BYTES = 100_000_000
"""Memory for the risks of single records, for each chain; beyond it every second kept draw is let go."""

KEPT_DRAWS = 200
"""Draws of a chain whose profiles are kept, at most; beyond it every second one is let go."""


Item = TypeVar("Item")


@dataclass
class Thinned(Generic[Item]):
    """A list that holds every `stride`-th of the items offered; the stride doubles when it is full."""

    limit: int
    stride: int = 1
    offered: int = 0
    items: list[Item] = field(default_factory=list)

    def offer(self, item: Item) -> None:
        """Take the item if it is its turn."""
        if self.offered % self.stride == 0:
            self.items.append(item)
            if len(self.items) > self.limit:
                self.items = self.items[::2]
                self.stride *= 2
        self.offered += 1


Risks = tuple[NDArray[np.float32], NDArray[np.float32]]
"""r1 and r2 of the sample uniques in one draw."""

KeptDraw = tuple[Kept, Floats, Floats]
"""Weights and profiles of one draw, the shape and rate of the records' concentrations, and the shared one."""


@dataclass
class Chain:
    """Where a chain stands."""

    number: int
    start: int
    rng: np.random.Generator
    risk_rng: np.random.Generator
    state: State
    work: Work
    cell_work: CellWork | None
    risks: Thinned[Risks]
    kept: Thinned[KeptDraw]
    quantities: list[dict[str, float]] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    sampling_seconds: float = 0.0
    risk_seconds: float = 0.0

    @property
    def draws(self) -> int:
        """Number of draws so far."""
        return len(self.quantities)


def start_chain(number: int, start: int, seed: np.random.SeedSequence, problem: Problem) -> Chain:
    """Put a chain at its start."""
    first, second = (np.random.default_rng(child) for child in seed.spawn(2))
    state, work = start_state(first, problem.records, problem.prior, start)
    uniques = max(len(problem.cell_level), 1)
    return Chain(
        number=number,
        start=start,
        rng=first,
        risk_rng=second,
        state=state,
        work=work,
        cell_work=None,
        risks=Thinned(max(100, RECORD_BYTES // (8 * uniques))),
        kept=Thinned(KEPT_DRAWS),
    )


def advance(chain: Chain, problem: Problem) -> None:
    """Run the sweeps up to the next draw, and keep it."""
    clock = time.perf_counter()
    left = problem.spacing
    while left:
        left -= run_sweeps(chain.rng, problem.records, problem.prior, chain.state, chain.work, left)
        if chain.work.status[0] == GROW:
            chain.state, chain.work = enlarge(problem.records, problem.prior, chain.state)
        elif chain.work.status[0] != OK:
            raise KeyholeError("a chain ran out of room for profiles: please report this as a bug.")
    middle = time.perf_counter()
    draw = evaluate_draw(chain.risk_rng, problem, chain.state, _cell_work(chain, problem))
    chain.quantities.append(draw.quantities)
    chain.errors.append(draw.error)
    chain.risks.offer((draw.r1, draw.r2))
    chain.kept.offer((draw.kept, chain.state.record_concentration.copy(), chain.state.shared_concentration.copy()))
    chain.sampling_seconds += middle - clock
    chain.risk_seconds += time.perf_counter() - middle


def _cell_work(chain: Chain, problem: Problem) -> CellWork | None:
    """Return scratch with room to spare, made anew only when the chain outgrows it."""
    if problem.estimator != "exact":
        return None
    needed = int(chain.state.profile_total[0]) + 100
    if chain.cell_work is None or chain.cell_work.factor.shape[1] < needed:
        chain.cell_work = make_cell_work(problem.cell_level.shape[1], 2 * needed)
    return chain.cell_work


def stack_risks(chain: Chain, draws: range) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return r1 and r2 (draw, unique) of the kept draws whose number is in `draws`."""
    chosen = [item for x, item in enumerate(chain.risks.items) if x * chain.risks.stride in draws]
    return np.stack([item[0] for item in chosen]), np.stack([item[1] for item in chosen])


def stack_kept(chain: Chain, draws: range) -> list[KeptDraw]:
    """Return the kept profiles whose draw number is in `draws`."""
    return [item for x, item in enumerate(chain.kept.items) if x * chain.kept.stride in draws]
