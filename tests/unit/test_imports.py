"""Imports go one way: the arrows of DESIGN.md, read from the import statements themselves."""

import ast
from pathlib import Path

import pytest

import keyhole

ROOT = Path(keyhole.__file__).parent
SHARED = {"errors", "exports", "files", "locking", "seeds", "settings", "microdata", "words", "zeros", "_version"}
# Each layer may import itself, the layers below it, and what is shared.
LAYERS = [
    {"kernels"},
    {"sampling"},
    {"risk"},
    {"report"},
    {"assessment", "summary", "manifest", "results", "draws_file", "certain", "explain", "preparation", "assess"},
]
TOP = {"demo", "simulation", "comparison", "validation", "commands", "cli", "app"}
# The classical estimators know data and rules, nothing of our model; only the top and `explain` know them.
ASIDE = {"classical"}
# The only way from shared modules into the kernels is the plain tuple that encode() fills.
EXCEPTIONS = {
    ("microdata", "keyhole.kernels.state"),
    ("explain", "keyhole.classical"),
    ("explain", "keyhole.classical.quick"),
}


def imports(path: Path) -> list[str]:
    """Every module of keyhole that the file imports, at the top, in functions and for type checkers."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found += [
                f"{node.module}.{alias.name}" if node.module == "keyhole" else str(node.module) for alias in node.names
            ]
    return [name for name in found if name.split(".")[0] == "keyhole"]


def part(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def allowed(name: str) -> set[str]:
    if name == "kernels":
        return {"kernels"}
    if name in SHARED:
        return SHARED
    if name in ASIDE:
        return ASIDE | SHARED
    below: set[str] = set()
    for layer in LAYERS:
        below |= layer
        if name in layer:
            return below | SHARED
    return below | SHARED | ASIDE | TOP


FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_imports_go_down(path):
    name = part(path)
    for module in imports(path):
        target = module.split(".")[1]
        if (name, module) not in EXCEPTIONS:
            assert target in allowed(name), f"{name} imports {module}"


def test_nobody_imports_the_module_that_shares_its_name_with_a_function():
    for path in FILES:
        assert "from keyhole.assess import" not in path.read_text(encoding="utf-8"), path


def test_a_wrong_arrow_would_be_seen():
    assert "sampling" not in allowed("kernels")
    assert "errors" not in allowed("kernels")
    assert "risk" not in allowed("sampling")
    assert "kernels" not in allowed("zeros")
    assert "commands" not in allowed("assess")
    assert "classical" not in allowed("assess")
    assert "risk" not in allowed("classical")


def test_only_kernels_are_compiled():
    for path in FILES:
        if part(path) != "kernels":
            assert "import numba" not in path.read_text(encoding="utf-8"), path
            assert "from numba" not in path.read_text(encoding="utf-8"), path


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_modules_and_functions_are_short_or_defended(path):
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert ast.get_docstring(tree) or not tree.body, f"{path}: no docstring"
    # A longer module defends itself in its docstring, with the words "300 lines".
    defended = "300 lines" in (ast.get_docstring(tree) or "")
    assert defended or len(text.splitlines()) <= 300, f"{path}: more than 300 lines"


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
