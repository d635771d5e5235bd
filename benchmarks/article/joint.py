"""Which of the printed steps leave the posterior? Each is started from exact draws of parameters and data together.

A step that leaves the posterior invariant turns such a draw into another one: the mean of any quantity is the same
before and after. Differences before and after are independent over draws; their mean over its standard error is z.
"""

import math
from collections.abc import Callable
from dataclasses import astuple, dataclass

import numpy as np

from benchmarks.article.state import (
    Floats,
    Integers,
    People,
    State,
    count_seats,
    draw_from_prior,
    draw_people,
    draw_world,
    make_state,
)
from benchmarks.article.steps import run_sweep, step_1, step_1_repaired, step_2, step_3, step_4, step_5, step_6
from benchmarks.article.zeros import (
    Condition,
    fast_step_9,
    imputed_counts,
    step_7,
    step_8,
    step_9,
)

LEVELS = (2, 3, 2)
RECORDS = 8
CONDITIONS: list[Condition] = [{0: 0, 1: 0}, {0: 1, 2: 1}]
CAP, MOST = 100, 3_000
"""Imputed people up to whom quantities are compared, and people who are drawn in search of possible ones."""

SURE = 5.0
"""|z| beyond which a quantity has moved: 6e-7 for each, so one in 10,000 runs of all of them."""

Step = Callable[[np.random.Generator, State], None]


def measure(state: State) -> dict[str, float]:
    """Quantities of every part of the state, and of pairs of parts that must go together."""
    seats = count_seats(state.z, state.profiles)
    own = np.take_along_axis(state.g, state.z, axis=1)
    rows = np.arange(len(state.x))
    fit = [np.log(state.theta[j][state.z[:, j], state.x[:, j]]).mean() for j in range(state.x.shape[1])]
    pairs = (state.z[:, :-1] == state.z[:, 1:]).mean()
    across = (state.z[rows[:-1]] == state.z[rows[1:]]).mean()
    return {
        "profiles": float(state.profiles),
        "answers together": float(pairs),
        "records together": float(across),
        "tables": float(state.m.sum()),
        "remainder of g0": float(state.g0[0]),
        "squares of g0": float((state.g0**2).sum()),
        "remainder of g_i": float(state.g[:, 0].mean()),
        "weight of own profile": float(own.mean()),
        "log likelihood": float(np.mean(fit)),
        "log alpha_0": math.log(state.alpha0),
        "log alpha_i": float(np.log(state.alpha).mean()),
        "alpha_0 with g0": state.alpha0 * float(state.g0[0]),
        "alpha_i with g_i": float((np.log(state.alpha) * (state.g**2).sum(axis=1)).mean()),
        "alpha_i with tables": float((np.log(state.alpha) * state.m.sum(axis=1)).mean()),
        "g0 with seats": float((seats @ state.g0).mean()),
    }


@dataclass(frozen=True)
class Moved:
    """A quantity, its mean before and after, and the difference over its standard error."""

    name: str
    before: float
    after: float
    z: float


def compare(before: list[dict[str, float]], after: list[dict[str, float]]) -> list[Moved]:
    """Return every quantity, the most moved first."""
    moved = []
    for name in set(before[0]).intersection(*after):
        one, two = np.array([row[name] for row in before]), np.array([row[name] for row in after])
        error = (two - one).std(ddof=1) / math.sqrt(len(one))
        z = float((two - one).mean() / error) if error > 0.0 else 0.0
        moved.append(Moved(name, float(one.mean()), float(two.mean()), z))
    return sorted(moved, key=lambda item: -abs(item.z))


def try_step(step: Step, draws: int, seed: int) -> list[Moved]:
    """Run one step from exact joint draws."""
    before, after = [], []
    for sequence in np.random.SeedSequence(seed).spawn(draws):
        rng = np.random.default_rng(sequence)
        state = draw_from_prior(rng, RECORDS, LEVELS)
        before.append(measure(state))
        step(rng, state)
        after.append(measure(state))
    return compare(before, after)


def own_tables(state: State) -> Floats:
    """m_.k of the records."""
    return np.asarray(state.m.sum(axis=0), np.float64)


STEPS: dict[str, Step] = {
    "1 as printed": step_1,
    "1, opener repaired": lambda rng, state: step_1_repaired(rng, state, forget=False),
    "1 repaired": step_1_repaired,
    "2 as printed": lambda rng, state: step_2(rng, state),
    "2 repaired": lambda rng, state: step_2(rng, state, repaired=True),
    "3": lambda rng, state: step_3(rng, state, own_tables(state)),
    "4": step_4,
    "5": step_5,
    "6": lambda rng, state: step_6(rng, state, own_tables(state)),
    "6, then 3 and 4": lambda rng, state: run_in_order(rng, state),
    "1 to 6 as printed": lambda rng, state: run_sweep(rng, state),
    "1 to 6 repaired": lambda rng, state: run_sweep(rng, state, repaired=True),
}


def run_in_order(rng: np.random.Generator, state: State) -> None:
    """Concentrations first, then the weights that depend on them."""
    step_6(rng, state, own_tables(state))
    step_3(rng, state, own_tables(state))
    step_4(rng, state)


# ---- with rules -------------------------------------------------------------------------------------------------


def draw_with_zeros(rng: np.random.Generator, records: int) -> State | None:
    """Draw people until enough are possible; the others are the imputed ones, exactly. None if they are too many."""
    world = draw_world(rng, LEVELS)
    people = draw_people(rng, world, 8 * records)
    good, bad = sort_people(people)
    if len(good) < records:
        more = draw_people(rng, world, MOST)
        people = People(*(np.concatenate(pair) for pair in zip(astuple(people), astuple(more), strict=True)))
        good, bad = sort_people(people)
    if len(good) < records:
        return None
    return make_state(rng, world, people, good[:records], bad[bad < good[records - 1]])


def sort_people(people: People) -> tuple[Integers, Integers]:
    """Return the places of the possible and of the impossible people."""
    bad = np.zeros(len(people.x), np.bool_)
    for condition in CONDITIONS:
        bad |= np.all([people.x[:, j] == x for j, x in condition.items()], axis=0)
    return np.flatnonzero(~bad), np.flatnonzero(bad)


def measure_imputed(state: State) -> dict[str, float]:
    """Quantities of the imputed people; all but the first are 0 when there is nobody, or too many to draw.

    Bounded, so that rare worlds in which almost everybody is impossible do not drown the others.
    """
    counts = imputed_counts(state)
    total = float(counts[0].sum())
    told = {"imputed people, at most 100": min(total, float(CAP))}
    inside = 0.0 < total <= CAP
    share = [count.sum(axis=1) / max(total, 1.0) for count in counts]
    told["one profile for both answers"] = sum(float(share[0] @ other) for other in share[1:]) / 2.0 * inside
    told["answers in few profiles"] = sum(float(one @ one) for one in share) / 3.0 * inside
    told["category told by profile"] = agreement(counts) * inside
    told["last category of the third variable"] = float(counts[2][:, 1].sum()) / max(total, 1.0) * inside
    told["middle category of the second variable"] = float(counts[1][:, 1].sum()) / max(total, 1.0) * inside
    if state.imputed is not None and state.imputed.answers is None:
        z = state.imputed.z
        told["people whose fixed answers share a profile"] = fixed_together(state) * inside
        told["people all of one profile"] = float((z == z[:, :1]).all(axis=1).mean()) * inside if inside else 0.0
    return told


def fixed_together(state: State) -> float:
    """The share of the imputed people whose answers in the two fixed variables have one profile."""
    assert state.imputed is not None
    found, z = state.imputed, state.imputed.z
    first, second = CONDITIONS
    inside = np.all([found.x[:, j] == x for j, x in first.items()], axis=0)
    a, b = list(first), list(second)
    same = np.where(inside, z[:, a[0]] == z[:, a[1]], z[:, b[0]] == z[:, b[1]])
    return float(same.mean()) if len(same) else 0.0


def agreement(counts: list[Floats]) -> float:
    """How well the profile tells the category among the imputed answers: squared shares within profiles."""
    value = 0.0
    for count in counts:
        size = np.maximum(count.sum(axis=1, keepdims=True), 1e-12)
        value += float(((count / size) ** 2 * size).sum() / max(float(count.sum()), 1e-12))
    return value / len(counts)


def try_imputation(fast: bool, draws: int, seed: int) -> tuple[list[Moved], int]:
    """Run steps 7 to 9 from exact joint draws with rules; also return how many draws had too many people."""
    before, after, skipped = [], [], 0
    for sequence in np.random.SeedSequence(seed).spawn(draws):
        rng = np.random.default_rng(sequence)
        state = draw_with_zeros(rng, RECORDS)
        if state is None:
            skipped += 1
            continue
        first = measure_imputed(state)
        count = step_8(rng, state, step_7(rng, state, CONDITIONS))
        before.append(first)
        if count.sum() > CAP:
            found = dict.fromkeys(first, 0.0) | {"imputed people, at most 100": float(CAP)}
        else:
            (fast_step_9 if fast else step_9)(rng, state, CONDITIONS, count)
            found = measure_imputed(state)
        after.append(found)
    return compare(before, after), skipped


def print_steps(draws: int, seed: int = 1) -> list[dict[str, object]]:
    """Try every step; print what it moves most, and whether that is more than chance."""
    tries: dict[str, Callable[[], list[Moved]]] = {
        f"{name}": lambda step=step: try_step(step, draws, seed)  # type: ignore[misc]
        for name, step in STEPS.items()
    }
    tries["7 to 9 as printed"] = lambda: try_imputation(False, draws, seed)[0]
    tries["7 to 9, fast approximation"] = lambda: try_imputation(True, draws, seed)[0]
    rows: list[dict[str, object]] = []
    for name, attempt in tries.items():
        moved = attempt()
        worst = [item for item in moved if abs(item.z) > SURE] or moved[:1]
        verdict = "LEAVES the posterior" if abs(moved[0].z) > SURE else "no departure seen"
        told = "; ".join(f"{item.name} {item.before:.3f} to {item.after:.3f} (z = {item.z:+.1f})" for item in worst[:3])
        print(f"  step {name:26s} {verdict:21s} {told}", flush=True)
        rows.append({"step": name, "leaves": abs(moved[0].z) > SURE, "moved": [vars(item) for item in moved]})
    return rows
