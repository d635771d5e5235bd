"""Decorators for compiled code, and the cache of machine code.

When Numba looks into its cache it checks only the file of the function itself: after an edit of a callee it would run
the old sampler without a warning. So the cache folder is named after a hash of every file in this folder and of the
compiler's version. The folder is private; if it is not, or cannot be written, code is compiled in memory.
"""

import hashlib
import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite
import numba

config: Any = numba.config

logger = logging.getLogger("keyhole")


def kernel_hash() -> str:
    """Return the SHA-256 of all kernel sources and of the compiler's version."""
    digest = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__}".encode())
    folder = Path(__file__).parent
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def user_cache() -> Path:
    """Return the folder for cached files of this user: KEYHOLE_CACHE, XDG_CACHE_HOME or ~/.cache."""
    if "KEYHOLE_CACHE" in os.environ:
        return Path(os.environ["KEYHOLE_CACHE"])
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "keyhole"


def private_folder(path: Path) -> bool:
    """Make the folder, and return whether it belongs to this user and no one else can write to it."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.stat()
        writable = os.access(path, os.W_OK | os.X_OK)
    except (OSError, RuntimeError):
        return False
    mine = not hasattr(os, "getuid") or found.st_uid == os.getuid()
    return mine and writable and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _choose_cache() -> Path | None:
    folder = user_cache() / kernel_hash()[:16]
    if private_folder(folder):
        return folder
    logger.warning(
        "%s is not a private folder that can be written; compiling in memory. "
        "Set KEYHOLE_CACHE to a folder of your own to compile only once.",
        folder,
    )
    return None


CACHE_FOLDER = _choose_cache()


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function without the interpreter lock, cached under CACHE_FOLDER."""
    compiled: Callable[..., Any] = _compile(function, CACHE_FOLDER, wrapped=True)
    return compiled


def inner(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that only other kernels call, and that works on the arrays that it is given.

    It has no entry point for Python, which takes less time, and does not count references to arrays: for every array
    taken from a tuple these are two atomic additions, a third of the time of some kernels. So it cannot allocate, which
    the compiler checks. Tests may still call it from Python; it is then compiled again, as a kernel.
    """
    return _compile_inner(function, counted=False)


def allocating(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile an inner function that makes arrays or calls one that does."""
    return _compile_inner(function, counted=True)


def _compile_inner(function: Callable[..., Any], counted: bool) -> Callable[..., Any]:
    if config.DISABLE_JIT:
        return function
    compiled = _compile(function, CACHE_FOLDER, wrapped=False, counted=counted)
    called: list[Callable[..., Any]] = []

    def find_kernel(*_: Any) -> Callable[..., Any]:
        if not called:
            folder = None if CACHE_FOLDER is None else CACHE_FOLDER / "called"
            called.append(_compile(function, folder, wrapped=True))
        return called[0]

    # Python would jump to the entry point that does not exist, so only the compiler learns of the function.
    compiled.add_overload = lambda result: compiled.overloads.update({tuple(result.signature.args): result})
    compiled._compile_for_args = find_kernel
    entry: Callable[..., Any] = compiled
    return entry


def _compile(function: Callable[..., Any], folder: Path | None, wrapped: bool, counted: bool = True) -> Any:
    """Pass a function to Numba. Division by zero follows NumPy, so that loops with divisions can be vectorised."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": counted}
    options |= {"no_cpython_wrapper": not wrapped, "cache": folder is not None}
    before = config.CACHE_DIR
    config.CACHE_DIR = str(folder or "")
    try:
        compiled: Any = numba.njit(**options)(function)
    finally:
        config.CACHE_DIR = before
    if not config.DISABLE_JIT:
        # Otherwise a kernel called with constants would be compiled separately for 0, for 1 and for other numbers.
        resolve, unliteral = compiled.get_call_template, numba.types.unliteral
        compiled.get_call_template = lambda arguments, named: resolve(tuple(map(unliteral, arguments)), named)
    return compiled


def compile_for(compiled: Any, arguments: tuple[Any, ...]) -> None:
    """Compile a kernel for arguments of these types, without running it."""
    typeof: Any = numba.typeof
    compiled.compile(tuple(typeof(argument) for argument in arguments))
