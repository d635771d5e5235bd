"""Where a figure was measured: processor, versions, load and commit; no host and no user."""

import os
import platform
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def describe_machine() -> dict[str, Any]:
    """Return the processor and the versions of what the figures depend on."""
    import llvmlite
    import numba
    import numpy

    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
        "numpy": numpy.__version__,
    }


def cpu_model() -> str:
    """Return the processor's name as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def load_average() -> list[float]:
    """Return the load over 1, 5 and 15 minutes: above the number of cores, wall times mean little."""
    try:
        return [round(value, 2) for value in os.getloadavg()]
    except OSError:
        return []


def describe_code() -> dict[str, Any]:
    """Return the commit, whether the sources differ from it, and the hash of the kernels."""
    from keyhole.kernels.jit import kernel_hash

    return {
        "commit": ask_git("rev-parse", "--short", "HEAD") or "unknown",
        "changed": bool(ask_git("status", "--porcelain", "--", "src")),
        "kernels": kernel_hash()[:16],
    }


def ask_git(*arguments: str) -> str:
    """Return what git says about this folder, nothing if there is no git."""
    try:
        told = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return told.stdout.strip()


def peak_megabytes() -> float:
    """Return the most memory that this process has held.

    The kernel's own count for this program comes first: getrusage also counts the parent that started it.
    """
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / 2**20 if sys.platform == "darwin" else peak / 1024
