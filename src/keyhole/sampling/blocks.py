"""A round, block by block: hand out blocks, take them in, save, and say how far the run is."""

from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field

import numpy as np

from keyhole.sampling.chain import Block
from keyhole.sampling.gates import Gate
from keyhole.sampling.history import History, add_block
from keyhole.sampling.keeper import Keeper
from keyhole.sampling.problem import Problem
from keyhole.sampling.stopping import Clock, shielded
from keyhole.sampling.trace import Event, OnProgress, Progress
from keyhole.sampling.workers import Workers
from keyhole.settings import Settings

FEWEST = 8
"""Draws that every chain makes, time limit or not: fewer say nothing."""

BLOCK_SECONDS = 0.3
"""Length of a block: between blocks a run is told to stop, is saved and shows how far it is."""


@dataclass
class Run:
    """A run under way. round: looks at which gates were not met; before: seconds of earlier sessions.

    needed: draws of each chain that a verdict is likely to need; pending: blocks that are being made.
    """

    problem: Problem
    settings: Settings
    chains: list[History]
    clock: Clock
    tell: OnProgress
    keeper: Keeper | None = None
    round: int = 0
    before: float = 0.0
    gates: list[Gate] = field(default_factory=list)
    needed: float = 0.0
    pending: dict[Future[Block | None], History] = field(default_factory=dict)
    first_sweeps: list[int] = field(default_factory=list)


def run_round(run: Run, workers: Workers, wanted: int, beyond: int) -> None:
    """Bring every chain to this many draws, or as far as time allows; each gets at least eight.

    A free worker takes the chain that is furthest behind. When no chain lacks a draw any more, chains go on towards
    `beyond`, the draws of the next look: nobody waits for the slowest, and the gates are looked at meanwhile.
    """
    pending = run.pending

    def submit(chain: History, deliver: bool = False) -> None:
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
            if run.keeper is not None and run.keeper.is_due:
                save(run)
        for event in events:
            run.tell(event)


def save(run: Run) -> bool:
    """Write a checkpoint of everything up to the last block of each chain."""
    return run.keeper is not None and run.keeper.save(run.chains, run.round, run.before + run.clock.seconds)


def describe(run: Run, chain: History, wanted: int) -> Progress:
    """Return the event that follows a block."""
    seconds = run.clock.seconds
    half = chain.quantities[chain.draws // 2 :: 1 + chain.draws // 500]
    state = chain.position.state
    sweeps = chain.sweeps(run.problem)
    made = [item.sweeps(run.problem) - first for item, first in zip(run.chains, run.first_sweeps, strict=True)]
    needed = run.problem.start_sweeps + max(run.needed, wanted) * run.problem.spacing
    to_go = sum(max(needed - item.sweeps(run.problem), 0) for item in run.chains)
    return Progress(
        chain=chain.number,
        chains=len(run.chains),
        draws=chain.draws,
        wanted=wanted,
        sweeps=sweeps,
        profiles=int(np.count_nonzero(state.profile_tables[: state.profile_total[0]])),
        tau1=float(np.mean([draw["tau1_expected"] for draw in half])) if half else float("nan"),
        seconds=seconds,
        speed=(sweeps - run.first_sweeps[chain.number]) / seconds,
        round=run.round + 1,
        gates_met=sum(gate.passed for gate in run.gates),
        gates=len(run.gates),
        verdict_left=seconds * to_go / max(sum(made), 1),
        left=run.clock.left,
    )
