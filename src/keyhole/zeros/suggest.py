"""Suggest rules: combinations of two or three categories that no record has and that chance does not explain.

The expected count of a pair of categories is n_x n_y / n under independence. That of three categories follows from the
two-way margins under no three-way interaction (iterative proportional fitting); triples are tested only if each pair of
them occurs. A cell with expected count e is empty with probability at most about exp(-e). Of all cells of all margins,
those are kept that pass the Benjamini-Yekutieli procedure, which bounds the expected share of false discoveries under
any dependence. A gap that chance does not explain need not be impossible: in the YAML file, which `read_zeros` reads,
suggestions are comments until a person turns one into a rule.

How many people of the population such a rule would have to leave out at most, if it is wrong: D people with a
combination all escape a sample of n of N with probability prod_{i<D} (N - n - i) / (N - i) <= (1 - n/N)^D. That is
below delta / m when D > log(m / delta) / -log(1 - n/N), so at confidence 1 - delta none of m empty combinations has
more people, however they were chosen from the m. A suggestion joins k of T tested cells, and is one of B boxes that
could be made of the categories; with delta halved between the two bounds, D is at most the smaller of
k log(2 T / delta) and log(2 B / delta), divided by -log(1 - n/N), which is about n/N.

A suggestion rests on blanks if one of its categories is the blank answer. Blanks come from how a questionnaire was
filled in, not from what people can be; so these are joined and listed apart.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import yaml
from numpy.typing import NDArray

from keyhole.data import BLANK, Microdata
from keyhole.errors import RulesError
from keyhole.words import number, percent
from keyhole.zeros.boxes import Box, admitted, confine, fixed_variables, make_grid, merge
from keyhole.zeros.vocabulary import BLANK_WORD, describe_box

MARGIN_LIMIT = 1_000_000  # cells; larger margins are skipped
FIT_ROUNDS = 50
DELTA = 0.05  # probability that some suggestion stands for more people than its bound


@dataclass(frozen=True)
class Suggestion:
    """A combination of categories that no record has.

    variables, categories: the rule, by codes; words: the rule in words; expected: expected number of records.
    margin_cells: number of cells joined into the rule; chance: the largest probability that one of them is empty.
    share: upper 95 % limit of the share of the population that the rule would leave out, for all suggestions together.
    blanks: the variables whose blank answer is part of the combination.
    """

    variables: tuple[str, ...]
    categories: tuple[tuple[str, ...], ...]
    words: str
    expected: float
    margin_cells: int
    chance: float
    share: float
    blanks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Suggestions:
    """Suggestions by decreasing expected number of records.

    tested: number of tested cells of margins; records: number of records of the file.
    false_discovery: bound of the expected share of false discoveries.
    skipped: sets of variables whose margin is too large; population: number of people, None if it is not known.
    na: which texts were taken as missing, as `input.na` in summary.json.
    """

    items: tuple[Suggestion, ...]
    tested: int
    records: int
    false_discovery: float
    skipped: tuple[tuple[str, ...], ...]
    population: int | None = None
    na: Mapping[str, Any] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, eq=False)
class _Margin:
    """The empty cells of one margin: index (cells, variables), expected (cells,); tested: number of all cells."""

    variables: tuple[int, ...]
    index: NDArray[np.intp]
    expected: NDArray[np.float64]
    tested: int


def suggest_zeros(
    microdata: Microdata, false_discovery: float = 0.01, order: Literal[2, 3] = 3, population: int | None = None
) -> Suggestions:
    """Find unexplained gaps in the two-way and, with order 3, the three-way margins; options as in `suggest`.

    Suggestions without blanks come first, each kind by decreasing expected number of records.
    """
    records = microdata.records
    if population is not None and population < records:
        raise RulesError(f"`population` is {population:,}, and the file has {records:,} records: correct one of them.")
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
    boxes = sum(math.prod(2 ** microdata.levels[j] - 1 for j in margin.variables) for margin in margins)
    limit = _Limit(tested, boxes, records, population)
    found = [item for margin in margins for item in _join_cells(microdata, margin, threshold, limit)]
    found.sort(key=lambda item: (bool(item.blanks), -item.expected, item.words))
    return Suggestions(tuple(found), tested, records, false_discovery, tuple(skipped), population)


@dataclass(frozen=True)
class _Limit:
    """The bound at the head of this file. tested: T; boxes: B."""

    tested: int
    boxes: int
    records: int
    population: int | None

    def share(self, cells: int) -> float:
        """Return the upper limit for this many joined cells, as a share of the population."""
        needed = min(cells * math.log(2 * self.tested / DELTA), math.log(2 * self.boxes / DELTA))
        if self.population is None:  # one so large that drawing people from it does not change it
            return min(needed / self.records, 1.0)
        if self.population == self.records:
            return 0.0
        people = math.floor(needed / -math.log1p(-self.records / self.population))
        return min(people, self.population - self.records) / self.population


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


def _join_cells(microdata: Microdata, margin: _Margin, threshold: float, limit: _Limit) -> Iterator[Suggestion]:
    """Join the significant cells of a margin into rules with sets of categories, those with blanks apart."""
    grid = make_grid(microdata.levels)
    chance = np.exp(-margin.expected)
    groups: dict[tuple[str, ...], dict[Box, tuple[float, float]]] = {}
    for i in np.flatnonzero(chance <= threshold):
        box = grid.full
        blanks = []
        for j, x in zip(margin.variables, margin.index[i], strict=True):
            box &= confine(grid, j, [int(x)])
            if microdata.variables[j].categories[int(x)] == BLANK:
                blanks.append(microdata.variables[j].name)
        groups.setdefault(tuple(blanks), {})[box] = (float(margin.expected[i]), float(chance[i]))
    for with_blank, cells in groups.items():
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
                share=limit.share(len(inside)),
                blanks=with_blank,
            )


_HEAD = """\
# SUGGESTIONS, not rules: combinations that no record of the file has, although
# the counts of their parts make some expected.
# Each is a comment, and none has an effect. If such a person cannot exist, turn
# the suggestion into a rule: remove the "# " before its "- {{". Leave the others:
# a rule that real people break makes the file look safer than it is.
# {found} found in {tested} combinations of two or three keys; at most
# {false_discovery} of them are expected to be gaps by chance. Rare is not impossible.
#
# How wrong could a rule be? A sample can miss all of a few people. "At most" is
# the largest number of such people that it misses with a probability of 5 %, for
# all suggestions together: if the rule is wrong, up to that many are left out.
impossible:
"""
_BLANKS = """
  # ---------------------------------------------------------------------------
  # THESE REST ON BLANK ANSWERS. A blank says how a questionnaire was filled in
  # (a question that was skipped, or not answered), and anyone may leave an answer
  # blank. Accept one only if the questionnaire itself excludes it.
  # ---------------------------------------------------------------------------
"""


def format_suggestions(suggestions: Suggestions) -> str:
    text = _HEAD.format(
        found=len(suggestions.items),
        tested=f"{suggestions.tested:,}",
        false_discovery=f"{suggestions.false_discovery:.0%}",
    )
    before = False
    for place, item in enumerate(suggestions.items, start=1):
        text += _BLANKS if item.blanks and not before else ""
        before = bool(item.blanks)
        text += _format_entry(place, item, suggestions)
    return text


def _format_entry(place: int, item: Suggestion, suggestions: Suggestions) -> str:
    words = "".join(character if character.isprintable() else "?" for character in item.words)
    rule = {
        name: [code if code != BLANK else BLANK_WORD for code in codes]
        for name, codes in zip(item.variables, item.categories, strict=True)
    }
    text = yaml.safe_dump(rule, default_flow_style=True, sort_keys=False, allow_unicode=True, width=math.inf)
    blank = f" (blank: {', '.join(item.blanks)})" if item.blanks else ""
    return (
        f"\n  # SUGGESTION {place}, to be confirmed by a person{blank}: nobody has\n"
        f"  #   {words}\n"
        f"  # {_describe_size(item, suggestions)}\n"
        f"  # - {text.strip()}\n"
    )


def _describe_size(item: Suggestion, suggestions: Suggestions) -> str:
    """Say how many such records, and people, would be expected, and how many people the sample may have missed."""
    found = f"0 of {suggestions.records:,} records, {number(item.expected)} expected; "
    if suggestions.population is None:
        return f"{found}if wrong, at most {percent(item.share)} of the population"
    people = item.expected * suggestions.population / suggestions.records
    return (
        f"{found}if wrong, at most {round(item.share * suggestions.population):,} of {suggestions.population:,} people "
        f"({number(people)} expected)"
    )
