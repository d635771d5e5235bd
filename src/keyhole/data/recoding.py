"""Coarser categories of a key: merged by lists, bands, top and bottom coding, in any order with the same result.

Each option merges some categories; together they give the finest grouping in which all that any of them merges is
merged. Bands, top and bottom coding follow the order of the categories; what is outside the order (blank, "not
stated") stays as it is unless a list names it.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.data.bands import Bands
from keyhole.data.codebook import code_text, whole_numbers
from keyhole.data.order import FEWEST_ORDERED, NOTHING, NUMBER, Range
from keyhole.data.variables import BLANK, Variable
from keyhole.errors import OptionError, SettingsError
from keyhole.words import read_groups

Groups = tuple[tuple[int, ...], ...]
"""Categories of a variable in groups, each published as one category; by their index."""

FIGURE = r"([+-]?\d+(?:\.\d+)?)"
BETWEEN = re.compile(rf"{FIGURE}\s*(?:-|\N{{EN DASH}}|to)\s*(<?)\s*{FIGURE}")
FROM = re.compile(
    rf"{FIGURE}\s*(?:\+|and (?:over|more|older|above)|or (?:over|more|older|above))|(?:>=|\u2265)\s*{FIGURE}"
)
UP_TO = re.compile(rf"(<|under|below|less than|<=|\u2264|up to)\s*{FIGURE}", re.IGNORECASE)
STRICT = ("<", "under", "below", "less than")


ROUNDING = 1e-9
LISTED = 3
"""Most names of ordered categories that are listed one by one in the name of their group."""


@dataclass(frozen=True)
class Span:
    """The numbers that a category stands for, from `low` to `high`; open: without `high` itself."""

    low: float
    high: float
    open: bool = False


def read_span(text: str) -> Span | None:
    """Return the numbers that a category stands for (7, 20-24, 0.5 to <1, 75+, under 15), or None."""
    text = text.strip()
    if NUMBER.fullmatch(text):
        return Span(float(text), float(text))
    if found := BETWEEN.fullmatch(text):
        return Span(float(found[1]), float(found[3]), bool(found[2]))
    if found := FROM.fullmatch(text):
        return Span(float(found[1] or found[2]), math.inf)
    if found := UP_TO.fullmatch(text):
        return Span(-math.inf, float(found[2]), found[1].lower() in STRICT)
    return None


def read_spans(variable: Variable, option: str) -> dict[int, Span]:
    """Return what each ordered category stands for, by its index; labels count before codes."""
    if not variable.ordered:
        raise SettingsError(
            f"`{option}` {variable.name}: its categories have no order; merge them with lists of categories, or name "
            "it in `ordered` of the assessment"
        )
    first, last = variable.orderable
    for texts in (variable.labels, variable.categories):
        spans = {} if texts is None else {x: span for x in range(first, last) if (span := read_span(texts[x]))}
        if len(spans) == last - first:
            return spans
    raise SettingsError(
        f"`{option}` {variable.name}: not all of its categories are numbers or bands; merge them with lists of "
        "categories"
    )


def merge_lists(variable: Variable, lists: Iterable[Iterable[Any]], option: str = "recode") -> Groups:
    """Return all categories in groups, in the order of their first category."""
    place = {category: index for index, category in enumerate(variable.categories)}
    groups: list[tuple[int, ...]] = []
    taken: set[int] = set()
    if isinstance(lists, str) or not isinstance(lists, Iterable):
        raise SettingsError(f"`{option}` {variable.name}: write lists of categories, for instance [[1, 2], [3, 4]]")
    for number, members in enumerate(lists, start=1):
        where = f"`{option}` {variable.name}, group {number}"
        if isinstance(members, str) or not isinstance(members, Iterable):
            raise SettingsError(f"{where} is not a list: write lists of categories, for instance [[1, 2], [3, 4]]")
        codes = whole_numbers([code_text(member) for member in members])
        unknown = next((code for code in codes if code not in place), None)
        if unknown is not None:
            raise OptionError(
                f"{where}: '{unknown}' is not a category of '{variable.name}'{variable.hint(unknown)}: see its codebook"
            )
        chosen = {place[code] for code in codes}
        if len(chosen) < len(codes) or chosen & taken:
            raise SettingsError(f"{where} names a category twice: a category belongs to one group")
        taken |= chosen
        if chosen:
            groups.append(tuple(sorted(chosen)))
    groups += [(x,) for x in range(len(variable.categories)) if x not in taken]
    return tuple(sorted(groups))


def merge_bands(variable: Variable, bands: Bands) -> Groups:
    """Merge the categories that lie in the same band; refuse bands that cut through a category."""
    members: dict[int, list[int]] = {}
    for x, span in read_spans(variable, "bands").items():
        low, high = _place(bands, span.low, False), _place(bands, span.high, span.open)
        if math.isinf(span.low) or (bands.width and math.isinf(span.high)):
            # "under 15" and "75+" belong to the band of the end that they have.
            low = high = high if math.isinf(span.low) else low
        if low != high:
            raise SettingsError(
                f"`bands` {variable.name}: a category lies in more than one of these bands; a release can only be "
                "coarser than the file, so use limits at which its categories begin"
            )
        if low < 0 and bands.limits:
            raise SettingsError(f"`bands` {variable.name}: a category is below the lowest limit: add a lower limit")
        members.setdefault(low, []).append(x)
    return _complete(variable, members.values())


def _place(bands: Bands, end: float, before: bool) -> int:
    """Return the band that holds a number, or what is just below it."""
    if bands.limits:
        return int(np.searchsorted(bands.limits, end, side="left" if before else "right")) - 1
    if math.isinf(end):
        return 0
    steps = end / bands.width
    return math.ceil(steps - ROUNDING) - 1 if before else math.floor(steps + ROUNDING)


def merge_top(variable: Variable, limit: Any) -> Groups:
    """Merge the category of this code or number and all above it."""
    return _complete(variable, [range(_find_limit(variable, limit, "top"), variable.orderable[1])])


def merge_bottom(variable: Variable, limit: Any) -> Groups:
    """Merge the category of this code or number and all below it."""
    return _complete(variable, [range(variable.orderable[0], _find_limit(variable, limit, "bottom") + 1)])


def _find_limit(variable: Variable, limit: Any, option: str) -> int:
    """Return the first category to be merged by top coding, or the last by bottom coding."""
    text = whole_numbers([code_text(limit)])[0].strip()
    first, last = variable.orderable
    if not variable.ordered:
        read_spans(variable, option)
    if text in variable.categories[first:last]:
        return variable.categories.index(text)
    if not NUMBER.fullmatch(text):
        raise OptionError(
            f"`{option}` {variable.name}: '{text}' is not one of its ordered categories{variable.hint(text)}"
        )
    value, spans = float(text), read_spans(variable, option)
    if option == "top":
        inside = [x for x, span in spans.items() if span.low >= value]
        reached = [span for span in spans.values() if span.high > value or (span.high == value and not span.open)]
        crossed = any(span.low < value for span in reached)
    else:
        inside = [x for x, span in spans.items() if span.high <= value]
        crossed = any(span.low <= value < span.high for span in spans.values())
    if crossed:
        raise SettingsError(
            f"`{option}` {variable.name}: a category lies on both sides of {text}; a release can only be coarser than "
            "the file, so use a limit of its categories"
        )
    if not inside:
        where = "above" if option == "top" else "below"
        raise SettingsError(f"`{option}` {variable.name}: no category is {where} {text}")
    return inside[0] if option == "top" else inside[-1]


def _complete(variable: Variable, groups: Iterable[Iterable[int]]) -> Groups:
    """Add the categories that no group has, each by itself."""
    found = [tuple(sorted(group)) for group in groups if group]
    taken = {x for group in found for x in group}
    return tuple(sorted([*found, *((x,) for x in range(len(variable.categories)) if x not in taken)]))


def join_groups(levels: int, groupings: Sequence[Groups]) -> Groups:
    """Return the finest grouping in which whatever any of these merges is merged."""
    root = list(range(levels))

    def find(x: int) -> int:
        while root[x] != x:
            x = root[x]
        return x

    for grouping in groupings:
        for group in grouping:
            for x in group[1:]:
                one, other = sorted((find(group[0]), find(x)))
                root[other] = one
    members: dict[int, list[int]] = {}
    for x in range(levels):
        members.setdefault(find(x), []).append(x)
    return tuple(tuple(group) for group in sorted(members.values()))


def is_coarser(coarse: Groups, fine: Groups) -> bool:
    """Whether every group of `fine` lies within a group of `coarse`."""
    place = {x: g for g, group in enumerate(coarse) for x in group}
    return all(len({place[x] for x in group}) == 1 for group in fine)


def name_group(variable: Variable, group: Sequence[int]) -> str:
    """Name a merged category: 20-39 and 7+ for neighbours in order, 1|2 for others."""
    codes = [variable.categories[x] for x in group]
    if len(codes) == 1:
        return codes[0]
    first, last = variable.orderable
    if variable.ordered and first <= group[0] and group[-1] < last and group[-1] - group[0] == len(group) - 1:
        low, high = read_span(codes[0]), read_span(codes[-1])
        if low is not None and high is not None:
            return _name_range(low.low, replace(high, high=math.inf) if group[-1] == last - 1 else high)
        if len(codes) > LISTED:
            return f"{codes[0]} to {codes[-1]}"
    return "|".join(code if code != BLANK else "blank" for code in codes)


def _name_range(low: float, end: Span) -> str:
    if math.isinf(low):
        return f"{'under' if end.open else 'up to'} {end.high:g}" if math.isfinite(end.high) else "any"
    if math.isinf(end.high):
        return f"{low:g}+"
    to = " to <" if end.open else " to " if low < 0 else "-"
    return f"{low:g}{to}{end.high:g}"


def merge_key(
    variable: Variable, codes: NDArray[Any], entry: Any
) -> tuple[Variable, NDArray[Any], dict[str, list[str]]]:
    """Merge categories of a key before anything is estimated.

    entry: text such as "1,2|3,4", lists of categories, or a mapping from the names of the merged categories to them.
    Return the coarser key, the category of each row, and the categories of each that is merged, by its name.
    """
    named = isinstance(entry, Mapping)
    lists = read_groups(entry) if isinstance(entry, str) else list(entry.values()) if named else entry
    if isinstance(lists, bytes) or not isinstance(lists, Iterable) or not (lists := list(lists)):
        raise SettingsError(f"`merge` {variable.name}: write the categories to merge, as in 1,2|3,4")
    groups = merge_lists(variable, lists, "merge")
    if len(groups) < 2:
        # The key would be ignored as if all people were alike, and released as it is.
        raise SettingsError(f"`merge` {variable.name}: one category would be left: leave the key out instead")
    labels = None
    if named:
        given = {variable.categories.index(code_text(members[0])): str(name) for name, members in entry.items()}
        names = [next((given[x] for x in group if x in given), variable.categories[group[0]]) for group in groups]
    else:
        names = [name_group(variable, group) for group in groups]
    if variable.labels is not None:
        labelled = replace(variable, categories=variable.labels)
        labels = tuple(name_group(labelled, group) for group in groups)
    if len(set(names)) < len(names):
        raise SettingsError(f"`merge` {variable.name}: two categories would have one name: merge others")
    low, high = _merge_order(variable, groups)
    coarser = replace(
        variable, categories=tuple(names), labels=labels, orderable=(low, high), ordered=variable.ordered and high > 0
    )
    place = np.empty(len(variable.categories) + 1, codes.dtype)
    for g, group in enumerate(groups):
        place[list(group)] = g
    place[-1] = -1  # an answer left to the model
    merged = {
        name: [variable.categories[x] for x in group]
        for name, group in zip(names, groups, strict=True)
        if len(group) > 1
    }
    return coarser, place[codes], merged


def _merge_order(variable: Variable, groups: Groups) -> Range:
    """Return which groups have an order: those of a key that had one, if only neighbours are merged."""
    first, last = variable.orderable
    inside = [g for g, group in enumerate(groups) if first <= group[0] and group[-1] < last]
    for g, group in enumerate(groups):
        apart = group[-1] - group[0] >= len(group)
        if (g in inside and apart) or (g not in inside and any(first <= x < last for x in group)):
            return NOTHING
    return (inside[0], inside[-1] + 1) if len(inside) >= FEWEST_ORDERED else NOTHING
