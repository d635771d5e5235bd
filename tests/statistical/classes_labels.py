"""Sweeps of `classes` together with their labels, which keyhole counts and does not keep.

A state is labels and profiles here. Before the first labels are accepted, its labels are counts alone.
"""

from typing import NamedTuple
from unittest.mock import patch

import numpy as np

from keyhole.kernels.classes import Cells, Labels, Profiles, Tally
from keyhole.kernels.state import Prior
from keyhole.sampling import classes
from keyhole.sampling.classes import ClassState, sweep_classes
from keyhole.sampling.shards import Each, here


class LabelledState(NamedTuple):
    """A state with the labels that its counts are of. visited: sweeps visit the records one after the other."""

    labels: Labels
    profiles: Profiles
    visited: bool = False


def sweep_labelled(
    rng: np.random.Generator, cells: Cells, prior: Prior, state: LabelledState | ClassState, each: Each = here
) -> LabelledState:
    """Make a sweep, and note the labels that it draws; they replace those of before only if it accepts them."""
    drawn: dict[int, Labels] = {}
    kernel = classes.draw_labels

    def draw_and_note(stream, cells, first, *others):
        drawn[first] = kernel(stream, cells, first, *others)
        return drawn[first]

    held = state[0]
    if isinstance(state, ClassState):
        before = state
    else:
        label = np.repeat(held.profile, held.size) if state.visited else classes.NO_LABELS
        before = ClassState(Tally(held.records, held.level_count), state.profiles, label)
    with patch.object(classes, "draw_labels", draw_and_note):
        after = sweep_classes(rng, cells, prior, before, each)
    if len(after.label) > 0:
        return LabelledState(list_entries(cells, after), after.profiles, visited=True)
    accepted = after.tally is not before.tally
    return LabelledState(
        join([drawn[first] for first in sorted(drawn)], after.tally) if accepted else held, after.profiles
    )


def list_entries(cells: Cells, state: ClassState) -> Labels:
    """The labels of a state whose records are visited, by cell and profile."""
    profiles = len(state.tally.records)
    cell = np.repeat(np.arange(len(cells.size)), cells.size)
    entry, size = np.unique(cell * profiles + state.label, return_counts=True)
    start = np.searchsorted(entry, np.arange(len(cells.size) + 1) * profiles)
    return Labels(start.astype(np.int64), (entry % profiles).astype(np.int32), size.astype(np.int32), *state.tally)


def join(parts: list[Labels], tally: Tally) -> Labels:
    """The labels of all shards, profiles without records left out."""
    used = sum(part.records for part in parts) > 0
    entries = np.cumsum([0, *(len(part.profile) for part in parts)])
    start = [0, *np.concatenate([part.start[1:] + first for part, first in zip(parts, entries, strict=False)])]
    profile = (np.cumsum(used) - 1).astype(np.int32)[np.concatenate([part.profile for part in parts])]
    size = np.concatenate([part.size for part in parts])
    return Labels(np.array(start), profile, size, tally.records, tally.level_count)
