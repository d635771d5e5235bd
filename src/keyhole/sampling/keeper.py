"""When a checkpoint is written, and what happens if it cannot be."""

import time
from collections.abc import Callable
from pathlib import Path

from keyhole.errors import KeyholeError
from keyhole.sampling.checkpoint import Stored, newest_number, read_newest, remove_generation, write_generation
from keyhole.sampling.history import History
from keyhole.sampling.problem import Problem
from keyhole.sampling.saved_run import Resumed, describe_run, fingerprint, pack_draws, pack_states, restore_run
from keyhole.sampling.trace import Notice
from keyhole.settings import Settings

LONGEST_INTERVAL = 60.0
SHARE_OF_RUN = 0.05
"""A checkpoint at least every minute, and twenty in a run that takes all of its time."""

COST_SHARE = 0.02
"""Of the time of a run that checkpoints may take: when one takes long, the next comes later."""

Tell = Callable[[Notice], None]


class Keeper:
    """Keeps the checkpoints of one run in a folder of its own."""

    def __init__(self, folder: Path, problem: Problem, settings: Settings, tell: Tell) -> None:
        self.folder, self.problem, self.settings, self.tell = folder, problem, settings, tell
        self.interval = min(LONGEST_INTERVAL, SHARE_OF_RUN * settings.time_limit)
        self.problem_hash = fingerprint(problem)
        self.number = newest_number(folder)
        self.fresh = True
        self.next_side = "a"
        self.written: dict[str, tuple[list[Stored], list[int]]] = {}
        self.seconds = 0.0
        self.last_cost = 0.0
        self.last_end = time.perf_counter()
        self.saved_at: float | None = None

    def resume(self) -> Resumed | None:
        """Return the run that the folder holds, if it holds one."""
        found = read_newest(self.folder)
        if found is None:
            return None
        resumed = restore_run(found, self.folder, self.problem, self.settings)
        if found.older:
            self.tell(Notice("the newest checkpoint is damaged: going on from the one before it.", warning=True))
        self.fresh = False
        # The other generation is written anew: it may be damaged, or ahead of this one.
        self.number = max(self.number, found.head.number)
        self.written[found.side] = (found.head.draws, [chain.draws for chain in resumed.chains])
        self.next_side = "b" if found.side == "a" else "a"
        return resumed

    @property
    def is_due(self) -> bool:
        """Say whether it is time for the next checkpoint."""
        wait = max(self.interval, self.last_cost * (1.0 / COST_SHARE - 1.0))
        return time.perf_counter() - self.last_end >= wait

    def save(self, chains: list[History], round_number: int, seconds: float) -> bool:
        """Write a checkpoint and say whether it was possible. The run goes on without: the one before still holds."""
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
            self.tell(Notice(f"no checkpoint could be written to {self.folder}: {reason}. Sampling goes on.", True))
            return False
        finally:
            self.last_end = time.perf_counter()
            self.last_cost = self.last_end - started
            self.seconds += self.last_cost
        self.number += 1
        self.written[side] = (draws, [chain.draws for chain in chains])
        self.next_side = "b" if side == "a" else "a"
        self.saved_at = seconds
        if self.fresh:
            # What an earlier run left on the other side is older than this, and not ours.
            remove_generation(self.folder, self.next_side)
            self.fresh = False
        return True
