"""Files as the model would draw them: as many people as the file has, for draws spread evenly over all chains.

The generator is derived from the seed beside those of the chains, so that nothing else changes.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from keyhole.kernels.cells import CellWork, make_cell_work
from keyhole.kernels.possible import draw_possible_people
from keyhole.kernels.seating import fill_mixed_seating, fill_shared_seating
from keyhole.kernels.state import Records, Rules, no_rules
from keyhole.sampling.rules import make_rules
from keyhole.sampling.trace import Trace
from keyhole.settings import Settings
from keyhole.zeros import Zeros

STREAM = 1_000
"""Chains take the streams 0, 1, ... of the seed, at most 256 of them; this one is nobody's."""

MOST_REPLICATES = 100
FEWEST_REPLICATES = 40
"""Below this an interval of 95 % could not be read off at all."""

SHARE = 0.05
"""Of the time of the sweeps."""


def count_replicates(trace: Trace, records: Records, rules: Rules) -> int:
    """Return how many files to draw, from sizes alone: as many as cost 5 % of the sweeps, 40 to 100.

    Nanoseconds on one core: a sweep as in problem.py; for each answer drawn and counted 150, and a tenth for each
    profile with rules; for each possible box, twice, 0.4 for each profile and set and 0.2 for each step of its sums.
    """
    n, variables = records.level.shape
    profiles = trace.kept["weight"].shape[2]
    sweeps = trace.sweeps * len(trace.starts) * (1e6 + 70.0 * n * variables)
    sizes = np.diff(rules.possible_start).astype(np.float64)
    boxes = float((0.8 * profiles * 2.0**sizes + 0.4 * sizes * 3.0 ** (sizes - 1.0)).sum())
    answer = 150.0 + (0.1 * profiles if len(sizes) else 0.0)
    wanted = int(SHARE * sweeps / (n * variables * answer + boxes))
    return min(max(wanted, FEWEST_REPLICATES), MOST_REPLICATES)


def draw_replicates(
    trace: Trace, records: Records, settings: Settings, zeros: Zeros | None
) -> Iterator[NDArray[np.int32]]:
    """Yield files (n, J) of categories, blank (-1) where the record has no answer."""
    rng = np.random.default_rng(np.random.SeedSequence(settings.seed, spawn_key=(STREAM,)))
    rules = (
        None if zeros is None else make_rules(zeros.impossible, zeros.possible, records.level_start)
    ) or no_rules()
    chains, draws = trace.kept["weight"].shape[:2]
    count = count_replicates(trace, records, rules)
    place = np.linspace(0, chains * draws, count, endpoint=False).astype(int)
    largest = int(max(*np.diff(rules.possible_start), 1)) if len(rules.possible_start) > 1 else 1
    cells = make_cell_work(largest, trace.kept["weight"].shape[2], lanes=1)
    missing = records.level < 0
    for x in place:
        levels = draw_file(rng, trace, divmod(int(x), draws), records, rules, settings.model == "mixed", cells)
        codes = levels - records.level_start[:-1].astype(np.int32)
        codes[missing] = -1
        yield codes


def draw_file(
    rng: np.random.Generator,
    trace: Trace,
    where: tuple[int, int],
    records: Records,
    rules: Rules,
    shared: bool,
    cells: CellWork,
) -> NDArray[np.int32]:
    """Return the levels (n, J) of one file drawn from the kept draw at (chain, draw), in random order."""
    kept = {name: values[where] for name, values in trace.kept.items()}
    profiles = int(np.flatnonzero(kept["weight"])[-1]) + 1
    variables = records.level.shape[1]
    seating = np.zeros((variables + 1, variables + 2))
    if shared:
        fill_shared_seating(float(kept["shared_concentration"][0]), seating)
    else:
        fill_mixed_seating(*(float(value) for value in kept["record_concentration"]), seating)
    people = np.zeros(records.level.shape, np.int32)
    draw_possible_people(
        rng, rules, kept["weight"], kept["level_profile"].astype(np.float64), profiles, seating, records.level_start,
        cells, people,
    )  # fmt: skip
    rng.shuffle(people)
    return people
