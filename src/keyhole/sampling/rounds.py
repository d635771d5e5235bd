"""Run until it is right: rounds of doubling length, and the gates after each.

Every round brings each chain to a given number of draws. The warm-up to discard is the shortest of a few shares of
the draws with which all gates are met. Nothing but the time limit depends on the clock.
"""

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyhole.kernels.state import Integers, Records
from keyhole.sampling.chain import Chain, advance, stack_kept, stack_risks, start_chain
from keyhole.sampling.convergence import check_model_gates, check_record_gates, check_risk_gates
from keyhole.sampling.problem import Problem, make_problem
from keyhole.sampling.start import STARTS
from keyhole.sampling.trace import Progress, Trace
from keyhole.sampling.warm_up import warm_up
from keyhole.settings import Settings
from keyhole.zeros import Zeros

FIRST_ROUND = 200
"""Draws of each chain in the first round."""

WARM_UPS = (0.125, 0.25, 0.5)
"""Shares of the draws that may be discarded, in the order in which they are tried."""

OnProgress = Callable[[Progress], None]


class Clock:
    """The time limit and the user's wish to stop, seen by all chains."""

    def __init__(self, limit: float) -> None:
        self.start = time.perf_counter()
        self.limit = limit
        self.stopped = threading.Event()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.start

    @property
    def over(self) -> bool:
        """Whether chains must stop."""
        return self.stopped.is_set() or self.seconds > self.limit


def run_chains(
    records: Records,
    unique_record: Integers,
    population: int,
    settings: Settings,
    zeros: Zeros | None = None,
    on_progress: OnProgress | None = None,
) -> Trace:
    """Sample until the gates are met, the time is over, or the limit of sweeps is reached."""
    problem = make_problem(records, unique_record, population, settings, zeros)
    clock = time.perf_counter()
    warm_up((settings.estimator,))
    compile_seconds = time.perf_counter() - clock
    seeds = np.random.SeedSequence(settings.seed).spawn(settings.chains)
    starts = [problem.profiles if problem.prior.finite else STARTS[c % len(STARTS)] for c in range(settings.chains)]
    chains = [start_chain(c, starts[c], seeds[c], problem) for c in range(settings.chains)]
    trace = run_rounds(chains, problem, settings, on_progress)
    return replace(trace, seconds={**trace.seconds, "compile": compile_seconds})


def count_workers(settings: Settings) -> int:
    """Return how many chains run at once."""
    return min(settings.workers or os.cpu_count() or 1, settings.chains)


def run_rounds(chains: list[Chain], problem: Problem, settings: Settings, on_progress: OnProgress | None) -> Trace:
    """Make rounds of doubling length until there is reason to stop."""
    most = None if settings.max_sweeps is None else max(settings.max_sweeps // problem.spacing, 8)
    wanted = FIRST_ROUND
    clock = Clock(settings.time_limit)
    with ThreadPoolExecutor(max_workers=count_workers(settings)) as pool:
        while True:
            wanted = wanted if most is None else min(wanted, most)
            run_round(pool, chains, problem, wanted, clock, on_progress)
            if clock.over:
                return collect(chains, problem, settings, "time")
            trace = collect(chains, problem, settings, "gates")
            if meets_gates(trace):
                return trace
            if wanted == most:
                return replace(trace, stopped="sweeps")
            wanted *= 2


def run_round(
    pool: ThreadPoolExecutor,
    chains: list[Chain],
    problem: Problem,
    wanted: int,
    clock: Clock,
    on_progress: OnProgress | None,
) -> None:
    """Bring every chain to this many draws, or as far as time allows; each gets at least eight."""
    lock = threading.Lock()

    def run(chain: Chain) -> None:
        while chain.draws < wanted and not (clock.over and chain.draws >= 8):
            if clock.stopped.is_set():
                return
            advance(chain, problem)
            if on_progress is not None:
                with lock:
                    on_progress(describe(chain, len(chains), wanted, problem, clock))

    futures = [pool.submit(run, chain) for chain in chains]
    try:
        wait(futures)
    except KeyboardInterrupt:
        clock.stopped.set()
        raise
    for future in futures:
        future.result()


def describe(chain: Chain, chains: int, wanted: int, problem: Problem, clock: Clock) -> Progress:
    """Return the event that follows a draw."""
    last = chain.quantities[-1]
    return Progress(
        chain=chain.number,
        chains=chains,
        draws=chain.draws,
        wanted=wanted,
        sweeps=chain.draws * problem.spacing,
        profiles=int(last["profiles"]),
        tau1=last["tau1_expected"],
        seconds=clock.seconds,
    )


def collect(chains: list[Chain], problem: Problem, settings: Settings, stopped: str) -> Trace:
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
    stacked = [stack_risks(chain, kept) for chain in chains]
    errors = np.array([chain.errors[:draws] for chain in chains])
    return Trace(
        starts=tuple(chain.start for chain in chains),
        sweeps=draws * problem.spacing,
        warm_up=warm_up * problem.spacing,
        spacing=problem.spacing,
        quantities=chosen,
        r1=np.stack([r1 for r1, _ in stacked]),
        r2=np.stack([r2 for _, r2 in stacked]),
        record_stride=chains[0].risks.stride,
        kept=pad_kept(chains, kept),
        estimator=problem.estimator,
        estimator_error=float(errors.mean()) if problem.estimator in ("importance", "monte-carlo") else None,
        stopped=stopped,
        seconds={
            "sampling": sum(chain.sampling_seconds for chain in chains) / count_workers(settings),
            "risk": sum(chain.risk_seconds for chain in chains) / count_workers(settings),
        },
        target_ess=settings.target_ess,
    )


def meets_gates(trace: Trace) -> bool:
    """Say whether all gates are met, the costly ones of single records last."""
    gates = check_risk_gates(trace.quantities, trace.target_ess) + check_model_gates(trace.quantities)
    if len(trace.starts) < 2 or not all(gate.passed for gate in gates):
        return False
    return all(gate.passed for gate in check_record_gates(trace.r1, trace.r2))


def pad_kept(chains: list[Chain], draws: range) -> dict[str, NDArray[Any]]:
    """Return weights and profiles of the kept draws, padded with zeros to the largest number of profiles."""
    stacked = [stack_kept(chain, draws) for chain in chains]
    size = min(len(items) for items in stacked)
    stacked = [items[:size] for items in stacked]
    most = max(int(kept.profile_total[0]) for items in stacked for kept, _, _ in items)
    levels = stacked[0][0][0].level_profile.shape[0]
    weight = np.zeros((len(chains), size, most))
    level_profile = np.zeros((len(chains), size, levels, most), np.float32)
    for c, items in enumerate(stacked):
        for x, (kept, _, _) in enumerate(items):
            profiles = int(kept.profile_total[0])
            weight[c, x, :profiles] = kept.weight[:profiles]
            level_profile[c, x, :, :profiles] = kept.level_profile[:, :profiles]
    return {
        "weight": weight,
        "level_profile": level_profile,
        "record_concentration": np.array([[item[1] for item in items] for items in stacked]),
        "shared_concentration": np.array([[item[2] for item in items] for items in stacked]),
    }
