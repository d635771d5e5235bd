"""Suggest rules: combinations of two or three categories that no record has and that chance does not explain.

The expected count of a pair of categories is n_x n_y / n under independence. That of three categories follows from the
two-way margins under no three-way interaction (iterative proportional fitting); triples are tested only if each pair of
them occurs. A cell with expected count e is empty with probability at most about exp(-e). Of all cells of all margins,
those are kept that pass the Benjamini-Yekutieli procedure, which bounds the expected share of false discoveries under
any dependence. A gap that chance does not explain need not be impossible: a person has to confirm each suggestion in
the YAML file, which `read_zeros` reads.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import yaml
from numpy.typing import NDArray

from keyhole.data import Microdata
from keyhole.zeros.boxes import Box, admitted, confine, fixed_variables, make_grid, merge
from keyhole.zeros.vocabulary import describe_box

MARGIN_LIMIT = 1_000_000  # cells; larger margins are skipped
FIT_ROUNDS = 50


@dataclass(frozen=True)
class Suggestion:
    """A combination of categories that no record has.

    variables, categories: the rule, by codes; words: the rule in words; expected: expected number of records.
    margin_cells: number of cells joined into the rule; chance: the largest probability that one of them is empty.
    """

    variables: tuple[str, ...]
    categories: tuple[tuple[str, ...], ...]
    words: str
    expected: float
    margin_cells: int
    chance: float


@dataclass(frozen=True)
class Suggestions:
    """Suggestions by decreasing expected number of records.

    tested: number of tested cells of margins; records: number of records of the file.
    false_discovery: bound of the expected share of false discoveries.
    skipped: sets of variables whose margin is too large.
    """

    items: tuple[Suggestion, ...]
    tested: int
    records: int
    false_discovery: float
    skipped: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, eq=False)
class _Margin:
    """The empty cells of one margin: index (cells, variables), expected (cells,); tested: number of all cells."""

    variables: tuple[int, ...]
    index: NDArray[np.intp]
    expected: NDArray[np.float64]
    tested: int


def suggest_zeros(microdata: Microdata, false_discovery: float = 0.01, order: Literal[2, 3] = 3) -> Suggestions:
    """Find unexplained gaps in the two-way and, with order 3, the three-way margins."""
    microdata = replace(microdata, cells=np.asfortranarray(microdata.cells))
    margins = []
    skipped = []
    for size in range(2, order + 1):
        for chosen in itertools.combinations(range(len(microdata.levels)), size):
            if math.prod(microdata.levels[j] for j in chosen) > MARGIN_LIMIT:
                skipped.append(tuple(microdata.variables[j].name for j in chosen))
            elif size == 2:
                margins.append(_examine_pair(microdata, chosen))
            else:
                margins.append(_examine_triple(microdata, chosen, false_discovery))
    tested = sum(margin.tested for margin in margins)
    expected = np.concatenate([np.empty(0), *(margin.expected for margin in margins)])
    threshold = find_threshold(np.exp(-expected), tested, false_discovery)
    found = [item for margin in margins for item in _join_cells(microdata, margin, threshold)]
    found.sort(key=lambda item: (-item.expected, item.words))
    return Suggestions(tuple(found), tested, microdata.records, false_discovery, tuple(skipped))


def find_threshold(chance: NDArray[np.float64], tested: int, false_discovery: float) -> float:
    """Return the largest p-value that passes Benjamini-Yekutieli, -1 if none does.

    chance: the p-values that may pass; those of all other tested cells count as 1.
    """
    if not len(chance):
        return -1.0
    ordered = np.sort(chance)
    harmonic = math.log(tested) + np.euler_gamma + 0.5 / tested  # upper bound of 1 + 1/2 + ... + 1/tested
    passed = np.flatnonzero(ordered <= np.arange(1, len(ordered) + 1) * false_discovery / (tested * harmonic))
    return float(ordered[passed[-1]]) if len(passed) else -1.0


def _examine_pair(microdata: Microdata, pair: Sequence[int]) -> _Margin:
    observed = _tabulate(microdata, pair)
    total = max(observed.sum(), 1.0)
    expected = observed.sum(axis=1, keepdims=True) * observed.sum(axis=0, keepdims=True) / total
    return _collect(pair, observed, expected, expected > 0)


def _examine_triple(microdata: Microdata, triple: Sequence[int], false_discovery: float) -> _Margin:
    """Compare a three-way margin with its fit to the two-way margins, where none of those is empty."""
    observed = _tabulate(microdata, triple)
    sides = [observed.sum(axis=axis, keepdims=True) for axis in range(3)]
    at_most = np.minimum(np.minimum(sides[0], sides[1]), sides[2])
    eligible = at_most > 0
    # The expected count of a cell is at most that of its rarest pair, so most margins need no fitting.
    if not (eligible & (observed == 0) & (np.exp(-at_most) <= false_discovery)).any():
        return _Margin(tuple(triple), np.empty((0, 3), dtype=np.intp), np.empty(0), int(eligible.sum()))
    return _collect(triple, observed, _fit(sides), eligible)


def _fit(sides: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    fitted = np.ones(np.broadcast_shapes(*(side.shape for side in sides)))
    for _ in range(FIT_ROUNDS):
        for axis, side in enumerate(sides):
            current = fitted.sum(axis=axis, keepdims=True)
            fitted *= np.divide(side, current, out=np.zeros_like(side), where=current > 0)
        if np.abs(fitted.sum(axis=0, keepdims=True) - sides[0]).max() < 0.01:
            break
    return fitted


def _tabulate(microdata: Microdata, variables: Sequence[int]) -> NDArray[np.float64]:
    """Count the records in each cell of a margin, without those that are blank there."""
    shape = tuple(microdata.levels[j] for j in variables)
    cell = np.zeros(len(microdata.cells), dtype=np.int32)  # MARGIN_LIMIT keeps this far from overflow
    blank = np.zeros(len(microdata.cells), dtype=np.bool_)
    for j, size in zip(variables, shape, strict=True):
        column = microdata.cells[:, j]
        cell = cell * np.int32(size) + column
        blank |= column < 0
    counts = np.bincount(cell[~blank], weights=microdata.cell_size[~blank], minlength=math.prod(shape))
    return np.asarray(counts.reshape(shape), np.float64)


def _collect(
    variables: Sequence[int],
    observed: NDArray[np.float64],
    expected: NDArray[np.float64],
    eligible: NDArray[np.bool_],
) -> _Margin:
    empty = eligible & (observed == 0)
    return _Margin(tuple(variables), np.argwhere(empty), expected[empty], int(eligible.sum()))


def _join_cells(microdata: Microdata, margin: _Margin, threshold: float) -> Iterator[Suggestion]:
    """Join the significant cells of a margin into rules with sets of categories."""
    grid = make_grid(microdata.levels)
    chance = np.exp(-margin.expected)
    cells: dict[Box, tuple[float, float]] = {}
    for i in np.flatnonzero(chance <= threshold):
        box = grid.full
        for j, x in zip(margin.variables, margin.index[i], strict=True):
            box &= confine(grid, j, [int(x)])
        cells[box] = (float(margin.expected[i]), float(chance[i]))
    for box in merge(grid, cells):
        inside = [values for cell, values in cells.items() if cell & ~box == 0]
        fixed = [(microdata.variables[j], admitted(grid, box, j)) for j in fixed_variables(grid, box)]
        yield Suggestion(
            variables=tuple(variable.name for variable, _ in fixed),
            categories=tuple(tuple(variable.categories[x] for x in chosen) for variable, chosen in fixed),
            words=describe_box(microdata.variables, grid, box),
            expected=sum(expected for expected, _ in inside),
            margin_cells=len(inside),
            chance=max(chance for _, chance in inside),
        )


_HEAD = """\
# SUGGESTIONS, not rules: combinations that no record has, although the margins make them expected.
# A gap in a sample does not prove that a combination is impossible. For each entry: keep it (and delete
# the word SUGGESTION) if such a person cannot exist; delete the entry if one can.
"""


def format_suggestions(suggestions: Suggestions) -> str:
    head = _HEAD + (
        f"# {len(suggestions.items)} found in {suggestions.tested:,} cells of two-way and three-way margins; "
        f"at most {suggestions.false_discovery:.0%}\n# are expected to be chance; rare is not impossible.\n"
    )
    if not suggestions.items:
        return head + "impossible: []\n"
    entries = [_format_entry(number, item) for number, item in enumerate(suggestions.items, start=1)]
    return head + "impossible:\n" + "".join(entries)


def _format_entry(number: int, item: Suggestion) -> str:
    words = "".join(character if character.isprintable() else "?" for character in item.words)
    rule = {name: list(codes) for name, codes in zip(item.variables, item.categories, strict=True)}
    text = yaml.safe_dump(rule, default_flow_style=True, sort_keys=False, allow_unicode=True, width=math.inf)
    return (
        f"  # SUGGESTION {number}, to be confirmed by a person: {words}\n"
        f"  # 0 observed, {item.expected:.1f} expected\n"
        f"  - {text.strip()}\n"
    )
