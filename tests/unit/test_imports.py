"""Imports go one way: the arrows of DESIGN.md, read from the import statements themselves."""

import ast
from pathlib import Path

import pytest

import keyhole

ROOT = Path(keyhole.__file__).parent
# Each layer may import itself and those above it in this list.
LAYERS = [
    {"_version", "errors", "files", "readable", "seeds", "settings", "words"},
    {"data", "zeros"},
    {"kernels"},
    {"diagnostics"},
    {"sampling"},
    {"progress", "risk"},
    {"classical"},
    {"summary"},
    {"report"},
    {"plan"},
    {"results"},
    {"api"},
    {"app", "demo", "evaluation", "replaying"},
    {"commands"},
    {"cli"},
    {"__main__"},
]
# Kernels see nothing but kernels: Numba's cache is keyed by a hash of that folder. The classical estimators know data
# and rules, nothing of our model.
ONLY = {"kernels": {"kernels"}, "classical": {"classical", "data", "errors", "readable", "words", "zeros"}}
# The only way from data into the kernels is the plain tuple that encode() fills.
EXCEPTIONS = {("data", "keyhole.kernels.state")}


def home(name: str) -> str:
    """The module behind `from keyhole import name`."""
    return keyhole._HOME.get(name, f"keyhole.{name}")


def imports(path: Path) -> list[str]:
    """Every module of keyhole that the file imports, at the top, in functions and for type checkers."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found += [home(alias.name) if node.module == "keyhole" else str(node.module) for alias in node.names]
    return [name for name in found if name.split(".")[0] == "keyhole"]


def part(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def allowed(name: str) -> set[str]:
    if name in ONLY:
        return ONLY[name]
    below: set[str] = set()
    for layer in LAYERS:
        below |= layer
        if name in layer:
            return below
    raise AssertionError(f"{name} is in no layer")


FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_imports_go_down(path):
    name = part(path)
    for module in imports(path):
        target = module.split(".")[1]
        if (name, module) not in EXCEPTIONS:
            assert target in allowed(name), f"{name} imports {module}"


def test_a_wrong_arrow_would_be_seen():
    assert "sampling" not in allowed("kernels")
    assert "errors" not in allowed("kernels")
    assert "risk" not in allowed("sampling")
    assert "sampling" not in allowed("diagnostics")
    assert "kernels" not in allowed("zeros")
    assert "commands" not in allowed("api")
    assert "classical" not in allowed("risk")
    assert "risk" not in allowed("classical")


def test_every_module_has_a_layer():
    assert {part(path) for path in FILES} == set().union(*LAYERS)


def test_only_kernels_are_compiled():
    for path in FILES:
        if part(path) != "kernels":
            assert "import numba" not in path.read_text(encoding="utf-8"), path
            assert "from numba" not in path.read_text(encoding="utf-8"), path


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_modules_say_what_they_are(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree) or not tree.body, f"{path}: no docstring"


FORBIDDEN_CALLS = {"eval", "exec", "compile"}
FORBIDDEN_MODULES = {"pickle", "joblib", "marshal", "shelve"}


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_nothing_runs_code_from_data(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in FORBIDDEN_CALLS, path
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            assert (node.value.id, node.attr) not in {("yaml", "load"), ("yaml", "unsafe_load")}, path
        if isinstance(node, ast.Import):
            assert not {alias.name for alias in node.names} & FORBIDDEN_MODULES, path
