"""What Windows and macOS do not have is not needed: modules of POSIX, forked processes, consoles in UTF-8, colours."""

import os
import subprocess
import sys

import polars as pl
import pytest

# psutil and filelock have code of their own for each system, and that for Linux uses these modules; so they come first.
BLOCK = """
import multiprocessing, os, sys
import filelock, psutil
for name in ("fcntl", "resource", "termios", "pwd", "grp"):
    sys.modules[name] = None
for name in ("fork", "getuid", "geteuid", "O_NOFOLLOW", "O_CLOEXEC", "sysconf", "pread", "sched_getaffinity"):
    delattr(os, name)
multiprocessing.set_start_method("spawn", force=True)
"""
CORE = """
import sys
import keyhole as kh
if __name__ == "__main__":
    blocked = [name for name in ("fcntl", "resource", "termios", "pwd", "grp") if sys.modules[name] is None]
    assert len(blocked) == 5, blocked
    a = kh.assess("file.csv", "A,B,C", 4_000, chains=2, max_sweeps=16, scheduler=sys.argv[1], checkpoint="kept")
    a.save("result")
    b = kh.load("result")
    b.report("again.html")
    print(b.tau1.mean == a.tau1.mean, b.records.equals(a.records))
"""


@pytest.fixture
def folder(tmp_path, rng):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(BLOCK)
    (tmp_path / "core.py").write_text(CORE)
    columns = {name: rng.integers(0, 4 + j, 200) for j, name in enumerate("ABC")}
    pl.DataFrame(columns).write_csv(tmp_path / "file.csv")
    return tmp_path


def run(folder, *command, **environment):
    path = os.pathsep.join(filter(None, (str(folder / "site"), os.environ.get("PYTHONPATH"))))
    return subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, **environment},
        check=False,
    )


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_the_core_needs_nothing_that_only_posix_has(folder, scheduler):
    """With processes each is spawned, and blocks the same."""
    done = run(folder, "-W", "ignore", "core.py", scheduler)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.split() == [b"True", b"True"]
    assert (folder / "again.html").stat().st_size > 10_000


def test_statistical_files_are_read_without_limits_of_posix(folder):
    pyreadstat = pytest.importorskip("pyreadstat")
    pyreadstat.write_sav(pl.read_csv(folder / "file.csv").to_pandas(), str(folder / "file.sav"))
    done = run(folder, "-m", "keyhole", "inspect", "file.sav")
    assert done.returncode == 0, done.stderr.decode()
    assert b"200" in done.stdout


@pytest.mark.parametrize("encoding", ["cp1252", "cp437"])
def test_a_console_of_windows_shows_what_it_cannot_write(folder, encoding):
    """Names and categories that the console has no characters for are escaped; nothing fails."""
    frame = pl.read_csv(folder / "file.csv").rename({"A": "年齢", "B": "Größe"})
    frame.with_columns(pl.col("年齢").cast(pl.String) + "歳").write_csv(folder / "文.csv")
    shown = {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0", "COLUMNS": "80"}
    for command in (
        ("inspect", "文.csv"),
        ("zeros", "suggest", "文.csv", "--keys", "年齢,Größe,C"),
        ("assess", "文.csv", "--keys", "年齢,X", "--population", "5000"),
        ("assess", "文.csv", "--keys", "年齢,Größe,C", "--population", "4000", "--max-sweeps", "16", "--out", "r"),
        ("assess", "--help"),
    ):
        done = run(folder, "-m", "keyhole", *command, **shown)
        assert done.returncode in (0, 1, 3), (command, done.stderr.decode(encoding))
        assert b"Traceback" not in done.stderr
        assert b"UnicodeEncodeError" not in done.stderr
        text = done.stdout.decode(encoding)
        # `zeros suggest` prints a file, help has an example, and an escaped name takes more room than was planned.
        lines = [] if command[0] == "zeros" or command[-1] == "--help" else text.splitlines()
        assert all(len(line) <= 80 for line in lines if "\\u" not in line), text


def test_no_color_is_kept(folder):
    """Neither colours nor other escape sequences, even where a program claims to be a terminal."""
    shown = {"NO_COLOR": "1", "TERM": "dumb", "FORCE_COLOR": "", "COLUMNS": "80"}
    for command in (("inspect", "file.csv"), ("--help",), ("assess", "--help")):
        done = run(folder, "-m", "keyhole", *command, **shown)
        assert done.returncode == 0
        assert b"\x1b" not in done.stdout + done.stderr
