"""How much information a coarser release loses: non-uniform entropy.

A record whose category a, with n_a of the n records, is published as part of a group with n_g records loses
log2(n_g / n_a) bits. Of a key that is left out every record loses log2(n / n_a), which is on average its entropy.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from keyhole.data.recoding import Groups
from keyhole.kernels.state import Floats
from keyhole.sampling.events import Coarsening

Counts = Sequence[NDArray[np.int64]]
"""For each key, how many records have each of its categories."""


def count_categories(cells: NDArray[np.int32], size: NDArray[np.int64], levels: Sequence[int]) -> Counts:
    """Count the records of each category, without missing answers; cells (cells, J), size: the records of each."""
    return [
        np.bincount(cells[:, j][cells[:, j] >= 0], size[cells[:, j] >= 0], minlength=d).astype(np.int64)
        for j, d in enumerate(levels)
    ]


def lose_key(count: NDArray[np.int64], groups: Groups | None) -> float:
    """Return the mean bits lost by the records if a key is published in these groups, or left out if there are none."""
    published: Floats = np.full(len(count), float(count.sum()))
    for group in groups or ():
        published[list(group)] = count[list(group)].sum()
    met = count > 0
    total = float(count.sum())
    return float((count[met] * np.log2(published[met] / count[met])).sum() / total) if total else 0.0


def lose(counts: Counts, coarsening: Coarsening) -> tuple[float, ...]:
    """Return the mean bits that the records lose on each key."""
    groups = dict(zip(coarsening.kept, coarsening.groups, strict=True))
    return tuple(lose_key(count, groups.get(j)) for j, count in enumerate(counts))
