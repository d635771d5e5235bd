"""Small profiles founded and dissolved under the rules, the impossible people integrated out.

A handful of people who are alike may have a profile of their own or be spread over others; one table at a time
(rebirths.py) the way between leads through states that hardly ever occur, and split and merge (splitmerge.py) must take
imputed people along. Here, with m tables of records in all, weights beta and rows theta known for all profiles,

    found:     a table is picked at random, and tables choose one after the other whether to join it (below);
               the m_e that do get a profile e of weight b and rows theta_e, all other weights times 1 - b;
    dissolve:  a small profile e is picked at random, each of its tables chooses another profile that has tables, with
               probability beta_k f(table | theta_k) / M(table), M = sum_k beta_k f(table | theta_k), and e is gone.

Weights of profiles with tables and R, the weight of all others, have density gamma^K R^(gamma - 1) prod beta_k^(m_k - 1).
So the log ratio of founding, with P profiles that may be dissolved afterwards, S = 1 - p_0 before and S' after, is
    log gamma + (m_e - 1) log b + (m - m_e + gamma - 1) log (1 - b) + log f(tables of e) - sum of log M(table)
    - n log (S' / S) - log q(tables) - log q(b) + log (mean of w / w(theta_e)) + log m - log m_e - log P,
f(tables of e) with rows integrated out, for theta_e is drawn given the tables. A profile whose people are possible with
probability s has n u of the n records if b / (1 - b) = u / (1 - u) S / s: so u ~ Beta(m_e, n - m_e) is drawn, and b
follows. Then what is left of S' is s^-m_e: of several theta_e one is chosen with probability proportional to
w = s^-m_e, and the mean over all of them stands in the ratio; to dissolve, theta_e is one of them.

Joining: odds u S / s f(table | tables of e so far) / M(table), u = m_e / n. As in sides.py a first scan in sequence and
another that lets every table choose again make a launching state, and the last scan is the proposal, or is replayed.
"""

import math
from typing import NamedTuple

import numpy as np

from keyhole.kernels.draws import draw_cumulative, draw_dirichlet, draw_log_gamma, log_rising
from keyhole.kernels.grid import accept_trial, move_phi, multiply_out, sum_grid
from keyhole.kernels.jit import inner
from keyhole.kernels.sides import pick_labelled_table
from keyhole.kernels.state import Floats, Integers, Rules
from keyhole.kernels.work import FULL, TRIES

SCANS = 3
LARGEST = 10
"""Tables of a profile that may be founded or dissolved, and a tenth of the records."""


class Founding(NamedTuple):
    """The arrays of Records, Rules, State and Work that a founding touches, under the same names (cf. Book)."""

    level: np.ndarray
    level_start: Integers
    seat: np.ndarray
    table_total: Integers
    table_label: np.ndarray
    profile_total: Integers
    profile_tables: Integers
    weight: Floats
    level_profile: Floats
    level_count: Integers
    base_strength: Floats
    base_level: Floats
    rules: Rules
    set_factor: Floats
    joined: np.ndarray
    mixture: Floats
    score: Floats
    sets: Floats
    tries: Floats
    count: Integers
    answers: Integers
    moved: Integers
    class_shape: Floats
    class_draw: Floats
    class_sum: Floats
    class_count: Integers


@inner
def make_founding(records, prior, state, work):
    """Gather the arrays."""
    return Founding(
        records.level, records.level_start, state.seat, state.table_total, state.table_label, state.profile_total,
        state.profile_tables, state.weight, state.level_profile, state.level_count, state.base_strength,
        state.base_level, prior.rules, work.set_factor, work.member_side, work.mixture, work.level_shape,
        work.founding_sets, work.founding_rows, work.side_count[0], work.side_answers[0], work.real_tables,
        work.class_shape, work.class_ratio, work.class_sum, work.class_count,
    )  # fmt: skip


@inner
def possible_part(rules, sets):
    """Return the probability that somebody is possible whose answers all come from rows with these sums over sets."""
    variables, boxes = rules.grid_set.shape
    value = 0.0
    for box in range(boxes):
        product = 1.0
        for j in range(variables):
            s = rules.grid_set[j, box]
            if s >= 0:
                product *= sets[s]
        value += product
    return value if rules.grid_possible[0] == 1 else 1.0 - value


@inner
def add_up_sets(rules, rows, sets):
    """Fill the sum over every set of levels."""
    for s in range(sets.shape[0]):
        sets[s] = 0.0
        for x in range(rules.set_start[s], rules.set_start[s + 1]):
            sets[s] += rows[rules.set_level[x]]


@inner
def change_tables(level, seat, i, t, sign, count, answers):
    """Add table t of record i to the counts, or take it away."""
    for j in range(level.shape[1]):
        if seat[i, j] == t and level[i, j] >= 0:
            count[level[i, j]] += sign
            answers[j] += sign


@inner
def score_levels(founding):
    """Fill the probability of each level given the counts; return the share of possible people that goes with it."""
    start, score = founding.level_start, founding.score
    for j in range(start.shape[0] - 1):
        scale = 1.0 / (founding.base_strength[j] + founding.answers[j])
        for v in range(start[j], start[j + 1]):
            score[v] = (founding.base_strength[j] * founding.base_level[v] + founding.count[v]) * scale
    add_up_sets(founding.rules, score, founding.sets)
    return possible_part(founding.rules, founding.sets)


@inner
def weigh_mixture(level, seat, table_total, weight, level_profile, profiles, profile_tables, product, mixture):
    """Fill M of every table, at the place of (record, table)."""
    n, variables = level.shape
    same = -1
    for i in range(n):
        # Most records sit at one table, and equal ones are neighbours: their M is the same.
        if same >= 0 and table_total[i] == 1:
            equal = True
            for j in range(variables):
                equal = equal and level[i, j] == level[same, j]
            if equal:
                mixture[i * variables] = mixture[same * variables]
                continue
        for t in range(table_total[i]):
            for k in range(profiles):
                product[k] = weight[k] if profile_tables[k] > 0 else 0.0
            for j in range(variables):
                if seat[i, j] == t and level[i, j] >= 0:
                    v = level[i, j]
                    for k in range(profiles):
                        product[k] *= level_profile[v, k]
            total = 0.0
            for k in range(profiles):
                total += product[k]
            mixture[i * variables + t] = total
        same = i if table_total[i] == 1 else -1


@inner
def scan_tables(rng, founding, mixture, begin, seed_i, seed_t, size, people, share, first, e):
    """Let every table but the seed choose whether to join, from record `begin` on and round; return m_e and log q.

    first: nobody has joined yet. e >= 0: the choice is replayed, those labelled e join.
    """
    level, seat, label, joined, score = founding.level, founding.seat, founding.table_label, founding.joined, founding.score
    n, variables = level.shape
    factor = size / people * share / max(score_levels(founding), 1e-300)
    log_q = 0.0
    for step in range(n):
        i = begin + step if begin + step < n else begin + step - n
        for t in range(founding.table_total[i]):
            if i == seed_i and t == seed_t:
                continue
            place = i * variables + t
            member = joined[place] == 1 and not first
            if member:
                change_tables(level, seat, i, t, -1, founding.count, founding.answers)
                size -= 1
                factor = size / people * share / max(score_levels(founding), 1e-300)
            odds = factor
            for j in range(variables):
                if seat[i, j] == t and level[i, j] >= 0:
                    odds *= score[level[i, j]]
            odds /= max(mixture[place], 1e-300)
            if e >= 0:
                joins = label[i, t] == e
            else:
                joins = rng.random() * (1.0 + odds) < odds
            log_q += (math.log(odds) if odds > 0.0 else -math.inf) if joins else 0.0
            log_q -= math.log1p(odds)
            joined[place] = 1 if joins else 0
            if joins:
                change_tables(level, seat, i, t, 1, founding.count, founding.answers)
                size += 1
                factor = size / people * share / max(score_levels(founding), 1e-300)
    return size, log_q


@inner
def gather_tables(rng, founding, mixture, i, t, people, share, e):
    """Gather tables around a seed, or replay who is at profile e; return how many and log q. Counts are theirs."""
    founding.count[:] = 0
    founding.answers[:] = 0
    change_tables(founding.level, founding.seat, i, t, 1, founding.count, founding.answers)
    founding.joined[i * founding.level.shape[1] + t] = 1
    begin = int(rng.random() * founding.level.shape[0])
    size, log_q = 1, 0.0
    for scan in range(SCANS):
        replayed = e if scan == SCANS - 1 else -1
        size, log_q = scan_tables(
            rng, founding, mixture, begin, i, t, size, people, share, scan == 0, replayed
        )
    return size, log_q


@inner
def prepare_classes(founding):
    """Add up shapes and counts over classes; return log f of the counted answers but for the sums of rows over classes.

    class_draw: the shapes of the sums that are proposed, lambda_j pi(c) and the share of c among the answers.
    """
    start, of_class = founding.level_start, founding.rules.level_class
    shape, draw, count = founding.class_shape, founding.class_draw, founding.class_count[0]
    shape[:] = 0.0
    count[:] = 0
    value = 0.0
    for j in range(start.shape[0] - 1):
        for v in range(start[j], start[j + 1]):
            level_shape = founding.base_strength[j] * founding.base_level[v]
            shape[of_class[v]] += level_shape
            count[of_class[v]] += founding.count[v]
            value += log_rising(level_shape, founding.count[v])
        answers = founding.answers[j]
        if answers > 0:
            value -= math.lgamma(founding.base_strength[j] + 1.0) - math.lgamma(founding.base_strength[j])
        first, last = of_class[start[j] : start[j + 1]].min(), of_class[start[j] : start[j + 1]].max()
        for c in range(first, last + 1):
            draw[c] = shape[c] + count[c] / max(answers, 1)
            value -= log_rising(shape[c], count[c])
            value += math.lgamma(draw[c]) - math.lgamma(shape[c])
    return value


@inner
def draw_rows(rng, founding, out):
    """Draw rows: sums over classes as proposed, within classes given the counts."""
    start, of_class = founding.level_start, founding.rules.level_class
    for j in range(start.shape[0] - 1):
        begin, end = start[j], start[j + 1]
        first, last = of_class[begin:end].min(), of_class[begin:end].max() + 1
        sums = founding.class_sum[first:last]
        draw_dirichlet(rng, founding.class_draw[first:last], sums)
        for c in range(first, last):
            founding.score[c] = -math.inf
        for v in range(begin, end):
            out[v] = draw_log_gamma(rng, founding.base_strength[j] * founding.base_level[v] + founding.count[v])
            founding.score[of_class[v]] = max(founding.score[of_class[v]], out[v])
        for v in range(begin, end):
            out[v] = math.exp(out[v] - founding.score[of_class[v]])
        for c in range(first, last):
            total = 0.0
            for v in range(begin, end):
                if of_class[v] == c:
                    total += out[v]
            for v in range(begin, end):
                if of_class[v] == c:
                    out[v] *= founding.class_sum[c] / total


@inner
def weigh_rows(founding, rows, size):
    """Return log w of some rows, and their s."""
    of_class, sums = founding.rules.level_class, founding.class_sum
    sums[:] = 0.0
    for v in range(of_class.shape[0]):
        sums[of_class[v]] += rows[v]
    value = 0.0
    for c in range(sums.shape[0]):
        power = founding.class_count[0, c] - (founding.class_draw[c] - founding.class_shape[c])
        if founding.class_count[0, c] > 0:
            value += power * math.log(max(sums[c], 1e-300))
    add_up_sets(founding.rules, rows, founding.sets)
    part = max(possible_part(founding.rules, founding.sets), 1e-300)
    return value - size * math.log(part), part


@inner
def draw_tries(rng, founding, size, e):
    """Draw rows several times and choose one; return it, log (mean of w s^m_e), and its s.

    e >= 0: the first are the rows of profile e, and they are chosen.
    """
    tries = founding.tries
    score = tries[:, -1]
    most = -math.inf
    for x in range(TRIES):
        if x == 0 and e >= 0:
            for v in range(founding.count.shape[0]):
                tries[x, v] = founding.level_profile[v, e]
        else:
            draw_rows(rng, founding, tries[x])
        score[x], _ = weigh_rows(founding, tries[x], size)
        most = max(most, score[x])
    total = 0.0
    for x in range(TRIES):
        total += math.exp(score[x] - most)
    chosen = 0
    if e < 0:
        u = rng.random() * total
        while chosen < TRIES - 1 and u >= math.exp(score[chosen] - most):
            u -= math.exp(score[chosen] - most)
            chosen += 1
    _, part = weigh_rows(founding, tries[chosen], size)
    return chosen, most + math.log(total / TRIES) + size * math.log(part), part


@inner
def log_weight_ratio(people, tables, gamma, size, odds, part, share):
    """Return the log density of a weight b in the target over that of its proposal; odds = b / (1 - b), part = s."""
    others = max(people - size, 1)
    ratio = odds * part / share
    value = math.log(gamma) + (size - 1) * math.log(odds) - (tables + gamma) * math.log1p(odds)
    value -= (size - 1) * math.log(ratio) - (size + others) * math.log1p(ratio) + math.log(part / share)
    return value + math.lgamma(size) + math.lgamma(others) - math.lgamma(size + others)


@inner
def count_small(profiles, profile_tables, largest, moved):
    """Return how many profiles have from one to `largest` tables, those that are moved taken away."""
    small = 0
    for k in range(profiles):
        small += 0 < profile_tables[k] - moved[k] <= largest
    return small


@inner
def try_founding(rng, founding, grid, seating, people, tables, gamma, largest, share):
    """Propose a profile; return b, 1 - p_0 and the rows that were chosen; b < 0: it is refused."""
    level, label, profiles = founding.level, founding.table_label, founding.profile_total[0]
    n, variables = level.shape
    while True:
        i, t = int(rng.random() * n), int(rng.random() * variables)
        if t < founding.table_total[i]:
            break
    mixture = founding.mixture[0]
    size, log_q = gather_tables(rng, founding, mixture, i, t, people, share, -1)
    if size > largest:
        return -1.0, share, 0
    founding.moved[:profiles] = 0
    log_ratio = prepare_classes(founding) - log_q + math.log(tables) - math.log(size)
    for i in range(n):
        for t in range(founding.table_total[i]):
            if founding.joined[i * variables + t] == 1:
                founding.moved[label[i, t]] += 1
                if founding.moved[label[i, t]] == founding.profile_tables[label[i, t]]:
                    return -1.0, share, 0
                log_ratio -= math.log(max(mixture[i * variables + t], 1e-300))
    chosen, more, part = draw_tries(rng, founding, size, -1)
    ratio = rng.standard_gamma(float(size)) / rng.standard_gamma(float(max(people - size, 1)))
    odds = ratio * share / part
    if not odds > 0.0:
        return -1.0, share, 0
    b = odds / (1.0 + odds)
    log_ratio += more + log_weight_ratio(people, tables, gamma, size, odds, part, share)
    log_ratio -= math.log(1.0 + count_small(profiles, founding.profile_tables, largest, founding.moved))
    add_up_sets(founding.rules, founding.tries[chosen], founding.sets)
    for s in range(founding.sets.shape[0]):
        founding.set_factor[s, profiles + 1] = founding.sets[s]
    multiply_out(founding.rules.grid_set, founding.set_factor, profiles + 1, grid.factor, grid.moved)
    move_phi(grid.phi, grid.phi, grid.moved, 0.0, b, 1.0 - b, grid.trial)
    new_share = sum_grid(grid.trial, seating, founding.rules.grid_possible[0] == 1, grid)
    if new_share > 0.0 and -rng.standard_exponential() < log_ratio - people * math.log(new_share / share):
        return b, new_share, chosen
    return -1.0, share, 0


@inner
def found_profile(founding, grid, b, chosen):
    """Write a profile that was accepted behind the others, before the remainder."""
    e, variables = founding.profile_total[0], founding.level.shape[1]
    weight = founding.weight
    weight[e + 1] = weight[e]
    for k in range(e + 2):
        weight[k] *= 1.0 - b
    weight[e] = b
    for s in range(founding.sets.shape[0]):
        founding.set_factor[s, e + 1] = founding.set_factor[s, e]
        founding.set_factor[s, e] = founding.sets[s]
    for v in range(founding.level_count.shape[0]):
        founding.level_profile[v, e + 1] = founding.base_level[v]
        founding.level_profile[v, e] = founding.tries[chosen, v]
        founding.level_count[v, e] = 0
    founding.profile_tables[e] = 0
    founding.profile_total[0] = e + 1
    for i in range(founding.level.shape[0]):
        for t in range(founding.table_total[i]):
            if founding.joined[i * variables + t] == 1:
                move_table(founding, i, t, e)
    accept_trial(grid)


@inner
def move_table(founding, i, t, k):
    """Give table t of record i the label k, and bring the tallies into step."""
    own = founding.table_label[i, t]
    founding.table_label[i, t] = k
    founding.profile_tables[own] -= 1
    founding.profile_tables[k] += 1
    for j in range(founding.level.shape[1]):
        if founding.seat[i, j] == t and founding.level[i, j] >= 0:
            founding.level_count[founding.level[i, j], own] -= 1
            founding.level_count[founding.level[i, j], k] += 1


@inner
def weigh_others(founding, i, t, e, cumulative):
    """Write cumulative beta_k f(table | theta_k) of the profiles other than e that have tables, beta without e."""
    level, profiles = founding.level, founding.profile_total[0]
    for k in range(profiles):
        used = founding.profile_tables[k] > 0 and k != e
        cumulative[k] = founding.weight[k] / (1.0 - founding.weight[e]) if used else 0.0
    for j in range(level.shape[1]):
        if founding.seat[i, j] == t and level[i, j] >= 0:
            for k in range(profiles):
                cumulative[k] *= founding.level_profile[level[i, j], k]
    for k in range(1, profiles):
        cumulative[k] += cumulative[k - 1]


@inner
def weigh_without(founding, e, cumulative):
    """Fill M of every table in mixture[1] as if profile e were not there; return the sum of log M of its own tables."""
    level, b, variables = founding.level, founding.weight[e], founding.level.shape[1]
    value = 0.0
    for i in range(level.shape[0]):
        for t in range(founding.table_total[i]):
            place = i * variables + t
            if founding.table_label[i, t] == e:
                weigh_others(founding, i, t, e, cumulative)
                founding.mixture[1, place] = cumulative[founding.profile_total[0] - 1]
                value += math.log(max(founding.mixture[1, place], 1e-300))
                continue
            own = b
            for j in range(variables):
                if founding.seat[i, j] == t and level[i, j] >= 0:
                    own *= founding.level_profile[level[i, j], e]
            # What is left of a difference may be rounding; a table of e would be refused there.
            founding.mixture[1, place] = max(founding.mixture[0, place] - own, 0.0) / (1.0 - b)
    return value


@inner
def try_dissolving(rng, founding, grid, seating, people, tables, gamma, largest, share, product):
    """Propose to dissolve a small profile; return it and 1 - p_0 without it; -1: none is, or it is refused."""
    weight, profiles = founding.weight, founding.profile_total[0]
    founding.moved[:profiles] = 0
    small = count_small(profiles, founding.profile_tables, largest, founding.moved)
    if small == 0:
        return -1, share
    wanted, e = int(rng.random() * small), -1
    while wanted >= 0:
        e += 1
        wanted -= 0 < founding.profile_tables[e] <= largest
    size, b = founding.profile_tables[e], weight[e]
    multiply_out(founding.rules.grid_set, founding.set_factor, e, grid.factor, grid.own)
    move_phi(grid.phi, grid.own, grid.phi, b, 0.0, 1.0 / (1.0 - b), grid.trial)
    new_share = sum_grid(grid.trial, seating, founding.rules.grid_possible[0] == 1, grid)
    if not new_share > 0.0 or size == tables:
        return -1, share
    log_mixture = weigh_without(founding, e, product)
    i, t = pick_labelled_table(rng, founding.table_total, founding.table_label, e, size, -1, -1)
    found, log_q = gather_tables(rng, founding, founding.mixture[1], i, t, people, new_share, e)
    log_ratio = prepare_classes(founding)
    chosen, more, part = draw_tries(rng, founding, size, e)
    odds = b / (1.0 - b)
    log_ratio += -log_q + math.log(tables) - math.log(size) - math.log(small) + more
    log_ratio -= log_mixture
    log_ratio += log_weight_ratio(people, tables, gamma, size, odds, part, new_share)
    if -rng.standard_exponential() < people * math.log(share / new_share) - log_ratio:
        return e, new_share
    return -1, share


@inner
def dissolve_profile(rng, founding, grid, e, cumulative):
    """Let the tables of a profile choose others, and give it no weight: it is dropped at the end of the sweep."""
    for i in range(founding.level.shape[0]):
        for t in range(founding.table_total[i]):
            if founding.table_label[i, t] == e:
                weigh_others(founding, i, t, e, cumulative)
                move_table(founding, i, t, draw_cumulative(rng, cumulative, founding.profile_total[0]))
    scale = 1.0 / (1.0 - founding.weight[e])
    founding.weight[e] = 0.0
    for k in range(founding.profile_total[0] + 1):
        founding.weight[k] *= scale
    accept_trial(grid)


@inner
def draw_foundings(rng, records, prior, state, work, share):
    """Found and dissolve small profiles; return 1 - p_0. The grid must be filled, and stays so."""
    if prior.finite:
        return share
    founding, grid, gamma = make_founding(records, prior, state, work), work.grid, state.weight_concentration[0]
    people = records.level.shape[0]
    largest = LARGEST + people // 10
    tables = 0
    for i in range(people):
        tables += state.table_total[i]
    known = False
    for _ in range(prior.foundings):
        profiles = state.profile_total[0]
        if profiles + 2 > state.weight.shape[0]:
            work.status[0] = FULL
            return share
        if not known:
            weigh_mixture(
                records.level, state.seat, state.table_total, state.weight, state.level_profile, profiles,
                state.profile_tables, work.product, work.mixture[0],
            )  # fmt: skip
            known = True
        if rng.random() < 0.5:
            b, share, chosen = try_founding(
                rng, founding, grid, state.seating, people, tables, gamma, largest, share
            )
            if b > 0.0:
                found_profile(founding, grid, b, chosen)
                known = False
        else:
            e, share = try_dissolving(
                rng, founding, grid, state.seating, people, tables, gamma, largest, share, work.product
            )
            if e >= 0:
                dissolve_profile(rng, founding, grid, e, work.product)
                known = False
    state.remainder[0] = state.weight[state.profile_total[0]]
    return share
