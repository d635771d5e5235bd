"""Probabilities of cells that are made of events (events.py) under one kept draw."""

import numpy as np

from keyhole.kernels.cells import CellWork, cell_probabilities, make_cell_work
from keyhole.kernels.estimators import importance_probabilities
from keyhole.kernels.keep import Kept
from keyhole.kernels.state import Floats
from keyhole.sampling.costs import EXACT_STEPS, PARTICLES, exact_steps
from keyhole.sampling.events import Events, Part


def find_event_probabilities(
    rng: np.random.Generator, kept: Kept, events: Events, scratch: dict[int, CellWork]
) -> Floats:
    """Return for each cell the sum of the probabilities of its events."""
    return weigh_events(rng, kept, events, scratch)[0]


def weigh_events(
    rng: np.random.Generator, kept: Kept, events: Events, scratch: dict[int, CellWork]
) -> tuple[Floats, float]:
    """Return the same, and the mean relative Monte Carlo error of an event: 0 where the sums are exact."""
    total, error, rows = np.zeros(events.cells), 0.0, 0
    profile = np.ascontiguousarray(events.set_profile(kept.level_profile))
    for part in events.parts:
        found, part_error = _part_probabilities(rng, kept, profile, part, scratch)
        total += np.bincount(part.cell, weights=found, minlength=events.cells)
        error += part_error * len(part.cell)
        rows += len(part.cell)
    return total, error / max(rows, 1)


def _part_probabilities(
    rng: np.random.Generator, kept: Kept, profile: Floats, part: Part, scratch: dict[int, CellWork]
) -> tuple[Floats, float]:
    events, variables = part.row.shape
    if variables == 0:
        return np.ones(events), 0.0
    out = np.zeros(events)
    if exact_steps(variables) > EXACT_STEPS:
        error = importance_probabilities(rng, kept._replace(level_profile=profile), part.row, PARTICLES, out)
        return out, float(error)
    profiles = int(kept.profile_total[0])
    work = scratch.get(variables)
    if work is None or work.factor.shape[1] < profiles:
        work = scratch[variables] = make_cell_work(variables, profiles + 50)
    cell_probabilities(kept.weight, profile, profiles, kept.seating, part.row, work, out)
    return out, 0.0
