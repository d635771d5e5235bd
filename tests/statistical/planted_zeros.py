"""Bugs to plant in the kernels for structural zeros, and the probe that must notice each.

Probes (planted_zeros_child.py): `counts` compares the imputed people at fixed parameters with rejection, `remainder`
the same when most profiles have not been seen. `splits` and `concentrations` draw a world and a file by rejection, as
test_impossible.py does, and move them by imputing people, then by split-merge or the concentrations. `balance`,
`rebirths` and `glide` move them with the impossible people integrated out.
"""

from dataclasses import dataclass, field

from tests.statistical.planted import Bug


@dataclass(frozen=True)
class ZerosProbe:
    """`case` names a bench of planted_zeros_child.py."""

    kind: str
    case: str
    times: int
    replicates: int
    long: bool = field(default=False, repr=False)


COUNTS = ZerosProbe("counts", "hdp three", 1, 1500)
CONCENTRATIONS = ZerosProbe("concentrations", "mixed", 1, 800)
SPLITS = ZerosProbe("splits", "hdp", 1, 400)
SPLITS_TWICE = ZerosProbe("splits", "hdp", 2, 800, long=True)
BALANCE = ZerosProbe("balance", "hdp", 1, 140)
REBIRTHS = ZerosProbe("rebirths", "hdp", 1, 180)
GLIDE = ZerosProbe("glide", "hdp", 1, 150)
REMAINDER = ZerosProbe("remainder", "hdp three", 1, 2000)

SEAT_WEIGHT = """        rest_weight += seating[size, b] * cells.total[b - 1, 0]
    left_people = people
    for b in range(1, size + 1):
        weight = seating[size, b] * cells.total[b - 1, 0]
"""

ZEROS_BUGS = (
    Bug(
        "blocks with |T|! for (|T| - 1)!",
        "cells.py",
        "factorial[members[whole] - 1]",
        "factorial[members[whole]]",
        COUNTS,
    ),
    Bug(
        "box probability with the V of a whole record",
        "boxes.py",
        "value += seating[size, b + 1]",
        "value += seating[seating.shape[0] - 1, b + 1]",
        COUNTS,
    ),
    Bug(
        "imputed people seated with the V of a whole record",
        "impossible.py",
        SEAT_WEIGHT,
        SEAT_WEIGHT.replace("seating[size, b]", "seating[seating.shape[0] - 1, b]"),
        COUNTS,
    ),
    Bug(
        "set factors of the first level only",
        "boxes.py",
        "for x in range(rules.set_start[s], rules.set_start[s + 1]):",
        "for x in range(rules.set_start[s], rules.set_start[s] + 1):",
        COUNTS,
    ),
    Bug(
        "as many people as expected: no gamma in the negative multinomial",
        "impossible.py",
        "rng.standard_gamma(float(n)) / possible",
        "float(n) / possible",
        COUNTS,
    ),
    Bug(
        "n + 1 for n in the negative multinomial",
        "impossible.py",
        "rng.standard_gamma(float(n)) / possible",
        "rng.standard_gamma(n + 1.0) / possible",
        COUNTS,
    ),
    Bug(
        "n people in all, possible or not",
        "impossible.py",
        "rng.standard_gamma(float(n)) / possible",
        "rng.standard_gamma(float(n))",
        COUNTS,
    ),
    Bug(
        "imputed blocks are no tables of their profiles",
        "impossible.py",
        "    for k in range(profiles):\n        book.profile_tables[k] += counts[k]\n",
        "",
        COUNTS,
    ),
    Bug(
        "imputed blocks counted twice",
        "impossible.py",
        "    for k in range(profiles):\n        book.profile_tables[k] += counts[k]\n",
        "    for k in range(profiles):\n        book.profile_tables[k] += 2 * counts[k]\n",
        COUNTS,
    ),
    Bug(
        "imputed blocks choose profiles by weight alone",
        "impossible.py",
        "            product *= set_factor[rules.type_set[x], k]\n        cumulative",
        "            product *= 1.0\n        cumulative",
        COUNTS,
    ),
    Bug(
        "imputed answers all at the first level of their set",
        "imputed_answers.py",
        "chosen = left if x == last - 1 else draw_binomial(rng, left, level_profile[v, k] / rest)",
        "chosen = left",
        COUNTS,
    ),
    Bug(
        "imputed answers uniform over their set",
        "imputed_answers.py",
        "draw_binomial(rng, left, level_profile[v, k] / rest)",
        "draw_binomial(rng, left, 1.0 / (last - x))",
        COUNTS,
    ),
    Bug(
        "concentrations without the imputed people",
        "concentrations.py",
        "tables_by_length[f, m] = impossible_seating[f, m]",
        "tables_by_length[f, m] = 0",
        CONCENTRATIONS,
    ),
    Bug(
        "answers of split profiles imputed again",
        "imputed_answers.py",
        "work.block_count[kind, k] if work.slot[k] < 0 else 0",
        "work.block_count[kind, k]",
        SPLITS_TWICE,
    ),
    Bug(
        "split-merge without the q of the leaves",
        "sides.py",
        "log_q += more_q",
        "log_q += 0.0",
        SPLITS,
    ),
    Bug(
        "split-merge with the binomial's q for labelled blocks",
        "sides.py",
        "            log_q -= blocks * math.log1p(odds)\n",
        "            log_q -= blocks * math.log1p(odds)\n"
        "            log_q += math.lgamma(blocks + 1.0) - math.lgamma(moved + 1.0)\n"
        "            log_q -= math.lgamma(blocks - moved + 1.0)\n",
        SPLITS,
    ),
    Bug(
        "split-merge without imputed blocks in m",
        "splitmerge.py",
        "ratio = log_label_ratio(finite, state.weight_concentration[0], without, tables_a, tables_b)",
        "ratio = log_label_ratio(finite, state.weight_concentration[0], without, members + 2 - real_b, real_b)",
        SPLITS,
    ),
    Bug(
        "the leaves that split off stay behind as well",
        "splitmerge.py",
        "sides.leaf[slot_a, y] += sides.leaf[slot_b, y] - sides.leaf_side[y]",
        "sides.leaf[slot_a, y] += sides.leaf[slot_b, y]",
        SPLITS_TWICE,
    ),
    Bug(
        "remainder not broken into sticks",
        "impossible.py",
        "state.remainder[0] * n / possible >= 1e-4",
        "state.remainder[0] * n / possible >= 1e9",
        REMAINDER,
    ),
    Bug(
        "profiles of imputed people forgotten before the next are imputed",
        "impossible.py",
        "    state.impossible_total[0] = 0\n",
        "    from keyhole.kernels.profiles import drop_empty_profiles\n"
        "    drop_empty_profiles(rng, records, prior, state, work)\n"
        "    state.impossible_total[0] = 0\n",
        COUNTS,
    ),
    Bug(
        "levels balanced without their Dirichlet density",
        "balance.py",
        "return j, shape * math.log(new_value / value) + others * math.log(new_rest / rest)",
        "return j, 0.0",
        BALANCE,
    ),
    Bug(
        "balanced by the guess alone, without the exact (1 - p_0)^-n",
        "balance.py",
        "gain -= people * math.log(new_share / share)",
        "gain += min(there, 0.0) - min(back, 0.0)",
        BALANCE,
    ),
    Bug(
        "gamma balanced without its profiles",
        "balanced_concentrations.py",
        "gain = (shape + real) * shift",
        "gain = shape * shift",
        BALANCE,
    ),
    Bug(
        "a profile without records chosen without 1 / q",
        "rebirths.py",
        "weight[e] / q * fresh",
        "weight[e] * fresh",
        REBIRTHS,
    ),
    Bug(
        "rows renewed whatever they do to 1 - p_0",
        "rebirths.py",
        "-rng.standard_exponential() < -people * math.log(new_share / share)",
        "rng.random() < 1.0",
        REBIRTHS,
    ),
    Bug(
        "profiles glide without (1 - p_0)^-n",
        "glide_slope.py",
        "return density - people * math.log(share), share",
        "return density, share",
        GLIDE,
    ),
    Bug(
        "levels glide without their density",
        "glide_slope.py",
        "            density += shape[v] * log_level[v]\n",
        "",
        GLIDE,
    ),
)
