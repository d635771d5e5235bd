"""One plain Gibbs sweep: docs/model.md section 3, steps 1, 2, 3 and 5, in loops over lists.

A profile is forgotten at once when its last table leaves it (see `leave_table`).
No split-merge, no stored sums: every weight is computed where it is used. Random-walk Metropolis
stands where keyhole uses slices. The benchmark measures speed against this.
"""

import math

import numpy as np
from scipy.special import gammaln

from .model import (
    Draw,
    Model,
    draw_dirichlet,
    draw_index,
    draw_restaurant,
    log_seating_weight,
)


def run_plain_sweep(rng: np.random.Generator, draw: Draw, model: Model) -> None:
    """Change the state in place; the data stay."""
    for i in range(len(draw.data)):
        redraw_seats(rng, draw, model, i)
    for i in range(len(draw.data)):
        redraw_labels(rng, draw, model, i)
    tables = count_tables(draw)
    if not model.finite:
        redraw_gamma(rng, draw, sum(tables), len(tables))
    if model.adaptive:
        redraw_base(rng, draw)
    redraw_concentration(rng, draw, model)
    if model.finite:
        draw.weight = [float(w) for w in draw_dirichlet(rng, [1.0 + m for m in tables])]
    else:
        *weight, draw.remainder = (float(w) for w in draw_dirichlet(rng, [*tables, draw.hyper.gamma]))
        draw.weight = weight
    count = count_answers(draw)
    for k in range(len(draw.weight)):
        for j in range(len(model.levels)):
            shape = draw.hyper.strength[j] * draw.hyper.base[j] + count[k][j]
            draw.theta[k][j] = draw_dirichlet(rng, shape)


def open_profile(rng: np.random.Generator, draw: Draw, answers: list[tuple[int, int]]) -> int:
    """Step 3: break the remainder and draw theta given the answers that opened the profile."""
    nu = rng.beta(draw.hyper.gamma, 1.0)
    draw.weight.append(draw.remainder * (1.0 - nu))
    draw.remainder *= nu
    theta = []
    for j, (strength, base) in enumerate(zip(draw.hyper.strength, draw.hyper.base, strict=True)):
        shape = strength * base
        for variable, category in answers:
            if variable == j:
                shape = shape + (np.arange(len(base)) == category)
        theta.append(draw_dirichlet(rng, shape))
    draw.theta.append(theta)
    return len(draw.weight) - 1


def leave_table(draw: Draw, i: int, t: int, model: Model) -> None:
    """Take table t of record i away. A profile that it alone held is forgotten before the next draw.

    Kept with its weight and rows, the profile would be an option that the reverse move does not have
    (there it is one of the unseen), and the chain would lose detailed balance.
    """
    label, _ = draw.records[i].pop(t)
    if model.finite or any(label == other for record in draw.records for other, _ in record):
        return
    draw.remainder += draw.weight.pop(label)
    draw.theta.pop(label)
    draw.records = [[(other - (other > label), seats) for other, seats in record] for record in draw.records]


def redraw_seats(rng: np.random.Generator, draw: Draw, model: Model, i: int) -> None:
    """Step 1 for record i: each answer in turn, the others seated."""
    answers = [j for j, category in enumerate(draw.data[i]) if category >= 0]
    for j in answers:
        x = draw.data[i][j]
        t, (label, seats) = next((t, table) for t, table in enumerate(draw.records[i]) if j in table[1])
        if len(seats) == 1:
            leave_table(draw, i, t, model)
        else:
            draw.records[i][t] = (label, tuple(v for v in seats if v != j))
        tables = draw.records[i]
        weight = [len(seats) * draw.theta[label][j][x] for label, seats in tables]
        f, m = len(answers), len(tables)
        # With no other answer the first table is certain; V(., 0) is never needed.
        ratio = 1.0
        if m:
            more = log_seating_weight(f, m + 1, draw.hyper, model.finite)
            ratio = math.exp(more - log_seating_weight(f, m, draw.hyper, model.finite))
        weight += [ratio * w * theta[j][x] for w, theta in zip(draw.weight, draw.theta, strict=True)]
        weight.append(ratio * draw.remainder * draw.hyper.base[j][x])
        choice = draw_index(rng, weight)
        if choice < m:
            tables[choice] = (tables[choice][0], (*tables[choice][1], j))
        else:
            label = choice - m
            if label == len(draw.weight):
                label = open_profile(rng, draw, [(j, x)])
            tables.append((label, (j,)))


def redraw_labels(rng: np.random.Generator, draw: Draw, model: Model, i: int) -> None:
    """Step 2 for record i."""
    for t in range(len(draw.records[i])):
        seats = draw.records[i][t][1]
        leave_table(draw, i, t, model)
        answers = [(j, draw.data[i][j]) for j in seats]
        weight = [
            w * math.prod(float(theta[j][x]) for j, x in answers)
            for w, theta in zip(draw.weight, draw.theta, strict=True)
        ]
        weight.append(draw.remainder * math.prod(float(draw.hyper.base[j][x]) for j, x in answers))
        label = draw_index(rng, weight)
        if label == len(draw.weight):
            label = open_profile(rng, draw, answers)
        draw.records[i].insert(t, (label, seats))


def count_tables(draw: Draw) -> list[int]:
    """m_k."""
    tables = [0] * len(draw.weight)
    for record in draw.records:
        for label, _ in record:
            tables[label] += 1
    return tables


def count_answers(draw: Draw) -> list[list[np.ndarray]]:
    """N_kjx."""
    count = [[np.zeros(len(base)) for base in draw.hyper.base] for _ in draw.weight]
    for row, record in zip(draw.data, draw.records, strict=True):
        for label, seats in record:
            for j in seats:
                count[label][j][row[j]] += 1
    return count


def redraw_gamma(rng: np.random.Generator, draw: Draw, m: int, profiles: int) -> None:
    """Escobar and West: eta ~ Beta(gamma + 1, m), then one of two gammas."""
    eta = rng.beta(draw.hyper.gamma + 1.0, m)
    rate = 1.0 - math.log(eta)
    odds = (2.0 + profiles - 1.0) / (m * rate)
    shape = 2.0 + profiles - (rng.random() >= odds / (1.0 + odds))
    draw.hyper.gamma = rng.gamma(shape, 1.0 / rate)


def redraw_base(rng: np.random.Generator, draw: Draw) -> None:
    """lambda_j by Metropolis on its logarithm, pi_j by auxiliary table counts; theta integrated out."""
    count = count_answers(draw)
    for j, base in enumerate(draw.hyper.base):

        def log_density(strength: float, j: int = j, base: np.ndarray = base) -> float:
            total = -0.5 * (math.log(strength / len(base)) / 1.5) ** 2
            for profile in count:
                total += gammaln(strength) - gammaln(strength + profile[j].sum())
                total += float(np.sum(gammaln(strength * base + profile[j]) - gammaln(strength * base)))
            return total

        old = draw.hyper.strength[j]
        new = old * math.exp(rng.standard_normal())
        if math.log(rng.random()) < log_density(new) - log_density(old):
            draw.hyper.strength[j] = new
        opened = np.zeros(len(base))
        for profile in count:
            for x, customers in enumerate(profile[j]):
                opened[x] += len(draw_restaurant(rng, int(customers), draw.hyper.strength[j] * base[x]))
        draw.hyper.base[j] = draw_dirichlet(rng, 1.0 + opened)


def redraw_concentration(rng: np.random.Generator, draw: Draw, model: Model) -> None:
    """Metropolis for alpha of `mixed`, for (log mean, log shape) of adaptive `hdp`; fixed otherwise."""
    hyper = draw.hyper
    shapes = [(sum(len(seats) for _, seats in record), len(record)) for record in draw.records]

    def log_likelihood() -> float:
        return sum(log_seating_weight(f, m, hyper, model.finite) for f, m in shapes)

    if model.finite:
        old = hyper.alpha
        before = log_likelihood() + 2.0 * math.log(old) - old
        hyper.alpha = old * math.exp(rng.standard_normal())
        after = log_likelihood() + 2.0 * math.log(hyper.alpha) - hyper.alpha
        if math.log(rng.random()) >= after - before:
            hyper.alpha = old
    elif model.adaptive:
        old_pair = hyper.record
        mean, shape = math.log(old_pair[0] / old_pair[1]), math.log(old_pair[0])
        before = log_likelihood() - 0.5 * (mean / 2.0) ** 2 - 0.5 * shape**2
        mean, shape = mean + rng.standard_normal(), shape + 0.7 * rng.standard_normal()
        hyper.record = (math.exp(shape), math.exp(shape - mean))
        after = log_likelihood() - 0.5 * (mean / 2.0) ** 2 - 0.5 * shape**2
        if math.log(rng.random()) >= after - before:
            hyper.record = old_pair
