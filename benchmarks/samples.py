"""The files that are measured: those with published truth where at hand, and simulated ones anywhere."""

import importlib
import json
from collections.abc import Container, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.machine import ROOT
from keyhole.data import count_cells, encode, read_microdata
from keyhole.errors import KeyholeError
from keyhole.kernels.state import Integers, Records
from keyhole.sampling.predictive import draw_population
from keyhole.sampling.problem import Problem, make_problem
from keyhole.settings import Settings
from keyhole.zeros import Zeros, read_zeros

DATA = ROOT.parent / "shared" / "data"
ADULT_LEVELS = [5, 2, 6, 5, 11, 3, 2, 2]
TEN_LEVELS = [3, 4, 9, 2, 6, 5, 11, 4, 3, 3]


@dataclass(frozen=True)
class Sample:
    """A file ready for make_problem."""

    name: str
    records: Records
    unique_record: Integers
    population: int
    zeros: Zeros | None = None


def list_samples(quick: bool, chosen: Container[str] | None = None) -> Iterator[Sample]:
    """Yield the files to measure, the simulated one first; a line for each that is not at hand."""
    if chosen is None or "simulated" in chosen:
        yield simulate_sample(1000 if quick else 5000)
    wanted = [("ny_adults", 1000), ("ny_adults", 5000), ("synthetic", 1000), ("synthetic", 5000)]
    wanted += [("ny_full", 1000), ("ny_full", 10000)]
    for stem, n in wanted:
        for rules in (False, True) if stem == "ny_full" else (False,):
            name = name_sample(stem, n, rules)
            if (chosen is None and not (quick and n > 1000)) or (chosen is not None and name in chosen):
                yield from read_sample(stem, n, rules)


def name_sample(stem: str, n: int, rules: bool) -> str:
    """Return the name of a file in the results."""
    return f"{stem}_{n}" + ("_rules" if rules else "")


def read_sample(stem: str, n: int, rules: bool = False) -> Iterator[Sample]:
    """Yield one file of the shared folder, or say why not."""
    name = name_sample(stem, n, rules)
    path = DATA / f"{stem}_{n}.csv"
    if not path.exists():
        print(f"  {name}: left out, {path.name} is not in ../shared/data")
        return
    about = json.loads((DATA / "truth.json").read_text())[stem]
    try:
        microdata = read_microdata(path, list(about["levels"]), DATA / f"{stem}_codebook.json")
        zeros = None
        if rules:
            importlib.import_module("keyhole.kernels.augmentation")
            zeros = read_zeros(DATA / f"{stem}_zeros.csv", microdata.variables)
    except (ImportError, KeyholeError) as error:
        print(f"  {name}: left out, {error}")
        return
    counts = count_cells(microdata.codes)
    yield Sample(name, encode(microdata), counts.unique_record, about["population"], zeros)


def pose(sample: Sample, prior: str) -> Problem | None:
    """Return the problem as a run with these data makes it; where rules cannot be modelled, say so."""
    settings = Settings(prior=prior)
    try:
        return make_problem(sample.records, sample.unique_record, sample.population, settings, sample.zeros)
    except (KeyholeError, NotImplementedError) as error:
        print(f"  {sample.name}: left out, {error}")
        return None


def simulate_codes(people: int, levels: list[int], seed: int = 20) -> NDArray[np.int32]:
    """Return people drawn from `mixed` with 20 profiles."""
    rng = np.random.default_rng(seed)
    return draw_population(rng, levels, people, Settings(model="mixed", prior="paper", profiles=20))


def simulate_records(people: int, levels: list[int], seed: int = 20) -> Records:
    """Return the same as Records."""
    return encode_codes(simulate_codes(people, levels, seed), levels)


def encode_codes(codes: NDArray[np.int32], levels: list[int]) -> Records:
    """Number the levels, without the way over a file."""
    start = np.concatenate([[0], np.cumsum(levels)]).astype(np.int64)
    level = np.ascontiguousarray(codes + start[:-1].astype(np.int32), np.int32)
    return Records(level, np.full(len(codes), len(levels), np.int64), start)


def simulate_sample(n: int, population: int = 500_000) -> Sample:
    """Return a sample of a simulated population."""
    codes = simulate_codes(population, ADULT_LEVELS)[:n]
    records = encode_codes(codes, ADULT_LEVELS)
    return Sample(f"simulated_{n}", records, count_cells(codes).unique_record, population)
