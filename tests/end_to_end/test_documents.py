"""What the documents show is run: every `$ keyhole` line and every Python block, in order."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = {"README.md": ("trial", "country"), "docs/running.md": ("trial",)}
CONVERGED_OR_NOT = (0, 3)


def blocks(document: str) -> list[tuple[str, str]]:
    return re.findall(r"```(console|python)\n(.*?)```", (ROOT / document).read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("document", ["README.md", pytest.param("docs/running.md", marks=pytest.mark.long)])
def test_examples_run(document, tmp_path):
    command = str(Path(sys.executable).with_name("keyhole"))
    found = blocks(document)
    assert found
    for language, text in found:
        # A short run shows that the example works; how long chains need is not the matter here.
        text = text.replace("seed=1)", "seed=1, max_sweeps=60)").replace("/risk\n", "/risk --max-sweeps 60\n")
        if language == "python":
            calls = [[sys.executable, "-c", text]]
        else:
            calls = [[command, *shlex.split(line)[2:]] for line in text.splitlines() if line.startswith("$ keyhole ")]
            assert calls
        for call in calls:
            done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, check=False)
            assert done.returncode in CONVERGED_OR_NOT, f"{call}: {done.stderr}"
    for folder in DOCUMENTS[document]:
        assert '"max_sweeps": 60' in (tmp_path / folder / "risk" / "summary.json").read_text(encoding="utf-8")


def test_links_lead_somewhere():
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_every_flag_in_the_readme_exists():
    import click

    from keyhole.cli import COMMANDS, group

    known = {"--help"}
    for name in COMMANDS:
        command = group.get_command(click.Context(group), name)
        children = command.commands.values() if isinstance(command, click.Group) else [command]
        known |= {flag for child in children for option in child.params for flag in option.opts}
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]+", text):
        assert flag in known, flag


def test_constraints_name_no_index():
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        assert line.startswith("#") or re.fullmatch(r'[\w.-]+==[\w.]+( ; python_version (<|>=) "3\.12")?', line), line
