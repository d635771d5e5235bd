"""Which keys have an order, and which of their categories.

A key is taken as ordered if most of its categories are numbers or bands that rise in the order in which they are
listed, if its codebook says `ordered: true`, or if an SPSS file calls its measure ordinal. Blank, codes declared
missing, and what is no number among numbers ("not stated") are outside the order, at its ends.
"""

import itertools
import re
from collections.abc import Collection, Mapping
from dataclasses import replace

from keyhole.data.variables import BLANK, Microdata, Table, Variable
from keyhole.errors import InputError

FEWEST_ORDERED = 3
"""With two categories an order says nothing."""

BAND = re.compile(r"[<>\N{LESS-THAN OR EQUAL TO}\N{GREATER-THAN OR EQUAL TO}= ]*-?\d")
FIGURE = re.compile(r"\d+(?:\.\d+)?")
NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?")

Range = tuple[int, int]
"""The first category or level and the one after the last."""

NOTHING = (0, 0)


def rank_text(text: str, at_end: bool) -> tuple[float, ...]:
    """Return the numbers by which a category is ordered, none if it is no number and no band.

    at_end: the first and the last category may say it in words, such as "under 15".
    """
    if NUMBER.fullmatch(text):
        return (float(text),)
    if not at_end and not BAND.match(text):
        return ()
    return tuple(float(figure) for figure in FIGURE.findall(text))


def find_range(places: list[int]) -> Range:
    """Return the range of these categories if they are neighbours."""
    together = len(places) >= FEWEST_ORDERED and places[-1] - places[0] == len(places) - 1
    return (places[0], places[-1] + 1) if together else NOTHING


def note_order(
    variable: Variable, outside: Collection[str] = (), marked: bool | None = None, listed: bool = False
) -> Variable:
    """Return the variable with the categories that have an order, and whether it is taken as ordered.

    outside: codes declared missing; marked: what the codebook or the file says about it; listed: whether the codebook
    lists its categories.
    """
    named = [x for x, code in enumerate(variable.categories) if code != BLANK and code not in outside]
    texts = variable.labels or variable.categories
    ranks = {x: rank for x in named if (rank := rank_text(texts[x], x in (named[0], named[-1])))}
    values = list(ranks.values())
    rising = 2 * len(ranks) > len(named) and all(a < b for a, b in itertools.pairwise(values))
    listed = bool(marked) or listed or variable.labels is not None
    orderable = find_range(list(ranks)) if rising and not marked else find_range(named) if listed else NOTHING
    ordered = orderable != NOTHING and (rising if marked is None else marked)
    return replace(variable, orderable=orderable, ordered=ordered)


def mark_order(name: str, book: Mapping[str, Variable], table: Table, banded: bool) -> bool | None:
    """Return what the codebook says about a key; bands, and what an SPSS file calls ordinal, are ordered."""
    marked = book[name].marked if name in book else None
    return True if marked is None and (banded or name in table.ordinal) else marked


def order_keys(microdata: Microdata, ordered: str | None, unordered: str | None) -> Microdata:
    """Return the microdata with these keys ordered or not, whatever is the default."""
    both = set(split_names(ordered)) & set(split_names(unordered))
    if both:
        raise InputError(f"`ordered` and `unordered` both name {min(both)}: name it in one of them.")
    chosen = dict.fromkeys(split_names(ordered), True) | dict.fromkeys(split_names(unordered), False)
    known = {variable.name for variable in microdata.variables} | set(microdata.ignored)
    for name, wanted in chosen.items():
        option = "ordered" if wanted else "unordered"
        if name not in known:
            raise InputError(f"`{option}` {name}: it is not one of the keys; correct the name or omit it.")
    variables = []
    for variable in microdata.variables:
        wanted = chosen.get(variable.name, variable.ordered)
        if wanted and variable.orderable == NOTHING and len(variable.categories) >= FEWEST_ORDERED:
            raise InputError(
                f"`ordered` {variable.name}: its categories are not numbers, and nothing says how they follow each "
                "other: list them in order in a codebook."
            )
        variables.append(replace(variable, ordered=wanted and variable.orderable != NOTHING))
    return replace(microdata, variables=tuple(variables))


def split_names(text: str | None) -> list[str]:
    """Return the names in a list separated by commas."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def list_ordered(microdata: Microdata) -> list[str]:
    """Return the names of the keys taken as ordered."""
    return [variable.name for variable in microdata.variables if variable.ordered]
