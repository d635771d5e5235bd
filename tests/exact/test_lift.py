"""Under a lift chains follow another law; what is kept of their draws follows the exact posterior."""

import numpy as np
import pytest

from tests.exact.enumeration import chi_square_p, complete_states, draw_learned, encode_states
from tests.exact.test_posterior import LEARNED, LEVEL, enumerated
from tests.statistical.prior_pool import lift_prior
from tests.statistical.running import choose, lift_pool, lower_pool, run_step

STARTS = 400_000


def p_value(rng, name, lower=lower_pool, times=3):
    """Chi-square p-value of where sweeps under a lift end, from starts that follow it exactly."""
    found = enumerated(LEARNED[name])
    prior = lift_prior(found.case.prior)
    pool = choose(found.pool, rng.choice(len(found.code), size=STARTS, p=found.probability))
    draw_learned(rng, found.case, pool)
    complete_states(rng, found.case.prior, pool)
    pool = lift_pool(rng, prior, pool)
    run_step("seating", rng, prior, pool)
    run_step("sweep", rng, prior, pool, times)
    pool = lower(rng, prior, pool)
    order = np.argsort(found.code)
    place = order[np.searchsorted(found.code[order], encode_states(pool))]
    assert np.array_equal(found.code[place], encode_states(pool))
    return chi_square_p(np.bincount(place, minlength=len(order)), found.probability * len(place))


@pytest.mark.parametrize("name", ["hdp, 2 records 3 variables", "hdp, 3 records 2 variables"])
def test_what_is_kept_follows_the_posterior(rng, name):
    assert p_value(rng, name) > LEVEL


def test_what_is_not_thinned_does_not(rng):
    """Negative control."""
    assert p_value(rng, "hdp, 3 records 2 variables", lower=lambda rng, prior, pool: pool) < LEVEL
