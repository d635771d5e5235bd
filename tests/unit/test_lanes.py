"""Sixteen numbers side by side, and sums over set partitions written out as products."""

import itertools
import math

import numpy as np
import pytest

from keyhole.kernels import lanes
from keyhole.kernels.jit import kernel
from keyhole.kernels.lanes import LANES, lane_zeros, load, spread, store
from keyhole.kernels.partitions import make_partitions, sum_partitions


@kernel
def combine(first, second, factor, out):
    """Write first + factor second - first second, row by row."""
    times = spread(factor)
    for row in range(out.size // LANES):
        a, b = load(first, row), load(second, row)
        store(out, row, a + times * b - a * b)


def test_every_lane_goes_its_own_way(rng):
    first, second, out = (lane_zeros((3, 2, LANES)) for _ in range(3))
    first[:], second[:] = rng.normal(size=first.shape), rng.normal(size=first.shape)
    combine(first, second, 0.3, out)
    assert np.array_equal(out, (first + 0.3 * second) - first * second)


def test_the_same_functions_without_compilation(rng):
    """The functions for plain Python, which the planted bugs run on, do what the compiled ones do."""
    first, second, out = (lane_zeros((4, LANES)) for _ in range(3))
    first[:], second[:] = rng.normal(size=first.shape), rng.normal(size=first.shape)
    combine(first, second, -0.7, out)
    plain = np.zeros_like(out)
    for row in range(4):
        a, b = lanes._load_plainly(first, row), lanes._load_plainly(second, row)
        value = a + lanes._spread_plainly(-0.7) * b - a * b
        lanes._store_plainly(plain, row, value)
    assert np.array_equal(plain, out)
    before = lanes._load_plainly(first, 0)
    first[0] = 0.0
    assert before.any()  # a value is not a view


@pytest.mark.parametrize("shape", [(1, LANES), (7, 3, LANES), (0, LANES), (2, 0, LANES)])
def test_rows_begin_at_lines_of_the_cache(shape):
    for _ in range(20):
        room = lane_zeros(shape)
        assert room.ctypes.data % lanes.BYTES == 0 or room.size == 0
        assert room.shape == shape
        assert room.flags.c_contiguous
        assert not room.any()


def list_partitions(items):
    """All set partitions, the slow way."""
    if not items:
        yield []
        return
    first, *rest = items
    for size in range(len(rest) + 1):
        for chosen in itertools.combinations(rest, size):
            left = [x for x in rest if x not in chosen]
            for others in list_partitions(left):
                yield [(first, *chosen), *others]


def add_plainly(mask, blocks, block):
    """A(S, b) of every lane by listing the set partitions of S."""
    members = [j for j in range(mask.bit_length()) if mask >> j & 1]
    total = np.zeros(LANES)
    for partition in list_partitions(members):
        if len(partition) == blocks:
            total += math.prod(block[sum(1 << j for j in part)] for part in partition)
    return total


@pytest.mark.parametrize("variables", [1, 2, 3, 4, 5])
def test_sums_of_all_sets_are_sums_over_set_partitions(rng, variables):
    half = 1 << (variables - 1)
    block, sums = lane_zeros((2 * half, LANES)), lane_zeros((half, variables, LANES))
    total = lane_zeros((variables, LANES))
    block[:] = rng.random(block.shape)
    sums[:], total[:] = np.nan, np.nan
    sum_partitions(variables, block, sums, total, make_partitions(variables))
    for mask in range(2, 2 * half, 2):
        for b in range(1, mask.bit_count() + 1):
            assert sums[mask >> 1, b - 1] == pytest.approx(add_plainly(mask, b, block), rel=1e-12)
    for b in range(1, variables + 1):
        assert total[b - 1] == pytest.approx(add_plainly(2 * half - 1, b, block), rel=1e-12)


@pytest.mark.parametrize(("variables", "fewer"), [(5, 3), (4, 1), (6, 5)])
def test_lists_serve_fewer_variables_too(rng, variables, fewer):
    """Boxes that confine fewer variables than the largest use its lists."""
    half = 1 << (variables - 1)
    block, sums, total = (
        lane_zeros((2 * half, LANES)),
        lane_zeros((half, variables, LANES)),
        lane_zeros((variables, LANES)),
    )
    block[:] = rng.random(block.shape)
    sum_partitions(fewer, block, sums, total, make_partitions(variables))
    for b in range(1, fewer + 1):
        assert total[b - 1] == pytest.approx(add_plainly((1 << fewer) - 1, b, block), rel=1e-12)
