"""What a user waits for before the first sweep, and the memory of a run: each in a process of its own."""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.machine import ROOT, peak_megabytes

COMMAND = "import sys; from keyhole.cli import main; sys.exit(main())"
KEYS = "AGE,SEX,MARST,RACESING,EDUC,EMPSTAT,DISABWRK,VETSTAT"


Environment = dict[str, str]


def measure(seconds: float, quick: bool, compile_cold: bool = False) -> dict[str, Any]:
    """Measure help, warm-up, a short run and, if asked, compilation from nothing."""
    with tempfile.TemporaryDirectory() as folder:
        environment = user_environment(Path(folder) / "bytecode")
        run_keyhole(environment, "warm-up")  # whatever is not compiled yet is compiled here
        run_keyhole(environment, "--help")
        found = measure_starts(environment)
        found["run"] = measure_run(environment, 1.0 if quick else min(seconds, 20.0))
        print(f"  a short run: peak {found['run']['peak_megabytes']:.0f} MB", flush=True)
        if compile_cold:
            cache = Path(folder) / "keyhole"
            found["compile"] = measure_compile({**environment, "KEYHOLE_CACHE": str(cache)}, cache)
    return found


def user_environment(bytecode: Path) -> Environment:
    """Return this environment with bytecode kept (in its own folder), as it is on a user's machine."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(bytecode)}


def run_python(environment: Environment, *arguments: str) -> tuple[float, float, str]:
    """Run this Python; return wall seconds, processor seconds and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    clock = time.perf_counter()
    told = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    wall = time.perf_counter() - clock
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, told.stdout


def run_keyhole(environment: Environment, *arguments: str) -> tuple[float, float, str]:
    """Run the command as the installed script does."""
    return run_python(environment, "-c", COMMAND, *arguments)


def measure_starts(environment: Environment) -> dict[str, Any]:
    """Return the median of five starts of Python alone, of `keyhole --help`, and of everything compiled."""
    starts = {
        "python": [run_python(environment, "-c", "pass") for _ in range(5)],
        "help": [run_keyhole(environment, "--help") for _ in range(5)],
        "warm_up": [run_keyhole(environment, "warm-up") for _ in range(3)],
    }
    found = {}
    for name, runs in starts.items():
        found[f"{name}_seconds"] = statistics.median(run[0] for run in runs)
        found[f"{name}_cpu_seconds"] = statistics.median(run[1] for run in runs)
    print(f"  keyhole --help {found['help_seconds']:.3f} s, warm-up when compiled {found['warm_up_seconds']:.2f} s")
    return found


def measure_run(environment: Environment, time_limit: float) -> dict[str, Any]:
    """Assess a file with four chains in a process of its own; return its peak memory and times."""
    return dict(json.loads(run_python(environment, "-m", "benchmarks.startup", str(time_limit))[2]))


def measure_compile(environment: Environment, cache: Path) -> dict[str, Any]:
    """Compile into an empty folder, then see whether a second start or a run compiles anything more."""
    cold = run_keyhole(environment, "warm-up")
    compiled = count_compiled(cache)
    second = run_keyhole(environment, "warm-up")
    after_second = count_compiled(cache)
    measure_run(environment, 1.0)
    added = count_compiled(cache) - after_second
    print(f"  compiled from nothing in {cold[0]:.1f} s, then {second[0]:.2f} s; a run added {added} files")
    return {
        "cold_seconds": cold[0],
        "cold_cpu_seconds": cold[1],
        "second_seconds": second[0],
        "second_cpu_seconds": second[1],
        "files": compiled,
        "added_by_second": after_second - compiled,
        "added_by_a_run": added,
    }


def count_compiled(cache: Path) -> int:
    """Return the number of files of machine code."""
    return sum(1 for _ in cache.rglob("*.nbc"))


def run_once(time_limit: float) -> dict[str, Any]:
    """Assess New York's adults, or simulated people where they are not at hand."""
    import keyhole
    from benchmarks.samples import ADULT_LEVELS, DATA, simulate_codes

    settings = {"time_limit": time_limit, "seed": 1}
    path = DATA / "ny_adults_5000.csv"
    if path.exists():
        name, source, codebook = path.stem, path, DATA / "ny_adults_codebook.json"
    else:
        import polars

        codes = simulate_codes(5000, ADULT_LEVELS)
        source = polars.DataFrame({key: codes[:, j] for j, key in enumerate(KEYS.split(","))})
        name, codebook = "simulated_5000", None
    found = keyhole.assess(source, KEYS, 712_174, codebook=codebook, **settings)
    return {"file": name, "peak_megabytes": peak_megabytes(), "seconds": dict(found.summary["seconds"])}


if __name__ == "__main__":
    print(json.dumps(run_once(float(sys.argv[1]))))
