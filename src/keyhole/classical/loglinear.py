"""Poisson log-linear models (Skinner and Holmes 1998; Skinner and Shlomo 2008).

The sample count of a cell is Poisson with mean mu, log mu a sum of main effects and two-way interactions. Main effects
have a closed form without rules, and are fitted over the possible boxes with rules. Models with interactions are fitted
to the cells that can have a positive mean, separately for each connected component of the graph of interactions.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from keyhole.classical.poisson import Misfit, measure_misfit, risk_alone, risk_match
from keyhole.classical.sample import Deadline, Details, Estimate, EstimatorError, Sample, sum_risks
from keyhole.classical.tables import (
    CELL_LIMIT,
    MOST_ROUNDS,
    TOLERANCE,
    Table,
    check_size,
    fit_table,
    list_cells,
    number_cells,
    refuse_unconverged,
    split_levels,
)

UNDERFIT_LIMIT = 1.96
"""B / sqrt(v) above this is a sign of underfitting, at the 2.5 % level."""

Floats = NDArray[np.float64]
Pair = tuple[int, int]


def fit_main_effects(sample: Sample, deadline: Deadline) -> Estimate:
    """Main effects, without the statistics B, which need a list of every cell."""
    return _risks(sample, _multiply(_fit_factors(sample, deadline), sample.codes[sample.unique_record]), {})


def fit_independence(sample: Sample, deadline: Deadline) -> Estimate:
    """Main effects: the keys are independent, given that the cell is possible."""
    factors = _fit_factors(sample, deadline)
    unique = sample.codes[sample.unique_record]
    details: Details = {"interactions": 0}
    try:
        everywhere = _product(sample, factors)
    except EstimatorError:
        details |= {"b1": None, "b2": None}
    else:
        occupied, count = _occupied(sample)
        details |= _describe(measure_misfit(everywhere, _multiply(factors, occupied), count, sample.unseen))
    return _risks(sample, _multiply(factors, unique), details)


def fit_two_way(sample: Sample, deadline: Deadline) -> Estimate:
    """Main effects and the interactions of all pairs of keys."""
    pairs = list(combinations(range(len(sample.levels)), 2))
    fitting = Fitting(sample, deadline)
    pieces = fitting.fit(pairs)
    details: Details = {"interactions": len(pairs), **_describe(fitting.misfit(pieces))}
    return _risks(sample, fitting.at(pieces, sample.codes[sample.unique_record]), details)


def select_forward(sample: Sample, deadline: Deadline) -> Estimate:
    """Add interactions to main effects one by one, by the statistics B of Skinner and Shlomo.

    Each step adds the pair with the smallest max(|B1| / sqrt(v1), |B2| / sqrt(v2)). The search stops when neither
    statistic exceeds 1.96 (no sign of underfitting), or when no pair reduces the maximum.
    """
    fitting = Fitting(sample, deadline)
    chosen: list[Pair] = []
    misfit = fitting.misfit(fitting.fit(chosen))
    left = set(combinations(range(len(sample.levels)), 2))
    while left and max(misfit) > UNDERFIT_LIMIT:
        tried = [(fitting.misfit(fitting.fit([*chosen, pair])), pair) for pair in sorted(left)]
        best, pair = min(tried, key=lambda trial: (_largest(trial[0]), trial[1]))
        if _largest(best) >= _largest(misfit):
            break
        misfit = best
        chosen.append(pair)
        left.remove(pair)
    unique = sample.codes[sample.unique_record]
    return _risks(sample, fitting.at(fitting.fit(chosen), unique), {"interactions": len(chosen), **_describe(misfit)})


Pieces = dict[tuple[int, ...], Table]
"""By connected group of variables, the fitted means summed over all other variables."""


class Fitting:
    """Fits models with interactions, and caches the fit of each connected group of variables."""

    def __init__(self, sample: Sample, deadline: Deadline) -> None:
        self.sample = sample
        self.deadline = deadline
        self.impossible = [] if sample.zeros is None else split_levels(sample.zeros.impossible, sample.levels)
        self.occupied, self.count = _occupied(sample)
        self.known: dict[tuple[tuple[int, ...], frozenset[Pair]], Table] = {}

    def fit(self, pairs: Sequence[Pair]) -> Pieces:
        whole = tuple(range(len(self.sample.levels)))
        # Impossible cells make all variables dependent, so there is only one group.
        groups = [whole] if self.impossible else connect(whole, pairs)
        return {group: self._piece(group, frozenset(pair for pair in pairs if pair[0] in group)) for group in groups}

    def at(self, pieces: Pieces, codes: NDArray[np.int32]) -> Floats:
        mean = np.full(len(codes), float(self.sample.records) ** (1 - len(pieces)))
        for group, table in pieces.items():
            mean *= table.at(codes[:, list(group)])
        return mean

    def misfit(self, pieces: Pieces) -> Misfit:
        """Return Skinner and Shlomo's statistics, which need every cell."""
        self.deadline.check()
        check_size(reduce(lambda cells, table: cells * len(table.mean), pieces.values(), 1))
        scale = np.full(1, float(self.sample.records) ** (1 - len(pieces)))
        everywhere = reduce(lambda mean, table: np.outer(mean, table.mean).ravel(), pieces.values(), scale)
        return measure_misfit(everywhere, self.at(pieces, self.occupied), self.count, self.sample.unseen)

    def _piece(self, group: tuple[int, ...], pairs: frozenset[Pair]) -> Table:
        if (group, pairs) not in self.known:
            axis = {j: place for place, j in enumerate(group)}
            terms: list[tuple[int, ...]] = sorted((axis[i], axis[j]) for i, j in pairs)
            paired = {place for term in terms for place in term}
            terms += [(place,) for place in range(len(group)) if place not in paired]
            levels = tuple(self.sample.levels[j] for j in group)
            codes = self.sample.codes[:, list(group)]
            self.known[group, pairs] = fit_table(codes, levels, terms, self.impossible, self.deadline)
        return self.known[group, pairs]


def connect(variables: Iterable[int], pairs: Iterable[Pair]) -> list[tuple[int, ...]]:
    """Return the connected components of the graph of interactions, each in order."""
    group = {j: {j} for j in variables}
    for i, j in pairs:
        if group[i] is not group[j]:
            group[i] |= group[j]
            for k in group[j]:
                group[k] = group[i]
    return sorted({tuple(sorted(members)) for members in group.values()})


def _fit_factors(sample: Sample, deadline: Deadline) -> list[Floats]:
    """Return the factors of each variable's categories, whose products are the means.

    With rules, the sums over the possible boxes are products of sums over categories, so no table is needed.
    """
    factors = [np.bincount(sample.codes[:, j], minlength=d) / sample.records for j, d in enumerate(sample.levels)]
    if sample.zeros is None:
        return [factors[0] * sample.records, *factors[1:]]
    counts = [share * sample.records for share in factors]
    boxes = split_levels(sample.zeros.possible, sample.levels)
    inside = [np.array([box[j] for box in boxes], dtype=np.float64) for j in range(len(sample.levels))]
    mass = np.array([inside[j] @ factors[j] for j in range(len(factors))])
    for _ in range(MOST_ROUNDS):
        deadline.check()
        worst = 0.0
        for j, count in enumerate(counts):
            found = factors[j] * (np.prod(np.delete(mass, j, axis=0), axis=0) @ inside[j])
            worst = max(worst, float(np.abs(count - found).max()))
            factors[j] = factors[j] * np.divide(count, found, out=np.zeros_like(count), where=found > 0)
            mass[j] = inside[j] @ factors[j]
        if worst < TOLERANCE:
            break
    refuse_unconverged(worst)
    return factors


def _product(sample: Sample, factors: Sequence[Floats]) -> Floats:
    if sample.zeros is None:
        check_size(int(np.prod([np.count_nonzero(factor) for factor in factors], dtype=object)))
        return reduce(lambda mean, factor: np.outer(mean, factor[factor > 0]).ravel(), factors, np.ones(1))
    terms = [(j,) for j in range(len(factors))]
    impossible = split_levels(sample.zeros.impossible, sample.levels)
    return _multiply(factors, list_cells(sample.levels, terms, [factor > 0 for factor in factors], impossible))


def _multiply(factors: Sequence[Floats], codes: NDArray[np.int32]) -> Floats:
    mean = np.ones(len(codes))
    for j, factor in enumerate(factors):
        mean *= factor[codes[:, j]]
    return mean


def _occupied(sample: Sample) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    if np.prod(sample.levels, dtype=np.float64) >= 2.0**62:
        raise EstimatorError(f"its table has more than {CELL_LIMIT:,} cells: group categories or omit a key.")
    _, first, count = np.unique(number_cells(sample.codes, sample.levels), return_index=True, return_counts=True)
    return sample.codes[first], count


def _largest(misfit: Misfit) -> float:
    return max(map(abs, misfit))


def _describe(misfit: Misfit) -> Details:
    return {"b1": misfit.tau1, "b2": misfit.tau2}


def _risks(sample: Sample, mean: Floats, details: Details) -> Estimate:
    return sum_risks(risk_alone(mean, sample.unseen), risk_match(mean, sample.unseen), details)
