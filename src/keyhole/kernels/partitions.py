"""Sums over set partitions, laid out as a list of products: which block times which sum, for every sum.

    A(S, b) = sum over T in S with min(S) in T of block(T) A(S - T, b - 1),   A(empty set, 0) = 1,
for sets S of f variables, as bit masks. The probability of a cell (cells.py) needs only the sets without variable 0 and
the sets of the first variables. The list depends on f alone, so it is made once and shared by all chains, and the loop
over it makes no decisions.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.kernels.jit import inner
from keyhole.kernels.lanes import load, spread, store
from keyhole.kernels.state import Integers


class Partitions(NamedTuple):
    """The products of all sums. Sums are numbered set by set, with b = 1, 2, ... within each set.

    start : int64 (sums + 1,)
        First product of each sum.
    row : int64 (sums,)
        Row in which a sum is stored: ((mask of S) >> 1) f + b - 1.
    block, rest : int32 (products,)
        T, as a mask, and the row of A(S - T, b - 1): ((mask of S - T) >> 1) f + b - 2; row 0 is A(empty set, 0).
    without_first, with_first : int64 (2^(f-1) + 1,)
        Number of the first sum of each set, by its mask >> 1; without and with variable 0. In with_first only the sets
        of the first variables have sums.
    """

    start: Integers
    row: Integers
    block: NDArray[np.int32]
    rest: NDArray[np.int32]
    without_first: Integers
    with_first: Integers


@lru_cache
def make_partitions(variables: int) -> Partitions:
    """List the products for sets of this many variables."""
    half = 1 << (variables - 1)
    block: list[NDArray[np.int32]] = []
    rest: list[NDArray[np.int32]] = []

    def list_set(lowest: int, others: int) -> int:
        """List the products of a set, given by its lowest variable and `others` >> 1; return how many sums it has."""
        taken = _list_subsets(others)
        left = others ^ taken
        size = np.bitwise_count(left)
        block.append(np.array([taken[0] << 1 | lowest]))
        rest.append(np.zeros(1, np.int32))
        for b in range(2, others.bit_count() + 2):
            chosen = size >= b - 1
            block.append(taken[chosen] << 1 | lowest)
            rest.append(left[chosen] * variables + (b - 2))
        return others.bit_count() + 1

    sums = [0]
    for mask in range(1, half):
        lowest = mask & -mask
        sums.append(list_set(lowest << 1, mask ^ lowest))
    for others in range(half):
        sums.append(list_set(1, others) if others & (others + 1) == 0 else 0)
    first = np.concatenate([[0], np.cumsum(sums)]).astype(np.int64)
    within = np.arange(first[-1]) - np.repeat(first[:-1], sums)
    return Partitions(
        start=np.concatenate([[0], np.cumsum([len(part) for part in block])]).astype(np.int64),
        row=np.repeat(np.arange(2 * half) % half, sums) * variables + within,
        block=np.concatenate(block).astype(np.int32),
        rest=np.concatenate(rest).astype(np.int32),
        without_first=first[: half + 1].copy(),
        with_first=first[half:].copy(),
    )


def _list_subsets(mask: int) -> NDArray[np.int32]:
    """Return the subsets of a mask, the largest number first."""
    subsets = np.zeros(1, np.int32)
    for bit in range(mask.bit_length()):
        if mask >> bit & 1:
            subsets = np.concatenate([subsets, subsets | np.int32(1 << bit)])
    return subsets[::-1].copy()


@inner
def add_products(partitions, first, last, block, sums, out, row):
    """Fill `out` with the sums numbered first <= x < last, in all lanes; its row 0 is row `row` of all sums."""
    start, place, of_block, of_rest = partitions.start, partitions.row, partitions.block, partitions.rest
    for number in range(first, last):
        total = spread(0.0)
        for x in range(start[number], start[number + 1]):
            total = total + load(block, np.int64(of_block[x])) * load(sums, np.int64(of_rest[x]))
        store(out, place[number] - row, total)


@inner
def sum_partitions(variables, block, sums, total, partitions):
    """Fill `total` with A(all, b) of the first `variables` variables, `sums` with A(S, b) of sets without variable 0.

    block : (2^f, 16); sums : (2^(f-1), f, 16), by mask of S >> 1 and b - 1; total : (f, 16).
    """
    half = 1 << (variables - 1)
    store(sums, 0, spread(1.0))
    first, last = partitions.without_first[1], partitions.without_first[half]
    add_products(partitions, first, last, block, sums, sums, 0)
    first, last = partitions.with_first[half - 1], partitions.with_first[half]
    add_products(partitions, first, last, block, sums, total, (half - 1) * sums.shape[1])
