"""Posterior predictive check of what the risk depends on: does the model fit this file? (docs/checks.md)

Stored draws simulate files of the same size. The parameters were learned from the file that is checked, so the file is
nearer to the prediction than a simulated file is. If W is the variance of a number of the file given the parameters and
B the variance of its expectation over draws, a simulated file differs from the prediction with variance W + B, but the
file itself, if the model is right, with W - B: its covariance with the expectation that it teaches is B for any number
(Robins, van der Vaart and Ventura 2000, J. American Statistical Association 95, 1143-1156). Several files from each
draw tell W from B.

Two-way margins are compared under the parameters of each draw: are further people of that draw further from the file
than from the simulated file? Otherwise the uncertainty of the parameters would mask differences.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.data import count_cells
from keyhole.diagnostics.laws import Estimate
from keyhole.kernels.state import Records
from keyhole.readable import Readable
from keyhole.risk.advice import FitVerdict, describe_fit, explain_fit
from keyhole.sampling import Trace
from keyhole.sampling.predictive import draw_replicates
from keyhole.seeds import MARGINS, make_seeds
from keyhole.settings import Settings
from keyhole.zeros import Zeros

Codes = NDArray[np.int32]
Pair = tuple[int, int]

MOST_PAIRS = 300
"""Most pairs of variables compared, evenly spaced among all: 25 variables have this many."""

MOST_CELLS = 1_000_000
"""A pair of variables with more combinations of categories is too sparse to compare, and is left out."""


def choose_pairs(levels: tuple[int, ...]) -> list[Pair]:
    """Return the pairs of variables to compare."""
    pairs = [
        (a, b)
        for a, b in itertools.combinations(range(len(levels)), 2)
        if (levels[a] + 1) * (levels[b] + 1) <= MOST_CELLS
    ]
    step = max(len(pairs) / MOST_PAIRS, 1.0)
    return [pairs[int(x * step)] for x in range(int(len(pairs) / step))]


class Margins(NamedTuple):
    """Files compared with other people.

    distance: (file, pair), the sum over cells of (sqrt(count) - sqrt(count of the others))^2 (Freeman-Tukey: a sparse
    cell cannot outweigh all others, and an empty one counts in full).
    unseen: (file,), the number of the others who have a pair of categories that no record of the file has.
    unseen_of: (file, pair), the same for each pair of variables.
    """

    distance: NDArray[np.float64]
    unseen: NDArray[np.float64]
    unseen_of: NDArray[np.float64]


def compare_margins(files: tuple[Codes, ...], others: Codes, pairs: list[Pair], levels: tuple[int, ...]) -> Margins:
    """Compare files of equal size with the same other people, whose counts are scaled to that size."""
    share = len(files[0]) / len(others)
    distance, unseen_of = np.zeros((2, len(files), len(pairs)))
    unseen = np.zeros((len(files), len(others)), dtype=np.bool_)
    for p, (a, b) in enumerate(pairs):
        width = levels[b] + 1
        cells = (levels[a] + 1) * width
        key = (others[:, a] + 1) * width + (others[:, b] + 1)
        root = np.sqrt(share * np.bincount(key, minlength=cells))
        for x, codes in enumerate(files):
            count = np.bincount((codes[:, a] + 1) * width + (codes[:, b] + 1), minlength=cells)
            distance[x, p] = ((np.sqrt(count) - root) ** 2).sum()
            new = count[key] == 0
            unseen[x] |= new
            unseen_of[x, p] = share * np.count_nonzero(new)
    return Margins(distance, share * unseen.sum(axis=1, dtype=np.float64), unseen_of)


LEVEL = 0.95
"""Level of each test of the margins."""

SCORE = 3.0
"""Standard deviations by which each of the four counts may differ: 99.7 % of a normal distribution lie within."""

LEAST_SHARE = 0.25
"""Least share of W that the variance W - B of the file may have: the difference of two estimates can be too small."""

WIDESPREAD = 0.5
"""Share of the pairs of variables which, if more are outside, means that the model as a whole does not fit."""

NAMED = 3
"""Most pairs of variables named."""

MARGIN_RECORDS = 20_000
"""Records whose margins are compared, drawn at random from larger files."""

OTHERS = 4
"""Further people for each of these records, up to MARGIN_RECORDS in all: they represent the model."""

COUNTED = ("sample_uniques", "doubles", "triples", "distinct_cells")


@dataclass(frozen=True)
class Check(Readable):
    """A number of the file and what the model expects; ok: it lies in the interval.

    score: how far the file is from the prediction, in standard deviations of a file that the model fits.
    """

    observed: int | float
    predicted: Estimate
    ok: bool
    score: float | None = None


@dataclass(frozen=True)
class TwoWay(Readable):
    """Pairs of variables: how many are further from the model than chance explains, and which the most.

    named: pairs that do not fit, the worst first; the worst of all if only all of them together do not.
    """

    outside: int
    total: int
    worst: tuple[str, ...]
    ok: bool
    named: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Fit(Readable):
    """Whether the model fits the file.

    verdict: "does not fit" if one of the four counts or most margins are off, "fits except" if only some margins are,
    `exceptions`. sentence: the verdict in words, as in the first sentence of screen and report. without: if the counts
    are off, keys without which they agree.
    unseen_pairs: of as many people drawn from the model as the file has (or MARGIN_RECORDS), the number with a pair of
    categories that no record of the file has (observed), or none of a file drawn from the model (predicted).
    """

    sample_uniques: Check
    doubles: Check
    triples: Check
    distinct_cells: Check
    two_way: TwoWay
    unseen_pairs: Check
    replicates: int
    ok: bool
    message: str
    verdict: FitVerdict
    exceptions: tuple[tuple[str, str], ...]
    without: tuple[str, ...]
    sentence: str


def check_fit(
    trace: Trace,
    records: Records,
    names: Sequence[str],
    settings: Settings,
    zeros: Zeros | None = None,
    keys: int | None = None,
) -> Fit:
    """Simulate files from stored draws and compare the file with them.

    keys: how many of the variables are keys, if not all; the cells that are counted are those of the keys.
    """
    start = records.level_start[:-1].astype(np.int32)
    file = np.where(records.level >= 0, records.level - start, np.int32(-1)).astype(np.int32)
    levels = tuple(int(size) for size in np.diff(records.level_start))
    pairs = choose_pairs(levels)
    subset = choose_subset(len(file), settings.seed)
    counts, margins = [], []
    places = np.resize(subset, max(min(OTHERS * len(subset), MARGIN_RECORDS), len(subset)))
    for drawn, others in draw_replicates(trace, records, places, settings, zeros):
        counts.append([count_sizes(codes[:, :keys]) for codes in split_files(drawn, others)])
        margins.append(compare_margins((file[subset], drawn[subset]), others, pairs, levels))
    checks = check_counts(count_sizes(file[:, :keys]), np.array(counts, np.float64))
    named = [(names[a], names[b]) for a, b in pairs]
    two_way = check_distances(np.array([found.distance for found in margins]), named)
    unseen = check_unseen(np.array([found.unseen for found in margins]))
    verdict = judge(checks, two_way, unseen)
    exceptions = two_way.named
    if not unseen.ok:
        gap = np.array([found.unseen_of for found in margins]).mean(axis=0)
        worst = named[int(np.abs(gap[0] - gap[1]).argmax())]
        exceptions = (worst, *(pair for pair in exceptions if pair != worst))[:NAMED]
    without: tuple[str, ...] = ()
    if not all(check.ok for check in checks):
        files = (split_files(*drawn) for drawn in draw_replicates(trace, records, places, settings, zeros))
        without = tuple(names[j] for j in find_clumped_keys(file[:, :keys], files))
    exceptions = exceptions if verdict == "fits except" else ()
    found = dict(zip(COUNTED, checks, strict=True))
    return Fit(
        **found,
        two_way=two_way,
        unseen_pairs=unseen,
        replicates=len(counts),
        ok=verdict == "fits",
        message=explain_fit(
            verdict, exceptions, without, found, unseen, two_way, len(subset), settings,
            zeros is not None, trace.stopped == "gates",
        ),
        verdict=verdict,
        exceptions=exceptions,
        without=without,
        sentence=describe_fit(verdict, exceptions),
    )  # fmt: skip


def judge(checks: Sequence[Check], two_way: TwoWay, unseen: Check) -> FitVerdict:
    """Return the verdict: the risk depends on how many cells have one, two, three and any records."""
    if not all(check.ok for check in checks):
        return "does not fit"
    if two_way.ok and unseen.ok:
        return "fits"
    return "does not fit" if two_way.outside > WIDESPREAD * two_way.total else "fits except"


def split_files(drawn: Codes, others: Codes) -> list[Codes]:
    """Return all files of the size of the first that one draw has simulated; of large files there is only one."""
    n = len(drawn)
    return [drawn, *(others[x * n : (x + 1) * n] for x in range(len(others) // n))]


def check_counts(observed: Sequence[int], drawn: NDArray[np.float64]) -> tuple[Check, ...]:
    """Compare counts of the file with those of simulated files; drawn : (replicate, file, count).

    On the scale 2 sqrt(count + 3/8), where a Poisson count has variance one. With a single file from each draw the
    variance is that of simulated files, and the check is more lenient. One record more or less never matters.
    """
    root = stretch(drawn)
    replicates, files = root.shape[:2]
    mean, centre = root.mean(axis=(0, 1)), root.mean(axis=1)
    variance = centre.var(axis=0, ddof=1)
    if files > 1:
        within = root.var(axis=1, ddof=1).mean(axis=0)
        between = np.maximum(variance - within / files, 0.0)
        variance = np.maximum(within - between, LEAST_SHARE * within) + variance / replicates
    expected = drawn.mean(axis=(0, 1))
    spread = np.maximum(np.sqrt(variance), (stretch(expected + 1.0) - stretch(expected)) / SCORE)
    score = (stretch(np.array(observed, np.float64)) - mean) / spread
    low, high = shrink(mean - SCORE * spread), shrink(mean + SCORE * spread)
    return tuple(
        Check(
            observed[x],
            Estimate(float(expected[x]), (float(np.ceil(low[x] - 1e-9)), float(np.floor(high[x] + 1e-9)))),
            bool(low[x] - 1e-9 <= observed[x] <= high[x] + 1e-9),
            float(score[x]),
        )
        for x in range(len(observed))
    )


def stretch(count: NDArray[np.float64]) -> NDArray[np.float64]:
    return 2.0 * np.sqrt(count + 0.375)


def shrink(root: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the count, none below zero, that `stretch` takes to this number."""
    return np.maximum((np.maximum(root, 0.0) / 2.0) ** 2 - 0.375, 0.0)


def find_clumped_keys(file: Codes, files: Iterator[list[Codes]]) -> list[int]:
    """Return the keys without which all counts agree, the best two; files: as simulated, by draw."""
    keys = list(range(file.shape[1]))
    if len(keys) < 3:
        return []
    drawn = [
        [[count_sizes(np.delete(codes[:, : len(keys)], j, axis=1)) for codes in simulated] for j in keys]
        for simulated in files
    ]
    counts = np.array(drawn, np.float64).transpose(1, 0, 2, 3)
    found = {j: check_counts(count_sizes(np.delete(file, j, axis=1)), counts[j]) for j in keys}
    fitting = [j for j, checks in found.items() if all(check.ok for check in checks)]
    return sorted(fitting, key=lambda j: max(abs(check.score or 0.0) for check in found[j]))[:2]


def choose_subset(records: int, seed: int) -> NDArray[np.int64]:
    """Return the records whose margins are compared."""
    if records <= MARGIN_RECORDS:
        return np.arange(records)
    rng = np.random.default_rng(make_seeds(seed, MARGINS))
    return np.sort(rng.choice(records, MARGIN_RECORDS, replace=False))


def count_sizes(codes: NDArray[np.int32]) -> tuple[int, int, int, int]:
    """Return the number of cells with one, two and three records, and of all cells with records."""
    counts = count_cells(codes)
    of_size = np.bincount(np.minimum(counts.cell_count, 4), minlength=5)
    return int(of_size[1]), int(of_size[2]) // 2, int(of_size[3]) // 3, counts.distinct


def left_out(replicates: int) -> int:
    """Return the rank of the ends of the 95 % interval, among the smallest and among the largest."""
    return max(int((1.0 - LEVEL) / 2.0 * (replicates + 1)), 1)


def check_unseen(unseen: NDArray[np.float64]) -> Check:
    """Compare the people whose pairs the file lacks with those whose pairs the simulated file lacks, draw by draw.

    unseen : (replicate, 2), for the file and for the simulated one.
    """
    # The ratio of a draw is 1 if both are equal; adding 0.5 keeps it finite and changes no comparison.
    observed = float(unseen[:, 0].mean())
    ordered, k = np.sort(observed * (unseen[:, 1] + 0.5) / (unseen[:, 0] + 0.5)), left_out(len(unseen))
    low, high = float(ordered[k - 1]), float(ordered[-k])
    return Check(observed, Estimate(float(unseen[:, 1].mean()), (low, high)), low <= observed <= high)


def check_distances(distance: NDArray[np.float64], pairs: Sequence[tuple[str, str]]) -> TwoWay:
    """Compare the file's distance from the model with the simulated file's; distance : (replicate, 2, pair)."""
    if not pairs:
        return TwoWay(0, 0, (), True)
    excess = distance[:, 0] - distance[:, 1]
    k = left_out(len(excess))
    outside = np.sort(excess, axis=0)[k - 1] > 0.0
    together = bool(np.sort(excess.sum(axis=1))[k - 1] > 0.0)
    score = excess.mean(axis=0) / np.maximum(excess.std(axis=0), 1e-12)
    order = np.argsort(-np.where(outside, score, score - 1e12))
    named = [pairs[p] for p in order[: min(max(int(outside.sum()), 1), NAMED)]]
    return TwoWay(
        outside=int(outside.sum()),
        total=len(pairs),
        worst=named[0] if outside.any() else (),
        ok=not together,
        named=tuple(named) if together else (),
    )
