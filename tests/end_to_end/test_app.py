"""The page without a browser: address, network, processes, kills."""

import http.client
import json
import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import psutil
import pytest

import keyhole
from tests.end_to_end.serving import Served, serve, wait_until_gone

KEYS = ["AGE", "SEX", "MARITAL", "WORK", "REGION"]
CANARIES = ("CANARY-value-7f3a", "CANARY column", "CANARY-file-name")


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_survey(tmp_path_factory.mktemp("data"), 160)


def make_survey(folder: Path, rows: int) -> Path:
    rng = np.random.default_rng(5)
    age = rng.integers(1, 9, rows)
    marital = np.where(age < 3, "single", rng.choice(["single", "married", "widowed"], rows))
    frame = pl.DataFrame(
        {
            "AGE": age,
            "SEX": rng.choice(["f", "m"], rows),
            "MARITAL": marital,
            "WORK": rng.choice(["none", "part", "full", CANARIES[0]], rows),
            "REGION": rng.integers(1, 6, rows),
            CANARIES[1]: range(rows),
        }
    )
    path = folder / f"{CANARIES[2]}.csv"
    frame.write_csv(path)
    return path


def start_run(served: Served, project: str, **choices: Any) -> None:
    served.ask(f"{project}/choices", keys=KEYS, population="4000", **choices)
    served.ask(f"{project}/run")


def test_the_address_comes_at_once_and_only_this_machine_can_use_it(tmp_path: Path, survey: Path) -> None:
    with serve(tmp_path / "home", str(survey)) as served:
        process = psutil.Process(served.process.pid)
        times = process.cpu_times()
        assert times.user + times.system < 1.5  # the seconds from the command to the address, on a free processor
        listening = [found.laddr for found in process.net_connections("inet") if found.status == psutil.CONN_LISTEN]
        assert [(found.ip, found.port) for found in listening] == [("127.0.0.1", served.port)]
        status, _, body = served.send("GET", "/")
        assert status == 200
        assert served.cookie.split("=")[1] not in body.decode()
        assert f">{CANARIES[2]}.csv<" in body.decode()
    assert served.end() == 0


def send_raw(port: int, text: str) -> int:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as found:
        found.sendall(text.encode("latin-1"))
        answer = b""
        while b"\r\n" not in answer and (chunk := found.recv(4096)):
            answer += chunk
    return int(answer.split()[1])


def test_what_no_browser_sends_is_refused_on_the_wire(tmp_path: Path) -> None:
    with serve(tmp_path / "home") as served:
        host, end = f"Host: 127.0.0.1:{served.port}\r\n", f"Cookie: {served.cookie}\r\nConnection: close\r\n\r\n"
        assert send_raw(served.port, f"GET / HTTP/1.1\r\n{host}{end}") == 200
        wrong = [
            f"GET / HTTP/1.1\r\n{host}{host}{end}",
            f"GET / HTTP/1.1\r\n{host}Host: evil.com\r\n{end}",
            f"GET / HTTP/1.1\r\nHost: evil.com\r\nX-Forwarded-Host: 127.0.0.1:{served.port}\r\n{end}",
            f"GET http://evil.com/ HTTP/1.1\r\nHost: evil.com\r\n{end}",
            f"GET http://evil.com/ HTTP/1.1\r\n{host}{end}",
            f"GET / HTTP/1.1\r\n{end}",
            f"GET / HTTP/1.0\r\n{end}",
            f"CONNECT evil.com:443 HTTP/1.1\r\n{host}{end}",
            f"OPTIONS * HTTP/1.1\r\n{host}{end}",
        ]
        for text in wrong:
            assert send_raw(served.port, text) in (400, 403, 405), text
        upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n"
        assert (
            send_raw(served.port, f"GET / HTTP/1.1\r\nHost: evil.com\r\n{upgrade}Cookie: {served.cookie}\r\n\r\n")
            == 403
        )
        too_long = (
            "Content-Type: application/octet-stream\r\nSec-Fetch-Site: same-origin\r\nContent-Length: 9000000000\r\n"
        )
        assert send_raw(served.port, f"PUT /api/upload HTTP/1.1\r\n{host}{too_long}{end}") == 413
        # An upload that breaks off leaves nothing.
        short = too_long.replace("9000000000", "900000")
        with socket.create_connection(("127.0.0.1", served.port)) as found:
            found.sendall(f"PUT /api/upload HTTP/1.1\r\n{host}{short}{end}".encode() + b"x" * 5_000)
            time.sleep(0.5)
        end_time = time.monotonic() + 10
        while list((tmp_path / "home" / "incoming").iterdir()) and time.monotonic() < end_time:
            time.sleep(0.05)
        assert list((tmp_path / "home" / "incoming").iterdir()) == []


def draws_of(home: Path, project: str, number: int = 1) -> dict[str, np.ndarray]:
    return keyhole.load(home / "projects" / project / "runs" / str(number) / "result").draws


def test_a_killed_server_leaves_no_process_and_its_run_goes_on_to_the_bit(tmp_path: Path) -> None:
    """The file is so large that the full model takes longer than the way from its first draws to the kill."""
    home, survey = tmp_path / "home", make_survey(tmp_path, 900)
    with serve(home, str(survey)) as served:
        (project,) = (path.name for path in (home / "projects").iterdir())
        start_run(served, project, seed=3)
        progress = home / "projects" / project / "runs" / "1" / "progress.json"
        end = time.monotonic() + 100
        while time.monotonic() < end:
            found = json.loads(progress.read_text(encoding="utf-8")) if progress.exists() else {}
            if found.get("chains") and not found["quick"]:
                break
            time.sleep(0.02)
        children = served.children()
        served.process.kill()
        served.process.wait()
        assert len(children) == 1  # the run was not over
        assert wait_until_gone(children, 15) == []
    with serve(home) as served:
        assert served.state(project) in ("stopped", "interrupted")
        page = served.send("GET", f"/p/{project}/run")[2].decode()
        assert 'id="resume"' in page
        served.ask(f"{project}/run", resume=True)
        assert served.wait_for(project, "done", "failed") == "done"
        notices = json.loads(progress.read_text(encoding="utf-8"))["notices"]
        assert any("Going on from a checkpoint" in notice["message"] for notice in notices)
        assert len(list((home / "projects" / project / "runs").iterdir())) == 1
    wanted = keyhole.assess(survey, KEYS, population=4000, seed=3)
    found_draws = draws_of(home, project)
    assert wanted.draws.keys() == found_draws.keys()
    for name, values in wanted.draws.items():
        assert np.array_equal(values, found_draws[name]), name


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_runs_are_stopped_within_two_seconds_and_nothing_stays_behind(
    tmp_path: Path, survey: Path, number: int
) -> None:
    home = tmp_path / "home"
    with serve(home) as served:
        project = served.upload(survey)
        served.ask(f"{project}/choices", stays="session")
        served.ask(f"{project}/read")
        for pause in (0.0, 0.7, 2.5):
            start_run(served, project)
            time.sleep(pause)
            started = time.monotonic()
            served.ask(f"{project}/stop")
            assert time.monotonic() - started < 2.0 + 1.0  # a second for a machine with other work
            assert served.state(project) == "stopped"
            assert [child for child in served.children() if "keyhole.app.fit" in child.cmdline()] == []
        start_run(served, project)
        children = served.children()
        assert len(children) == 2  # the run and the desk
        assert served.end(number) == 0
        assert wait_until_gone(children, 0.5) == []
    assert not served.entry.exists()
    assert list((home / "projects").iterdir()) == []
    assert list((home / "incoming").iterdir()) == []
    for canary in (*CANARIES, served.cookie.split("=")[1]):
        assert canary not in served.printed


def find_left(home: Path) -> list[psutil.Process]:
    """Every process of the machine that names this folder, whoever its parent is now."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "keyhole.app.fit" in words and any(str(home) in word for word in words):
            found.append(process)
    return found


@pytest.mark.parametrize(("cycles", "growth"), [(100, 4e6), pytest.param(1_000, 20e6, marks=pytest.mark.long)])
def test_starting_and_cancelling_again_and_again_leaves_nothing(
    tmp_path: Path, survey: Path, cycles: int, growth: float
) -> None:
    """Most are cancelled while the run still loads, some while it compiles or samples. No cancel takes 2 s."""
    home = tmp_path / "home"
    with serve(home, str(survey)) as served:
        (project,) = (path.name for path in (home / "projects").iterdir())
        served.ask(f"{project}/choices", keys=KEYS, population="4000")
        server, longest, before = psutil.Process(served.process.pid), 0.0, 0
        for cycle in range(cycles + 20):
            if cycle == 20:
                before = server.memory_info().rss
            served.ask(f"{project}/run")
            time.sleep(2.5 if cycle % 100 == 50 else 0.2 if cycle % 10 == 0 else 0.0)
            started = time.monotonic()
            served.ask(f"{project}/stop")
            longest = max(longest, time.monotonic() - started)
            assert served.state(project) in ("stopped", "done")
        assert longest < 2.0 + 1.0  # a second for a machine with other work
        assert server.memory_info().rss - before < growth
        assert find_left(home) == []
        assert served.children() == []
        runs = list((home / "projects" / project / "runs").iterdir())
        assert len(runs) <= 1 + cycles / 100  # those that kept nothing have made room


def test_a_run_that_dies_is_said_to_have_died(tmp_path: Path, survey: Path) -> None:
    with serve(tmp_path / "home", str(survey)) as served:
        (project,) = (path.name for path in (tmp_path / "home" / "projects").iterdir())
        start_run(served, project)
        (child,) = served.children()
        child.kill()
        assert served.wait_for(project, "failed", "done") == "failed"
        served.ask(f"{project}/alone", keys=KEYS)
        (desk,) = served.children()
        desk.kill()
        assert served.ask(f"{project}/alone", keys=KEYS)["records"] == 160  # a new one answers


def test_a_stream_does_not_keep_the_server_and_twenty_requests_are_answered_beside_a_run(
    tmp_path: Path, survey: Path
) -> None:
    with serve(tmp_path / "home", str(survey)) as served:
        (project,) = (path.name for path in (tmp_path / "home" / "projects").iterdir())
        start_run(served, project)
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
        connection.request("GET", f"/api/{project}/progress", headers={"Cookie": served.cookie})
        stream = connection.getresponse()
        assert stream.getheader("content-type", "").startswith("text/event-stream")
        line = stream.readline()
        assert line.startswith(b"data: {")
        before = psutil.Process(served.process.pid).cpu_times().user
        for _ in range(20):
            assert served.send("GET", f"/p/{project}/run")[0] == 200
        assert psutil.Process(served.process.pid).cpu_times().user - before < 20 * 0.05
        started = time.monotonic()
        assert served.end() == 0
        assert time.monotonic() - started < 12
        connection.close()


def test_a_second_page_names_the_first(tmp_path: Path) -> None:
    import subprocess

    from tests.end_to_end.serving import KEYHOLE

    with serve(tmp_path / "home") as served:
        environment = {**os.environ, "KEYHOLE_STATE": str(tmp_path / "home")}
        again = subprocess.run([KEYHOLE, "app", "--no-browser"], capture_output=True, text=True, env=environment)
        assert again.returncode == 1
        assert str(served.entry) in again.stderr
        assert len(again.stderr.splitlines()) == 1
        taken = subprocess.run(
            [KEYHOLE, "app", "--no-browser", "--port", str(served.port)],
            capture_output=True, text=True, env={**os.environ, "KEYHOLE_STATE": str(tmp_path / "other")},
        )  # fmt: skip
        assert taken.returncode == 1
        assert "--port" in taken.stderr
        missing = subprocess.run([KEYHOLE, "app", str(tmp_path / "none.csv")], capture_output=True, text=True)
        assert missing.returncode == 1
        assert "does not exist" in missing.stderr
