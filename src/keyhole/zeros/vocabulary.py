"""Translate rules into boxes and boxes into words.

Rules name variables, and categories by code, label or range. Boxes are described as "AGE is 1 and MARST is 1, 2 or 3",
with the labels of the codebook if there are any.
"""

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import ge, gt, le, lt

from keyhole.data import BLANK, Variable
from keyhole.errors import RulesError
from keyhole.words import enumerate_words
from keyhole.zeros.boxes import Box, Grid, admitted, confine, fixed_variables, make_grid, meets
from keyhole.zeros.cover import BOX_LIMIT, simplify
from keyhole.zeros.expression import And, Comparison, Condition, Not, Or, Value

EMPTY: Box = 0
BLANK_WORD = "(blank)"  # the name of the category of blank answers in rules, where a blank entry means any category
LIST_LIMIT = 8  # longer lists of categories are described by ranges
ALTERNATIVE_LIMIT = 6
_ORDER: Mapping[str, Callable[[float, float], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "in": "not in", "not in": "in"}
_MIRROR = {"==": "==", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


@dataclass(frozen=True)
class Vocabulary:
    """The key variables, and those ignored because they have one category (by name, with its code and label)."""

    variables: tuple[Variable, ...]
    ignored: Mapping[str, tuple[str, ...]]
    grid: Grid
    position: Mapping[str, int]
    categories: tuple[Mapping[str, tuple[int, ...]], ...]

    def knows(self, name: str) -> bool:
        return name in self.position or name in self.ignored

    def require(self, name: str, where: str) -> None:
        if not self.knows(name):
            close = difflib.get_close_matches(name, [*self.position, *self.ignored], n=1)
            hint = f"did you mean '{close[0]}'? Otherwise" if close else "correct the name, or"
            raise RulesError(
                f"{where}: '{show(name)}' is not one of the key variables; {hint} add it to the keys or "
                "remove it from the rules."
            )

    def select(self, name: str, operator: str, values: Sequence[Value], where: str) -> Box:
        """Return the box of the cells that meet a comparison, EMPTY if there are none."""
        if name in self.ignored:
            return self.grid.full if self._constant_meets(name, operator, values, where) else EMPTY
        self.require(name, where)
        j = self.position[name]
        if operator in ("<", "<=", ">", ">="):
            chosen = self._select_by_order(j, operator, values[0], where)
        else:
            chosen = {x for value in values for x in self._find(j, value, where)}
            if operator in ("!=", "not in"):
                chosen = set(range(self.grid.levels[j])) - chosen
        return confine(self.grid, j, chosen) if chosen else EMPTY

    def is_category(self, name: str, text: str) -> bool:
        """Whether the text itself is a code or label of the variable, rather than a list or range."""
        if name in self.ignored:
            return text in self.ignored[name]
        return name in self.position and text in self.categories[self.position[name]]

    def _select_by_order(self, j: int, operator: str, value: Value, where: str) -> set[int]:
        found = self._find(j, value, where)
        if len(found) != 1:
            raise RulesError(
                f"{_at(where, value)}: expected one category of '{self.variables[j].name}' after "
                f"'{operator}', not several; write its code."
            )
        return {x for x in range(self.grid.levels[j]) if _ORDER[operator](x, found[0])}

    def _find(self, j: int, value: Value, where: str) -> tuple[int, ...]:
        if value.last is not None:
            return self._find_range(j, value.text, value.last, value, where)
        found = self.categories[j].get(value.text) or self.categories[j].get(value.text.strip())
        if found:
            return found
        for first, last in _split_range(value.text):
            if first in self.categories[j] and last in self.categories[j]:
                return self._find_range(j, first, last, value, where)
        raise RulesError(
            f"{_at(where, value)}: expected a category of '{self.variables[j].name}' (a code or label of its "
            f"{self.grid.levels[j]} categories), not '{show(value.text)}'{self.variables[j].hint(value.text)}; "
            "correct it, or add the category to the codebook."
        )

    def _find_range(self, j: int, first: str, last: str, value: Value, where: str) -> tuple[int, ...]:
        low = self._find(j, Value(first, None, value.position), where)
        high = self._find(j, Value(last, None, value.position), where)
        if len(low) != 1 or len(high) != 1 or low[0] > high[0]:
            raise RulesError(
                f"{_at(where, value)}: expected a range of categories of '{self.variables[j].name}', its "
                "ends in the order of the codebook; swap them or list the categories."
            )
        return tuple(range(low[0], high[0] + 1))

    def _constant_meets(self, name: str, operator: str, values: Sequence[Value], where: str) -> bool:
        if operator in ("==", "!=", "in", "not in"):
            same = any(self._constant_is(name, value, where) for value in values)
            return same == (operator in ("==", "in"))
        words = self.ignored[name]
        side = 0.0 if values[0].text.strip() in words else _number(words[0]) - _number(values[0].text)
        if math.isnan(side):
            raise RulesError(_undecided(_at(where, values[0]), name))
        return _ORDER[operator](side, 0.0)

    def _constant_is(self, name: str, value: Value, where: str) -> bool:
        """Whether a value is, or a range contains, the single category of a variable."""
        words = self.ignored[name]
        ranges = [(value.text, value.last)] if value.last is not None else _split_range(value.text)
        if value.last is None and value.text.strip() in words:
            return True
        for first, last in ranges:
            low, high, here = _number(first), _number(last), _number(words[0])
            if first.strip() in words or last.strip() in words or low <= here <= high:
                return True
            if value.last is not None and math.isnan(low + here + high):
                raise RulesError(_undecided(_at(where, value), name))
        return False


def make_vocabulary(variables: Sequence[Variable], ignored: Sequence[Variable] = ()) -> Vocabulary:
    """Index variables by name, and categories by code and label; a code takes precedence over an equal label."""
    if not variables:
        raise RulesError("Rules need a key variable with two or more categories; add keys or omit the rules.")
    categories = []
    for variable in variables:
        index: dict[str, tuple[int, ...]] = {code: (x,) for x, code in enumerate(variable.categories)}
        labelled: dict[str, tuple[int, ...]] = {}
        for x, label in enumerate(variable.labels or ()):
            labelled[label] = (*labelled.get(label, ()), x)
        if BLANK in index:
            labelled.setdefault(BLANK_WORD, index[BLANK])
        categories.append(labelled | index)
    return Vocabulary(
        variables=tuple(variables),
        ignored={constant.name: constant.categories + (constant.labels or ()) for constant in ignored},
        grid=make_grid([len(variable.categories) for variable in variables]),
        position={variable.name: j for j, variable in enumerate(variables)},
        categories=tuple(categories),
    )


def show(name: str) -> str:
    """Shorten a name from a rules file so that it fits into a one-line message."""
    clean = "".join(character if character.isprintable() else "?" for character in name)
    return clean if len(clean) <= 40 else clean[:37] + "..."


def _split_range(text: str) -> list[tuple[str, str]]:
    """List the ways to read a text as FIRST-LAST, since codes may contain hyphens."""
    cuts = [i for i, character in enumerate(text) if character == "-" and 0 < i < len(text) - 1]
    return [(text[:i].strip(), text[i + 1 :].strip()) for i in cuts[:50]]


def _number(text: str) -> float:
    """Return a code as a number, NaN if it is not one; without a codebook, codes are in numerical order."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _undecided(where: str, name: str) -> str:
    return (
        f"{where}: '{name}' has one category in this file and its position among the others is not known; "
        f"add '{name}' with all its categories to the codebook, or write the rule with == or !=."
    )


def _at(where: str, value: Value) -> str:
    return f"{where}, position {value.position}" if value.position else where


def describe_box(variables: Sequence[Variable], grid: Grid, box: Box) -> str:
    """Describe the categories that a box admits, variable by variable."""
    parts = [
        f"{variables[j].name} is {describe_categories(variables[j], admitted(grid, box, j))}"
        for j in fixed_variables(grid, box)
    ]
    return " and ".join(parts) if parts else "any combination"


def describe_union(variables: Sequence[Variable], grid: Grid, boxes: Sequence[Box]) -> str:
    if not boxes:
        return "no combination"
    alternatives = [describe_box(variables, grid, box) for box in boxes[:ALTERNATIVE_LIMIT]]
    if len(boxes) > ALTERNATIVE_LIMIT:
        alternatives.append(f"{len(boxes) - ALTERNATIVE_LIMIT} more")
    return "; or ".join(alternatives)


def describe_categories(variable: Variable, chosen: Sequence[int]) -> str:
    """List categories if there are few, else those not chosen if they are few, else ranges in codebook order."""
    left_out = [x for x in range(len(variable.categories)) if x not in set(chosen)]
    if len(chosen) <= LIST_LIMIT:
        return enumerate_words([category_word(variable, x) for x in chosen], "or")
    if len(left_out) <= LIST_LIMIT:
        return "not " + enumerate_words([category_word(variable, x) for x in left_out], "or")
    ranges = [" to ".join(category_word(variable, x) for x in dict.fromkeys(run)) for run in _runs(chosen)]
    if len(ranges) > LIST_LIMIT:
        return f"one of {len(chosen)} categories ({', '.join(ranges[: LIST_LIMIT - 1])}, ...)"
    return enumerate_words(ranges, "or")


def category_word(variable: Variable, x: int) -> str:
    """Return the label of a category, or its code if there is none."""
    word = variable.labels[x] if variable.labels is not None else variable.categories[x]
    return "blank" if word == BLANK else word


def _runs(chosen: Sequence[int]) -> list[tuple[int, int]]:
    """Split ascending integers into runs of consecutive ones."""
    runs: list[tuple[int, int]] = []
    for x in chosen:
        if runs and runs[-1][1] == x - 1:
            runs[-1] = (runs[-1][0], x)
        else:
            runs.append((x, x))
    return runs


def to_boxes(condition: Condition, vocabulary: Vocabulary, where: str, negated: bool = False) -> list[Box]:
    """Return boxes, possibly overlapping, of the cells that meet the condition, or its negation.

    Negation is pushed down to the comparisons (De Morgan), so every step is a union or an intersection of boxes.
    """
    if isinstance(condition, Not):
        return to_boxes(condition.operand, vocabulary, where, not negated)
    if isinstance(condition, Comparison):
        return _compare(condition, vocabulary, where, negated)
    parts = [to_boxes(operand, vocabulary, where, negated) for operand in condition.operands]
    if isinstance(condition, Or) != negated:
        union = simplify(vocabulary.grid, [box for part in parts for box in part])
        _refuse_many(len(union), BOX_LIMIT, where)
        return union
    assert isinstance(condition, And | Or)
    return _intersect(parts, vocabulary, where)


def _compare(comparison: Comparison, vocabulary: Vocabulary, where: str, negated: bool) -> list[Box]:
    name, operator, values = comparison.name, comparison.operator, comparison.values
    mirrored = operator in _MIRROR and not vocabulary.knows(name) and vocabulary.knows(values[0].text)
    if mirrored:
        name, operator, values = values[0].text, _MIRROR[operator], (Value(name, None, comparison.position),)
    if negated:
        operator = _OPPOSITE[operator]
    place = where if vocabulary.knows(name) else f"{where}, position {comparison.position}"
    box = vocabulary.select(name, operator, values, place)
    return [] if box == EMPTY else [box]


def _intersect(parts: list[list[Box]], vocabulary: Vocabulary, where: str) -> list[Box]:
    """Intersect unions of boxes, the shortest first, simplifying after each."""
    grid = vocabulary.grid
    product = [grid.full]
    for part in sorted(parts, key=len):
        _refuse_many(len(product) * len(part), 20 * BOX_LIMIT, where)
        both = {a & b: None for a in product for b in part if meets(grid, a, b)}
        _refuse_many(len(both), BOX_LIMIT, where)
        product = simplify(grid, list(both))
    return product


def _refuse_many(boxes: int, limit: int, where: str) -> None:
    if boxes > limit:
        raise RulesError(
            f"{where}: the expression describes more than {BOX_LIMIT:,} disjoint boxes of cells; "
            "split it into simpler rules, or use fewer 'or' inside 'and'."
        )
