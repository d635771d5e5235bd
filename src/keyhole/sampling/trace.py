"""What sampling gives back: kept draws of all chains."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.kernels.state import Floats


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

    draws, sweeps: of this chain so far; wanted: draws at the end of this round; profiles: now; tau1: mean of the
    second half of its draws; speed: its sweeps per second; round: counted from 1; gates_met of gates: when they
    were last checked, after the round before (0 of 0 in the first); seconds: since the start; round_left, left:
    seconds to the end of the round, by the speed so far, and to the time limit.
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
    round_left: float = 0.0
    left: float = 0.0

    def __str__(self) -> str:
        met = f"{self.gates_met} of {self.gates} conditions met, " if self.gates else ""
        tau1 = f"tau1 so far {self.tau1:.1f}, " if self.draws else f"{self.sweeps:,} sweeps, "
        return (
            f"chain {self.chain + 1} of {self.chains}: {self.draws:,} of {self.wanted:,} draws in round {self.round}, "
            f"{self.profiles} profiles, {tau1}{met}{self.seconds:.0f} s"
        )


Event = Progress | Notice
OnProgress = Callable[[Event], None]


@dataclass(frozen=True)
class Trace:
    """Draws after warm-up; all chains have the same number.

    starts: profiles at the start of each chain; sweeps: of each chain, warm-up included; warm_up: how many of
    them were discarded; spacing: sweeps from one draw to the next.
    quantities: by name, (chain, draw).
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
    start_sweeps: int = 0
