"""What the words of a rule mean: names of variables, and their categories by code, label or range."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from keyhole.errors import RulesError
from keyhole.microdata import Variable
from keyhole.zeros.boxes import Box, Grid, confine, make_grid
from keyhole.zeros.expression import Value

EMPTY: Box = 0


@dataclass(frozen=True)
class Vocabulary:
    """The key variables, and those ignored because they have one category (name to that category)."""

    variables: tuple[Variable, ...]
    ignored: Mapping[str, str]
    grid: Grid
    position: Mapping[str, int]
    categories: tuple[Mapping[str, tuple[int, ...]], ...]

    def knows(self, name: str) -> bool:
        """Say whether rules may speak of this variable."""
        return name in self.position or name in self.ignored

    def select(self, name: str, operator: str, values: Sequence[Value], where: str) -> Box:
        """Return the box of the cells that meet one comparison, EMPTY when none can."""
        if name in self.ignored:
            return self.grid.full if self._constant_meets(name, operator, values, where) else EMPTY
        if name not in self.position:
            raise RulesError(f"{where}: {self._unknown(name)}")
        j = self.position[name]
        if operator in ("<", "<=", ">", ">="):
            chosen = self._select_by_order(j, operator, values[0], where)
        else:
            chosen = {x for value in values for x in self._find(j, value, where)}
            if operator in ("!=", "not in"):
                chosen = set(range(self.grid.levels[j])) - chosen
        return confine(self.grid, j, chosen) if chosen else EMPTY

    def is_category(self, name: str, text: str) -> bool:
        """Say whether the text is itself a code or label of the variable, and not a list or range of them."""
        if name in self.ignored:
            return text == self.ignored[name]
        return name in self.position and text in self.categories[self.position[name]]

    def _select_by_order(self, j: int, operator: str, value: Value, where: str) -> set[int]:
        found = self._find(j, value, where)
        if len(found) != 1:
            raise RulesError(
                f"{_at(where, value)}: '{operator}' needs one category of '{self.variables[j].name}', not several; "
                "write its code."
            )
        (limit,) = found
        keep = {"<": range(limit), "<=": range(limit + 1)}
        above = {">": range(limit + 1, self.grid.levels[j]), ">=": range(limit, self.grid.levels[j])}
        return set((keep | above)[operator])

    def _find(self, j: int, value: Value, where: str) -> tuple[int, ...]:
        """List the categories that a value stands for."""
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
            f"{self.grid.levels[j]} categories); correct it, or add the category to the codebook."
        )

    def _find_range(self, j: int, first: str, last: str, value: Value, where: str) -> tuple[int, ...]:
        low = self._find(j, Value(first, None, value.position), where)
        high = self._find(j, Value(last, None, value.position), where)
        if len(low) != 1 or len(high) != 1 or low[0] > high[0]:
            raise RulesError(
                f"{_at(where, value)}: expected a range of categories of '{self.variables[j].name}' whose ends are "
                "two categories in the order of the codebook; turn it round or list the categories."
            )
        return tuple(range(low[0], high[0] + 1))

    def _constant_meets(self, name: str, operator: str, values: Sequence[Value], where: str) -> bool:
        """Compare a variable that always has the same category."""
        category = self.ignored[name]
        same = any(
            value.text.strip() == category or (value.last is not None and value.last.strip() == category)
            for value in values
        )
        if operator in ("==", "in"):
            self._refuse_open_range(name, same, values, where)
            return same
        if operator in ("!=", "not in"):
            self._refuse_open_range(name, same, values, where)
            return not same
        if not same:
            raise RulesError(
                f"{_at(where, values[0])}: '{name}' has one category in this file, and which side of it this one is "
                f"on is not known; add '{name}' with all its categories to the codebook."
            )
        return operator in ("<=", ">=")

    def _refuse_open_range(self, name: str, same: bool, values: Sequence[Value], where: str) -> None:
        for value in values:
            if value.last is not None and not same:
                raise RulesError(
                    f"{_at(where, value)}: '{name}' has one category in this file, and whether this range holds it is "
                    f"not known; list the categories, or add '{name}' with all its categories to the codebook."
                )

    def _unknown(self, name: str) -> str:
        close = difflib.get_close_matches(name, [*self.position, *self.ignored], n=1)
        if close:
            hint = f"did you mean '{close[0]}'? Otherwise"
        else:
            hint = "correct the name, or"
        return f"'{show(name)}' is not one of the key variables; {hint} add it to the keys or take the rule out."


def make_vocabulary(variables: Sequence[Variable], ignored: Mapping[str, str] | None = None) -> Vocabulary:
    """Index variables by name, and categories by code and by label; a code goes before an equal label."""
    if not variables:
        raise RulesError("Rules need at least one key variable with two or more categories; add keys or leave the rules out.")
    categories = []
    for variable in variables:
        index: dict[str, tuple[int, ...]] = {code: (x,) for x, code in enumerate(variable.categories)}
        labelled: dict[str, tuple[int, ...]] = {}
        for x, label in enumerate(variable.labels or ()):
            labelled[label] = (*labelled.get(label, ()), x)
        categories.append(labelled | index)
    return Vocabulary(
        variables=tuple(variables),
        ignored=dict(ignored or {}),
        grid=make_grid([len(variable.categories) for variable in variables]),
        position={variable.name: j for j, variable in enumerate(variables)},
        categories=tuple(categories),
    )


def show(name: str) -> str:
    """Shorten a name from a rules file and make it fit on one line of a message."""
    clean = "".join(character if character.isprintable() else "?" for character in name)
    return clean if len(clean) <= 40 else clean[:37] + "..."


def _split_range(text: str) -> list[tuple[str, str]]:
    """List the ways to read a text as FIRST-LAST: codes may hold hyphens themselves."""
    cuts = [i for i, character in enumerate(text) if character == "-" and 0 < i < len(text) - 1]
    return [(text[:i].strip(), text[i + 1 :].strip()) for i in cuts[:50]]


def _at(where: str, value: Value) -> str:
    return f"{where}, position {value.position}" if value.position else where
