"""Scratch for kernels: apart from the augmented records, nothing in it outlives the kernel that writes it.

`draw_augmented_records` leaves the augmented blocks here for the rest of its sweep; every sweep draws new ones.
"""

from typing import NamedTuple

import numpy as np

from keyhole.kernels.cells import CellWork, make_cell_work
from keyhole.kernels.state import Floats, Integers, Rules, no_rules

OK = 0
FULL = 1  # no room for another profile: the state is invalid and must not be used
GROW = 2  # stopped before a sweep that may need more room: enlarge the state and continue


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
    trial_eppf : float64 (J + 1, J + 2)
    tables_by_length : int64 (J + 1, J + 1)
        Records and augmented records by number of answers and of tables.
    level_shape, split : float64 (levels,)
    edge_shape : float64 (edges,)
        Shape of each edge of a row, without counts.
    below : int64 (levels + 1,)
        Answers below each level, of one profile.
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
    """

    status: Integers
    weighted: Floats
    bracket: Floats
    product: Floats
    chunk: Floats
    table_cumulative: Floats
    fresh: Floats
    relabel: Integers
    trial_eppf: Floats
    tables_by_length: Integers
    level_shape: Floats
    split: Floats
    edge_shape: Floats
    below: Integers
    profile_shape: Floats
    cells: CellWork
    set_factor: Floats
    box_probability: Floats
    seat_count: Integers
    stack: Integers
    type_total: Integers
    block_count: Integers


def make_work(
    records: int, variables: int, levels: int, capacity: int, rules: Rules | None = None, edges: int | None = None
) -> Work:
    """Allocate scratch for this many records, variables, levels and profiles, and for the rules.

    edges: of all trees; by default as many as levels, all keys being unordered.
    """
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
        trial_eppf=np.zeros((variables + 1, variables + 2)),
        tables_by_length=np.zeros((variables + 1, variables + 1), np.int64),
        level_shape=np.zeros(levels),
        split=np.zeros(levels),
        edge_shape=np.zeros(levels if edges is None else edges),
        below=np.zeros(levels + 1, np.int64),
        profile_shape=np.zeros(capacity + 1),
        cells=make_cell_work(int(largest), capacity + 1),
        set_factor=np.zeros((sets, capacity + 1)),
        box_probability=np.zeros(len(rules.box_start) - 1),
        seat_count=np.zeros(((1 << (largest - 1)) + 1, largest + 1), np.int64),
        stack=np.zeros((64, 3), np.int64),
        type_total=np.zeros(types, np.int64),
        block_count=np.zeros((types, capacity), np.int64),
    )
