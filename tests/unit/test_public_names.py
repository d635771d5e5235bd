"""`keyhole.__all__` is sorted, complete and cheap."""

import subprocess
import sys

import keyhole

HEAVY = ("numba", "numpy", "polars", "scipy", "pydantic", "arviz_stats", "h5netcdf", "narwhals", "yaml", "jinja2")


def test_public_names_are_sorted_and_exist():
    assert keyhole.__all__ == sorted(keyhole.__all__)
    assert dir(keyhole) == keyhole.__all__
    for name in keyhole.__all__:
        assert getattr(keyhole, name) is not None


def test_assess_is_the_function_although_a_module_has_its_name():
    code = "import keyhole, keyhole.results, keyhole.commands.assess; print(callable(keyhole.assess))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


def test_unknown_names_are_refused():
    assert not hasattr(keyhole, "fit")


def test_importing_and_help_load_nothing_heavy():
    code = (
        "import sys, keyhole, keyhole.cli\n"
        "try: keyhole.cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
