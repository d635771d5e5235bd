"""Layouts of the rows and the base distribution H under `adaptive`: strengths and base levels (trees.py).

theta is integrated out of both, so they are drawn before it.
"""

from keyhole.kernels.jit import allocating, inner
from keyhole.kernels.trees import draw_base, draw_layouts, fill_shapes


@inner
def draw_row_layouts(rng, records, prior, state, work):
    """Make a step for the layout of every row of an ordered key."""
    trees = prior.trees
    for j in range(records.level.shape[1]):
        fill_shapes(trees, j, state.base_strength, state.base_level, work.edge_shape)
        draw_layouts(
            rng, trees, j, records.level_start[j], records.level_start[j + 1], state.level_count,
            state.profile_total[0], state.base_strength, work.edge_shape, state.layout, work.below,
        )  # fmt: skip


@allocating
def draw_base_distribution(rng, records, prior, state, work):
    """Draw strengths and base levels of every key; fixed under `paper`."""
    if not prior.adaptive:
        return
    trees = prior.trees
    for j in range(records.level.shape[1]):
        draw_base(
            rng, trees, prior.strength_sd, j, records.level_start[j], records.level_start[j + 1], state.level_count,
            state.profile_total[0], state.layout, work.edge_shape, state.base_strength, state.base_level, work.below,
        )  # fmt: skip
