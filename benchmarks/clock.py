"""Time used: the processor's for this thread, which other people's work hardly disturbs, and the wall's."""

import statistics
import time
from collections.abc import Callable


class Stopwatch:
    """Laps between `start` and `stop`.

    laps: processor seconds of each; cpu, wall: seconds of all together.
    """

    def __init__(self) -> None:
        self.laps: list[float] = []
        self.cpu = 0.0
        self.wall = 0.0
        self._cpu = 0.0
        self._wall = 0.0

    def start(self) -> None:
        """Begin a lap."""
        self._cpu, self._wall = time.thread_time(), time.perf_counter()

    def stop(self) -> None:
        """End the lap."""
        lap = time.thread_time() - self._cpu
        self.wall += time.perf_counter() - self._wall
        self.cpu += lap
        self.laps.append(lap)

    def time(self, work: Callable[[], object]) -> None:
        """Count one call as a lap."""
        self.start()
        work()
        self.stop()

    @property
    def median(self) -> float:
        """Processor seconds of the middle lap."""
        return statistics.median(self.laps)

    @property
    def best(self) -> float:
        """Processor seconds of the fastest lap: what the machine can do when nobody shares its caches."""
        return min(self.laps)


def time_repeatedly(work: Callable[[], object], seconds: float) -> Stopwatch:
    """Call it for about this many seconds, at least once."""
    watch = Stopwatch()
    while not watch.laps or watch.wall < seconds:
        watch.time(work)
    return watch
