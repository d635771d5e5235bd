"""Fixtures for all tests: a generator seeded by the test's own name, and tiny data."""

import hashlib
import os
import signal

import numpy as np
import pytest
from hypothesis import settings
from numpy.typing import NDArray

# In the background (nohup, a job without a terminal) SIGINT is ignored, and processes that tests start inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Every change meets the same cases, so that red means that the change did it; scripts/test-long looks for new ones.
settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.register_profile("searching", database=None, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("KEYHOLE_CASES", "repeatable"))


def seed_from_name(name: str) -> int:
    """A seed that belongs to this name: a failure repeats, and no test borrows another's luck."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Generator seeded by the test's node name."""
    return np.random.default_rng(seed_from_name(request.node.name))


@pytest.fixture
def tiny_codes() -> NDArray[np.int32]:
    """Six records, three variables with 2, 3 and 2 categories; two sample uniques."""
    rows = [(0, 0, 0), (0, 0, 0), (0, 1, 1), (1, 2, 0), (1, 2, 0), (1, 0, 1)]
    return np.array(rows, dtype=np.int32)
