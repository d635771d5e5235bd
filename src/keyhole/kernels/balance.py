"""Weights, profiles and concentrations under the rules, with the impossible people integrated out.

Given the seats and labels of n records, m_k tables and N_kv answers, weights and profiles have density
    Dirichlet(beta | m, gamma) prod_kj Dirichlet(theta_kj | lambda_j pi_j + N_kj) (1 - p_0)^-n.
Drawn given imputed people they move in steps of 1 / sqrt(people), real and imputed: with thirty impossible people for
each record a chain forgets its start only after many thousand sweeps. Here they move on the density itself, 1 - p_0
being found exactly, one coordinate at a time, in steps of random length:
    weight   log(beta_k / (1 - beta_k)) is shifted, the other weights keep their ratios;
    level    log(theta_v / (1 - theta_v)) of one level of one profile is shifted, the other levels keep their ratios,
             and half of the time beta_k moves against it, so that the profile sends as many people as before to
             where they are possible.
The profile is picked among those that have tables of records; or, in `hdp`, among all, k with probability beta_k.
The latter is one more draw from G_0 that is made and forgotten: with it beta_k has the shape m_k + 1 in place of m_k.

A move is first judged by a guess of 1 - p_0, in which only people whose answers all come from one profile change; the
exact one is a hundred times dearer and found only for moves that pass (Christen and Fox 2005). The ratio of the second
stage has the first stage's probability of the way back, guessed from the new state, over that of the way there.
"""

import math

from keyhole.kernels.balanced_concentrations import (
    SMALL_STEP,
    SMALLEST,
    STEP_RANGE,
    move_concentrations,
    move_weight_concentration,
)
from keyhole.kernels.boxes import fill_set_factors
from keyhole.kernels.glide import glide_profiles
from keyhole.kernels.grid import accept_trial, fill_phi, move_phi, multiply_all, multiply_out, sum_grid, swap_levels
from keyhole.kernels.impossible import append_remainder
from keyhole.kernels.jit import inner
from keyhole.kernels.openings import make_book, open_profile
from keyhole.kernels.rebirths import draw_rebirths
from keyhole.kernels.work import OK

LARGEST = 1.0 - 1e-12
STICK_MOVES = 1
NEGLIGIBLE = 1e-8
"""People of the sample, impossible ones included, that profiles not yet seen may hold."""


@inner
def shift_logit(value, rest, shift):
    """Return what a share and its rest become when their log odds are shifted."""
    log_odds = math.log(value) - math.log(rest) + shift
    if log_odds > 0.0:
        small = math.exp(-log_odds)
        return 1.0 / (1.0 + small), small / (1.0 + small)
    small = math.exp(log_odds)
    return small / (1.0 + small), 1.0 / (1.0 + small)


@inner
def pick_profile(rng, finite, weight, profiles, real_profiles, profile_tables, tables, gamma):
    """Pick the profile that moves; return it, and the two shapes of the beta density of its weight."""
    if finite:
        k = int(rng.random() * profiles)
        return k, 1.0 + profile_tables[k], tables - profile_tables[k] + profiles - 1.0
    if rng.random() < 0.5:
        u = rng.random()
        for k in range(profiles):
            if u < weight[k]:
                return k, profile_tables[k] + 1.0, tables - profile_tables[k] + gamma
            u -= weight[k]
        return -1, 0.0, 0.0
    wanted = int(rng.random() * real_profiles)
    for k in range(profiles):
        if profile_tables[k] > 0:
            if wanted == 0:
                return k, float(profile_tables[k]), tables - profile_tables[k] + gamma
            wanted -= 1
    return -1, 0.0, 0.0


@inner
def propose_levels(
    rng, level_start, grid_variable, base_strength, base_level, level_count, level_profile, k, step, out
):
    """Shift one level of one confined variable of profile k; return the variable and the log density gained.

    `out` has the proposed row. The variable is -1 if the level cannot be moved.
    """
    j = grid_variable[int(rng.random() * grid_variable.shape[0])]
    first, last = level_start[j], level_start[j + 1]
    chosen = first + int(rng.random() * (last - first))
    shift = step * rng.standard_normal()
    rest = 0.0
    answers = 0
    for v in range(first, last):
        answers += level_count[v, k]
        if v != chosen:
            rest += level_profile[v, k]
    value = level_profile[chosen, k]
    if value < SMALLEST or rest < SMALLEST:
        return -1, 0.0
    new_value, new_rest = shift_logit(value, rest, shift)
    if new_value < SMALLEST or new_rest < SMALLEST:
        return -1, 0.0
    for v in range(first, last):
        out[v] = level_profile[v, k] * (new_rest / rest)
    out[chosen] = new_value
    shape = base_strength[j] * base_level[chosen] + level_count[chosen, k]
    others = base_strength[j] + answers - shape
    return j, shape * math.log(new_value / value) + others * math.log(new_rest / rest)


@inner
def prepare_grid(rng, records, prior, state, work):
    """Make profiles not yet seen explicit until they hardly matter, then fill the grid; return 1 - p_0.

    Tallies must be of records alone; people imputed before are forgotten. The remainder is also written behind the
    last profile.
    """
    state.impossible_total[0] = 0
    state.impossible_seating[:, :] = 0
    rules, grid, n = prior.rules, work.grid, records.level.shape[0]
    book = make_book(records, state, work)
    while True:
        last = append_remainder(book)
        if work.status[0] != OK:
            return 1.0
        fill_set_factors(rules, state.level_profile, last, work.set_factor)
        fill_phi(rules.grid_set, state.weight, last, work.set_factor, grid.factor, grid.own, grid.phi)
        share = sum_grid(grid.phi, state.seating, rules.grid_possible[0] == 1, grid)
        if prior.finite or state.remainder[0] * n < NEGLIGIBLE * share:
            return share
        while state.remainder[0] * n >= NEGLIGIBLE * share:
            open_profile(rng, book, records.level, state.seat, -1, -1)
            if work.status[0] != OK:
                return 1.0


@inner
def sum_all(phi):
    """Return the sum over boxes of phi for the set of all variables."""
    value = 0.0
    for group in range(phi.shape[0]):
        for lane in range(phi.shape[2]):
            value += phi[group, -1, lane]
    return value


@inner
def move_profiles(rng, records, prior, state, work, share):
    """Make prior.balance_moves moves of weights and levels; return 1 - p_0."""
    rules, grid, finite, people = prior.rules, work.grid, prior.finite, records.level.shape[0]
    weight, profiles, set_factor = state.weight, state.profile_total[0], work.set_factor
    possible_grid = rules.grid_possible[0] == 1
    confined = rules.grid_set.shape[0]
    slope = state.seating[confined, 1] * grid.scale[-1] * (1.0 if possible_grid else -1.0)
    tables, real_profiles = 0, 0
    for k in range(profiles):
        tables += state.profile_tables[k]
        real_profiles += state.profile_tables[k] > 0
    for _ in range(prior.balance_moves):
        k, shape, others = pick_profile(
            rng, finite, weight, profiles, real_profiles, state.profile_tables, tables, state.weight_concentration[0]
        )
        step = math.exp(SMALL_STEP + STEP_RANGE * rng.random())
        kind = rng.random()
        if k < 0 or weight[k] < SMALLEST or weight[k] > LARGEST:
            continue
        j, gain, shift = -1, 0.0, 0.0
        before = multiply_all(rules.grid_set, set_factor, k)
        after = before
        if kind < 0.3:
            shift = step * rng.standard_normal()
        else:
            j, gain = propose_levels(
                rng, records.level_start, rules.grid_variable, state.base_strength, state.base_level,
                state.level_count, state.level_profile, k, step, grid.level,
            )  # fmt: skip
            if j < 0:
                continue
            swap_levels(rules, j, records.level_start, grid.level, state.level_profile, set_factor, k)
            after = multiply_all(rules.grid_set, set_factor, k)
        if kind >= 0.65:
            own, moved = (before, after) if possible_grid else (1.0 - before, 1.0 - after)
            if own > SMALLEST and moved > SMALLEST:
                shift = math.log(own) - math.log(moved)
        new, rest = shift_logit(weight[k], 1.0 - weight[k], shift)
        scale = rest / (1.0 - weight[k])
        accepted = new >= SMALLEST and new <= LARGEST
        if accepted:
            gain += shape * math.log(new / weight[k]) + others * math.log(scale)
            single = sum_all(grid.phi)
            change = slope * (scale * (single - weight[k] * before) + new * after - single)
            there = -math.inf
            if share + change > 0.0:
                there = gain - people * math.log1p(change / share)
            accepted = -rng.standard_exponential() < there
        if accepted:
            multiply_out(rules.grid_set, set_factor, k, grid.factor, grid.moved)
            if j >= 0:
                swap_levels(rules, j, records.level_start, grid.level, state.level_profile, set_factor, k)
            multiply_out(rules.grid_set, set_factor, k, grid.factor, grid.own)
            if j >= 0:
                swap_levels(rules, j, records.level_start, grid.level, state.level_profile, set_factor, k)
            move_phi(grid.phi, grid.own, grid.moved, weight[k], new, scale, grid.trial)
            new_share = sum_grid(grid.trial, state.seating, possible_grid, grid)
            accepted = new_share > 0.0 and new_share > change
            if accepted:
                back = -gain - people * math.log1p(-change / new_share)
                gain -= people * math.log(new_share / share)
                accepted = -rng.standard_exponential() < gain + min(back, 0.0) - min(there, 0.0)
        if not accepted:
            if j >= 0:
                swap_levels(rules, j, records.level_start, grid.level, state.level_profile, set_factor, k)
            continue
        share = new_share
        accept_trial(grid)
        for other in range(profiles + 1):
            weight[other] *= scale
        weight[k] = new
        state.remainder[0] = weight[profiles]
    return share


@inner
def draw_balance(rng, records, prior, state, work):
    """Move weights, profiles and concentrations; nothing without rules."""
    if prior.balance_moves == 0 or prior.rules.grid_set.shape[1] == 0 or records.level.shape[0] == 0:
        return
    share = prepare_grid(rng, records, prior, state, work)
    if work.status[0] != OK:
        return
    share = draw_rebirths(rng, records, prior, state, work, share)
    if prior.glide_steps > 0:
        share = glide_profiles(rng, records, prior, state, work, share)
    share = move_profiles(rng, records, prior, state, work, share)
    for _ in range(0 if prior.finite else STICK_MOVES):
        share = move_weight_concentration(rng, records, prior, state, work, share)
    move_concentrations(rng, records, prior, state, work, share)
