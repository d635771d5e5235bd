"""Projects, uploads and what is removed when."""

import asyncio
import json
import os
import shlex
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from keyhole.app.choices import Choices, make_options
from keyhole.app.home import Project, choose_ending, open_home, show_name
from keyhole.app.said import say
from keyhole.app.screens import differs
from keyhole.cli import group
from keyhole.commands.flags import read_merges
from keyhole.errors import KeyholeError, OutputError, SettingsError
from tests.unit.asgi import open_page

HOSTILE_NAMES = [
    "../../etc/passwd", "..%2F..%2Fx", "/etc/passwd", "C:\\Windows\\x.csv", "a/../../b.sav", "\x00.csv", "con.csv",
    "x" * 5000 + ".csv", ".bashrc", "~/.ssh/id", "a\r\nSet-Cookie: x=1", "<img src=x onerror=alert(1)>.csv", "", ".",
    "..", "name.parquet/../../x", "\u202egnp.exe", "data.csv.sh", "project.json", "runs",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_the_name_of_an_upload_is_never_a_path(tmp_path: Path, name: str) -> None:
    with open_page(tmp_path / "home") as opened:
        before = set(tmp_path.rglob("*"))
        sent = "".join(letter if " " < letter < "\x7f" else "%00" for letter in name)
        answer = opened.put([b"A,B\n1,2\n"], sent)
        assert answer.status == 200
        project = opened.page.home.read(json.loads(answer.body)["project"])
        assert project is not None
        made = set(tmp_path.rglob("*")) - before
        assert all(path == project.folder or path.parent == project.folder for path in made)
        assert {path.name.split(".")[0] for path in made - {project.folder}} == {"data", "project"}
        assert Path(project.file).stat().st_mode & 0o777 == 0o600
        shown = opened.get(f"/p/{project.identifier}/variables").body.decode()
        assert "<img" not in shown


def test_endings_come_from_a_list() -> None:
    assert choose_ending("Survey.SAV") == ".sav"
    assert choose_ending("a.b.csv.gz") == ".csv.gz"
    assert choose_ending("a.sav.gz") == ".csv"
    assert choose_ending("a.sh") == choose_ending("a") == choose_ending("a.csv/../x") == ".csv"
    assert show_name("a\u202eb\n.csv") == "a\ufffdb .csv"


def test_uploads_within_the_limit_are_whole_and_others_leave_nothing(tmp_path: Path) -> None:
    with open_page(tmp_path / "home", limit=10_000) as opened:
        home = opened.page.home
        answer = opened.put([b"x" * 4_000, b"y" * 6_000])
        project = home.read(json.loads(answer.body)["project"])
        assert project is not None
        assert Path(project.file).read_bytes() == b"x" * 4_000 + b"y" * 6_000
        # Announced: refused before anything is read. Not announced, or wrongly: as soon as it is too much.
        assert opened.put([b"z" * 10_001], "a", ("content-length", "10001")).read == 0
        assert opened.put([b"z" * 10_001], "a", ("content-length", "10001")).status == 413
        for more in ([], [("content-length", "5")], [("content-length", "x")]):
            answer = opened.put([b"z" * 6_000] * 9, "a", *more)
            assert answer.status == 413
            assert answer.read <= 12_000
        assert list(home.incoming.iterdir()) == []
        assert len(home.list()) == 1


def test_at_most_four_uploads_at_once(tmp_path: Path) -> None:
    with open_page(tmp_path / "home") as opened:
        opened.page.uploads.now = 4
        assert opened.put([b"a"]).status == 429
        opened.page.uploads.now = 3
        assert opened.put([b"a"]).status == 200
        assert opened.page.uploads.now == 3


def test_what_is_left_behind_is_swept_and_what_is_kept_stays(tmp_path: Path) -> None:
    data = tmp_path / "survey.csv"
    data.write_text("A,B\n1,2\n", encoding="utf-8")
    with open_home(tmp_path / "home") as home:
        kept = home.open(data)
        assert home.open(data) == kept
        passing = home.make("b.csv", str(data)).change({"stays": "session"})
        (home.incoming / "half").write_text("x", encoding="utf-8")
        (home.projects / "not-a-project").mkdir()
        assert {project.identifier for project in home.list()} == {kept.identifier, passing.identifier}
    assert [path.name for path in (tmp_path / "home" / "projects").iterdir()] == [kept.identifier]
    assert list((tmp_path / "home" / "incoming").iterdir()) == []
    assert data.exists()
    # After a kill the next start does it.
    (tmp_path / "home" / "incoming" / "half").write_text("x", encoding="utf-8")
    with open_home(tmp_path / "home") as home:
        assert list(home.incoming.iterdir()) == []
        found = home.read(kept.identifier)
        assert found == kept
        home.remove(kept)
        assert home.read(kept.identifier) is None
    assert data.exists()


def test_an_upload_that_is_not_used_goes_and_nothing_else(tmp_path: Path) -> None:
    """By a clock that is set; asking for a screen of it is use, and so is any question about it."""
    data = tmp_path / "survey.csv"
    data.write_text("A,B\n1,2\n", encoding="utf-8")
    with open_page(tmp_path / "home") as opened:
        page = opened.page

        def upload(**choices: str) -> Project:
            made = page.home.read(json.loads(opened.put([b"A,B\n1,2\n"]).body)["project"])
            assert made is not None
            return made.change(choices)

        def later(minutes: float) -> list[str]:
            """The projects that are left."""
            page.home = replace(page.home, now=lambda: time.time() + 60 * minutes)
            asyncio.run(page.remove_idle())
            return [project.identifier for project in page.home.list()]

        idle, used, kept, run, session = upload(), upload(), upload(stays="always"), upload(), upload(stays="session")
        named = page.home.open(data)
        run.start_run({"keys": ["A"]}, "")
        assert len(later(59)) == 6
        assert opened.get(f"/p/{used.identifier}/variables").status == 200
        page.children.desks[used.identifier] = SimpleNamespace(waiting={1: None})  # type: ignore[assignment]
        found = later(61)
        assert set(found) == {project.identifier for project in (used, kept, run, named)}
        assert not idle.folder.exists()
        assert not session.folder.exists()
        gone = opened.get(f"/p/{idle.identifier}/variables")
        assert gone.status == 404
        assert "not used for an hour" in gone.body.decode()
        assert used.identifier in later(200)  # somebody waits for an answer
        del page.children.desks[used.identifier]
        assert set(later(200)) == {project.identifier for project in (kept, run, named)}
        kept.change({"stays": "used"})
        page.home.sweep()  # as the next start of keyhole does
        assert [project.identifier for project in page.home.list() if project.identifier == kept.identifier] == []
    assert data.exists()


def test_folders_are_private_and_held_by_one_server(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with open_home(tmp_path / "home") as home:
            home.make("a.csv", "a.csv").start_run({"keys": ["A"]}, "[]")
            for path in [home.folder, *home.folder.rglob("*")]:
                assert path.stat().st_mode & 0o077 == 0, path
            with pytest.raises(OutputError, match="running already"), open_home(tmp_path / "home"):
                pass
    finally:
        os.umask(before)
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    with pytest.raises(OutputError, match="not private"), open_home(tmp_path / "open"):
        pass


@pytest.mark.parametrize("identifier", ["", "..", "../x", "x" * 16, "0" * 15, "0" * 17, "0" * 16 + "\n", "A" * 16])
def test_only_identifiers_are_looked_up(tmp_path: Path, identifier: str) -> None:
    with open_home(tmp_path / "home") as home:
        assert home.read(identifier) is None


@pytest.mark.parametrize("damage", ["", "[]", "{}", '{"name": 1}', "\x00"])
def test_a_damaged_project_is_no_project(tmp_path: Path, damage: str) -> None:
    with open_home(tmp_path / "home") as home:
        project = home.make("a.csv", "a.csv")
        (project.folder / "project.json").write_text(damage, encoding="utf-8")
        assert home.list() == []


def test_choices_that_do_not_exist_are_refused() -> None:
    for wrong in ({"keys": "A"}, {"nothing": 1}, {"seed": -1}, {"size": "x"}, {"rules": [{"rule": 5}]}, {"seed": True}):
        with pytest.raises(SettingsError):
            Choices().change(wrong)
    with pytest.raises(SettingsError):
        Choices().change({"rules": [{"rule": "x" * 10**6}]})


def test_options_follow_from_choices() -> None:
    chosen = Choices().change({"keys": ["A", "B"], "population": "20,293", "bands": {"A": "5y", "C": "2y", "B": " "}})
    assert make_options(chosen) == {"keys": ["A", "B"], "population": 20293, "bands": {"A": "5y"}}
    more = chosen.change({"size": "weight", "weight": "W", "household": "H", "strata": ["R"], "seed": 7, "quick": True})
    wanted = {"keys": ["A", "B"], "weight": "W", "household": "H", "strata": ["R"], "bands": {"A": "5y"}}
    assert make_options(more) == {**wanted, "seed": 7, "quick": True}
    assert make_options(chosen.change({"size": "fraction", "fraction": "5%"}))["fraction"] == 0.05
    judged = make_options(chosen.change({"policies": ["ema-0070"], "limits": "tau1.upper=5,all.max=0.1 tau2=9"}))
    assert judged["policy"] == ["ema-0070", "tau1.upper=5", "all.max=0.1", "tau2=9"]
    assert "time_limit" not in make_options(chosen.change({"time_limit": "600s"}))
    for changes in (
        {"keys": []},
        {"population": ""},
        {"population": "many"},
        {"size": "weight"},
        {"time_limit": "soon"},
    ):
        with pytest.raises(KeyholeError):
            make_options(chosen.change(changes))


def test_merges_of_keys_are_options_of_the_run(tmp_path: Path) -> None:
    merged = {"A": [["1", "2"], ["it's", "x,y"]], "B": [], "C": [["u", "v"]]}
    chosen = Choices().change({"keys": ["A", "B"], "population": "900", "merged": merged})
    assert make_options(chosen)["merge"] == {"A": merged["A"]}
    project = Project(tmp_path, "a.csv", "/tmp/a.csv", 0.0, 1, chosen)
    for screen in ("variables", "run"):
        said = say(screen, project)
        words = shlex.split(said["command"].splitlines()[-1])
        assert read_merges(None, None, (words[words.index("--merge") + 1],)) == {"A": merged["A"]}  # type: ignore[arg-type]
        assert f"merge={ {'A': merged['A']}!r}" in said["python"]


def test_a_file_of_stratum_sizes_goes_with_the_run(tmp_path: Path) -> None:
    with open_page(tmp_path / "home") as opened:
        made = opened.page.home.make("a.csv", "a.csv").change({"keys": ["A"], "size": "strata", "strata": ["R"]})
        where = f"/api/{made.identifier}/strata-sizes"

        def read() -> Project:
            found = opened.page.home.read(made.identifier)
            assert found is not None
            return found

        with pytest.raises(SettingsError, match="strata"):
            make_options(made.choices)
        for content, name in ((b"R,N\nx,10\n", "../../sizes.csv"), (b"R,N\nx,11\n", "<b>.tsv")):
            assert opened.put([content], name, path=where).status == 200
            assert [path.read_bytes() for path in made.folder.glob("strata-sizes*")] == [content]
        project = read()
        assert project.choices.strata_sizes == "<b>.tsv"
        assert project.sizes == str(made.folder / "strata-sizes.tsv")
        assert Path(project.sizes).stat().st_mode & 0o777 == 0o600
        assert b"<b>.tsv" not in opened.get(f"/p/{made.identifier}/run").body
        assert f"--strata-sizes {project.sizes}" in say("run", project)["command"]
        options = make_options(project.choices)
        assert "population" not in options
        run = project.start_run(options, "")
        asked = json.loads((run.folder / "request.json").read_text(encoding="utf-8"))["options"]
        assert Path(asked["strata_sizes"]) == run.folder / "strata-sizes.tsv"
        assert not differs(project, run)
        assert opened.put([b"R,N\nx,12\n"], "b.tsv", path=where).status == 200
        assert differs(read(), run)
        assert opened.put([b"x" * 3_000_000], "b.tsv", path=where).status == 413
        assert opened.put([b""], "", path=where).status == 200
        assert (read().sizes, read().choices.size, list(made.folder.glob("strata-sizes*"))) == (None, "population", [])


def test_a_plan_is_asked_as_it_is_said(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "1" / "result"
    run.mkdir(parents=True)
    (run / "manifest.json").write_text("{}", encoding="utf-8")
    chosen = Choices().change({
        "plan_limits": "tau1.upper=5", "plan_keep": ["SEX"], "plan_importance": {"EDUC": 3, "AGE": 0.5},
        "hierarchies": {"": "all.yaml", "../EDUC": "x.csv"},
    })  # fmt: skip
    project = Project(tmp_path, "a.csv", "a.csv", 0.0, 1, chosen)
    several, table = project.hierarchies
    assert several == str(tmp_path / "hierarchies" / "several.yaml")
    assert table.partition("=")[0] == "../EDUC"
    assert Path(table.partition("=")[2]).parent == tmp_path / "hierarchies"
    said = say("help", project)
    words = shlex.split(said["command"].splitlines()[0])
    for flag, values in (
        ("--importance", ["EDUC=3", "AGE=0.5"]),
        ("--hierarchy", [several, table]),
        ("--keep", ["SEX"]),
    ):
        assert [words[place + 1] for place, word in enumerate(words) if word == flag] == values
    assert "importance={'EDUC': 3.0, 'AGE': 0.5}" in said["python"]
    assert f"hierarchy={[several, table]!r}" in said["python"]


def test_a_codebook_comes_and_goes(tmp_path: Path) -> None:
    with open_page(tmp_path / "home") as opened:
        project = opened.page.home.make("a.csv", "a.csv").change({"keys": ["A"], "population": "900"})
        where = f"/api/{project.identifier}/codebook"
        assert project.codebook is None
        assert opened.put([b"A: [1,", b" 2]"], path=where).status == 200
        assert project.codebook is not None
        assert Path(project.codebook).read_text(encoding="utf-8") == "A: [1, 2]"
        assert "--codebook" in opened.get(f"/p/{project.identifier}/run").body.decode()
        run = project.start_run(make_options(project.choices), "")
        asked = json.loads((run.folder / "request.json").read_text(encoding="utf-8"))["options"]
        assert Path(asked["codebook"]).read_text(encoding="utf-8") == "A: [1, 2]"
        assert not differs(project, run)
        assert opened.put([b"\xff\xfe\xfa"], path=where).status == 422
        assert opened.put([b"x" * 3_000_000], path=where).status == 413
        assert opened.put([b"A: [1, 2, 3]"], path=where).status == 200
        assert differs(project, run)
        assert opened.put([b" "], path=where).status == 200
        assert project.codebook is None


def test_a_release_follows_from_choices() -> None:
    merge = {"A": [["1", "2"]], "B": [["x", "y"], ["z", "u"]], "C": []}
    chosen = Choices().change({"drop": ["A"], "merge": merge})
    assert chosen.release() == {"drop": ["A"], "recode": {"B": merge["B"]}}
    more = chosen.change({"remove": " r1>0.2 ", "subsample": "50%", "policies": ["ema-0070"], "limits": "tau1=5"})
    wanted = {"remove": "r1>0.2", "subsample": 0.5, "policy": ["ema-0070", "tau1=5"]}
    assert more.release() == {**chosen.release(), **wanted}
    with pytest.raises(SettingsError):
        chosen.change({"subsample": "half"}).release()


@pytest.mark.parametrize("groups", [
    [["1", "2"], ["3", "4"]], [["Installation, repair", "Construction"]], [["", "it's"], ["a|b", 'say "x"']],
    [[" padded ", "a-b", "50+"]], [["<b>", "&amp;", "$HOME", "`ls`", ";rm"]],
])  # fmt: skip
def test_the_command_of_a_merge_reads_back_as_the_merge(tmp_path: Path, groups: list[list[str]]) -> None:
    """Through the shell and the reader of the command line."""
    run = tmp_path / "runs" / "1" / "result"
    run.mkdir(parents=True)
    (run / "manifest.json").write_text("{}", encoding="utf-8")
    project = Project(tmp_path, "a.csv", "/tmp/it's a file.csv", 0.0, 1, Choices().change({"merge": {"KEY 1": groups}}))
    words = shlex.split(say("help", project)["command"])
    assert words[:4] == ["keyhole", "what-if", str(run), "--data"]
    assert words[4] == project.file
    assert read_merges(None, None, (words[words.index("--merge") + 1],)) == {"KEY 1": groups}  # type: ignore[arg-type]


def test_a_change_is_kept_and_counted(tmp_path: Path) -> None:
    with open_page(tmp_path / "home") as opened:
        project = opened.page.home.make("a.csv", "a.csv")
        where = f"/api/{project.identifier}"
        answer = opened.post(f"{where}/choices", json.dumps({"keys": ["A"], "population": "900"}))
        assert json.loads(answer.body)["version"] == 2
        assert opened.page.home.read(project.identifier).choices.keys == ["A"]  # type: ignore[union-attr]
        assert json.loads(opened.get(f"{where}/version").body) == {"version": 2, "run": "none"}
        assert opened.post(f"{where}/choices", '{"keys": 5}').status == 422
        assert opened.post(f"{where}/choices", "[" * 3_000_000).status == 413
        assert opened.post(f"{where}/choices", "{").status == 400
        assert json.loads(opened.get(f"{where}/version").body)["version"] == 2
        started = time.process_time()
        for _ in range(20):
            opened.get(f"/p/{project.identifier}/run")
        assert time.process_time() - started < 20 * 0.3


def test_the_server_loads_nothing_that_is_slow() -> None:
    """So that its address is there at once; what reads data is in processes of its own."""
    slow = "print(sorted({'polars', 'numpy', 'numba', 'pandas', 'scipy'} & set(sys.modules)))"
    found = subprocess.run(
        [sys.executable, "-c", f"import sys, keyhole.app.server; {slow}"], capture_output=True, text=True
    )
    assert found.stdout == "[]\n", found.stderr


@pytest.mark.parametrize("package", ["starlette", "uvicorn"])
def test_without_its_packages_the_command_says_what_to_install(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == package or name.startswith("keyhole.app.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    found = CliRunner().invoke(group, ["app", "--no-browser"], standalone_mode=False)
    assert isinstance(found.exception, KeyholeError)
    assert "pip install 'keyhole[app]'" in str(found.exception)
