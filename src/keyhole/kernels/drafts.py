"""Many moves on a rough density, then one look at the true one: weights, rows and their base under the rules.

The density of balance.py is dear for 1 - p_0 alone. When hardly anybody draws answers from more than one profile,
1 - p_0 goes nearly as sum_k beta_k s_k, s_k the probability that answers of profile k alone are possible. With that in
its place a move costs less than a microsecond, and a draft is a chain of many, each reversible on the rough density;
where it ends is accepted with probability
    [(1 - p_0) / (1 - p_0)' * sum beta' s' / sum beta s]^n
(the surrogate transitions of Liu 2001, section 9.4.3). Moves of a draft:
    class    log(y / (1 - y)), y the sum of a class of levels that no rule tells apart in one row of a profile, is shifted,
             and beta_k goes with 1 / s_k, so that the profile sends as many people as before to where they are possible;
    weight   log beta_k is shifted;
    base     lambda_j and pi_j, with the rows of all profiles in tow (balanced_base.py), and weights as above.
Weights are kept unnormalised, omega, their sum S, and Q = sum omega s: with R, the weight of profiles without tables,
standing still, their density in log (beta_k / R) is
    prod_k omega_k^m_k S^-(M + gamma) (Q / S)^-n,    M = sum m_k;     `mixed`: m_k + 1 for m_k, and gamma = 0.
"""

import math

from keyhole.kernels.balanced_base import carry_row, fill_sets, propose_base
from keyhole.kernels.balanced_concentrations import SMALL_STEP, SMALLEST, STEP_RANGE
from keyhole.kernels.grid import accept_trial, fill_phi, multiply_all, sum_grid, swap_levels
from keyhole.kernels.jit import inner

DRAFTS = 4
SHORTEST, LENGTHS = 16, 7
"""A draft has 16, 32, ... or 1,024 moves."""

BASE_SHARE, WEIGHT_SHARE = 0.03, 0.12
"""Part of the moves that shift the base of a variable, and a weight."""


@inner
def own_share(rules, set_factor, k):
    """Return the probability that answers which all come from profile k are possible."""
    value = multiply_all(rules.grid_set, set_factor, k)
    return value if rules.grid_possible[0] == 1 else 1.0 - value


@inner
def shift_class(rng, level_start, rules, base_strength, base_level, level_count, level_profile, k, out):
    """Shift the sum of one class of one confined variable of profile k; return the variable and the density gained.

    `out` has the proposed row. The variable is -1 if the class cannot be moved.
    """
    j = rules.grid_variable[int(rng.random() * rules.grid_variable.shape[0])]
    first, last = level_start[j], level_start[j + 1]
    classes = 0
    for v in range(first, last):
        classes = max(classes, rules.level_class[v] + 1)
    chosen = int(rng.random() * classes)
    shift = math.exp(SMALL_STEP + STEP_RANGE * rng.random()) * rng.standard_normal()
    value, rest, shape, others = 0.0, 0.0, 0.0, 0.0
    for v in range(first, last):
        if rules.level_class[v] == chosen:
            value += level_profile[v, k]
            shape += base_strength[j] * base_level[v] + level_count[v, k]
        else:
            rest += level_profile[v, k]
            others += base_strength[j] * base_level[v] + level_count[v, k]
    if value < SMALLEST or rest < SMALLEST:
        return -1, 0.0
    new_value = 1.0 / (1.0 + rest / value * math.exp(-shift))
    new_rest = 1.0 / (1.0 + value / rest * math.exp(shift))
    if new_value < SMALLEST or new_rest < SMALLEST:
        return -1, 0.0
    for v in range(first, last):
        if rules.level_class[v] == chosen:
            out[v] = level_profile[v, k] * (new_value / value)
        else:
            out[v] = level_profile[v, k] * (new_rest / rest)
    return j, shape * math.log(new_value / value) + others * math.log(new_rest / rest)


@inner
def draft_profile(rng, records, rules, state, work, k, tables, people, shape, own, sums):
    """Move one class or the weight of profile k on the rough density. own: s_k; sums: S and Q; tables: M + gamma."""
    weight, set_factor, level = state.weight, work.set_factor, work.grid.level
    if weight[k] < SMALLEST:
        return
    j, gain, new_own = -1, 0.0, own[k]
    if rng.random() < WEIGHT_SHARE:
        shift = math.exp(SMALL_STEP + STEP_RANGE * rng.random()) * rng.standard_normal()
        new = weight[k] * math.exp(shift)
    else:
        j, gain = shift_class(
            rng, records.level_start, rules, state.base_strength, state.base_level, state.level_count,
            state.level_profile, k, level,
        )  # fmt: skip
        if j < 0:
            return
        swap_levels(rules, j, records.level_start, level, state.level_profile, set_factor, k)
        new_own = own_share(rules, set_factor, k)
        new = weight[k] * (own[k] / new_own) if new_own > SMALLEST and own[k] > SMALLEST else 0.0
    accepted = SMALLEST < new < 1.0 / SMALLEST
    if accepted:
        new_sum = sums[0] + (new - weight[k])
        new_possible = sums[1] + (new * new_own - weight[k] * own[k])
        accepted = new_sum > 0.0 and new_possible > 0.0
    if accepted:
        gain += shape * math.log(new / weight[k]) - (tables - people) * math.log(new_sum / sums[0])
        accepted = -rng.standard_exponential() < gain - people * math.log(new_possible / sums[1])
    if accepted:
        weight[k], own[k], sums[0], sums[1] = new, new_own, new_sum, new_possible
    elif j >= 0:
        swap_levels(rules, j, records.level_start, level, state.level_profile, set_factor, k)


@inner
def draft_base(rng, records, prior, state, work, tables, people, extra, own, new_own, sums):
    """Move the base of one confined variable with the rows of all profiles, on the rough density."""
    rules, grid, set_factor, row = prior.rules, work.grid, work.set_factor, work.weighted
    profiles, weight, new = state.profile_total[0], state.weight, work.product
    j = rules.grid_variable[int(rng.random() * rules.grid_variable.shape[0])]
    first, last = records.level_start[j], records.level_start[j + 1]
    strength = state.base_strength[j]
    base = grid.base
    new_strength, gain, classes = propose_base(
        rng, first, last, rules.level_class, strength, state.base_level, prior.strength_sd, base
    )
    if new_strength == 0.0:
        return
    for k in range(profiles):
        gain += carry_row(
            rng, first, last, classes, rules.level_class, strength, new_strength, state.base_level, base,
            state.level_count, state.level_profile, k, row,
        )  # fmt: skip
        if gain == -math.inf:
            return
    for v in range(first, last):
        c = first + rules.level_class[v]
        row[v, profiles] = state.base_level[v] * (base[1, c] / base[0, c] * strength / new_strength)
    fill_sets(rules, j, row, profiles + 1, set_factor)
    new_sum, new_possible, movable = 0.0, 0.0, True
    for k in range(profiles + 1):
        new_own[k] = own_share(rules, set_factor, k)
        new[k] = weight[k]
        if k < profiles and state.profile_tables[k] + extra > 0.0:
            movable = movable and weight[k] > SMALLEST and own[k] > SMALLEST and new_own[k] > SMALLEST
            if movable:
                new[k] = weight[k] * (own[k] / new_own[k])
                gain += (state.profile_tables[k] + extra) * math.log(own[k] / new_own[k])
                movable = SMALLEST < new[k] < 1.0 / SMALLEST
        new_sum += new[k]
        new_possible += new[k] * new_own[k]
    if movable and new_possible > 0.0:
        gain -= (tables - people) * math.log(new_sum / sums[0]) + people * math.log(new_possible / sums[1])
        if -rng.standard_exponential() < gain:
            sums[0], sums[1] = new_sum, new_possible
            state.base_strength[j] = new_strength
            for v in range(first, last):
                state.base_level[v] = row[v, profiles]
                for k in range(profiles + 1):
                    state.level_profile[v, k] = row[v, k]
            for k in range(profiles + 1):
                weight[k], own[k] = new[k], new_own[k]
            return
    fill_sets(rules, j, state.level_profile, profiles + 1, set_factor)


@inner
def keep_place(rules, state, profiles, kept_level, kept_weight, kept_strength, kept_base, back):
    """Note what a draft may change, or put it back."""
    if back:
        state.level_profile[:, : profiles + 1] = kept_level[:, : profiles + 1]
        state.weight[: profiles + 1] = kept_weight[: profiles + 1]
        state.base_strength[:] = kept_strength
        state.base_level[:] = kept_base
    else:
        kept_level[:, : profiles + 1] = state.level_profile[:, : profiles + 1]
        kept_weight[: profiles + 1] = state.weight[: profiles + 1]
        kept_strength[:] = state.base_strength
        kept_base[:] = state.base_level


@inner
def make_drafts(rng, records, prior, state, work, share):
    """Make drafts, each accepted or not as a whole; return 1 - p_0. The grid must be filled, and stays so."""
    rules, grid, draft = prior.rules, work.grid, work.draft
    people, profiles, weight = records.level.shape[0], state.profile_total[0], state.weight
    extra = 1.0 if prior.finite else 0.0
    movable, tables = 0, 0.0 if prior.finite else state.weight_concentration[0]
    for k in range(profiles):
        if state.profile_tables[k] + extra > 0.0:
            work.relabel[movable] = k
            movable += 1
            tables += state.profile_tables[k] + extra
    own, sums = draft.own, draft.sums
    for _ in range(DRAFTS):
        keep_place(rules, state, profiles, draft.level, draft.weight, draft.strength, draft.base, False)
        sums[:] = 0.0
        for k in range(profiles + 1):
            own[k] = own_share(rules, work.set_factor, k)
            sums[0] += weight[k]
            sums[1] += weight[k] * own[k]
        before = sums[1] / sums[0]
        moves = SHORTEST << int(rng.random() * LENGTHS)
        for _ in range(moves):
            # By lot, not in turn: so a draft is as likely backwards.
            if prior.adaptive and rng.random() < BASE_SHARE:
                draft_base(rng, records, prior, state, work, tables, people, extra, own, draft.new_own, sums)
                continue
            k = work.relabel[int(rng.random() * movable)]
            draft_profile(
                rng, records, rules, state, work, k, tables, people, state.profile_tables[k] + extra, own, sums
            )
        total = 0.0
        for k in range(profiles + 1):
            total += weight[k]
        rough = 0.0
        for k in range(profiles + 1):
            weight[k] /= total
            rough += weight[k] * own[k]
        fill_phi(rules.grid_set, weight, profiles + 1, work.set_factor, grid.factor, grid.own, grid.trial)
        new_share = sum_grid(grid.trial, state.seating, rules.grid_possible[0] == 1, grid)
        if new_share > 0.0 and -rng.standard_exponential() < people * math.log(rough / before * (share / new_share)):
            share = new_share
            accept_trial(grid)
            state.remainder[0] = weight[profiles]
            continue
        keep_place(rules, state, profiles, draft.level, draft.weight, draft.strength, draft.base, True)
        for j in range(records.level.shape[1]):
            fill_sets(rules, j, state.level_profile, profiles + 1, work.set_factor)
    return share
