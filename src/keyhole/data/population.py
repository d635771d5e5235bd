"""The size of the population: N counts the people of whom the records used are a random sample.

Some records may be left out: those with a blank key (`missing` drop), without any answer, or that contradict a rule.
The people like them are then not counted either. One rule, however N was given: weights and a sampling fraction are
taken of the records used, and a number of people, of all or of a stratum, counts those behind the whole file, so that
it is multiplied by the share of them that the records used stand for.
"""

import operator
from typing import Any, SupportsIndex, cast

import numpy as np
from numpy.typing import NDArray

from keyhole.data.cells import find_cells
from keyhole.data.variables import BLANK, Microdata
from keyhole.errors import InputError, SettingsError


def check_fraction(fraction: float) -> None:
    if not 0.0 < fraction <= 1.0:
        raise SettingsError("fraction must be above 0 and at most 1, for instance 0.01")


def population_size(population: int | None, fraction: float | None, microdata: Microdata) -> int:
    """Return N from the one of both that is given."""
    if (population is None) == (fraction is None):
        raise SettingsError(
            "give one of population and fraction: the size of the population, or the share sampled; "
            "or weight, the column of survey weights"
        )
    records = microdata.records
    if fraction is not None:
        check_fraction(fraction)
        return max(records, round(records / fraction))
    try:
        people = operator.index(cast(SupportsIndex, population))  # whatever a Python user gives
    except TypeError:
        raise SettingsError("population must be a whole number of people") from None
    if people < microdata.file_records:
        left_out = "" if records == microdata.file_records else ", those left out included"
        raise InputError(
            f"the population of {people:,} is smaller than the sample of {microdata.file_records:,} records{left_out}: "
            "give the number of people the sample was drawn from."
        )
    if records == microdata.file_records:
        return people
    stand_for = represented(microdata)
    return scale(people, records, float(stand_for[microdata.row_used].sum() / stand_for.sum()))


def scale(people: int, records: int, share: float) -> int:
    """Return the people behind the records used, of whom there are at least as many as records."""
    return max(records, round(people * share))


def represented(microdata: Microdata) -> NDArray[np.float64]:
    """Return for how many people, up to a factor, each input row stands: by its weight, or by its records."""
    if microdata.extra.weight is not None:
        return microdata.extra.weight
    if microdata.row_records is not None:
        return microdata.row_records.astype(np.float64)
    return np.ones(microdata.rows)


def shares_of_strata(
    microdata: Microdata, columns: list[tuple[tuple[str, ...], NDArray[Any]]], strata: list[tuple[str, ...]]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the share of the people of each stratum behind the records used, and its records in the file.

    columns: the categories of each column of strata, and the one of each input row, -1 if it is not known; strata: the
    categories of each stratum. Where a record that is left out has no stratum, it counts in all of them alike.
    """
    people, count = represented(microdata), microdata.records_of_rows
    cells, cell = find_cells([codes for _, codes in columns], microdata.rows)
    texts = [
        tuple(names[code] if code >= 0 else BLANK for (names, _), code in zip(columns, row, strict=True))
        for row in cells.tolist()
    ]
    place = {text: s for s, text in enumerate(strata)}
    of_cell = np.array([place.get(text, len(strata)) for text in texts])
    unknown = np.array([BLANK in text for text in texts])[cell]
    of_row = of_cell[cell]
    used = microdata.row_used
    whole = np.bincount(of_row, people, minlength=len(strata) + 1)[: len(strata)]
    kept = np.bincount(of_row[used], people[used], minlength=len(strata) + 1)[: len(strata)]
    records = np.bincount(of_row, count, minlength=len(strata) + 1)[: len(strata)]
    known = 1.0 - float(people[unknown].sum() / people.sum())
    return kept / whole * known, records.astype(np.int64)
