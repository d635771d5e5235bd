"""Run until it is right: rounds of doubling length, and the gates at the end and half way through each.

Every round brings each chain to a given number of draws, block by block, wherever the blocks run. The warm-up to
discard is the shortest of a few shares of the draws with which all gates are met. Nothing but the time limit depends
on the clock.
"""

import time
from concurrent.futures import BrokenExecutor, Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.errors import KeyholeError, Stopped
from keyhole.kernels.state import Integers, Records
from keyhole.sampling.blocks import FEWEST, Run, run_round, save
from keyhole.sampling.chain import find_position, start_chain
from keyhole.sampling.convergence import check_model_gates, check_record_gates, check_risk_gates
from keyhole.sampling.diagnostics import Gate
from keyhole.sampling.estimate import check_memory, describe_estimate, time_draw
from keyhole.sampling.history import History, stack_risks, start_history
from keyhole.sampling.keeper import Keeper
from keyhole.sampling.problem import Problem, make_problem
from keyhole.sampling.saved_run import Resumed, fingerprint
from keyhole.sampling.start import STARTS
from keyhole.sampling.stopping import Clock, shielded
from keyhole.sampling.trace import Event, Notice, OnProgress, Trace
from keyhole.sampling.warm_up import warm_up
from keyhole.sampling.workers import Workers, open_workers
from keyhole.settings import Settings
from keyhole.zeros import Zeros

FIRST_ROUND = 200
"""Draws of each chain in the first round."""

WARM_UPS = (0.125, 0.25, 0.5)
"""Shares of the draws that may be discarded, in the order in which they are tried."""


def run_chains(
    records: Records,
    unique_record: Integers,
    population: int,
    settings: Settings,
    zeros: Zeros | None = None,
    on_progress: OnProgress | None = None,
    *,
    executor: Executor | None = None,
    checkpoint: Path | None = None,
    resume: bool = False,
) -> Trace:
    """Sample until the gates are met, the time is over, or the limit of sweeps is reached."""
    tell = on_progress or _say_nothing
    problem = make_problem(records, unique_record, population, settings, zeros)
    check_memory(problem, settings)
    keeper = None if checkpoint is None else Keeper(checkpoint, problem, settings, tell)
    resumed = keeper.resume() if keeper is not None and resume else None
    clock = time.perf_counter()
    warm_up((settings.estimator,))
    compile_seconds = time.perf_counter() - clock
    start = resumed or Resumed(start_histories(problem, settings), 0, 0.0)
    seconds = time_draw(problem, settings, start.chains[-1].position)
    before = max(-start.chains[-1].position.since, 0) / problem.spacing
    estimate = describe_estimate(problem, settings, seconds, before + count_wanted(start.round), before + FEWEST)
    tell(Notice(f"{_introduce(resumed, resume)}{estimate}"))
    run = Run(problem, settings, start.chains, Clock(settings.time_limit), tell, keeper)
    run.round, run.before = start.round, start.seconds
    run.first_sweeps = [chain.sweeps(problem) for chain in run.chains]
    token = keeper.problem_hash if keeper is not None else fingerprint(problem)
    try:
        with open_workers(problem, token, settings, executor, run.clock.stopped) as workers:
            trace = run_rounds(run, workers)
    except BrokenExecutor:
        raise KeyholeError("a worker ended unexpectedly, perhaps for want of memory: use fewer workers.") from None
    more = {"compile": compile_seconds, "checkpoint": 0.0 if keeper is None else keeper.seconds, "earlier": run.before}
    return replace(trace, seconds={**trace.seconds, **more})


def count_wanted(rounds: int) -> int:
    """Return the draws of each chain at the next look: 200, 300, 400, 600, 800, 1,200, ..."""
    doubled = FIRST_ROUND << rounds // 2
    return doubled + doubled // 2 * (rounds % 2)


def start_histories(problem: Problem, settings: Settings) -> list[History]:
    """Put all chains at their starts."""
    seeds = np.random.SeedSequence(settings.seed).spawn(settings.chains)
    chains = []
    for c in range(settings.chains):
        start = problem.profiles if problem.prior.finite else STARTS[c % len(STARTS)]
        position = find_position(start_chain(c, start, seeds[c], problem))
        chains.append(start_history(c, start, position, len(problem.cell_level)))
    return chains


def run_rounds(run: Run, workers: Workers) -> Trace:
    """Make rounds of doubling length until there is reason to stop; whatever ends them, the work is kept."""
    try:
        trace = run_until_stopped(run, workers)
    except BaseException as error:
        run.clock.stopped.set()
        with shielded():
            kept = run.keeper is not None and (save(run) or not run.keeper.fresh)
        if isinstance(error, KeyboardInterrupt):
            raise Stopped(kept) from None
        raise
    if trace.stopped != "gates" and run.keeper is not None:
        with shielded():
            save(run)
    return trace


def run_until_stopped(run: Run, workers: Workers) -> Trace:
    """Make rounds of doubling length until there is reason to stop."""
    settings, problem = run.settings, run.problem
    most = None if settings.max_sweeps is None else max(settings.max_sweeps // problem.spacing, FEWEST)
    while True:
        wanted = count_wanted(run.round)
        wanted = wanted if most is None else min(wanted, most)
        run_round(run, workers, wanted)
        complete = all(chain.draws >= wanted for chain in run.chains)
        trace = collect(run.chains, problem, settings, "gates" if complete else "time", workers.size)
        if not complete:
            return trace
        run.gates = check_gates(trace)
        if settings.chains > 1 and all(gate.passed for gate in run.gates):
            return trace
        if wanted == most:
            return replace(trace, stopped="sweeps")
        run.round += 1
        if run.clock.over:
            return replace(trace, stopped="time")


def collect(chains: list[History], problem: Problem, settings: Settings, stopped: str, workers: int) -> Trace:
    """Return the draws after the shortest warm-up that meets the gates of tau1 and tau2, else after the longest."""
    draws = min(chain.draws for chain in chains)
    quantities = {
        name: np.array([[draw[name] for draw in chain.quantities[:draws]] for chain in chains])
        for name in chains[0].quantities[0]
    }
    for share in WARM_UPS:
        warm_up = int(share * draws)
        chosen = {name: values[:, warm_up:] for name, values in quantities.items()}
        gates = check_risk_gates(chosen, settings.target_ess) + check_model_gates(chosen)
        if all(gate.passed for gate in gates):
            break
    kept = range(warm_up, draws)
    # Chains that the clock stopped unevenly may be thinned unevenly: only draws that all of them hold are used.
    stride = max(chain.risks.stride for chain in chains)
    r1, r2 = stack_risks(chains, kept, stride)
    errors = np.array([chain.errors[:draws] for chain in chains])
    return Trace(
        starts=tuple(chain.start for chain in chains),
        sweeps=draws * problem.spacing,
        warm_up=warm_up * problem.spacing,
        spacing=problem.spacing,
        quantities=chosen,
        r1=r1,
        r2=r2,
        record_stride=stride,
        kept=pad_kept(chains, kept),
        estimator=problem.estimator,
        estimator_error=float(errors.mean()) if problem.estimator in ("importance", "monte-carlo") else None,
        stopped=stopped,
        seconds={
            "sampling": sum(chain.sampling_seconds for chain in chains) / workers,
            "risk": sum(chain.risk_seconds for chain in chains) / workers,
        },
        target_ess=settings.target_ess,
        start_sweeps=problem.start_sweeps,
    )


def check_gates(trace: Trace) -> list[Gate]:
    """Return the gates; the costly ones of single records only when all others are met."""
    gates = check_risk_gates(trace.quantities, trace.target_ess) + check_model_gates(trace.quantities)
    if len(trace.starts) < 2 or not all(gate.passed for gate in gates):
        return gates
    return gates + check_record_gates(trace.r1, trace.r2)


def pad_kept(chains: list[History], draws: range) -> dict[str, NDArray[Any]]:
    """Return weights and profiles of the kept draws, padded with zeros to the largest number of profiles."""
    stride = max(chain.kept.stride for chain in chains)
    stacked = [chain.kept.choose(draws, stride) for chain in chains]
    size = min(len(items) for items in stacked)
    stacked = [items[:size] for items in stacked]
    most = max(len(item.weight) for items in stacked for item in items)
    levels = stacked[0][0].level_profile.shape[0]
    weight = np.zeros((len(chains), size, most))
    level_profile = np.zeros((len(chains), size, levels, most), np.float32)
    for c, items in enumerate(stacked):
        for x, item in enumerate(items):
            weight[c, x, : len(item.weight)] = item.weight
            level_profile[c, x, :, : len(item.weight)] = item.level_profile
    return {
        "weight": weight,
        "level_profile": level_profile,
        "record_concentration": np.array([[item.record_concentration for item in items] for items in stacked]),
        "shared_concentration": np.array([[item.shared_concentration for item in items] for items in stacked]),
    }


def _introduce(resumed: Resumed | None, wanted: bool) -> str:
    """Say where the run begins, if that is not the beginning."""
    if resumed is not None:
        draws = min(chain.draws for chain in resumed.chains)
        return f"Going on from a checkpoint: {draws:,} draws of each chain in {resumed.seconds:.0f} s. "
    return "Nothing to resume: starting from the beginning. " if wanted else ""


def _say_nothing(event: Event) -> None:
    """Nobody listens."""
