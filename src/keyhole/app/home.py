"""Where the page keeps its work: a private folder with one folder for each file, which outlives the server.

HOME/.lock, HOME/open-keyhole.html      the server that is running, and the file by which its user enters
HOME/incoming/                          uploads that are not complete
HOME/projects/ID/project.json           the file and what was chosen
HOME/projects/ID/data.csv               an uploaded file, never under the name it came with
HOME/projects/ID/codebook.yaml          the categories that exist, if they were given
HOME/projects/ID/strata-sizes.csv       the people in each stratum, if they were given
HOME/projects/ID/hierarchies/           hierarchies for plans, if they were given
HOME/projects/ID/variables.json         what reading the file has found
HOME/projects/ID/runs/1/                a run: what was asked, its progress, outcome and result folder
"""

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from keyhole.app.choices import LONGEST_NAME, Choices
from keyhole.errors import KeyholeError, OutputError
from keyhole.files import is_own, json_text, locked, write_text
from keyhole.words import clean_name

CODEBOOK = "codebook.yaml"
ENTRY = "open-keyhole.html"
IDENTIFIER = re.compile(r"[0-9a-f]{16}")
RUN = re.compile(r"[1-9][0-9]{0,4}")
ENDINGS = frozenset(
    {".csv", ".tsv", ".txt", ".tab", ".parquet", ".pq", ".sav", ".zsav", ".por", ".dta", ".sas7bdat", ".xpt"}
)
IDLE_SECONDS = 3600.0
"""After so long without use, an upload that was never run is removed."""

GZIPPED = frozenset({".csv", ".tsv", ".txt", ".tab"})


def state_folder() -> Path:
    """Return the folder of this user's work: KEYHOLE_STATE, XDG_STATE_HOME or ~/.local/state."""
    if "KEYHOLE_STATE" in os.environ:
        return Path(os.environ["KEYHOLE_STATE"])
    root = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(root) / "keyhole"


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the content of a file that is written here; None if it is absent or damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def choose_ending(name: str) -> str:
    """Return the ending under which an uploaded file is stored, from a fixed list; .csv for any other."""
    parts = [f".{part}" for part in name.lower().split(".")[1:]]
    if len(parts) > 1 and parts[-1] == ".gz" and parts[-2] in GZIPPED:
        return f"{parts[-2]}.gz"
    return parts[-1] if parts and parts[-1] in ENDINGS else ".csv"


def show_name(name: str) -> str:
    """Return the name of a file as the page shows it."""
    shown = clean_name(name.replace("\\", "/").rsplit("/", 1)[-1]).strip()
    return shown[:LONGEST_NAME] or "unnamed file"


@dataclass(frozen=True)
class Run:
    """One run of a project."""

    folder: Path

    @property
    def number(self) -> str:
        return self.folder.name

    @property
    def result(self) -> Path:
        """The result folder, as `keyhole assess --out` writes it."""
        return self.folder / "result"

    @property
    def kept(self) -> bool:
        """Whether there is work to go on with."""
        return (self.result / "checkpoint").is_dir()

    @property
    def plan(self) -> Path:
        """The folder of the plan, as `keyhole plan --out` writes it."""
        return self.folder / "plan"

    @property
    def protected(self) -> Path:
        """The file to which the plan was applied."""
        return self.folder / "protected.csv"

    @property
    def outcome(self) -> dict[str, Any] | None:
        """How it ended: state, message and, with a result, the numbers of the list; None if it has not ended."""
        return read_json(self.folder / "outcome.json")

    @property
    def has_result(self) -> bool:
        return (self.result / "manifest.json").is_file()


@dataclass(frozen=True)
class Project:
    """A file, what was chosen for it, and its runs. version: number of changes, by which two tabs keep in step."""

    folder: Path
    name: str
    file: str
    made: float
    version: int
    choices: Choices

    @property
    def identifier(self) -> str:
        return self.folder.name

    @property
    def uploaded(self) -> bool:
        """Whether the file is a copy of the page."""
        return Path(self.file).parent == self.folder

    @property
    def variables(self) -> dict[str, Any] | None:
        """What reading the file has found, unless the file has changed since."""
        found = read_json(self.folder / "variables.json")
        now = stamp(self.file) + stamp(self.codebook or "")
        return found if found is not None and found.get("stamp") == now else None

    @property
    def codebook(self) -> str | None:
        """The codebook of the file, if there is one."""
        path = self.folder / CODEBOOK
        return str(path) if path.is_file() else None

    @property
    def sizes(self) -> str | None:
        """The file with the people in each stratum, if the population is their sum."""
        name = self.choices.strata_sizes
        return str(self.sizes_path(name)) if name and self.choices.size == "strata" else None

    def sizes_path(self, name: str) -> Path:
        """Where a file of stratum sizes is stored that came under this name."""
        return self.folder / f"strata-sizes{choose_ending(name)}"

    @property
    def hierarchies(self) -> list[str]:
        """The hierarchies for plans, as --hierarchy takes them."""
        return self.list_hierarchies(self.choices.hierarchies)

    def list_hierarchies(self, keys: Iterable[str]) -> list[str]:
        """Return the hierarchies of these keys, as --hierarchy takes them."""
        return [f"{key}={self.hierarchy_path(key)}" if key else str(self.hierarchy_path(key)) for key in keys]

    def hierarchy_path(self, key: str) -> Path:
        """Where the hierarchy of a key is stored, or that of several keys; no name of a key is a path."""
        name = f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.csv" if key else "several.yaml"
        return self.folder / "hierarchies" / name

    @property
    def runs(self) -> list[Run]:
        """All runs, the latest first."""
        folder = self.folder / "runs"
        numbers = [path.name for path in folder.iterdir() if RUN.fullmatch(path.name)] if folder.is_dir() else []
        return [Run(folder / number) for number in sorted(numbers, key=int, reverse=True)]

    @property
    def run(self) -> Run | None:
        return next(iter(self.runs), None)

    @property
    def finished(self) -> Run | None:
        """The latest run that has a result."""
        return next((run for run in self.runs if run.has_result), None)

    def save(self) -> "Project":
        """Write the project; return it."""
        content = {"name": self.name, "file": self.file, "made": self.made, "version": self.version}
        write_text(json_text({**content, "choices": self.choices.model_dump()}), self.folder / "project.json")
        return self

    def change(self, changes: dict[str, Any]) -> "Project":
        """Return the project with other choices, written."""
        return replace(self, choices=self.choices.change(changes), version=self.version + 1).save()

    def start_run(self, asked: dict[str, Any], rules: str) -> Run:
        """Make the folder of a new run with what is asked of it; a last run that kept nothing makes room."""
        latest = self.run
        if latest is not None and not latest.kept and not latest.has_result:
            shutil.rmtree(latest.folder, ignore_errors=True)
            latest = self.run
        run = Run(self.folder / "runs" / str(1 if latest is None else int(latest.number) + 1))
        run.folder.parent.mkdir(mode=0o700, exist_ok=True)
        run.folder.mkdir(mode=0o700)
        if self.codebook is not None:
            write_text(Path(self.codebook).read_text(encoding="utf-8"), run.folder / CODEBOOK)
            asked = {**asked, "codebook": str(run.folder / CODEBOOK)}
        if self.sizes is not None:
            copy = run.folder / Path(self.sizes).name
            shutil.copyfile(self.sizes, copy)
            copy.chmod(0o600)
            asked = {**asked, "strata_sizes": str(copy)}
        if rules:
            write_text(rules, run.folder / "rules.yaml")
            asked = {**asked, "zeros": str(run.folder / "rules.yaml")}
        write_text(json_text({"file": self.file, "name": self.name, "options": asked}), run.folder / "request.json")
        return run


def stamp(file: str) -> str:
    """Return what changes when a file does; empty if it is gone."""
    try:
        found = os.stat(file)
    except OSError:
        return ""
    return f"{found.st_size} {found.st_mtime_ns}"


@dataclass(frozen=True)
class Home:
    """The private folder of all projects. now: the clock."""

    folder: Path
    now: Callable[[], float] = time.time

    @property
    def incoming(self) -> Path:
        return self.folder / "incoming"

    @property
    def projects(self) -> Path:
        return self.folder / "projects"

    def read(self, identifier: str) -> Project | None:
        """Return a project; None if there is none."""
        if not IDENTIFIER.fullmatch(identifier):
            return None
        folder = self.projects / identifier
        found = read_json(folder / "project.json")
        if found is None:
            return None
        try:
            choices = Choices.model_validate(found["choices"])
            return Project(folder, found["name"], found["file"], found["made"], found["version"], choices)
        except (KeyError, TypeError, ValueError):
            return None

    def list(self) -> list[Project]:
        """Return all projects, the newest first."""
        found = [self.read(path.name) for path in self.projects.iterdir()]
        return sorted((project for project in found if project is not None), key=lambda item: -item.made)

    def make(self, name: str, file: str | None = None, upload: Path | None = None) -> Project:
        """Make a project of a file where it is, or of a complete upload, which is moved there."""
        folder = self.projects / secrets.token_hex(8)
        folder.mkdir(mode=0o700)
        if upload is not None:
            stored = folder / f"data{choose_ending(name)}"
            os.replace(upload, stored)
            file = str(stored)
        return Project(folder, show_name(name), str(file), time.time(), 1, Choices()).save()

    def open(self, file: Path) -> Project:
        """Return the project of a file that stays where it is, a new one unless there is one."""
        path = str(file.absolute())
        for project in self.list():
            if project.file == path:
                return project
        return self.make(file.name, path)

    def remove(self, project: Project) -> None:
        """Remove a project with everything that the page has made for it; a file elsewhere stays."""
        shutil.rmtree(project.folder, ignore_errors=True)

    def use(self, project: Project) -> None:
        """Note that a project is in use."""
        with contextlib.suppress(OSError):
            os.utime(project.folder / "project.json", (self.now(), self.now()))

    def is_idle(self, project: Project) -> bool:
        """Whether an upload may go: not used for long, never run, and not to be kept."""
        if not project.uploaded or project.choices.stays == "always" or project.runs:
            return False
        try:
            used = (project.folder / "project.json").stat().st_mtime
        except OSError:
            return False
        return self.now() - used > IDLE_SECONDS

    def sweep(self) -> None:
        """Remove uploads that are not complete, folders without a project, and projects that were to be removed."""
        for path in self.incoming.iterdir():
            path.unlink(missing_ok=True)
        for path in self.projects.iterdir():
            project = self.read(path.name)
            if project is None or project.choices.stays == "session" or self.is_idle(project):
                shutil.rmtree(path, ignore_errors=True)


@contextmanager
def open_home(folder: Path) -> Iterator[Home]:
    """Hold the folder for one server; sweep it at the start and at the end."""
    home = Home(folder)
    for path in (folder, home.incoming, home.projects):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.stat()
        if not is_own(found) or (os.name != "nt" and found.st_mode & 0o077):
            raise OutputError(f"{path} is not private: make it a folder of yours with mode 0700, or set KEYHOLE_STATE.")
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(folder))
        except KeyholeError:
            raise OutputError(
                f"keyhole app is running already: open {folder / ENTRY} in your browser, or end it with Ctrl-C."
            ) from None
        home.sweep()
        try:
            yield home
        finally:
            home.sweep()
