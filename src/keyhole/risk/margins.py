"""Two-way margins of files that should look alike: how far apart they are, and pairs that only one of them has."""

import itertools

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int32]
Pair = tuple[int, int]

MOST_PAIRS = 300
"""Pairs of variables looked at, evenly spaced among all: those of 25 variables are all looked at."""

MOST_CELLS = 1_000_000
"""A pair of variables with more combinations of categories than this is hardly a margin, and is left out."""


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
    """Compare each of some files of one size with the same other people, who count as if they were as many.

    Returns (file, pair) distances, sum over cells of (sqrt(count) - sqrt(count of the others))^2 (Freeman-Tukey: a
    sparse cell cannot outweigh all others, an empty one weighs in full), and for each file how many of the others have
    a pair of categories that nobody in the file has.
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
    return distance, share * unseen.sum(axis=1)
