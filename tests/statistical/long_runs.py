"""What the long suite needs: a rotating seed, the Geweke chain, ranks and their simultaneous band."""

import os
import time
from functools import cache

import numba
import numpy as np
from numpy.typing import NDArray

from keyhole.kernels.sweep import run_sweep
from tests.statistical.invariance import Setting, draw_pool
from tests.statistical.prior_pool import empty_pool, fill_answers, fill_pool, one_records, one_state
from tests.statistical.quantities import growth_strings, measure, measure_pool
from tests.statistical.running import make_pool_work, run_step

SCALE = float(os.environ.get("KEYHOLE_LONG_SCALE", "1"))
"""Share of the full size: 0.01 tries the suite in a minute."""


def long_seed() -> int:
    """A new seed in every run; KEYHOLE_SEED repeats one. Tests put it in their failure message."""
    return int(os.environ.get("KEYHOLE_SEED", time.time_ns() % 2**40))


@numba.njit
def run_geweke(rng, prior, pool, work, sweeps, thin, partitions, cell, out):
    """Alternate a sweep and new data given the labels and profiles; measure every `thin` sweeps."""
    state = one_state(pool.state, 0)
    level = pool.level[0]
    for s in range(sweeps):
        records = one_records(pool, 0)
        run_sweep(rng, records, prior, state, work)
        state.level_count[:] = 0
        fill_answers(rng, pool.level_start, state, level)
        if s % thin == 0:
            measure(prior, pool.level_start, state, level, partitions, cell, out[s // thin])


def geweke_sample(setting: Setting, sweeps: int, thin: int, seed: int) -> NDArray[np.float64]:
    """Quantities along one chain of the successive-conditional simulator, started from the prior."""
    rng = np.random.default_rng(seed)
    pool = empty_pool(1, setting.records, setting.levels, 160, setting.strengths)
    fill_pool(rng, setting.prior, setting.profiles, pool)
    run_step("eppf", rng, setting.prior, pool)
    work = make_pool_work(pool, setting.prior)
    partitions, cell = growth_strings(len(setting.levels)), pool.level_start[:-1]
    out = np.empty((sweeps // thin, measure_pool(setting.prior, pool).shape[1]))
    run_geweke(rng, setting.prior, pool, work, sweeps, thin, partitions, cell, out)
    assert work.status[0] == 0
    return out


def prior_sample(setting: Setting, draws: int, seed: int) -> NDArray[np.float64]:
    """Quantities of independent prior draws, in batches."""
    return moved_sample(setting, draws, 0, seed)


def moved_sample(setting: Setting, draws: int, sweeps: int, seed: int) -> NDArray[np.float64]:
    """Quantities of prior draws after some sweeps, in batches."""
    rng = np.random.default_rng(seed)
    parts = []
    for first in range(0, draws, 20_000):
        pool = draw_pool(setting, min(20_000, draws - first), int(rng.integers(2**62)))
        run_step("sweep", rng, setting.prior, pool, sweeps)
        parts.append(measure_pool(setting.prior, pool))
    return np.concatenate(parts)


def batch_error(sample: NDArray[np.float64], batches: int = 200) -> NDArray[np.float64]:
    """Standard error of the mean of a chain, by batch means."""
    size = len(sample) // batches
    means = sample[: size * batches].reshape(batches, size, -1).mean(axis=1)
    return np.asarray(means.std(axis=0, ddof=1) / np.sqrt(batches))


def moment_scores(chain: NDArray[np.float64], fresh: NDArray[np.float64]) -> NDArray[np.float64]:
    """z of the first two moments of each quantity: chain against independent draws; constants give 0."""
    scores = []
    for power in (1, 2):
        # Centred and scaled, so that the second moment is not the first one again.
        centre, scale = fresh.mean(axis=0), fresh.std(axis=0)
        scale[scale == 0.0] = 1.0
        x, y = ((chain - centre) / scale) ** power, ((fresh - centre) / scale) ** power
        error = np.sqrt(batch_error(x) ** 2 + y.var(axis=0) / len(y))
        error[error == 0.0] = 1.0
        scores.append((x.mean(axis=0) - y.mean(axis=0)) / error)
    return np.array(scores)


@cache
def rank_band(simulations: int, ranks: int, level: float, rounds: int = 20_000) -> NDArray[np.float64]:
    """Limits of the ECDF of uniform ranks that hold simultaneously with probability `level`, (2, ranks).

    Every simulated set of ranks gets the smallest pointwise tail probability that it reaches; the band cuts
    the `1 - level` most extreme sets (Säilynoja, Bürkner and Vehtari 2022, by simulation).
    """
    from scipy.stats import binom

    rng = np.random.default_rng(20220101)
    share = np.arange(1, ranks + 1) / ranks
    worst = np.empty(rounds)
    for r in range(rounds):
        counts = np.cumsum(np.bincount(rng.integers(0, ranks, simulations), minlength=ranks))[:-1]
        low = binom.cdf(counts, simulations, share[:-1])
        high = binom.sf(counts - 1, simulations, share[:-1])
        worst[r] = min(low.min(), high.min())
    tail = np.quantile(worst, 1.0 - level)
    return np.array([binom.ppf(tail, simulations, share), binom.isf(tail, simulations, share)])


def outside_band(ranks: NDArray[np.int64], total: int, level: float) -> bool:
    """Whether the ECDF of ranks 0 .. total - 1 leaves the band."""
    low, high = rank_band(len(ranks), total, level)
    counts = np.cumsum(np.bincount(ranks, minlength=total))
    return bool(((counts < low) | (counts > high)).any())
