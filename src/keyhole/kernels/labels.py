"""Labels: MODEL.md section 3, step 2.

For each table of each record, its answers moving together:
    profile k        with weight  beta_k prod over its answers of theta^(k)_v
    a new profile    with weight  beta_0 prod over its answers of pi_v.
Without this block move the chain hardly mixes.
"""

from keyhole.kernels.jit import kernel
from keyhole.kernels.openings import build_brackets, open_profile, search_bracket
from keyhole.kernels.work import OK


@kernel
def multiply_answers(records, state, work, i, t, padded):
    """Fill Work.product with beta_k prod theta^(k)_v over the answers at table t; return prod pi_v."""
    fresh = 1.0
    first = True
    for j in range(records.level.shape[1]):
        if state.seat[i, j] != t:
            continue
        v = records.level[i, j]
        fresh *= state.base_level[v]
        if first:
            for k in range(padded):
                work.product[k] = work.weighted[v, k]
            first = False
        else:
            for k in range(padded):
                work.product[k] *= state.level_profile[v, k]
    return fresh


@kernel
def sum_by_eights(work, padded):
    """Fill Work.chunk with the cumulative sums of Work.product after each eight; return the total.

    Plainly: total = sum(product). Eight terms at a time break the chain of dependent additions.
    """
    total = 0.0
    p = work.product
    for c in range(padded // 8):
        k = 8 * c
        total += ((p[k] + p[k + 1]) + (p[k + 2] + p[k + 3])) + ((p[k + 4] + p[k + 5]) + (p[k + 6] + p[k + 7]))
        work.chunk[c] = total
    return total


@kernel
def search_eights(work, u):
    """Return the profile in whose share of the cumulative Work.product u falls; u is below the total."""
    c = 0
    while u >= work.chunk[c]:
        c += 1
    if c > 0:
        u -= work.chunk[c - 1]
    last = 8 * c
    for k in range(8 * c, 8 * c + 8):
        if work.product[k] > 0.0:
            last = k
            if u < work.product[k]:
                return k
            u -= work.product[k]
    return last


@kernel
def draw_label(rng, records, prior, state, work, i, t):
    """Redraw the label of table t of record i."""
    profiles = state.profile_total[0]
    if state.table_size[i, t] == 1:
        # A lone answer: the weights are the terms of its bracket, whose cumulative sums are at hand.
        j = 0
        while state.seat[i, j] != t:
            j += 1
        v = records.level[i, j]
        known = work.bracket[v, profiles - 1]
        u = rng.random() * (known + state.remainder[0] * state.base_level[v])
        k = search_bracket(work, v, profiles, u) if u < known else profiles
    else:
        padded = (profiles + 7) // 8 * 8
        fresh = state.remainder[0] * multiply_answers(records, state, work, i, t, padded)
        known = sum_by_eights(work, padded)
        u = rng.random() * (known + fresh)
        k = search_eights(work, u) if u < known else profiles
    if k == profiles:
        k = profiles - 1 if prior.finite else open_profile(rng, records, state, work, i, t)
    state.table_label[i, t] = k


@kernel
def draw_labels(rng, records, prior, state, work):
    """Redraw the label of every table."""
    build_brackets(state, work)
    for i in range(records.level.shape[0]):
        for t in range(state.table_total[i]):
            draw_label(rng, records, prior, state, work, i, t)
            if work.status[0] != OK:
                return
