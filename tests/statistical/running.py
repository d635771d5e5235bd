"""Run kernels one by one, or on every replicate of a pool, in compiled code (plain Python under NUMBA_DISABLE_JIT).

Each way into compiled code takes seconds to compile. So there are two for all kernels, which go by number.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from keyhole.kernels.augmentation import draw_augmented_answers, draw_augmented_records
from keyhole.kernels.base import draw_base_distribution, draw_row_layouts
from keyhole.kernels.concentrations import draw_concentrations, fill_eppf
from keyhole.kernels.labels import draw_labels
from keyhole.kernels.profiles import draw_profiles, drop_empty_profiles, tally_answers
from keyhole.kernels.seats import draw_seats
from keyhole.kernels.state import Prior
from keyhole.kernels.sweep import run_sweep
from keyhole.kernels.weights import draw_weight_concentration, draw_weights
from keyhole.kernels.work import Work, make_work
from tests.statistical.compiled import compiled
from tests.statistical.prior_pool import Pool, one_records, one_state

(
    SEATS,
    LABELS,
    TALLY,
    IMPOSSIBLE,
    IMPOSSIBLE_ANSWERS,
    DROP,
    WEIGHT_CONCENTRATION,
    LAYOUTS,
    BASE,
    CONCENTRATIONS,
    WEIGHTS,
    PROFILES,
    SEATING,
    SWEEP,
) = range(14)

# Each kernel with the draws that make it a step of its own: what it integrates out is redrawn after it.
STEPS: dict[str, tuple[int, ...]] = {
    "seats": (SEATS, TALLY, DROP),
    "labels": (LABELS, TALLY, DROP),
    "weight concentration": (WEIGHT_CONCENTRATION, WEIGHTS),
    "layouts": (LAYOUTS, PROFILES),
    "base": (BASE, PROFILES),
    "concentrations": (CONCENTRATIONS,),
    "weights": (WEIGHTS,),
    "profiles": (PROFILES,),
    "eppf": (SEATING,),
    "sweep": (SWEEP,),
}


def run_kernel(rng, records, prior, state, work, number):
    """Run the kernel of this number."""
    if number == SEATS:
        draw_seats(rng, records, prior, state, work)
    elif number == LABELS:
        draw_labels(rng, records, prior, state, work)
    elif number == TALLY:
        tally_answers(rng, records, prior, state, work)
    elif number == IMPOSSIBLE:
        draw_augmented_records(rng, records, prior, state, work)
    elif number == IMPOSSIBLE_ANSWERS:
        draw_augmented_answers(rng, records, prior, state, work)
    elif number == DROP:
        drop_empty_profiles(rng, records, prior, state, work)
    elif number == WEIGHT_CONCENTRATION:
        draw_weight_concentration(rng, records, prior, state, work)
    elif number == LAYOUTS:
        draw_row_layouts(rng, records, prior, state, work)
    elif number == BASE:
        draw_base_distribution(rng, records, prior, state, work)
    elif number == CONCENTRATIONS:
        draw_concentrations(rng, records, prior, state, work)
    elif number == WEIGHTS:
        draw_weights(rng, records, prior, state, work)
    elif number == PROFILES:
        draw_profiles(rng, records, prior, state, work)
    elif number == SEATING:
        fill_eppf(rng, records, prior, state, work)
    elif number == SWEEP:
        run_sweep(rng, records, prior, state, work)


def run_kernels(rng, records, prior, state, work, numbers):
    """Run some kernels one after the other."""
    for number in numbers:
        run_kernel(rng, records, prior, state, work, number)


def run_pool(rng, prior, pool, work, numbers, times):
    """Run some kernels, one after the other, `times` times on every replicate."""
    for r in range(len(pool.level)):
        records = one_records(pool, r)
        state = one_state(pool.state, r)
        for _ in range(times):
            for number in numbers:
                run_kernel(rng, records, prior, state, work, number)


run_kernel = compiled(run_kernel, with_kernels=True, no_cpython_wrapper=True)
run_kernels = compiled(run_kernels, with_kernels=True)
run_pool = compiled(run_pool, with_kernels=True)


def alone(*numbers: int) -> Callable[..., Any]:
    """These kernels as one function, to be called like any of them."""
    chosen = np.array(numbers)

    def call(rng, records, prior, state, work):
        run_kernels(rng, records, prior, state, work, chosen)

    return call


def make_pool_work(pool: Pool, prior: Prior) -> Work:
    """Scratch for one replicate."""
    _, n, width = pool.level.shape
    edges = len(prior.trees.edge_first)
    return make_work(n, width, int(pool.level_start[-1]), pool.state.weight.shape[1], None, edges)


def run_step(name: str, rng, prior: Prior, pool: Pool, times: int = 1) -> None:
    """Apply the step `times` times to every replicate."""
    work = make_pool_work(pool, prior)
    run_pool(rng, prior, pool, work, np.array(STEPS[name]), times)
    assert work.status[0] == 0, f"{name}: status {work.status[0]}"
