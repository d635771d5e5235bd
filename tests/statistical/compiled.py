"""Compile helpers of the tests, cached under a key of all their sources and of what they use of keyhole.

Numba looks only at the caller's own file, so its own cache would serve stale helpers after an edit.
"""

import hashlib
from pathlib import Path

import numba

import keyhole.kernels.state
from keyhole.kernels.jit import kernel_hash

FOLDER = Path(__file__).parent


def _cache_folder(with_kernels: bool) -> Path:
    digest = hashlib.sha256((numba.__version__ + (kernel_hash() if with_kernels else "")).encode())
    paths = [*FOLDER.glob("*.py"), *(FOLDER.parent / "exact").glob("*.py")]
    for path in [*sorted(paths), Path(keyhole.kernels.state.__file__)]:
        if not path.name.startswith("test_"):
            digest.update(str(path).encode() + path.read_bytes())
    return FOLDER.parents[1] / ".pytest_cache" / "compiled" / digest.hexdigest()[:16]


def compiled(function, with_kernels: bool = False, **options: bool):
    """Compile a function that calls no kernel of keyhole, or one that does."""
    before = numba.config.CACHE_DIR
    folder = _cache_folder(with_kernels)
    folder.mkdir(parents=True, exist_ok=True)
    numba.config.CACHE_DIR = str(folder)
    try:
        return numba.njit(cache=True, **options)(function)
    finally:
        numba.config.CACHE_DIR = before
