"""What the workflows, hooks, templates and metadata of the repository say about each other and about the package."""

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from keyhole._version import __version__

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = SETTINGS["project"]


def read_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def jobs(name: str) -> dict[str, Any]:
    return read_yaml(GITHUB / "workflows" / name)["jobs"]


def commands(job: dict[str, Any]) -> list[str]:
    return [step["run"] for step in job["steps"] if "run" in step]


def script_lines(name: str) -> list[str]:
    """The commands of a script without what it does for itself: its settings, its folder and its set-up."""
    lines = (ROOT / "scripts" / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith(("#", "set ", "cd ", "./scripts/setup"))]


def test_python_versions_are_the_same_everywhere():
    tested = jobs("tests.yml")["tests"]["strategy"]["matrix"]["python"]
    prefix = "Programming Language :: Python :: 3."
    assert tested == [name.split(" :: ")[-1] for name in PROJECT["classifiers"] if name.startswith(prefix)]
    assert PROJECT["requires-python"] == f">={tested[0]}"
    # The oldest dependencies are tried with the oldest Python, the newest with the newest.
    resolutions = jobs("tests.yml")["dependencies"]["strategy"]["matrix"]["include"]
    assert {entry["resolution"]: entry["python"] for entry in resolutions} == {
        "lowest-direct": tested[0],
        "highest": tested[-1],
    }


def test_a_system_is_claimed_only_if_its_tests_must_pass():
    job = jobs("tests.yml")["tests"]
    classifier = {
        "ubuntu-latest": "Operating System :: POSIX :: Linux",
        "macos-latest": "Operating System :: MacOS",
        "windows-latest": "Operating System :: Microsoft :: Windows",
    }
    assert set(job["strategy"]["matrix"]["os"]) == set(classifier)
    excused = set(re.findall(r"matrix\.os == '([\w-]+)'", str(job.get("continue-on-error", ""))))
    claimed = {name for name in PROJECT["classifiers"] if name.startswith("Operating System")}
    assert claimed == {classifier[name] for name in set(classifier) - excused}


def test_workflows_run_the_tests_that_scripts_run():
    wanted = next(line for line in script_lines("test") if ".venv/bin/pytest" in line)
    wanted = wanted.removeprefix("exec .venv/bin/pytest ").removesuffix(' "$@"')
    for name in ("tests", "dependencies"):
        assert commands(jobs("tests.yml")[name])[-1] == f"python -m pytest {wanted}"
    assert "./scripts/check" in commands(jobs("tests.yml")["check"])


def test_where_tests_decide_a_browser_must_be_there():
    assert "export CI=true" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "chromium" in (ROOT / "scripts" / "test").read_text(encoding="utf-8")
    systems = {entry["os"] for entry in jobs("tests.yml")["tests"]["strategy"]["matrix"]["include"]}
    assert systems == set(jobs("tests.yml")["tests"]["strategy"]["matrix"]["os"])
    for name in ("tests", "dependencies"):
        assert jobs("tests.yml")[name]["env"]["CHROMIUM"]


def test_hooks_run_what_the_check_runs():
    (repository,) = read_yaml(ROOT / ".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    assert {hook["language"] for hook in repository["hooks"]} == {"system"}
    entries = [hook["entry"] for hook in repository["hooks"]]
    assert entries in (["./scripts/check"], script_lines("check"))
    assert not any(hook["pass_filenames"] for hook in repository["hooks"])


def test_named_scripts_exist():
    named = set()
    for path in [*WORKFLOWS, ROOT / ".pre-commit-config.yaml", GITHUB / "pull_request_template.md"]:
        found = re.findall(r"\./(?!\.)([\w./-]*\w)", path.read_text(encoding="utf-8"))
        named |= {name for name in found if not name.endswith(".yml")}
    assert "scripts/check" in named
    for name in named:
        assert os.access(ROOT / name, os.X_OK), name
    for workflow in WORKFLOWS:
        for job in read_yaml(workflow)["jobs"].values():
            if "uses" in job:
                assert (ROOT / job["uses"]).is_file()


def test_a_release_is_tested_and_needs_no_stored_token():
    release = jobs("release.yml")
    assert release["publish"]["needs"] == "tests"
    assert release["tests"] == {"needs": "version", "uses": "./.github/workflows/tests.yml"}
    assert release["publish"]["permissions"] == {"id-token": "write"}
    for workflow in WORKFLOWS:
        text = workflow.read_text(encoding="utf-8")
        assert read_yaml(workflow)["permissions"] == {"contents": "read"}
        assert "secrets." not in text
        assert "password" not in text
    # What is published is what the tests built.
    (upload,) = (step for step in jobs("tests.yml")["build"]["steps"] if "upload-artifact" in step.get("uses", ""))
    (download,) = (step for step in release["publish"]["steps"] if "download-artifact" in step["uses"])
    assert upload["with"]["name"] == download["with"]["name"]


def test_the_tag_is_compared_with_the_line_of_the_version():
    (check,) = commands(jobs("release.yml")["version"])
    assert "grep ^__version__ src/keyhole/_version.py" in check
    lines = (ROOT / "src" / "keyhole" / "_version.py").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("__version__")] == [f'__version__ = "{__version__}"']


def test_the_citation_has_the_version_of_the_package():
    assert read_yaml(ROOT / "CITATION.cff")["version"] == __version__


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_forms_ask_for_no_data_about_people(path):
    form = read_yaml(path)
    assert {"name", "description", "body"} <= set(form)
    assert any("Never paste data about people" in part["attributes"].get("value", "") for part in form["body"])
    boxes = [part for part in form["body"] if part["type"] == "checkboxes"]
    assert [option["required"] for box in boxes for option in box["attributes"]["options"]] == [True]


def test_pull_requests_are_reminded_too():
    assert len(FORMS) == 2
    assert "Never paste data about people" in (GITHUB / "pull_request_template.md").read_text(encoding="utf-8")


def test_the_versions_that_scripts_install_are_within_the_bounds():
    pins: dict[str, list[str]] = {}
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            name, version = line.split(" ;")[0].split("==")
            pins.setdefault(name, []).append(version)
    for line in [*PROJECT["dependencies"], *SETTINGS["dependency-groups"]["dev"]]:
        requirement = Requirement(line)
        assert pins[requirement.name.lower()]
        for version in pins[requirement.name.lower()]:
            assert version in requirement.specifier, line


def test_libraries_whose_internals_are_used_have_an_upper_bound():
    bounded = {
        requirement.name
        for requirement in map(Requirement, PROJECT["dependencies"])
        if any(bound.operator == "<" for bound in requirement.specifier)
    }
    assert bounded == {"numba", "arviz-stats"}
