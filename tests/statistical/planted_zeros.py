"""Bugs to plant in the kernels for structural zeros, and the probe that must notice each.

Probes (planted_zeros_child.py): `counts` compares the imputed people at fixed parameters with rejection, `remainder`
the same when most profiles have not been seen. `concentrations` draws a world and a file by rejection, as
test_impossible.py does, and moves them by imputing people, then by the concentrations.
"""

from dataclasses import dataclass

from tests.statistical.planted import Bug


@dataclass(frozen=True)
class ZerosProbe:
    """`case` names a bench of planted_zeros_child.py."""

    kind: str
    case: str
    times: int
    replicates: int


COUNTS = ZerosProbe("counts", "hdp three", 1, 1500)
CONCENTRATIONS = ZerosProbe("concentrations", "mixed", 1, 800)
REMAINDER = ZerosProbe("remainder", "hdp three", 1, 2000)

SEAT_WEIGHT = """        rest_weight += eppf[size, b] * cells.total[b - 1, 0]
    left_people = people
    for b in range(1, size + 1):
        weight = eppf[size, b] * cells.total[b - 1, 0]
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
        "value += eppf[size, b + 1]",
        "value += eppf[eppf.shape[0] - 1, b + 1]",
        COUNTS,
    ),
    Bug(
        "imputed people seated with the V of a whole record",
        "augmentation.py",
        SEAT_WEIGHT,
        SEAT_WEIGHT.replace("eppf[size, b]", "eppf[eppf.shape[0] - 1, b]"),
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
        "augmentation.py",
        "rng.standard_gamma(float(n)) / possible",
        "float(n) / possible",
        COUNTS,
    ),
    Bug(
        "n + 1 for n in the negative multinomial",
        "augmentation.py",
        "rng.standard_gamma(float(n)) / possible",
        "rng.standard_gamma(n + 1.0) / possible",
        COUNTS,
    ),
    Bug(
        "n people in all, possible or not",
        "augmentation.py",
        "rng.standard_gamma(float(n)) / possible",
        "rng.standard_gamma(float(n))",
        COUNTS,
    ),
    Bug(
        "imputed blocks are no tables of their profiles",
        "augmentation.py",
        "    for k in range(profiles):\n        arrays.profile_tables[k] += counts[k]\n",
        "",
        COUNTS,
    ),
    Bug(
        "imputed blocks counted twice",
        "augmentation.py",
        "    for k in range(profiles):\n        arrays.profile_tables[k] += counts[k]\n",
        "    for k in range(profiles):\n        arrays.profile_tables[k] += 2 * counts[k]\n",
        COUNTS,
    ),
    Bug(
        "imputed blocks choose profiles by weight alone",
        "augmentation.py",
        "            product *= set_factor[rules.type_set[x], k]\n        cumulative",
        "            product *= 1.0\n        cumulative",
        COUNTS,
    ),
    Bug(
        "imputed answers all at the first level of their set",
        "augmentation.py",
        "chosen = left if x == last - 1 else draw_binomial(rng, left, level_profile[v, k] / rest)",
        "chosen = left",
        COUNTS,
    ),
    Bug(
        "imputed answers uniform over their set",
        "augmentation.py",
        "draw_binomial(rng, left, level_profile[v, k] / rest)",
        "draw_binomial(rng, left, 1.0 / (last - x))",
        COUNTS,
    ),
    Bug(
        "concentrations without the imputed people",
        "concentrations.py",
        "tables_by_length[f, m] = augmented_tables[f, m]",
        "tables_by_length[f, m] = 0",
        CONCENTRATIONS,
    ),
    Bug(
        "remainder not broken into sticks",
        "augmentation.py",
        "state.remainder[0] * n / possible >= 1e-4",
        "state.remainder[0] * n / possible >= 1e9",
        REMAINDER,
    ),
    Bug(
        "profiles of imputed people forgotten before the next are imputed",
        "augmentation.py",
        "    state.augmented_total[0] = 0\n",
        "    from keyhole.kernels.profiles import drop_empty_profiles\n"
        "    drop_empty_profiles(rng, records, prior, state, work)\n"
        "    state.augmented_total[0] = 0\n",
        COUNTS,
    ),
)
