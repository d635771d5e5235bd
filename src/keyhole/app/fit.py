"""A run, as a process of its own: `keyhole assess` with its progress in a file.

    python -P -m keyhole.app.fit RUN        RUN holds request.json, and gets progress.json, result/ and outcome.json

It writes what the command would write, so that both can go on with each other's work.
"""

import json
import math
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from keyhole.api import assess
from keyhole.app.child import end_with_parent, explain, write_quickly
from keyhole.app.home import show_name
from keyhole.errors import OutputError, silenced
from keyhole.files import LOCK
from keyhole.progress import describe_whole
from keyhole.results.assessment import Assessment
from keyhole.results.folder import CHECKPOINT, REPORT, reserve
from keyhole.sampling import Event, Notice, Progress
from keyhole.sampling.checkpoint import holds_run
from keyhole.sampling.workers import stoppable

EVERY_SECONDS = 0.4
MOST_POINTS = 240
LOCKED_SECONDS = 10.0
"""How long a run that ends with a killed server may hold its folder."""


class Recorder:
    """Writes the state of a run: notices, the last event of each chain, and where the chains have been."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notices: list[dict[str, Any]] = []
        self.latest: dict[int, Progress] = {}
        self.band: list[list[float]] = []
        self.written = -EVERY_SECONDS
        self.write()

    def __call__(self, event: Event) -> None:
        """Take an event."""
        if isinstance(event, Notice):
            self.notices.append({"message": event.message, "warning": event.warning})
            if not event.warning:  # the next model begins
                self.latest.clear()
                self.band.clear()
            self.write()
        else:
            self.latest[event.chain] = event
            if time.monotonic() - self.written >= EVERY_SECONDS:
                self.add_point(event.seconds)
                self.write()

    def add_point(self, seconds: float) -> None:
        """Add the range over chains of tau1 so far; every other point goes when there are many."""
        known = [event.tau1 for event in self.latest.values() if math.isfinite(event.tau1)]
        if known:
            self.band.append([round(seconds, 2), min(known), max(known)])
        if len(self.band) > MOST_POINTS:
            del self.band[1::2]

    def write(self) -> None:
        """Write the state."""
        self.written = time.monotonic()
        events = [event for _, event in sorted(self.latest.items())]
        whole = max(events, key=lambda event: event.seconds, default=None)
        write_quickly(
            {
                "notices": self.notices[-6:],
                "quick": not self.notices,
                "chains": [describe(event) for event in events],
                "band": self.band,
                "whole": None if whole is None else describe_whole(whole),
                "gates": None if whole is None else [whole.gates_met, whole.gates],
                "missing": [] if whole is None else list(whole.missing),
                "seconds": 0.0 if whole is None else whole.seconds,
            },
            self.path,
        )


def describe(event: Progress) -> dict[str, Any]:
    """Return what is shown of a chain."""
    return {
        "chain": event.chain + 1,
        "draws": event.draws,
        "sweeps": event.sweeps,
        "speed": event.speed if math.isfinite(event.speed) else 0.0,
        "profiles": event.profiles,
        "tau1": event.tau1 if math.isfinite(event.tau1) else None,
    }


@contextmanager
def hold(result: Path, resume: bool) -> Iterator[None]:
    """Reserve the result folder, waiting for a run that is just ending."""
    end = time.monotonic() + LOCKED_SECONDS
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(reserve(result, overwrite=True, resume=resume))
                break
            except OutputError:
                if time.monotonic() > end or not (result / LOCK).exists():
                    raise
            time.sleep(0.2)
        yield


def list_numbers(found: Assessment) -> dict[str, Any]:
    """Return what the list of results shows."""
    return {
        "grade": found.grade,
        "stopped": found.summary.convergence.stopped,
        "keys": len(found.summary.input["keys"]),
        "tau1": {"mean": found.tau1.mean, "interval": list(found.tau1.interval), "pooled": found.tau1.pooled},
        "sample_uniques": found.summary.input.sample_uniques,
        "used": found.summary.input.used,
    }


def run(folder: Path, request: Mapping[str, Any]) -> dict[str, Any]:
    """Run, or go on with, what was asked; return the outcome."""
    result, resume = folder / "result", holds_run(folder / "result" / CHECKPOINT)
    record = Recorder(folder / "progress.json")
    try:
        with stoppable(), hold(result, resume), silenced():
            found = assess(
                request["file"],
                on_progress=record,
                checkpoint=result / CHECKPOINT,
                resume=resume,
                overwrite=True,
                **request["options"],
            )
            found.manifest["asked"]["out"] = str(result)
            found.save(result, overwrite=True)
        found.report(result / REPORT, title=f"Disclosure risk of {show_name(request['name'])}")
        return {"state": "done", "message": found.diagnosis.message, **list_numbers(found)}
    except KeyboardInterrupt:
        return {"state": "stopped", "message": "The run was stopped. Its work is kept."}
    except BaseException as error:
        return {"state": "failed", "message": explain(error)}


def main() -> None:
    """Run in the folder that is named on the command line."""
    end_with_parent()
    folder = Path(sys.argv[1])
    request = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    write_quickly(run(folder, request), folder / "outcome.json")


if __name__ == "__main__":
    main()
