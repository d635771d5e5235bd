"""Checkpoints: whole or not at all, found out when damaged, and never code."""

import errno
import hashlib
import io
import json
import os
import shutil
import signal
import stat
import sys
import time
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

from keyhole.errors import OutputError, Stopped
from keyhole.sampling import Notice, Progress, checkpoint
from keyhole.sampling import runner as blocks
from keyhole.sampling import runner as rounds
from keyhole.sampling import saved_run as checkpointer
from keyhole.sampling.checkpoint import HEAD, SIDES, newest_number, read_head, read_newest, remove_checkpoint
from keyhole.sampling.saved_run import Checkpointer
from tests.unit.short_runs import digest, make_short_problem, run


@pytest.fixture(scope="module")
def expected():
    return digest(run())


@pytest.fixture
def busy(monkeypatch):
    """Small blocks, small rounds, and a checkpoint after every block."""
    monkeypatch.setattr(blocks, "BLOCK_SECONDS", 0.01)
    monkeypatch.setattr(checkpointer, "LONGEST_INTERVAL", 0.0)
    monkeypatch.setattr(checkpointer, "COST_SHARE", 1.0)


class StopAfter:
    """A callback that behaves as Ctrl-C does, after some events."""

    def __init__(self, events: int) -> None:
        self.left = events

    def __call__(self, event: object) -> None:
        if isinstance(event, Progress):
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt


@pytest.fixture
def stopped(busy, tmp_path):
    """A folder with the two generations of a run that was stopped."""
    with pytest.raises(Stopped) as caught:
        run(tmp_path / "c", on_progress=StopAfter(8))
    assert caught.value.kept
    return tmp_path / "c"


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_stopped_again_and_again_ends_as_if_it_never_was(busy, tmp_path, rng, expected):
    stops = 0
    while True:
        try:
            found = run(tmp_path / "c", resume=True, on_progress=StopAfter(int(rng.integers(0, 12))))
            break
        except Stopped:
            stops += 1
    assert stops >= 2
    assert digest(found) == expected
    assert found.seconds["earlier"] > 0


def test_a_run_with_rounds_and_thinning_resumes_bit_for_bit(busy, monkeypatch, tmp_path, rng):
    monkeypatch.setattr(rounds, "FIRST_LOOK", 10)
    for module in ("trace", "runner"):
        monkeypatch.setattr(f"keyhole.sampling.{module}.KEPT_DRAWS", 6)
        monkeypatch.setattr(f"keyhole.sampling.{module}.risk_limit", lambda _: 9)
    whole = run(max_sweeps=240)
    assert whole.record_stride == 16
    while True:
        try:
            found = run(tmp_path / "c", resume=True, max_sweeps=240, on_progress=StopAfter(int(rng.integers(1, 9))))
            break
        except Stopped:
            pass
    assert digest(found) == digest(whole)


def test_what_ended_by_the_limit_goes_on_with_a_higher_one(tmp_path):
    first = run(tmp_path / "c", max_sweeps=60)
    assert first.stopped == "sweeps"
    assert digest(run(tmp_path / "c", resume=True, max_sweeps=60)) == digest(first)
    longer = run(tmp_path / "c", resume=True, max_sweeps=150, workers=1)
    assert digest(longer) == digest(run())


def test_nothing_to_resume_starts_from_the_beginning(tmp_path, expected):
    told = []
    assert digest(run(tmp_path / "c", resume=True, on_progress=told.append)) == expected
    assert str(told[0]).startswith("Nothing to resume: starting from the beginning.")


def test_only_the_owner_can_read(stopped):
    for path in (stopped, *stopped.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    assert newest_number(stopped) > 2
    for side in SIDES:
        wanted = {HEAD, read_head(stopped / side).state.file, *(x.file for x in read_head(stopped / side).draws)}
        assert {path.name for path in (stopped / side).iterdir()} == wanted
    remove_checkpoint(stopped)
    assert not stopped.exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"seed": 2}, "another seed"),
        ({"prior": "paper"}, "another prior"),
        ({"chains": 3}, "another chains"),
    ],
)
def test_another_run_is_refused(stopped, options, told):
    with pytest.raises(OutputError, match=told) as caught:
        run(stopped, resume=True, **options)
    assert "`overwrite` in place of `resume`" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_data_and_other_kernels_are_refused(stopped, monkeypatch):
    monkeypatch.setattr("tests.unit.short_runs.SIZES", np.array([3, 5, 2]))
    with pytest.raises(OutputError, match="other data, keys, population or rules"):
        run(stopped, resume=True)
    monkeypatch.setattr("keyhole.sampling.saved_run.engine", lambda: "other")
    with pytest.raises(OutputError, match="another version of keyhole, numba or numpy"):
        run(stopped, resume=True)


def damage(path: Path, rng: np.random.Generator) -> None:
    content = bytearray(path.read_bytes())
    place = int(rng.integers(len(content)))
    if rng.random() < 0.5:
        content = content[:place]
    else:
        content[place] ^= 1 << int(rng.integers(8))
    path.write_bytes(content)


def check_damage(folder: Path, spare: Path, rng: np.random.Generator, times: int) -> None:
    """Damage one file: if it belongs to the newest generation, the older one must serve. Then damage both."""
    newest = max(SIDES, key=lambda side: read_head(folder / side).number)
    for _ in range(times):
        shutil.rmtree(spare, ignore_errors=True)
        shutil.copytree(folder, spare)
        paths = sorted(path for path in spare.rglob("*") if path.is_file())
        path = paths[int(rng.integers(len(paths)))]
        damage(path, rng)
        found = read_newest(spare)
        assert found is not None
        assert found.side != path.parent.name or path.parent.name != newest
        assert found.older == (path.parent.name == newest)
        others = [other for other in paths if other.parent != path.parent]
        damage(others[int(rng.integers(len(others)))], rng)
        with pytest.raises(OutputError, match=r"no checkpoint in .* is usable"):
            read_newest(spare)


def test_damage_is_found_out_and_the_older_generation_serves(stopped, tmp_path, rng):
    check_damage(stopped, tmp_path / "spare", rng, 20)


@pytest.mark.long
def test_damage_is_found_out_two_hundred_times(stopped, tmp_path, rng):
    check_damage(stopped, tmp_path / "spare", rng, 200)


def test_the_older_generation_leads_to_the_same_draws(stopped, expected):
    newest = max(SIDES, key=lambda side: read_head(stopped / side).number)
    (stopped / newest / read_head(stopped / newest).state.file).write_bytes(b"")
    told: list[Notice] = []
    found = run(stopped, resume=True, on_progress=lambda event: told.append(event))
    assert "damaged: going on from the one before it" in str(told[0])
    assert digest(found) == expected


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
@pytest.mark.parametrize("good_calls", [0, 1, 2])
def test_a_disk_that_fails_leaves_the_old_generations(stopped, monkeypatch, code, call, good_calls):
    before = files(stopped)
    problem, settings = make_short_problem()
    told: list[Notice] = []
    keeping = Checkpointer(stopped, problem, settings, told.append)
    resumed = keeping.resume()
    real, left = getattr(os, call), [good_calls]

    def fail(*arguments, **named):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(code, os.strerror(code))
        return real(*arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        assert not keeping.save(resumed.chains, resumed.round, 1.0)
    assert os.strerror(code) in told[0].message
    assert told[0].warning
    assert files(stopped) == before
    assert keeping.save(resumed.chains, resumed.round, 1.0), "when there is room again, it works again"


def test_a_full_disk_does_not_end_the_run(tmp_path, monkeypatch, busy, expected):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    told: list[Notice] = []
    with monkeypatch.context() as patch:
        patch.setattr("keyhole.sampling.checkpoint.os.write", full)
        found = run(tmp_path / "c", on_progress=lambda event: told.append(event))
    assert digest(found) == expected
    assert any("No space left" in str(event) for event in told)


def test_a_new_run_takes_the_place_of_an_old_one(stopped, busy):
    old = newest_number(stopped)
    with pytest.raises(Stopped):
        run(stopped, seed=9, on_progress=StopAfter(0))
    assert newest_number(stopped) > old
    for side in SIDES:
        if (stopped / side / HEAD).exists():
            assert read_head(stopped / side).run["settings"]["seed"] == 9


def rewrite_head(folder: Path, change) -> None:
    """Write a head that verifies but says something else, as an attacker would."""
    for side in SIDES:
        path = folder / side / HEAD
        content = json.loads(path.read_bytes().partition(b"\n")[2])
        change(content)
        text = json.dumps(content).encode()
        path.write_bytes(hashlib.sha256(text).hexdigest().encode() + b"\n" + text)


def replace_file(folder: Path, kind: str, make) -> None:
    """Replace a file of arrays, with its right SHA-256 in the head."""
    for side in SIDES:
        head = json.loads((folder / side / HEAD).read_bytes().partition(b"\n")[2])
        for stored in [head["state"]] if kind == "state" else head["draws"]:
            path = folder / side / stored["file"]
            with np.load(path) as file:
                arrays = {name: file[name] for name in file.files}
            try:
                content = make(arrays)
            except KeyError:  # this part holds no draw of that chain
                continue
            path.write_bytes(content)
            break
        stored["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
        text = json.dumps(head).encode()
        (folder / side / HEAD).write_bytes(hashlib.sha256(text).hexdigest().encode() + b"\n" + text)


def packed(arrays, compress=False) -> bytes:
    buffer = io.BytesIO()
    (np.savez_compressed if compress else np.savez)(buffer, **arrays)
    return buffer.getvalue()


def claiming(shape: tuple[int, ...]) -> bytes:
    """Return a file with one array whose head claims this shape, and no more than its head."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": shape})
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("0.weight.npy", head.getvalue())
    return buffer.getvalue()


class Bomb:
    def __reduce__(self):
        return (sys.exit, (99,))


def changed(name, value):
    def change(arrays):
        if len(arrays[name]) == 0:  # nothing in this part to change: the next may have more
            raise KeyError(name)
        return packed(arrays | {name: value(arrays[name])})

    return change


HOSTILE_ARRAYS = {
    "objects": ("state", lambda arrays: packed(arrays | {"0.weight": np.array([Bomb()], dtype=object)})),
    "objects in draws": ("draws", lambda arrays: packed(arrays | {"0.errors": np.array([Bomb()], dtype=object)})),
    "packed": ("state", lambda arrays: packed(arrays, compress=True)),
    "no zip": ("state", lambda _: b"\x80\x04K\x63."),
    "empty": ("draws", lambda _: b""),
    "claims a petabyte": ("state", lambda _: claiming((1 << 47,))),
    "claims more than numbers hold": ("draws", lambda _: claiming((1 << 40, 1 << 40))),
    "a field less": ("state", lambda arrays: packed({n: a for n, a in arrays.items() if n != "1.seat"})),
    "another type": ("state", changed("0.seat", lambda array: array.astype(np.int64))),
    "another shape": ("state", changed("0.table_label", lambda array: array[:-1])),
    "a seat too high": ("state", changed("0.seat", lambda array: array + 200)),
    "a label too high": ("state", changed("0.table_label", lambda array: array + 10_000)),
    "a label below": ("state", changed("0.table_label", lambda array: array - 5)),
    "tables beyond": ("state", changed("0.table_total", lambda array: array + 100)),
    "profiles beyond": ("state", changed("0.profile_total", lambda array: array + 10_000)),
    "not a number": ("state", changed("0.weight", lambda array: array * np.nan)),
    "huge capacity": ("state", changed("0.weight", lambda array: np.zeros(0))),
    "a draw less": ("draws", changed("0.quantities", lambda array: array[:-1])),
    "risks of others": ("draws", changed("0.r1", lambda array: array[:, :-1])),
    "risks in doubles": ("draws", changed("1.r2", lambda array: array.astype(np.float64))),
    "profiles cut": ("draws", changed("0.level_profile", lambda array: array[:, :3])),
}
HOSTILE_HEADS = {
    "another program": lambda head: head.update(program="other"),
    "another format": lambda head: head.update(format=2),
    "a way out": lambda head: head["state"].update(file="../../x.npz"),
    "a way out for draws": lambda head: head["draws"][0].update(file="/etc/passwd"),
    "a device": lambda head: head["state"].update(file="/dev/zero"),
    "no number": lambda head: head.update(number=-1),
    "more": lambda head: head.update(more=1),
    "no run": lambda head: head.update(run={}),
    "a generator of another kind": lambda head: head["run"]["chains"][0]["sweep_rng"].update(bit_generator="MT19937"),
    "a generator without state": lambda head: head["run"]["chains"][0].update(sweep_rng={}),
    "a generator out of range": lambda head: head["run"]["chains"][0]["sweep_rng"].update(
        state={"state": 1 << 200, "inc": -1}
    ),
    "too few chains": lambda head: head["run"]["chains"].pop(),
    "since": lambda head: head["run"]["chains"][0].update(since=10**9),
    "a stride of nothing": lambda head: head["run"]["chains"][0].update(risk_stride=0),
    "draws that are not there": lambda head: head["run"]["chains"][0].update(draws=10**6),
}


@pytest.mark.parametrize("case", HOSTILE_ARRAYS)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_hostile_arrays_are_refused(stopped, case):
    kind, make = HOSTILE_ARRAYS[case]
    replace_file(stopped, kind, make)
    with pytest.raises(OutputError, match="`overwrite` in place of `resume`"):
        run(stopped, resume=True)


def test_a_want_of_memory_is_not_called_damage(stopped, monkeypatch):
    def refuse(*args, **kwargs):
        raise MemoryError

    monkeypatch.setattr(checkpoint.np, "load", refuse)
    with pytest.raises(MemoryError):
        run(stopped, resume=True)


@pytest.mark.parametrize("case", HOSTILE_HEADS)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_hostile_heads_are_refused(stopped, case):
    rewrite_head(stopped, HOSTILE_HEADS[case])
    with pytest.raises(OutputError, match="`overwrite` in place of `resume`"):
        run(stopped, resume=True)


def test_links_are_not_followed(stopped, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    shutil.move(stopped / "a", tmp_path / "real")
    (stopped / "a").symlink_to(tmp_path / "elsewhere")
    problem, settings = make_short_problem()
    told: list[Notice] = []
    keeping = Checkpointer(stopped, problem, settings, told.append)
    resumed = keeping.resume()
    keeping.next_side = "a"
    assert not keeping.save(resumed.chains, 0, 1.0)
    assert "not a folder of your own" in told[0].message
    assert not any((tmp_path / "elsewhere").iterdir())


def kill_and_resume(folder: Path, rng: np.random.Generator, kills: int) -> str:
    """Kill a run so many times at random instants, each time a child that goes on; then finish here."""
    killed = 0
    while killed < kills:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forks beside threads
            child = os.fork()
        if child == 0:
            try:
                run(folder, resume=True, max_sweeps=2400, target_ess=1_000_000)
            finally:
                os._exit(0)
        time.sleep(float(rng.uniform(0.02, 0.3)))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        killed += os.WIFSIGNALED(status)
        if not os.WIFSIGNALED(status):
            break
    return digest(run(folder, resume=True, max_sweeps=2400, target_ess=1_000_000))


@pytest.fixture
def long_enough(busy, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_SECONDS", 0.03)
    return digest(run(max_sweeps=2400, target_ess=1_000_000))


def test_five_kills_lose_nothing_but_time(long_enough, tmp_path, rng):
    assert kill_and_resume(tmp_path / "c", rng, 5) == long_enough


@pytest.mark.long
def test_fifty_kills_lose_nothing_but_time(long_enough, tmp_path, rng):
    for part in range(10):
        assert kill_and_resume(tmp_path / f"c{part}", rng, 5) == long_enough


def test_checkpoints_cost_at_most_two_percent(tmp_path):
    problem, settings = make_short_problem(time_limit=1000)
    keeping = Checkpointer(tmp_path / "c", problem, settings, lambda _: None)
    assert keeping.interval == 50.0
    keeping.last_cost = 4.0
    keeping.last_end = time.perf_counter() - 195.0
    assert not keeping.is_due
    keeping.last_end -= 2.0
    assert keeping.is_due
