"""Scratch for kernels: nothing in it outlives the kernel that writes it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.kernels.state import Floats, Integers

OK = 0
FULL = 1  # no room for another profile: the chain is lost and must not be used
GROW = 2  # stopped before a sweep that may need more room: enlarge the state and go on
NOT_A_NUMBER = 3


class Work(NamedTuple):
    """Scratch arrays. P stands for the capacity in profiles, a multiple of 8.

    status : int64 (1,)
    weighted : float64 (levels, P)
        weight[k] level_profile[v, k], zero from profile_total on.
    bracket : float64 (levels, P)
        Its cumulative sums over k.
    product, chunk : float64 (P,)
        Weights of a draw among profiles, and their sums by eights.
    table_cumulative : float64 (J + 1,)
    fresh : float64 (levels,)
        remainder times base_level[v].
    real_tables : int64 (P,)
        Tables of records (not of imputed people) by profile.
    relabel : int64 (P,)
    member_record, member_table : int32, uint8 (n J,)
        Tables that take part in a split or merge.
    member_side : uint8 (n J,)
    side_count : int64 (2, levels)
    side_answers : int64 (2, J)
    trial_seating : float64 (J + 1, J + 2)
    tables_by_length : int64 (J + 1, J + 1)
        Records and imputed people by number of answers and of tables.
    level_shape : float64 (levels,)
    profile_shape : float64 (P + 1,)
    """

    status: Integers
    weighted: Floats
    bracket: Floats
    product: Floats
    chunk: Floats
    table_cumulative: Floats
    fresh: Floats
    real_tables: Integers
    relabel: Integers
    member_record: NDArray[np.int32]
    member_table: NDArray[np.uint8]
    member_side: NDArray[np.uint8]
    side_count: Integers
    side_answers: Integers
    trial_seating: Floats
    tables_by_length: Integers
    level_shape: Floats
    profile_shape: Floats


def make_work(records: int, variables: int, levels: int, capacity: int) -> Work:
    """Allocate scratch for this many records, variables, levels and profiles."""
    return Work(
        status=np.zeros(1, np.int64),
        weighted=np.zeros((levels, capacity)),
        bracket=np.zeros((levels, capacity)),
        product=np.zeros(capacity),
        chunk=np.zeros(capacity // 8),
        table_cumulative=np.zeros(variables + 1),
        fresh=np.zeros(levels),
        real_tables=np.zeros(capacity, np.int64),
        relabel=np.zeros(capacity, np.int64),
        member_record=np.zeros(records * variables, np.int32),
        member_table=np.zeros(records * variables, np.uint8),
        member_side=np.zeros(records * variables, np.uint8),
        side_count=np.zeros((2, levels), np.int64),
        side_answers=np.zeros((2, variables), np.int64),
        trial_seating=np.zeros((variables + 1, variables + 2)),
        tables_by_length=np.zeros((variables + 1, variables + 1), np.int64),
        level_shape=np.zeros(levels),
        profile_shape=np.zeros(capacity + 1),
    )
