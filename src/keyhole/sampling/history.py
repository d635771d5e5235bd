"""What a run knows of one chain: where it stands and the draws it has made."""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from keyhole.sampling.chain import Block, KeptDraw, Position, Risks
from keyhole.sampling.problem import Problem

RECORD_BYTES = 100_000_000
"""Memory for the risks of single records, for each chain; beyond it every second kept draw is let go."""

KEPT_DRAWS = 200
"""Draws of a chain whose profiles are kept, at most; beyond it every second one is let go."""

Item = TypeVar("Item")


@dataclass
class Thinned(Generic[Item]):
    """Holds the items of the draws 0, stride, 2 stride, ...; the stride doubles when there are too many."""

    limit: int
    stride: int = 1
    items: list[Item] = field(default_factory=list)

    def offer(self, number: int, item: Item) -> None:
        """Take the item of this draw if it is its turn."""
        if number % self.stride == 0:
            self.items.append(item)
            if len(self.items) > self.limit:
                self.items = self.items[::2]
                self.stride *= 2

    def choose(self, draws: range, stride: int = 1) -> list[Item]:
        """Return the items of the draws in `draws` whose number is a multiple of `stride`."""
        return [item for x, item in enumerate(self.items) if x * self.stride in draws and x * self.stride % stride == 0]


def find_stride(draws: int, limit: int) -> int:
    """Return the stride after this many draws of which at most `limit` are held."""
    stride = 1
    while -(-draws // stride) > limit:
        stride *= 2
    return stride


def risk_limit(uniques: int) -> int:
    """Return of how many draws the risks of this many sample uniques are held."""
    return max(100, RECORD_BYTES // (8 * max(uniques, 1)))


@dataclass
class History:
    """A chain as the run sees it, between blocks."""

    number: int
    start: int
    position: Position
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

    @property
    def strides(self) -> tuple[int, int]:
        """Of which draws a block must bring the risks, and the profiles."""
        return self.risks.stride, self.kept.stride

    def sweeps(self, problem: Problem) -> int:
        """Number of sweeps so far, those of the start included."""
        return problem.start_sweeps + self.draws * problem.spacing + self.position.since


def start_history(number: int, start: int, position: Position, uniques: int) -> History:
    """Return a chain without draws."""
    return History(number, start, position, Thinned(risk_limit(uniques)), Thinned(KEPT_DRAWS))


def add_block(chain: History, block: Block) -> None:
    """Take over the position and the draws of a block that was run with the chain's strides."""
    numbers = range(chain.draws, chain.draws + len(block.quantities))
    risk_stride, kept_stride = chain.strides
    for number, risks in zip((x for x in numbers if x % risk_stride == 0), block.risks, strict=True):
        chain.risks.offer(number, risks)
    for number, kept in zip((x for x in numbers if x % kept_stride == 0), block.kept, strict=True):
        chain.kept.offer(number, kept)
    chain.quantities += block.quantities
    chain.errors += block.errors
    chain.sampling_seconds += block.seconds[0]
    chain.risk_seconds += block.seconds[1]
    chain.position = block.position


def stack_risks(chains: list[History], draws: range, stride: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return r1 and r2 (chain, draw, unique) of the held draws in `draws` whose number is a multiple of `stride`."""
    chosen = [chain.risks.choose(draws, stride) for chain in chains]
    shape = (len(chains), len(chosen[0]), len(chosen[0][0][0]))
    stacked = np.empty(shape, np.float32), np.empty(shape, np.float32)
    for c, items in enumerate(chosen):
        for x, item in enumerate(items):
            stacked[0][c, x], stacked[1][c, x] = item
    return stacked
