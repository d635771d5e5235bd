"""The draws of all chains, while they are made and as they are returned, and the events that report progress."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from keyhole.diagnostics.laws import Law, count_laws, law_of_matches, law_of_uniques
from keyhole.kernels.freeze import Draw
from keyhole.kernels.state import Floats
from keyhole.sampling.chain import Block, ChainState, Risks
from keyhole.sampling.problem import Problem


@dataclass(frozen=True)
class Notice:
    """A message to the user during a run."""

    message: str
    warning: bool = False

    def __str__(self) -> str:
        return self.message


class Forecast(Notice):
    """What a run is likely to need, said before it."""


@dataclass(frozen=True)
class Progress:
    """Progress of a run: one event after every block of every chain.

    draws, sweeps: of this chain so far; wanted: draws at the next look at the gates; profiles: currently in use; tau1:
    mean of the second half of its draws; speed: its sweeps per second; round: number of the next look; gates_met of
    gates: at the last look (0 of 0 before the first); seconds: since the start; verdict_left: estimated seconds to a
    verdict, from the speed so far and the gates of the last look; left: seconds to the time limit; missing: the gates
    that were not met at the last look.
    """

    chain: int
    chains: int
    draws: int
    wanted: int
    sweeps: int
    profiles: int
    tau1: float
    seconds: float
    speed: float = 0.0
    round: int = 1
    gates_met: int = 0
    gates: int = 0
    verdict_left: float = 0.0
    left: float = 0.0
    missing: tuple[str, ...] = ()

    def __str__(self) -> str:
        met = f"{self.gates_met} of {self.gates} conditions met, " if self.gates else ""
        tau1 = f"tau1 so far {self.tau1:.1f}, " if self.draws else f"{self.sweeps:,} sweeps, "
        # For stuck chains the estimate is infinite: the time that is left is shown instead.
        more = "more than" if self.verdict_left > self.left else "about"
        return (
            f"chain {self.chain + 1} of {self.chains}: {self.draws:,} draws, {self.profiles} profiles, "
            f"{tau1}{met}{self.seconds:.0f} s, {more} {min(self.verdict_left, self.left):.0f} s to a verdict"
        )


Draws = tuple[tuple[Draw, ...], ...]
"""Draws by chain; all chains have the same number."""

Event = Progress | Notice
OnProgress = Callable[[Event], None]


def show_nothing(event: Event) -> None:
    """Default progress callback; does nothing."""


@dataclass(frozen=True)
class Trace:
    """Draws after burn-in; all chains have the same number.

    starts: profiles at the start of each chain; sweeps: of each chain, including burn-in; burn_in: number of discarded
    sweeps; thin: sweeps from one draw to the next.
    quantities: by name, (chain, draw); discarded: the same of the discarded draws.
    n_unseen: M, the number of unseen people; None with strata.
    r1, r2: risks of the sample uniques, float32 (chain, draw, unique), every `record_stride`-th draw.
    draws: some draws of each chain, stored for later evaluation.
    estimator: how cell probabilities were computed; estimator_error: their mean relative Monte Carlo error, if any.
    stopped: why sampling ended, "gates", "time", "sweeps".
    start_sweeps: sweeps of `classes` made first.
    """

    starts: tuple[int, ...]
    sweeps: int
    burn_in: int
    thin: int
    quantities: dict[str, Floats]
    r1: NDArray[np.float32]
    r2: NDArray[np.float32]
    record_stride: int
    draws: Draws
    estimator: str
    estimator_error: float | None
    stopped: str
    seconds: dict[str, float]
    target_ess: int
    n_unseen: int | None
    discarded: dict[str, Floats] = field(default_factory=dict)
    start_sweeps: int = 0

    @cached_property
    def laws(self) -> dict[str, Law]:
        """The predictive laws of tau1 and tau2, from draws evenly spread over each chain."""
        drawn = self.quantities
        chains, held, uniques = self.r1.shape
        most = count_laws(chains, uniques, float(drawn["tau1_variance"].mean()))
        place = np.unique(np.linspace(0, held - 1, min(most, held)).astype(int))
        # Risks are stored for draws whose number, burn-in included, is a multiple of the stride.
        skipped = -(self.burn_in // self.thin) % self.record_stride
        number = skipped + place * self.record_stride
        variance = {name: drawn[f"{name}_variance"][:, number] for name in ("tau1", "tau2")}
        sure = self.estimator == "population"
        return {
            "tau1": law_of_uniques(self.r1[:, place], self.r2[:, place], self.n_unseen, variance["tau1"], sure),
            "tau2": law_of_matches(drawn["tau2_expected"][:, number], variance["tau2"], uniques),
        }


RECORD_BYTES = 100_000_000
"""Memory for the risks of single records, for each chain; beyond it every second stored draw is dropped."""

KEPT_DRAWS = 200
"""Most draws of a chain whose profiles are stored; beyond it every second one is dropped."""

Item = TypeVar("Item")


@dataclass
class Thinned(Generic[Item]):
    """Items of the draws 0, stride, 2 stride, ...; the stride doubles when there are more than `limit`."""

    limit: int
    stride: int = 1
    items: list[Item] = field(default_factory=list)

    def offer(self, number: int, item: Item) -> None:
        """Store the item of this draw if its number is a multiple of the stride."""
        if number % self.stride == 0:
            self.items.append(item)
            if len(self.items) > self.limit:
                self.items = self.items[::2]
                self.stride *= 2

    def choose(self, draws: range, stride: int = 1) -> list[Item]:
        """Return the items of the draws in `draws` whose number is a multiple of `stride`."""
        return [item for x, item in enumerate(self.items) if x * self.stride in draws and x * self.stride % stride == 0]


def find_stride(draws: int, limit: int) -> int:
    """Return the stride after this many draws of which at most `limit` are stored."""
    stride = 1
    while -(-draws // stride) > limit:
        stride *= 2
    return stride


def risk_limit(uniques: int) -> int:
    """Return of how many draws the risks are stored, with this many sample uniques."""
    return max(100, RECORD_BYTES // (8 * max(uniques, 1)))


@dataclass
class ChainHistory:
    """A chain between blocks: its state and its draws so far."""

    number: int
    start: int
    position: ChainState
    risks: Thinned[Risks]
    kept: Thinned[Draw]
    quantities: list[dict[str, float]] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    sampling_seconds: float = 0.0
    risk_seconds: float = 0.0

    @property
    def draws(self) -> int:
        return len(self.quantities)

    @property
    def strides(self) -> tuple[int, int]:
        """The strides of the draws of which a block must return the risks, and the profiles."""
        return self.risks.stride, self.kept.stride

    def sweeps(self, problem: Problem) -> int:
        """Number of sweeps so far."""
        return self.draws * problem.thin + self.position.since


def start_history(number: int, start: int, position: ChainState, uniques: int) -> ChainHistory:
    """Return a chain without draws."""
    return ChainHistory(number, start, position, Thinned(risk_limit(uniques)), Thinned(KEPT_DRAWS))


def add_block(chain: ChainHistory, block: Block) -> None:
    """Add the draws of a block that was run with the chain's strides, and take its state."""
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


def stack_risks(
    chains: list[ChainHistory], draws: range, stride: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return r1 and r2 (chain, draw, unique) of the stored draws in `draws` whose number is a multiple of `stride`."""
    chosen = [chain.risks.choose(draws, stride) for chain in chains]
    r1, r2 = (np.array([[risks[x] for risks in items] for items in chosen], np.float32) for x in (0, 1))
    return r1, r2


def choose_draws(chains: list[ChainHistory], numbers: range, stride: int) -> Draws:
    """Return the stored draws of these numbers that are a multiple of `stride`, equally many of each chain."""
    chosen = [chain.kept.choose(numbers, stride) for chain in chains]
    size = min(len(items) for items in chosen)
    return tuple(tuple(items[:size]) for items in chosen)


def pad_draws(draws: Draws) -> dict[str, NDArray[Any]]:
    """Return draws as arrays (chain, draw, ...), padded with zeros to the largest number of profiles."""
    most = max(len(draw.weight) for chain in draws for draw in chain)
    shape = len(draws), len(draws[0])
    weight = np.zeros((*shape, most))
    kind = np.result_type(*(draw.level_profile for chain in draws for draw in chain))
    level_profile = np.zeros((*shape, len(draws[0][0].level_profile), most), kind)
    for c, chain in enumerate(draws):
        for x, draw in enumerate(chain):
            weight[c, x, : len(draw.weight)] = draw.weight
            level_profile[c, x, :, : len(draw.weight)] = draw.level_profile
    return {
        "weight": weight,
        "level_profile": level_profile,
        "record_concentration": np.array([[draw.record_concentration for draw in chain] for chain in draws]),
        "shared_concentration": np.array([[draw.shared_concentration for draw in chain] for chain in draws]),
    }
