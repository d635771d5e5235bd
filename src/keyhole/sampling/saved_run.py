"""What a checkpoint holds, a run as plain arrays and numbers, and when checkpoints are written."""

import hashlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from keyhole._version import __version__
from keyhole.errors import KeyholeError, OutputError
from keyhole.files import locked
from keyhole.kernels.classes import Profiles, Tally
from keyhole.kernels.state import State
from keyhole.kernels.visits import count_labels
from keyhole.sampling.chain import ChainState, make_generator
from keyhole.sampling.checkpoint import (
    Arrays,
    DamagedError,
    Generation,
    Stored,
    holds_run,
    newest_number,
    read_newest,
    remove_generation,
    remove_generations,
    write_generation,
)
from keyhole.sampling.classes import ClassState, are_visited
from keyhole.sampling.cluster import engine
from keyhole.sampling.predict import make_draw
from keyhole.sampling.problem import Problem
from keyhole.sampling.start import empty_state, find_seated
from keyhole.sampling.trace import ChainHistory, Notice, Thinned, start_history
from keyhole.settings import Settings

MAY_DIFFER = ("time_limit", "target_ess", "max_sweeps", "workers", "scheduler")
"""Options on when to stop and where to run. All others must be those of the saved run."""


class SavedChain(BaseModel):
    """A chain without its arrays."""

    model_config = ConfigDict(extra="forbid", strict=True)

    start: int
    draws: int
    since: int
    risk_stride: int
    kept_stride: int
    sweep_rng: dict[str, Any]
    risk_rng: dict[str, Any]
    sampling_seconds: float
    risk_seconds: float


class SavedRun(BaseModel):
    """A run without its arrays. round: looks at which gates were not met; quantities: their names, in order."""

    model_config = ConfigDict(extra="forbid", strict=True)

    version: str
    engine: str
    problem: str
    settings: dict[str, Any]
    round: int
    seconds: float
    quantities: list[str]
    chains: list[SavedChain]


class Resumed(NamedTuple):
    """Where a run continues. seconds: of sampling in all earlier sessions."""

    chains: list[ChainHistory]
    round: int
    seconds: float


def fingerprint(problem: Problem) -> str:
    """Return the SHA-256 of the problem: data, model and how draws are evaluated."""
    digest = hashlib.sha256()

    def add(name: str, value: Any) -> None:
        if hasattr(value, "_asdict") or is_dataclass(value):
            for part, item in (vars(value) if is_dataclass(value) else value._asdict()).items():
                add(f"{name}.{part}", item)
        elif isinstance(value, tuple):
            for place, item in enumerate(value):
                add(f"{name}.{place}", item)
        elif isinstance(value, np.ndarray):
            digest.update(f"{name} {value.dtype} {value.shape} ".encode())
            digest.update(np.ascontiguousarray(value).data)
        else:
            digest.update(f"{name} {value!r} ".encode())

    for name, value in vars(problem).items():
        add(name, value)
    return digest.hexdigest()


def describe_run(
    chains: list[ChainHistory], round_number: int, seconds: float, problem_hash: str, settings: Settings
) -> dict[str, Any]:
    """Return everything that is not an array."""
    described = [
        SavedChain(
            start=chain.start,
            draws=chain.draws,
            since=chain.position.since,
            risk_stride=chain.risks.stride,
            kept_stride=chain.kept.stride,
            sweep_rng=chain.position.sweep_rng,
            risk_rng=chain.position.risk_rng,
            sampling_seconds=chain.sampling_seconds,
            risk_seconds=chain.risk_seconds,
        )
        for chain in chains
    ]
    names = next((list(chain.quantities[0]) for chain in chains if chain.quantities), [])
    return SavedRun(
        version=__version__,
        engine=engine(),
        problem=problem_hash,
        settings=settings.model_dump(exclude=set(MAY_DIFFER)),
        round=round_number,
        seconds=seconds,
        quantities=names,
        chains=described,
    ).model_dump()


def pack_states(chains: list[ChainHistory]) -> Arrays:
    """Return the arrays of all chains' states, by chain and field."""
    return {f"{c}.{name}": array for c, chain in enumerate(chains) for name, array in list_arrays(chain.position.state)}


def list_arrays(state: State | ClassState) -> list[tuple[str, np.ndarray]]:
    """Return the arrays of a state by name."""
    if isinstance(state, State):
        return list(state._asdict().items())
    return [*state.tally._asdict().items(), *state.profiles._asdict().items(), ("label", state.label)]


def pack_draws(chains: list[ChainHistory], first: list[int]) -> Arrays:
    """Return the draws of every chain from number first[chain] on."""
    packed: Arrays = {}
    for c, chain in enumerate(chains):
        wanted = range(first[c], chain.draws)
        rows = [list(row.values()) for row in chain.quantities[first[c] :]]
        packed[f"{c}.quantities"] = np.array(rows).reshape(len(rows), len(rows[0]) if rows else 0)
        packed[f"{c}.errors"] = np.array(chain.errors[first[c] :], np.float64)
        risks, kept = chain.risks.choose(wanted), chain.kept.choose(wanted)
        packed[f"{c}.risk_number"] = _numbers(chain.risks, wanted)
        packed[f"{c}.kept_number"] = _numbers(chain.kept, wanted)
        if risks:
            packed[f"{c}.r1"] = np.stack([r1 for r1, _ in risks])
            packed[f"{c}.r2"] = np.stack([r2 for _, r2 in risks])
        if kept:
            packed[f"{c}.profiles"] = np.array([len(item.weight) for item in kept])
            packed[f"{c}.weight"] = np.concatenate([item.weight for item in kept])
            packed[f"{c}.level_profile"] = np.concatenate([item.level_profile for item in kept], axis=1)
            packed[f"{c}.record_concentration"] = np.stack([item.record_concentration for item in kept])
            packed[f"{c}.shared_concentration"] = np.stack([item.shared_concentration for item in kept])
    return packed


def restore_run(generation: Generation, folder: Path, problem: Problem, settings: Settings) -> Resumed:
    """Restore a run from its checkpoint; refuse the checkpoint of another run."""
    try:
        saved = SavedRun.model_validate(generation.head.run)
        _refuse_others(saved, folder, problem, settings)
        chains = [_restore_chain(c, generation, saved, problem) for c in range(settings.chains)]
    except (DamagedError, ValidationError, KeyError, ValueError, TypeError, IndexError, OverflowError):
        raise OutputError(
            f"the checkpoint in {folder} is damaged: use `overwrite` in place of `resume` to start anew."
        ) from None
    return Resumed(chains, saved.round, saved.seconds)


def _refuse_others(saved: SavedRun, folder: Path | None, problem: Problem, settings: Settings) -> None:
    now = settings.model_dump(exclude=set(MAY_DIFFER))
    changed = [name.replace("_", "-") for name in now if saved.settings.get(name) != now[name]]
    if changed:
        what = f"another {' and '.join(changed)}"
    elif saved.engine != engine() or saved.version != __version__:
        what = "another version of keyhole, numba or numpy"
    elif saved.problem != fingerprint(problem):
        what = "other data, keys, population or rules"
    else:
        return
    remedy = "leave `resume` out" if folder is None else "use `overwrite` in place of `resume`"
    raise OutputError(f"the run kept in {folder or 'memory'} was made with {what}: {remedy} to start anew.")


def _restore_chain(c: int, generation: Generation, saved: SavedRun, problem: Problem) -> ChainHistory:
    """Restore a chain; every array must have the shape that follows from the problem."""
    about = saved.chains[c]
    restore = _restore_classes if problem.model == "classes" else _restore_tables
    state = restore(c, generation.state, problem)
    for rng in (about.sweep_rng, about.risk_rng):
        make_generator(rng)
    position = ChainState(state, about.sweep_rng, about.risk_rng, draws=about.draws, since=about.since)
    uniques = len(problem.cell_level)
    chain = start_history(c, about.start, position, uniques)
    chain.risks.stride, chain.kept.stride = about.risk_stride, about.kept_stride
    levels = int(problem.records.level_start[-1])
    for part in generation.draws:
        rows = part[f"{c}.quantities"]
        chain.quantities += [dict(zip(saved.quantities, row, strict=True)) for row in rows.tolist()]
        chain.errors += part[f"{c}.errors"].tolist()
        for x in np.flatnonzero(part[f"{c}.risk_number"] % about.risk_stride == 0):
            r1, r2 = part[f"{c}.r1"][x], part[f"{c}.r2"][x]
            _expect(r1.shape == r2.shape == (uniques,) and r1.dtype == r2.dtype == np.float32)
            chain.risks.items.append((r1, r2))
        ends = np.cumsum(part.get(f"{c}.profiles", [0]))
        for x in np.flatnonzero(part[f"{c}.kept_number"] % about.kept_stride == 0):
            columns = slice(ends[x] - part[f"{c}.profiles"][x], ends[x])
            item = make_draw(
                part[f"{c}.weight"][columns].copy(),
                part[f"{c}.level_profile"][:, columns].copy(),
                part[f"{c}.record_concentration"][x].copy(),
                part[f"{c}.shared_concentration"][x].copy(),
                problem.model != "hdp",
                problem.records.level.shape[1],
            )
            _expect(item.level_profile.shape == (levels, len(item.weight)))
            chain.kept.items.append(item)
    _expect(chain.draws == about.draws == len(chain.errors))
    _expect(0 <= about.since < problem.thin)
    for thinned in (chain.risks, chain.kept):
        _expect(len(thinned.items) == len(range(0, chain.draws, thinned.stride)) <= thinned.limit)
    chain.sampling_seconds, chain.risk_seconds = about.sampling_seconds, about.risk_seconds
    return chain


def _restore_classes(c: int, arrays: Arrays, problem: Problem) -> ClassState:
    """Restore a state of `classes`; refuse counts that do not add up."""
    cells, profiles = problem.distinct, len(arrays[f"{c}.weight"])
    levels, variables = int(cells.level_start[-1]), len(cells.level_start) - 1
    shapes: dict[str, tuple[int, ...]] = {
        "level_count": (levels, profiles),
        "level_profile": (levels, profiles),
        "remainder": (1,),
        "weight_concentration": (1,),
        "base_strength": (len(problem.prior.trees.strength_scale),),
        "base_level": (levels,),
        "layout": (variables, profiles),
    }
    found: dict[str, np.ndarray] = {}
    for name in (*Tally._fields, *Profiles._fields):
        array = np.ascontiguousarray(arrays[f"{c}.{name}"])
        kind = np.int64 if name in (*Tally._fields, "layout") else np.float64
        _expect(array.shape == shapes.get(name, (profiles,)) and array.dtype == kind)
        _expect(bool((np.isfinite(array) & (array >= 0)).all()))
        found[name] = array
    records = found["records"]
    _expect(profiles > 0 and int(records.sum()) == int(cells.size.sum()) and bool((records > 0).all()))
    _expect(bool((found["layout"] < np.diff(problem.prior.trees.layout_start)[:, None]).all()))
    answers = np.add.reduceat(found["level_count"], cells.level_start[:-1], axis=0)
    _expect(bool((answers <= records).all()) and bool((found["possible"] > 0.0).all()))
    tally = Tally(*(found[name] for name in Tally._fields))
    label = np.ascontiguousarray(arrays[f"{c}.label"])
    _expect(
        label.dtype == np.int32 and label.shape == (int(records.sum()) if are_visited(cells, problem.prior) else 0,)
    )
    _expect(bool(((label >= 0) & (label < profiles)).all()))
    if len(label) > 0:
        _expect(all(map(np.array_equal, count_labels(cells, label, profiles), tally)))
    return ClassState(tally, Profiles(*(found[name] for name in Profiles._fields)), label)


def _restore_tables(c: int, arrays: Arrays, problem: Problem) -> State:
    """Restore a state of `hdp` or `mixed`; refuse what a kernel would read or write out of bounds."""
    capacity = len(arrays[f"{c}.weight"])
    _expect(0 < capacity < 10**6 and capacity % 8 == 0)
    wanted = empty_state(problem.records, problem.prior, capacity)._asdict()
    for name, expected in wanted.items():
        found = arrays[f"{c}.{name}"]
        _expect(found.shape == expected.shape and found.dtype == expected.dtype)
        _expect(found.dtype.kind != "f" or bool(np.isfinite(found).all()))
    state = State(**{name: np.ascontiguousarray(arrays[f"{c}.{name}"]) for name in wanted})
    profiles, tables = int(state.profile_total[0]), state.table_total
    seated = find_seated(problem.records)
    _expect(0 <= profiles <= capacity)
    _expect(bool(((tables >= 0) & (tables <= state.seat.shape[1])).all()))
    _expect(bool(((state.seat < tables[:, None]) | ~seated).all()))
    used = np.arange(state.seat.shape[1]) < tables[:, None]
    _expect(bool(((state.layout >= 0) & (state.layout < np.diff(problem.prior.trees.layout_start)[:, None])).all()))
    _expect(bool(((state.table_label >= 0) & (state.table_label < max(profiles, 1)) | ~used).all()))
    return state


def _numbers(thinned: Thinned[Any], wanted: range) -> np.ndarray:
    numbers = np.arange(len(thinned.items)) * thinned.stride
    return numbers[(numbers >= wanted.start) & (numbers < wanted.stop)]


def _expect(holds: bool) -> None:
    if not holds:
        raise DamagedError


LONGEST_INTERVAL = 60.0
SHARE_OF_RUN = 0.05
"""A checkpoint at least every minute, and at least twenty in a run that uses all of its time."""

COST_SHARE = 0.02
"""Share of a run's time that checkpoints may take: if one takes long, the next comes later."""

Report = Callable[[Notice], None]


class Checkpointer:
    """Writes and reads the checkpoints of one run, in its own folder."""

    def __init__(
        self,
        folder: Path,
        problem: Problem,
        settings: Settings,
        report: Report,
        stale: Path | None = None,
        keeps_finished: bool = False,
    ) -> None:
        self.folder, self.problem, self.settings, self.report = folder, problem, settings, report
        self.stale, self.keeps_finished = stale, keeps_finished
        self.interval = min(LONGEST_INTERVAL, SHARE_OF_RUN * settings.time_limit)
        self.problem_hash = fingerprint(problem)
        self.number = newest_number(folder)
        self.fresh = True
        self.next_side = "a"
        self.written: dict[str, tuple[list[Stored], list[int]]] = {}
        self.seconds = 0.0
        self.last_cost = 0.0
        self.last_end = time.perf_counter()

    def resume(self) -> Resumed | None:
        """Return the run in the folder, or None if there is none."""
        found = read_newest(self.folder)
        if found is None:
            return None
        resumed = restore_run(found, self.folder, self.problem, self.settings)
        if found.older:
            self.report(Notice("the newest checkpoint is damaged: going on from the one before it.", warning=True))
        self.fresh = False
        # The other generation is rewritten from the beginning: it may be damaged, or ahead of this one.
        self.number = max(self.number, found.head.number)
        self.written[found.side] = (found.head.draws, [chain.draws for chain in resumed.chains])
        self.next_side = "b" if found.side == "a" else "a"
        return resumed

    @property
    def is_due(self) -> bool:
        wait = max(self.interval, self.last_cost * (1.0 / COST_SHARE - 1.0))
        return time.perf_counter() - self.last_end >= wait

    def save(self, chains: list[ChainHistory], round_number: int, seconds: float) -> bool:
        """Write a checkpoint and return whether that succeeded; if not, the previous one is intact."""
        started = time.perf_counter()
        side = self.next_side
        earlier, first = self.written.get(side, ([], [0] * len(chains)))
        run = describe_run(chains, round_number, seconds, self.problem_hash, self.settings)
        try:
            draws = write_generation(
                self.folder, side, self.number + 1, run, pack_states(chains), pack_draws(chains, first), earlier
            )
        except (OSError, KeyholeError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self.report(Notice(f"no checkpoint could be written to {self.folder}: {reason}. Sampling goes on.", True))
            return False
        finally:
            self.last_end = time.perf_counter()
            self.last_cost = self.last_end - started
            self.seconds += self.last_cost
        self.number += 1
        self.written[side] = (draws, [chain.draws for chain in chains])
        self.next_side = "b" if side == "a" else "a"
        if self.fresh:
            # The other generation is older and belongs to an earlier run.
            remove_generation(self.folder, self.next_side)
            if self.stale is not None:
                remove_generations(self.stale)
            self.fresh = False
        return True


class Memory:
    """The last run of this process that was interrupted and has no folder: a dictionary of SavedRun, and its chains.

    quick: the same of a run that was interrupted in its quick answer.
    """

    def __init__(self, quick: "Memory | None" = None) -> None:
        self.run: dict[str, Any] | None = None
        self.chains: list[ChainHistory] = []
        self.quick = quick

    @property
    def holds_run(self) -> bool:
        """Whether there is a run to continue."""
        return self.run is not None or (self.quick is not None and self.quick.holds_run)

    def forget(self) -> None:
        """Forget the run, but not that of the quick answer."""
        self.run, self.chains = None, []

    def clear(self) -> None:
        """Forget all."""
        self.forget()
        if self.quick is not None:
            self.quick.clear()


MEMORY = Memory(quick=Memory())


class Place(NamedTuple):
    """Where a run is kept, on disk or in memory.

    stale: a folder whose checkpoint, of an earlier run, goes with the first of this one; keeps_finished: whether a run
    that has met its gates is kept too, because another one follows.
    """

    folder: Path | Memory
    stale: Path | None = None
    keeps_finished: bool = False


class MemoryCheckpointer(Checkpointer):
    """Keeps a run in memory when it is interrupted, so that Ctrl-C in a notebook loses nothing."""

    def __init__(self, memory: Memory, problem: Problem, settings: Settings) -> None:
        self.memory, self.problem, self.settings = memory, problem, settings
        self.problem_hash = fingerprint(problem)
        self.fresh, self.seconds = True, 0.0
        # Chains in memory are large, and a quick answer that is complete is soon made again.
        self.keeps_finished = False

    def resume(self) -> Resumed | None:
        """Return the run in memory, which continues here, or None if there is none."""
        if self.memory.run is None:
            return None
        saved, chains = SavedRun.model_validate(self.memory.run), self.memory.chains
        _refuse_others(saved, None, self.problem, self.settings)
        self.memory.forget()
        return Resumed(chains, saved.round, saved.seconds)

    @property
    def is_due(self) -> bool:
        """Never: nothing has to be kept before the run is interrupted."""
        return False

    def save(self, chains: list[ChainHistory], round_number: int, seconds: float) -> bool:
        """Keep an interrupted run, not one that ends with a result. Nothing is written, so there is no checkpoint."""
        if isinstance(sys.exception(), KeyboardInterrupt):
            self.memory.run = describe_run(chains, round_number, seconds, self.problem_hash, self.settings)
            self.memory.chains = chains
        return False


def refuse_unfinished(folder: Path, allowed: bool) -> None:
    """Refuse a folder whose unfinished run would be replaced."""
    if allowed or not holds_run(folder):
        return
    with locked(folder, "checkpoint"):  # the run may be in progress: the message then says so
        raise OutputError(f"{folder} holds a run that can be continued: use `resume`, or replace it with `overwrite`.")


def is_intact(place: Place | None) -> bool:
    """Whether this place holds a checkpoint that can be read."""
    if place is None:
        return False
    if isinstance(place.folder, Memory):
        return place.folder.run is not None
    try:
        return read_newest(place.folder) is not None
    except OutputError:
        return False


def make_checkpointer(
    place: Place | Path | Memory | None, problem: Problem, settings: Settings, report: Report
) -> Checkpointer | None:
    """Return what keeps the run in this folder, which the caller holds, or in memory."""
    if place is None:
        return None
    folder, stale, keeps_finished = place if isinstance(place, Place) else Place(place)
    if isinstance(folder, Memory):
        return MemoryCheckpointer(folder, problem, settings)
    return Checkpointer(folder, problem, settings, report, stale, keeps_finished)


@contextmanager
def hold(folder: Path | Memory | None) -> Iterator[None]:
    """Hold a folder for one run; a second one is refused with the name of the holder."""
    if not isinstance(folder, Path):
        yield
        return
    with locked(folder, "checkpoint"):
        yield
