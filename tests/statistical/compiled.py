"""Compile helpers of the tests, cached under a key of all their sources and of what they use of keyhole.

Numba looks only at the caller's own file, so its own cache would serve stale helpers after an edit.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

import keyhole.kernels.state
from keyhole.kernels.jit import kernel_hash

FOLDER = Path(__file__).parent


def _cache_folder(also: str) -> Path:
    digest = hashlib.sha256((numba.__version__ + also).encode())
    paths = [*FOLDER.glob("*.py"), *(FOLDER.parent / "exact").glob("*.py")]
    for path in [*sorted(paths), Path(keyhole.kernels.state.__file__)]:
        if not path.name.startswith("test_"):
            digest.update(str(path).encode() + path.read_bytes())
    return FOLDER.parents[1] / ".pytest_cache" / "compiled" / digest.hexdigest()[:16]


def compiled(function, also: str = ""):
    """Compile a function that calls no kernel of keyhole."""
    if numba.config.DISABLE_JIT:
        return function
    before = numba.config.CACHE_DIR
    folder = _cache_folder(also)
    folder.mkdir(parents=True, exist_ok=True)
    numba.config.CACHE_DIR = str(folder)
    try:
        return numba.njit(cache=True)(function)
    finally:
        numba.config.CACHE_DIR = before


def compiled_calls(name: str, before: str, kernels: tuple[Callable[..., Any], ...], given: dict[str, Any]) -> Any:
    """Compile the function `before`, with calls of these kernels, one after the other, in place of its last line.

    Numba caches no function that has kernels in its closure: here they are globals of a text of its own.
    """
    head, _, last = before.rstrip().rpartition("\n")
    indent = last[: len(last) - len(last.lstrip())]
    calls = [f"{indent}kernel{x}(rng, records, prior, state, work)" for x in range(len(kernels))]
    scope = {**given, **{f"kernel{x}": kernel for x, kernel in enumerate(kernels)}}
    text = "\n".join([head, *calls, ""]).replace("NAME", name)
    exec(compile(text, __file__, "exec"), scope)
    return compiled(scope[name], kernel_hash() + text + str([kernel.__name__ for kernel in kernels]))
