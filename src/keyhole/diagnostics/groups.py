"""Which chains give the same estimate: groups by complete linkage on the pairwise R-hat, cut at 1.05.

The distance of two chains is the larger R-hat of E(tau1 | draw) and E(tau2 | draw): predictive counts would hide a
difference behind the chance of who else is in the population. With complete linkage every chain of a group agrees with
every other one.

Few effective draws give a high R-hat by chance. Two stationary chains, halved, with e effective draws in each half,
have R-hat^2 about 1 + X / (3 e), X chi-square with 3 degrees of freedom. So groups are said to *disagree* only if
several are left when each R-hat is compared with the limit that chance allows; from e = 69 on that limit is below 1.05.
"""

import itertools
from dataclasses import dataclass

import numpy as np

from keyhole.diagnostics.laws import Estimate, Law
from keyhole.diagnostics.series import effective_draws, rhat
from keyhole.kernels.state import Floats
from keyhole.readable import Readable

LINKED = ("tau1_expected", "tau2_expected")
CUT = 1.05
CHANCE = 21.1
"""A chi-square variable with 3 degrees of freedom exceeds it once in 10,000; four chains make 12 comparisons."""

SETTLED = 1.1
"""Largest R-hat of the halves of a settled chain. With 100 effective draws a stationary chain is below it (99.9 %)."""

FARTHEST = 1e6
"""Replaces an infinite R-hat, which linkage cannot handle."""


@dataclass(frozen=True)
class Group(Readable):
    """Chains that agree with each other.

    chains: their numbers, from 1; settled: whether the first and the second half of each chain agree too;
    stacking: the group's share if chains were weighted by how well they predict the records.
    """

    chains: tuple[int, ...]
    tau1: Estimate
    tau2: Estimate
    settled: bool
    stacking: float | None = None


def pair_distances(quantities: dict[str, Floats]) -> Floats:
    """Return R-hat - 1, (pair of chains, linked quantity), pairs in SciPy's order: (0, 1), (0, 2), ..., (1, 2)."""
    linked = [quantities[name] for name in LINKED]
    chosen = itertools.combinations(range(len(linked[0])), 2)
    # R-hat may be slightly below 1.
    return np.array([[min(max(rhat(x[list(pair)]) - 1.0, 0.0), FARTHEST) for x in linked] for pair in chosen])


def discount_chance(distances: Floats, quantities: dict[str, Floats]) -> Floats:
    """Return the distances scaled so that the limit that chance allows, given the effective draws, is at the cut."""
    linked = [quantities[name] for name in LINKED]
    effective = np.array([[effective_draws(x[[chain]], "bulk") for x in linked] for chain in range(len(linked[0]))])
    first, second = np.triu_indices(len(effective), 1)
    half = np.maximum(np.minimum(effective[first], effective[second]) / 2.0, 1.0)
    limit = np.maximum(np.sqrt(1.0 + CHANCE / (3.0 * half)), CUT) - 1.0
    return np.asarray(distances * (CUT - 1.0) / limit)


def link_chains(distances: Floats, chains: int) -> list[list[int]]:
    """Return the groups of chains, numbered from 0, in the order of their first chain."""
    if chains < 2:
        return [[0]]
    from scipy.cluster.hierarchy import fcluster, linkage

    labels = fcluster(linkage(distances.max(axis=1), method="complete"), CUT - 1.0, criterion="distance")
    groups: dict[int, list[int]] = {}
    for chain, label in enumerate(labels):
        groups.setdefault(int(label), []).append(chain)
    return list(groups.values())


def group_chains(quantities: dict[str, Floats]) -> tuple[list[list[int]], bool]:
    """Return the groups of chains, and whether they disagree by more than chance allows."""
    chains = len(quantities["tau1_expected"])
    distances = pair_distances(quantities)
    groups = link_chains(distances, chains)
    if len(groups) == 1:
        return groups, False
    return groups, len(link_chains(discount_chance(distances, quantities), chains)) > 1


def is_settled(quantities: dict[str, Floats], chain: int) -> bool:
    """Return whether the halves of a chain agree, in the linked quantities and in the log-likelihood."""
    half = quantities["tau1_expected"].shape[1] // 2
    if half < 4:
        return False
    names = (*LINKED, "log_likelihood")
    return all(rhat(quantities[name][chain, : 2 * half].reshape(2, half)) <= SETTLED for name in names)


def describe_groups(quantities: dict[str, Floats], laws: dict[str, Law], groups: list[list[int]]) -> tuple[Group, ...]:
    return tuple(
        Group(
            chains=tuple(chain + 1 for chain in chains),
            tau1=laws["tau1"].estimate(tuple(chains)),
            tau2=laws["tau2"].estimate(tuple(chains)),
            settled=all(is_settled(quantities, chain) for chain in chains),
        )
        for chains in groups
    )
