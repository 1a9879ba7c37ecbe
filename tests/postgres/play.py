"""Runs pytest in a process of its own on servers that the caller has started; the runner's closing line comes out."""

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOUCHING_THE_DATABASE = ("tests/migrations", "tests/service", "tests/workers")
PATIENCE = 120.0  # seconds that an interrupted pytest gets to clean up


@dataclass(frozen=True)
class Outcome:
    """How a run of pytest ended."""

    code: int
    closing: str


def arguments(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """What stands before `--`, and what goes to pytest: all tests that touch the database unless it names others."""
    own, options = list(argv), []
    if "--" in own:
        place = own.index("--")
        own, options = own[:place], own[place + 1 :]
    named = any((ROOT / option.split("::")[0]).exists() for option in options)
    return own, [*options, *(() if named else TOUCHING_THE_DATABASE)]


async def pytest(database: str, redis: str, options: Sequence[str]) -> Outcome:
    """Runs pytest and shows what it says. When we are interrupted, so is it, and it gets time to clean up."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pytest", "--quiet", *options),
        cwd=ROOT,
        env=os.environ | {"TEST_DATABASE_URL": database, "TEST_REDIS_URL": redis},
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for us
    )
    assert process.stdout
    closing = ""
    try:
        async for line in process.stdout:
            sys.stdout.write(line.decode())
            sys.stdout.flush()
            closing = line.decode().strip("= \n") or closing
        return Outcome(await process.wait(), closing)
    finally:
        await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.communicate(), PATIENCE)
    if process.returncode is None:
        process.kill()
        await process.wait()


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A folder for servers, which run as another user when we are root."""
    with tempfile.TemporaryDirectory(prefix="precis-postgres-", ignore_cleanup_errors=True) as made:
        Path(made).chmod(0o711)
        yield Path(made)


def run(main: Coroutine[None, None, int]) -> None:
    """Runs a command to its exit code; SIGTERM ends it as Ctrl-C does, with nothing left behind."""

    async def stoppable() -> int:
        task = asyncio.create_task(main)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await task

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background starts with it ignored
    try:
        sys.exit(asyncio.run(stoppable()))
    except (KeyboardInterrupt, asyncio.CancelledError):
        sys.exit("interrupted")
