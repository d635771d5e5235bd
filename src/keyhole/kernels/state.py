"""What kernels read and write: NamedTuples of arrays.

Index letters: i record, j variable, t table of a record, k profile, v level. A *level* is a category of a variable,
numbered over all variables: v = level_start[j] + category. Arrays over profiles have room for `capacity` profiles, of
which the first `profile_total[0]` are in use. A scalar that changes is an array of length one.

Symbols of docs/model.md: beta = weight, beta_0 = remainder, theta = level_profile, gamma =
weight_concentration, (a, b) = record_concentration, alpha of `mixed` = shared_concentration,
lambda, s = base_strength, pi = base_level, V(f, m) = eppf[f, m], m_k = profile_tables, N_kjx = level_count, z = layout.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

NOTHING_ORDERED: Integers = np.zeros((0, 2), np.int64)


class Records(NamedTuple):
    """The answers of all records, as integers.

    level : int32 (n, J)
        Level of each answer, -1 where the answer is missing: it has no seat, or with rules an unknown level.
    answer_total : int64 (n,)
        Number of answers of record i that have a seat.
    level_start : int64 (J + 1,)
        First level of each variable; the last entry is the number of levels.
    ordered : int64 (J, 2), or (0, 2) if no key is ordered
        The levels of each key that have an order: the first, and the one after the last.
    """

    level: NDArray[np.int32]
    answer_total: Integers
    level_start: Integers
    ordered: Integers = NOTHING_ORDERED


class Rules(NamedTuple):
    """Impossible combinations, as disjoint boxes; all arrays are empty without rules.

    A box restricts some variables, each to a *set* of its levels. A *type* is a block of answers that an augmented
    record of a box may have: a subset of the box's sets.

    set_variable : int64 (S,)
    set_start : int64 (S + 1,)
    set_level : int64 (set_start[S],)
        The variable of each set, where its levels start, and the levels of all sets, set by set.
    box_start, box_set : int64 (C + 1,), (box_start[C],)
        The sets of each box.
    box_type_start, box_type : int64 (C + 1,), (box_type_start[C],)
        The type of each non-empty subset of a box's sets, by bit mask (entry 0 is unused).
    type_start, type_set : int64 (T + 1,), (type_start[T],)
        The sets of each type.
    possible_start, possible_set : int64 (D + 1,), (possible_start[D],)
        The sets of the disjoint boxes that make up the possible cells.
    """

    set_variable: Integers
    set_start: Integers
    set_level: Integers
    box_start: Integers
    box_set: Integers
    box_type_start: Integers
    box_type: Integers
    type_start: Integers
    type_set: Integers
    possible_start: Integers
    possible_set: Integers


def no_rules() -> Rules:
    """Return rules that exclude nothing."""
    none, start = np.zeros(0, np.int64), np.zeros(1, np.int64)
    return Rules(none, start, none, start, none, start, none, start, none, start, none)


def has_rules(rules: Rules) -> bool:
    """Return whether the rules exclude anything."""
    return len(rules.box_start) > 1


class Trees(NamedTuple):
    """The layouts of all keys, laid out one after the other.

    layout_start : int64 (J + 1,)
        First layout of each key; one layout if it is unordered.
    strength_start : int64 (J + 1,)
        First strength of each key.
    node_start : int64 (layouts + 1,)
        First node of each layout: the root; parents come before their children.
    edge_start : int64 (nodes + 1,)
        First edge of each node.
    edge_first, edge_last : int64 (edges,)
        The first level of each edge and the one after its last.
    node_strength : int64 (nodes,)
        The strength of each node.
    strength_scale : float64 (strengths,)
        Centre of the prior of each strength.
    """

    layout_start: Integers
    strength_start: Integers
    node_start: Integers
    edge_start: Integers
    edge_first: Integers
    edge_last: Integers
    node_strength: Integers
    strength_scale: Floats


class Prior(NamedTuple):
    """The model and its hyperparameters. All gammas are (shape, rate).

    finite : bool
        True for `mixed`: a fixed number of profiles, one concentration shared by all records.
    adaptive : bool
        True when base_strength, base_level and (in `hdp`) record_concentration are learned.
    weight_concentration : float64 (2,)
        Gamma prior of gamma.
    shared_concentration : float64 (2,)
        Gamma prior of alpha in `mixed`.
    strength_sd, mean_sd, shape_sd : float
        Normal priors: log(s / strength_scale), log(a / b), log a, all with mean 0.
    rules : Rules
        Impossible combinations.
    trees : Trees
        The layouts of the rows.
    """

    finite: bool
    adaptive: bool
    weight_concentration: Floats
    shared_concentration: Floats
    strength_sd: float
    mean_sd: float
    shape_sd: float
    rules: Rules
    trees: Trees


class State(NamedTuple):
    """Everything that a sweep passes to the next; with the generator, all that a chain needs to continue.

    seat : uint8 (n, J)
        Table of answer (i, j), 0 <= seat < table_total[i]; 255 where it has no seat.
    table_size : uint8 (n, J)
        Answers at each table, 0 beyond table_total[i].
    table_label : int32 (n, J)
        Profile of each table.
    table_total : int64 (n,)
        Number of tables of record i.
    profile_total : int64 (1,)
    weight : float64 (capacity,)
    remainder : float64 (1,)
        Weight of all profiles that are not explicit; 0 in `mixed`.
    level_profile : float64 (levels, capacity)
        Probability of each level in each profile; the levels of one variable sum to one.
    profile_tables : int64 (capacity,)
        Tables with this label, including the blocks of augmented records.
    level_count : int64 (levels, capacity)
        Answers by level and profile, including those of augmented records.
    weight_concentration : float64 (1,)
    record_concentration : float64 (2,)
        Shape and rate of the gamma distribution of the records' concentrations (`hdp`).
    shared_concentration : float64 (1,)
        The concentration shared by all records (`mixed`).
    base_strength : float64 (strengths,)
    base_level : float64 (levels,)
    layout : int64 (J, capacity)
        The layout of each row, counted from the first of its key.
    eppf : float64 (J + 1, J + 2)
        The EPPF weights V(f, m) of m tables for f answers, always those of the current concentrations. Row 0 and
        column 0 are unused.
    augmented_total : int64 (1,)
        Number of augmented records; 0 without rules.
    augmented_tables : int64 (J + 1, J + 1)
        Augmented records by number of answers and of tables.
    """

    seat: NDArray[np.uint8]
    table_size: NDArray[np.uint8]
    table_label: NDArray[np.int32]
    table_total: Integers
    profile_total: Integers
    weight: Floats
    remainder: Floats
    level_profile: Floats
    profile_tables: Integers
    level_count: Integers
    weight_concentration: Floats
    record_concentration: Floats
    shared_concentration: Floats
    base_strength: Floats
    base_level: Floats
    layout: Integers
    eppf: Floats
    augmented_total: Integers
    augmented_tables: Integers
