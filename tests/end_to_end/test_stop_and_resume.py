"""Stopped, killed, out of time, on other workers: the same bytes in the end, as a user sees it."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from keyhole.cli import main
from keyhole.sampling import runner as blocks
from tests.unit.short_runs import digest
from tests.unit.short_runs import run as run_short
from tests.unit.test_checkpoint import StopAfter

COMMAND = str(Path(sys.executable).with_name("keyhole"))
ASSESS = ("assess", "survey.csv", "--keys", "AGE,SEX,MARST,EDUC", "--population", "5000", "--chains", "2", "--quiet")
WHOLE = (*ASSESS, "--target-ess", "1000000", "--time-limit", "5m", "--max-sweeps", "1200")
ROOM = 5.0
"""Seconds for what should take one: the machine may be busy."""


@pytest.fixture
def data(tmp_path, monkeypatch):
    rng = np.random.default_rng(3)
    frame = pl.DataFrame({name: rng.integers(1, 6, 120) for name in ("AGE", "SEX", "MARST", "EDUC")})
    frame.write_csv(tmp_path / "survey.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*arguments: str) -> int:
    """Run the command here, where everything is loaded already."""
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    return stopped.value.code


def start(folder: Path, first: str = "*/head.json", limit: str = "8s") -> subprocess.Popen[str]:
    """Start an endless run in a process of its own, and wait for its first checkpoint, or that of its quick answer."""
    running = subprocess.Popen(
        [COMMAND, *ASSESS, "--target-ess", "1000000", "--time-limit", limit, "--out", str(folder)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    for _ in range(600):
        time.sleep(0.1)
        if any((folder / "checkpoint").glob(first)):
            return running
        assert running.poll() is None, running.communicate()
    running.kill()
    raise AssertionError("no checkpoint in a minute")


def end(running: subprocess.Popen[str]) -> str:
    """Wait for a process that was told to stop; return what it says."""
    try:
        _, told = running.communicate(timeout=60)
    finally:
        running.kill()
    return told


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of an uninterrupted run."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        rng = np.random.default_rng(3)
        frame = pl.DataFrame({name: rng.integers(1, 6, 120) for name in ("AGE", "SEX", "MARST", "EDUC")})
        frame.write_csv(folder / "survey.csv")
        patch.chdir(folder)
        assert call(*WHOLE, "--out", "r") == 3
    return {name: (folder / "r" / name).read_bytes() for name in ("records.csv", "draws.nc")}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_at_once_and_the_run_can_be_resumed(data, capsys, whole, number):
    running = start(data / "r")
    # Meanwhile nobody else gets in, and hears at once who is there.
    sent = time.perf_counter()
    assert call(*ASSESS, "--out", "r") == 1
    assert time.perf_counter() - sent < ROOM
    assert f"r is in use by process {running.pid} on " in capsys.readouterr().err
    sent = time.perf_counter()
    running.send_signal(number)
    told = end(running)
    assert time.perf_counter() - sent < ROOM
    assert running.returncode == 130, told
    assert told.strip().splitlines()[-1] == (
        "keyhole: stopped; the work is kept. The same command with --resume continues it."
    )
    assert [path.name for path in (data / "r").iterdir()] == ["checkpoint"]
    if number == signal.SIGINT:
        assert call(*WHOLE, "--out", "r", "--resume") == 3
        assert {name: (data / "r" / name).read_bytes() for name in whole} == whole


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_stop_in_the_quick_answer_loses_nothing_either(data, whole, number):
    running = start(data / "r", first="quick/*/head.json", limit="20s")
    running.send_signal(number)
    told = end(running)
    assert not any((data / "r" / "checkpoint").glob("*/head.json")), "the quick answer must not have ended"
    if number == signal.SIGTERM:
        assert running.returncode == 130, told
        assert told.strip().splitlines()[-1] == (
            "keyhole: stopped; the work is kept. The same command with --resume continues it."
        )
        assert [path.name for path in (data / "r").iterdir()] == ["checkpoint"]
    assert call(*WHOLE, "--out", "r", "--resume") == 3
    assert {name: (data / "r" / name).read_bytes() for name in whole} == whole


def test_kill_nine_is_survived(data, whole):
    running = start(data / "r")
    running.kill()
    end(running)
    assert {path.name for path in (data / "r").iterdir()} == {"checkpoint", ".lock"}
    assert call(*WHOLE, "--out", "r", "--resume") == 3
    assert {name: (data / "r" / name).read_bytes() for name in whole} == whole


def test_a_time_limit_ends_with_status_3_and_resume_finishes_the_job(data, capsys, whole):
    # The quick answer takes up to a third of the limit; that of hdp has the rest.
    assert call(*ASSESS, "--target-ess", "1000000", "--time-limit", "1s", "--out", "r") == 3
    told = capsys.readouterr().err.splitlines()
    assert told[-2].startswith("keyhole: NOT CONVERGED: ")
    assert told[-1] == "keyhole: the same command with --resume continues this run."
    summary = json.loads((data / "r" / "summary.json").read_text())
    assert summary["convergence"]["stopped"] == "time"
    assert call(*WHOLE, "--out", "r", "--resume", "--seed", "5") == 1
    assert "was made with another seed: use --overwrite in place of --resume to start anew" in capsys.readouterr().err
    assert call(*WHOLE, "--out", "r", "--resume", "--workers", "1") == 3
    assert {name: (data / "r" / name).read_bytes() for name in whole} == whole
    assert json.loads((data / "r" / "summary.json").read_text())["seconds"]["earlier"] > 0.3


def test_a_new_run_replaces_nothing_unless_that_is_asked_for(data, capsys, whole):
    assert call(*ASSESS, "--target-ess", "1000000", "--time-limit", "0.6s", "--out", "r", "--seed", "8") == 3
    before = {path: path.read_bytes() for path in (data / "r").rglob("*") if path.is_file()}
    capsys.readouterr()
    assert call(*WHOLE, "--out", "r") == 1
    told = capsys.readouterr().err
    assert told == (
        "keyhole: r holds a run that can be continued: use --resume, replace it with --overwrite, or choose another "
        "folder with --out.\n"
    )
    assert {path: path.read_bytes() for path in (data / "r").rglob("*") if path.is_file()} == before
    assert call(*WHOLE, "--out", "r", "--overwrite") == 3
    assert {name: (data / "r" / name).read_bytes() for name in whole} == whole


def test_results_are_not_repeated_over_others(data, capsys):
    few = ("--keys", "AGE,SEX", "--population", "120", "--quiet", "--out", "r")
    assert call("assess", "survey.csv", *few) == 0
    for more, told in (((), "holds the results of a run: "), (("--resume",), "a run and nothing to resume: ")):
        assert call("assess", "survey.csv", *few, *more) == 1
        error = capsys.readouterr().err
        assert told in error
        assert "replace them with --overwrite" in error
    assert call("assess", "survey.csv", *few, "--overwrite") == 0


def test_a_damaged_checkpoint_is_one_line(data, capsys):
    assert call(*ASSESS, "--time-limit", "0.3s", "--target-ess", "1000000", "--out", "r") == 3
    capsys.readouterr()
    for path in (data / "r" / "checkpoint").glob("*/head.json"):
        path.write_bytes(path.read_bytes()[:-9])
    assert call(*WHOLE, "--out", "r", "--resume") == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "is usable, all are damaged: use --overwrite in place of --resume to start anew." in told


def test_processes_give_the_same_draws():
    assert digest(run_short(scheduler="processes")) == digest(run_short())


def test_two_workers_of_a_dask_cluster_give_the_same_draws(tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(blocks, "BLOCK_SECONDS", 0.05)
    expected = digest(run_short())
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    ) as cluster:
        scheduler = cluster.scheduler_address
        assert digest(run_short(scheduler=scheduler)) == expected
        with pytest.raises(KeyboardInterrupt):
            run_short(tmp_path / "c", scheduler=scheduler, on_progress=StopAfter(3))
        assert digest(run_short(tmp_path / "c", resume=True, scheduler=scheduler)) == expected
        with distributed.Client(cluster, set_as_default=False) as client:
            assert len(client.scheduler_info()["workers"]) == 2, "the cluster must be left as it was"
            assert not client.has_what() or not any(client.has_what().values()), "no data may stay with the workers"
