"""Missing answers under rules: a world and a file from the prior by rejection, answers blanked at random.

Sweeps begin with a draw of the missing answers. The completed file, the parameters and the excluded people must follow
the prior afterwards, as in test_impossible.py, whose parts are used.
"""

import numpy as np
import pytest

from keyhole.kernels.sweep import fill_missing
from tests.statistical.test_impossible import CASES, LEVEL, conditioned_sweep, prior_draws, quantities, smallest_p

REPLICATES = 1_200


def run_with_blanks(rng, bench, sweeps, fill=fill_missing):
    """Return the quantities of completed files after some sweeps."""
    out = []
    for _ in range(REPLICATES):
        records, state, work = bench.draw(rng)
        known = records._replace(level=np.where(rng.random(records.level.shape) < 0.5, -1, records.level))
        for _ in range(sweeps):
            records = fill(rng, known, bench.prior, state)
            conditioned_sweep(rng, records, bench.prior, state, work)
        assert work.status[0] == 0
        out.append(quantities(records, state))
    return np.array(out)


@pytest.mark.parametrize("name", ["hdp adaptive", pytest.param("three variables", marks=pytest.mark.long)])
def test_sweeps_with_missing_answers_keep_the_prior(rng, name):
    assert smallest_p(prior_draws(name), run_with_blanks(rng, CASES[name], 4)) > LEVEL


def fill_blindly(rng, records, prior, state):
    """Missing answers as if everything were possible."""
    level = records.level.copy()
    for i, j in np.argwhere(level < 0):
        rows = slice(records.level_start[j], records.level_start[j + 1])
        chance = state.level_profile[rows, state.table_label[i, state.seat[i, j]]]
        level[i, j] = rows.start + rng.choice(len(chance), p=chance / chance.sum())
    return records._replace(level=level)


@pytest.mark.long
def test_answers_that_ignore_the_rules_are_noticed(rng):
    """Negative control."""
    drawn = run_with_blanks(rng, CASES["hdp adaptive"], 4, fill_blindly)
    assert smallest_p(prior_draws("hdp adaptive"), drawn) < LEVEL
