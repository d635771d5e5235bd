"""draws.nc: NetCDF in the layout of ArviZ, written without xarray. The same draws give the same bytes."""

from pathlib import Path
from typing import Any

import h5netcdf
import numpy as np
from numpy.typing import NDArray

from keyhole._version import __version__
from keyhole.results.assessment import CHAIN_QUANTITIES

Arrays = dict[str, NDArray[Any]]
LARGE = 10_000


def write_draws(draws: Arrays, profiles: Arrays, path: Path, boxes: Arrays | None = None) -> None:
    """Write scalar quantities (chain, draw); the kept profiles, and the boxes of rules, in groups of their own."""
    with h5netcdf.File(path, "w") as file:
        _write_group(file, "posterior", {name: v for name, v in draws.items() if name not in CHAIN_QUANTITIES})
        _write_group(file, "sample_stats", {name: v for name, v in draws.items() if name in CHAIN_QUANTITIES})
        _write_group(file, "profiles", profiles)
        _write_group(file, "boxes", boxes or {}, ())


def read_draws(path: Path) -> tuple[dict[str, NDArray[np.float64]], Arrays, Arrays]:
    """Return what `write_draws` was given."""
    with h5netcdf.File(path, "r") as file:
        draws = _read_group(file, "posterior") | _read_group(file, "sample_stats")
        return draws, _read_group(file, "profiles"), _read_group(file, "boxes")


def _write_group(file: h5netcdf.File, name: str, arrays: Arrays, shared: tuple[str, ...] = ("chain", "draw")) -> None:
    """Name the first axes as in `shared`, any others after the array and their place."""
    if not arrays:
        return
    group = file.create_group(name)
    group.attrs["inference_library"] = "keyhole"
    group.attrs["inference_library_version"] = __version__
    for array_name, array in arrays.items():
        own = (f"{array_name}_dim_{place}" for place in range(array.ndim - len(shared)))
        axes = (*shared, *own)[: array.ndim]
        for axis, size in zip(axes, array.shape, strict=True):
            if axis in group.dimensions and group.dimensions[axis].size != size:
                raise ValueError(f"{array_name} has another number of entries along {axis} than its group")
            if axis not in group.dimensions:
                group.dimensions[axis] = size
                group.create_variable(axis, (axis,), "int64", data=np.arange(size))
        packing = {"compression": "gzip", "compression_opts": 4} if array.size > LARGE else {}
        group.create_variable(array_name, axes, array.dtype, data=array, **packing)


def _read_group(file: h5netcdf.File, name: str) -> Arrays:
    if name not in file.groups:
        return {}
    group = file.groups[name]
    return {found: np.asarray(group.variables[found]) for found in group.variables if found not in group.dimensions}
