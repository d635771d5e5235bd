"""Exact posterior of the model `classes` for tiny files. Imports nothing from keyhole.

    G_0 = sum_k w_k delta(theta^k) ~ DP(gamma, H),  H: independent rows theta_j ~ Dirichlet(lambda_j pi_j)
    z_i ~ w,  x_i | z_i = k ~ f_k(c) = P_k(c) / s_k on possible cells,  P_k(c) = prod_j theta^k_{j, c_j},
    s_k = sum of P_k over the possible cells (1 without rules);  q(c) = sum_k w_k f_k(c).

H is not tilted by the rules. With w integrated out the labels are a Chinese restaurant, so n records have

    p(x, partition) = gamma^K prod_k (n_k - 1)! / (gamma)_n  prod_k Z(x of class k)      ((a)_n a rising factorial)
    Z(A) = E_H prod_{c in A} f(c)

Without rules Z is Dirichlet-multinomial, a product of urns (`Urns`). With rules it is a sum over a lattice of
logits (`Lattice`). A missing answer is summed over the possible cells that agree with the record.

Given the partition, m further people are all in cell c with probability

    E[q_c^m] = m! / (gamma + n)_m  [t^m] exp(gamma sum_s Z(c^s) t^s / s)
                                         prod_k sum_m (n_k)_m / m! Z(A_k c^m) / Z(A_k) t^m

(c^s: cell c, s times): m_k of them join class k in (n_k)_{m_k} ways, and the others form b new classes in
gamma^b prod (s - 1)! ways, whose exponential generating function is the first factor. From these moments, exactly,

    r1 = E (1 - q)^M = sum_m C(M, m) (-1)^m E q^m
    r2 = E 1 / (1 + Binomial(M, q)) = E (1 - (1 - q)^(M+1)) / ((M + 1) q) = sum_m C(M+1, m+1) (-1)^m E q^m / (M + 1).

Rounding is at most about 1e-16 E (1 + q)^M: keep M below 30. tau1 and tau2 are sums over the sample uniques.

Hyperparameters are integrated out by trapezoids (`integrate`: one; `LearnedPosterior`: all of them, no rules).
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, reduce

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, expit, gammaln, loggamma, poch

from .boxes import all_cells, fillings
from .model import Hyper, set_partitions
from .rejection import find_box
from .risk import sample_uniques
from .trees import Layout, leaves, mean_likelihood

Cell = tuple[int, ...]
Floats = NDArray[np.float64]
Rules = Sequence[dict[int, set[int]]]
Partition = list[list[int]]

REACH = 60.0
TAIL = 25.0
DEGREE = 5


def make_hyper(gamma: float, strength: Sequence[float], base: Sequence[Sequence[float]]) -> Hyper:
    """gamma, lambda_j, pi_j; the record concentration of `hdp` is zero and (a, b) has no part."""
    return Hyper(gamma, (math.nan, math.nan), 0.0, [float(s) for s in strength], [np.array(b, float) for b in base])


def possible_cells(levels: Sequence[int], rules: Rules = ()) -> list[Cell]:
    """Cells in no rule; a rule is a dict {variable: set of categories}, impossible where all of them hold."""
    return [cell for cell in all_cells(levels) if find_box(cell, rules) is None]


# ---- Z(A): probability that one new class gives these records ------------------------------------------------


class Urns:
    """Z without rules. A missing answer (-1) is left out, which is the same as to sum over its categories."""

    def __init__(self, hyper: Hyper):
        self.hyper = hyper
        self.moments = cache(self.moments)

    def moments(self, members: tuple[Cell, ...], cell: Cell | None = None, top: int = 0) -> Floats:
        """Z(members and m times cell) for m = 0..top: Polya urns, one for each variable."""
        seen = [np.zeros(len(base)) for base in self.hyper.base]
        values = [1.0]
        for record in [*members, *([cell] * top)]:
            value = values[-1]
            for j, x in enumerate(record):
                if x >= 0:
                    strength = self.hyper.strength[j]
                    value *= (strength * self.hyper.base[j][x] + seen[j][x]) / (strength + seen[j].sum())
                    seen[j][x] += 1
            values.append(value)
        return np.array(values[len(members) :])


def choose_step(first: float, second: float) -> float:
    """Step for Beta(first, second) times b^DEGREE (1 - b)^DEGREE.

    By Poisson summation the relative error is 2 |Gamma(a + iv) Gamma(b + iv)| / (Gamma(a) Gamma(b)), v = 2 pi / step.
    """
    a, b, step = first + DEGREE, second + DEGREE, 0.8
    while True:
        v = 2.0j * math.pi / step
        if (loggamma(a + v) + loggamma(b + v)).real - gammaln(a) - gammaln(b) < -TAIL:
            return step
        step *= 0.9


def stick_lattice(first: float, second: float, refine: float) -> tuple[Floats, Floats, Floats]:
    """Nodes b, 1 - b and weights of Beta(first, second): trapezoids in u = logit b.

    The density of u is b^first (1 - b)^second / B, and P / s is linear in b above and below, with coefficients >= 0, so
    that both are analytic for |Im u| < pi. The outermost node stands for the geometric series of all nodes beyond it;
    that is exact to exp(-REACH) in one row, and to exp(-(a + b) REACH) where two rows with end shapes a, b go to their
    ends together.
    """
    step = choose_step(first, second) / refine
    reach = math.ceil(REACH / step)
    u = math.log(first / second) + step * np.arange(-reach, reach + 1)
    log_weight = first * np.log(expit(u)) + second * np.log(expit(-u)) - betaln(first, second) + math.log(step)
    kept = log_weight > log_weight.max() - TAIL
    u, weight = u[kept], np.exp(log_weight[kept])
    weight[0] /= -np.expm1(-first * step)
    weight[-1] /= -np.expm1(-second * step)
    return expit(u), expit(-u), weight


def row_lattice(shape: Floats, refine: float = 1.0) -> tuple[Floats, Floats]:
    """Nodes (T, d) and weights (T,) of Dirichlet(shape), by sticks."""
    theta, weight, rest = np.empty((1, 0)), np.ones(1), np.ones((1, 1))
    for x in range(len(shape) - 1):
        stick, other, density = stick_lattice(shape[x], shape[x + 1 :].sum(), refine)
        theta = np.hstack([np.repeat(theta, len(stick), axis=0), np.outer(rest, stick).reshape(-1, 1)])
        weight = np.outer(weight, density).ravel()
        rest = np.outer(rest, other).reshape(-1, 1)
    return np.hstack([theta, rest]), weight


class Lattice:
    """Z with rules: E_H over the product of the lattices of all rows. For two or three small variables."""

    def __init__(self, levels: Sequence[int], hyper: Hyper, rules: Rules, refine: float = 1.0):
        self.cells = possible_cells(levels, rules)
        rows = [row_lattice(s * b, refine) for s, b in zip(hyper.strength, hyper.base, strict=True)]
        weight = reduce(np.multiply.outer, [weight for _, weight in rows])
        place = np.nonzero(weight > math.exp(-1.6 * TAIL) * weight.max())
        self.weight = weight[place]
        product = [
            np.prod([theta[at, x] for (theta, _), at, x in zip(rows, place, cell, strict=True)], axis=0)
            for cell in self.cells
        ]
        possible_mass = np.sum(product, axis=0)
        self.probability = {cell: p / possible_mass for cell, p in zip(self.cells, product, strict=True)}
        self.moments = cache(self.moments)

    def moments(self, members: tuple[Cell, ...], cell: Cell | None = None, top: int = 0) -> Floats:
        """Z(members and m times cell) for m = 0..top."""
        weight = self.weight.copy()
        for member in members:
            weight *= self.probability[member]
        values = [weight.sum()]
        for _ in range(top):
            weight *= self.probability[cell]
            values.append(weight.sum())
        return np.array(values)


def make_profiles(levels: Sequence[int], hyper: Hyper, rules: Rules) -> Urns | Lattice:
    """The way to Z that these rules need."""
    return Lattice(levels, hyper, rules) if rules else Urns(hyper)


# ---- partitions -----------------------------------------------------------------------------------------------


def log_restaurant(sizes: Sequence[int], gamma: float | Floats) -> float | Floats:
    """Log probability of one partition with these class sizes: gamma^K prod (n_k - 1)! / (gamma)_n."""
    n = sum(sizes)
    value = len(sizes) * np.log(gamma) - sum(np.log(gamma + i) for i in range(n))
    return value + sum(math.lgamma(size) for size in sizes)


def growth_string(labels: Sequence[int]) -> tuple[int, ...]:
    """Labels named 0, 1, ... in order of first appearance: one name for each partition."""
    names: dict[int, int] = {}
    return tuple(names.setdefault(label, len(names)) for label in labels)


def label_records(partition: Partition) -> tuple[int, ...]:
    """The growth string of a partition given as blocks."""
    label = {i: k for k, block in enumerate(partition) for i in block}
    return growth_string([label[i] for i in range(len(label))])


def partition_weights(data: Sequence[Cell], gamma: float, profiles: Urns | Lattice) -> tuple[list, Floats]:
    """All partitions of the records and p(data, partition)."""
    partitions = list(set_partitions(range(len(data))))
    weight = [
        math.exp(log_restaurant([len(block) for block in blocks], gamma))
        * math.prod(profiles.moments(tuple(sorted(data[i] for i in block)))[0] for block in blocks)
        for blocks in partitions
    ]
    return partitions, np.array(weight)


def cell_moments(
    blocks: Sequence[tuple[Cell, ...]], gamma: float, profiles: Urns | Lattice, cell: Cell, top: int
) -> Floats:
    """E[q_c^m | the records of each class] for m = 0..top."""
    new = profiles.moments((), cell, top)
    series = np.ones(top + 1)
    for m in range(1, top + 1):  # the power series of exp(gamma sum_s Z(c^s) t^s / s)
        series[m] = gamma / m * sum(new[s] * series[m - s] for s in range(1, m + 1))
    m = np.arange(top + 1)
    for block in blocks:
        ways = np.exp(gammaln(len(block) + m) - math.lgamma(len(block)) - gammaln(m + 1))
        moments = profiles.moments(block, cell, top)
        series = np.convolve(series, ways * moments / moments[0])[: top + 1]
    n = sum(len(block) for block in blocks)
    return np.array(series * np.exp(gammaln(m + 1.0)) / poch(gamma + n, m))


def risk_from_moments(moments: Floats, others: int) -> tuple[float, float]:
    """r1 and r2 of a cell from E[q^m], m = 0..others."""
    first = sum(math.comb(others, m) * (-1) ** m * moments[m] for m in range(others + 1))
    second = sum(math.comb(others + 1, m + 1) * (-1) ** m * moments[m] for m in range(others + 1))
    return float(first), float(second / (others + 1))


# ---- posterior ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Exact:
    """Everything is exact up to the quadrature; `labels` are growth strings, `completed` all data sets of no blank."""

    evidence: float
    labels: list[tuple[int, ...]]
    partition: Floats
    completed: list[tuple[Cell, ...]]
    completion: Floats
    cells: list[Cell]
    predictive: Floats
    risk: Floats
    """tau1 and tau2; nan where answers are missing or no population is given."""

    @cached_property
    def classes(self) -> Floats:
        """P(K = k), k = 0..n."""
        totals = [max(labels) + 1 for labels in self.labels]
        return np.bincount(totals, self.partition, minlength=len(self.labels[0]) + 1)


def exact_posterior(
    data: Sequence[Cell],
    levels: Sequence[int],
    hyper: Hyper,
    rules: Rules = (),
    others: int | None = None,
    profiles: Urns | Lattice | None = None,
) -> Exact:
    """Enumerate all completions and all partitions; `others` = N - n people are unseen."""
    if profiles is None:
        profiles = make_profiles(levels, hyper, rules)
    cells = possible_cells(levels, rules)
    options = [[cell for cell in fillings(levels, record) if cell in cells] for record in data]
    completed = list(itertools.product(*options))
    joint, predictive = [], np.zeros(len(cells))
    risk = np.zeros(2) if others is not None and len(completed) == 1 else np.full(2, math.nan)
    for records in completed:
        partitions, weight = partition_weights(records, hyper.gamma, profiles)
        joint.append(weight)
        for partition, p in zip(partitions, weight, strict=True):
            blocks = [tuple(sorted(records[i] for i in block)) for block in partition]
            predictive += p * np.array([cell_moments(blocks, hyper.gamma, profiles, c, 1)[1] for c in cells])
            if not np.isnan(risk[0]):
                for cell in sample_uniques(records):
                    moments = cell_moments(blocks, hyper.gamma, profiles, cell, others)
                    risk += p * np.array(risk_from_moments(moments, others))
    table = np.array(joint)
    evidence = table.sum()
    labels = [label_records(partition) for partition in partitions]
    shares = table.sum(axis=0) / evidence, table.sum(axis=1) / evidence
    return Exact(evidence, labels, shares[0], completed, shares[1], cells, predictive / evidence, risk / evidence)


# ---- hyperparameters integrated out -----------------------------------------------------------------------------


def gamma_grid(step: float = 0.25) -> tuple[Floats, Floats]:
    """Values and weights of gamma ~ Gamma(2, 1): trapezoids in log gamma from -14 to 4, mass 1 to 1e-11."""
    x = np.arange(-14.0, 4.0, step)
    return np.exp(x), np.exp(2.0 * x - np.exp(x)) * step


def strength_grid(size: int, step: float = 0.5) -> tuple[Floats, Floats]:
    """Values and weights of lambda, log(lambda / d) ~ Normal(0, 1.5^2): trapezoids to 6 standard deviations."""
    x = np.arange(-6.0, 6.0 + step / 2, step)
    return size * np.exp(1.5 * x), np.exp(-0.5 * x**2) / math.sqrt(2.0 * math.pi) * step


def integrate(
    data: Sequence[Cell],
    levels: Sequence[int],
    hyper: Hyper,
    learned: str,
    rules: Rules = (),
    others: int | None = None,
) -> tuple[Exact, float]:
    """Integrate out "gamma" or the "lambda" of variable 0; also the posterior mean of its logarithm."""
    values, weight = gamma_grid() if learned == "gamma" else strength_grid(levels[0])
    if learned == "gamma":  # Z does not depend on gamma
        profiles = make_profiles(levels, hyper, rules)
        results = [exact_posterior(data, levels, replace(hyper, gamma=g), rules, others, profiles) for g in values]
    else:
        trials = [replace(hyper, strength=[value, *hyper.strength[1:]]) for value in values]
        results = [exact_posterior(data, levels, trial, rules, others) for trial in trials]
    weight = weight * np.array([result.evidence for result in results])
    evidence = weight.sum()
    names = ("partition", "completion", "predictive", "risk")
    mean = {name: np.tensordot(weight / evidence, [getattr(r, name) for r in results], axes=1) for name in names}
    return replace(results[0], evidence=evidence, **mean), float(weight @ np.log(values) / evidence)


class LearnedPosterior:
    """gamma, every lambda_j and every pi_j integrated out, without rules.

    Given a partition they part: p(x, partition) = E_gamma[restaurant] prod_j E_(lambda, pi)[prod_k urn of class k].
    Moments of q are ratios of evidences, E[q_c^m | x] = p(x c^m) / p(x). Records may have missing answers.
    """

    def __init__(self, levels: Sequence[int]):
        self.levels = levels
        self.row = cache(self.row)
        self.grids = []
        for d in levels:
            (strength, weight), (base, density) = strength_grid(d), row_lattice(np.ones(d))
            self.grids.append((strength[:, None], base, np.outer(weight, density)))

    def row(self, j: int, counts: tuple[tuple[int, ...], ...]) -> tuple[float, ...]:
        """E[prod_k urn] over (lambda_j, pi_j), and E[log lambda_j prod_k urn]; counts by class and category.

        A row with several strengths has the latter for each.
        """
        strength, base, weight = self.grids[j]
        value = weight.copy()
        for of_class in counts:
            for x, count in enumerate(of_class):
                for c in range(count):
                    value *= strength * base[:, x] + c
            for c in range(sum(of_class)):
                value /= strength + c
        return value.sum(), (np.log(strength) * value).sum()

    def weights(self, data: Sequence[Cell]) -> tuple[list[tuple[int, ...]], Floats]:
        """Growth strings, and for each p(x, partition), the same times log gamma, and times each log strength."""
        gamma, density = gamma_grid()
        rows, labels = [], []
        for partition in set_partitions(range(len(data))):
            prior = np.exp(log_restaurant([len(block) for block in partition], gamma)) * density
            by_variable = []
            for j, d in enumerate(self.levels):
                counts = [tuple(sum(data[i][j] == x for i in block) for x in range(d)) for block in partition]
                by_variable.append(self.row(j, tuple(sorted(counts))))
            ratio = [log / first for first, *logs in by_variable for log in logs]
            likelihood = math.prod(first for first, *_ in by_variable)
            log_gamma = (prior * np.log(gamma)).sum()
            rows.append(likelihood * np.array([prior.sum(), log_gamma, *(prior.sum() * r for r in ratio)]))
            labels.append(label_records(partition))
        return labels, np.array(rows)

    def evidence(self, data: Sequence[Cell]) -> float:
        """p(x)."""
        return float(self.weights(data)[1][:, 0].sum())

    def moments(self, data: Sequence[Cell], cell: Cell, top: int) -> Floats:
        """E[q_c^m | x] for m = 0..top; keep n + top below 8."""
        values = np.array([self.evidence([*data, *([cell] * m)]) for m in range(top + 1)])
        return values / values[0]


class OrderedPosterior(LearnedPosterior):
    """The same with an ordered first key of three categories, whose two layouts have nodes of three and of two.

    The strengths of the two sizes of nodes are integrated out; the scale of both is 2.
    """

    LAYOUTS = ((0, (1, 2)), ((0, 1), 2))

    def __init__(self, levels: Sequence[int]):
        super().__init__(levels)
        (strength, weight), (base, density) = strength_grid(2, 0.75), row_lattice(np.ones(3), 0.5)
        self.strengths = strength[:, None, None], strength[None, :, None]
        self.base = base.T[:, None, None, :]
        self.density = weight[:, None, None] * weight[None, :, None] * density

    def row(self, j: int, counts: tuple[tuple[int, ...], ...]) -> tuple[float, ...]:
        """Averages over pi, both strengths and the layout of every class."""
        if j > 0:
            return super().row(j, counts)

        def strength(node: Layout) -> Floats:
            return self.strengths[0 if len(leaves(node)) > 2 else 1]

        value = self.density
        for of_class in counts:
            value = value * mean_likelihood(self.LAYOUTS, strength, self.base, of_class)
        return float(value.sum()), *(float((np.log(s) * value).sum()) for s in self.strengths)
