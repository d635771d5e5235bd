"""A made-up country in which everybody is known, so that the estimate can be held against the truth.

Some answers decide which questions are asked at all, as in every survey: children are not married and do not work,
hours are asked of those who work, rent of those who pay it.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

POPULATION = 20_000
SAMPLE = 500
DEMO_SEED = 2028

CODEBOOK: dict[str, dict[str, str]] = {
    "AGE": {"1": "0-15", "2": "16-29", "3": "30-39", "4": "40-49", "5": "50-64", "6": "65+"},
    "MARITAL": {"1": "never married", "2": "married", "3": "divorced", "4": "widowed"},
    "WORK": {"1": "employed", "2": "self-employed", "3": "unemployed", "4": "not in work force"},
    "HOURS": {"1": "does not work", "2": "under 20", "3": "20-39", "4": "40 and more"},
    "TENURE": {"1": "owner", "2": "tenant", "3": "rent-free"},
    "RENT": {"1": "pays none", "2": "under 500", "3": "500-999", "4": "1000 and more"},
    "REGION": {"1": "north", "2": "coast", "3": "lakes", "4": "hills", "5": "capital"},
}
KEYS = tuple(CODEBOOK)

RULES = """\
impossible:                                      # combinations that cannot exist, by the codes of the codebook
  - {AGE: [1], MARITAL: [2, 3, 4]}
  - {AGE: [1], WORK: [1, 2, 3]}
  - {WORK: [1, 2], HOURS: [1]}
  - {WORK: [3, 4], HOURS: [2, 3, 4]}
  - {TENURE: [2], RENT: [1]}
  - {TENURE: [1, 3], RENT: [2, 3, 4]}
"""


@dataclass(frozen=True)
class Demonstration:
    """Everybody, the sample, and what only the owner of the whole register could know."""

    population: pl.DataFrame
    sample: pl.DataFrame
    sample_uniques: int
    tau1: int
    tau2: float


def make_demonstration(people: int = POPULATION, sample: int = SAMPLE, seed: int = DEMO_SEED) -> Demonstration:
    """Draw the country and a simple random sample of it, and count the truth."""
    rng = np.random.default_rng(seed)
    population = draw_people(rng, people)
    chosen = population[np.sort(rng.choice(people, size=sample, replace=False))]
    uniques, tau1, tau2 = count_truth(population, chosen)
    return Demonstration(population, chosen, uniques, tau1, tau2)


def count_truth(population: pl.DataFrame, sample: pl.DataFrame) -> tuple[int, int, float]:
    """Return the sample uniques, how many are population uniques, and the sum of 1/F over them."""
    keys = population.columns
    unique = sample.group_by(keys).len("f").filter(pl.col("f") == 1)
    found = unique.join(population.group_by(keys).len("F"), on=keys, how="inner")["F"]
    return len(found), int((found == 1).sum()), float((1 / found).sum())


def draw_people(rng: np.random.Generator, total: int) -> pl.DataFrame:
    """Draw people one characteristic after the other, each given those before it."""

    def draw(*share: float) -> NDArray[np.int64]:
        return 1 + rng.choice(len(share), size=total, p=share)

    age = draw(0.17, 0.15, 0.17, 0.18, 0.18, 0.15)
    child = age == 1
    marital = np.where(child, 1, draw(0.28, 0.34, 0.20, 0.18))
    work = np.where(child, 4, draw(0.40, 0.22, 0.14, 0.24))
    hours = np.where(work >= 3, 1, 1 + draw(0.30, 0.35, 0.35))
    tenure = draw(0.40, 0.45, 0.15)
    rent = np.where(tenure == 2, 1 + draw(0.35, 0.40, 0.25), 1)
    region = draw(0.25, 0.22, 0.20, 0.18, 0.15)
    columns = dict(zip(KEYS, (age, marital, work, hours, tenure, rent, region), strict=True))
    return pl.DataFrame({name: value.astype(str) for name, value in columns.items()})
