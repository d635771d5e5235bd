"""One run at a time in a folder."""

import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import polars as pl
import pytest

import keyhole
from keyhole.errors import OutputError
from keyhole.files import LOCK, locked
from keyhole.sampling.checkpoint import remove_checkpoint

HOLD = "import sys, time, pathlib; from keyhole.files import locked\nwith locked(pathlib.Path(sys.argv[1])):\n"


def hold(folder):
    """Start a process that holds the folder, and wait until it does."""
    code = HOLD + "    print('held', flush=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_process_is_told_who_holds_the_folder_and_a_dead_one_holds_nothing(tmp_path):
    folder = tmp_path / "a" / "r"
    process = hold(folder)
    try:
        started = time.perf_counter()
        with pytest.raises(OutputError, match=f"in use by process {process.pid} on {socket.gethostname()}") as caught:
            locked(folder).__enter__()
        assert time.perf_counter() - started < 1.0
        assert "\n" not in str(caught.value)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert (folder / LOCK).exists(), "a killed process leaves its file"
        with locked(folder):
            pass
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert not (folder / LOCK).exists()


def test_a_checkpoint_belongs_to_one_run(tmp_path):
    """Whoever comes second with the same `checkpoint` is refused at once, whether it is a process or a thread."""
    folder = tmp_path / "checkpoint"
    frame = pl.DataFrame({"A": [1, 2, 3, 4, 4] * 4, "B": [1, 2] * 10, "C": list(range(20))})
    sampled = []

    def assess(**options):
        keyhole.assess(frame, "A,B,C", 400, allow_identifier="C", chains=2, max_sweeps=30, checkpoint=folder, **options)

    process = hold(folder)
    try:
        with pytest.raises(OutputError, match=f"in use by process {process.pid} .*another folder with `checkpoint`"):
            assess(on_progress=sampled.append)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert sampled == []

    def ask_again(event):
        if not sampled:
            sampled.append(event)
            with ThreadPoolExecutor(1) as pool, pytest.raises(OutputError, match=f"in use by process {os.getpid()} "):
                pool.submit(assess).result()

    assess(on_progress=ask_again)
    assert sampled
    assert sorted(path.name for path in folder.iterdir()) == ["a", "quick"]
    (folder / LOCK).touch()  # as a killed run leaves it
    remove_checkpoint(folder)
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_that_a_run_holds_is_not_removed(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "head.json").touch()
    with locked(tmp_path):
        remove_checkpoint(tmp_path)
    assert (tmp_path / "a" / "head.json").exists()
    remove_checkpoint(tmp_path)
    assert not tmp_path.exists()


def test_what_was_made_and_stayed_empty_goes_away(tmp_path):
    with locked(tmp_path / "a" / "b"):
        assert (tmp_path / "a" / "b" / LOCK).stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == []
    with locked(tmp_path / "a" / "b"):
        (tmp_path / "a" / "b" / "result").write_text("x")
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["result"]


def test_the_same_process_cannot_hold_a_folder_twice(tmp_path):
    with locked(tmp_path / "r"), pytest.raises(OutputError, match="in use"):
        locked(tmp_path / "r").__enter__()


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path):
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / LOCK).symlink_to(tmp_path / "target")
    with pytest.raises(OutputError, match="cannot be written"):
        locked(tmp_path / "r").__enter__()
    assert not (tmp_path / "target").exists()


def test_a_file_system_without_locks_is_used_without(tmp_path, monkeypatch):
    import errno
    import fcntl

    def missing(*_):
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    monkeypatch.setattr(fcntl, "flock", missing)
    with locked(tmp_path / "r"):
        assert (tmp_path / "r").is_dir()


@pytest.mark.long
def test_fifty_processes_want_the_same_folder(tmp_path):
    folder = tmp_path / "r"
    process = hold(folder)
    code = HOLD + "    print('in')"
    try:
        for _ in range(50):
            done = subprocess.run(
                [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=False
            )
            assert f"in use by process {process.pid}" in done.stderr
            assert done.stdout == ""
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
