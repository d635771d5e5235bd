"""Compile everything once, on a file of four records."""

import numpy as np

from keyhole.kernels.state import Records
from keyhole.sampling.chain import advance, start_chain
from keyhole.sampling.problem import make_problem
from keyhole.settings import Settings


def warm_up() -> None:
    """Run every model and estimator on four records, so that all kernels are compiled and cached."""
    level = np.array([[0, 2], [1, 3], [0, 3], [1, 2]], np.int32)
    records = Records(level, np.full(4, 2), np.array([0, 2, 4]))
    for estimator in ("exact", "monte-carlo", "population"):
        settings = Settings(estimator=estimator)
        problem = make_problem(records, np.arange(4), 10, settings, None)
        advance(start_chain(0, 2, np.random.SeedSequence(0), problem), problem)
