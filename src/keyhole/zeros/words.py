"""Boxes in words: "AGE is 1 and MARST is 1, 2, 3, 4 or 5"; labels where the codebook has them."""

from collections.abc import Sequence

from keyhole.microdata import BLANK, Variable
from keyhole.zeros.boxes import Box, Grid, admitted, fixed_variables

LIST_LIMIT = 8  # longer lists of categories are written as ranges
ALTERNATIVE_LIMIT = 6


def describe_box(variables: Sequence[Variable], grid: Grid, box: Box) -> str:
    """Say which categories a box admits, variable by variable."""
    parts = [
        f"{variables[j].name} is {describe_categories(variables[j], admitted(grid, box, j))}"
        for j in fixed_variables(grid, box)
    ]
    return " and ".join(parts) if parts else "any combination"


def describe_union(variables: Sequence[Variable], grid: Grid, boxes: Sequence[Box]) -> str:
    """Say what a union of boxes holds."""
    if not boxes:
        return "no combination"
    alternatives = [describe_box(variables, grid, box) for box in boxes[:ALTERNATIVE_LIMIT]]
    if len(boxes) > ALTERNATIVE_LIMIT:
        alternatives.append(f"{len(boxes) - ALTERNATIVE_LIMIT} more")
    return "; or ".join(alternatives)


def describe_categories(variable: Variable, chosen: Sequence[int]) -> str:
    """List categories: all of them when few, else what they leave out, else as ranges in codebook order."""
    left_out = [x for x in range(len(variable.categories)) if x not in set(chosen)]
    if len(chosen) <= LIST_LIMIT:
        return _join([category_word(variable, x) for x in chosen], "or")
    if len(left_out) <= LIST_LIMIT:
        return "not " + _join([category_word(variable, x) for x in left_out], "or")
    ranges = [
        category_word(variable, first)
        if first == last
        else f"{category_word(variable, first)} to {category_word(variable, last)}"
        for first, last in _runs(chosen)
    ]
    if len(ranges) > LIST_LIMIT:
        return f"one of {len(chosen)} categories ({', '.join(ranges[: LIST_LIMIT - 1])}, ...)"
    return _join(ranges, "or")


def category_word(variable: Variable, x: int) -> str:
    """Return the label of a category, or its code when there is none."""
    word = variable.labels[x] if variable.labels is not None else variable.categories[x]
    return "blank" if word == BLANK else word


def _join(items: Sequence[str], last: str) -> str:
    if len(items) == 1:
        return items[0]
    return f"{', '.join(items[:-1])} {last} {items[-1]}"


def _runs(chosen: Sequence[int]) -> list[tuple[int, int]]:
    """Cut ascending integers into runs of neighbours."""
    runs: list[tuple[int, int]] = []
    for x in chosen:
        if runs and runs[-1][1] == x - 1:
            runs[-1] = (runs[-1][0], x)
        else:
            runs.append((x, x))
    return runs
