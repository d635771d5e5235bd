"""Samples by strata from a known population: how many people of each stratum, and who."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from keyhole.data import find_cells
from keyhole.data.strata import SIZE, read_strata_table
from keyhole.errors import InputError

if TYPE_CHECKING:
    from keyhole.evaluation.population import Population

PROPORTIONAL, EQUAL = "proportional", "equal"
WANTED = "n"
"""The column of a table of strata with the records to draw of each."""


@dataclass(frozen=True)
class Allocation:
    """people, records: int64 (S,), N_s and n_s; of_person: int32 (N,), everybody's stratum.

    table: the strata by their categories, and N.
    """

    people: NDArray[np.int64]
    records: NDArray[np.int64]
    of_person: NDArray[np.int32]
    table: pl.DataFrame

    def draw(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw rows at random within each stratum, ascending."""
        order = np.argsort(self.of_person, kind="stable")
        ends = np.cumsum(self.people)
        drawn = [
            order[end - size : end][rng.choice(size, size=wanted, replace=False, shuffle=False)]
            for end, size, wanted in zip(ends, self.people, self.records, strict=True)
        ]
        return np.sort(np.concatenate(drawn)).astype(np.int64)


def plan_allocation(population: "Population", size: int, how: str | Path) -> Allocation:
    """Number the strata of the population and share the records of a sample among them."""
    codes = population.frame.select([variable.name for variable in population.strata]).collect()
    found, of_person = find_cells([codes[name].to_numpy() for name in codes.columns], population.people)
    people = np.bincount(of_person).astype(np.int64)
    texts = [tuple(v.categories[x] for v, x in zip(population.strata, row, strict=True)) for row in found.tolist()]
    columns = dict(zip(codes.columns, map(list, zip(*texts, strict=True)), strict=True))
    table = pl.DataFrame({**columns, SIZE: people})
    if how == PROPORTIONAL:
        records = share(people.astype(np.float64), people, size)
    elif how == EQUAL:
        records = share(np.ones(len(people)), people, size)
    else:
        _, rows, wanted = read_strata_table(how, codes.columns, WANTED)
        by_text = dict(zip(rows, wanted.tolist(), strict=True))
        records = np.array([by_text.get(text, 0) for text in texts], np.int64)
        if (records > people).any() or records.sum() != size:
            raise InputError(
                f"{how}: `allocation` must take {size:,} people in all (`sample_size`), and of no stratum more than it "
                f"has: correct its {WANTED}."
            )
    if (records < 1).any():
        raise InputError(
            f"a sample of {size:,} has no record of some of the {len(people):,} strata: use a larger `sample_size`, "
            "or merge strata."
        )
    return Allocation(people, records, of_person, table)


def share(weight: NDArray[np.float64], most: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Share `size` in proportion to weights, from 1 to `most` each, the last ones by largest remainders."""
    taken = np.minimum(1, most)
    while (left := size - int(taken.sum())) > 0:
        gap = np.where(taken < most, np.maximum(weight * size / weight.sum() - taken, 1e-9 * weight), 0.0)
        part = np.minimum(np.floor(gap * min(left / gap.sum(), 1.0)).astype(np.int64), most - taken)
        if not part.any():
            part = np.zeros(len(gap), np.int64)
            part[np.argsort(-gap, kind="stable")[: min(left, int((gap > 0.0).sum()))]] = 1
        taken = taken + part
    return taken
