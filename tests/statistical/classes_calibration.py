"""Simulation-based calibration of `classes`: the truth is drawn by the oracle, the population too, and counted.

See calibration.py. Without rules a rank of the possible mass would be one of rounding, so there are none of these.
"""

import numpy as np
from numpy.typing import NDArray

from keyhole.kernels.classes import Cells
from keyhole.kernels.risk import draw_matches
from keyhole.sampling.classes import NO_LABELS, freeze_classes, start_classes
from keyhole.sampling.events import Events, describe_cells
from keyhole.sampling.predict import predict
from tests.oracle.classes_oracle import possible_cells
from tests.oracle.classes_sampler import QUANTITIES, ClassesState, draw_profile, log_cells
from tests.oracle.risk import sample_uniques
from tests.statistical.calibration import PEOPLE, Size
from tests.statistical.classes_bench import OF_RULES, Bench, as_levels, lay_out, read_back
from tests.statistical.classes_labels import LabelledState, sweep_labelled

RANKED = ("tau1", "tau2", *(name for name in QUANTITIES if name not in OF_RULES))


def draw_counts(rng: np.random.Generator, truth: ClassesState, bench: Bench) -> dict[tuple[int, ...], int]:
    """How many of PEOPLE unseen people each possible cell has, given the true parameters."""
    weight, rows, left = list(truth.weight), list(truth.log_theta), np.exp(truth.log_remainder)
    while left * PEOPLE > 1e-4:
        nu = rng.random() ** (1.0 / truth.hyper.gamma)
        weight.append(left * (1.0 - nu))
        rows.append(draw_profile(rng, truth.hyper))
        left *= nu
    cells = possible_cells(bench.levels, bench.boxes)
    counts = np.zeros(len(cells), np.int64)
    for people, log_theta in zip(rng.multinomial(PEOPLE, np.array(weight) / sum(weight)), rows, strict=True):
        logs = log_cells(log_theta, cells)
        chances = np.exp(logs - logs.max())
        counts += rng.multinomial(people, chances / chances.sum())
    return dict(zip(cells, counts.tolist(), strict=True))


def measure_ranked(bench: Bench, state: ClassesState) -> list[float]:
    """The quantities of RANKED that need no population."""
    return [x for x, name in zip(bench.measure(state), QUANTITIES, strict=True) if name not in OF_RULES]


def predict_risks(rng: np.random.Generator, bench: Bench, cells: Cells, state: LabelledState, unique: Events):
    """tau1 and tau2 as keyhole predicts them from one draw."""
    draw = freeze_classes(rng, cells, bench.prior, state, float(PEOPLE))
    return draw_matches(rng, predict(rng, draw, unique, bench.prior.rules).q, PEOPLE)


def rank_truth(rng: np.random.Generator, bench: Bench, size: Size) -> NDArray[np.int64]:
    """Ranks of the true quantities among the draws of one chain, ties at random."""
    truth = bench.draw(rng)
    cells, first = lay_out(truth, bench.start, bool(bench.boxes))
    uniques = [cell for cell in sample_uniques(truth.data) if -1 not in cell]
    level = as_levels(np.array(uniques, np.int64).reshape(-1, len(bench.levels)), bench.start)
    unique = describe_cells(level, bench.start, None)
    matches = draw_counts(rng, truth, bench)
    found = [matches[cell] for cell in uniques]
    # The truth is read as draws are, so that equal numbers are equal to the last digit.
    known = measure_ranked(bench, read_back(rng, cells, first))
    expected = np.array([sum(f == 0 for f in found), sum(1.0 / (1.0 + f) for f in found), *known])
    state = start_classes(rng, cells, bench.prior, 1)
    state = state if bench.visited else state._replace(label=NO_LABELS)
    below, ties = np.zeros(len(RANKED), np.int64), np.zeros(len(RANKED), np.int64)
    for sweep in range(size.burn_in + size.draws * size.thin):
        state = sweep_labelled(rng, cells, bench.prior, state)
        if sweep < size.burn_in or (sweep - size.burn_in + 1) % size.thin:
            continue
        risks = predict_risks(rng, bench, cells, state, unique)
        drawn = np.array([*risks, *measure_ranked(bench, read_back(rng, cells, state))])
        close = np.isclose(drawn, expected, rtol=1e-12, atol=0.0)
        below += (drawn < expected) & ~close
        ties += close
    return below + rng.integers(0, ties + 1)


def rank_truths(bench: Bench, size: Size, simulations: int, seed: int) -> NDArray[np.int64]:
    """Ranks of many simulations, (simulations, quantities)."""
    seeds = np.random.SeedSequence(seed).spawn(simulations)
    return np.array([rank_truth(np.random.default_rng(s), bench, size) for s in seeds])
