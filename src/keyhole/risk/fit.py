"""Posterior predictive check of what the risk depends on: does the model fit this file? (docs/checks.md)

Stored draws simulate files of the same size. If the model is right, the file is one more of them: the interval from the
k-th smallest to the k-th largest of R simulated counts, k = floor(0.025 (R + 1)), excludes it with probability at most
5 %.

Two-way margins are compared under the parameters of each draw: are further people of that draw further from the file
than from the simulated file? Otherwise the uncertainty of the parameters would mask differences.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from keyhole.data import count_cells
from keyhole.diagnostics.laws import Estimate
from keyhole.kernels.state import Records
from keyhole.readable import Readable
from keyhole.risk.advice import explain_fit
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


def compare_margins(
    files: tuple[Codes, ...], others: Codes, pairs: list[Pair], levels: tuple[int, ...]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compare files of equal size with the same other people, whose counts are scaled to that size.

    Return (file, pair) distances, sum over cells of (sqrt(count) - sqrt(count of the others))^2 (Freeman-Tukey: a
    sparse cell cannot outweigh all others, and an empty one counts in full), and for each file the scaled number of the
    others who have a pair of categories that no record of the file has.
    """
    share = len(files[0]) / len(others)
    distance = np.zeros((len(files), len(pairs)))
    unseen = np.zeros((len(files), len(others)), dtype=np.bool_)
    for p, (a, b) in enumerate(pairs):
        width = levels[b] + 1
        cells = (levels[a] + 1) * width
        key = (others[:, a] + 1) * width + (others[:, b] + 1)
        root = np.sqrt(share * np.bincount(key, minlength=cells))
        for x, codes in enumerate(files):
            count = np.bincount((codes[:, a] + 1) * width + (codes[:, b] + 1), minlength=cells)
            distance[x, p] = ((np.sqrt(count) - root) ** 2).sum()
            unseen[x] |= count[key] == 0
    return distance, np.asarray(share * unseen.sum(axis=1), dtype=np.float64)


LEVEL = 0.95
MARGIN_RECORDS = 20_000
"""Records whose margins are compared, drawn at random from larger files."""

OTHERS = 4
"""Further people for each of these records, up to MARGIN_RECORDS in all: they represent the model."""


@dataclass(frozen=True)
class Check(Readable):
    """A number of the file and what the model expects; ok: it lies in the 95 % interval."""

    observed: int | float
    predicted: Estimate
    ok: bool


@dataclass(frozen=True)
class TwoWay(Readable):
    """Pairs of variables: how many are further from the model than chance explains, and which the most."""

    outside: int
    total: int
    worst: tuple[str, ...]
    ok: bool


@dataclass(frozen=True)
class Fit(Readable):
    """The verdict. It is based on sample_uniques, two_way and unseen_pairs; the others are only reported.

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
    counts, distances, unseen = [], [], []
    places = np.resize(subset, max(min(OTHERS * len(subset), MARGIN_RECORDS), len(subset)))
    for drawn, others in draw_replicates(trace, records, places, settings, zeros):
        counts.append(count_sizes(drawn[:, :keys]))
        distance, new = compare_margins((file[subset], drawn[subset]), others, pairs, levels)
        distances.append(distance)
        unseen.append(new)
    observed, predicted = count_sizes(file[:, :keys]), np.array(counts)
    uniques, doubles, triples, distinct = (check_count(observed[x], predicted[:, x]) for x in range(4))
    two_way = check_distances(np.array(distances), [(names[a], names[b]) for a, b in pairs])
    pairs_check = check_unseen(np.array(unseen))
    return Fit(
        sample_uniques=uniques,
        doubles=doubles,
        triples=triples,
        distinct_cells=distinct,
        two_way=two_way,
        unseen_pairs=pairs_check,
        replicates=len(counts),
        ok=uniques.ok and two_way.ok and pairs_check.ok,
        message=explain_fit(
            uniques, pairs_check, two_way, len(subset), settings, zeros is not None, trace.stopped == "gates"
        ),
    )


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


def check_count(observed: float, drawn: NDArray[np.float64]) -> Check:
    ordered, k = np.sort(drawn), left_out(len(drawn))
    low, high = float(ordered[k - 1]), float(ordered[-k])
    return Check(observed, Estimate(float(drawn.mean()), (low, high)), low <= observed <= high)


def check_unseen(unseen: NDArray[np.float64]) -> Check:
    """Compare the people whose pairs the file lacks with those whose pairs the simulated file lacks, draw by draw.

    unseen : (replicate, 2), for the file and for the simulated one.
    """
    # The ratio of a draw is 1 if both are equal; adding 0.5 keeps it finite and changes no comparison.
    observed = float(unseen[:, 0].mean())
    found = check_count(observed, observed * (unseen[:, 1] + 0.5) / (unseen[:, 0] + 0.5))
    return replace(found, predicted=replace(found.predicted, mean=float(unseen[:, 1].mean())))


def check_distances(distance: NDArray[np.float64], pairs: Sequence[tuple[str, str]]) -> TwoWay:
    """Compare the file's distance from the model with the simulated file's; distance : (replicate, 2, pair)."""
    if not pairs:
        return TwoWay(0, 0, (), True)
    excess = distance[:, 0] - distance[:, 1]
    k = left_out(len(excess))
    outside = np.sort(excess, axis=0)[k - 1] > 0.0
    together = bool(np.sort(excess.sum(axis=1))[k - 1] > 0.0)
    score = excess.mean(axis=0) / np.maximum(excess.std(axis=0), 1e-12)
    return TwoWay(int(outside.sum()), len(pairs), pairs[int(score.argmax())] if outside.any() else (), not together)
