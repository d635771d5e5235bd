"""The server: on the loopback address, for one user, until it is told to end."""

import asyncio
import contextlib
import logging
import signal
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from keyhole.app.guard import Door, Guard
from keyhole.app.home import ENTRY, open_home, state_folder
from keyhole.app.screens import Page, make_routes, refuse_unexpected
from keyhole.app.uploads import LIMIT, Uploads
from keyhole.errors import OutputError

ADDRESS = "127.0.0.1"
QUEUE = 128
END_SECONDS = 2


class Server(uvicorn.Server):
    """Ends the streams of the page before it waits for them."""

    def __init__(self, config: uvicorn.Config, page: Page) -> None:
        super().__init__(config)
        self.page = page
        self.sweeping: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer requests, and look for uploads that are not used."""
        await super().startup(sockets)
        self.sweeping = asyncio.create_task(self.page.sweep())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End streams, then requests, then the processes."""
        self.page.ending = True
        if self.sweeping is not None:
            self.sweeping.cancel()
        await super().shutdown(sockets)
        await self.page.children.close()


@contextmanager
def listen(port: int) -> Iterator[socket.socket]:
    """Yield a socket on the loopback address."""
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as found:
        if sys.platform != "win32":  # where it would let another program take the port
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((ADDRESS, port))
        except OSError as error:
            raise OutputError(f"port {port} cannot be used ({error.strerror}): choose another with `port`.") from None
        found.listen(QUEUE)
        yield found


def serve(file: Path | None, port: int, browser: bool, show: Callable[[str], object], limit: int = LIMIT) -> None:
    """Serve the page until Ctrl-C or SIGTERM. show: prints what the user has to know."""
    # Whatever libraries would log goes nowhere: addresses, headers and the words of errors belong to the user.
    logging.getLogger("uvicorn").addHandler(logging.NullHandler())
    logging.getLogger("uvicorn").propagate = False
    # uvicorn raises the signal that ended it again, which must not end us before all is put away.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with open_home(state_folder()) as home, listen(port) as found:
        first = "/" if file is None else f"/p/{home.open(file).identifier}/variables"
        door = Door(found.getsockname()[1], home.folder / ENTRY, first)
        door.write_entry()
        try:
            show(f"{door.address}\nTo enter, open {door.entry} in a browser. Ctrl-C ends keyhole; runs can be resumed.")
            if browser:
                # In a thread, because a browser in the terminal would keep us.
                threading.Thread(target=webbrowser.open, args=(door.entry.as_uri(),), daemon=True).start()
            page = Page(home, Uploads(home.incoming, limit))
            app = make_routes(page)
            app.add_exception_handler(Exception, refuse_unexpected)
            config = uvicorn.Config(
                Guard(app, door), http="h11", ws="none", lifespan="off", log_config=None, log_level="critical",
                access_log=False, server_header=False, proxy_headers=False, timeout_graceful_shutdown=END_SECONDS,
            )  # fmt: skip
            with contextlib.suppress(KeyboardInterrupt):
                asyncio.run(Server(config, page).serve([found]))
        finally:
            door.entry.unlink(missing_ok=True)
