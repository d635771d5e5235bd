"""The page: seconds to its address, how long a click takes, and what requests cost a run that goes on beside them.

    python -m benchmarks.page [WINDOWS]

A run samples while windows of five seconds without requests and with 20 requests at once in every second follow each
other; the ratio is that of the medians over windows, of wall seconds and of processor seconds of the run per sweep.
"""

import json
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import psutil
from tests.end_to_end.serving import Served, serve

AT_ONCE, WINDOW = 20, 5.0
LEVELS = {"AGE": 80, "SEX": 2, "MARITAL": 6, "EDUC": 12, "WORK": 5, "REGION": 20, "BORN": 9, "ROOMS": 8}
SCREENS = ("variables", "rules", "run", "answer", "help", "take")


def make_survey(folder: Path, rows: int) -> Path:
    """Write a file of independent answers."""
    rng = np.random.default_rng(1)
    path = folder / "survey.csv"
    pl.DataFrame({name: rng.integers(1, levels + 1, rows) for name, levels in LEVELS.items()}).write_csv(path)
    return path


def measure_address(survey: Path) -> dict[str, float]:
    """Return the seconds from the command to the printed address, and those of the processor."""
    wall, processor = [], []
    for _ in range(5):
        with tempfile.TemporaryDirectory() as home:
            started = time.perf_counter()
            with serve(Path(home) / "home", str(survey)) as served:
                wall.append(time.perf_counter() - started)
                times = psutil.Process(served.process.pid).cpu_times()
                processor.append(times.user + times.system)
    return {"wall": statistics.median(wall), "processor": statistics.median(processor)}


def time_clicks(served: Served, project: str) -> dict[str, float]:
    """Return the median milliseconds of what clicks ask for."""
    keys = list(LEVELS)
    asked: dict[str, Any] = {name: lambda name=name: served.send("GET", f"/p/{project}/{name}") for name in SCREENS}
    asked |= {
        "files": lambda: served.send("GET", "/"),
        "choose": lambda: served.ask(f"{project}/choices", keys=keys, population="900000"),
        "count": lambda: served.ask(f"{project}/alone", keys=keys, merged={"AGE": [["1", "2"]]}),
        "categories": lambda: served.ask(f"{project}/categories", name="AGE", bands="5y", merge="5-9,10-14"),
        "check": lambda: served.ask(f"{project}/check", rules=[{"rule": "AGE <= 15 and MARITAL == 2"}]),
    }
    found = {}
    for name, ask in asked.items():
        times = []
        for _ in range(7):
            started = time.perf_counter()
            answer = ask()
            assert not isinstance(answer, tuple) or answer[0] == 200, name
            times.append(time.perf_counter() - started)
        found[name] = 1_000 * statistics.median(times)
    return found


def read_sweeps(progress: Path) -> tuple[float, float]:
    """Return the sweeps of all chains, and the seconds of the run at which they were counted."""
    found = json.loads(progress.read_text(encoding="utf-8"))
    return sum(chain["sweeps"] for chain in found["chains"]), found["seconds"]


def ask_at_once(served: Served, project: str) -> None:
    """Send the requests together, half of them for screens and half for counts, and wait for all answers."""
    keys = list(LEVELS)

    def ask(x: int) -> None:
        if x % 2:
            served.ask(f"{project}/alone", keys=keys[: 2 + x % 6])
        else:
            served.send("GET", f"/p/{project}/{SCREENS[x % len(SCREENS)]}")

    threads = [threading.Thread(target=ask, args=(x,)) for x in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def measure_window(served: Served, project: str, progress: Path, fit: psutil.Process, busy: bool) -> tuple[float, ...]:
    """Return the wall and the processor seconds of the run per sweep."""
    sweeps, seconds = read_sweeps(progress)
    processor = sum(fit.cpu_times()[:2])
    end = time.monotonic() + WINDOW
    while (left := end - time.monotonic()) > 0:
        if busy:
            ask_at_once(served, project)
        time.sleep(min(1.0, left))
    more, later = read_sweeps(progress)
    used = sum(fit.cpu_times()[:2]) - processor
    return (later - seconds) / (more - sweeps), used / (more - sweeps)


def measure_run(served: Served, project: str, windows: int) -> dict[str, Any]:
    """Return the ratios of seconds per sweep with requests to those without."""
    served.ask(f"{project}/choices", keys=list(LEVELS), population="900000", time_limit="30m", seed=2)
    served.ask(f"{project}/run")
    progress = served.entry.parent / "projects" / project / "runs" / "1" / "progress.json"
    fit = next(child for child in served.children() if "keyhole.app.fit" in child.cmdline())
    while not progress.exists() or (now := json.loads(progress.read_text("utf-8")))["quick"] or not now["chains"]:
        time.sleep(0.5)
    time.sleep(3 * WINDOW)
    server = [psutil.Process(served.process.pid), *(child for child in served.children() if child.pid != fit.pid)]
    before = sum(sum(process.cpu_times()[:2]) for process in server)
    for _ in range(10):
        ask_at_once(served, project)
    used = sum(sum(process.cpu_times()[:2]) for process in server) - before
    found: dict[bool, list[tuple[float, ...]]] = {False: [], True: []}
    for window in range(2 * windows):
        busy = window % 2 == 1
        found[busy].append(measure_window(served, project, progress, fit, busy))
    served.ask(f"{project}/stop")
    kinds = ("wall", "processor")
    return {
        kind: statistics.median(one[k] for one in found[True]) / statistics.median(one[k] for one in found[False])
        for k, kind in enumerate(kinds)
    } | {
        "milliseconds_of_the_server": 100 * used,
        "seconds_per_sweep": {str(busy): [round(one[0], 5) for one in found[busy]] for busy in found},
    }


def main() -> None:
    """Print the figures as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        survey = make_survey(Path(folder), 5_000)
        found: dict[str, Any] = {"address_seconds": measure_address(survey)}
        with serve(Path(folder) / "home", str(survey)) as served:
            (project,) = (path.name for path in (served.entry.parent / "projects").iterdir())
            served.ask(f"{project}/choices", keys=list(LEVELS), population="900000")
            found["clicks_milliseconds"] = time_clicks(served, project)
            found["beside_a_run"] = measure_run(served, project, int(sys.argv[1]) if len(sys.argv) > 1 else 6)
        print(json.dumps({**found, "load": psutil.getloadavg()}, indent=2))


if __name__ == "__main__":
    main()
