"""Who may ask the page: host, cookie, origin, content type; and the headers of every answer."""

import itertools
import re
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from keyhole.app.guard import HEADERS, POLICY
from keyhole.app.screens import ROUTES
from tests.unit.asgi import HOST, PORT, Opened, ask, open_page

METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT")
PATHS = [re.sub(r"\{project\}", "0" * 16, path).replace("{name}", "app.css") for _, path, _ in ROUTES]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    with open_page(tmp_path / "home") as found:
        yield found


def test_without_the_cookie_no_route_answers(opened: Opened) -> None:
    wrong = [[], [("cookie", f"{opened.door.cookie}=")], [("cookie", f"{opened.door.cookie}={'x' * 43}")]]
    wrong += [[("cookie", f"{opened.door.cookie}={opened.door.token}")], [("cookie", f"other={opened.door.session}")]]
    wrong += [[("cookie", "\x00;;=\xff")], [("authorization", f"Bearer {opened.door.session}")]]
    for path, method, cookie in itertools.product({*PATHS, "/enter", "/nowhere"}, METHODS, wrong):
        answer = ask(opened.app, method, path, [("host", HOST), ("sec-fetch-site", "same-origin"), *cookie])
        assert answer.status in (401, 403), (method, path, cookie, answer.status)
        assert opened.door.session.encode() not in answer.body
        assert opened.door.token.encode() not in answer.body


def test_with_the_cookie_they_do(opened: Opened) -> None:
    """Or the test above could not fail: the same requests, by whoever has entered."""
    for path in ("/", "/static/app.css", "/static/report.css"):
        assert opened.get(path).status == 200
    assert opened.get(f"/p/{'0' * 16}/run").status == 404


HOSTILE = [
    "evil.com", f"evil.com:{PORT}", f"127.0.0.1.evil.com:{PORT}", f"localhost.evil.com:{PORT}",
    f"localhost@evil.com:{PORT}", f"evil.com@localhost:{PORT}", f"127.0.0.1@evil:{PORT}", f"localhost.:{PORT}",
    f"127.0.0.1.:{PORT}", f"LOCALHOST:{PORT}", f"[::1]:{PORT}", "[::1]", f"[::ffff:127.0.0.1]:{PORT}",
    f"2130706433:{PORT}", f"0177.0.0.1:{PORT}", f"0x7f.1:{PORT}", f"127.1:{PORT}", f"127.0.0.2:{PORT}",
    f"0.0.0.0:{PORT}", "", " ", "127.0.0.1", "localhost", f"127.0.0.1:{PORT + 1}", f"127.0.0.1:{PORT}0",
    f"127.0.0.1:0{PORT}", f"127.0.0.1:{PORT}/", f"127.0.0.1:{PORT},evil.com", f" 127.0.0.1:{PORT}",
    f"http://127.0.0.1:{PORT}", f"127.0.0.1:{PORT}#", f"127.0.0.1:{PORT}\t", f"localhost:{PORT}\x00",
]  # fmt: skip


@pytest.mark.parametrize("host", HOSTILE)
def test_other_hosts_are_refused_on_every_route(opened: Opened, host: str) -> None:
    for method, path, _ in [*ROUTES, ("POST", "/enter", None)]:
        where = re.sub(r"\{project\}", "0" * 16, path).replace("{name}", "app.css")
        answer = ask(
            opened.app, method, where, [("host", host), *opened.own[1:]], [b"token=" + opened.door.token.encode()]
        )
        assert answer.status == 403, (host, method, where)
    assert ask(opened.app, "GET", "/", [("host", HOST), ("host", host), *opened.own[1:]]).status == 403


def test_our_own_hosts_pass_and_headers_of_proxies_change_nothing(opened: Opened) -> None:
    cookie = opened.own[1]
    for host in (HOST, f"localhost:{PORT}"):
        for more in ([], [("x-forwarded-host", "evil.com")], [("forwarded", "host=evil.com")]):
            assert ask(opened.app, "GET", "/", [("host", host), cookie, *more]).status == 200
    assert ask(opened.app, "GET", "/", [cookie]).status == 403
    assert ask(opened.app, "GET", "/", [("x-forwarded-host", HOST), ("host", "evil.com"), cookie]).status == 403
    assert ask(opened.app, "GET", "http://evil.com/", [("host", HOST), cookie]).status == 400


SITES = ("same-origin", "same-site", "cross-site", "none", None)
ORIGINS = (f"http://{HOST}", "http://evil.com", "null", None)
MAY_CHANGE = {("same-origin", ORIGINS[0]), ("same-origin", None), (None, ORIGINS[0])}
MAY_READ = {*MAY_CHANGE, ("none", ORIGINS[0]), ("none", None), (None, None)}


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_only_our_own_page_may_change_anything(opened: Opened, site: Any, origin: Any, method: str) -> None:
    """All 40 cases, exactly."""
    headers = [*opened.own, ("content-type", "application/json")]
    headers += [("sec-fetch-site", site)] if site else []
    headers += [("origin", origin)] if origin else []
    # A project that does not exist is found out behind the guard.
    path = f"/api/{'0' * 16}/{'stop' if method == 'POST' else 'version'}"
    allowed = (site, origin) in (MAY_CHANGE if method == "POST" else MAY_READ)
    assert ask(opened.app, method, path, headers, [b"{}"]).status == (404 if allowed else 403)


@pytest.mark.parametrize("origin", [
    f"https://{HOST}", f"http://{HOST}/", f"http://127.0.0.1:{PORT + 1}", "http://localhost", f"HTTP://{HOST}",
    f"http://{HOST}.evil.com", f"http://user@{HOST}", "", "file://", f"http://{HOST} http://evil.com",
])  # fmt: skip
def test_origins_that_nearly_are_ours_are_not(opened: Opened, origin: str) -> None:
    headers = [*opened.own, ("content-type", "application/json"), ("origin", origin)]
    for more in ([], [("sec-fetch-site", "same-origin")]):
        assert ask(opened.app, "POST", f"/api/{'0' * 16}/stop", headers + more, [b"{}"]).status == 403


@pytest.mark.parametrize("kind", [
    "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json", "*/*",
])  # fmt: skip
def test_a_form_of_another_page_has_no_type_that_is_read(opened: Opened, kind: str) -> None:
    for method, path in (("POST", f"/api/{'0' * 16}/stop"), ("PUT", "/api/upload")):
        headers = [*opened.own, ("sec-fetch-site", "same-origin"), ("content-type", kind)]
        assert ask(opened.app, method, path, headers, [b"{}"]).status == 415
    assert ask(opened.app, "POST", path, [*opened.own, ("sec-fetch-site", "same-origin")]).status == 415


def test_every_answer_has_the_headers_and_none_allows_another_origin(opened: Opened) -> None:
    answers = [opened.get(path) for path in PATHS] + [opened.post(path) for path in PATHS]
    answers += [ask(opened.app, "GET", "/", [("host", "evil.com")]), ask(opened.app, "GET", "/", [("host", HOST)])]
    answers += [enter(opened, opened.door.token), enter(opened, "x"), opened.post("/api/x/choices", "no JSON")]
    for answer in answers:
        for name, value in HEADERS:
            assert answer.headers[name] == value
        assert not any(name.startswith("access-control-") for name in answer.headers)
    assert "unsafe" not in POLICY
    assert "'none'" in POLICY.split(";")[0]


def enter(opened: Opened, token: str) -> Any:
    headers = [("host", HOST), ("content-type", "application/x-www-form-urlencoded"), ("origin", "null")]
    return ask(opened.app, "POST", "/enter", [*headers, ("sec-fetch-site", "cross-site")], [f"token={token}".encode()])


def test_a_token_is_good_for_one_entry(opened: Opened) -> None:
    token = opened.door.token
    assert len(urllib.parse.unquote(token)) >= 43  # 32 bytes
    answer = enter(opened, token)
    assert answer.status == 200
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert cookie.startswith(f"{opened.door.cookie}={opened.door.session};")
    assert token not in answer.body.decode() + str(answer.headers)
    assert enter(opened, token).status == 403
    assert opened.door.token != token
    text = opened.door.entry.read_text(encoding="utf-8")
    assert opened.door.token in text
    assert token not in text
    assert opened.door.entry.stat().st_mode & 0o777 == 0o600
    assert enter(opened, opened.door.token).status == 200


@pytest.mark.parametrize("body", [b"", b"token=", b"token", b"=", b"token=\xff", b"token=" + b"x" * 10**6, b"x=1"])
def test_what_is_no_token_opens_nothing(opened: Opened, body: bytes) -> None:
    for chunks in ([body], [body[:3], body[3:]]):
        answer = ask(opened.app, "POST", "/enter", [("host", HOST)], chunks)
        assert answer.status == 403
        assert "set-cookie" not in answer.headers


def test_secrets_are_in_no_representation(opened: Opened) -> None:
    assert opened.door.token not in repr(opened.door)
    assert opened.door.session not in repr(opened.door)
