"""The releases that a plan chooses from: one level of coarsening for each key, and how much information each loses.

The levels of a key are partly ordered: one is coarser than another if each of its groups is a union of groups of the
other, and a key that is left out is coarser than all. A release is coarser if it is so in every key.

The loss of a level is the non-uniform entropy (Gionis and Tassa 2009) that is lost, between 0 and 1:
    1 - H(groups) / H(categories) = sum over records of log(n_group / n_category) / (n H(categories)).
That of a release is the mean over keys, weighted by their importance.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from keyhole.data.bands import read_bands
from keyhole.data.recoding import Groups, is_coarser, join_groups, merge_bands, name_group, read_span
from keyhole.data.variables import BLANK, Microdata, Variable
from keyhole.errors import OptionError, SettingsError
from keyhole.kernels.state import Floats
from keyhole.risk.loss import count_categories, lose_key
from keyhole.sampling.events import Coarsening
from keyhole.words import did_you_mean

Node = tuple[int, ...]
"""A release: the number of the level of each key."""

MANY = 20
"""Numbers from which on bands at round limits are levels, in place of pairs of neighbours."""

WIDTHS = (2, 5, 10, 20, 50)
AS_IS, LEFT_OUT = "as it is", "left out"


@dataclass(frozen=True)
class Level:
    """One way to publish a key. groups: its categories, None if it is left out; names: theirs; words: what is done."""

    groups: Groups | None
    names: tuple[str, ...]
    words: str

    @property
    def unchanged(self) -> bool:
        return self.groups is not None and all(len(group) == 1 for group in self.groups)


@dataclass(frozen=True)
class Lattice:
    """The levels of every key, the first of each as it is.

    loss: that of each level; weight: the importance of each key, with sum 1; coarser: for each key, bool (levels,
    levels), whether the first is at least as coarse as the second.
    """

    variables: tuple[Variable, ...]
    levels: tuple[tuple[Level, ...], ...]
    loss: tuple[Floats, ...]
    weight: Floats
    coarser: tuple[NDArray[np.bool_], ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(found) for found in self.levels)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def finest(self) -> Node:
        return (0,) * len(self.levels)

    @property
    def coarsest(self) -> Node:
        return tuple(len(found) - 1 for found in self.levels)

    @cached_property
    def losses(self) -> Floats:
        """The loss of every release, an array with one axis for each key."""
        total = np.zeros(self.shape)
        for j, own in enumerate(self.loss):
            total += (self.weight[j] * own).reshape([-1 if x == j else 1 for x in range(len(self.loss))])
        return total

    def loss_of(self, node: Node) -> float:
        return float(sum(self.weight[j] * self.loss[j][x] for j, x in enumerate(node)))

    def coarsening(self, node: Node) -> Coarsening:
        chosen = [(j, self.levels[j][x].groups) for j, x in enumerate(node)]
        kept = [(j, groups) for j, groups in chosen if groups is not None]
        return Coarsening(tuple(j for j, _ in kept), tuple(groups for _, groups in kept))

    def is_coarser(self, node: Node, other: Node) -> bool:
        """Whether a release is at least as coarse as another."""
        return all(bool(self.coarser[j][x, y]) for j, (x, y) in enumerate(zip(node, other, strict=True)))

    def all_finer(self, node: Node) -> tuple[NDArray[np.intp], ...]:
        """Return an index of all releases that are finer than this one, and of itself."""
        return np.ix_(*(np.flatnonzero(self.coarser[j][x]) for j, x in enumerate(node)))

    def all_coarser(self, node: Node) -> tuple[NDArray[np.intp], ...]:
        return np.ix_(*(np.flatnonzero(self.coarser[j][:, x]) for j, x in enumerate(node)))

    def next_coarser(self, j: int, x: int) -> list[int]:
        """Return the levels of a key just above one of them."""
        above = [y for y in range(len(self.levels[j])) if y != x and self.coarser[j][y, x]]
        return [y for y in above if not any(z != y and self.coarser[j][y, z] for z in above)]

    def next_finer(self, j: int, x: int) -> list[int]:
        below = [y for y in range(len(self.levels[j])) if y != x and self.coarser[j][x, y]]
        return [y for y in below if not any(z != y and self.coarser[j][z, y] for z in below)]

    def describe(self, node: Node) -> list[str]:
        """Say what is done to the keys that change."""
        return [
            f"{variable.name} {self.levels[j][node[j]].words}"
            for j, variable in enumerate(self.variables)
            if not self.levels[j][node[j]].unchanged
        ]


def make_lattice(
    microdata: Microdata,
    keep: Iterable[str] = (),
    importance: Mapping[str, float] | None = None,
    hierarchies: Mapping[str, Sequence[Level]] | None = None,
) -> Lattice:
    """Return the releases of a file.

    keep: keys that stay as they are; hierarchies: levels of keys in place of the usual ones.
    """
    variables = microdata.variables
    names = [variable.name for variable in variables]
    kept = {name.strip() for name in ([keep] if isinstance(keep, str) else keep)}
    given = dict(importance or {})
    for option, used in (("keep", kept), ("importance", given), ("hierarchy", hierarchies or {})):
        unknown = next((name for name in used if name not in names), None)
        if unknown is not None:
            raise OptionError(f"`{option}` '{unknown}' is not one of the keys{did_you_mean(unknown, names)}")
    for name, value in given.items():
        if not (isinstance(value, int | float) and 0.0 < value < math.inf):
            raise SettingsError(f"`importance` {name}: write a number above 0, such as 3")
    levels, losses, coarser = [], [], []
    counts = count_categories(microdata.cells, microdata.cell_size, microdata.levels)
    for j, variable in enumerate(variables):
        found = [make_as_is(variable)]
        if variable.name not in kept:
            own = (hierarchies or {}).get(variable.name)
            usual = list_levels(variable) if own is None else own
            found += [level for level in usual if tells_apart(variable, level, counts[j])]
            found.append(Level(None, (), LEFT_OUT))
        found = _order(found, counts[j])
        levels.append(tuple(found))
        losses.append(np.array([lose_entropy(level.groups, counts[j]) for level in found]))
        coarser.append(np.array([[_is_coarser(a.groups, b.groups) for b in found] for a in found]))
    weight = np.array([given.get(name, 1.0) for name in names])
    return Lattice(variables, tuple(levels), tuple(losses), weight / weight.sum(), tuple(coarser))


def tells_apart(variable: Variable, level: Level, count: NDArray[np.int64]) -> bool:
    """Whether the answers in the file are in two groups or more; otherwise the key may as well be left out.

    count: the records of each category.
    """
    answers = {x for x, code in enumerate(variable.categories) if code != BLANK and count[x]}
    return sum(not answers.isdisjoint(group) for group in level.groups or ()) > 1


def make_as_is(variable: Variable) -> Level:
    groups = tuple((x,) for x in range(len(variable.categories)))
    return Level(groups, variable.categories, AS_IS)


def make_level(variable: Variable, groups: Groups, words: str) -> Level:
    return Level(groups, tuple(name_group(variable, group) for group in groups), words)


def list_levels(variable: Variable) -> list[Level]:
    """Return the usual levels of an ordered key: neighbours merged, top and bottom coding. Other keys have none."""
    first, last = variable.orderable
    ordered = last - first
    if not variable.ordered or ordered < 3:
        return []
    found = _band_levels(variable) if ordered >= MANY else []
    if ordered >= MANY and not found:
        found = [_merge(variable, [range(x, min(x + width, last)) for x in range(first, last, width)],
                        f"in groups of {width}") for width in WIDTHS if width < ordered]  # fmt: skip
    width = 2
    while width < ordered and ordered < MANY:
        starts = range(first, last, width)
        found.append(_merge(variable, [range(x, min(x + width, last)) for x in starts], f"in groups of {width}"))
        width *= 2
    for count in sorted({2, max(ordered // 4, 2), max(ordered // 2, 2)}):
        if count < ordered:
            top, bottom = range(last - count, last), range(first, first + count)
            found.append(_merge(variable, [top], f"with the highest {count} merged"))
            found.append(_merge(variable, [bottom], f"with the lowest {count} merged"))
    unique: dict[Groups | None, Level] = {}
    for level in found:
        if level.groups is not None and 1 < len(level.groups) < len(variable.categories):
            unique.setdefault(level.groups, level)
    return list(unique.values())


def _band_levels(variable: Variable) -> list[Level]:
    """Return bands of round widths, for keys that are numbers."""
    first, last = variable.orderable
    spans = [read_span(text) for text in (variable.labels or variable.categories)[first:last]]
    if any(span is None or span.low != span.high for span in spans):
        return []
    found = []
    for width in WIDTHS:
        text = f"{width}y"
        groups = merge_bands(variable, read_bands({variable.name: text})[variable.name])
        found.append(make_level(variable, groups, f"in bands of {width}"))
    return found


def _merge(variable: Variable, groups: Sequence[Sequence[int]], words: str) -> Level:
    merged = join_groups(len(variable.categories), [tuple(tuple(group) for group in groups)])
    return make_level(variable, merged, words)


def lose_entropy(groups: Groups | None, count: NDArray[np.int64]) -> float:
    """Return the share of a key's entropy that a level loses; count: the records of each category."""
    whole = lose_key(count, None)
    return 1.0 if groups is None or whole == 0.0 else min(lose_key(count, groups) / whole, 1.0)


def _order(levels: Sequence[Level], count: NDArray[np.int64]) -> list[Level]:
    """Sort levels by loss, after the one that is as it is."""
    rest = sorted(levels[1:], key=lambda level: (level.groups is None, lose_entropy(level.groups, count)))
    return [levels[0], *rest]


def _is_coarser(coarse: Groups | None, fine: Groups | None) -> bool:
    if coarse is None or fine is None:
        return coarse is None
    return is_coarser(coarse, fine)
