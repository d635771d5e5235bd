"""A made-up country in which everybody is known, so that the estimate can be held against the truth.

The people are drawn from tables of ordinary life, with the impossible combinations that real files have:
children are not married, hold no degree, have no work and have not served.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

POPULATION = 80_000
SAMPLE = 1_000
DEMO_SEED = 2024

CODEBOOK: dict[str, dict[str, str]] = {
    "AGE": {
        "1": "0-9",
        "2": "10-15",
        "3": "16-19",
        "4": "20-29",
        "5": "30-39",
        "6": "40-49",
        "7": "50-64",
        "8": "65+",
    },
    "SEX": {"1": "female", "2": "male"},
    "MARITAL": {"1": "never married", "2": "married", "3": "separated", "4": "divorced", "5": "widowed"},
    "EDUC": {
        "1": "none yet",
        "2": "primary",
        "3": "secondary",
        "4": "vocational",
        "5": "bachelor",
        "6": "higher",
    },
    "WORK": {"1": "not in work force", "2": "employed", "3": "self-employed", "4": "unemployed"},
    "SERVED": {"1": "never served", "2": "serving", "3": "veteran"},
    "LIMITED": {"1": "no", "2": "somewhat", "3": "severely"},
    "REGION": {"1": "north", "2": "coast", "3": "lakes", "4": "hills", "5": "south", "6": "capital"},
}
KEYS = tuple(CODEBOOK)

RULES = """\
impossible:                                      # combinations that cannot exist, by the codes of the codebook
  - {AGE: [1, 2], MARITAL: [2, 3, 4, 5]}
  - {AGE: [1, 2], WORK: [2, 3, 4]}
  - {AGE: [1, 2, 3], SERVED: [3]}
  - {AGE: [1, 2], SERVED: [2]}
  - {AGE: [1], EDUC: [2, 3, 4, 5, 6]}
  - {AGE: [2], EDUC: [3, 4, 5, 6]}
  - {AGE: [3], EDUC: [5, 6]}
  - {AGE: [3], MARITAL: [3, 4, 5]}
  - {SERVED: [2], WORK: [1, 3, 4]}
  - {SERVED: [2], LIMITED: [3]}
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
    age = _draw(rng, np.tile([0.11, 0.07, 0.05, 0.13, 0.14, 0.13, 0.19, 0.18], (total, 1)))
    sex = _draw(rng, np.where(age[:, None] == 7, [0.57, 0.43], [0.49, 0.51]))
    region = _draw(rng, np.tile([0.10, 0.17, 0.08, 0.09, 0.24, 0.32], (total, 1)))
    educ = _draw(rng, _EDUC_BY_AGE[age] * np.where(region[:, None] == 5, [1, 1, 1, 0.8, 1.6, 2.2], 1.0))
    marital = _draw(rng, _MARITAL_BY_AGE[age] * np.where(sex[:, None] == 0, [1, 1, 1.1, 1.1, 2.2], 1.0))
    limited = _draw(rng, _LIMITED_BY_AGE[age])
    served = _draw(rng, _served(age, sex, limited))
    work = _draw(rng, _work(age, educ, limited, served))
    columns = dict(zip(KEYS, (age, sex, marital, educ, work, served, limited, region), strict=True))
    return pl.DataFrame({name: (value + 1).astype(str) for name, value in columns.items()})


def _draw(rng: np.random.Generator, weight: NDArray[np.float64]) -> NDArray[np.int64]:
    """Draw one category for each row of weights."""
    cumulated = np.cumsum(weight, axis=1)
    point = rng.random(len(weight)) * cumulated[:, -1]
    category: NDArray[np.int64] = np.sum(point[:, None] >= cumulated, axis=1, dtype=np.int64)
    return category


# Rows are the age bands of the codebook, columns the categories.
_EDUC_BY_AGE = np.array(
    [
        [1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        [0.5, 0.5, 0.0, 0.0, 0.0, 0.0],
        [0.02, 0.38, 0.55, 0.05, 0.0, 0.0],
        [0.01, 0.06, 0.43, 0.25, 0.20, 0.05],
        [0.01, 0.07, 0.32, 0.25, 0.22, 0.13],
        [0.01, 0.09, 0.35, 0.27, 0.18, 0.10],
        [0.02, 0.14, 0.40, 0.25, 0.12, 0.07],
        [0.04, 0.30, 0.38, 0.17, 0.07, 0.04],
    ]
)
_MARITAL_BY_AGE = np.array(
    [
        [1.0, 0.0, 0.0, 0.0, 0.0],
        [1.0, 0.0, 0.0, 0.0, 0.0],
        [0.985, 0.015, 0.0, 0.0, 0.0],
        [0.78, 0.19, 0.015, 0.014, 0.001],
        [0.38, 0.52, 0.035, 0.06, 0.005],
        [0.22, 0.60, 0.04, 0.13, 0.01],
        [0.13, 0.62, 0.03, 0.18, 0.04],
        [0.06, 0.54, 0.01, 0.13, 0.20],
    ]
)
_LIMITED_BY_AGE = np.array(
    [
        [0.97, 0.02, 0.01],
        [0.96, 0.03, 0.01],
        [0.95, 0.04, 0.01],
        [0.94, 0.045, 0.015],
        [0.92, 0.06, 0.02],
        [0.89, 0.08, 0.03],
        [0.80, 0.14, 0.06],
        [0.60, 0.27, 0.13],
    ]
)
_SERVING_BY_AGE = np.array([0.0, 0.0, 0.01, 0.02, 0.012, 0.006, 0.001, 0.0])
_VETERAN_BY_AGE = np.array([0.0, 0.0, 0.0, 0.012, 0.03, 0.05, 0.09, 0.24])
_WORK_BY_AGE = np.array(
    [
        [1.0, 0.0, 0.0, 0.0],
        [1.0, 0.0, 0.0, 0.0],
        [0.68, 0.24, 0.005, 0.075],
        [0.22, 0.66, 0.04, 0.08],
        [0.14, 0.72, 0.08, 0.06],
        [0.14, 0.70, 0.11, 0.05],
        [0.32, 0.54, 0.10, 0.04],
        [0.90, 0.06, 0.035, 0.005],
    ]
)


def _served(age: NDArray[np.int64], sex: NDArray[np.int64], limited: NDArray[np.int64]) -> NDArray[np.float64]:
    factor = np.where(sex == 1, 1.6, 0.2)
    serving = _SERVING_BY_AGE[age] * factor * (limited < 2)
    veteran = _VETERAN_BY_AGE[age] * factor
    return np.column_stack([1.0 - serving - veteran, serving, veteran])


def _work(
    age: NDArray[np.int64], educ: NDArray[np.int64], limited: NDArray[np.int64], served: NDArray[np.int64]
) -> NDArray[np.float64]:
    weight = _WORK_BY_AGE[age].copy()
    weight[:, 0] *= 1.0 + 2.0 * limited
    weight[:, 1:3] *= (0.7 + 0.12 * educ)[:, None]
    weight[served == 1] = [0.0, 1.0, 0.0, 0.0]
    return weight
