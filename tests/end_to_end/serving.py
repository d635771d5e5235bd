"""The page as a user starts it: a process of its own, entered through the file that it writes."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

KEYHOLE = str(Path(sys.executable).with_name("keyhole"))
PATIENCE = 120.0


@dataclass
class Served:
    """A running page."""

    process: subprocess.Popen[str]
    port: int
    entry: Path
    cookie: str = ""
    printed: str = ""
    session: dict[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def enter(self) -> None:
        """Exchange the token for the cookie, as a browser does."""
        token = re.search('name="token" value="([^"]+)"', self.entry.read_text(encoding="utf-8"))
        assert token is not None
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        status, headers, _ = self.send("POST", "/enter", f"token={token[1]}".encode(), kind)
        assert status == 200
        self.cookie = headers["set-cookie"].split(";")[0]

    def send(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """Send a request with exactly these headers, and the cookie."""
        with_cookie = {**({"Cookie": self.cookie} if self.cookie else {}), **(headers or {})}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, body, with_cookie)
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def ask(self, path: str, **given: Any) -> Any:
        """Ask what the page's own scripts ask."""
        headers = {"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"}
        status, _, body = self.send("POST", f"/api/{path}", json.dumps(given).encode(), headers)
        assert status == 200, body
        return json.loads(body)

    def upload(self, path: Path) -> str:
        """Upload a file; return the project."""
        headers = {"Content-Type": "application/octet-stream", "Sec-Fetch-Site": "same-origin"}
        headers["X-File-Name"] = path.name
        status, _, body = self.send("PUT", "/api/upload", path.read_bytes(), headers)
        assert status == 200
        return str(json.loads(body)["project"])

    def state(self, project: str) -> str:
        """Return the state of the last run."""
        return str(json.loads(self.send("GET", f"/api/{project}/version")[2])["run"])

    def wait_for(self, project: str, *states: str) -> str:
        """Wait until the run is in one of these states."""
        end = time.monotonic() + PATIENCE
        while (state := self.state(project)) not in states:
            assert time.monotonic() < end, state
            time.sleep(0.1)
        return state

    def children(self) -> list[psutil.Process]:
        """Return all processes that the server has started."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def end(self, number: int = signal.SIGTERM) -> int:
        """End the server, and return its status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        rest, _ = self.process.communicate(timeout=30)
        self.printed += rest
        return self.process.returncode


@contextmanager
def serve(home: Path, *arguments: str) -> Iterator[Served]:
    """Start the page on a folder, and end it."""
    environment = {**os.environ, "KEYHOLE_STATE": str(home)}
    process = subprocess.Popen(
        [KEYHOLE, "app", "--no-browser", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        first, second = process.stdout.readline(), process.stdout.readline()
        port = re.fullmatch(r"http://127\.0\.0\.1:(\d+)\n", first)
        entry = re.search(r"open (.+\.html) in a browser", second)
        assert port is not None, first
        assert entry is not None, second
        found = Served(process, int(port[1]), Path(entry[1]), printed=first + second)
        found.enter()
        yield found
        if process.poll() is None:
            found.end()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def wait_until_gone(processes: list[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Return the processes that are still there after so long."""
    _, left = psutil.wait_procs(processes, timeout=seconds)
    return [process for process in left if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
