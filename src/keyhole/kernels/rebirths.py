"""Labels under the rules, with profiles that come and go, the impossible people integrated out.

labels.py lets a table choose among profiles whose rows are known. With rules nearly all profiles without records are
explicit (their rows matter for 1 - p_0), and rows drawn for nobody hardly ever suit a table: profiles come and go
rarely, and gamma waits for them. Here a table of a record chooses among the profiles O that other tables have, and one
profile e of the others, E, whose rows are integrated out:
    k in O     with weight  beta_k prod over its answers of theta^(k)_v
    e          with weight  beta_e / q_e prod over its answers of pi_v,
where e is the table's own profile if no other table has it, else it is drawn from E with probability q_e, which goes
by the weights alone: for the move there and the one back q_e and the weights above are the same. If e is chosen its
rows are drawn given the answers, if it is left they are drawn from the base; either is accepted with probability
((1 - p_0) / (1 - p_0'))^n. A step within O leaves all rows as they are. Tables choose from the first to the last or
from the last to the first, which makes a scan reversible.
"""

import math

from keyhole.kernels.draws import draw_cumulative, draw_dirichlet
from keyhole.kernels.grid import accept_trial, move_phi, multiply_out, sum_grid, swap_levels
from keyhole.kernels.jit import inner

SMALL = 0.1
"""Weights that hold less than this many records are picked in proportion to them, larger ones all alike."""


@inner
def share_of_unused(weight, profiles, profile_tables, cap, cumulative):
    """Write cumulative sums of min(weight, cap) over the profiles that no table has; return the last."""
    total = 0.0
    for k in range(profiles):
        if profile_tables[k] == 0:
            total += min(weight[k], cap)
        cumulative[k] = total
    return total


@inner
def weigh_table(records, state, i, t, own, alone, profiles, cumulative):
    """Write cumulative weights of the profiles that other tables have; return prod pi_v, for one with open rows."""
    level, theta = records.level, state.level_profile
    for k in range(profiles):
        used = state.profile_tables[k] > 0 and not (alone and k == own)
        cumulative[k] = state.weight[k] if used else 0.0
    fresh = 1.0
    for j in range(level.shape[1]):
        if state.seat[i, j] == t and level[i, j] >= 0:
            v = level[i, j]
            fresh *= state.base_level[v]
            for k in range(profiles):
                cumulative[k] *= theta[v, k]
    for k in range(1, profiles):
        cumulative[k] += cumulative[k - 1]
    return fresh


@inner
def draw_rows(rng, records, state, i, t, chosen, out):
    """Draw all rows of a profile: given the answers at table t of record i, or from the base."""
    start = records.level_start
    for j in range(start.shape[0] - 1):
        for v in range(start[j], start[j + 1]):
            out[v] = state.base_strength[j] * state.base_level[v]
        if chosen and state.seat[i, j] == t and records.level[i, j] >= 0:
            out[records.level[i, j]] += 1.0
        draw_dirichlet(rng, out[start[j] : start[j + 1]], out[start[j] : start[j + 1]])


@inner
def swap_rows(rules, level_start, level, level_profile, set_factor, k):
    """Exchange all rows of profile k with `level`, and bring its sets into step."""
    for j in range(level_start.shape[0] - 1):
        swap_levels(rules, j, level_start, level, level_profile, set_factor, k)


@inner
def renew_rows(rng, rules, grid, people, level_start, weight, level_profile, set_factor, seating, e, share):
    """Try the rows in grid.level for profile e; return 1 - p_0, and whether they were accepted."""
    multiply_out(rules.grid_set, set_factor, e, grid.factor, grid.own)
    swap_rows(rules, level_start, grid.level, level_profile, set_factor, e)
    multiply_out(rules.grid_set, set_factor, e, grid.factor, grid.moved)
    move_phi(grid.phi, grid.own, grid.moved, weight[e], weight[e], 1.0, grid.trial)
    new_share = sum_grid(grid.trial, seating, rules.grid_possible[0] == 1, grid)
    if new_share > 0.0 and -rng.standard_exponential() < -people * math.log(new_share / share):
        accept_trial(grid)
        return new_share, True
    swap_rows(rules, level_start, grid.level, level_profile, set_factor, e)
    return share, False


@inner
def relabel_table(records, state, i, t, k):
    """Give table t of record i the label k, and bring the tallies into step."""
    own = state.table_label[i, t]
    state.table_label[i, t] = k
    state.profile_tables[own] -= 1
    state.profile_tables[k] += 1
    for j in range(records.level.shape[1]):
        if state.seat[i, j] == t and records.level[i, j] >= 0:
            state.level_count[records.level[i, j], own] -= 1
            state.level_count[records.level[i, j], k] += 1


@inner
def equal_rows(level, i, other):
    """Say whether two records have the same answers."""
    for j in range(level.shape[1]):
        if level[i, j] != level[other, j]:
            return False
    return True


@inner
def draw_rebirths(rng, records, prior, state, work, share):
    """Let every table of every record choose once; return 1 - p_0. The grid must be filled, and stays so."""
    n = records.level.shape[0]
    weight, profiles, tables = state.weight, state.profile_total[0], state.profile_tables
    cap = SMALL / n
    unused = share_of_unused(weight, profiles, tables, cap, work.profile_shape)
    backwards = rng.random() < 0.5
    fresh = 0.0
    # Most records sit at one table, and equal ones are neighbours: until a profile comes or goes they weigh the same.
    weighed = -1
    for place in range(n):
        i = n - 1 - place if backwards else place
        for turn in range(state.table_total[i]):
            t = state.table_total[i] - 1 - turn if backwards else turn
            own = state.table_label[i, t]
            alone = tables[own] == 1
            e = own
            q = min(weight[own], cap)
            if alone:
                q /= unused + q
            else:
                e = draw_cumulative(rng, work.profile_shape, profiles) if unused > 0.0 else -1
                q = min(weight[e], cap) / unused if e >= 0 else 1.0
            shared = state.table_total[i] == 1 and not alone
            if not (shared and weighed >= 0 and equal_rows(records.level, i, weighed)):
                fresh = weigh_table(records, state, i, t, own, alone, profiles, work.product)
                weighed = i if shared else -1
            known = work.product[profiles - 1]
            open_weight = weight[e] / q * fresh if e >= 0 and q > 0.0 else 0.0
            if rng.random() * (known + open_weight) < known:
                k = draw_cumulative(rng, work.product, profiles)
                if not alone:
                    if k != own:
                        relabel_table(records, state, i, t, k)
                    continue
            else:
                k = e
            if k < 0:
                continue
            draw_rows(rng, records, state, i, t, k == e, work.grid.level)
            share, accepted = renew_rows(
                rng, prior.rules, work.grid, n, records.level_start, weight, state.level_profile, work.set_factor,
                state.seating, e, share,
            )  # fmt: skip
            if accepted:
                weighed = -1
            if accepted and k != own:
                relabel_table(records, state, i, t, k)
                unused = share_of_unused(weight, profiles, tables, cap, work.profile_shape)
    return share
