"""Ask the page without a network: a request as the server would pass it on, and the whole answer."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keyhole.app.guard import Door, Guard
from keyhole.app.home import open_home
from keyhole.app.screens import Page, make_routes
from keyhole.app.uploads import Uploads

PORT = 4321
HOST = f"127.0.0.1:{PORT}"


@dataclass
class Answer:
    """status, headers in small letters, body; read: how much of the request's body was asked for."""

    status: int
    headers: dict[str, str]
    body: bytes
    read: int


def ask(
    app: Any,
    method: str,
    path: str,
    headers: list[tuple[str, str]],
    chunks: list[bytes] | None = None,
) -> Answer:
    """Send one request."""
    waiting = list(chunks or [b""])
    read = 0
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        nonlocal read
        if not waiting:
            return {"type": "http.disconnect"}
        chunk = waiting.pop(0)
        read += len(chunk)
        return {"type": "http.request", "body": chunk, "more_body": bool(waiting)}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    plain, _, query = path.partition("?")
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": plain, "raw_path": plain.encode(), "query_string": query.encode(), "root_path": "",
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers],
        "client": ("127.0.0.1", 5), "server": ("127.0.0.1", PORT),
    }  # fmt: skip
    asyncio.run(app(scope, receive, send))
    start = sent[0]
    found = {name.decode().lower(): value.decode("latin-1") for name, value in start["headers"]}
    return Answer(start["status"], found, b"".join(item.get("body", b"") for item in sent[1:]), read)


@dataclass
class Opened:
    """A page that somebody has entered."""

    page: Page
    door: Door
    app: Any

    @property
    def own(self) -> list[tuple[str, str]]:
        """The headers of a request of our own page."""
        return [("host", HOST), ("cookie", f"{self.door.cookie}={self.door.session}")]

    def get(self, path: str) -> Answer:
        return ask(self.app, "GET", path, self.own)

    def post(self, path: str, text: str = "{}") -> Answer:
        extra = [("sec-fetch-site", "same-origin"), ("content-type", "application/json")]
        return ask(self.app, "POST", path, self.own + extra, [text.encode()])

    def put(
        self, chunks: list[bytes], name: str = "a.csv", *more: tuple[str, str], path: str = "/api/upload"
    ) -> Answer:
        extra = [("sec-fetch-site", "same-origin"), ("content-type", "application/octet-stream"), *more]
        return ask(self.app, "PUT", path, [*self.own, *extra, ("x-file-name", name)], chunks)


def open_page(folder: Path, limit: int = 1_000) -> Any:
    """Return a context with the page on a folder, closed at its end."""
    from contextlib import contextmanager

    @contextmanager
    def opened() -> Any:
        with open_home(folder) as home:
            door = Door(PORT, home.folder / "enter.html")
            door.write_entry()
            page = Page(home, Uploads(home.incoming, limit))
            yield Opened(page, door, Guard(make_routes(page), door))

    return opened()
