"""Levels of the imputed answers (MODEL.md section 5, last step), all at once or leaf by leaf.

An imputed block of a type, in profile k, has level x of its set A with probability theta^(k)_x / theta^(k)_A, each
variable for itself. For the counts behind theta only sums over blocks are needed (draw_impossible_answers). Split and
merge must know which levels stand together: there a profile's blocks are spread over leaves, and kept (expand_profile).
"""

from keyhole.kernels.draws import draw_binomial
from keyhole.kernels.jit import inner


@inner
def draw_set_levels(rng, rules, s, k, count, level_profile, level_count):
    """Spread `count` answers over the levels of a set, and add them to profile k's counts."""
    first, last = rules.set_start[s], rules.set_start[s + 1]
    rest = 0.0
    for x in range(first, last):
        rest += level_profile[rules.set_level[x], k]
    left = count
    for x in range(first, last):
        v = rules.set_level[x]
        chosen = left if x == last - 1 else draw_binomial(rng, left, level_profile[v, k] / rest)
        rest -= level_profile[v, k]
        level_count[v, k] += chosen
        left -= chosen
        if left == 0:
            return


@inner
def draw_impossible_answers(rng, records, prior, state, work):
    """Add the imputed answers to the counts of every profile whose answers are not known yet."""
    rules = prior.rules
    for kind in range(work.type_total.shape[0]):
        if work.type_total[kind] == 0:
            continue
        for k in range(state.profile_total[0]):
            count = work.block_count[kind, k] if work.slot[k] < 0 else 0
            if count > 0:
                for x in range(rules.type_start[kind], rules.type_start[kind + 1]):
                    draw_set_levels(rng, rules, rules.type_set[x], k, count, state.level_profile, state.level_count)


@inner
def add_leaf(rules, kind, leaf, count, target, answers):
    """Add `count` blocks of a leaf to counts by level and by variable."""
    digits = leaf - rules.leaf_start[kind]
    for x in range(rules.type_start[kind + 1] - 1, rules.type_start[kind] - 1, -1):
        s = rules.type_set[x]
        size = rules.set_start[s + 1] - rules.set_start[s]
        target[rules.set_level[rules.set_start[s] + digits % size]] += count
        answers[rules.set_variable[s]] += count
        digits //= size


@inner
def spread_leaves(rng, rules, kind, k, count, level_profile, leaf, stack):
    """Spread the blocks of one type over its leaves, one variable after the other; `leaf` is a row of Work.leaf."""
    first, last = rules.type_start[kind], rules.type_start[kind + 1]
    depth = 1
    stack[0, 0], stack[0, 1], stack[0, 2] = first, 0, count
    while depth > 0:
        # An entry: the next set to spread over, the digits so far, how many blocks.
        depth -= 1
        x, digits, left = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        if x == last:
            leaf[rules.leaf_start[kind] + digits] += left
            continue
        s = rules.type_set[x]
        begin, end = rules.set_start[s], rules.set_start[s + 1]
        rest = 0.0
        for y in range(begin, end):
            rest += level_profile[rules.set_level[y], k]
        for y in range(begin, end):
            share = level_profile[rules.set_level[y], k]
            chosen = left if y == end - 1 else draw_binomial(rng, left, share / rest)
            rest -= share
            left -= chosen
            if chosen > 0:
                stack[depth, 0], stack[depth, 1], stack[depth, 2] = x + 1, digits * (end - begin) + y - begin, chosen
                depth += 1
            if left == 0:
                break


@inner
def new_slot(slot_total, leaf):
    """Return an empty row of Work.leaf."""
    row = slot_total[0]
    slot_total[0] = row + 1
    leaf[row, :] = 0
    return row


@inner
def expand_profile(
    rng, rules, k, type_total, block_count, slot, slot_total, leaf, level_profile, level_count, answers, stack
):  # fmt: skip
    """Draw the imputed answers of profile k leaf by leaf, unless they are known, and add them to its counts.

    `answers` (J,) is scratch.
    """
    if type_total.shape[0] == 0 or slot[k] >= 0:
        return
    slot[k] = new_slot(slot_total, leaf)
    own = leaf[slot[k]]
    for kind in range(type_total.shape[0]):
        if type_total[kind] == 0 or block_count[kind, k] == 0:
            continue
        spread_leaves(rng, rules, kind, k, block_count[kind, k], level_profile, own, stack)
        for y in range(rules.leaf_start[kind], rules.leaf_start[kind + 1]):
            if own[y] > 0:
                add_leaf(rules, kind, y, own[y], level_count[:, k], answers)
