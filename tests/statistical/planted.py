"""Bugs to plant: a text to replace in one kernel, and the probe that must notice.

A probe is a step of running.STEPS run some times on prior draws (invariance) or on draws of an enumerated
posterior (exact). Most of these bugs have been made, by us or by others.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest


@dataclass(frozen=True)
class Probe:
    """`case` names a setting of invariance.py or a case of exact/test_posterior.py.

    long: it takes most of a minute without the compiler, so it is for scripts/test-long. Seeds do not depend on it.
    """

    kind: str
    case: str
    step: str
    times: int = 1
    replicates: int = 5_000
    long: bool = field(default=False, repr=False)


@dataclass(frozen=True)
class Bug:
    """`old` must occur exactly once in the file."""

    name: str
    file: str
    old: str
    new: str
    probe: Probe


STATUS = "        if work.status[0] != OK:\n            return\n"


def call(kernel: str, indent: str = "    ") -> str:
    """A line of run_sweep."""
    return f"{indent}{kernel}(rng, records, prior, state, work)\n"


IN_PASS = 8 * " "
TURN = "        if further > 0:\n"


def mark_long(items: Iterable[Any]) -> list[Any]:
    """Bugs or probes as parameters of a test, those of long probes marked."""
    return [pytest.param(x, marks=pytest.mark.long) if getattr(x, "probe", x).long else x for x in items]


SEATS = Probe("exact", "a missing answer", "seats", 3, 10_000)
LABELS = Probe("invariance", "hdp paper", "labels", 5, 1_500)
BASE = Probe("invariance", "one profile", "base", 6)
TREES = Probe("invariance", "mixed ordered", "base", 4, long=True)
LAYOUTS = Probe("invariance", "mixed ordered", "layouts", 6, long=True)
ROWS = Probe("invariance", "mixed ordered", "profiles", 1)
LONE = Probe("exact", "3 records 1 variable", "seats", 6, 25_000, long=True)
SWEEP = Probe("invariance", "mixed adaptive", "sweep", long=True)

BUGS = (
    Bug(
        "a record's weights taken for those of another that differs in the last variable",
        "labels.py",
        "for j in range(variables):\n                        same = same and",
        "for j in range(variables - 1):\n                        same = same and",
        Probe("exact", "mixed, 3 profiles", "labels", 3),
    ),
    Bug(
        "labels in turn with profiles, but tallies of the first pass",
        "sweep.py",
        call("tally_answers", IN_PASS) + TURN,
        "        if further == LABEL_PASSES:\n    " + call("tally_answers", IN_PASS) + TURN,
        SWEEP,
    ),
    Bug(
        "wrong concentration in the table counts",
        "trees.py",
        "draw_table_count(rng, answers, shape[e])",
        "draw_table_count(rng, answers, strength[s])",
        BASE,
    ),
    Bug(
        "base levels without the +1 of their prior",
        "trees.py",
        "rate, count = np.ones(last - first), np.ones(last - first)",
        "rate, count = np.ones(last - first), np.full(last - first, 0.2)",
        BASE,
    ),
    Bug(
        "strengths without their prior",
        "trees.py",
        "return proposed if -rng.standard_exponential() < ratio else old",
        "return proposed",
        BASE,
    ),
    Bug(
        "steps of strengths with shapes that stay",
        "trees.py",
        "ratio[x] += log_rising(shape[e] * factor[x], answers) - log_rising(shape[e], answers)",
        "ratio[x] += 0.0",
        BASE,
    ),
    Bug(
        "base levels without the nodes below the root",
        "trees.py",
        "rate[v - first] += held",
        "rate[v - first] += 0.0",
        TREES,
    ),
    Bug(
        "the scale of pi without the tables of the roots",
        "trees.py",
        "roots += node_tables[trees.node_start[own] - first_node]",
        "roots += 0",
        TREES,
    ),
    Bug(
        "counts of edges left at the first level",
        "trees.py",
        "count[trees.edge_first[e] - first + x] += spread[x]",
        "count[trees.edge_first[e] - first] += spread[x]",
        TREES,
    ),
    Bug(
        "a layout taken whatever the counts",
        "trees.py",
        "if -rng.standard_exponential() < ratio:\n            layout",
        "if ratio < np.inf:\n            layout",
        LAYOUTS,
    ),
    Bug(
        "a node's answers taken for those of the row",
        "trees.py",
        "value -= log_rising(strength[trees.node_strength[u]], answers)",
        "value -= log_rising(strength[trees.node_strength[u]], below.max())",
        LAYOUTS,
    ),
    Bug(
        "children weighed by pi, not by their share of the node",
        "trees.py",
        "(shape[e] / mass)",
        "shape[e]",
        ROWS,
    ),
    Bug(
        "splits without their counts",
        "trees.py",
        "draw_log_gamma(rng, shape[e] + answers)",
        "draw_log_gamma(rng, shape[e])",
        Probe("invariance", "hdp paper", "profiles", 1),
    ),
    Bug(
        "K + 1 for K in gamma",
        "weights.py",
        "shape += profiles - 1.0",
        "shape += profiles",
        Probe("invariance", "hdp paper", "weight concentration", 5),
    ),
    Bug(
        "mixed weights with another prior",
        "weights.py",
        "state.profile_tables[k] + (1.0 if prior.finite else 0.0)",
        "state.profile_tables[k] + (1.5 if prior.finite else 0.0)",
        Probe("invariance", "mixed paper", "weights", 1),
    ),
    Bug(
        "tally before relabelling",
        "sweep.py",
        call("draw_labels", IN_PASS) + STATUS + call("tally_answers", IN_PASS),
        call("tally_answers", IN_PASS) + call("draw_labels", IN_PASS) + STATUS,
        SWEEP,
    ),
    Bug(
        "beta before gamma",
        "sweep.py",
        call("draw_weight_concentration"),
        call("draw_weights") + call("draw_weight_concentration").replace("\n", "\n    return\n"),
        Probe("invariance", "hdp paper", "sweep", long=True),
    ),
    Bug(
        "lambda after theta",
        "sweep.py",
        "\n" + call("draw_profiles"),
        "\n" + call("draw_profiles") + call("draw_base_distribution"),
        SWEEP,
    ),
    Bug(
        "missing decrement",
        "seats.py",
        "size[i, t] -= 1",
        "size[i, t] -= 0",
        SEATS,
    ),
    Bug(
        "the profile of a lone table stays on offer",
        "seats.py",
        "profile_tables[label[i, t]] == 1 and not finite",
        "profile_tables[label[i, t]] == -1 and not finite",
        LONE,
    ),
    Bug(
        "V ratio inverted",
        "seats.py",
        "eppf[answers, tables + 1] / eppf[answers, tables]",
        "eppf[answers, tables] / eppf[answers, tables + 1]",
        SEATS,
    ),
    Bug(
        "tables joined whatever their size",
        "seats.py",
        "joined += size[i, t] * level_profile",
        "joined += level_profile",
        SEATS,
    ),
    Bug(
        "remainder not updated when a profile opens",
        "profiles.py",
        "arrays.remainder[0] *= math.exp(log_nu)",
        "arrays.remainder[0] *= 1.0",
        LABELS,
    ),
    Bug(
        "a new profile forgets the answers that opened it",
        "profiles.py",
        "answer = level[i, j] if i >= 0 and seat[i, j] == t else -1",
        "answer = -1",
        LABELS,
    ),
    Bug(
        "nu from Beta(1 / gamma, 1)",
        "profiles.py",
        "log_nu = -rng.standard_exponential() / arrays.weight_concentration[0]",
        "log_nu = -rng.standard_exponential() * arrays.weight_concentration[0]",
        LABELS,
    ),
    Bug(
        "weight of forgotten profiles lost",
        "profiles.py",
        "arrays.remainder[0] += arrays.weight[k]",
        "arrays.remainder[0] += 0.0",
        LABELS,
    ),
    Bug(
        "profiles drawn without their counts",
        "profiles.py",
        "fill_below(state.level_count, k, first, last, work.below)",
        "fill_below(state.level_count, 0, first, last, work.below)",
        Probe("invariance", "hdp paper", "profiles", 1),
    ),
    Bug(
        "concentrations moved without their prior",
        "concentrations.py",
        "value = prior_shape * x - prior_rate * alpha",
        "value = 0.0",
        Probe("invariance", "mixed paper", "concentrations", 5),
    ),
    Bug(
        "shared concentration without its tables",
        "concentrations.py",
        "people * (m * x - log_rising(alpha, f))",
        "people * (0.5 * m * x - log_rising(alpha, f))",
        Probe("invariance", "mixed paper", "concentrations", 5),
    ),
    Bug(
        "shorter records with the wrong V",
        "eppf.py",
        "eppf[f, m] = f * eppf[f + 1, m] + eppf[f + 1, m + 1]",
        "eppf[f, m] = f * eppf[f + 1, m]",
        SEATS,
    ),
)
