"""Rank-normalised R-hat, effective draws and Monte Carlo error (Vehtari, Gelman, Simpson, Carpenter and Bürkner 2021).

The numbers are ArviZ's (tests/unit/test_series.py), with a defined value where it has none; importing it would take
longer than many a run samples.
"""

import numpy as np

from keyhole.kernels.state import Floats

FEWEST_DRAWS = 4
"""With fewer draws of each chain nothing can be said."""


def rhat(draws: Floats) -> float:
    """Return the rank-normalised split R-hat, the larger of bulk and folded; 1 where nothing varies."""
    if np.ptp(draws) == 0.0:
        return 1.0
    if len(draws) == 1 or (np.ptp(draws, axis=1) == 0.0).all() or not _is_known(draws):
        return float("inf")
    split = _split(draws)
    values = []
    for part in (split, np.abs(split - np.median(split))):
        score = _normal_scores(part)
        length = score.shape[1]
        between, within = length * score.mean(axis=1).var(ddof=1), score.var(axis=1, ddof=1).mean()
        # Draws that hardly vary (a count that is nearly always the same) may lead to 0 / 0.
        values.append(np.sqrt((between / within + length - 1) / length) if within > 0.0 else np.inf)
    return float(max(values))


def effective_draws(draws: Floats, method: str) -> float:
    """Return the effective number of draws, `bulk` or `tail` (5 % and 95 % quantiles)."""
    if not _is_known(draws):
        return 0.0
    if method == "tail":
        limits = np.quantile(draws, (0.05, 0.95))
        parts = [_split(draws <= limit).astype(float) for limit in limits]
    else:
        parts = [_normal_scores(_split(draws))]
    return min(part.size / float(_correlation_times(part[:, :, None])[0]) for part in parts)


def monte_carlo_errors(draws: Floats) -> Floats:
    """Return the Monte Carlo standard errors of the means of many quantities; draws: (chain, draw, quantity)."""
    if draws.shape[1] < FEWEST_DRAWS:
        return np.full(draws.shape[2], np.inf)
    split = _split(draws)
    time = _correlation_times(split)
    errors: Floats = draws.std(axis=(0, 1), ddof=1) * np.sqrt(time / (split.shape[0] * split.shape[1]))
    errors[~np.isfinite(errors)] = np.inf
    errors[np.ptp(draws, axis=(0, 1)) == 0.0] = 0.0
    return errors


def monte_carlo_error(draws: Floats) -> float:
    """Return the Monte Carlo standard error of the mean; infinite if it cannot be determined."""
    return float(monte_carlo_errors(draws[:, :, None])[0])


def finite(value: float) -> float | None:
    """Return the number, or None if it is not finite."""
    return value if np.isfinite(value) else None


def _is_known(draws: Floats) -> bool:
    """Return whether there are enough draws, all of them finite."""
    return draws.shape[1] >= FEWEST_DRAWS and bool(np.isfinite(draws).all())


def _split(draws: Floats) -> Floats:
    """Return each chain's first and last half as chains of their own; of an odd number the middle draw is left out."""
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]])


def _normal_scores(draws: Floats) -> Floats:
    """Return the normal quantiles of the ranks of all draws; equal draws share the mean of their ranks."""
    from scipy.special import ndtri  # slow to import, and a certain answer needs none of it

    _, where, count = np.unique(draws, return_inverse=True, return_counts=True)
    rank = np.cumsum(count) - (count - 1) / 2.0
    scores: Floats = ndtri((rank - 0.375) / (draws.size + 0.25))[where.reshape(draws.shape)]
    return scores


def _correlation_times(split: Floats) -> Floats:
    """Return the integrated autocorrelation times of many quantities by Geyer's initial monotone sequence.

    split : (chain, draw, quantity), chains that have been split; 1 where nothing varies.
    """
    chains, half = split.shape[:2]
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
    time: Floats = -1.0 + 2.0 * np.where(counted, np.minimum.accumulate(pair), 0.0).sum(axis=0) + even
    time = np.maximum(time, 1.0 / np.log10(chains * half))
    time[np.ptp(split, axis=(0, 1)) == 0.0] = 1.0
    return time
