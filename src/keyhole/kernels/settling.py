"""The first draw of what a chain starts from, given who sits where.

One kernel in place of five calls from Python: every way in from Python takes a second to compile.
"""

from keyhole.kernels.concentrations import fill_seating
from keyhole.kernels.jit import kernel
from keyhole.kernels.profiles import draw_profiles, drop_empty_profiles, tally_answers
from keyhole.kernels.weights import draw_weights


@kernel
def settle(rng, records, prior, state, work):
    """Draw weights and profiles for records that have been seated, and bring tallies and V into step."""
    fill_seating(rng, records, prior, state, work)
    tally_answers(rng, records, prior, state, work)
    drop_empty_profiles(rng, records, prior, state, work)
    draw_weights(rng, records, prior, state, work)
    draw_profiles(rng, records, prior, state, work)
