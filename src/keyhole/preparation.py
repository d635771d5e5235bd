"""What must be settled before any estimator runs: the size of the population, the rules, and who contradicts them."""

import operator
from pathlib import Path
from typing import SupportsIndex, cast

import numpy as np

from keyhole.errors import InputError, RulesError, SettingsError
from keyhole.microdata import Microdata
from keyhole.zeros import Zeros, describe_contradictions, find_contradictions, read_zeros


def population_size(population: int | None, fraction: float | None, records: int) -> int:
    """Return N from the one of both that is given."""
    if (population is None) == (fraction is None):
        raise SettingsError(
            "give one of population and fraction: the size of the population, or the share sampled; "
            "or weight, the column of survey weights"
        )
    if fraction is not None:
        if not 0.0 < fraction <= 1.0:
            raise SettingsError("fraction must be above 0 and at most 1, for instance 0.01")
        return max(records, round(records / fraction))
    try:
        people = operator.index(cast(SupportsIndex, population))  # whatever a Python user gives
    except TypeError:
        raise SettingsError("population must be a whole number of people") from None
    if people < records:
        raise InputError(
            f"the population of {people:,} is smaller than the sample of {records:,} records: "
            "give the number of people the sample was drawn from."
        )
    return people


def refuse_half_of_blanks(microdata: Microdata, self_check: bool) -> None:
    """The half-sample check counts the truth in the other half, which it cannot where answers are missing."""
    if self_check and microdata.codes.size and microdata.codes.min() < 0:
        raise SettingsError(
            "self-check needs every answer, or the other half does not tell the truth: "
            "use missing 'category' or 'drop' with it"
        )


def read_rules(zeros: str | Path, microdata: Microdata) -> Zeros:
    """Read rules on the variables of these data."""
    return read_zeros(zeros, microdata.variables, {found.name: found for found in microdata.ignored_variables})


def settle_contradictions(rules: Zeros, microdata: Microdata, drop: bool) -> tuple[Microdata, int]:
    """Refuse rules that the records contradict, or leave those records out and say how many."""
    found = find_contradictions(rules, microdata)
    if not len(found.records):
        return microdata, 0
    if not drop:
        raise RulesError(
            f"{describe_contradictions(found)}. Correct the rules or the records, "
            "or leave the records out with --drop-contradictions."
        )
    kept = np.ones(len(microdata.codes), dtype=np.bool_)
    kept[found.records] = False
    if kept.sum() < 2:
        raise RulesError("the rules call all records but one impossible: correct the rules.")
    return microdata.keep(kept), len(found.records)
