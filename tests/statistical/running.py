"""Run kernels on every replicate of a pool, in compiled code (plain Python under NUMBA_DISABLE_JIT)."""

from collections.abc import Callable
from functools import cache

from keyhole.kernels import concentrations, labels, levels, memberships, profiles, seats, splitmerge, sweep, weights
from keyhole.kernels.state import Prior
from keyhole.kernels.work import Work, make_work
from tests.statistical.compiled import compiled_calls
from tests.statistical.prior_pool import Pool, one_records, one_state

# Each kernel with the draws that make it a step of its own: what it integrates out is redrawn after it.
STEPS: dict[str, tuple[Callable, ...]] = {
    "seats": (seats.draw_seats, profiles.tally_answers, profiles.drop_empty_profiles),
    "labels": (labels.draw_labels, profiles.tally_answers, profiles.drop_empty_profiles),
    "splits and merges": (
        splitmerge.draw_splits_and_merges,
        profiles.drop_empty_profiles,
        weights.draw_weights,
        profiles.draw_profiles,
    ),
    "memberships": (memberships.draw_memberships, profiles.tally_answers, profiles.drop_empty_profiles),
    "weight concentration": (weights.draw_weight_concentration, weights.draw_weights),
    "base strength": (levels.draw_base_strength, profiles.draw_profiles),
    "base level": (levels.draw_base_level, profiles.draw_profiles),
    "concentrations": (concentrations.draw_concentrations,),
    "weights": (weights.draw_weights,),
    "profiles": (profiles.draw_profiles,),
    "seating": (concentrations.fill_seating,),
    "sweep": (sweep.run_sweep,),
}


SEQUENCE = """
def NAME(rng, records, prior, state, work):
    ...
"""
RUNNER = """
def NAME(rng, prior, pool, work, times):
    for r in range(len(pool.level)):
        records = one_records(pool, r)
        state = one_state(pool.state, r)
        for _ in range(times):
            ...
"""


def one_after_the_other(name: str, *kernels: Callable) -> Callable:
    """One kernel that is these kernels in their order."""
    return compiled_calls(name, SEQUENCE, kernels, {})


@cache
def make_runner(name: str) -> Callable:
    """Compile the loop over replicates for one step."""
    loop = {"one_records": one_records, "one_state": one_state}
    return compiled_calls("run_" + name.replace(" ", "_"), RUNNER, STEPS[name], loop)


def make_pool_work(pool: Pool) -> Work:
    """Scratch for one replicate."""
    _, n, width = pool.level.shape
    return make_work(n, width, int(pool.level_start[-1]), pool.state.weight.shape[1])


def run_step(name: str, rng, prior: Prior, pool: Pool, times: int = 1) -> None:
    """Apply the step `times` times to every replicate."""
    work = make_pool_work(pool)
    make_runner(name)(rng, prior, pool, work, times)
    assert work.status[0] == 0, f"{name}: status {work.status[0]}"
