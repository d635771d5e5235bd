"""Synthetic populations with a sample and the true risks, to compare estimates with the truth.

`simulate` draws people from the prior of the model. `make_demonstration` draws a fictitious country in which, as in any
survey, some answers determine others: children are not married and do not work, only those in work have hours, and only
tenants pay rent.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from keyhole.data import Variable
from keyhole.errors import OutputError, SettingsError
from keyhole.files import explained, json_text, write_text
from keyhole.sampling.predictive import draw_population
from keyhole.settings import Options, Settings, make_settings
from keyhole.zeros import RuleSource, read_zeros


@dataclass(frozen=True, eq=False, repr=False)
class Simulation:
    """A population and a simple random sample of it; columns K1, K2, ... with categories 1, 2, ...

    Attributes
    ----------
    population, sample : polars.DataFrame
    codebook : dict
        Categories of each key.
    truth : dict
        tau1 and tau2 of the sample, and the sizes.
    """

    population: pl.DataFrame
    sample: pl.DataFrame
    codebook: dict[str, Any]
    truth: dict[str, Any]

    def __repr__(self) -> str:
        """Sizes only."""
        return f"Simulation of {self.population.height:,} people, {self.sample.height:,} in the sample"


def simulate(
    levels: list[int],
    population: int,
    sample: int,
    zeros: RuleSource | None = None,
    settings: Settings | None = None,
    **options: Unpack[Options],
) -> Simulation:
    """Draw parameters from their prior, a population from the model, and a simple random sample of it.

    Parameters
    ----------
    levels
        Number of categories of each key.
    population, sample
        Number of people, and of those in the sample.
    zeros
        Combinations that do not occur, as in `assess`.
    settings, **options
        Model, prior and seed, as in `assess`.

    Returns
    -------
    Simulation

    Raises
    ------
    KeyholeError
        If the numbers or rules are invalid.
    """
    chosen = make_settings(settings, **options)
    if not levels or min(levels) < 2:
        raise SettingsError("`levels` must be numbers of categories, at least 2 each, for instance 5,2,6")
    if not 2 <= sample <= population:
        raise SettingsError("`sample` must be at least 2 and at most `population`")
    names = [f"K{j + 1}" for j in range(len(levels))]
    codebook = {name: list(range(1, size + 1)) for name, size in zip(names, levels, strict=True)}
    variables = [Variable(name, tuple(map(str, codes))) for name, codes in codebook.items()]
    rules = None if zeros is None else read_zeros(zeros, variables)
    rng = np.random.default_rng(chosen.seed)
    codes = draw_population(rng, levels, population, chosen, rules)
    people = pl.DataFrame({name: codes[:, j] + 1 for j, name in enumerate(names)})
    impossible = 0 if rules is None else rules.impossible_cells
    further = {"model": chosen.model, "prior": chosen.prior, "seed": chosen.seed, "impossible_cells": impossible}
    return _draw_sample(rng, people, sample, codebook, further)


def _draw_sample(
    rng: np.random.Generator, people: pl.DataFrame, size: int, codebook: dict[str, Any], further: dict[str, Any]
) -> Simulation:
    drawn = people[np.sort(rng.choice(people.height, size=size, replace=False))]
    uniques, tau1, tau2 = count_truth(people, drawn)
    truth = {
        "population": people.height,
        "sample": size,
        "keys": people.columns,
        "sample_uniques": uniques,
        "tau1": tau1,
        "tau2": tau2,
    }
    return Simulation(people, drawn, codebook, truth | further)


def check_folder(folder: Path) -> None:
    if folder.is_dir() and any(folder.iterdir()):
        raise OutputError(f"{folder} holds other files: choose a new or empty folder with `out`.")


def write_simulation(simulation: Simulation, folder: Path) -> None:
    """Write population.csv, sample.csv, truth.json and codebook.json."""
    check_folder(folder)
    with explained(folder):
        os.makedirs(folder, mode=0o700, exist_ok=True)
    write_text(simulation.population.write_csv(), folder / "population.csv")
    write_text(simulation.sample.write_csv(), folder / "sample.csv")
    write_text(json_text(simulation.codebook), folder / "codebook.json")
    write_text(json_text(simulation.truth), folder / "truth.json")


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


def make_demonstration(people: int = POPULATION, sample: int = SAMPLE, seed: int = DEMO_SEED) -> Simulation:
    """Draw the country and a simple random sample of it, and compute the true risks."""
    rng = np.random.default_rng(seed)
    return _draw_sample(rng, draw_people(rng, people), sample, CODEBOOK, {})


def count_truth(population: pl.DataFrame, sample: pl.DataFrame) -> tuple[int, int, float]:
    """Return the number of sample uniques, that of population uniques among them, and the sum of 1/F over them."""
    keys = population.columns
    unique = sample.group_by(keys).len("f").filter(pl.col("f") == 1)
    found = unique.join(population.group_by(keys).len("F"), on=keys, how="inner")["F"]
    return len(found), int((found == 1).sum()), float((1 / found).sum())


def draw_people(rng: np.random.Generator, total: int) -> pl.DataFrame:
    """Draw the characteristics of people in turn, each given the previous ones."""

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
