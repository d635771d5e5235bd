"""When to stop: the clock, and signals that must not cut a step in two."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Clock:
    """The time limit of a run, and the wish to stop."""

    def __init__(self, limit: float) -> None:
        self.start = time.perf_counter()
        self.limit = limit
        self.stopped = threading.Event()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.start

    @property
    def left(self) -> float:
        """Seconds up to the limit; 0 when it is over."""
        return max(self.limit - self.seconds, 0.0)

    @property
    def over(self) -> bool:
        """Whether chains must stop."""
        return self.stopped.is_set() or self.seconds > self.limit


@contextmanager
def shielded() -> Iterator[None]:
    """Put Ctrl-C and SIGTERM off until the end of this section, so that they find everything whole."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    caught: list[int] = []
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        signal.signal(number, lambda received, _: caught.append(received))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if caught:
        signal.raise_signal(caught[0])


@contextmanager
def stoppable() -> Iterator[None]:
    """Let SIGTERM end a section as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
