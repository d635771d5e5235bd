"""Augmented records: the impossible records that make up for the truncation by rules (docs/model.md section 5).

Given weights and profiles, the remainder broken until it hardly matters, P(B) the probability of box B, n records:
    Y ~ Gamma(n, 1) / (1 - p_0),   n_B ~ Poisson(Y P(B))      (a negative multinomial)
records of box B, with answers only for the variables that B restricts. They are counts, never listed one by one, and
their seatings follow the sums of cells.py backwards: the n_B records have b blocks with weights V(f, b) A(all, b), and
those with a set S left to seat in b blocks have the block T that holds min(S) with weights
(|T| - 1)! phi(T) A(S - T, b - 1). Each draw is a multinomial, and counts that reach the same (S, b) are added. A block
is a table of its profile: the blocks of a type are allocated to profiles by a multinomial with weights beta_k prod
theta_{j,A}.

Last come the levels: an answer of a block in profile k has level x of its set A with probability
theta^(k)_x / theta^(k)_A, independently for each variable. The counts N_kjx need only sums over blocks.
"""

from keyhole.kernels.boxes import fill_set_factors, sum_box, sum_possible
from keyhole.kernels.distributions import draw_binomial, draw_categorical
from keyhole.kernels.jit import allocating, inner
from keyhole.kernels.profiles import draw_row_given, make_profile_arrays, open_profile
from keyhole.kernels.work import FULL, OK


@inner
def append_remainder(arrays):
    """Write the remainder as a further profile with the base levels; return the number of profiles including it."""
    profiles = arrays.profile_total[0]
    if profiles == arrays.weight.shape[0]:
        arrays.status[0] = FULL
        return profiles
    arrays.weight[profiles] = arrays.remainder[0]
    for v in range(arrays.base_level.shape[0]):
        arrays.level_profile[v, profiles] = arrays.base_level[v]
    return profiles + 1


@allocating
def weigh_possible(rules, arrays, set_factor, eppf, cells, box_probability):
    """Fill the probabilities of all sets and boxes; return 1 - p_0."""
    profiles = append_remainder(arrays)
    fill_set_factors(rules, arrays.level_profile, profiles, set_factor)
    return sum_possible(rules, arrays.weight, profiles, set_factor, eppf, cells, box_probability)


@inner
def seat_box(rng, rules, box, people, eppf, cells, seat_count, type_total, augmented_tables):
    """Seat this many augmented records of a box whose sums are filled; count their blocks by type."""
    size = rules.box_start[box + 1] - rules.box_start[box]
    half = 1 << (size - 1)
    seat_count[: half + 1, : size + 1] = 0
    rest_weight = 0.0
    for b in range(1, size + 1):
        rest_weight += eppf[size, b] * cells.total[b - 1, 0]
    left_people = people
    for b in range(1, size + 1):
        weight = eppf[size, b] * cells.total[b - 1, 0]
        chosen = left_people if b == size else draw_binomial(rng, left_people, weight / rest_weight)
        rest_weight -= weight
        left_people -= chosen
        seat_count[half, b] = chosen
        augmented_tables[size, b] += chosen
    for rest in range(half, 0, -1):
        low = rest & -rest if rest < half else 0
        others = rest ^ low if rest < half else half - 1
        first = 0 if rest < half else 1
        for b in range(1, size + 1):
            left_people = seat_count[rest, b]
            if left_people == 0:
                continue
            rest_weight = cells.sums[rest, b - 1, 0] if rest < half else cells.total[b - 1, 0]
            taken = others
            last_block, last_left = -1, 0
            while left_people > 0:
                left = others ^ taken
                if cells.members[left] >= b - 1 and (left > 0) == (b > 1):
                    block = (low | taken) << 1 | first
                    weight = cells.block[block, 0] * (cells.sums[left, b - 2, 0] if b > 1 else 1.0)
                    chosen = draw_binomial(rng, left_people, weight / rest_weight) if weight > 0.0 else 0
                    rest_weight -= weight
                    if weight > 0.0:
                        last_block, last_left = block, left
                    if chosen > 0:
                        type_total[rules.box_type[rules.box_type_start[box] + block]] += chosen
                        seat_count[left, b - 1] += chosen
                        left_people -= chosen
                if taken == 0:
                    break
                taken = (taken - 1) & others
            if left_people > 0:
                # Records left over by rounding go to the last possible block.
                type_total[rules.box_type[rules.box_type_start[box] + last_block]] += left_people
                seat_count[last_left, b - 1] += left_people


@inner
def draw_by_halves(rng, total, cumulative, size, out, stack):
    """Write Multinomial(total) with weights cumulative[k + 1] - cumulative[k] to out[:size], by halving the range.

    Halves with a count of zero are skipped: with few heavy profiles among many this is much faster than one binomial
    for each profile.
    """
    for k in range(size):
        out[k] = 0
    depth = 1
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, size, total
    while depth > 0:
        depth -= 1
        low, high, count = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        if high - low == 1:
            out[low] = count
            continue
        middle = (low + high) // 2
        whole = cumulative[high] - cumulative[low]
        part = cumulative[middle] - cumulative[low]
        lower = draw_binomial(rng, count, part / whole) if whole > 0.0 else count
        if lower > 0:
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = low, middle, lower
            depth += 1
        if lower < count:
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = middle, high, count - lower
            depth += 1


@allocating
def open_block_profile(rng, rules, arrays, level, seat, set_factor, kind):
    """Open a profile for one augmented block of this type that chose the remainder; return its index."""
    k = open_profile(rng, arrays, level, seat, -1, -1)
    if arrays.status[0] != OK:
        return k
    # Draw theta of the block's variables given one level of each of its sets; the others keep their draw from H.
    for x in range(rules.type_start[kind], rules.type_start[kind + 1]):
        s = rules.type_set[x]
        first, last = rules.set_start[s], rules.set_start[s + 1]
        for y in range(first, last):
            arrays.level_shape[y - first] = arrays.base_level[rules.set_level[y]]
        chosen = rules.set_level[first + draw_categorical(rng, arrays.level_shape, last - first)]
        j = rules.set_variable[s]
        draw_row_given(rng, arrays, k, j, chosen, arrays.level_shape)
        for v in range(arrays.level_start[j], arrays.level_start[j + 1]):
            arrays.level_profile[v, k] = arrays.level_shape[v]
    append_remainder(arrays)
    fill_set_factors(rules, arrays.level_profile, arrays.profile_total[0] + 1, set_factor)
    return k


@inner
def block_weight(rules, kind, k, weight, set_factor):
    """Return beta_k prod theta_{j,A} over the sets of a type."""
    product = weight[k]
    for x in range(rules.type_start[kind], rules.type_start[kind + 1]):
        product *= set_factor[rules.type_set[x], k]
    return product


@allocating
def spread_blocks(
    rng, rules, arrays, finite, level, seat, set_factor, kind, total, block_count, cumulative, stack
):  # fmt: skip
    """Allocate the blocks of a type to profiles; those that choose the remainder open new profiles, one at a time."""
    profiles = arrays.profile_total[0]
    cumulative[0] = 0.0
    for k in range(profiles):
        product = arrays.weight[k]
        for x in range(rules.type_start[kind], rules.type_start[kind + 1]):
            product *= set_factor[rules.type_set[x], k]
        cumulative[k + 1] = cumulative[k] + product
    known = cumulative[profiles]
    beyond = 0
    if not finite:
        unseen = block_weight(rules, kind, profiles, arrays.weight, set_factor)
        beyond = draw_binomial(rng, total, unseen / (unseen + known))
    counts = block_count[kind]
    draw_by_halves(rng, total - beyond, cumulative, profiles, counts, stack)
    for k in range(profiles):
        arrays.profile_tables[k] += counts[k]
    while beyond > 0:
        k = open_block_profile(rng, rules, arrays, level, seat, set_factor, kind)
        if arrays.status[0] != OK:
            return
        block_count[:, k] = 0
        joined = block_weight(rules, kind, k, arrays.weight, set_factor)
        unseen = block_weight(rules, kind, k + 1, arrays.weight, set_factor)
        counts[k] = 1 + draw_binomial(rng, beyond - 1, joined / (joined + unseen))
        arrays.profile_tables[k] += counts[k]
        beyond -= counts[k]


@allocating
def draw_augmented_records(rng, records, prior, state, work):
    """Draw the augmented records: their seatings, and the profile of every block."""
    state.augmented_total[0] = 0
    state.augmented_tables[:, :] = 0
    work.type_total[:] = 0
    n = records.level.shape[0]
    boxes = work.box_probability.shape[0]
    if boxes == 0 or n == 0:
        return
    rules, cells, set_factor, probability = prior.rules, work.cells, work.set_factor, work.box_probability
    arrays = make_profile_arrays(records, prior, state, work)
    possible = weigh_possible(rules, arrays, set_factor, state.eppf, cells, probability)
    # Augmented records are independent only given all of G_0: make the profiles in its remainder explicit.
    while not prior.finite and state.remainder[0] * n / possible >= 1e-4:
        open_profile(rng, arrays, records.level, state.seat, -1, -1)
        if work.status[0] != OK:
            return
    possible = weigh_possible(rules, arrays, set_factor, state.eppf, cells, probability)
    if work.status[0] != OK:
        return
    intensity = rng.standard_gamma(float(n)) / possible
    profiles = state.profile_total[0] + 1
    for box in range(boxes):
        people = rng.poisson(intensity * probability[box])
        if people > 0:
            state.augmented_total[0] += people
            sum_box(rules.box_start, rules.box_set, box, state.weight, profiles, set_factor, cells)
            seat_box(
                rng, rules, box, people, state.eppf, cells, work.seat_count, work.type_total,
                state.augmented_tables,
            )  # fmt: skip
    for kind in range(work.type_total.shape[0]):
        if work.type_total[kind] > 0:
            spread_blocks(
                rng, rules, arrays, prior.finite, records.level, state.seat, set_factor, kind,
                work.type_total[kind], work.block_count, work.profile_shape, work.stack,
            )  # fmt: skip
            if work.status[0] != OK:
                return


@inner
def draw_set_levels(rng, rules, s, k, count, level_profile, level_count):
    """Draw the levels of `count` answers within a set, and add them to the counts of profile k."""
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
def draw_augmented_answers(rng, records, prior, state, work):
    """Draw the levels of the augmented answers, and add them to the counts of every profile."""
    rules = prior.rules
    for kind in range(work.type_total.shape[0]):
        if work.type_total[kind] == 0:
            continue
        for k in range(state.profile_total[0]):
            count = work.block_count[kind, k]
            if count > 0:
                for x in range(rules.type_start[kind], rules.type_start[kind + 1]):
                    draw_set_levels(rng, rules, rules.type_set[x], k, count, state.level_profile, state.level_count)
