"""Labels: draws the profile of every table, its answers moving together (docs/model.md section 3).

    profile k        with weight  beta_k prod over its answers of theta^(k)_v
    a new profile    with weight  beta_0 prod over its answers of pi_v.
Without this block move the chain hardly mixes.

A profile is removed before its only table is resampled (profiles.py gives the reason). The loop over tables is one long
function for the reason given in seats.py.
"""

from keyhole.kernels.jit import allocating, inner
from keyhole.kernels.profiles import (
    CLOSE,
    DONE,
    OPEN,
    build_brackets,
    close_profile,
    label_fresh_table,
    make_profile_arrays,
)
from keyhole.kernels.work import OK


@inner
def label_tables(
    rng, level, seat, size, label, table_total, weighted, bracket, level_profile, base_level, remainder, profiles,
    profile_tables, finite, product, chunk, first_record, first_table
):  # fmt: skip
    """Resample labels from this table on, until a profile must be closed or opened.

    Return the record, the table and what to do next. CLOSE: close the table's profile, then resume at the same table.
    OPEN: open a profile for it.
    """
    n, variables = level.shape
    padded = (profiles + 7) // 8 * 8
    start = first_table
    known, fresh = 0.0, 0.0
    weighed = -1
    for i in range(first_record, n):
        for t in range(start, table_total[i]):
            if profile_tables[label[i, t]] == 1 and not finite:
                return i, t, CLOSE
            if size[i, t] == 1:
                # A single answer: its weights are the terms of a bracket, whose cumulative sums are known.
                j = 0
                while seat[i, j] != t:
                    j += 1
                v = level[i, j]
                u = rng.random() * (bracket[v, profiles - 1] + remainder * base_level[v])
                k, above = 0, profiles
                while k < above:
                    middle = (k + above) // 2
                    if u < bracket[v, middle]:
                        above = middle
                    else:
                        k = middle + 1
            else:
                # Most records have one table, and equal records are neighbours: their weights are the same.
                same = weighed >= 0 and table_total[i] == 1
                if same:
                    for j in range(variables):
                        same = same and level[i, j] == level[weighed, j]
                if not same:
                    weighed = i if table_total[i] == 1 else -1
                    fresh = remainder
                    first = True
                    for j in range(variables):
                        if seat[i, j] == t:
                            v = level[i, j]
                            fresh *= base_level[v]
                            if first:
                                for k in range(padded):
                                    product[k] = weighted[v, k]
                                first = False
                            else:
                                for k in range(padded):
                                    product[k] *= level_profile[v, k]
                    # Every eighth entry of cumsum(product), computed without one long chain of dependent additions.
                    known = 0.0
                    for c in range(padded // 8):
                        k = 8 * c
                        left = (product[k] + product[k + 1]) + (product[k + 2] + product[k + 3])
                        right = (product[k + 4] + product[k + 5]) + (product[k + 6] + product[k + 7])
                        known += left + right
                        chunk[c] = known
                u = rng.random() * (known + fresh)
                k = profiles
                if u < known:
                    c = 0
                    while u >= chunk[c]:
                        c += 1
                    if c > 0:
                        u -= chunk[c - 1]
                    k = 8 * c
                    while k < 8 * c + 7 and (u >= product[k] or product[k] == 0.0):
                        u -= product[k]
                        k += 1
                    # Rounding may carry u past the last weight of the eight: go back to one that is not zero.
                    while product[k] == 0.0:
                        k -= 1
            if profile_tables[label[i, t]] > 0:
                profile_tables[label[i, t]] -= 1
            if k == profiles:
                return i, t, OPEN
            label[i, t] = k
            profile_tables[k] += 1
        start = 0
    return n, 0, DONE


@allocating
def draw_labels(rng, records, prior, state, work):
    """Resample the label of every table."""
    arrays = make_profile_arrays(records, prior, state, work)
    build_brackets(arrays)
    i, t = 0, 0
    while True:
        i, t, event = label_tables(
            rng, records.level, state.seat, state.table_size, state.table_label, state.table_total, work.weighted,
            work.bracket, state.level_profile, state.base_level, state.remainder[0], state.profile_total[0],
            state.profile_tables, prior.finite, work.product, work.chunk, i, t,
        )  # fmt: skip
        if event == DONE:
            return
        if event == CLOSE:
            close_profile(arrays, state.table_label[i, t])
        else:
            label_fresh_table(rng, arrays, prior.finite, records.level, state.seat, state.table_label, i, t)
            if work.status[0] != OK:
                return
            t += 1
