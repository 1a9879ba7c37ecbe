"""One server process of ours: started through `child.py`, watched, and stopped.

Start servers from a thread that outlives them, in practice the one with the event loop: Linux ends
a server when the thread that forked it ends.
"""

import asyncio
import contextlib
import errno
import os
import signal
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from service.embedded import child
from service.embedded.account import Account
from service.embedded.folder import room
from service.embedded.port import PortTakenError
from service.errors import EmbeddedServerError

POLL = 0.01  # seconds between two looks at a starting server
START = 120.0  # seconds: a PostgreSQL that was killed first replays up to 1 GB of log
TAIL = 15  # lines of a server's log in an error


@dataclass(frozen=True)
class Program:
    """A server or tool, and how to end it: each signal gets its seconds before the next."""

    name: str
    binary: Path
    account: Account | None
    stops: tuple[tuple[signal.Signals, float], ...]

    def command(self, arguments: Sequence[str | Path]) -> list[str]:
        """Return the command line that runs it under `child.py`."""
        uid, gid = (self.account.uid, self.account.gid) if self.account else (-1, -1)
        before = (os.getpid(), int(self.stops[0][0]), uid, gid, self.binary)
        return [sys.executable, "-I", "-S", child.__file__, *map(str, (*before, *arguments))]


class Server:
    """A running program with a log."""

    def __init__(self, program: Program, process: asyncio.subprocess.Process, log: Path) -> None:
        self.pid = process.pid
        self._program = program
        self._process = process
        self._log = log

    async def until_ready(
        self, probe: Callable[[], Awaitable[bool]], port: int, patience: float = START
    ) -> None:
        """Wait until the probe says yes; after `patience` seconds the server is stopped.

        Raises:
            PortTakenError: another program has the port.
            EmbeddedServerError: it ended, or took too long; with the last lines of its log.
        """
        try:
            async with asyncio.timeout(patience):
                if await self._says_yes(probe):
                    return
        except TimeoutError:
            await self.stop()
            raise await self.failure(f"was not ready after {patience:.0f} s") from None
        except BaseException:  # cancelled, or the probe failed: the caller would not stop it
            await self.stop()
            raise
        # The server has ended. That is no failure of its own when it only lost the port.
        if os.strerror(errno.EADDRINUSE) in await asyncio.to_thread(_tail, self._log):
            raise PortTakenError(self._program.name, port)
        raise await self.failure("did not start")

    async def died(self) -> EmbeddedServerError:
        """Wait for the server's end and return what to say about it."""
        await self._process.wait()
        return await self.failure("stopped")

    async def failure(self, what: str) -> EmbeddedServerError:
        """Return an error that says what happened, with the last lines of the server's log."""
        tail = await asyncio.to_thread(_tail, self._log)
        return EmbeddedServerError(
            f"{self._program.name} {what} (exit code {self._process.returncode})."
            f"{room(self._log.parent)} Last lines of {self._log}:\n{tail or '(empty)'}"
        )

    async def stop(self) -> None:
        """End the process, gently first."""
        await _end(self._process, self._program.stops)

    async def _says_yes(self, probe: Callable[[], Awaitable[bool]]) -> bool:
        """Ask until the answer is yes; False when the server ends.

        It is watched all the time, because a probe may hang: another program may have the port.
        """

        async def ask() -> None:
            while not await probe():  # noqa: ASYNC110 - a server sends no event
                await asyncio.sleep(POLL)

        asking = asyncio.create_task(ask())
        ended = asyncio.create_task(self._process.wait())
        try:
            await asyncio.wait({asking, ended}, return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                return False
            await asking  # may raise
            return True
        finally:
            asking.cancel()
            ended.cancel()
            await asyncio.gather(asking, ended, return_exceptions=True)


async def start(
    program: Program, arguments: Sequence[str | Path], log: Path, *, given: bytes = b""
) -> Server:
    """Start a server that reads `given` and writes to `log`; wait for `until_ready` next.

    `given` must fit into a pipe (64 KB), so that no task has to write it while the server starts.
    """
    with contextlib.ExitStack() as descriptors:
        process = await asyncio.create_subprocess_exec(
            *program.command(arguments),
            stdin=descriptors.enter_context(_pipe(given)),
            stdout=descriptors.enter_context(_fresh(log)),
            stderr=asyncio.subprocess.STDOUT,
            cwd=log.parent,
        )
    return Server(program, process, log)


async def run(
    program: Program, arguments: Sequence[str | Path], folder: Path, *, given: bytes = b""
) -> None:
    """Run a tool to its end; an error carries what it wrote."""
    process = await asyncio.create_subprocess_exec(
        *program.command(arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=folder,
    )
    try:
        output, _ = await process.communicate(given)
    finally:
        await _end(process, program.stops)
    if process.returncode != 0:
        lines = "\n".join(output.decode(errors="replace").splitlines()[-TAIL:])
        raise EmbeddedServerError(
            f"{program.name} failed (exit code {process.returncode}).{room(folder)} "
            f"Its last lines:\n{lines}"
        )


async def _end(
    process: asyncio.subprocess.Process, stops: tuple[tuple[signal.Signals, float], ...]
) -> None:
    try:
        for number, patience in stops:
            if process.returncode is not None:
                return
            process.send_signal(number)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), patience)
    finally:  # out of patience, or cancelled
        if process.returncode is None:
            process.kill()
    await process.wait()


def _fresh(log: Path) -> IO[bytes]:
    if log.exists():  # one older log is kept: it says why the start before ended
        log.replace(log.with_name(f"{log.name}.old"))
    return open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")


def _pipe(content: bytes) -> IO[bytes]:
    reader, writer = os.pipe()
    with open(writer, "wb") as file:
        file.write(content)
    return open(reader, "rb")


def _tail(log: Path) -> str:
    with log.open(errors="replace") as lines:
        return "".join(deque(lines, TAIL)).rstrip()
