"""One server process of ours: started through `service/tied.py`, watched, and stopped.

Start servers from a thread that outlives them, in practice the one with the event loop: Linux ends
a server when the thread that forked it ends.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from service import tied
from service.embedded.account import Account
from service.errors import EmbeddedServerError

HOST = "127.0.0.1"
POLL = 0.01  # seconds between two looks at a starting server
START = 120.0  # seconds: a PostgreSQL that was killed first replays up to 1 GB of log
STOP = 30.0  # seconds for a gentle end, before it is killed
TAIL = 15  # lines of a server's log in an error

Arguments = Sequence[str | Path]


@dataclass(frozen=True)
class Program:
    """A server or tool, and the signal that ends it gently."""

    name: str
    binary: Path
    account: Account | None
    stop: signal.Signals

    def command(self, arguments: Arguments) -> list[str]:
        """Return the command line that runs it under `tied.py`."""
        uid, gid = (self.account.uid, self.account.gid) if self.account else (-1, -1)
        before = (os.getpid(), int(self.stop), uid, gid, self.binary)
        return [sys.executable, "-I", "-S", tied.__file__, *map(str, (*before, *arguments))]

    async def start(self, arguments: Arguments, folder: Path, output: int | IO[bytes]) -> Process:
        """Start it in a folder; what it says goes to `output`."""
        return await asyncio.create_subprocess_exec(
            *self.command(arguments),
            stdin=PIPE,
            stdout=output,
            stderr=STDOUT,
            cwd=folder,
        )


@dataclass(frozen=True)
class Server:
    """A running program with a log."""

    program: Program
    process: Process
    log: Path

    async def died(self) -> EmbeddedServerError:
        """Wait for the server's end and return what to say about it."""
        await self.process.wait()
        return await self.failure("stopped")

    async def stop(self) -> None:
        """End the process, gently first."""
        await _end(self.process, self.program)

    async def failure(self, what: str) -> EmbeddedServerError:
        """Return an error that says what happened, with the last lines of the server's log."""
        tail = await asyncio.to_thread(_read_tail, self.log)
        return EmbeddedServerError(
            f"{self.program.name} {what} (exit code {self.process.returncode})."
            f" Last lines of {self.log}:\n{tail or '(empty)'}"
        )


@contextlib.asynccontextmanager
async def run_server(
    program: Program,
    arguments: Arguments,
    log: Path,
    answers: Callable[[], Awaitable[bool]],
    *,
    given: bytes = b"",
    patience: float = START,
) -> AsyncIterator[Server]:
    """A server that answers, writes to `log`, and is stopped when the context closes.

    It reads `given`, which must fit into a pipe (64 KB).

    Raises:
        EmbeddedServerError: it did not start, or not within `patience` seconds; with the last lines
            of its log.
    """
    with _open_log(log) as output:
        process = await program.start(arguments, log.parent, output)
    server = Server(program, process, log)
    try:
        assert process.stdin
        process.stdin.write(given)
        process.stdin.close()
        await _wait_until_ready(server, answers, patience)
        yield server
    finally:
        await server.stop()


async def run(program: Program, arguments: Arguments, folder: Path, *, given: bytes = b"") -> None:
    """Run a tool to its end; an error carries what it wrote."""
    process = await program.start(arguments, folder, PIPE)
    try:
        output, _ = await process.communicate(given)
    finally:
        await _end(process, program)
    if process.returncode != 0:
        lines = "\n".join(output.decode(errors="replace").splitlines()[-TAIL:])
        raise EmbeddedServerError(
            f"{program.name} failed (exit code {process.returncode}). Its last lines:\n{lines}"
        )


def find_free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        address: tuple[str, int] = listener.getsockname()
    return address[1]


async def _wait_until_ready(
    server: Server, answers: Callable[[], Awaitable[bool]], patience: float
) -> None:
    try:
        async with asyncio.timeout(patience):
            while server.process.returncode is None:
                if await answers():
                    return
                await asyncio.sleep(POLL)
    except TimeoutError:
        raise await server.failure(f"was not ready after {patience:.0f} s") from None
    raise await server.failure("did not start")


async def _end(process: Process, program: Program) -> None:
    try:
        if process.returncode is None:
            process.send_signal(program.stop)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), STOP)
    finally:  # out of patience, or cancelled
        if process.returncode is None:
            process.kill()
    await process.wait()


def _open_log(log: Path) -> IO[bytes]:
    if log.exists():  # one older log is kept: it says why the start before ended
        log.replace(log.with_name(f"{log.name}.old"))
    return open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")


def _read_tail(log: Path) -> str:
    with log.open(errors="replace") as lines:
        return "".join(deque(lines, TAIL)).rstrip()
