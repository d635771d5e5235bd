"""A run: rounds of blocks until the gates are met, the time is over, or the limit of sweeps is reached.

Every round brings each chain to a given number of draws, block by block, wherever the blocks run, and ends in a look at
the gates; from one look to the next the draws grow by a tenth. The first quarter of the draws is discarded. Only the
time limit depends on the clock: a look uses the same draws of each chain, however many a chain has made beyond them.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from keyhole.data.strata import Strata
from keyhole.diagnostics.gates import Gate, check_ends, check_records, check_series, draws_needed, may_stop
from keyhole.errors import KeyholeError, Stopped
from keyhole.kernels.state import Floats, Integers, Records
from keyhole.sampling.chain import Block, find_position, start_chain
from keyhole.sampling.classes import is_large
from keyhole.sampling.costs import FIRST_LOOK
from keyhole.sampling.evaluation import count_profiles
from keyhole.sampling.precompile import precompile
from keyhole.sampling.preflight import check_memory, describe_estimate, time_draw
from keyhole.sampling.problem import Problem, make_problem
from keyhole.sampling.saved_run import Checkpointer, Memory, Place, Resumed, fingerprint, make_checkpointer
from keyhole.sampling.start import LARGE_STARTS, STARTS, count_start_sweeps
from keyhole.sampling.trace import (
    KEPT_DRAWS,
    ChainHistory,
    Event,
    Forecast,
    Notice,
    OnProgress,
    Progress,
    Trace,
    add_block,
    choose_draws,
    find_stride,
    risk_limit,
    show_nothing,
    stack_risks,
    start_history,
)
from keyhole.sampling.workers import Clock, Workers, count_workers, open_workers, shielded
from keyhole.seeds import chain_seeds
from keyhole.settings import Settings
from keyhole.zeros import Zeros

FEWEST = 8
"""Draws that every chain makes even beyond the time limit: fewer show nothing."""

BLOCK_SECONDS = 0.3
"""Length of a block: a run stops, is saved and reports its progress only between blocks."""


Enough = Callable[[Sequence[Gate]], bool]
"""Whether a run may stop, given its gates: when all are met, or when the result is usable."""


@dataclass
class Run:
    """A run in progress. round: looks at which gates were not met; before: seconds of earlier sessions.

    needed: draws of each chain that a verdict is likely to need; pending: blocks that are being run.
    """

    problem: Problem
    settings: Settings
    chains: list[ChainHistory]
    clock: Clock
    report: OnProgress
    checkpointer: Checkpointer | None = None
    round: int = 0
    before: float = 0.0
    gates: list[Gate] = field(default_factory=list)
    needed: float = 0.0
    pending: dict[Future[Block | None], ChainHistory] = field(default_factory=dict)
    first_sweeps: list[int] = field(default_factory=list)
    enough: Enough = may_stop


def run_round(run: Run, workers: Workers, wanted: int, beyond: int) -> None:
    """Bring every chain to this many draws, or as far as time allows, but to at least FEWEST.

    A free worker takes the chain that is furthest behind. Chains that have enough draws continue towards `beyond`, the
    draws of the next look, so that no worker waits for the slowest chain or for the look.
    """
    pending = run.pending

    def submit(chain: ChainHistory, deliver: bool = False) -> None:
        seconds = min(BLOCK_SECONDS, max(run.clock.left, 0.01))
        goal = wanted if chain.draws < wanted else beyond
        pending[workers.submit((chain.position, goal, chain.strides, seconds), deliver)] = chain

    def keep_workers_busy() -> None:
        busy = {chain.number for chain in pending.values()}
        enough = min(FEWEST, wanted) if run.clock.over else beyond
        idle = [chain for chain in run.chains if chain.number not in busy and chain.draws < enough]
        idle.sort(key=lambda chain: chain.sweeps(run.problem))
        for chain in idle[: workers.size - len(pending)]:
            submit(chain)

    def lacking() -> bool:
        return any(chain.draws < wanted for chain in run.chains)

    keep_workers_busy()
    while pending and lacking():
        done, _ = wait(pending, return_when=FIRST_COMPLETED)
        events: list[Event] = []
        with shielded():
            for future in done:
                chain, block = pending.pop(future), future.result()
                if block is None:
                    submit(chain, deliver=True)
                    continue
                add_block(chain, block)
                events.append(describe(run, chain, wanted))
            keep_workers_busy()
            if run.checkpointer is not None and run.checkpointer.is_due:
                save(run)
        for event in events:
            run.report(event)


def save(run: Run) -> bool:
    """Write a checkpoint of everything up to the last block of each chain; return whether there is one."""
    return run.checkpointer is not None and run.checkpointer.save(run.chains, run.round, run.before + run.clock.seconds)


def describe(run: Run, chain: ChainHistory, wanted: int) -> Progress:
    """Return the progress event of a block."""
    seconds = run.clock.seconds
    half = chain.quantities[chain.draws // 2 :: 1 + chain.draws // 500]
    sweeps = chain.sweeps(run.problem)
    made = [item.sweeps(run.problem) - first for item, first in zip(run.chains, run.first_sweeps, strict=True)]
    needed = max(run.needed, wanted) * run.problem.thin
    to_go = sum(max(needed - item.sweeps(run.problem), 0) for item in run.chains)
    return Progress(
        chain=chain.number,
        chains=len(run.chains),
        draws=chain.draws,
        wanted=wanted,
        sweeps=sweeps,
        profiles=count_profiles(chain.position.state),
        tau1=float(np.mean([draw["tau1_expected"] for draw in half])) if half else float("nan"),
        seconds=seconds,
        speed=(sweeps - run.first_sweeps[chain.number]) / seconds,
        round=run.round + 1,
        gates_met=sum(gate.passed for gate in run.gates),
        gates=len(run.gates),
        verdict_left=seconds * to_go / max(sum(made), 1),
        left=run.clock.left,
        missing=tuple(gate.name for gate in run.gates if not gate.passed),
    )


MORE = 10
"""From one look to the next, draws grow by one in MORE."""

DISCARDED = 4
"""The first one in DISCARDED draws is discarded."""


def run_chains(
    records: Records,
    unique_record: Integers,
    population: int,
    settings: Settings,
    zeros: Zeros | None = None,
    on_progress: OnProgress | None = None,
    *,
    executor: Executor | None = None,
    checkpoint: Place | Path | Memory | None = None,
    resume: bool = False,
    enough: Enough = may_stop,
    strata: Strata | None = None,
) -> Trace:
    """Sample until the gates are met, the time is over, or the limit of sweeps is reached."""
    report = on_progress or show_nothing
    problem = make_problem(records, unique_record, population, settings, zeros, strata)
    check_memory(problem, settings)
    checkpointer = make_checkpointer(checkpoint, problem, settings, report)
    resumed = checkpointer.resume() if checkpointer is not None and resume else None
    clock = time.perf_counter()
    precompile((settings.estimator,), strata is not None)
    compile_seconds = time.perf_counter() - clock
    start = resumed or Resumed(start_histories(problem, settings), 0, 0.0)
    seconds = time_draw(problem, settings, start.chains[-1].position)
    profiles = float(np.mean([count_profiles(chain.position.state) for chain in start.chains]))
    estimate = describe_estimate(problem, settings, seconds, count_wanted(start.round), FEWEST, profiles)
    if resume:
        report(Notice(_introduce(resumed)))
    report(Forecast(estimate))
    run = Run(problem, settings, start.chains, Clock(settings.time_limit), report, checkpointer)
    run.round, run.before, run.enough = start.round, start.seconds, enough
    run.first_sweeps = [chain.sweeps(problem) for chain in run.chains]
    token = checkpointer.problem_hash if checkpointer is not None else fingerprint(problem)
    try:
        with open_workers(problem, token, settings, executor, run.clock.stopped) as workers:
            trace = run_rounds(run, workers)
    except BrokenExecutor:
        raise KeyholeError(
            "a worker ended unexpectedly, perhaps because memory ran out: use fewer `workers`."
        ) from None
    more = {
        "compile": compile_seconds,
        "checkpoint": 0.0 if checkpointer is None else checkpointer.seconds,
        "earlier": run.before,
    }
    return replace(trace, seconds={**trace.seconds, **more})


def count_wanted(rounds: int) -> int:
    """Return the draws of each chain at the next look: 40, 44, 48, 52, 57, ..."""
    wanted = FIRST_LOOK
    for _ in range(rounds):
        wanted += wanted // MORE
    return wanted


def start_histories(problem: Problem, settings: Settings) -> list[ChainHistory]:
    """Return all chains at their starts."""
    seeds = chain_seeds(settings.seed, settings.chains)
    starts = LARGE_STARTS if problem.model == "classes" and is_large(problem.distinct) else STARTS

    def start(number: int) -> ChainHistory:
        profiles = problem.profiles if problem.prior.finite else starts[number % len(starts)]
        position = find_position(start_chain(number, profiles, seeds[number], problem))
        return start_history(number, profiles, position, len(problem.cell_level))

    with ThreadPoolExecutor(count_workers(settings)) as pool:
        return list(pool.map(start, range(settings.chains)))


def run_rounds(run: Run, workers: Workers) -> Trace:
    """Run rounds until there is a reason to stop; whatever ends them, a checkpoint is written."""
    try:
        trace = run_until_stopped(run, workers)
    except BaseException as error:
        run.clock.stopped.set()
        with shielded():
            kept = run.checkpointer is not None and (save(run) or not run.checkpointer.fresh)
        if isinstance(error, KeyboardInterrupt):
            raise Stopped(kept) from None
        raise
    finally:
        for future in run.pending:
            future.cancel()
    run.clock.stopped.set()
    if run.checkpointer is not None and (trace.stopped != "gates" or run.checkpointer.keeps_finished):
        with shielded():
            save(run)
    return trace


def run_until_stopped(run: Run, workers: Workers) -> Trace:
    """Run rounds until the gates are met or a limit is reached."""
    settings, problem = run.settings, run.problem
    most = None if settings.max_sweeps is None else max(settings.max_sweeps // problem.thin, FEWEST)
    while True:
        wanted, beyond = (count_wanted(rounds) for rounds in (run.round, run.round + 1))
        if most is not None:
            wanted, beyond = min(wanted, most), min(beyond, most)
        run_round(run, workers, wanted, beyond)
        if any(chain.draws < wanted for chain in run.chains):
            draws = min(chain.draws for chain in run.chains)
            longest = max(chain.draws for chain in run.chains)
            return collect(run.chains, problem, settings, "time", workers.size, draws, longest)
        if settings.chains > 1 and look(run, wanted):
            trace = collect(run.chains, problem, settings, "gates", workers.size, wanted, beyond)
            # Cheap gates are checked first.
            if run.enough(run.gates):
                run.gates += check_ends(trace.laws)
            if run.enough(run.gates):
                run.gates += check_records(trace.r1, trace.r2)
            if run.enough(run.gates):
                return trace
        run.needed = wanted * draws_needed(run.gates)
        stopped = "sweeps" if wanted == most else "time" if run.clock.over else None
        if stopped is not None:
            return collect(run.chains, problem, settings, stopped, workers.size, wanted, beyond)
        run.round += 1


def look(run: Run, draws: int) -> bool:
    """Check the gates that are cheap; return whether they are met."""
    kept, discarded = split_quantities(run.chains, draws)
    run.gates = check_series(kept, discarded, run.settings.target_ess)
    return run.enough(run.gates)


def split_quantities(chains: list[ChainHistory], draws: int) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Return the quantities of the draws that count, and of the discarded ones, by name (chain, draw)."""
    burn_in = draws // DISCARDED
    whole = {
        name: np.array([[draw[name] for draw in chain.quantities[:draws]] for chain in chains])
        for name in chains[0].quantities[0]
    }
    return {name: values[:, burn_in:] for name, values in whole.items()}, {
        name: values[:, :burn_in] for name, values in whole.items()
    }


def collect(
    chains: list[ChainHistory], problem: Problem, settings: Settings, stopped: str, workers: int, draws: int, most: int
) -> Trace:
    """Return the trace of the first `draws` draws of each chain; most: draws that any chain may have made by then.

    A chain that is ahead may be thinned further, so only draws that are stored after `most` draws are used.
    """
    quantities, discarded = split_quantities(chains, draws)
    kept = range(draws // DISCARDED, draws)
    stride = find_stride(most, risk_limit(len(problem.cell_level)))
    r1, r2 = stack_risks(chains, kept, stride)
    errors = np.array([chain.errors[:draws] for chain in chains])
    return Trace(
        starts=tuple(chain.start for chain in chains),
        sweeps=draws * problem.thin,
        burn_in=kept.start * problem.thin,
        thin=problem.thin,
        quantities=quantities,
        discarded=discarded,
        r1=r1,
        r2=r2,
        record_stride=stride,
        draws=choose_draws(chains, kept, find_stride(most, KEPT_DRAWS)),
        estimator=problem.estimator,
        estimator_error=float(errors.mean()) if problem.estimator in ("importance", "monte-carlo") else None,
        stopped=stopped,
        seconds={
            "sampling": sum(chain.sampling_seconds for chain in chains) / workers,
            "risk": sum(chain.risk_seconds for chain in chains) / workers,
        },
        target_ess=settings.target_ess,
        n_unseen=problem.n_unseen if problem.exposure is None else None,
        start_sweeps=0 if problem.model == "classes" else count_start_sweeps(problem.distinct, problem.prior),
    )


def _introduce(resumed: Resumed | None) -> str:
    """Return a sentence on where a resumed run continues."""
    if resumed is None:
        return "Nothing to resume: starting from the beginning."
    draws = min(chain.draws for chain in resumed.chains)
    return f"Going on from a checkpoint: {draws:,} draws of each chain in {resumed.seconds:.0f} s."
