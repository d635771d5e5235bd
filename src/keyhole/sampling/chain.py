"""A chain, and the unit of work: a block of sweeps.

A block is a function of the problem and of a chain's state; it returns the new state and the draws made on the way. The
number of sweeps in a block never changes the path: sweeps and risks have a generator each, and scratch is scratch.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.errors import KeyholeError
from keyhole.kernels.freeze import Draw
from keyhole.kernels.state import State
from keyhole.kernels.sweep import run_sweeps
from keyhole.kernels.work import GROW, OK, Work
from keyhole.sampling.classes import ClassState, is_large, start_classes, start_large, sweep_classes
from keyhole.sampling.evaluation import Evaluation, evaluate
from keyhole.sampling.predict import Scratch, shorten
from keyhole.sampling.problem import Problem
from keyhole.sampling.shards import Each, here
from keyhole.sampling.start import enlarge, make_state_work, start_state

Risks = tuple[NDArray[np.float32], NDArray[np.float32]]
"""r1 and r2 of the sample uniques in one draw."""


class ChainState(NamedTuple):
    """The state of a chain: all that determines how it continues.

    sweep_rng, risk_rng: states of the two generators, as NumPy gives them; draws: number made so far;
    since: sweeps since the start or the last draw.
    """

    state: State | ClassState
    sweep_rng: dict[str, Any]
    risk_rng: dict[str, Any]
    draws: int
    since: int


class Block(NamedTuple):
    """The result of a block.

    quantities, errors: of every draw of the block; risks, kept: risks and stored draws, for the draws whose number is
    a multiple of the requested stride; seconds: of sweeps and of risks.
    """

    position: ChainState
    quantities: list[dict[str, float]]
    errors: list[float]
    risks: list[Risks]
    kept: list[Draw]
    seconds: tuple[float, float]


@dataclass
class Chain:
    """A running chain.

    work: scratch of `hdp` and `mixed`; each: works on shards, in `classes`; before: draws made before this block.
    """

    rng: np.random.Generator
    risk_rng: np.random.Generator
    state: State | ClassState
    work: Work | None
    each: Each = here
    scratch: Scratch = field(default_factory=dict)
    before: int = 0
    since: int = 0
    quantities: list[dict[str, float]] = field(default_factory=list)
    sampling_seconds: float = 0.0
    risk_seconds: float = 0.0

    @property
    def draws(self) -> int:
        """Number of draws so far, including those before this block."""
        return self.before + len(self.quantities)


def start_chain(number: int, start: int, seed: np.random.SeedSequence, problem: Problem) -> Chain:
    first, second = (np.random.default_rng(child) for child in seed.spawn(2))
    if problem.model == "classes":
        begin = start_large if is_large(problem.distinct) else start_classes
        return Chain(first, second, begin(first, problem.distinct, problem.prior, start), None)
    state, work = start_state(first, problem.records, problem.prior, start, number)
    return Chain(first, second, state, work)


def find_position(chain: Chain) -> ChainState:
    """Return the state of a chain. The arrays are not copied, so the chain must not continue."""
    return ChainState(
        state=chain.state,
        sweep_rng=dict(chain.rng.bit_generator.state),
        risk_rng=dict(chain.risk_rng.bit_generator.state),
        draws=chain.draws,
        since=chain.since,
    )


def continue_from(position: ChainState, problem: Problem, each: Each = here) -> Chain:
    """Return a chain in this state, with its own copy of the arrays."""
    state = position.state
    work = None
    if isinstance(state, State):
        # Kernels of `hdp` write into the arrays; those of `classes` return new ones.
        state = State(**{name: array.copy() for name, array in state._asdict().items()})
        work = make_state_work(problem.records, problem.prior, len(state.weight))
    return Chain(
        rng=make_generator(position.sweep_rng),
        risk_rng=make_generator(position.risk_rng),
        state=state,
        work=work,
        each=each,
        before=position.draws,
        since=position.since,
    )


def make_generator(state: dict[str, Any]) -> np.random.Generator:
    bits: Any = np.random.PCG64(0)
    bits.state = state
    return np.random.Generator(bits)


def run_block(
    problem: Problem,
    position: ChainState,
    wanted: int,
    strides: tuple[int, int],
    seconds: float,
    stopped: Callable[[], bool] | None = None,
    each: Each = here,
) -> Block:
    """Continue until there are `wanted` draws or the seconds are over, for at least one sweep."""
    chain = continue_from(position, problem, each)
    errors: list[float] = []
    risks: list[Risks] = []
    kept: list[Draw] = []
    end = time.perf_counter() + seconds
    while chain.draws < wanted:
        number = chain.draws
        run_one_sweep(chain, problem)
        if is_draw_due(chain, problem):
            found = make_draw(chain, problem)
            errors.append(found.error)
            if number % strides[0] == 0:
                risks.append((found.r1, found.r2))
            if number % strides[1] == 0:
                kept.append(shorten(found.draw, problem.prior.rules))
        if time.perf_counter() >= end or (stopped is not None and stopped()):
            break
    spent = chain.sampling_seconds, chain.risk_seconds
    return Block(find_position(chain), chain.quantities, errors, risks, kept, spent)


def advance(chain: Chain, problem: Problem) -> None:
    """Make the sweeps up to the next draw, and the draw."""
    while not is_draw_due(chain, problem):
        run_one_sweep(chain, problem)
    make_draw(chain, problem)


def is_draw_due(chain: Chain, problem: Problem) -> bool:
    """Return whether the sweeps up to the next draw have been made."""
    return chain.since == problem.thin


def run_one_sweep(chain: Chain, problem: Problem) -> None:
    """Make one sweep, after enlarging the state if it may need more room for profiles."""
    clock = time.perf_counter()
    if isinstance(chain.state, ClassState):
        chain.state = sweep_classes(chain.rng, problem.distinct, problem.prior, chain.state, chain.each)
    elif chain.work is not None:
        sweep_tables(chain, problem, chain.state, chain.work)
    chain.since += 1
    chain.sampling_seconds += time.perf_counter() - clock


def sweep_tables(chain: Chain, problem: Problem, state: State, work: Work) -> None:
    """Make one sweep of `hdp` or `mixed`."""
    while not run_sweeps(chain.rng, problem.records, problem.prior, state, work, 1):
        if work.status[0] != GROW:
            break
        state, work = enlarge(problem.records, problem.prior, state)
        chain.state, chain.work = state, work
    if work.status[0] != OK:
        raise KeyholeError("a chain ran out of room for profiles: please report this as a bug.")


def make_draw(chain: Chain, problem: Problem) -> Evaluation:
    """Evaluate the risks in the chain's current state."""
    clock = time.perf_counter()
    found = evaluate(chain.risk_rng, problem, chain.state, chain.scratch, chain.each)
    chain.quantities.append(found.quantities)
    chain.since = 0
    chain.risk_seconds += time.perf_counter() - clock
    return found
