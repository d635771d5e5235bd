"""One chain at work, and the unit of work: a block.

A block is a function of the problem and of a chain's position; it returns the new position and the draws on the way.
How many sweeps a block makes never changes the path: sweeps and risks have a generator each, and scratch is scratch.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyhole.errors import KeyholeError
from keyhole.kernels.cells import CellWork, make_cell_work
from keyhole.kernels.state import Floats, State
from keyhole.kernels.sweep import fill_missing, run_sweeps
from keyhole.kernels.work import GROW, OK, Work
from keyhole.sampling.predict import Draw, Scratch, evaluate_draw
from keyhole.sampling.problem import Problem
from keyhole.sampling.start import enlarge, leave_start, make_state_work, start_state

Risks = tuple[NDArray[np.float32], NDArray[np.float32]]
"""r1 and r2 of the sample uniques in one draw."""


class KeptDraw(NamedTuple):
    """What is kept of a draw for later questions: weights, profiles, and the concentrations behind them.

    weight : float64 (profiles,)
    level_profile : float32 (levels, profiles)
    record_concentration, shared_concentration : float64 (2,), (1,)
    """

    weight: Floats
    level_profile: NDArray[np.float32]
    record_concentration: Floats
    shared_concentration: Floats


class Position(NamedTuple):
    """Where a chain stands; nothing else decides how it goes on.

    sweep_rng, risk_rng: states of the two generators, as NumPy gives them; draws: how many were made;
    since: sweeps made since the last draw; below 0 at the start, while sweeps follow Problem.start_prior.
    """

    state: State
    sweep_rng: dict[str, Any]
    risk_rng: dict[str, Any]
    draws: int
    since: int


class Block(NamedTuple):
    """What a block gives back.

    quantities, errors: of every draw of the block; risks, kept: of the draws whose number is a multiple of the
    two strides that were asked for; seconds: of sweeps and of risks.
    """

    position: Position
    quantities: list[dict[str, float]]
    errors: list[float]
    risks: list[Risks]
    kept: list[KeptDraw]
    seconds: tuple[float, float]


@dataclass
class Chain:
    """A chain at work."""

    rng: np.random.Generator
    risk_rng: np.random.Generator
    state: State
    work: Work
    cell_work: CellWork | None = None
    scratch: Scratch = field(default_factory=dict)
    before: int = 0
    since: int = 0
    quantities: list[dict[str, float]] = field(default_factory=list)
    sampling_seconds: float = 0.0
    risk_seconds: float = 0.0

    @property
    def draws(self) -> int:
        """Number of draws so far, those before this block included."""
        return self.before + len(self.quantities)


def start_chain(number: int, start: int, seed: np.random.SeedSequence, problem: Problem) -> Chain:
    """Put a chain at its start."""
    first, second = (np.random.default_rng(child) for child in seed.spawn(2))
    state, _ = start_state(first, problem.records, problem.prior, start)
    since = -problem.start_sweeps
    return Chain(first, second, state, make_phase_work(problem, state, since), since=since)


def make_phase_work(problem: Problem, state: State, since: int) -> Work:
    """Allocate the scratch of the next sweep."""
    prior = problem.start_prior if since < 0 else problem.prior
    return make_state_work(problem.records, prior, len(state.weight))


def find_position(chain: Chain) -> Position:
    """Return where the chain stands. The arrays are the chain's own: it must not go on with them."""
    return Position(
        chain.state, plain_state(chain.rng), plain_state(chain.risk_rng), draws=chain.draws, since=chain.since
    )


def continue_from(position: Position, problem: Problem) -> Chain:
    """Return a chain at this position, with arrays of its own."""
    state = State(**{name: array.copy() for name, array in position.state._asdict().items()})
    return Chain(
        rng=make_generator(position.sweep_rng),
        risk_rng=make_generator(position.risk_rng),
        state=state,
        work=make_phase_work(problem, state, position.since),
        before=position.draws,
        since=position.since,
    )


def plain_state(rng: np.random.Generator) -> dict[str, Any]:
    """Return the generator's state as whole numbers by name."""
    return dict(rng.bit_generator.state)


def make_generator(state: dict[str, Any]) -> np.random.Generator:
    """Return a generator in this state."""
    bits: Any = np.random.PCG64(0)
    bits.state = state
    return np.random.Generator(bits)


def run_block(
    problem: Problem,
    position: Position,
    wanted: int,
    strides: tuple[int, int],
    seconds: float,
    stopped: Callable[[], bool] | None = None,
) -> Block:
    """Go on from a position until there are `wanted` draws or the seconds are over, by one sweep at least."""
    chain = continue_from(position, problem)
    errors: list[float] = []
    risks: list[Risks] = []
    kept: list[KeptDraw] = []
    end = time.perf_counter() + seconds
    while chain.draws < wanted:
        number = chain.draws
        run_one_sweep(chain, problem)
        if chain.since == problem.spacing:
            draw = keep_draw(chain, problem)
            errors.append(draw.error)
            if number % strides[0] == 0:
                risks.append((draw.r1, draw.r2))
            if number % strides[1] == 0:
                kept.append(make_kept_draw(draw, chain.state))
        if time.perf_counter() >= end or (stopped is not None and stopped()):
            break
    spent = chain.sampling_seconds, chain.risk_seconds
    return Block(find_position(chain), chain.quantities, errors, risks, kept, spent)


def advance(chain: Chain, problem: Problem) -> None:
    """Run the sweeps up to the next draw, and make it."""
    while chain.since < problem.spacing:
        run_one_sweep(chain, problem)
    keep_draw(chain, problem)


def run_one_sweep(chain: Chain, problem: Problem) -> None:
    """Make one sweep, with more room for profiles if it may need it."""
    clock = time.perf_counter()
    records, prior = problem.records, problem.prior
    if chain.since < 0:
        records, prior = fill_missing(chain.rng, records, prior, chain.state), problem.start_prior
    while not run_sweeps(chain.rng, records, prior, chain.state, chain.work, 1):
        if chain.work.status[0] != GROW:
            break
        chain.state, chain.work = enlarge(records, prior, chain.state)
    if chain.work.status[0] != OK:
        raise KeyholeError("a chain ran out of room for profiles: please report this as a bug.")
    chain.since += 1
    if chain.since == 0:
        chain.work = make_phase_work(problem, chain.state, 0)
        leave_start(chain.rng, problem.records, problem.prior, chain.state, chain.work)
    chain.sampling_seconds += time.perf_counter() - clock


def keep_draw(chain: Chain, problem: Problem) -> Draw:
    """Evaluate the risks where the chain stands."""
    clock = time.perf_counter()
    draw = evaluate_draw(chain.risk_rng, problem, chain.state, _cell_work(chain, problem), chain.scratch)
    chain.quantities.append(draw.quantities)
    chain.since = 0
    chain.risk_seconds += time.perf_counter() - clock
    return draw


def make_kept_draw(draw: Draw, state: State) -> KeptDraw:
    """Return the draw's weights and profiles without the room to spare."""
    profiles = int(draw.kept.profile_total[0])
    return KeptDraw(
        weight=draw.kept.weight[:profiles].copy(),
        level_profile=draw.kept.level_profile[:, :profiles].astype(np.float32),
        record_concentration=state.record_concentration.copy(),
        shared_concentration=state.shared_concentration.copy(),
    )


def _cell_work(chain: Chain, problem: Problem) -> CellWork | None:
    """Return scratch with room to spare, made anew only when the chain outgrows it."""
    if problem.estimator != "exact":
        return None
    needed = int(chain.state.profile_total[0]) + 100
    if chain.cell_work is None or chain.cell_work.factor.shape[1] < needed:
        chain.cell_work = make_cell_work(problem.cell_level.shape[1], 2 * needed)
    return chain.cell_work
