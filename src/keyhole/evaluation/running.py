"""Validate estimators: draw samples from the population, run the estimators on each, and store the replicates."""

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Literal

import numpy as np

from keyhole._version import __version__
from keyhole.data import SourceOptions
from keyhole.errors import InputError, RulesError, SettingsError
from keyhole.evaluation.allocation import PROPORTIONAL, Allocation, plan_allocation
from keyhole.evaluation.comparison import ESTIMATORS, OURS, choose_estimators
from keyhole.evaluation.plot import draw_plot
from keyhole.evaluation.population import (
    Population,
    count_people,
    draw_sample,
    name_categories,
    open_population,
    take_rows,
)
from keyhole.evaluation.replicate import PLOT, RESULT, Task, open_folder, read_replicate, run_replicate, write_replicate
from keyhole.evaluation.scoring import score
from keyhole.files import json_text, sha256, write_text
from keyhole.settings import make_settings

ALLOWED = tuple(name for name in ESTIMATORS if name != "k-anonymity")
DEFAULT_ESTIMATORS = tuple(name for name in ALLOWED if name not in OURS or name == "hdp-adaptive")
TIME_LIMIT = 30.0
"""Seconds for each model of keyhole on each sample."""


class StoppedError(Exception):
    """Another replicate failed, or the user stopped the run; not a KeyholeError, which would count as an outcome."""


def validate(
    source: str | Path,
    keys: str | Sequence[str],
    sample_size: int,
    replicates: int,
    folder: str | Path,
    codebook: str | Path | None = None,
    zeros: str | Path | None = None,
    estimators: str | Sequence[str] | None = None,
    seed: int = 1,
    workers: int | None = None,
    on_finished: Callable[[int, int], None] | None = None,
    missing: Literal["category", "drop"] = "category",
    query: str | None = None,
    count: str | None = None,
    bands: Mapping[str, Any] | None = None,
    user_missing: Literal["keep", "blank"] = "keep",
    na: Sequence[str] | None = None,
    count_cells: bool = False,
    strata: str | Sequence[str] = (),
    allocation: str | Path = PROPORTIONAL,
    ignore_strata: bool = False,
    **settings: Any,
) -> dict[str, Any]:
    """Draw samples from a population, run the estimators on each, and score them.

    Samples depend on the seed only, not on the number of workers or replicates. Finished replicates are stored and not
    run again.

    Parameters
    ----------
    source
        File that is the whole population.
    keys, codebook, zeros
        As in `assess`.
    sample_size, replicates
        Number of people in each sample, and of samples.
    folder
        Where replicates and figures are stored.
    estimators
        Names, as a list or separated by commas.
    seed
        Of the samples.
    workers
        Replicates that run at once; it never changes a number.
    on_finished
        Called with the number of finished replicates and of all.
    missing
        Whether blanks are a category ("category"), or people with a blank key are dropped ("drop").
    query, count, bands, user_missing, na, count_cells
        As in `assess`.
    strata
        Columns of strata: people are drawn at random within them.
    allocation
        How many of each stratum: "proportional" to its people, "equal", or the path of a table with the columns of the
        strata and n.
    ignore_strata
        Have keyhole's models take the samples for simple random ones all the same.
    **settings
        As in `assess`, for keyhole's models.

    Returns
    -------
    dict
        The content of validation.json.

    Raises
    ------
    KeyholeError
        If the population or an option is invalid.
    """
    names = choose_estimators(DEFAULT_ESTIMATORS if estimators is None else estimators, ALLOWED)
    settings = {"time_limit": TIME_LIMIT, **settings}
    chosen = make_settings(seed=seed, workers=workers, **settings)
    if replicates < 1:
        raise InputError("`replicates`, the number of samples, must be at least 1.")
    if sample_size < 2:
        raise InputError("`sample_size`, the number of people in each sample, must be at least 2.")
    if missing not in ("category", "drop"):
        raise SettingsError("`missing` must be 'category' or 'drop' here: the truth for people with blanks is unknown")
    out, rules = Path(folder), None if zeros is None else Path(zeros)
    if rules is not None and not rules.is_file():
        raise RulesError(f"{rules} does not exist: check the name of the file with rules.")
    reading = SourceOptions(query, count, bands, user_missing, na, count_cells)
    columns = (strata,) if isinstance(strata, str) else tuple(strata)
    if not columns and (ignore_strata or allocation != PROPORTIONAL):
        raise SettingsError("`allocation` and `ignore_strata` need `strata`, the columns that define the strata")
    population = open_population(source, keys, codebook, reading, missing == "drop", columns)
    if sample_size > population.people:
        raise InputError(
            f"a sample of {sample_size:,} cannot be drawn from the {population.people:,} people of {population.where}: "
            "use a smaller `sample_size`."
        )
    plan_strata = plan_allocation(population, sample_size, allocation) if columns else None
    # What must be equal for replicates to belong together.
    plan = {
        "program": "keyhole validate",
        "version": __version__,
        "population": population.fingerprint,
        "people": population.people,
        "codebook": population.codebook,
        "zeros": None if rules is None else sha256(rules),
        "sample_size": sample_size,
        "seed": seed,
        "settings": chosen.model_dump(exclude={"workers", "seed"}),
        "strata": None if plan_strata is None else [list(columns), plan_strata.records.tolist(), ignore_strata],
    }
    open_folder(out, plan)
    known = {number: read_replicate(out, number) for number in range(1, replicates + 1)}
    waiting = [number for number, found in known.items() if found is None or set(names) - set(found["estimators"])]
    at_once = min(workers or os.cpu_count() or 1, max(len(waiting), 1))
    if at_once > 1:
        settings["workers"] = 1
    tasks = _make_tasks(population, waiting, sample_size, seed, rules, names, settings, plan_strata, ignore_strata)
    finished = replicates - len(waiting)
    for found in _run(tasks, known, at_once):
        write_replicate(out, found)
        known[found["replicate"]] = found
        finished += 1
        if on_finished is not None:
            on_finished(finished, replicates)
    everything = [found for found in known.values() if found is not None]
    result = score(everything, population.people, sample_size, names) | {"na": dict(population.na)}
    write_text(json_text(result), out / RESULT)
    write_text(draw_plot(result), out / PLOT)
    return result


def _make_tasks(
    population: Population,
    numbers: Sequence[int],
    size: int,
    seed: int,
    rules: Path | None,
    names: tuple[str, ...],
    settings: Mapping[str, Any],
    plan: Allocation | None,
    ignore: bool,
) -> list[Task]:
    """Draw all samples in one pass over the file, and count their cells in another."""
    if not numbers:
        return []
    seeds = {number: np.random.SeedSequence(seed, spawn_key=(number,)) for number in numbers}
    rows = {number: draw_sample(population, size, seeds[number], plan) for number in numbers}
    wanted = np.unique(np.concatenate(list(rows.values())))
    frame = take_rows(population, wanted)
    people = count_people(population, frame)
    keys = population.keys
    common = {"keys": keys, "population": population.people, "codebook": population.codebook}
    common |= {"zeros": rules, "allow_identifier": keys}
    tasks = []
    for number in numbers:
        place = np.searchsorted(wanted, rows[number])
        arguments = {"source": name_categories(population, frame[place]), **common}
        own = {**settings, "seed": int(seeds[number].generate_state(1, np.uint32)[0])}
        strata = {} if plan is None or ignore else {"strata": plan.table.columns[:-1], "strata_sizes": plan.table}
        weights = None if plan is None else (plan.people / plan.records)[plan.of_person[rows[number]]]
        tasks.append(Task(number, arguments, people[place], names, own, strata, weights))
    return tasks


def _run(tasks: Sequence[Task], known: Mapping[int, dict[str, Any] | None], at_once: int) -> Iterator[dict[str, Any]]:
    """Yield replicates as they finish; a failure or Ctrl-C stops the others."""
    stop = threading.Event()

    def check_stop(_: object) -> None:
        if stop.is_set():
            raise StoppedError

    with ThreadPoolExecutor(max_workers=at_once) as pool:
        left = {pool.submit(run_replicate, task, known[task.number], check_stop) for task in tasks}
        try:
            while left:
                done, left = wait(left, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        except BaseException:
            stop.set()
            for future in left:
                future.cancel()
            raise
