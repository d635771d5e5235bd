"""Scratch for kernels: apart from the augmented records, nothing in it outlives the kernel that writes it.

`draw_augmented_records` leaves the augmented blocks here for the rest of its sweep; every sweep draws new ones.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.kernels.cells import CellWork, make_cell_work
from keyhole.kernels.state import Floats, Integers, Rules, no_rules

OK = 0
FULL = 1  # no room for another profile: the state is invalid and must not be used
GROW = 2  # stopped before a sweep that may need more room: enlarge the state and continue


MOST_VARIABLES = 12
"""Most variables for which marginal_seats.py is used: with more its sums cost more than they gain."""


class Members(NamedTuple):
    """Scratch for marginal_seats.py; empty if there are more than MOST_VARIABLES variables.

    slots : int64 (power of two above 2 n,)
        Groups of equal records by hash, -1 where a slot is free.
    group_first, group_size : int64 (n,)
        First record and size of each group.
    following : int64 (n,)
        The next record of the same group, -1 after the last.
    sums : float64 (n, J)
        A(b) of every group.
    tables : int64 (n,)
        Tables drawn for each record.
    several : int64 (n,)
        Groups that include records with more than one table.
    chosen : int64 (P,)
        The profiles that records of H may use.
    cells : CellWork
    """

    slots: Integers
    group_first: Integers
    group_size: Integers
    following: Integers
    sums: Floats
    tables: Integers
    several: Integers
    chosen: Integers
    cells: CellWork


def make_members(records: int, variables: int, capacity: int) -> Members:
    """Allocate scratch for this many records, variables and profiles."""
    if variables > MOST_VARIABLES:
        records, variables, capacity = 0, 1, 0
    return Members(
        slots=np.zeros(1 << (2 * records).bit_length(), np.int64),
        group_first=np.zeros(records, np.int64),
        group_size=np.zeros(records, np.int64),
        following=np.zeros(records, np.int64),
        sums=np.zeros((records, variables)),
        tables=np.zeros(records, np.int64),
        several=np.zeros(records, np.int64),
        chosen=np.zeros(capacity, np.int64),
        cells=make_cell_work(variables, capacity),
    )


class Work(NamedTuple):
    """Scratch arrays. P stands for the capacity in profiles, a multiple of 8.

    status : int64 (1,)
    weighted : float64 (levels, P)
        weight[k] level_profile[v, k], zero from profile_total on.
    bracket : float64 (levels, P)
        Its cumulative sums over k.
    product, chunk : float64 (P,)
        Weights of a draw among profiles, and their cumulative sums after each eight.
    table_cumulative : float64 (J + 1,)
    fresh : float64 (levels,)
        remainder times base_level[v].
    relabel : int64 (P,)
    member_record, member_table : int32, uint8 (n J,)
        The tables that a split, merge or reallocation allocates.
    member_side : uint8 (n J,)
    side_count : int64 (2, levels)
    side_answers : int64 (2, J)
    trial_eppf : float64 (J + 1, J + 2)
    tables_by_length : int64 (J + 1, J + 1)
        Records and augmented records by number of answers and of tables.
    level_shape : float64 (levels,)
    profile_shape : float64 (P + 1,)
    cells : CellWork
        For the probabilities of boxes.
    set_factor : float64 (S, P + 1)
        Probability of each set of levels under each profile.
    box_probability : float64 (C,)
    seat_count : int64 (2^(f - 1) + 1, f + 1)
        Augmented records of one box by the set of variables still to be seated and the number of blocks for it.
    stack : int64 (64, 3)
        Ranges of profiles among which augmented blocks still have to be divided.
    type_total : int64 (T,)
        Augmented blocks by type.
    block_count : int64 (T, P)
        The same by type and profile.
    members : Members
    """

    status: Integers
    weighted: Floats
    bracket: Floats
    product: Floats
    chunk: Floats
    table_cumulative: Floats
    fresh: Floats
    relabel: Integers
    member_record: NDArray[np.int32]
    member_table: NDArray[np.uint8]
    member_side: NDArray[np.uint8]
    side_count: Integers
    side_answers: Integers
    trial_eppf: Floats
    tables_by_length: Integers
    level_shape: Floats
    profile_shape: Floats
    cells: CellWork
    set_factor: Floats
    box_probability: Floats
    seat_count: Integers
    stack: Integers
    type_total: Integers
    block_count: Integers
    members: Members


def make_work(records: int, variables: int, levels: int, capacity: int, rules: Rules | None = None) -> Work:
    """Allocate scratch for this many records, variables, levels and profiles, and for the rules."""
    rules = rules or no_rules()
    types, sets = len(rules.type_start) - 1, len(rules.set_variable)
    largest = max([1, *np.diff(rules.box_start), *np.diff(rules.possible_start)])
    return Work(
        status=np.zeros(1, np.int64),
        weighted=np.zeros((levels, capacity)),
        bracket=np.zeros((levels, capacity)),
        product=np.zeros(capacity),
        chunk=np.zeros(capacity // 8),
        table_cumulative=np.zeros(variables + 1),
        fresh=np.zeros(levels),
        relabel=np.zeros(capacity, np.int64),
        member_record=np.zeros(records * variables, np.int32),
        member_table=np.zeros(records * variables, np.uint8),
        member_side=np.zeros(records * variables, np.uint8),
        side_count=np.zeros((2, levels), np.int64),
        side_answers=np.zeros((2, variables), np.int64),
        trial_eppf=np.zeros((variables + 1, variables + 2)),
        tables_by_length=np.zeros((variables + 1, variables + 1), np.int64),
        level_shape=np.zeros(levels),
        profile_shape=np.zeros(capacity + 1),
        cells=make_cell_work(int(largest), capacity + 1),
        set_factor=np.zeros((sets, capacity + 1)),
        box_probability=np.zeros(len(rules.box_start) - 1),
        seat_count=np.zeros(((1 << (largest - 1)) + 1, largest + 1), np.int64),
        stack=np.zeros((64, 3), np.int64),
        type_total=np.zeros(types, np.int64),
        block_count=np.zeros((types, capacity), np.int64),
        members=make_members(records, variables, capacity),
    )
