"""What a result needs to be made again: versions, settings, seed, hash of the input; no values, no people."""

import importlib.metadata
import platform
from datetime import UTC, datetime
from typing import Any

from keyhole._version import __version__
from keyhole.kernels.jit import kernel_hash
from keyhole.microdata import Microdata
from keyhole.settings import Settings

LIBRARIES = ("arviz-stats", "h5netcdf", "h5py", "llvmlite", "narwhals", "numba", "numpy", "polars", "scipy")


def make_manifest(
    microdata: Microdata,
    population: int,
    settings: Settings,
    rules_fingerprint: str | None,
    started: datetime,
    seconds: dict[str, float],
) -> dict[str, Any]:
    """Return the content of manifest.json without the hashes of the outputs, which are added on writing."""
    return {
        "version": __version__,
        "settings": settings.model_dump(),
        "seed": settings.seed,
        "population": population,
        "input": {
            "sha256": microdata.fingerprint,
            "rows": microdata.rows,
            "used": len(microdata.codes),
            "keys": [variable.name for variable in microdata.variables],
            "ignored_keys": list(microdata.ignored),
            "levels": list(microdata.levels),
            **microdata.reading,
        },
        "rules": rules_fingerprint,
        "kernels": kernel_hash(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "libraries": {name: importlib.metadata.version(name) for name in LIBRARIES},
        "started": started.isoformat(timespec="seconds"),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": seconds,
    }
