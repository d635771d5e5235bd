"""Uploads: the bytes of a request go to a file of our own name, within a limit, never through memory."""

import asyncio
import contextlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from starlette.requests import Request

LIMIT = 1_000_000_000
MOST_AT_ONCE = 4
BUFFER = 1 << 20


class TooLargeError(Exception):
    """The upload exceeds the limit."""


class TooManyError(Exception):
    """Too many uploads at once."""


@dataclass
class Uploads:
    """Receives files into a folder. now: how many are on their way."""

    folder: Path
    limit: int = LIMIT
    now: int = 0

    @contextmanager
    def _place(self) -> Iterator[None]:
        if self.now >= MOST_AT_ONCE:
            raise TooManyError
        self.now += 1
        try:
            yield
        finally:
            self.now -= 1

    async def receive(self, request: Request) -> Path:
        """Return the complete file; of anything less nothing is left."""
        with self._place():
            # What is announced is refused before it is read; what is not announced, or wrongly, is counted.
            announced = request.headers.get("content-length", "0")
            if announced.isdecimal() and int(announced) > self.limit:
                raise TooLargeError
            path = self.folder / secrets.token_hex(16)
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
            try:
                with os.fdopen(handle, "wb") as file:
                    await self._write(request, file)
            except BaseException:
                with contextlib.suppress(OSError):
                    path.unlink()
                raise
            return path

    async def _write(self, request: Request, file: BinaryIO) -> None:
        size, buffer = 0, bytearray()
        async for chunk in request.stream():
            size += len(chunk)
            if size > self.limit:
                raise TooLargeError
            buffer += chunk
            if len(buffer) >= BUFFER:
                await asyncio.to_thread(file.write, bytes(buffer))
                buffer.clear()
        await asyncio.to_thread(file.write, bytes(buffer))
