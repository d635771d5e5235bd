"""Every stream of random numbers of a run, by its key beneath the seed. No two streams share a key.

A chain has the keys (chain, 0) for sweeps and (chain, 1) for risks; `Settings` allows 256 chains. All other streams
begin with a number beyond every chain.
"""

import numpy as np

REPLICATES = 1_000
"""Files drawn by the model check."""

HALF_SAMPLE = 1_001
"""The half of the self-check, and the seed of its run."""

RELEASE = 1_002
"""Cell probabilities of a coarser release, by stored draw."""

MARGINS = 1_003
"""Records whose margins the model check compares."""


LAYOUTS = 1_004
"""Layouts of the rows of ordered keys: the same for every seed, because they are part of the model."""


def chain_seeds(seed: int, chains: int) -> list[np.random.SeedSequence]:
    return np.random.SeedSequence(seed).spawn(chains)


def make_seeds(seed: int, stream: int, *numbers: int) -> np.random.SeedSequence:
    """Return the sequence of a stream, and of one of its parts if it is numbered."""
    return np.random.SeedSequence(seed, spawn_key=(stream, *numbers))
