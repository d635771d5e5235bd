"""`keyhole.zeros.check`, `suggest` and `boxes`: what the commands call, as functions of rules and a source."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from keyhole.data import Microdata, SourceOptions, read_codebook, read_microdata
from keyhole.errors import SettingsError
from keyhole.zeros.contradictions import RuleCheck, check_zeros
from keyhole.zeros.rule_files import RuleSource
from keyhole.zeros.suggest import Suggestions, suggest_zeros
from keyhole.zeros.zeros import BoxLine, Zeros, list_boxes, read_zeros, tabulate_boxes


class Reading(TypedDict, total=False):
    """How a source is read, as in `assess`."""

    allow_identifier: Sequence[str]
    query: str | None
    count: str | None
    count_cells: bool
    bands: Mapping[str, Any] | None
    merge: Mapping[str, Any] | None
    user_missing: Literal["keep", "blank"]
    na: Sequence[str] | None


@dataclass(frozen=True, eq=False, repr=False)
class Check:
    """What the rules exclude, and what contradicts them.

    Attributes
    ----------
    rules : tuple of RuleCheck
        Each rule: its words, cells, whether it is redundant, and the rows that contradict it.
    rows : numpy.ndarray
        Input rows that contradict any rule, from 1.
    records : int
        Number of records of the source.
    zeros : Zeros
        The rules as disjoint boxes.
    na : dict
        Which texts were taken as missing, as `input.na` in summary.json.
    """

    rules: tuple[RuleCheck, ...]
    rows: NDArray[np.int64]
    records: int
    zeros: Zeros
    na: Mapping[str, Any]

    @property
    def holds(self) -> bool:
        """Whether no record contradicts a rule."""
        return not len(self.rows)

    def __repr__(self) -> str:
        """Numbers only."""
        return f"Check of {len(self.rules)} rules: {len(self.rows):,} of {self.records:,} records contradict one"

    def to_dict(self) -> dict[str, Any]:
        """Return what `keyhole zeros check --json` prints.

        Returns
        -------
        dict
        """
        return {
            "cells": self.zeros.cells,
            "impossible_cells": self.zeros.impossible_cells,
            "share": self.zeros.share,
            "boxes": len(self.zeros.impossible),
            "possible_boxes": len(self.zeros.possible),
            "contradicting_rows": self.rows.tolist(),
            "rules": [{**vars(rule), "rows": rule.rows.tolist()} for rule in self.rules],
        }


@dataclass(frozen=True)
class Boxes:
    """The rules as disjoint boxes.

    Attributes
    ----------
    lines : tuple of BoxLine
        Each box in words, with its number of cells and their share, largest first.
    cells : int
        Number of cells of the table.
    table : dict
        The boxes as columns of a table that `zeros` of `assess` reads.
    na : dict
        Which texts were taken as missing, as `input.na` in summary.json.
    """

    lines: tuple[BoxLine, ...]
    cells: int
    table: Mapping[str, list[str]]
    na: Mapping[str, Any]


def check(
    rules: RuleSource,
    source: Any,
    keys: str | Sequence[str] | None = None,
    codebook: str | Path | Mapping[str, Any] | None = None,
    **reading: Unpack[Reading],
) -> Check:
    """Find what each rule excludes, which are redundant, and which records contradict them.

    Parameters
    ----------
    rules
        Combinations that cannot exist, as `zeros` of `assess`.
    source, codebook
        As in `assess`.
    keys
        As in `assess`; by default the variables of the codebook.
    **reading
        `allow_identifier`, `query`, `count`, `count_cells`, `bands`, `merge`, `user_missing`, `na`, as in `assess`.

    Returns
    -------
    Check

    Raises
    ------
    KeyholeError
        If the source or the rules cannot be read.
    """
    data = _read(source, keys, codebook, reading)
    zeros = read_zeros(rules, data.variables, data.ignored_variables)
    checks, rows = check_zeros(zeros, data)
    return Check(checks, rows, data.records, zeros, data.reading["na"])


def suggest(
    source: Any,
    keys: str | Sequence[str] | None = None,
    codebook: str | Path | Mapping[str, Any] | None = None,
    *,
    population: int | None = None,
    false_discovery: float = 0.01,
    order: Literal[2, 3] = 3,
    **reading: Unpack[Reading],
) -> Suggestions:
    """Suggest combinations that no record has and that chance does not explain; a person has to confirm each.

    Parameters
    ----------
    source, codebook
        As in `assess`.
    keys
        As in `assess`; by default the variables of the codebook.
    population
        Number of people, if it is known; each suggestion then says how many of them it would have to spare.
    false_discovery
        Expected share of suggestions that are due to chance.
    order
        Consider combinations of up to this many variables, 2 or 3.
    **reading
        As in `check`.

    Returns
    -------
    Suggestions
        `format_suggestions` writes them as a file of rules.

    Raises
    ------
    KeyholeError
        If the source cannot be read.
    """
    if order not in (2, 3):
        raise SettingsError("`order` must be 2 or 3")
    if not 0.0 <= false_discovery <= 1.0:
        raise SettingsError("`false_discovery` must be between 0 and 1")
    data = _read(source, keys, codebook, reading)
    return replace(suggest_zeros(data, false_discovery, order, population), na=data.reading["na"])


def boxes(
    rules: RuleSource,
    source: Any,
    keys: str | Sequence[str] | None = None,
    codebook: str | Path | Mapping[str, Any] | None = None,
    *,
    possible: bool = False,
    **reading: Unpack[Reading],
) -> Boxes:
    """Return the disjoint boxes that rules become on the categories of a source.

    Parameters
    ----------
    rules, source, keys, codebook
        As in `check`.
    possible
        Return the boxes of possible combinations instead.
    **reading
        As in `check`.

    Returns
    -------
    Boxes

    Raises
    ------
    KeyholeError
        If the source or the rules cannot be read.
    """
    data = _read(source, keys, codebook, reading)
    zeros = read_zeros(rules, data.variables, data.ignored_variables)
    table = tabulate_boxes(zeros, possible)
    return Boxes(list_boxes(zeros, possible), zeros.cells, table, data.reading["na"])


def _read(
    source: Any,
    keys: str | Sequence[str] | None,
    codebook: str | Path | Mapping[str, Any] | None,
    reading: Mapping[str, Any],
) -> Microdata:
    if keys is None and codebook is None:
        raise SettingsError("give `keys` or a `codebook`")
    options = dict(reading)
    allowed = options.pop("allow_identifier", ())
    names = keys or tuple(read_codebook(codebook))
    return read_microdata(source, names, codebook, allowed, options=SourceOptions(**options))
