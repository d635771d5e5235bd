"""The marginal likelihood of the rows of an ordered key, for reading. Imports nothing from keyhole.

A layout is a nested pair: (0, (1, 2)) splits category 0 from the two others, and then these. A node splits its mass by
a Dirichlet whose mean is that of pi, so the answers below it choose its parts by a Polya urn, whatever they choose
later. A profile has each layout with the same probability.
"""

from collections.abc import Callable, Sequence
from typing import Any

Layout = Any
"""A category, or a tuple of layouts."""


def leaves(layout: Layout) -> list[int]:
    """Return the categories below a node."""
    return [layout] if isinstance(layout, int) else [x for part in layout for x in leaves(part)]


def urn(strength: Any, share: Sequence[Any], count: Sequence[int]) -> Any:
    """Probability of answers in this order, `count` of each part, one after the other."""
    value, seen = 1.0, 0
    for part, total in zip(share, count, strict=True):
        for before in range(total):
            value = value * (strength * part + before) / (strength + seen)
            seen += 1
    return value


def layout_likelihood(layout: Layout, strength: Callable[[Layout], Any], base: Any, count: Sequence[int]) -> Any:
    """Probability of the answers of one profile under a layout; base: pi, with the categories first."""
    if isinstance(layout, int):
        return 1.0
    below = [leaves(part) for part in layout]
    mass = [sum(base[x] for x in part) for part in below]
    share = [part / sum(mass) for part in mass]
    value = urn(strength(layout), share, [sum(count[x] for x in part) for part in below])
    for part in layout:
        value = value * layout_likelihood(part, strength, base, count)
    return value


def mean_likelihood(
    layouts: Sequence[Layout], strength: Callable[[Layout], Any], base: Any, count: Sequence[int]
) -> Any:
    """Probability of the answers of one profile, its layout unknown."""
    return sum(layout_likelihood(layout, strength, base, count) for layout in layouts) / len(layouts)
