"""Probabilities of boxes, the events that rules consist of (docs/model.md section 5).

P(B) by cells.py over the variables that the box restricts, with theta_{j,A} = sum over x in A of theta_{j,x}.
"""

from keyhole.kernels.cells import fill_blocks
from keyhole.kernels.jit import inner, kernel
from keyhole.kernels.partitions import sum_partitions


@kernel
def fill_set_factors(rules, level_profile, profiles, set_factor):
    """Fill the probability of every set of levels under every profile."""
    for s in range(rules.set_variable.shape[0]):
        for k in range(profiles):
            set_factor[s, k] = 0.0
        for x in range(rules.set_start[s], rules.set_start[s + 1]):
            v = rules.set_level[x]
            for k in range(profiles):
                set_factor[s, k] += level_profile[v, k]


@inner
def sum_box(start, member_set, box, weight, profiles, set_factor, cells):
    """Fill the sums of cells.py for this box, in lane 0; return how many variables it restricts."""
    size = start[box + 1] - start[box]
    for x in range(size):
        s = member_set[start[box] + x]
        for k in range(profiles):
            cells.factor[x, k] = set_factor[s, k]
    fill_blocks(
        weight, profiles, size, 0, cells.factor, cells.low, cells.high, cells.phi, cells.block, cells.members,
        cells.factorial, 0, 0,
    )  # fmt: skip
    sum_partitions(size, cells.block, cells.sums, cells.total, cells.partitions)
    return size


@inner
def box_probability(start, member_set, box, weight, profiles, set_factor, eppf, cells):
    """Return the probability of a box."""
    size = sum_box(start, member_set, box, weight, profiles, set_factor, cells)
    value = 0.0
    for b in range(size):
        value += eppf[size, b + 1] * cells.total[b, 0]
    return value


@kernel
def sum_possible(rules, weight, profiles, set_factor, eppf, cells, probability):
    """Fill the probability of every impossible box; return 1 - p_0, the mass of the possible cells.

    If nearly everything is impossible the difference 1 - p_0 loses digits, so the possible boxes are summed instead.
    """
    impossible = 0.0
    for box in range(probability.shape[0]):
        probability[box] = box_probability(
            rules.box_start, rules.box_set, box, weight, profiles, set_factor, eppf, cells
        )
        impossible += probability[box]
    if impossible < 0.999:
        return 1.0 - impossible
    possible = 0.0
    for box in range(rules.possible_start.shape[0] - 1):
        possible += box_probability(
            rules.possible_start, rules.possible_set, box, weight, profiles, set_factor, eppf, cells
        )
    return possible
