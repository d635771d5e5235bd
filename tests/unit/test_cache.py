"""The cache of compiled code: never stale after an edit of a callee, and never in a folder of others."""

import ast
import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import keyhole
from keyhole.kernels import jit

SCRIPT = """
import numpy as np
from keyhole.kernels.distributions import draw_log_beta, draw_log_gamma
from keyhole.kernels.jit import CACHE_FOLDER
print(draw_log_beta(np.random.default_rng(1), 2.0, 3.0), CACHE_FOLDER)
"""
CALLER = """
from keyhole.kernels.distributions import log_rising
from keyhole.kernels.jit import kernel

@kernel
def outer(x):
    return log_rising(x, 2)
"""


def run_copy(folder: Path) -> list[str]:
    """Call a kernel whose callee lives in another file of the copy; return result and cache folder."""
    script = "from keyhole.kernels.outer import outer\nfrom keyhole.kernels.jit import CACHE_FOLDER\n"
    script += "print(outer(3.0), CACHE_FOLDER)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "KEYHOLE_CACHE": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_an_edited_callee_changes_the_result(tmp_path):
    source = Path(keyhole.__file__).parent
    shutil.copytree(source, tmp_path / "keyhole", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "keyhole" / "kernels" / "outer.py").write_text(CALLER)
    before, folder = run_copy(tmp_path)
    assert float(before) == pytest.approx(2.4849066)  # log(3 x 4)
    assert any(Path(folder).rglob("*.nbi")), "nothing was cached: the test would prove nothing"
    again, same = run_copy(tmp_path)
    assert (again, same) == (before, folder)
    draws = tmp_path / "keyhole" / "kernels" / "distributions.py"
    text = draws.read_text()
    assert text.count("product *= start + i") == 1
    draws.write_text(text.replace("product *= start + i", "product *= start + i + 1"))
    after, other = run_copy(tmp_path)
    assert float(after) == pytest.approx(2.7080502)  # log(3 x 5)
    assert other != folder


def test_the_key_is_made_of_all_kernel_sources(tmp_path, monkeypatch):
    before = jit.kernel_hash()
    assert before == jit.kernel_hash()
    copy = tmp_path / "kernels"
    shutil.copytree(Path(jit.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(jit, "__file__", str(copy / "jit.py"))
    assert jit.kernel_hash() == before
    (copy / "inner").mkdir()
    (copy / "inner" / "new.py").write_text("")
    assert jit.kernel_hash() != before, "a folder within"
    before = jit.kernel_hash()
    for path in sorted(copy.rglob("*.py")):
        text = path.read_text()
        path.write_text(text + "\n")
        assert jit.kernel_hash() != before, path.name
        path.write_text(text)


def test_a_folder_that_others_can_write_is_refused(tmp_path):
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(0o700)
    assert jit.private_folder(folder)
    for mode in (0o720, 0o702, 0o777):
        folder.chmod(mode)
        assert not jit.private_folder(folder)


def test_a_new_folder_is_private(tmp_path):
    folder = tmp_path / "made" / "here"
    assert jit.private_folder(folder)
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    assert not jit.private_folder(tmp_path / "file" / "below")


def test_without_a_folder_code_is_compiled_in_memory(tmp_path):
    """A world-writable cache is not used, a line says so, and the result is the same."""
    folder = tmp_path / "open"
    folder.mkdir()
    (folder / jit.kernel_hash()[:16]).mkdir()
    (folder / jit.kernel_hash()[:16]).chmod(0o777)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "KEYHOLE_CACHE": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split()[1] == "None"
    assert "compiling in memory" in done.stderr
    assert not any(folder.rglob("*.nb*"))


def test_a_kernel_is_compiled_once_for_all_constants(tmp_path):
    """Numba would compile `callee` for 0, for 1 and for any other whole number."""
    (tmp_path / "constants.py").write_text(CONSTANTS)
    done = subprocess.run(
        [sys.executable, "-c", "import constants"], env={**os.environ, "PYTHONPATH": path_with(tmp_path)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["5", "1", "7", "1"]


def path_with(folder: Path) -> str:
    """PYTHONPATH with this folder, and keyhole from where it is now."""
    return os.pathsep.join([str(folder), str(Path(keyhole.__file__).parents[1])])


CONSTANTS = """
from keyhole.kernels.jit import inner, kernel

@inner
def callee(x, y):
    return x + y

@kernel
def outer(x):
    return callee(x, 0) + callee(1, x) + callee(0, 0)

print(outer(2), len(callee.overloads))
print(callee(3, 4), len(callee.overloads))
"""


ALLOCATING = """
import numba
import numpy as np
from keyhole.kernels.jit import allocating, inner, kernel

@allocating
def grow(array):
    return np.append(array, 1.0)

@inner
def grow_uncounted(array):
    return np.append(array, 1.0)

@kernel
def allowed(array):
    return grow(array).sum()

@kernel
def refused(array):
    return grow_uncounted(array).sum()

print(allowed(np.ones(3)))
try:
    refused(np.ones(3))
except numba.core.errors.NumbaError:
    print("refused")
"""


def test_inner_kernels_cannot_allocate(tmp_path):
    """They count no references to arrays, so nothing would free what they make."""
    (tmp_path / "allocating.py").write_text(ALLOCATING)
    done = subprocess.run(
        [sys.executable, "-c", "import allocating"], env={**os.environ, "PYTHONPATH": path_with(tmp_path)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["4.0", "refused"]


def test_keyhole_calls_no_inner_kernel_from_python():
    """It would work, but compile the kernel twice; only precompile names some, for the compiler."""
    called, inner = 0, []
    for path in Path(keyhole.__file__).parent.rglob("*.py"):
        if path.parent.name == "kernels" or path.name == "precompile.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("keyhole.kernels."):
                module = importlib.import_module(str(node.module))
                options = {
                    alias.name: getattr(getattr(module, alias.name), "targetoptions", {}) for alias in node.names
                }
                called += sum("no_cpython_wrapper" in found for found in options.values())
                inner += [f"{path.name}: {name}" for name, found in options.items() if found.get("no_cpython_wrapper")]
    assert called > 10
    assert not inner
