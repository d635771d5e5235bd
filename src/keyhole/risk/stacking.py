"""Weights of chains that disagree, by how well each predicts the records (Yao, Vehtari and Gelman 2022).

Given a draw's parameters records are independent, their memberships integrated out: record i in cell c has
probability q_c. So the probability that a chain gives to a record it has not seen is 1 / mean over draws of 1 / q_c,
importance sampling with weights 1 / q_c, whose largest are smoothed (Pareto). The plain mean of q_c would reward a
chain for having fitted the record. The weights w maximise sum_i log sum_chain w_chain p_chain(record i).

A sensitivity, shown under its own name and never the result: weights by prediction are not posterior probabilities.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from keyhole.diagnostics.groups import Group
from keyhole.diagnostics.laws import Estimate
from keyhole.diagnostics.series import array_stats
from keyhole.kernels.cells import cell_probabilities, make_cell_work
from keyhole.kernels.eppf import fill_mixed_seating, fill_shared_seating
from keyhole.kernels.freeze import Kept
from keyhole.kernels.state import Floats, Integers, Records, Rules, no_rules
from keyhole.sampling.costs import EXACT_STEPS, cell_cost, exact_steps
from keyhole.sampling.predict import share_possible
from keyhole.sampling.trace import Trace

MOST_RECORDS = 2_000
MOST_CELLS = 500
"""Distinct cells of these records: smoothing takes almost a millisecond for each cell and chain."""

MOST_DRAWS = 50
FEWEST_DRAWS = 25
"""Draws of each chain below which there is no tail to smooth."""

BUDGET = 4e9
"""Nanoseconds for cell probabilities, by the cost that `cell_cost` assumes, never by the clock."""

SMALLEST = 1e-300
MOST_STEPS = 10_000
CLOSE = 1e-9
"""EM stops when no weight moves by more."""

Cells = NDArray[np.int32]
"""Levels (cell, variable)."""

NOTE = "if chains were weighted by how well they predict the records: a sensitivity, not the result"


@dataclass(frozen=True)
class Stacking:
    """Weights of the chains, in order, and what tau1 and tau2 would be with them.

    records, draws: how many were used, of each chain; unreliable: share of records, averaged over chains, whose
    held-out probability is doubtful because single draws dominate it (Pareto k above its limit).
    """

    note: str
    weights: tuple[float, ...]
    tau1: Estimate
    tau2: Estimate
    records: int
    draws: int
    unreliable: float


def weigh_chains(trace: Trace, records: Records, rules: Rules | None, finite: bool) -> Stacking | None:
    """Return the weights, or None with too few draws, too few complete records or too many variables.

    finite: whether the model is `mixed`, with one concentration for all records.
    """
    kept = trace.kept["weight"].shape[1]
    if kept < FEWEST_DRAWS or exact_steps(records.level.shape[1]) > EXACT_STEPS:
        return None
    draws = np.unique(np.linspace(0, kept - 1, min(kept, MOST_DRAWS)).astype(int))
    cells, count = choose_cells(records, len(trace.starts) * len(draws), trace.kept["weight"].shape[2])
    if not len(cells):
        return None
    log_density = find_log_densities(trace, draws, cells, rules or no_rules(), finite)
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
    """Return the groups, each with the weight of its chains."""
    return tuple(
        replace(group, stacking=sum(stacking.weights[chain - 1] for chain in group.chains)) for group in groups
    )


def choose_cells(records: Records, evaluations: int, profiles: int) -> tuple[Cells, Integers]:
    """Return the cells of records evenly spaced over the file, without missing answers, and how often each occurs."""
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


def find_log_densities(trace: Trace, draws: Integers, cells: Cells, rules: Rules, finite: bool) -> Floats:
    """Return log q of every cell (chain, cell, draw)."""
    work = make_cell_work(cells.shape[1], trace.kept["weight"].shape[2])
    found = np.zeros((len(trace.starts), len(cells), len(draws)))
    out = np.zeros(len(cells))
    for chain in range(len(trace.starts)):
        for place, draw in enumerate(draws):
            kept = rebuild_kept(trace, chain, int(draw), cells.shape[1], finite)
            profiles = int(kept.profile_total[0])
            cell_probabilities(kept.weight, kept.level_profile, profiles, kept.seating, cells, work, out)
            found[chain, :, place] = np.log(np.maximum(out, SMALLEST)) - np.log(share_possible(rules, kept))
    return found


def rebuild_kept(trace: Trace, chain: int, draw: int, variables: int, finite: bool) -> Kept:
    """Return one of the kept draws of a trace in the shape in which cells are evaluated."""
    weight = trace.kept["weight"][chain, draw]
    profiles = int(np.flatnonzero(weight)[-1]) + 1
    seating = np.zeros((variables + 1, variables + 2))
    if finite:
        fill_shared_seating(float(trace.kept["shared_concentration"][chain, draw, 0]), seating)
    else:
        shape, rate = trace.kept["record_concentration"][chain, draw]
        fill_mixed_seating(float(shape), float(rate), seating)
    level_profile = trace.kept["level_profile"][chain, draw][:, :profiles].astype(np.float64, order="C")
    return Kept(
        profile_total=np.array([profiles]),
        weight=np.ascontiguousarray(weight[:profiles]),
        level_profile=level_profile,
        seating=seating,
        column=np.zeros(len(level_profile)),
    )


def leave_one_out(log_density: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the log probability of each cell's record held out (chain, cell), and where it is doubtful.

    Smoothed importance sampling with ratios 1 / q; log_density: (chain, cell, draw).
    """
    draws = log_density.shape[2]
    held_out = -log_mean_exp(-log_density)
    doubtful = np.ones(held_out.shape, np.bool_)
    # Draws that are equal have no tail that could be smoothed; their plain weights stay, and are called doubtful.
    varied = (np.diff(np.sort(log_density, axis=-1)) > 0.0).all(axis=-1)
    log_weight, k = array_stats().psislw(log_density[varied], axis=-1)  # it takes q and weighs by 1 / q
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
