"""Levels of the imputed answers (docs/model.md section 5).

An imputed block of a type, in profile k, has level x of its set A with probability theta^(k)_x / theta^(k)_A, each
variable for itself. For the counts behind theta only sums over blocks are needed.
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
    """Add the imputed answers to the counts of every profile."""
    rules = prior.rules
    for kind in range(work.type_total.shape[0]):
        if work.type_total[kind] == 0:
            continue
        for k in range(state.profile_total[0]):
            count = work.block_count[kind, k]
            if count > 0:
                for x in range(rules.type_start[kind], rules.type_start[kind + 1]):
                    draw_set_levels(rng, rules, rules.type_set[x], k, count, state.level_profile, state.level_count)
