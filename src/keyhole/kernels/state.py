"""What kernels read and write: NamedTuples of arrays.

Index letters: i record, j variable, t table of a record, k profile, v level. A *level* is a category of
a variable in the list of all categories of all variables: v = level_start[j] + category. Arrays over
profiles have room for `capacity` profiles, of which the first `profile_total[0]` are in use.
A scalar that changes lives in an array of length one.

Symbols of docs/model.md: beta = weight, beta_0 = remainder, theta = level_profile, gamma =
weight_concentration, (a, b) = record_concentration, alpha of `mixed` = shared_concentration,
lambda = base_strength, pi = base_level, V(f, m) = eppf[f, m], m_k = profile_tables, N_kjx = level_count.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Records(NamedTuple):
    """The answers of all records, as integers.

    level : int32 (n, J)
        Level of each answer, -1 where the answer is missing: it has no seat, or with rules an unknown level.
    answer_total : int64 (n,)
        Number of answers of record i that have a seat.
    level_start : int64 (J + 1,)
        First level of each variable; the last entry is the number of levels.
    """

    level: NDArray[np.int32]
    answer_total: Integers
    level_start: Integers


class Rules(NamedTuple):
    """Impossible combinations, as disjoint boxes; all arrays are empty without rules.

    A box confines some variables, each to a *set* of its levels. A *type* is a block of answers that an imputed person
    of a box may have: some of the box's sets.

    set_variable : int64 (S,)
    set_start : int64 (S + 1,)
    set_level : int64 (set_start[S],)
        The levels of each set, one set after the other.
    box_start, box_set : int64 (C + 1,), (box_start[C],)
        The sets of each box.
    box_type_start, box_type : int64 (C + 1,), (box_type_start[C],)
        The type of each non-empty subset of a box's sets, by bit mask (entry 0 is not used).
    type_start, type_set : int64 (T + 1,), (type_start[T],)
        The sets of each type.
    possible_start, possible_set : int64 (D + 1,), (possible_start[D],)
        The sets of the disjoint boxes that hold the possible cells.
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
    """Return rules under which everything is possible."""
    none, start = np.zeros(0, np.int64), np.zeros(1, np.int64)
    return Rules(none, start, none, start, none, start, none, start, none, start, none)


def has_rules(rules: Rules) -> bool:
    """Say whether anything is impossible."""
    return len(rules.box_start) > 1


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
        Normal priors: log(lambda_j / d_j), log(a / b), log a, all with mean 0.
    rules : Rules
        Impossible combinations.
    """

    finite: bool
    adaptive: bool
    weight_concentration: Floats
    shared_concentration: Floats
    strength_sd: float
    mean_sd: float
    shape_sd: float
    rules: Rules


class Tuning(NamedTuple):
    """How a sweep without rules moves; the law that it samples does not depend on it.

    split_merge_proposals : int
        Proposals in each sweep.
    membership_rate : float
        Probability that a sweep draws concentrations and memberships together.
    label_passes : int
        Further draws of labels, weights and profiles in each sweep.
    """

    split_merge_proposals: int = 4
    membership_rate: float = 0.2
    label_passes: int = 1


class State(NamedTuple):
    """All that a sweep carries to the next one; with the generator, a checkpoint.

    seat : uint8 (n, J)
        Table at which answer (i, j) sits, 0 <= seat < table_total[i]; 255 where it has no seat.
    table_size : uint8 (n, J)
        Answers at each table, 0 beyond table_total[i].
    table_label : int32 (n, J)
        Profile of each table.
    table_total : int64 (n,)
        Number of tables of record i.
    profile_total : int64 (1,)
    weight : float64 (capacity,)
    remainder : float64 (1,)
        Weight of all profiles not yet seen; 0 in `mixed`.
    level_profile : float64 (levels, capacity)
        Probability of each level in each profile; the levels of one variable sum to one.
    profile_tables : int64 (capacity,)
        Tables with this label, of records and of imputed people.
    level_count : int64 (levels, capacity)
        Answers by level and profile, of records and of imputed people.
    weight_concentration : float64 (1,)
    record_concentration : float64 (2,)
        Shape and rate of the gamma distribution of the records' concentrations (`hdp`).
    shared_concentration : float64 (1,)
        The one concentration of `mixed`.
    base_strength : float64 (J,)
    base_level : float64 (levels,)
    eppf : float64 (J + 1, J + 2)
        eppf[f, m] = V(f, m), the prior weight of m tables for f answers; kept in step with the
        concentrations. Row 0 and column 0 are not used.
    augmented_total : int64 (1,)
        Imputed impossible people; 0 without rules.
    augmented_tables : int64 (J + 1, J + 1)
        Imputed people by number of answers and of tables.
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
    eppf: Floats
    augmented_total: Integers
    augmented_tables: Integers
