"""No two streams of random numbers of a run are the same."""

import re
from pathlib import Path

import numpy as np

import keyhole
from keyhole import seeds

SOURCE = Path(keyhole.__file__).parent
STREAMS = (seeds.REPLICATES, seeds.HALF_SAMPLE, seeds.RELEASE, seeds.MARGINS, seeds.LAYOUTS)


def test_all_streams_are_distinct():
    found = [child for chain in seeds.chain_seeds(1, 256) for child in chain.spawn(2)]
    found += [seeds.make_seeds(1, stream) for stream in STREAMS]
    found += seeds.make_seeds(1, seeds.HALF_SAMPLE).spawn(2)
    found += [seeds.make_seeds(1, seeds.RELEASE, draw) for draw in range(2_000)]
    numbers = {tuple(np.random.default_rng(sequence).integers(0, 2**63, 4)) for sequence in found}
    assert len(numbers) == len(found)


def test_streams_are_listed_in_one_place():
    """evaluation/ gives each sample a run with a seed of its own; precompile.py compiles, and uses no result."""
    allowed = {"seeds.py", "evaluation/running.py", "evaluation/population.py", "sampling/precompile.py"}
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if re.search(r"SeedSequence\(|spawn_key", path.read_text(encoding="utf-8"))
    }
    assert found <= allowed
    constants = {value for name, value in vars(seeds).items() if name.isupper()}
    assert constants == set(STREAMS)
