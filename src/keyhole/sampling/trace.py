"""What sampling gives back: kept draws of all chains."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.kernels.state import Floats


@dataclass(frozen=True)
class Progress:
    """How far a run is. One event after every draw of every chain."""

    chain: int
    chains: int
    draws: int
    wanted: int
    sweeps: int
    profiles: int
    tau1: float
    seconds: float

    def __str__(self) -> str:
        return (
            f"chain {self.chain + 1} of {self.chains}: {self.draws:,} of {self.wanted:,} draws, "
            f"{self.profiles} profiles, tau1 now {self.tau1:.1f}, {self.seconds:.0f} s"
        )


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
