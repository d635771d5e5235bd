"""Which chains tell the same story: groups by complete linkage on the pairwise R-hat, cut at 1.05.

The distance of two chains is the largest R-hat of log-likelihood, tau1 and tau2, the latter two predictive and
expected. The predictive draws alone would hide a difference behind the chance of who else is in the population,
and chains must not be called one group when they differ in something that has a gate. Complete linkage: in a group
every chain agrees with every other one.
"""

from dataclasses import dataclass

import numpy as np

from keyhole.kernels.state import Floats
from keyhole.sampling.diagnostics import rhat
from keyhole.sampling.intervals import Estimate, estimate

LINKED = ("tau1", "tau2", "tau1_expected", "tau2_expected", "log_likelihood")
CUT = 1.05
SETTLED = 1.1
"""R-hat of the halves of one chain, at most. About 100 effective draws of a chain at rest stay below it (99.9 %)."""

FARTHEST = 1e6
"""Stands for an infinite R-hat, with which linkage could not calculate."""


@dataclass(frozen=True)
class Group:
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
    """Return the distances R-hat - 1 of all pairs of chains, in the order of SciPy: (0, 1), (0, 2), ..., (1, 2), ..."""
    linked = [quantities[name] for name in LINKED if name in quantities]
    chains = len(linked[0])
    distances = [
        max(rhat(draws[[first, second]]) for draws in linked) - 1.0
        for first in range(chains)
        for second in range(first + 1, chains)
    ]
    # R-hat may be slightly below 1.
    return np.asarray(np.clip(distances, 0.0, FARTHEST))


def group_chains(quantities: dict[str, Floats]) -> list[list[int]]:
    """Return the groups of chains, from 0, in the order of their first chain."""
    chains = len(quantities["tau1"])
    if chains < 2:
        return [[0]]
    from scipy.cluster.hierarchy import fcluster, linkage

    tree = linkage(pair_distances(quantities), method="complete")
    labels = fcluster(tree, CUT - 1.0, criterion="distance")
    groups: dict[int, list[int]] = {}
    for chain, label in enumerate(labels):
        groups.setdefault(int(label), []).append(chain)
    return list(groups.values())


def is_settled(quantities: dict[str, Floats], chain: int) -> bool:
    """Say whether the first half of a chain agrees with its second half."""
    half = quantities["tau1"].shape[1] // 2
    if half < 4:
        return False
    return all(rhat(quantities[name][chain, : 2 * half].reshape(2, half)) <= SETTLED for name in LINKED)


def describe_groups(quantities: dict[str, Floats], groups: list[list[int]]) -> tuple[Group, ...]:
    """Return what each group of chains says about tau1 and tau2."""
    return tuple(
        Group(
            chains=tuple(chain + 1 for chain in chains),
            tau1=estimate(quantities["tau1"][chains]),
            tau2=estimate(quantities["tau2"][chains]),
            settled=all(is_settled(quantities, chain) for chain in chains),
        )
        for chains in groups
    )
