"""Nothing gets out: values in messages, files others can read, files left behind, a network."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from keyhole.cli import main

CANARIES = ("zzcanaryone", "zzcanarytwo", "zzcanarythree", "zzcanaryfour", "zzcanaryfive")
RUNNER = [sys.executable, "-c", "import sys; from keyhole.cli import main; main(sys.argv[1:])"]
SHORT = ("--chains", "2", "--max-sweeps", "30", "--time-limit", "2m")


def make_folder(folder: Path, seed: int) -> None:
    """A file whose categories, household names and text columns hold canaries, with a codebook and rules."""
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {
            "A": rng.choice(CANARIES, 60),
            "B": rng.integers(1, 4, 60),
            "C": rng.choice(["x", "y", CANARIES[0]], 60),
            "W": rng.integers(2, 9, 60),
            "HH": [f"{CANARIES[x % 5]}{x // 2}" for x in range(60)],
            "ID": [f"{CANARIES[x % 5]}-{x}" for x in range(60)],
            "SEMI": [CANARIES[x % 5] if x % 7 else "" for x in range(60)],
        }
    )
    frame.write_csv(folder / "data.csv")
    frame.write_parquet(folder / "data.parquet")
    frame.write_csv(folder / "data.tsv", separator="\t")
    (folder / "book.yaml").write_text(f"A: [{', '.join(CANARIES)}]\nB: [1, 2, 3]\nC: [x, y, {CANARIES[0]}, z]\n")
    (folder / "short.yaml").write_text(f"A: [{', '.join(CANARIES[:3])}]\n")
    (folder / "rules.yaml").write_text("impossible:\n  - {C: [z], B: [1]}\n")
    (folder / "broken.yaml").write_text(f"impossible:\n  - {{A: [{CANARIES[0]}]}}\n")
    (folder / "run.yaml").write_text("keys: [A, B]\nweight: W\nhousehold: HH\n")
    lines = frame.write_csv().splitlines()
    (folder / "ragged.csv").write_text("\n".join([*lines[:5], CANARIES[1], *lines[6:]]) + "\n")
    (folder / "quote.csv").write_text("\n".join([*lines[:5], f'"{CANARIES[2]}', *lines[6:]]) + "\n")
    (folder / "headless.csv").write_text("\n".join(lines[1:]) + "\n")
    (folder / "weights.csv").write_text(frame.with_columns(W=pl.lit(CANARIES[3])).write_csv())
    (folder / "cut.parquet").write_bytes((folder / "data.parquet").read_bytes()[:300])
    (folder / "latin.csv").write_bytes("\n".join(lines).replace("x", "ä").encode("latin-1"))
    (folder / "other").mkdir()
    (folder / "other" / "note.txt").write_text("mine")


def successes() -> Iterator[tuple[str, ...]]:
    """Runs that must end well; the name of the folder is added by the caller."""
    whole = ("--fraction", "1")
    for file in ("data.csv", "data.parquet", "data.tsv", "latin.csv"):
        yield ("assess", file, "--keys", "A,B", *whole)
    for keys in ("A", "A,B,C", "B,C", "C,SEMI"):
        yield ("assess", "data.csv", "--keys", keys, *whole)
    for options in (
        ("--weight", "W"),
        ("--household", "HH", *whole),
        ("--codebook", "book.yaml", *whole),
        ("--codebook", "book.yaml", "--zeros", "rules.yaml", *whole),
        ("--weight", "W", "--household", "HH", "--population", "60"),
        ("--drop-contradictions", "--zeros", "broken.yaml", "--fraction", "1"),
        ("--fail-above", "tau1=0", *whole),
    ):
        yield ("assess", "data.csv", "--keys", "A,B,C", *options, *SHORT)
    yield ("assess", "data.csv", "--config", "run.yaml", "--population", "60")
    yield ("assess", "data.csv", "--keys", "A,ID", "--allow-identifier", "ID", *whole)
    yield ("assess", "data.csv", "--keys", "B,C", "--fraction", "1", "--quiet")
    yield ("assess", "data.csv", "--keys", "A,B,C", "--population", "300", *SHORT)
    yield ("assess", "data.csv", "--keys", "A,B,C", "--population", "300", "--household", "HH", "--seed", "2", *SHORT)


def failures() -> Iterator[tuple[str, ...]]:
    """Runs that must be refused."""
    whole = ("--fraction", "1")
    for file in ("ragged.csv", "quote.csv", "headless.csv", "cut.parquet", "none.csv", "other", "book.yaml"):
        yield ("assess", file, "--keys", "A,B", *whole)
    for keys in ("A,X", "A,A", "ID", ",", "HH,ID"):
        yield ("assess", "data.csv", "--keys", keys, *whole)
    for options in (
        ("--codebook", "short.yaml", *whole),
        ("--codebook", "data.csv", *whole),
        ("--zeros", "broken.yaml", *whole),
        ("--zeros", "data.csv", *whole),
        ("--population", "3"),
        ("--weight", "A"),
        ("--weight", "NONE"),
        ("--household", "SEMI", *whole),
        ("--config", "data.csv", *whole),
        ("--seed", "x", *whole),
    ):
        yield ("assess", "data.csv", "--keys", "A,B", *options)
    yield ("assess", "weights.csv", "--keys", "A,B", "--weight", "W")
    yield ("zeros", "check", "broken.yaml", "data.csv", "--keys", "B,C")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Canaries, and a place for temporary files that ought to stay empty."""
    make_folder(tmp_path, 1)
    place = tmp_path.parent / f"{tmp_path.name}-temp"
    place.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr("tempfile.tempdir", None)
    yield tmp_path
    assert list(place.iterdir()) == []


@pytest.fixture
def run(folder, capfd):
    """Run the command here; return status and all that it wrote to the screen."""

    def call(*arguments: str) -> SimpleNamespace:
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        captured = capfd.readouterr()
        return SimpleNamespace(status=stopped.value.code, told=captured.out + captured.err)

    return call


def no_canary(text: str) -> None:
    for canary in CANARIES:
        assert canary not in text


def test_twenty_successes_tell_no_value(run, folder):
    cases = list(successes())
    assert len(cases) == 20
    for number, arguments in enumerate(cases):
        found = run(*arguments, "--out", f"r{number}")
        assert found.status in (0, 3, 4), (arguments, found.told)
        no_canary(found.told)
        no_canary((folder / f"r{number}" / "manifest.json").read_text())
        for name in ("records.csv", "records.parquet", "draws.nc"):
            content = (folder / f"r{number}" / name).read_bytes()
            assert not any(canary.encode() in content for canary in CANARIES)


def test_failures_tell_no_value_and_write_nothing(run, folder):
    cases = list(failures())
    assert len(cases) >= 20
    before = sorted(folder.rglob("*"))
    for arguments in cases:
        found = run(*arguments, *(("--out", "r") if arguments[0] == "assess" else ()))
        assert found.status in ((1, 2) if arguments[0] == "assess" else (0, 1)), (arguments, found.told)
        assert "Traceback" not in found.told
        no_canary(found.told)
        assert sorted(folder.rglob("*")) == before, arguments


@pytest.mark.long
def test_two_hundred_of_each_tell_no_value(run, folder):
    """The same paths on ten files with other records."""
    for seed in range(2, 12):
        make = folder / f"seed{seed}"
        make.mkdir()
        make_folder(make, seed)
        os.chdir(make)
        for number, arguments in enumerate(successes()):
            found = run(*arguments, "--out", f"r{number}")
            assert found.status in (0, 3, 4), (arguments, found.told)
            no_canary(found.told + (make / f"r{number}" / "manifest.json").read_text())
        for arguments in failures():
            found = run(*arguments)
            assert found.status in (0, 1, 2)
            no_canary(found.told)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_every_output_is_its_owners_alone(run, folder, umask):
    before = os.umask(umask)
    outside = set(folder.rglob("*"))
    try:
        calls = [
            ("assess", "data.csv", "--keys", "A,B", "--fraction", "1", "--household", "HH", "--out", "result"),
            ("zeros", "boxes", "rules.yaml", "data.csv", "--codebook", "book.yaml", "--out", "boxes.csv"),
            ("zeros", "suggest", "data.csv", "--keys", "A,B,C", "--out", "suggested.yaml"),
            ("demo", "--out", "country"),
            ("simulate", "--levels", "3,2", "--population", "50", "--sample", "10", "--out", "trial"),
        ]
        for arguments in calls:
            assert run(*arguments).status == 0
    finally:
        os.umask(before)
    written = set(folder.rglob("*")) - outside
    assert len(written) >= 5 + 2 + 5 + 1 + 4 + 1
    for path in written:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_an_interrupt_leaves_nothing_behind(folder):
    """SIGINT as soon as a demonstration has made its temporary file."""
    temp = folder / "temp"
    temp.mkdir()
    before = sorted(folder.rglob("*"))
    process = subprocess.Popen(
        [*RUNNER, "demo", "--time-limit", "5m", "--target-ess", "1000000"],
        cwd=folder, env={**os.environ, "TMPDIR": str(temp)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        limit = time.monotonic() + 300
        while not list(temp.glob("*/rules.yaml")) and time.monotonic() < limit:
            time.sleep(0.2)
        assert list(temp.glob("*/rules.yaml"))
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=120)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130, told
    assert "Traceback" not in told
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("existing", [False, True])
def test_an_interrupt_while_writing_leaves_nothing_behind(run, folder, monkeypatch, existing):
    wanted = ("assess", "data.csv", "--keys", "A,B", "--fraction", "1", "--out", "r")
    if existing:
        assert run(*wanted).status == 0
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("keyhole.results.folder.write_draws", interrupted)
    assert run(*wanted, "--seed", "2", "--overwrite").status == 130
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def can_cut_the_network() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "-rn", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not can_cut_the_network(), reason="unshare -n is not permitted here")
def test_without_a_network_everything_works(folder):
    """A namespace without any interface: whoever needs a network fails."""
    command = ["unshare", "-rn", *RUNNER, "assess", "data.csv", "--keys", "A,B,C", "--population", "300", *SHORT]
    done = subprocess.run([*command, "--out", "r"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 3), done.stderr
    assert (folder / "r" / "summary.json").exists()
    probe = "import socket; socket.create_connection(('127.0.0.1', 9), 1)"
    cut = subprocess.run(["unshare", "-rn", sys.executable, "-c", probe], capture_output=True, text=True, check=False)
    assert "Network is unreachable" in cut.stderr  # negative control: there really is none
