"""Compile all kernels, on a file of four records.

With an empty cache a second process compiles about half of the kernels at the same time: both write to the same cache,
in which the sweep then finds all its parts. If the second process fails, this one compiles everything.
"""

import gc
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from keyhole.data.strata import Strata
from keyhole.kernels import jit
from keyhole.kernels.augmentation import draw_augmented_answers, draw_augmented_records
from keyhole.kernels.base import draw_base_distribution, draw_row_layouts
from keyhole.kernels.cells import make_cell_work
from keyhole.kernels.concentrations import draw_concentrations
from keyhole.kernels.labels import draw_labels
from keyhole.kernels.records import fill_count_law, measure_records
from keyhole.kernels.seats import draw_seats
from keyhole.kernels.state import Records, no_rules
from keyhole.kernels.weights import draw_weight_concentration
from keyhole.sampling import predict
from keyhole.sampling.chain import advance, make_draw, start_chain
from keyhole.sampling.classes import NO_LABELS, start_classes, sweep_classes
from keyhole.sampling.predictive import fill_people
from keyhole.sampling.problem import Problem, make_problem
from keyhole.sampling.start import empty_state, make_state_work
from keyhole.settings import Settings

ESTIMATORS = ("exact", "monte-carlo", "population")
OURS: tuple[Any, ...] = (
    draw_seats,
    draw_labels,
    draw_row_layouts,
    draw_base_distribution,
    draw_weight_concentration,
    draw_concentrations,
)
THEIRS: tuple[Any, ...] = (draw_augmented_records, draw_augmented_answers)
"""Two lists that take equally long, OURS including what is compiled after it."""


def make_example(estimator: str = "exact", strata: Strata | None = None, **options: Any) -> Problem:
    """Return the problem of four records with two variables of two levels; with strata, the second is theirs."""
    level = np.array([[0, 2], [1, 3], [0, 3], [1, 2]], np.int32)
    records = Records(level, np.full(4, 2), np.array([0, 2, 4]))
    settings = Settings.model_validate({"estimator": estimator, **options})
    return make_problem(records, np.arange(4), 10, settings, None, strata)


def advance_example_strata() -> None:
    """Make a draw of each model with two strata of two records and five people each."""
    two, five = np.full(2, 2), np.full(2, 5)
    order, of_record = np.arange(2), np.array([0, 1, 1, 0], np.int32)
    nothing = np.zeros((2, 0), np.int32)
    strata = Strata("strata", "file", ("S",), None, (), nothing, order, 2, of_record, two, five)
    for model in ("hdp", "classes"):
        problem = make_example(strata=strata, model=model)
        advance(start_chain(0, 2, np.random.SeedSequence(0), problem), problem)


def compile_kernels(kernels: Sequence[Any]) -> None:
    """Compile kernels for the types of a run, without running them."""
    problem = make_example()
    state = empty_state(problem.records, problem.prior, 520)
    work = make_state_work(problem.records, problem.prior, 520)
    arguments = (np.random.default_rng(0), problem.records, problem.prior, state, work)
    for kernel in kernels:
        jit.compile_for(kernel, arguments)


def compile_in_two_processes() -> None:
    """Compile all but the sweep itself, half of it in a second process."""
    command = [sys.executable, "-m", "keyhole.sampling.precompile"]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet):
        compile_kernels(OURS)
        problem = make_example()
        make_draw(start_chain(0, 2, np.random.SeedSequence(0), problem), problem)


@contextmanager
def garbage_kept() -> Iterator[None]:
    """Switch garbage collection off: the compiler makes millions of objects, and searching them takes time."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


def draw_example_people() -> None:
    """Draw four people from one profile, as the model check does."""
    parts = np.ones(1), np.full((4, 1), 0.5, np.float32), np.ones(2), np.ones(1)
    for finite in (True, False):
        draw = predict.make_draw(*parts, finite, 2)
    out = np.zeros((4, 2), np.int32)
    fill_people(np.random.default_rng(0), draw, np.array([0, 2, 4]), no_rules(), make_cell_work(1, 1), out)


def measure_example_records() -> None:
    """Measure the risk of all records of a cell of two, as after a run."""
    two, one, zero = np.full(1, 2), np.full(1, 0.5), np.zeros(1, np.int64)
    people, match, below, spread = np.full(1, 4), np.zeros(1), np.zeros((1, 1)), np.zeros(1)
    measure_records(two, one, np.arange(2), zero, people, two, match, below, spread)
    fill_count_law(two, one, 1.0, np.zeros(3))


def sweep_example_by_slice() -> None:
    """Make a sweep of `classes` as of a large file: the example is small enough for its records to be visited."""
    problem = make_example(model="classes")
    rng = np.random.default_rng(0)
    state = start_classes(rng, problem.distinct, problem.prior, 2)
    sweep_classes(rng, problem.distinct, problem.prior, state._replace(label=NO_LABELS))


def precompile(estimators: Sequence[str] = ("exact",), strata: bool = False) -> None:
    """Run these estimators on four records, so that all they need is compiled and cached."""
    cold = jit.CACHE_FOLDER is not None and not any(jit.CACHE_FOLDER.rglob("sweep.run_sweep*.nbi"))
    with garbage_kept():
        if cold and not jit.config.DISABLE_JIT and sys.executable:
            compile_in_two_processes()
        for estimator in estimators:
            problem = make_example(estimator)
            advance(start_chain(0, 2, np.random.SeedSequence(0), problem), problem)
        if strata:
            advance_example_strata()
        sweep_example_by_slice()
        draw_example_people()
        measure_example_records()


if __name__ == "__main__":
    with garbage_kept():
        compile_kernels(THEIRS)
        sweep_example_by_slice()
        draw_example_people()
