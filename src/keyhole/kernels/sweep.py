"""One sweep: every conditional at least once, in the order of docs/model.md section 3.

Weights are integrated out of the draw of gamma, and profiles out of that of the base levels, so both come last.
"""

import numpy as np

from keyhole.kernels.augmentation import draw_augmented_answers, draw_augmented_records
from keyhole.kernels.base import draw_base_distribution, draw_row_layouts
from keyhole.kernels.concentrations import draw_concentrations
from keyhole.kernels.jit import kernel
from keyhole.kernels.labels import draw_labels
from keyhole.kernels.missing import draw_missing
from keyhole.kernels.profiles import draw_profiles, drop_empty_profiles, tally_answers
from keyhole.kernels.seats import draw_seats
from keyhole.kernels.state import Prior, Records, State, has_rules
from keyhole.kernels.weights import draw_weight_concentration, draw_weights
from keyhole.kernels.work import GROW, OK, Work

LABEL_PASSES = 2
"""Further draws of labels, weights and profiles in a sweep without rules: these mix most slowly."""


@kernel
def run_sweep(rng, records, prior, state, work):
    """Make one sweep."""
    draw_seats(rng, records, prior, state, work)
    if work.status[0] != OK:
        return
    ruled = prior.rules.box_start.shape[0] > 1
    # Without rules labels, weights and profiles are drawn in turn several times: they depend strongly on each other
    # and are cheap. With rules weights and profiles depend on the augmented records, which are drawn later.
    for further in range(0 if ruled else LABEL_PASSES, -1, -1):
        draw_labels(rng, records, prior, state, work)
        if work.status[0] != OK:
            return
        tally_answers(rng, records, prior, state, work)
        if further > 0:
            drop_empty_profiles(rng, records, prior, state, work)
            draw_weights(rng, records, prior, state, work)
            draw_profiles(rng, records, prior, state, work)
    if ruled:
        # Profiles that only the augmented records of the last sweep used remain until new ones are drawn: these are
        # drawn given all of G_0, so no part of it may be dropped before.
        draw_augmented_records(rng, records, prior, state, work)
        if work.status[0] != OK:
            return
        draw_augmented_answers(rng, records, prior, state, work)
    drop_empty_profiles(rng, records, prior, state, work)
    draw_weight_concentration(rng, records, prior, state, work)
    draw_row_layouts(rng, records, prior, state, work)
    draw_base_distribution(rng, records, prior, state, work)
    draw_concentrations(rng, records, prior, state, work)
    draw_weights(rng, records, prior, state, work)
    draw_profiles(rng, records, prior, state, work)


def fill_missing(rng: np.random.Generator, records: Records, prior: Prior, state: State) -> Records:
    """Return the records with their missing answers drawn if there are rules; otherwise unchanged."""
    if not has_rules(prior.rules) or not records.level.size or records.level.min() >= 0:
        return records
    level = np.empty_like(records.level)
    draw_missing(
        rng, prior.rules, records.level, records.level_start, state.seat, state.table_label, state.level_profile, level
    )
    return records._replace(level=level)


def run_sweeps(rng: np.random.Generator, records: Records, prior: Prior, state: State, work: Work, sweeps: int) -> int:
    """Make up to `sweeps` sweeps; return how many were made. work.status gives the reason if there are fewer.

    GROW: a sweep seldom opens more than a few profiles, and with rules about forty for each unit of gamma (the sticks
    of draw_augmented_records), but it must never run out of room. This loop is not compiled, because compiling it takes
    long and saves next to nothing.
    """
    boxes = len(prior.rules.box_start) - 1
    if len(work.box_probability) != boxes or len(work.edge_shape) != len(prior.trees.edge_first):
        raise ValueError("this scratch was made for another prior: kernels would write beyond its end.")
    for done in range(sweeps):
        work.status[0] = OK
        room = 128 + (60 * int(state.weight_concentration[0] + 1.0) if len(work.box_probability) else 0)
        if state.profile_total[0] + room > len(state.weight):
            work.status[0] = GROW
            return done
        run_sweep(rng, fill_missing(rng, records, prior, state), prior, state, work)
        if work.status[0] != OK:
            return done
    return sweeps
