"""The strata of a sample: who is in which, and how many people each has in the population."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from keyhole.data.categories import distinct_values, looks_identifying, order_categories, read_counts, value_texts
from keyhole.data.cells import find_cells
from keyhole.data.columns import SourceOptions
from keyhole.data.design import population_from_weights
from keyhole.data.population import scale, shares_of_strata
from keyhole.data.source import read_table
from keyhole.data.variables import BLANK, Microdata, Variable
from keyhole.errors import InputError, SettingsError
from keyhole.kernels.state import Records
from keyhole.words import plural

SIZE = "N"
"""The column of a table of strata with the number of people in each."""

MOST_CLASSES = 10
MOST_VALUES = 1_000
"""Different weights of which classes are made; more are first averaged within as many groups of equal size."""


Kind = Literal["strata", "weight-classes"]
Sizes = Literal["file", "weights"]


@dataclass(frozen=True)
class Strata:
    """The strata, numbered s = 0..S-1, in which people are drawn at random.

    kind: "strata", or "weight-classes"; sizes: whether their sizes come from a "file" or from "weights".
    columns: the columns that define them; cv_within: coefficient of variation of the weights within their strata.
    keys: the columns that are keys too, by index; category: int32 (S, keys), their categories in each stratum.
    further: int64 (S,), the category in each stratum of a further variable, which stands for all other columns;
    further_levels: number of its categories, 0 if all columns are keys.
    of_record: int32 (n,), the stratum of each record; records, people: int64 (S,), n_s and N_s.
    given: the people that a file of sizes has in all, also behind records that are left out.
    """

    kind: Kind
    sizes: Sizes | None
    columns: tuple[str, ...]
    cv_within: float | None
    keys: tuple[int, ...]
    category: NDArray[np.int32]
    further: NDArray[np.int64]
    further_levels: int
    of_record: NDArray[np.int32]
    records: NDArray[np.int64]
    people: NDArray[np.int64]
    given: int | None = None

    @property
    def unseen(self) -> NDArray[np.int64]:
        """M_s, the people who are not in the file."""
        return self.people - self.records

    @property
    def population(self) -> int:
        return int(self.people.sum())

    @property
    def matters(self) -> bool:
        """Whether there are several: with one, the sample is a simple random one."""
        return len(self.people) > 1


def check_design(
    columns: Sequence[str], sizes: Any, weight: str | None, classes: int | None, fraction: float | None
) -> None:
    """Refuse options of the design that contradict each other."""
    twice = next((name for place, name in enumerate(columns) if name in columns[:place]), None)
    if twice is not None:
        raise SettingsError(f"`strata` names '{twice}' twice: name it once")
    if columns and sizes is None and weight is None:
        raise SettingsError(
            f"`strata` needs the number of people in each: give `strata_sizes`, a table with the columns of the strata "
            f"and {SIZE}, or `weight`, the column of survey weights"
        )
    if sizes is not None and not columns:
        raise SettingsError("`strata_sizes` needs `strata`, the columns that define the strata")
    if classes is not None:
        if columns:
            raise SettingsError("`strata` and `weight_classes` exclude each other: give the strata, if they are known")
        if weight is None:
            raise SettingsError("`weight_classes` needs `weight`, the column of survey weights")
        if not 1 <= classes <= MOST_CLASSES:
            raise SettingsError(f"`weight_classes` must be from 1 to {MOST_CLASSES}")
    if fraction is not None and (columns or classes):
        raise SettingsError("with strata the population is the sum of their people: omit `fraction`")


def make_strata(
    microdata: Microdata,
    columns: Sequence[str],
    sizes: Any = None,
    weight: str | None = None,
    classes: int | None = None,
    population: int | None = None,
) -> Strata | None:
    """Return the strata of the records and their sizes, or None without strata and classes of weights."""
    if not columns and classes is None:
        return None
    strata, texts = number_strata(microdata, columns or [str(weight)], "strata" if columns else "weight-classes")
    weights = None if microdata.extra.weight is None else microdata.extra.weight[microdata.row_used]
    if sizes is not None:
        people, given = read_sizes(sizes, strata, texts, microdata)
        strata = replace(strata, sizes="file", people=people, given=given)
    elif weights is not None:
        population_from_weights(weights, str(weight))
        # A weight below 1 is the result of calibration: its record still stands for itself.
        people = np.bincount(strata.of_record, np.maximum(weights, 1.0)).round().astype(np.int64)
        strata = replace(strata, sizes="weights", people=people)
    if weights is not None:
        strata = replace(strata, cv_within=find_cv_within(weights, strata))
    if population is not None:
        _refuse_other_sum(population, strata, microdata)
    return strata


def _refuse_other_sum(population: int, strata: Strata, microdata: Microdata) -> None:
    """Refuse a population that is not the sum of the people of the strata, those of records left out included."""
    total, slack = strata.population, 0
    if strata.given is not None:
        total = strata.given
    elif microdata.extra.weight is not None and microdata.records < microdata.file_records:
        total = round(float(np.maximum(microdata.extra.weight, 1.0).sum()))
        slack = len(strata.people)  # each is rounded
    if abs(population - total) > slack:
        raise InputError(
            f"the strata have {total:,} people in all, not the {population:,} of `population`: correct one of the two, "
            "or omit `population`."
        )


def number_strata(microdata: Microdata, columns: Sequence[str], kind: Kind) -> tuple[Strata, list[tuple[str, ...]]]:
    """Number the strata that occur; return them without sizes, and the categories of each in all columns."""
    names = [variable.name for variable in microdata.variables]
    constant = {variable.name: variable for variable in microdata.ignored_variables}
    codes, categories = [], []
    for name in columns:
        if name in names:
            codes.append(microdata.cells[microdata.cell, names.index(name)])
            categories.append(microdata.variables[names.index(name)].categories)
        elif name in constant:
            codes.append(np.zeros(microdata.records, np.int32))
            categories.append(constant[name].categories)
        else:
            variable, code = microdata.strata_columns[name]
            codes.append(code[microdata.record_row])
            categories.append(variable.categories)
        blank = (codes[-1] < 0) | (np.array([*categories[-1], BLANK])[codes[-1]] == BLANK)
        if blank.any():
            row = int(microdata.record_row[blank.argmax()]) + 1
            raise InputError(f"row {row}, column '{name}' of `strata` is blank: give every row its stratum.")
    found, of_record = find_cells(codes, microdata.records)
    if looks_identifying(len(found), microdata.records):
        raise InputError(
            f"`strata` {', '.join(columns)} define {len(found):,} strata of {microdata.records:,} records: merge them."
        )
    own = [place for place, name in enumerate(columns) if name in names]
    _, further = find_cells([found[:, x] for x in range(len(columns)) if x not in own], len(found))
    levels = int(further.max()) + 1
    return Strata(
        kind=kind,
        sizes=None,
        columns=tuple(columns),
        cv_within=None,
        keys=tuple(names.index(columns[x]) for x in own),
        category=np.ascontiguousarray(found[:, own]),
        further=further.astype(np.int64),
        further_levels=levels if levels > 1 else 0,
        of_record=of_record,
        records=np.bincount(of_record).astype(np.int64),
        people=np.zeros(len(found), np.int64),
    ), [tuple(categories[x][code] for x, code in enumerate(row)) for row in found.tolist()]


def read_sizes(
    source: Any, strata: Strata, texts: list[tuple[str, ...]], microdata: Microdata
) -> tuple[NDArray[np.int64], int]:
    """Return N_s from a table with the columns of the strata and N, and their sum as it is there.

    N_s counts the people behind the records used (population.py). What contradicts the records is refused.
    """
    where, rows, size = read_strata_table(source, strata.columns, SIZE)
    known = [_names_of(microdata, name) for name in strata.columns]
    place = {text: s for s, text in enumerate(texts)}
    share, records = np.ones(len(texts)), strata.records
    if microdata.records < microdata.file_records:
        columns = [_codes_of_rows(microdata, name) for name in strata.columns]
        share, records = shares_of_strata(microdata, columns, texts)
    people = np.full(len(texts), -1, np.int64)
    for row, written in enumerate(rows):
        text = tuple(names.get(word, word) for names, word in zip(known, written, strict=True))
        s = place.get(text)
        if s is None:
            if size[row] > 0:
                raise InputError(
                    f"{where} row {row + 1}: the stratum has people but no record {_in_the_file(microdata)}: merge it "
                    f"with another stratum, in both files{_expected(microdata, strata.columns, known)}."
                )
        elif people[s] >= 0:
            raise InputError(f"{where} row {row + 1}: the stratum is there twice: give each one row.")
        elif size[row] < records[s]:
            raise InputError(
                f"{where} row {row + 1}: the stratum has fewer people ({size[row]:,}) than the file has records of it "
                f"({records[s]:,}): correct its {SIZE}."
            )
        else:
            people[s] = size[row]
    if (people < 0).any():
        lacking = people[strata.of_record] < 0
        row = int(microdata.record_row[lacking.argmax()]) + 1
        others = int((people < 0).sum()) - 1
        more = f", and {plural(others, 'other')}" if others else ""
        raise InputError(
            f"{where} lacks the stratum ({', '.join(strata.columns)}) of row {row} of the file{more}: add "
            f"{'each' if others else 'it'} with its {SIZE}{_expected(microdata, strata.columns, known)}."
        )
    used = [
        scale(int(people[s]), int(strata.records[s]), float(share[s])) if share[s] < 1.0 else int(people[s])
        for s in range(len(people))
    ]
    return np.array(used, np.int64), int(people.sum())


def _in_the_file(microdata: Microdata) -> str:
    return "in the file" if microdata.records == microdata.file_records else "that is used"


def _variable(microdata: Microdata, name: str) -> Variable:
    """Return a column of strata, which may be a key."""
    keys = {variable.name: variable for variable in (*microdata.variables, *microdata.ignored_variables)}
    return keys[name] if name in keys else microdata.strata_columns[name][0]


def _codes_of_rows(microdata: Microdata, name: str) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """Return the categories of a column of strata, and the one of each input row."""
    codes = microdata.strata_keys[name] if name in microdata.strata_keys else microdata.strata_columns[name][1]
    return _variable(microdata, name).categories, codes


def _names_of(microdata: Microdata, name: str) -> dict[str, str]:
    """Return the codes by the labels of a column of strata; a code, or a label of several codes, stands for itself."""
    variable = _variable(microdata, name)
    pairs = list(zip(variable.labels or (), variable.categories, strict=False))
    times = Counter(label for label, _ in pairs)
    return {label: code for label, code in pairs if times[label] == 1 and label not in variable.categories}


def _expected(microdata: Microdata, columns: Sequence[str], known: Sequence[Mapping[str, str]]) -> str:
    """Say how strata are named, with an example from the labels of the file if it has some."""
    name, labels = next(((name, labels) for name, labels in zip(columns, known, strict=True) if labels), ("", {}))
    if not labels:
        return ". Strata are compared exactly as the file writes them"
    label, code = next(iter(labels.items()))
    return f". Write the codes or the labels of '{name}', such as {code} or '{label}'"


def read_strata_table(
    source: Any, columns: Sequence[str], number: str
) -> tuple[str, list[tuple[str, ...]], NDArray[np.int64]]:
    """Return the name of a table of strata, the categories in each row, and the numbers in this column."""
    table = read_table(source, [*columns, number], SourceOptions())
    where = table.where if isinstance(source, str | Path) else "the table of strata"
    texts = [_texts(table.frame[name]) for name in columns]
    return where, list(zip(*texts, strict=True)), read_counts(table.frame[number], where)


def _texts(column: pl.Series) -> list[str]:
    """Return the values of a column as the codes of categories."""
    column, values = distinct_values(column, "")
    return column.replace_strict(values, value_texts(values), default=BLANK, return_dtype=pl.String).to_list()


def code_strata(column: pl.Series, where: str, labels: Variable | None = None) -> tuple[Variable, NDArray[np.int32]]:
    """Return the categories of a column of strata with their labels, and the category of each row, -1 where blank."""
    column, values = distinct_values(column, where)
    texts = value_texts(values)
    names = order_categories(set(texts) - {BLANK})
    place = {text: x for x, text in enumerate(names)}
    codes = column.replace_strict(values, [place.get(text, -1) for text in texts], default=-1, return_dtype=pl.Int32)
    label = {} if labels is None else dict(zip(labels.categories, labels.labels or labels.categories, strict=True))
    return Variable(column.name, names, tuple(label.get(x, x) for x in names) if label else None), codes.to_numpy()


def find_cv_within(weights: NDArray[np.float64], strata: Strata) -> float:
    """Return the coefficient of variation of the weights within strata: the root of the mean square over records."""
    mean = np.bincount(strata.of_record, weights) / strata.records
    return float(np.sqrt(np.mean((weights / mean[strata.of_record] - 1.0) ** 2)))


def class_weights(weight: NDArray[np.float64], column: str, classes: int) -> tuple[Variable, NDArray[np.int32]]:
    """Return classes of weights, and the class of each weight.

    There are as many as asked for, or as many as different weights; the sum of the squared distances of the log weights
    from the mean of their class is the smallest possible.
    """
    values, of_value, count = np.unique(np.log(np.maximum(weight, 1.0)), return_inverse=True, return_counts=True)
    group = np.arange(len(values))
    if len(values) > MOST_VALUES:
        group = (np.cumsum(count) - 1) * MOST_VALUES // len(weight)
        group = np.unique(group, return_inverse=True)[1]
    size = np.bincount(group, count)
    centre = np.bincount(group, count * values) / size
    # Sums up to each group: the squares within groups a..b-1 are those of the sums between them.
    n, one, two = (np.concatenate([[0.0], np.cumsum(x)]) for x in (size, size * centre, size * centre**2))
    a, b = np.ogrid[: len(n), : len(n)]
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = np.where(b > a, two[b] - two[a] - (one[b] - one[a]) ** 2 / (n[b] - n[a]), np.inf)
    best, cuts = loss[0], []
    for _ in range(min(classes, len(size)) - 1):
        total = best[:, None] + loss
        cuts.append(total.argmin(axis=0))
        best = total.min(axis=0)
    ends = [len(size)]
    for cut in reversed(cuts):
        ends.append(int(cut[ends[-1]]))
    class_of_group = np.searchsorted(np.sort(ends[1:]), np.arange(len(size)), side="right")
    names = tuple(str(x + 1) for x in range(len(ends)))
    return Variable(column, names), class_of_group[group][of_value.reshape(-1)].astype(np.int32)


def add_strata(records: Records, strata: Strata | None) -> Records:
    """Return records with the further variable of the strata as their last, if there is one."""
    if strata is None or not strata.further_levels:
        return records
    first = int(records.level_start[-1])
    column = (first + strata.further[strata.of_record]).astype(np.int32)
    level = np.ascontiguousarray(np.column_stack([records.level, column]))
    start = np.append(records.level_start, first + strata.further_levels).astype(np.int64)
    # The stratum has no order.
    ordered = records.ordered if not len(records.ordered) else np.concatenate([records.ordered, [[0, 0]]])
    return Records(level, records.answer_total + 1, start, ordered)
