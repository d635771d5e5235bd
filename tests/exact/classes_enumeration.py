"""Tiny files under the model `classes` with their exact posteriors, as arrays.

Each case names one thing that a chain can get wrong. `solve(case)` is an `Exact` of tests/oracle/classes_oracle.py
(probabilities of partitions by growth string and of completions, number of classes, predictive probabilities of the
possible cells, tau1 and tau2 for `others` unseen people); hyperparameters in `learned` are integrated out and their
posterior means returned beside it. Cases with everything learned are `learned_answers`.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from tests.oracle.classes_oracle import (
    Cell,
    Exact,
    LearnedPosterior,
    exact_posterior,
    integrate,
    make_hyper,
    risk_from_moments,
)
from tests.oracle.model import Hyper
from tests.oracle.risk import sample_uniques


@dataclass(frozen=True)
class ClassesCase:
    """Records (-1: missing), categories, rules; `learned` is "", "gamma" or "lambda", the latter of variable 0."""

    name: str
    data: tuple[Cell, ...]
    levels: tuple[int, ...]
    rules: tuple[dict[int, set[int]], ...] = ()
    others: int = 12
    learned: str = ""
    strength: float = 1.2

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def hyper(self) -> Hyper:
        """Unequal hyperparameters, so that no symmetry hides an error; some shapes are below one."""
        base = [np.arange(2.0, 2.0 + d) / np.arange(2.0, 2.0 + d).sum() for d in self.levels]
        return make_hyper(1.3, [self.strength + 0.9 * j for j in range(len(self.levels))], base)


CORNER = ({0: {0}, 1: {0}},)
OVERLAP = ({0: {0}, 1: {0}}, {1: {0}, 2: {1}})
SETS = ({0: {0, 1}, 1: {0}}, {0: {2}, 1: {1}})
FIVE = ((0, 1, 0), (0, 1, 0), (1, 0, 1), (1, 1, 1), (0, 0, 0))
CASES = {
    case.name: case
    for case in (
        ClassesCase("two keys", ((0, 1), (0, 1), (1, 0), (1, 2)), (2, 3)),
        ClassesCase("three keys, five records", FIVE, (2, 2, 2)),
        ClassesCase("six records", ((0, 0), (0, 1), (1, 1), (1, 1), (0, 0), (1, 0)), (2, 2)),
        ClassesCase("a corner is impossible", ((0, 1), (1, 0), (1, 0), (1, 1)), (2, 2), CORNER),
        ClassesCase(
            "rules that overlap", ((0, 1, 0), (0, 1, 1), (1, 0, 0), (1, 1, 1)), (2, 2, 2), OVERLAP, 8, strength=3.0
        ),
        ClassesCase("rules with sets", ((0, 1), (2, 0), (2, 0), (1, 1)), (3, 2), SETS, strength=4.0),
        ClassesCase("missing answers", ((0, -1), (1, 1), (-1, 1), (0, 0)), (2, 3)),
        ClassesCase("missing answers under rules", ((0, -1), (-1, 0), (1, -1), (1, 1)), (2, 2), CORNER),
        ClassesCase("gamma learned", ((0, 1), (0, 1), (1, 0), (1, 2)), (2, 3), learned="gamma"),
        ClassesCase("gamma learned under rules", ((0, 1), (1, 0), (1, 0), (1, 1)), (2, 2), CORNER, learned="gamma"),
        ClassesCase("lambda learned", ((0, 1), (0, 1), (1, 0), (1, 1)), (2, 2), learned="lambda"),
        ClassesCase("lambda learned under rules", ((0, 1), (1, 0), (1, 0), (1, 1)), (2, 2), CORNER, learned="lambda"),
    )
}
LEARNED = {
    "all learned": (((0, 1), (0, 1), (1, 0), (1, 1)), (2, 2)),
    "all learned, missing answers": (((0, 1), (-1, 1), (1, -1), (1, 0)), (2, 2)),
}


@cache
def solve(case: ClassesCase) -> tuple[Exact, float]:
    """The exact posterior, and the posterior mean of the logarithm of the learned hyperparameter (0 without one)."""
    if case.learned:
        return integrate(case.data, case.levels, case.hyper, case.learned, case.rules, case.others)
    return exact_posterior(case.data, case.levels, case.hyper, case.rules, case.others), 0.0


@dataclass(frozen=True)
class LearnedAnswers:
    """Evidence, P(K = k) for k = 0..n, predictive probabilities of all cells in order, E log gamma, E log lambda_j."""

    evidence: float
    classes: NDArray[np.float64]
    predictive: NDArray[np.float64]
    log_hyper: NDArray[np.float64]


@cache
def learned_answers(name: str) -> LearnedAnswers:
    """Everything learned, without rules."""
    data, levels = LEARNED[name]
    posterior = LearnedPosterior(levels)
    labels, weight = posterior.weights(data)
    evidence, *sums = weight.sum(axis=0)
    totals = [max(row) + 1 for row in labels]
    classes = np.bincount(totals, weight[:, 0], minlength=len(data) + 1) / evidence
    predictive = np.array([posterior.evidence([*data, cell]) for cell in np.ndindex(*levels)]) / evidence
    return LearnedAnswers(float(evidence), classes, predictive, np.array(sums) / evidence)


@cache
def learned_risk(name: str, others: int) -> NDArray[np.float64]:
    """tau1 and tau2 for a handful of unseen people."""
    data, levels = LEARNED[name]
    posterior = LearnedPosterior(levels)
    pairs = [risk_from_moments(posterior.moments(data, c, others), others) for c in sample_uniques(data)]
    return np.sum(pairs, axis=0)
