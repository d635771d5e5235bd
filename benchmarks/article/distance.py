"""The printed algorithm beside the exact sampler, on small samples of populations drawn from the model.

Both have the prior `paper`. The repaired algorithm (right full conditionals, right order) shows that what separates the
printed one from the exact answer is the print, not this implementation.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import keyhole
from benchmarks.article.risk import cell_probabilities, estimate, find_uniques
from benchmarks.article.state import State, start_state
from benchmarks.article.steps import run_sweep
from benchmarks.article.zeros import Condition, expand_boxes, run_sweep_with_zeros
from keyhole.data import count_cells, encode, read_microdata
from keyhole.demo import Simulation, simulate
from keyhole.kernels.sweep import run_sweeps
from keyhole.sampling.chain import start_chain
from keyhole.sampling.problem import make_problem
from keyhole.settings import make_settings
from keyhole.zeros import read_zeros

LEVELS = [6, 4, 5, 4, 3]
PEOPLE, RECORDS = 5_000, 200
RULES = """\
impossible:
  - {K1: [1], K2: [2, 3]}
  - {K3: [5], K4: [1]}
"""
MONTE_CARLO = 500
STARTS = (2, 10)

Sweep = Callable[[np.random.Generator, State], None]


@dataclass(frozen=True)
class Answer:
    """Posterior means of E(tau | parameters) with their Monte Carlo errors, and processor milliseconds of a sweep."""

    name: str
    tau1: float
    tau1_error: float
    tau2: float
    tau2_error: float
    profiles: float
    milliseconds: float


def run_article(
    name: str, sample: Any, levels: Sequence[int], population: int, sweep: Sweep, sweeps: int, seed: int = 1
) -> Answer:
    """Run chains of a sampler from few and from many profiles; half is warm-up, every second sweep is a draw."""
    x = np.asarray(sample, np.int64)
    cells = find_uniques(x)
    draws, busy = [], 0.0
    for place, start in enumerate(STARTS):
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(place,)))
        state = start_state(rng, x, tuple(levels), start)
        for number in range(sweeps):
            clock = time.process_time()
            sweep(rng, state)
            busy += time.process_time() - clock
            if number >= sweeps // 2 and number % 2 == 0:
                chance = cell_probabilities(rng, state, cells, MONTE_CARLO)
                draws.append((place, *estimate(state, chance, population - len(x)), state.profiles))
    table = np.array(draws)
    tau1, tau1_error = mean_and_error(table[:, 1], table[:, 0])
    tau2, tau2_error = mean_and_error(table[:, 2], table[:, 0])
    busy *= 1e3 / (sweeps * len(STARTS))
    return Answer(name, tau1, tau1_error, tau2, tau2_error, float(table[:, 3].mean()), busy)


def mean_and_error(value: Any, chain: Any, batches: int = 10) -> tuple[float, float]:
    """Mean and its Monte Carlo standard error by batch means within chains."""
    means = [batch.mean() for c in np.unique(chain) for batch in np.array_split(value[chain == c], batches)]
    return float(value.mean()), float(np.std(means, ddof=1) / np.sqrt(len(means)))


def run_exact(name: str, drawn: Simulation, population: int, rules: Path | None, sweeps: int) -> Answer:
    """The product, with the same prior."""
    keys = list(drawn.codebook)
    found = keyhole.assess(
        drawn.sample, keys, population=population, codebook=drawn.codebook, zeros=rules, allow_identifier=keys,
        prior="paper", max_sweeps=sweeps, target_ess=1_000_000, time_limit="1h", workers=1,
    )  # fmt: skip
    chain = np.repeat(np.arange(len(found.draws["tau1"])), found.draws["tau1"].shape[1])
    tau1, tau1_error = mean_and_error(found.draws["tau1_expected"].ravel(), chain)
    tau2, tau2_error = mean_and_error(found.draws["tau2_expected"].ravel(), chain)
    profiles = float(found.draws["profiles"].mean())
    return Answer(name, tau1, tau1_error, tau2, tau2_error, profiles, time_sweep(drawn, population, rules))


def time_sweep(drawn: Simulation, population: int, rules: Path | None, sweeps: int = 300) -> float:
    """Processor milliseconds of one sweep of the product's sampler, after as many to settle."""
    keys = list(drawn.codebook)
    microdata = read_microdata(drawn.sample, keys, drawn.codebook, keys)
    zeros = None if rules is None else read_zeros(rules, microdata.variables)
    unique = count_cells(microdata.codes).unique_record
    problem = make_problem(encode(microdata), unique, population, make_settings(prior="paper"), zeros)
    chain = start_chain(0, 10, np.random.SeedSequence(1), problem)
    busy = 0.0
    for _ in range(2):
        clock = time.process_time()
        run_sweeps(chain.rng, problem.records, problem.prior, chain.state, chain.work, sweeps)
        busy = time.process_time() - clock
    return 1e3 * busy / sweeps


def compare_plain(sweeps: int, seed: int = 3) -> list[Answer]:
    """Without rules: exact, as printed, repaired."""
    drawn = simulate(LEVELS, PEOPLE, RECORDS, prior="paper", seed=seed)
    sample = drawn.sample.to_numpy() - 1
    answers = [run_exact("exact", drawn, PEOPLE, None, 2 * sweeps)]
    answers.append(run_article("as printed", sample, LEVELS, PEOPLE, run_sweep, sweeps))
    fewer = max(sweeps // 4, 40)
    answers.append(
        run_article("repaired", sample, LEVELS, PEOPLE, lambda rng, state: run_sweep(rng, state, True), fewer)
    )
    return answers


def compare_zeros(sweeps: int, folder: Path, seed: int = 4) -> list[Answer]:
    """With rules: exact, as printed with people drawn one by one, and with the fast approximation of step 9."""
    path = folder / "article_rules.yaml"
    path.write_text(RULES, encoding="utf-8")
    drawn = simulate(LEVELS, PEOPLE, RECORDS, path, prior="paper", seed=seed)
    sample = drawn.sample.to_numpy() - 1
    answers = [run_exact("exact", drawn, PEOPLE, path, 2 * sweeps)]
    conditions = list(find_conditions(path, drawn))
    for name, fast in (("as printed", False), ("fast step 9", True)):

        def sweep(rng: np.random.Generator, state: State, fast: bool = fast) -> None:
            run_sweep_with_zeros(rng, state, conditions, fast)

        fewer = sweeps if fast else max(sweeps // 4, 40)
        answers.append(run_article(name, sample, LEVELS, PEOPLE, sweep, fewer))
    return answers


def find_conditions(rules: Path, drawn: Simulation) -> list[Condition]:
    """The rules as disjoint conditions with one category for each variable."""
    keys = list(drawn.codebook)
    variables = read_microdata(drawn.sample, keys, drawn.codebook, keys).variables
    return list(expand_boxes(read_zeros(rules, variables).impossible, [len(book.categories) for book in variables]))


def print_answers(title: str, answers: list[Answer]) -> None:
    """Print the answers; z: distance of the mean from the exact one over both Monte Carlo errors."""
    print(title)
    exact = answers[0]
    for answer in answers:
        far = ""
        if answer is not exact:
            z1 = (answer.tau1 - exact.tau1) / np.hypot(answer.tau1_error, exact.tau1_error)
            z2 = (answer.tau2 - exact.tau2) / np.hypot(answer.tau2_error, exact.tau2_error)
            longer = answer.milliseconds / exact.milliseconds
            far = f"   z = {z1:+.1f}, {z2:+.1f}; a sweep takes {longer:.1f} times as long"
        print(
            f"  {answer.name:12s} tau1 {answer.tau1:7.2f} ± {answer.tau1_error:.2f}   tau2 {answer.tau2:7.2f} ± "
            f"{answer.tau2_error:.2f}   {answer.profiles:5.1f} profiles   {answer.milliseconds:7.2f} ms a sweep{far}",
            flush=True,
        )
