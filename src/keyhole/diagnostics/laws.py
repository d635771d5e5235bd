"""Predictive distributions ("laws") of tau1 and tau2: computed given each draw (kernels/risk.py), averaged over draws.

Intervals, medians and the probability of exceeding a limit are read from the average. Nothing is simulated, so the
Monte Carlo error of an end q is that of the parameters alone: the error of the mean of F(q | draw), divided by the
density at q.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from keyhole.diagnostics.series import monte_carlo_error
from keyhole.kernels.records import fill_count_law
from keyhole.kernels.risk import fill_law
from keyhole.kernels.state import Floats, Integers
from keyhole.kernels.strata import fill_strata_law
from keyhole.readable import Readable

LEVEL = 0.95
TAILS = ((1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0)

Interval = tuple[float, float]
Errors = tuple[float, float]

MOST_LAWS, FEWEST_LAWS = 250, 40
"""Draws of a chain whose law is computed: 220 independent ones determine an end to a tenth of a predictive sd."""

BUDGET = 4e9
"""Steps of convolution that all laws of a run may take."""

MOST_STEPS = 1e7
"""Steps of convolution that the law of a count of records may take in one draw."""

POINTS = 800
"""Values of tau2 at which its law is computed."""

REACH = 6.0
"""Standard deviations on either side that these values cover."""

MOST_BINS = 36
NEGLIGIBLE = 1e-3
"""Probability in either tail that goes into the outermost bin of a picture."""

SLOPE = 0.25
"""Predictive standard deviations on either side of an end from which the density there is computed."""


@dataclass(frozen=True)
class Estimate(Readable):
    """A mean and its 95 % interval."""

    mean: float
    interval: Interval


@dataclass(frozen=True)
class Bins(Readable):
    """Shares of a distribution between edges; there is one more edge than shares."""

    edges: tuple[float, ...]
    shares: tuple[float, ...]


@dataclass(frozen=True)
class Law:
    """P(tau <= point | draw), float64 (chain, draw, point); expected, variance: of tau given the draw (chain, draw).

    most: upper bound of tau; whole: tau is a count, and its quantiles are counts.
    """

    point: Floats
    below: Floats
    expected: Floats
    variance: Floats
    most: int
    whole: bool
    _average: dict[tuple[int, ...], Floats] = field(default_factory=dict, compare=False, repr=False)

    def average(self, chains: tuple[int, ...] = ()) -> Floats:
        """Return the distribution function of tau, averaged over the draws of these chains, or of all."""
        if chains not in self._average:
            self._average[chains] = (self.below[list(chains)] if chains else self.below).mean(axis=(0, 1))
        return self._average[chains]

    @property
    def sd(self) -> float:
        return math.sqrt(float(self.expected.var() + self.variance.mean()))

    @property
    def median(self) -> float:
        return self.quantile(0.5)

    def quantile(self, share: float, chains: tuple[int, ...] = ()) -> float:
        return find_quantile(self.point, self.average(chains), share, self.whole)

    def interval(self, chains: tuple[int, ...] = ()) -> Interval:
        """Return the equal-tailed interval over the draws of these chains, or of all."""
        return self.quantile(TAILS[0], chains), self.quantile(TAILS[1], chains)

    def envelope(self) -> Interval:
        """Return the smallest lower and the largest upper limit of any chain."""
        ends = [self.interval((chain,)) for chain in range(len(self.below))]
        return min(low for low, _ in ends), max(high for _, high in ends)

    def estimate(self, chains: tuple[int, ...] = ()) -> Estimate:
        """Return mean and interval over the draws of these chains, or of all."""
        expected = self.expected[list(chains)] if chains else self.expected
        return Estimate(float(expected.mean()), self.interval(chains))

    def weighted(self, weights: Floats) -> Estimate:
        average = np.tensordot(weights, self.below.mean(axis=1), axes=1)
        low, high = (find_quantile(self.point, average, tail, self.whole) for tail in TAILS)
        return Estimate(float(weights @ self.expected.mean(axis=1)), (low, high))

    def probability_above(self, limit: float, chains: tuple[int, ...] = ()) -> float:
        """Return P(tau > limit) over the draws of these chains, or of all."""
        place = int(np.searchsorted(self.point, limit, side="right")) - 1
        if place < 0:
            return 1.0
        average = self.average(chains)
        return float(1.0 - (average[place] if self.whole else np.interp(limit, self.point, average)))

    def bins(self) -> Bins:
        """Return the law in bins of equal width; for counts the width is whole and bins are centred on counts."""
        low, high = self.quantile(NEGLIGIBLE), self.quantile(1.0 - NEGLIGIBLE)
        if self.whole:
            width = math.ceil((high - low + 1.0) / MOST_BINS)
            edges = low - 0.5 + width * np.arange(math.ceil((high - low + 1.0) / width) + 1)
        elif high > low:
            edges = np.linspace(low, high, MOST_BINS + 1)
        else:
            edges = np.array([low - 0.5, low + 0.5])
        if self.whole:
            # Edges lie halfway between counts, so the share up to an edge is known exactly.
            reached = np.append(0.0, self.average())[np.searchsorted(self.point, edges)]
        else:
            reached = np.interp(edges, self.point, self.average())
        reached[0], reached[-1] = 0.0, 1.0
        return Bins(_rounded(edges, 4), _rounded(np.diff(reached), 5))

    def end_errors(self) -> Errors:
        """Return the Monte Carlo errors of the two ends of the interval."""
        low, high = (self._error_of(self.quantile(tail)) for tail in TAILS)
        return low, high

    def _error_of(self, end: float) -> float:
        if self.sd == 0.0:
            return 0.0
        average = self.average()
        place = min(int(np.searchsorted(self.point, end)), len(self.point) - 1)
        step = max(SLOPE * self.sd, 1.0 if self.whole else 0.0)
        first, last = np.clip(np.searchsorted(self.point, [end - step, end + step]), 0, len(self.point) - 1)
        rise = average[last] - (average[first] if first > 0 else 0.0)
        density = rise / max(self.point[last] - self.point[first], step)
        error = monte_carlo_error(self.below[:, :, place])
        return 0.0 if error == 0.0 else float(error / density) if density > 0.0 else float("inf")


def find_quantile(point: Floats, below: Floats, share: float, whole: bool) -> float:
    """Return the value at which a distribution function reaches a probability."""
    place = min(int(np.searchsorted(below, share * (1.0 - 1e-12))), len(point) - 1)
    if whole or place == 0:
        return float(point[place])
    return float(np.interp(share, below[place - 1 : place + 1], point[place - 1 : place + 1]))


def count_laws(chains: int, uniques: int, variance: float) -> int:
    """Return of how many draws of each chain the law is computed: by sizes alone, never by the clock."""
    steps = uniques * (20.0 * math.sqrt(variance) + 50.0)
    return int(np.clip(BUDGET / max(chains * steps, 1.0), FEWEST_LAWS, MOST_LAWS))


def law_of_uniques(
    r1: NDArray[np.floating], r2: NDArray[np.floating], people: int | None, variance: Floats, sure: bool = False
) -> Law:
    """Return the law of tau1 from the risks (chain, draw, unique) and its variance given the draw (chain, draw).

    people: M, or None with strata; sure: the risks are those of one simulated population.
    """
    chains, draws, uniques = r1.shape
    buffer = np.zeros(uniques + 1)
    found: list[tuple[int, Floats]] = []
    for chain in range(chains):
        for draw in range(draws):
            a, b = r1[chain, draw].astype(np.float64), r2[chain, draw].astype(np.float64)
            if people is not None:
                first, last = fill_law(a, b, max(people, 1), buffer)
            else:
                first, last = fill_strata_law(a, float(variance[chain, draw]), buffer)
                # Records whose cells overlap are alone together, which makes the variance larger.
                further = float(variance[chain, draw]) - float((a * (1.0 - a)).sum())
                if further > NEGLIGIBLE * max(float(variance[chain, draw]), 1.0):
                    spread_out(buffer, further)
                    first, last = 0, uniques + 1
            found.append((first, np.cumsum(buffer[first:last])))
    expected = r1.sum(axis=2, dtype=np.float64)
    return stack_laws(found, expected, np.zeros_like(expected) if sure else variance, uniques)


def stack_laws(found: Sequence[tuple[int, Floats]], expected: Floats, variance: Floats, most: int) -> Law:
    """Return the law of a count from its first value and distribution function in each draw, chain by chain."""
    low, high = min(first for first, _ in found), max(first + len(law) for first, law in found)
    below = np.ones((len(found), high - low))
    for row, (first, law) in zip(below, found, strict=True):
        row[: first - low] = 0.0
        row[first - low : first - low + len(law)] = law
    # The last cumulative sum may differ from 1 by rounding.
    below[:, -1] = 1.0
    point = np.arange(low, high, dtype=np.float64)
    return Law(point, below.reshape(*expected.shape, -1), expected, variance, most, whole=True)


def find_count_law(size: Integers, yes: Floats, variance: float) -> tuple[int, Floats]:
    """Return first value and distribution function of a sum of counts, each `size` with probability `yes`, else 0.

    Beyond MOST_STEPS of convolution it is taken as normal, which sums of so many counts are.
    """
    from scipy.special import ndtr

    mean, whole = float(size @ yes), float((size * size) @ (yes * (1.0 - yes)))
    if len(size) * (20.0 * math.sqrt(whole) + 50.0) <= MOST_STEPS:
        buffer = np.zeros(int(size.sum()) + 1)
        first, last = fill_count_law(size, yes, variance, buffer)
        return int(first), np.cumsum(buffer[first:last])
    sd = math.sqrt(variance)
    first, last = max(math.floor(mean - 8.0 * sd), 0), min(math.ceil(mean + 8.0 * sd), int(size.sum()))
    return first, ndtr((np.arange(first, last + 1) + 0.5 - mean) / sd)


def spread_out(law: Floats, variance: float) -> None:
    """Add to the variance of a distribution of counts, in place: steps of one to either side, which keep its mean."""
    for _ in range(steps := math.ceil(2.0 * variance)):
        half = 0.5 * variance / steps
        moved = law * half
        law -= 2.0 * moved
        law[1:] += moved[:-1]
        law[:-1] += moved[1:]
        law[0] += moved[0]
        law[-1] += moved[-1]


def thin_law(law: Law, records: int, drawn: int) -> Law:
    """Return the law of tau1 among `drawn` of the records, taken at random: hypergeometric given tau1."""
    from scipy.stats import hypergeom

    alone = law.point.astype(np.int64)
    point = np.arange(0, min(int(alone[-1]), drawn) + 1)
    reached = hypergeom.cdf(point[None, :], records, alone[:, None], drawn)
    below = np.diff(law.below, axis=2, prepend=0.0) @ reached
    below[:, :, -1] = 1.0
    share = drawn / records
    within = share * (records - drawn) / max(records - 1, 1)
    square = law.variance + law.expected**2
    variance = share**2 * law.variance + np.maximum(within * (law.expected - square / records), 0.0)
    return Law(point.astype(np.float64), below, share * law.expected, variance, min(law.most, drawn), whole=True)


def law_of_matches(expected: Floats, variance: Floats, uniques: int) -> Law:
    """Return the law of tau2: normal given the draw, between 0 and the number of sample uniques."""
    sd = np.sqrt(variance)
    low = max(float((expected - REACH * sd).min()), 0.0)
    high = min(float((expected + REACH * sd).max()), float(uniques))
    point = np.linspace(low, max(high, low), POINTS)
    distance = point - expected[:, :, None]
    below = (distance >= 0.0).astype(np.float64)
    if sd.any():
        from scipy.special import ndtr  # slow to import, and a certain answer needs none of it

        with np.errstate(divide="ignore", invalid="ignore"):
            below = np.where(sd[:, :, None] > 0.0, ndtr(distance / sd[:, :, None]), below)
    below[:, :, -1] = 1.0
    return Law(point, below, expected, variance, uniques, whole=False)


def interval(draws: Floats) -> Interval:
    """Return the equal-tailed interval of draws."""
    low, high = np.quantile(draws, TAILS, method="inverted_cdf")
    return float(low), float(high)


def envelope(draws: Floats) -> Interval:
    """Return the smallest lower and the largest upper limit of any chain; draws: (chain, draw)."""
    low, high = np.quantile(draws, TAILS, axis=1, method="inverted_cdf")
    return float(low.min()), float(high.max())


def _rounded(values: NDArray[np.floating], places: int) -> tuple[float, ...]:
    return tuple(float(value) for value in np.round(values, places))
