"""Weights of chains that disagree, by how well each predicts the records (Yao, Vehtari and Gelman 2022).

Given the parameters of a draw, records are independent, their memberships integrated out: record i in cell c has
probability q_c. So the probability that a chain gives to a held-out record is 1 / mean over draws of 1 / q_c:
importance sampling with weights 1 / q_c, the largest of which are smoothed (Pareto). The plain mean of q_c would reward
a chain for having fitted the record. The weights w maximise sum_i log sum_chain w_chain p_chain(record i).

This is a sensitivity analysis, shown under its own name and never the result: weights by prediction are not posterior
probabilities.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.diagnostics.groups import Group
from keyhole.diagnostics.laws import Estimate
from keyhole.kernels.state import Floats, Integers, Records, Rules
from keyhole.readable import Readable
from keyhole.sampling.costs import EXACT_STEPS, cell_cost, exact_steps
from keyhole.sampling.events import Events, describe_cells
from keyhole.sampling.predict import Scratch, predict
from keyhole.sampling.trace import Trace

MOST_RECORDS = 2_000
MOST_CELLS = 500
"""Most records used, and most distinct cells of them: smoothing is slow, for each cell and chain."""

MOST_DRAWS = 50
FEWEST_DRAWS = 25
"""Most draws of each chain used, and fewest with a tail that can be smoothed."""

BUDGET = 4e9
"""Nanoseconds for cell probabilities according to `cell_cost`, never by the clock."""

SMALLEST = 1e-300
MOST_STEPS = 10_000
CLOSE = 1e-9
"""EM stops when no weight moves by more."""

Cells = NDArray[np.int32]
"""Levels (cell, variable)."""

NOTE = "if chains were weighted by how well they predict the records: a sensitivity, not the result"


@dataclass(frozen=True)
class Stacking(Readable):
    """Weights of the chains, in order, and tau1 and tau2 with these weights.

    records: number used; draws: number used of each chain; unreliable: share of records, averaged over chains, whose
    held-out probability is unreliable because single draws dominate it (Pareto k above its limit).
    """

    note: str
    weights: tuple[float, ...]
    tau1: Estimate
    tau2: Estimate
    records: int
    draws: int
    unreliable: float


def weigh_chains(trace: Trace, records: Records, rules: Rules) -> Stacking | None:
    """Return the weights, or None if there are too few draws, no complete record or too many variables."""
    kept = len(trace.draws[0])
    if kept < FEWEST_DRAWS or exact_steps(records.level.shape[1]) > EXACT_STEPS:
        return None
    draws = np.unique(np.linspace(0, kept - 1, min(kept, MOST_DRAWS)).astype(int))
    cells, count = choose_cells(
        records, len(trace.starts) * len(draws), max(len(draw.weight) for chain in trace.draws for draw in chain)
    )
    if not len(cells):
        return None
    events = describe_cells(cells, records.level_start, None)
    log_density = find_log_densities(trace, draws, events, rules)
    held_out, doubtful = leave_one_out(log_density)
    weights = maximise_score(held_out, count)
    return Stacking(
        note=NOTE,
        weights=tuple(float(weight) for weight in weights),
        tau1=trace.laws["tau1"].weighted(weights),
        tau2=trace.laws["tau2"].weighted(weights),
        records=int(count.sum()),
        draws=len(draws),
        unreliable=float(doubtful.mean(axis=0) @ count / count.sum()),
    )


def share_weights(groups: tuple[Group, ...], stacking: Stacking) -> tuple[Group, ...]:
    """Return the groups, each with the total weight of its chains."""
    return tuple(
        replace(group, stacking=sum(stacking.weights[chain - 1] for chain in group.chains)) for group in groups
    )


def choose_cells(records: Records, evaluations: int, profiles: int) -> tuple[Cells, Integers]:
    """Return the cells of complete records evenly spaced over the file, and how often each occurs."""
    complete = np.flatnonzero((records.level >= 0).all(axis=1))
    variables = records.level.shape[1]
    most = int(np.clip(BUDGET / (cell_cost(variables, profiles) * evaluations), 50, MOST_CELLS))
    wanted = min(MOST_RECORDS, len(complete))
    while True:
        chosen = complete[np.linspace(0, max(len(complete) - 1, 0), wanted).astype(int)]
        cells, count = np.unique(records.level[chosen], axis=0, return_counts=True)
        if len(cells) <= most:
            return np.ascontiguousarray(cells), count.astype(np.int64)
        wanted = max(most, 3 * wanted // 4)


def find_log_densities(trace: Trace, places: Integers, cells: Events, rules: Rules) -> Floats:
    """Return log q (chain, cell, draw) for the draws at these places of each chain."""
    rng, scratch = np.random.default_rng(0), Scratch()
    found = np.zeros((len(trace.draws), cells.cells, len(places)))
    for c, chain in enumerate(trace.draws):
        for x, place in enumerate(places):
            # Exact sums do not use the generator.
            q = predict(rng, chain[place], cells, rules, scratch).q
            found[c, :, x] = np.log(np.maximum(q, SMALLEST))
    return found


def leave_one_out(log_density: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the log probability of a held-out record of each cell (chain, cell), and where it is unreliable.

    Smoothed importance sampling with ratios 1 / q; log_density: (chain, cell, draw).
    """
    import arviz_stats.base as base  # slow to import, and chains hardly ever disagree

    smooth: Any = vars(base)["array_stats"].psislw
    draws = log_density.shape[2]
    held_out = -log_mean_exp(-log_density)
    doubtful = np.ones(held_out.shape, np.bool_)
    # Equal draws have no tail to smooth: their weights stay unsmoothed and are marked unreliable.
    varied = (np.diff(np.sort(log_density, axis=-1)) > 0.0).all(axis=-1)
    log_weight, k = smooth(log_density[varied], axis=-1)  # it takes q and weighs by 1 / q
    held_out[varied] = log_mean_exp(log_density[varied] + log_weight) + np.log(draws)
    # The limit of Vehtari et al. (2024) for this many draws.
    doubtful[varied] = k > min(1.0 - 1.0 / np.log10(draws), 0.7)
    return held_out, doubtful


def log_mean_exp(values: Floats) -> Floats:
    """Return the logarithm of the mean of the exponentials along the last axis."""
    peak = values.max(axis=-1, keepdims=True)
    return np.asarray(peak[..., 0] + np.log(np.exp(values - peak).mean(axis=-1)))


def maximise_score(log_density: Floats, count: Integers) -> Floats:
    """Return the weights that maximise sum over cells of count log sum_chain w density, by EM; it is concave."""
    density = np.exp(log_density - log_density.max(axis=0))
    weights = np.full(len(density), 1.0 / len(density))
    for _ in range(MOST_STEPS):
        share = weights[:, None] * density
        before, weights = weights, (share / share.sum(axis=0)) @ count / count.sum()
        if np.abs(weights - before).max() < CLOSE:
            break
    return weights
