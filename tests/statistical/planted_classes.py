"""Bugs to plant in `classes`, and the probe that must notice each.

Probes (planted_classes_child.py) draw states from the prior, move them and compare with other draws, as test_classes.py
does; or they run a check of tests/exact against brute force.
"""

from dataclasses import dataclass, field

from tests.statistical.planted import Bug


@dataclass(frozen=True)
class ClassesProbe:
    """`case` names a bench of planted_classes_child.py; `step` is a move of classes_bench.py, or freeze."""

    case: str
    step: str = "sweep"
    replicates: int = 0
    long: bool = field(default=False, repr=False)


PLAIN = ClassesProbe("plain", replicates=600)
PROFILES = ClassesProbe("plain", "profiles", replicates=1_200)
SLOW = ClassesProbe("plain", replicates=4_800, long=True)
SLOW_PROFILES = ClassesProbe("plain", "profiles", replicates=4_800, long=True)
BLANKS = ClassesProbe("blanks and shards", replicates=600, long=True)
STICKS = ClassesProbe("plain", "sticks")
LABELS = ClassesProbe("plain", "labels")
LOGARITHMS = ClassesProbe("logarithms", "labels")
SHARDS = ClassesProbe("plain", "shards")
RULES = ClassesProbe("rules, fixed base", replicates=600)
RULES_PROFILES = ClassesProbe("rules", "profiles", replicates=600)
TWO_RECORDS = ClassesProbe("two records under rules", "profiles", replicates=4_800, long=True)
RULES_LABELS = ClassesProbe("rules", "labels under rules")
FREEZE = ClassesProbe("rules", "freeze")
ORDERED_RULES = ClassesProbe("ordered", "ordered, rules", long=True)
VISITS = ClassesProbe("visits", replicates=600)
EQUAL = ClassesProbe("visits to equal records", replicates=600)
VISIT_WEIGHTS = ClassesProbe("ordered", "weights of visits")
VISIT_LOGARITHMS = ClassesProbe("logarithms", "weights of visits")
VISIT_CHOICE = ClassesProbe("plain", "choice of visits")
VISIT_LAYOUTS = ClassesProbe("ordered", "layouts of visits")
SWEEP = "../sampling/classes.py"
KERNEL = "classes.py"
TREES = "trees.py"
VISIT = "visits.py"

WITHOUT_RULES = (
    Bug(
        "new labels always accepted",
        SWEEP,
        "if rng.random() * min(cap, float(weight[new.records > 0].min(initial=cap))) < bound:",
        "if True:",
        PLAIN,
    ),
    Bug(
        "the bound of the slice forgets the weights",
        SWEEP,
        "bound = min(cap, float(old.weight.min(initial=cap)))",
        "bound = cap",
        PLAIN,
    ),
    Bug(
        "sticks broken far too seldom",
        SWEEP,
        "extend_profiles(rng, cells.level_start, prior.trees, old, least, least)",
        "extend_profiles(rng, cells.level_start, prior.trees, old, 20.0 * least, least)",
        PLAIN,
    ),
    Bug(
        "profiles below the slice stay on offer",
        KERNEL,
        "if stick > above:",
        "if stick > 0.0:",
        SLOW,
    ),
    Bug(
        "nu from Beta(1 / gamma, 1)",
        KERNEL,
        "log_nu = -rng.standard_exponential() / old.weight_concentration[0]",
        "log_nu = -rng.standard_exponential() * old.weight_concentration[0]",
        STICKS,
    ),
    Bug(
        "rows of new profiles without their strength",
        TREES,
        "strength[trees.node_strength[u]] * (shape[e] / mass)",
        "shape[e] / mass",
        STICKS,
    ),
    Bug(
        "K + 1 for K in gamma",
        KERNEL,
        "draw_gamma(rng, gamma[0], records, profiles, shape[0], shape[1])",
        "draw_gamma(rng, gamma[0], records, profiles + 1, shape[0], shape[1])",
        PROFILES,
    ),
    Bug(
        "distinct cells for records in gamma",
        KERNEL,
        "records = tally.records.sum()",
        "records = profiles",
        PROFILES,
    ),
    Bug(
        "gamma of before in the remainder",
        KERNEL,
        "weight[profiles] = concentration",
        "weight[profiles] = gamma[0] + 1.0",
        PROFILES,
    ),
    Bug(
        "equal records counted as one",
        KERNEL,
        "level_count[cells.level[c, i], k] += chosen[k]",
        "level_count[cells.level[c, i], k] += 1",
        LABELS,
    ),
    Bug(
        "a missing answer has a factor",
        KERNEL,
        "product[i + 1] = product[i]\n",
        "product[i + 1] = product[i] * level_profile[cells.level_start[i]]\n",
        LABELS,
    ),
    Bug(
        "one product too many taken from the cell before",
        KERNEL,
        "for i in range(j, variables):",
        "for i in range(min(j + 1, variables - 1), variables):",
        LABELS,
    ),
    Bug(
        "the largest weight offered twice",
        KERNEL,
        "score[largest] = 0.0",
        "score[largest] = score[largest]",
        LABELS,
    ),
    Bug(
        "all but the largest weight drawn with the wrong chance",
        KERNEL,
        "draw_rest(rng, number, others / total)",
        "draw_rest(rng, number, 0.5 * others / total)",
        LABELS,
    ),
    Bug(
        "binomials from the wrong end",
        KERNEL,
        "draw_binomial(rng, number, score[k] / cumulative[k])",
        "draw_binomial(rng, number, score[k] / cumulative[profiles - 1])",
        LABELS,
    ),
    Bug(
        "logarithms without the weights",
        KERNEL,
        "score[k] = math.log(weight[k])",
        "score[k] = 0.0",
        LOGARITHMS,
    ),
    Bug(
        "table counts without strength",
        TREES,
        "draw_table_count(rng, answers, shape[e])",
        "draw_table_count(rng, answers, shape[e] / strength[s])",
        SLOW_PROFILES,
    ),
    Bug(
        "base levels without the +1 of their prior",
        TREES,
        "rate, count = np.ones(last - first), np.ones(last - first)",
        "rate, count = np.ones(last - first), np.full(last - first, 0.05)",
        PROFILES,
    ),
    Bug(
        "strengths always accepted",
        TREES,
        "return proposed if -rng.standard_exponential() < ratio else old",
        "return proposed",
        SLOW_PROFILES,
    ),
    Bug(
        "t of a node without its strength",
        TREES,
        "draw_log_gamma(rng, float(answers)) - draw_log_gamma(rng, strength[s])",
        "draw_log_gamma(rng, float(answers))",
        PROFILES,
    ),
    Bug(
        "all shards from one stream",
        SWEEP,
        "np.random.default_rng(seed)",
        "np.random.default_rng(7)",
        SHARDS,
    ),
    Bug(
        "answers of the last shard only",
        SWEEP,
        "level_count += found.level_count",
        "level_count[:] = found.level_count",
        BLANKS,
    ),
)

WITH_RULES = (
    Bug(
        "confined: base levels without the +1 of their prior",
        KERNEL,
        "draw_log_gamma(rng, 1.0 + tables[first + x])",
        "draw_log_gamma(rng, 0.05 + tables[first + x])",
        RULES_PROFILES,
    ),
    Bug(
        "confined: rates of a row as if its sum were one",
        KERNEL,
        "log_rate -= draw_log_gamma(rng, strength[s]) + math.log(inside)",
        "log_rate -= math.log(inside)",
        RULES_PROFILES,
    ),
    Bug(
        "confined: rows without strength",
        KERNEL,
        "draw_log_gamma(rng, strength[s] * base_level[v] + tally.level_count[v, k])",
        "draw_log_gamma(rng, base_level[v] + tally.level_count[v, k])",
        RULES_PROFILES,
    ),
    Bug(
        "labels without s_k",
        KERNEL,
        "product[0] = weight / possible",
        "product[0] = weight",
        RULES_LABELS,
    ),
    Bug(
        "possible mass of the last box",
        KERNEL,
        "possible[k] += box_mass[k]",
        "possible[k] = box_mass[k]",
        RULES,
    ),
    Bug(
        "n_k + 1 for n_k in the rate of a row",
        KERNEL,
        "draw_log_gamma(rng, float(answers)) if answers > 0",
        "draw_log_gamma(rng, answers + 1.0) if answers > 0",
        TWO_RECORDS,
    ),
    Bug(
        "g_kx without what the box asks of the variables before",
        KERNEL,
        "                own = s\n                continue\n",
        "                own = s\n                box_mass[:profiles] = 1.0\n                continue\n",
        RULES,
    ),
    Bug(
        "rows as if everything were possible",
        KERNEL,
        "cost[v] = log_g - math.log1p(rate[k] * mass[v, k])",
        "cost[v] = log_g",
        RULES,
    ),
    Bug(
        "s_k of the rows before",
        KERNEL,
        "        fill_sets(rules, level_profile, profiles, j, set_factor)\n    if boxes > 0:",
        "    if boxes > 0:",
        TWO_RECORDS,
    ),
    Bug(
        "costs of lambda and pi without g_kx",
        KERNEL,
        "cost[v] += math.log1p(rate[k] * mass[v, k])",
        "cost[v] += math.log1p(rate[k])",
        RULES_PROFILES,
    ),
    Bug(
        "lambda and pi accepted without (e'pi)^d",
        KERNEL,
        "ratio = size * math.log(after / before) + proposed * surplus_after - strength * surplus_before",
        "ratio = proposed * surplus_after - strength * surplus_before",
        RULES_PROFILES,
    ),
    Bug(
        "missing answers weighed as if everything were possible",
        KERNEL,
        "        score[k] *= mass\n",
        "        score[k] *= 1.0\n",
        RULES_LABELS,
    ),
    Bug(
        "missing answers from any possible box",
        KERNEL,
        "chances = box_score[:boxes].copy()",
        "chances = np.where(box_score[:boxes] > 0.0, 1.0, 0.0)",
        RULES_LABELS,
    ),
    Bug(
        "missing answers drawn, but not counted",
        KERNEL,
        "level_count[answers[j], k] += 1",
        "level_count[answers[j], k] += 0",
        RULES_LABELS,
    ),
    Bug(
        "a draw with the weights of people, not of possible people",
        SWEEP,
        "weight = weight / find_possible(prior.rules, rows)",
        "weight = weight / 1.0",
        FREEZE,
    ),
    Bug(
        "what is left of the weight forgotten in a draw",
        SWEEP,
        "weight = np.append(weight, remainder)",
        "weight = np.append(weight, 0.0)",
        FREEZE,
    ),
)
OF_TREES = (
    Bug(
        "impossible answers left out of an ordered row",
        KERNEL,
        "completed[v, k] = level_count[v, k] + drawn[v - first]",
        "completed[v, k] = level_count[v, k]",
        ORDERED_RULES,
    ),
    Bug(
        "impossible answers at levels that are possible",
        KERNEL,
        "share[v - first] = level_profile[v, k] * (1.0 - mass[v, k] / most)",
        "share[v - first] = level_profile[v, k]",
        ORDERED_RULES,
    ),
    Bug(
        "as many impossible answers as if they were of one person",
        KERNEL,
        "rng.standard_gamma(float(answers)) * outside",
        "rng.standard_gamma(1.0) * outside",
        ORDERED_RULES,
    ),
    Bug(
        "possible mass of the row before, ordered",
        KERNEL,
        "                fill_sets(rules, level_profile, profiles, j, set_factor)\n            continue",
        "                pass\n            continue",
        ORDERED_RULES,
    ),
)
OF_VISITS = (
    Bug(
        "a record counted among those of its profile",
        VISIT,
        "weight = held.records[k] - 1.0",
        "weight = held.records[k] + 0.0",
        VISIT_WEIGHTS,
    ),
    Bug(
        "a record's own answer left in its row",
        VISIT,
        "inside = held.edge_count[k, e] - 1.0",
        "inside = held.edge_count[k, e] + 0.0",
        VISIT_WEIGHTS,
    ),
    Bug(
        "a record's own answer left in the node below",
        VISIT,
        "total = inside\n",
        "total = inside + 1.0\n",
        VISIT_WEIGHTS,
    ),
    Bug(
        "a new profile without gamma",
        VISIT,
        "score[used] = gamma",
        "score[used] = 1.0",
        VISITS,
    ),
    Bug(
        "a new profile without pi",
        VISIT,
        "score[used] *= base_level[v]",
        "score[used] *= 1.0",
        VISITS,
    ),
    Bug(
        "a flat row not divided by its answers",
        VISIT,
        "scale /= nodes.strength[edge] + held.answers[j, k]",
        "scale /= nodes.strength[edge]",
        VISIT_WEIGHTS,
    ),
    Bug(
        "a missing answer divides",
        VISIT,
        "score[k] *= nodes.strength[edge] + held.answers[j, k]",
        "score[k] *= 1.0",
        VISIT_WEIGHTS,
    ),
    Bug(
        "a node not divided by its answers",
        VISIT,
        "total += edge_count[k, e]",
        "total += 0.0",
        VISIT_WEIGHTS,
    ),
    Bug(
        "a node without the share of those above",
        VISIT,
        "part = mass[u] * (",
        "part = 1.0 * (",
        VISIT_WEIGHTS,
    ),
    Bug(
        "answers counted under the first layout",
        VISIT,
        "own = trees.layout_start[j] + held.layout[j, k]\n    for x in",
        "own = trees.layout_start[j]\n    for x in",
        VISIT_WEIGHTS,
    ),
    Bug(
        "logarithms without the records of a profile",
        VISIT,
        "math.log(held.records[k] if k < used else gamma)",
        "math.log(1.0 if k < used else gamma)",
        VISIT_LOGARITHMS,
    ),
    Bug(
        "logarithms, and the own weight not of their scale",
        VISIT,
        "return math.exp(-largest / answers)",
        "return 1.0",
        VISIT_LOGARITHMS,
    ),
    Bug(
        "the own profile offered with the weight in the sums",
        VISIT,
        "u += cumulative[k] - before",
        "u += 0.0",
        VISIT_CHOICE,
    ),
    Bug(
        "weights of a cell kept when a record has moved",
        VISIT,
        "label[i], each = chosen, 0.0",
        "label[i] = chosen",
        EQUAL,
    ),
    Bug(
        "a new profile has the first layout",
        VISIT,
        "held.layout[j, k] = draw_layout(rng, trees, j)",
        "held.layout[j, k] = 0",
        VISIT_LAYOUTS,
    ),
)
CLASSES_BUGS = WITHOUT_RULES + WITH_RULES + OF_TREES + OF_VISITS
