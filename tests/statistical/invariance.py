"""Invariance (Gandy and Scott 2020), two-sample version.

(parameters, seating, data) drawn from the prior is a draw from the posterior of its own data. A right
kernel moves it to another such draw, so that after it everything still follows the prior. Compare with
fresh prior draws.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from keyhole.kernels.state import Prior
from tests.conftest import seed_from_name
from tests.statistical.comparison import Verdict, compare
from tests.statistical.prior_pool import Pool, copy_pool, empty_pool, fill_pool, make_prior
from tests.statistical.quantities import NAMES, measure_pool
from tests.statistical.running import run_step


@dataclass(frozen=True)
class Setting:
    """A model, its prior and the size of its data."""

    name: str
    finite: bool
    adaptive: bool
    records: int = 4
    levels: tuple[int, ...] = (2, 3, 2)
    profiles: int = 3
    capacity: int = 64
    ordered: bool = False

    @property
    def prior(self) -> Prior:
        return make_prior(self.finite, self.adaptive, list(self.levels), self.ordered)

    @property
    def strengths(self) -> int:
        return len(self.prior.trees.strength_scale)


SETTINGS = {
    setting.name: setting
    for setting in (
        Setting("hdp paper", finite=False, adaptive=False),
        Setting("hdp adaptive", finite=False, adaptive=True),
        Setting("mixed paper", finite=True, adaptive=False),
        Setting("mixed adaptive", finite=True, adaptive=True),
        Setting("one profile", finite=True, adaptive=True, records=12, levels=(3,), profiles=1),
        Setting("hdp ordered", finite=False, adaptive=True, levels=(5, 2), ordered=True),
        Setting("mixed ordered", finite=True, adaptive=True, records=8, levels=(5, 2), profiles=2, ordered=True),
    )
}


def draw_pool(setting: Setting, replicates: int, seed: int) -> Pool:
    """Independent draws from the prior, with V filled."""
    rng = np.random.default_rng(seed)
    pool = empty_pool(replicates, setting.records, setting.levels, setting.capacity, setting.strengths)
    fill_pool(rng, setting.prior, setting.profiles, pool)
    run_step("eppf", rng, setting.prior, pool)
    return pool


@cache
def stored_pool(setting: Setting, replicates: int, name: str) -> Pool:
    """A pool that several tests share; each test copies it before it runs a kernel."""
    return draw_pool(setting, replicates, seed_from_name(f"{name} {setting.name} {replicates}"))


@cache
def stored_measures(setting: Setting, replicates: int, name: str) -> NDArray[np.float64]:
    """Quantities of prior draws that no kernel has touched."""
    return measure_pool(setting.prior, stored_pool(setting, replicates, name))


def check_invariance(
    rng: np.random.Generator,
    setting: Setting,
    advance: Callable[[np.random.Generator, Prior, Pool], None],
) -> Verdict:
    """Run a kernel on prior draws and compare with other prior draws.

    The first step's pools are shared between tests; later steps, rare, draw their own.
    """

    def draw(step: int, replicates: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if step == 0:
            moved = copy_pool(stored_pool(setting, replicates, "start"))
            fresh = stored_measures(setting, replicates, "reference")
        else:
            moved = draw_pool(setting, replicates, int(rng.integers(2**62)))
            other = draw_pool(setting, replicates, int(rng.integers(2**62)))
            fresh = measure_pool(setting.prior, other)
        advance(rng, setting.prior, moved)
        return measure_pool(setting.prior, moved), fresh

    return compare(draw, NAMES)
