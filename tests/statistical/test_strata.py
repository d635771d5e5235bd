"""Stratified samples against the oracle: what is fitted, exactly; and what would be the conditional likelihood."""

import math

import numpy as np
import polars as pl
import pytest

from keyhole.data import count_records, encode, read_microdata
from keyhole.data.strata import add_strata, make_strata
from keyhole.sampling import run_chains
from keyhole.settings import Settings
from tests.oracle.strata import weigh_prior

Z = 4.5
GAP = 0.06
"""How much the conditional likelihood, the exact one, may differ from the joint one that is fitted: with so few records
its other prior of P(s) matters."""

FILES = {
    "six records": ([(0, 0, 0), (0, 1, 0), (0, 0, 0), (1, 0, 0), (2, 2, 1), (2, 1, 1)], (3, 3, 2), [24, 4]),
    "a whole stratum": ([(0, 0, 0), (0, 1, 0), (0, 0, 0), (1, 0, 0), (2, 2, 1), (2, 1, 1)], (3, 3, 2), [40, 0]),
    "seven records": (
        [(0, 1, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0), (2, 0, 1), (2, 0, 1), (0, 0, 1)],
        (3, 2, 2),
        [6, 30],
    ),
}


def estimate(file, sweeps, ignore=False):
    """E tau1 and E tau2 by `classes`, with their Monte Carlo errors from batches of draws."""
    data, levels, unseen = FILES[file]
    frame = pl.DataFrame(np.array(data), schema=["A", "B", "S"], orient="row")
    book = {"A": list(range(levels[0])), "B": list(range(levels[1]))}
    microdata = read_microdata(frame, "A,B", book, ["A", "B"], strata=["S"])
    sizes = [sum(record[2] == s for record in data) + unseen[s] for s in range(2)]
    strata = None if ignore else make_strata(microdata, ["S"], pl.DataFrame({"S": [0, 1], "N": sizes}))
    unique = count_records(microdata.cells, microdata.cell).unique_record
    settings = Settings(model="classes", chains=4, seed=3, max_sweeps=sweeps, time_limit="1h", target_ess=1_000_000)
    trace = run_chains(add_strata(encode(microdata), strata), unique, sum(sizes), settings, strata=strata)
    drawn = np.stack([trace.quantities[f"{tau}_expected"] for tau in ("tau1", "tau2")], axis=-1)
    batches = np.array([part.mean(axis=0) for chain in drawn for part in np.array_split(chain, 10)])
    return drawn.mean(axis=(0, 1)), batches.std(axis=0, ddof=1) / math.sqrt(len(batches))


def compare(file, rng, draws, sweeps):
    """Return the largest |z| of fit against joint likelihood, and the gap of the conditional one with its error."""
    data, levels, unseen = FILES[file]
    weighed = weigh_prior(rng, data, levels, unseen, draws)
    joint, joint_error = weighed.mean(weighed.log_joint)
    conditional, error = weighed.mean(weighed.log_conditional)
    found, found_error = estimate(file, sweeps)
    z = np.abs(found - joint) / np.hypot(found_error, joint_error)
    return z.max(), conditional - joint, np.hypot(error, joint_error)


@pytest.mark.parametrize("file", FILES)
def test_what_is_fitted_is_the_joint_likelihood(file, rng):
    z, gap, error = compare(file, rng, 40_000, 4_000)
    assert z < Z
    assert (np.abs(gap) < GAP + 3.0 * error).all()


def test_ignoring_strata_would_be_seen(rng):
    data, levels, unseen = FILES["a whole stratum"]
    weighed = weigh_prior(rng, data, levels, unseen, 40_000)
    joint, error = weighed.mean(weighed.log_joint)
    ignored, ignored_error = estimate("a whole stratum", 4_000, ignore=True)
    assert (np.abs(ignored - joint) / np.hypot(error, ignored_error)).max() > Z


@pytest.mark.long
@pytest.mark.parametrize("file", FILES)
def test_closely(file, rng):
    z, gap, error = compare(file, rng, 2_000_000, 100_000)
    assert z < Z
    assert (np.abs(gap) < GAP + 3.0 * error).all()
