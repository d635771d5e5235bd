"""One sweep: every conditional once, in the order of MODEL.md section 3.

gamma integrates the weights out and the base levels integrate the profiles out, so weights and profiles come last.
"""

from keyhole.kernels.concentrations import draw_concentrations
from keyhole.kernels.jit import kernel
from keyhole.kernels.labels import draw_labels
from keyhole.kernels.levels import draw_base_level, draw_base_strength
from keyhole.kernels.profiles import draw_profiles, drop_empty_profiles, tally_answers
from keyhole.kernels.seats import draw_seats
from keyhole.kernels.splitmerge import draw_splits_and_merges
from keyhole.kernels.weights import draw_weight_concentration, draw_weights
from keyhole.kernels.work import GROW, OK


@kernel
def run_sweep(rng, records, prior, state, work):
    """Make one sweep."""
    draw_seats(rng, records, prior, state, work)
    if work.status[0] != OK:
        return
    draw_labels(rng, records, prior, state, work)
    if work.status[0] != OK:
        return
    tally_answers(rng, records, prior, state, work)
    draw_splits_and_merges(rng, records, prior, state, work)
    if work.status[0] != OK:
        return
    drop_empty_profiles(rng, records, prior, state, work)
    draw_weight_concentration(rng, records, prior, state, work)
    draw_base_strength(rng, records, prior, state, work)
    draw_base_level(rng, records, prior, state, work)
    draw_concentrations(rng, records, prior, state, work)
    draw_weights(rng, records, prior, state, work)
    draw_profiles(rng, records, prior, state, work)


@kernel
def lacks_room(state):
    """Say whether a sweep could fill the arrays: it may open this many profiles, rarely a handful."""
    return state.profile_total[0] + 128 > state.weight.shape[0]


@kernel
def run_sweeps(rng, records, prior, state, work, sweeps):
    """Make up to `sweeps` sweeps; return how many were made. Work.status says why it stopped early."""
    work.status[0] = OK
    for done in range(sweeps):
        if lacks_room(state):
            work.status[0] = GROW
            return done
        run_sweep(rng, records, prior, state, work)
        if work.status[0] != OK:
            return done
    return sweeps
