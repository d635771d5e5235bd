"""A population and a sample drawn from the model itself, with the truth, for trials and tests; and their files."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from keyhole.demo import CODEBOOK, KEYS, RULES, Demonstration, count_truth
from keyhole.errors import OutputError, SettingsError
from keyhole.files import explained, json_text, write_text
from keyhole.microdata import Variable
from keyhole.sampling.simulate import draw_population
from keyhole.settings import make_settings
from keyhole.zeros import read_zeros


@dataclass(frozen=True)
class Simulation:
    """People and a simple random sample of them; columns K1, K2, ... with categories 1, 2, ..."""

    population: pl.DataFrame
    sample: pl.DataFrame
    codebook: dict[str, list[int]]
    truth: dict[str, Any]


def simulate(
    levels: list[int], population: int, sample: int, zeros: str | Path | None = None, **settings: Any
) -> Simulation:
    """Draw the parameters from their prior, then people whom the rules allow, then a sample without replacement."""
    chosen = make_settings(**settings)
    if not levels or min(levels) < 2:
        raise SettingsError("levels must be numbers of categories, at least 2 each, for instance 5,2,6")
    if not 2 <= sample <= population:
        raise SettingsError("sample must be at least 2 and at most the population")
    names = [f"K{j + 1}" for j in range(len(levels))]
    rules = None if zeros is None else read_zeros(zeros, _variables(names, levels))
    rng = np.random.default_rng(chosen.seed)
    codes = draw_population(rng, levels, population, chosen, rules)
    people = pl.DataFrame({name: codes[:, j] + 1 for j, name in enumerate(names)})
    drawn = people[np.sort(rng.choice(population, size=sample, replace=False))]
    uniques, tau1, tau2 = count_truth(people, drawn)
    truth = {
        "population": population,
        "sample": sample,
        "keys": names,
        "sample_uniques": uniques,
        "tau1": tau1,
        "tau2": tau2,
        "model": chosen.model,
        "prior": chosen.prior,
        "seed": chosen.seed,
        "impossible_cells": 0 if rules is None else rules.impossible_cells,
    }
    return Simulation(
        people, drawn, {name: list(range(1, d + 1)) for name, d in zip(names, levels, strict=True)}, truth
    )


def _variables(names: list[str], levels: list[int]) -> list[Variable]:
    return [Variable(name, tuple(str(x) for x in range(1, size + 1))) for name, size in zip(names, levels, strict=True)]


def check_folder(folder: Path) -> None:
    """Refuse a folder that already holds something."""
    if folder.is_dir() and any(folder.iterdir()):
        raise OutputError(f"{folder} holds other files: choose a new or empty folder with --out.")


def write_simulation(simulation: Simulation, folder: Path) -> None:
    """Write population.csv, sample.csv, truth.json and codebook.json."""
    files = {
        "population.csv": simulation.population.write_csv(),
        "sample.csv": simulation.sample.write_csv(),
        "codebook.json": json_text(simulation.codebook),
        "truth.json": json_text(simulation.truth),
    }
    _write_files(files, folder)


def write_demonstration(demonstration: Demonstration, folder: Path) -> None:
    """Write the files of the made-up country: the same four, and rules.yaml."""
    truth = {
        "population": demonstration.population.height,
        "sample": demonstration.sample.height,
        "keys": list(KEYS),
        "sample_uniques": demonstration.sample_uniques,
        "tau1": demonstration.tau1,
        "tau2": demonstration.tau2,
    }
    files = {
        "population.csv": demonstration.population.write_csv(),
        "sample.csv": demonstration.sample.write_csv(),
        "codebook.json": json_text(CODEBOOK),
        "rules.yaml": RULES,
        "truth.json": json_text(truth),
    }
    _write_files(files, folder)


def _write_files(files: dict[str, str], folder: Path) -> None:
    check_folder(folder)
    with explained(folder):
        os.makedirs(folder, mode=0o700, exist_ok=True)
    for name, text in files.items():
        write_text(text, folder / name)
