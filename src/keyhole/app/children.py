"""The processes that the server starts: one desk for each file in use, and the runs. None outlives the server.

Each has a pipe from the server as its standard input. It is closed when the server ends, however that happens, and the
process then ends too: a run after it has kept its work.
"""

import asyncio
import contextlib
import itertools
import json
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from pathlib import Path
from typing import Any

from keyhole.app.child import write_quickly
from keyhole.app.home import Project, Run
from keyhole.errors import KeyholeError

LONGEST_LINE = 1 << 28
MOST_DESKS = 3
IDLE_SECONDS = 900.0
STOP_SECONDS = 1.6
"""How long a run may take to keep its work when it is stopped."""

LEAVE_SECONDS = 4.0
"""The same when the server ends."""

GONE = "Reading the file ended unexpectedly, perhaps for lack of memory: try again, or use a larger machine."
STOPPED = {"state": "stopped", "message": "The run was stopped."}
CRASHED = "The run ended unexpectedly, perhaps because memory ran out. What it had kept can be resumed."


async def start(module: str, *arguments: str, answers: bool = False) -> Process:
    """Start a module of ours. -P: whatever lies in the current folder is not imported."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", f"keyhole.app.{module}", *arguments,
        stdin=PIPE, stdout=PIPE if answers else DEVNULL, stderr=DEVNULL, start_new_session=True, limit=LONGEST_LINE,
    )  # fmt: skip


class GoneError(KeyholeError):
    """A process has ended that was to answer."""


class Desk:
    """The process that answers questions about one file."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.used = time.monotonic()
        self.numbers = itertools.count(1)
        self.waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.listening = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        assert self.process.stdout is not None
        with contextlib.suppress(ValueError, asyncio.IncompleteReadError):
            while line := await self.process.stdout.readline():
                found = json.loads(line)
                future = self.waiting.pop(found["id"], None)
                if future is not None and not future.done():
                    future.set_result(found)
        for future in self.waiting.values():
            if not future.done():
                future.set_exception(GoneError(GONE))
        self.waiting.clear()

    @property
    def alive(self) -> bool:
        return self.process.returncode is None and not self.listening.done()

    async def ask(self, what: str, **given: Any) -> Any:
        """Ask a question; an error of the other side is raised here."""
        assert self.process.stdin is not None
        self.used, number = time.monotonic(), next(self.numbers)
        future = asyncio.get_running_loop().create_future()
        self.waiting[number] = future
        try:
            self.process.stdin.write(json.dumps({"id": number, "do": what, "with": given}).encode() + b"\n")
            await self.process.stdin.drain()
        except OSError:
            raise GoneError(GONE) from None
        found = await future
        self.used = time.monotonic()
        if "error" in found:
            raise KeyholeError(found["error"])
        return found["answer"]

    async def close(self) -> None:
        """End the process."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()
        await self.listening


def name_desk(identifier: str, aside: bool) -> str:
    return f"{identifier} aside" if aside else identifier


class Children:
    """All processes of the server."""

    def __init__(self) -> None:
        self.desks: dict[str, Desk] = {}
        self.fits: dict[Path, tuple[Process, asyncio.Task[None]]] = {}
        self.stopped: set[Path] = set()
        self.lock = asyncio.Lock()
        self.sweeping: asyncio.Task[None] | None = None

    async def ask(self, project: Project, what: str, aside: bool = False, **given: Any) -> Any:
        """Ask the desk of a project, which is opened if need be; one that has died is replaced once.

        aside: a desk of its own for what takes long.
        """
        name = name_desk(project.identifier, aside)
        try:
            return await (await self._open_desk(name)).ask(what, **given)
        except GoneError:
            return await (await self._open_desk(name)).ask(what, **given)

    async def _open_desk(self, identifier: str) -> Desk:
        async with self.lock:
            desk = self.desks.get(identifier)
            if desk is None or not desk.alive:
                desk = self.desks[identifier] = Desk(await start("desk", answers=True))
            await self._close_idle(MOST_DESKS - 1, identifier)
            if self.sweeping is None:
                self.sweeping = asyncio.create_task(self._sweep())
        return desk

    async def _close_idle(self, most: int, kept: str = "") -> None:
        """Close the desks that nobody waits for and that were not used for long, or are more than so many."""
        idle = sorted((desk.used, name) for name, desk in self.desks.items() if name != kept and not desk.waiting)
        for place, (used, name) in enumerate(reversed(idle)):
            if place >= most or time.monotonic() - used > IDLE_SECONDS:
                await self.desks.pop(name).close()

    async def _sweep(self) -> None:
        """Give back the memory of desks that are not used."""
        while True:
            await asyncio.sleep(IDLE_SECONDS / 10)
            async with self.lock:
                await self._close_idle(MOST_DESKS)

    async def close_desk(self, identifier: str, aside: bool = False) -> None:
        """Close the desk of a project, if it has one."""
        desk = self.desks.pop(name_desk(identifier, aside), None)
        if desk is not None:
            await desk.close()

    def is_busy(self, project: Project) -> bool:
        """Whether somebody waits for an answer about a project."""
        desks = (self.desks.get(name_desk(project.identifier, aside)) for aside in (False, True))
        return any(desk is not None and desk.waiting for desk in desks)

    def is_running(self, run: Run | None) -> bool:
        return run is not None and run.folder in self.fits

    async def start_fit(self, run: Run) -> None:
        """Start a run, or go on with it."""
        async with self.lock:
            if run.folder not in self.fits:
                await self._start_fit(run)

    async def _start_fit(self, run: Run) -> None:
        for name in ("outcome.json", "progress.json"):
            (run.folder / name).unlink(missing_ok=True)
        process = await start("fit", str(run.folder))
        self.fits[run.folder] = process, asyncio.create_task(self._watch(run, process))

    async def _watch(self, run: Run, process: Process) -> None:
        """Note the end of a run that could not note it itself."""
        await process.wait()
        if run.outcome is None and run.folder.is_dir():
            outcome = STOPPED if run.folder in self.stopped else {"state": "failed", "message": CRASHED}
            write_quickly(outcome, run.folder / "outcome.json")
        self.stopped.discard(run.folder)
        del self.fits[run.folder]

    async def stop_fit(self, run: Run, patience: float = STOP_SECONDS) -> None:
        """Stop a run: first so that it keeps its work, then at once."""
        if run.folder not in self.fits:
            return
        process, watching = self.fits[run.folder]
        self.stopped.add(run.folder)
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(asyncio.shield(watching), patience)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await watching

    async def close(self) -> None:
        """End all of them; runs keep their work."""
        if self.sweeping is not None:
            self.sweeping.cancel()
        await asyncio.gather(*(self.stop_fit(Run(folder), LEAVE_SECONDS) for folder in list(self.fits)))
        for desk in list(self.desks.values()):
            await desk.close()
        self.desks.clear()
