"""Rank-normalised R-hat, effective draws and Monte Carlo error by ArviZ, with a defined value where ArviZ has none."""

from typing import Any

import numpy as np

from keyhole.kernels.state import Floats

FEWEST_DRAWS = 4
"""With fewer draws of each chain ArviZ gives no error. A certain answer has one, and need not wait for the import."""


def array_stats() -> Any:
    """Return ArviZ's functions on plain arrays, imported only when needed because the import is slow."""
    import arviz_stats.base as base

    return vars(base)["array_stats"]


def rhat(draws: Floats) -> float:
    """Return the rank-normalised split R-hat, the larger of bulk and folded; 1 where nothing varies."""
    if np.ptp(draws) == 0.0:
        return 1.0
    if (np.ptp(draws, axis=1) == 0.0).all():
        return float("inf")
    # Draws that hardly vary (a count that is nearly always the same) may lead to 0 / 0: R-hat is then infinite.
    with np.errstate(invalid="ignore", divide="ignore"):
        value = float(array_stats().rhat(draws, chain_axis=0, draw_axis=1, method="rank"))
    return value if np.isfinite(value) else float("inf")


def effective_draws(draws: Floats, method: str) -> float:
    """Return the effective number of draws, `bulk` or `tail` (5 % and 95 % quantiles)."""
    prob = (0.05, 0.95) if method == "tail" else None
    with np.errstate(invalid="ignore", divide="ignore"):
        value = float(array_stats().ess(draws, chain_axis=0, draw_axis=1, method=method, prob=prob))
    return value if np.isfinite(value) else 0.0


def finite(value: float) -> float | None:
    """Return the number, or None if it is not finite."""
    return value if np.isfinite(value) else None


def monte_carlo_errors(draws: Floats) -> Floats:
    """Return the Monte Carlo standard errors of the means of many quantities; draws: (chain, draw, quantity).

    The same as `monte_carlo_error` for each, by the initial monotone sequence of split chains, but for all at once,
    because every look checks hundreds of records.
    """
    half = draws.shape[1] // 2
    if half < 2:
        return np.full(draws.shape[2], np.inf)
    split = np.concatenate([draws[:, :half], draws[:, -half:]])
    chains = len(split)
    centred = split - split.mean(axis=1, keepdims=True)
    power = np.abs(np.fft.rfft(centred, 2 * half, axis=1)) ** 2
    covariance = np.fft.irfft(power, 2 * half, axis=1)[:, :half].mean(axis=0) / half
    within = covariance[0] * half / (half - 1.0)
    overall = covariance[0] + split.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        rho = 1.0 - (within - covariance) / overall
    rho[0] = 1.0
    pairs = max((half - 1) // 2, 1)
    pair = rho[0 : 2 * pairs : 2] + rho[1 : 2 * pairs : 2]
    # Pairs count up to the first that is not positive; of that one the even lag is counted once.
    ended = pair <= 0.0
    last = np.where(ended.any(axis=0), ended.argmax(axis=0), pairs - 1)
    counted = np.arange(pairs)[:, None] < last
    even = rho[2 * last, np.arange(len(last))]
    even = np.where(ended.any(axis=0), np.maximum(even, 0.0), even)
    time = -1.0 + 2.0 * np.where(counted, np.minimum.accumulate(pair), 0.0).sum(axis=0) + even
    time = np.maximum(time, 1.0 / np.log10(chains * half))
    errors: Floats = draws.std(axis=(0, 1), ddof=1) * np.sqrt(time / (chains * half))
    errors[~np.isfinite(errors)] = np.inf
    errors[np.ptp(draws, axis=(0, 1)) == 0.0] = 0.0
    return errors


def monte_carlo_error(draws: Floats) -> float:
    """Return the Monte Carlo standard error of the mean; infinite if it cannot be determined."""
    if draws.shape[1] < FEWEST_DRAWS:
        return float("inf")
    with np.errstate(invalid="ignore", divide="ignore"):
        value = float(array_stats().mcse(draws, chain_axis=0, draw_axis=1, method="mean"))
    return value if np.isfinite(value) else float("inf")
