"""Who may ask: every request passes here first, and every answer leaves with the same headers.

The server listens on the loopback address only, but every program and every web page on the machine can reach that. So:

- the host must be one of ours by name and port, else a page elsewhere could point its own name here (DNS rebinding);
- whoever asks must have the cookie, which is given in exchange for a token that stands in a file of mode 0600;
- what changes something must come from our own page (Sec-Fetch-Site, Origin), as JSON or as the bytes of an upload.

The token is good for one entry; the file then has a new one. It is sent in a form, never in an address.
"""

import hmac
import html
import secrets
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from keyhole.files import write_text

SAFE = frozenset({"GET", "HEAD"})
ALLOWED = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE"})
BODY_TYPES = {"POST": "application/json", "PUT": "application/octet-stream"}
LONGEST_ENTRY = 1_000
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("cache-control", "no-store"),
    # With no-referrer a browser would send the origin "null" with some requests of our own page.
    ("referrer-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
)
STRANGER = (
    "This page belongs to the person who started it. To enter, open the file whose name `keyhole app` has shown in the "
    "terminal."
)
ENTRY_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><meta name="referrer" content="no-referrer"><title>keyhole</title></head>
<body>
<form method="post" action="{address}/enter">
<input type="hidden" name="token" value="{token}">
<button>Open keyhole</button>
</form>
<script>document.forms[0].submit();</script>
</body>
</html>
"""
ENTERED_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={first}"><title>keyhole</title>
<link rel="icon" href="/static/icon.svg" type="image/svg+xml"></head>
<body><p><a href="{first}">Go on to keyhole</a></p></body>
</html>
"""


def new_secret() -> str:
    """Return 32 random bytes as text."""
    return secrets.token_urlsafe(32)


@dataclass
class Door:
    """What opens the page. entry: the file with the token; first: where one arrives."""

    port: int
    entry: Path
    first: str = "/"
    token: str = field(default_factory=new_secret, repr=False)
    session: str = field(default_factory=new_secret, repr=False)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def hosts(self) -> frozenset[str]:
        return frozenset({f"127.0.0.1:{self.port}", f"localhost:{self.port}"})

    @property
    def origins(self) -> frozenset[str]:
        return frozenset(f"http://{host}" for host in self.hosts)

    @property
    def cookie(self) -> str:
        """The name of the cookie: browsers keep those of all ports together."""
        return f"keyhole-{self.port}"

    def write_entry(self) -> None:
        """Write the file by which a browser enters, for its owner only."""
        write_text(ENTRY_PAGE.format(address=self.address, token=self.token), self.entry)

    def renew(self) -> None:
        """Make a new token, because the last one was used."""
        self.token = new_secret()
        self.write_entry()

    def knows(self, cookies: str) -> bool:
        """Whether one of the cookies is ours."""
        try:
            found = SimpleCookie(cookies).get(self.cookie)
        except CookieError:
            return False
        return found is not None and same(found.value, self.session)


def same(given: str, wanted: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(given.encode(), wanted.encode())


class Guard:
    """Lets through what may pass; answers the rest itself."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self.app, self.door = app, door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request and pass it on."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        guarded = with_headers(send)
        refusal = self._refuse(scope)
        if refusal is not None:
            await refusal(scope, receive, guarded)
        elif scope["path"] == "/enter":
            response = await self._enter(Request(scope, receive))
            await response(scope, receive, guarded)
        else:
            await self.app(scope, receive, guarded)

    def _refuse(self, scope: Scope) -> Response | None:
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        method = scope["method"]
        if len(headers.get("host", ())) != 1 or headers["host"][0] not in self.door.hosts:
            return PlainTextResponse("This server has another name.", 403)
        if not scope["path"].startswith("/"):
            return PlainTextResponse("Not an address of this page.", 400)
        if scope["path"] == "/enter":
            return None if method == "POST" else PlainTextResponse(STRANGER, 401)
        if not self.door.knows("; ".join(headers.get("cookie", ()))):
            return HTMLResponse(refusal_page(STRANGER), 401)
        if method not in ALLOWED:
            return PlainTextResponse("Not possible.", 405)
        if not self._is_own(method, headers.get("sec-fetch-site", []), headers.get("origin", [])):
            return PlainTextResponse("This request comes from another page.", 403)
        wanted = BODY_TYPES.get(method)
        if wanted is not None and [kind.split(";")[0].strip().lower() for kind in headers.get("content-type", ())] != [
            wanted
        ]:
            return PlainTextResponse(f"The body must be {wanted}.", 415)
        return None

    def _is_own(self, method: str, sites: list[str], origins: list[str]) -> bool:
        """Whether a request is from our own page; a person who types the address is no page, and changes nothing."""
        if len(sites) > 1 or len(origins) > 1 or any(origin not in self.door.origins for origin in origins):
            return False
        if method in SAFE:
            return not sites or sites[0] in ("same-origin", "none")
        return sites == ["same-origin"] or (not sites and bool(origins))

    async def _enter(self, request: Request) -> Response:
        """Give the cookie to whoever has the token. The next page is asked for by ours, so that the cookie is sent."""
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > LONGEST_ENTRY:
                return PlainTextResponse(STRANGER, 403)
        name, _, token = body.decode("latin-1").partition("=")
        if name != "token" or not same(token, self.door.token):
            return PlainTextResponse(STRANGER, 403)
        self.door.renew()
        response = HTMLResponse(ENTERED_PAGE.format(first=html.escape(self.door.first)))
        response.set_cookie(self.door.cookie, self.door.session, path="/", httponly=True, samesite="strict")
        return response


def refusal_page(text: str) -> str:
    """Return a page for a person who has not entered."""
    return (
        f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>keyhole</title><p>{html.escape(text)}</p></html>'
    )


def with_headers(send: Send) -> Send:
    """Return `send` that adds our headers to every answer."""

    async def send_guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = {name.encode(): value.encode() for name, value in HEADERS}
            kept = [(name, value) for name, value in message.get("headers", ()) if name.lower() not in own]
            message = {**message, "headers": [*kept, *own.items()]}
        await send(message)

    return send_guarded
