"""Traces made by hand: chains whose answers are known."""

import numpy as np

from keyhole.sampling import Trace

UNIQUES = 60


def make_trace(rng: np.random.Generator, centres: list[float], draws: int = 200, **changes) -> Trace:
    """Chains at rest whose expected tau1 is about these centres; risks of 60 sample uniques go with it."""
    chains = len(centres)
    expected = np.clip(np.array(centres)[:, None] + rng.normal(0, 1.0, (chains, draws)), 0, UNIQUES)
    share = (expected / UNIQUES)[:, :, None]
    r1 = np.clip(share * rng.uniform(0.8, 1.2, (1, 1, UNIQUES)), 0, 1).astype(np.float32)
    r2 = np.sqrt(r1)
    quantities = {
        "tau1": rng.binomial(UNIQUES, expected / UNIQUES).astype(float),
        "tau2": r2.sum(axis=2) + rng.normal(0, 1.0, (chains, draws)),
        "tau1_expected": r1.sum(axis=2, dtype=float),
        "tau2_expected": r2.sum(axis=2, dtype=float),
        "tau1_variance": (r1 * (1 - r1)).sum(axis=2, dtype=float),
        "tau2_variance": np.ones((chains, draws)),
        "log_likelihood": -1000.0 + 10.0 * np.array(centres)[:, None] + rng.normal(0, 5.0, (chains, draws)),
        "profiles": rng.integers(8, 12, (chains, draws)).astype(float),
        "effective_profiles": rng.normal(5, 1, (chains, draws)),
        "weight_concentration": rng.normal(5, 1, (chains, draws)),
        "record_concentration": rng.normal(5, 1, (chains, draws)),
    }
    fields = {
        "starts": (1, 5, 20, 100, 1, 5, 20, 100, 1, 5)[:chains],
        "sweeps": 10 * draws,
        "burn_in": 0,
        "thin": 5,
        "quantities": quantities,
        "r1": r1,
        "r2": r2,
        "record_stride": 1,
        "draws": (),
        "estimator": "exact",
        "estimator_error": None,
        "stopped": "time",
        "seconds": {"sampling": 1.0, "risk": 1.0},
        "target_ess": 100,
        "n_unseen": 100_000,
    }
    return Trace(**(fields | changes))
