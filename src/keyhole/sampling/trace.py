"""What sampling gives back: kept draws of all chains."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.kernels.state import Floats
from keyhole.sampling.laws import Law, count_laws, law_of_matches, law_of_uniques


@dataclass(frozen=True)
class Notice:
    """Something that a person should know while a run goes on."""

    message: str
    warning: bool = False

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class Progress:
    """How far a run is. One event after every block of every chain.

    draws, sweeps: of this chain so far; wanted: draws at the next look at the gates; profiles: now; tau1: mean of the
    second half of its draws; speed: its sweeps per second; round: looks so far and the next; gates_met of gates: at the
    last look (0 of 0 before the first); seconds: since the start; verdict_left: seconds that a verdict is likely to
    need, by the speed so far and by what was missing at the last look; left: seconds to the time limit.
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

    def __str__(self) -> str:
        met = f"{self.gates_met} of {self.gates} conditions met, " if self.gates else ""
        tau1 = f"tau1 so far {self.tau1:.1f}, " if self.draws else f"{self.sweeps:,} sweeps, "
        # Stuck chains have no end in sight: nobody is told of infinite seconds.
        more = "more than" if self.verdict_left > self.left else "about"
        return (
            f"chain {self.chain + 1} of {self.chains}: {self.draws:,} draws, {self.profiles} profiles, "
            f"{tau1}{met}{self.seconds:.0f} s, {more} {min(self.verdict_left, self.left):.0f} s to a verdict"
        )


Event = Progress | Notice
OnProgress = Callable[[Event], None]


@dataclass(frozen=True)
class Trace:
    """Draws after warm-up; all chains have the same number.

    starts: profiles at the start of each chain; sweeps: of each chain, warm-up included; warm_up: how many of
    them were discarded; spacing: sweeps from one draw to the next.
    quantities: by name, (chain, draw); discarded: the same of the draws before them.
    people: M, those outside the sample.
    r1, r2: risks of the sample uniques, float32 (chain, draw, unique), every `record_stride`-th draw.
    kept: weights and profiles of some draws, padded with zeros, by name, (chain, draw, ...).
    estimator: how cell probabilities were found; estimator_error: their mean relative Monte Carlo error, if any.
    stopped: why sampling ended, "gates", "time", "sweeps".
    start_sweeps: made before all others, without rules and under the prior `adaptive`.
    """

    starts: tuple[int, ...]
    sweeps: int
    warm_up: int
    spacing: int
    quantities: dict[str, Floats]
    r1: NDArray[np.float32]
    r2: NDArray[np.float32]
    record_stride: int
    kept: dict[str, NDArray[Any]]
    estimator: str
    estimator_error: float | None
    stopped: str
    seconds: dict[str, float]
    target_ess: int
    people: int
    discarded: dict[str, Floats] = field(default_factory=dict)
    start_sweeps: int = 0

    @cached_property
    def laws(self) -> dict[str, Law]:
        """The predictive laws of tau1 and tau2, from draws evenly spread over each chain."""
        drawn = self.quantities
        chains, held, uniques = self.r1.shape
        most = count_laws(chains, uniques, float(drawn["tau1_variance"].mean()))
        place = np.unique(np.linspace(0, held - 1, min(most, held)).astype(int))
        # Risks are held of the draws whose number is a multiple of the stride, counted from the first draw of all.
        skipped = -(self.warm_up // self.spacing) % self.record_stride
        number = skipped + place * self.record_stride
        variance = {name: drawn[f"{name}_variance"][:, number] for name in ("tau1", "tau2")}
        sure = self.estimator == "population"
        return {
            "tau1": law_of_uniques(self.r1[:, place], self.r2[:, place], self.people, variance["tau1"], sure),
            "tau2": law_of_matches(drawn["tau2_expected"][:, number], variance["tau2"], uniques),
        }
