"""Every example of docs/files.md is run, in order, in one folder."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from keyhole.cli import main

DOCUMENT = Path(__file__).parents[2] / "docs" / "files.md"
QUICK = ("--max-sweeps", "20", "--chains", "2")
CONVERGED_OR_NOT = (0, 3)


def test_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = re.findall(r"```(console|python)\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert len(found) == 10
    for language, text in found:
        if language == "python":
            subprocess.run([sys.executable, "-c", text], check=True)
            continue
        for line in text.splitlines():
            arguments = shlex.split(line)[2:]
            with pytest.raises(SystemExit) as stopped:
                main([*arguments, *(QUICK if arguments[0] == "assess" else ())])
            assert stopped.value.code in CONVERGED_OR_NOT, line
    for folder in ("banded", "dropped", "na", "db", "cells", "counted"):
        assert (tmp_path / "country" / folder / "summary.json").exists()
