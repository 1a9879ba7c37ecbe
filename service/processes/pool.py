"""Runs functions on texts in child processes, so that no text stops or exhausts this process.

Some texts are hard: a pattern or a tokenizer may take minutes or gigabytes for them, and while it
runs in C, nothing else of its process does. So each call has a bound on its time and its memory; a
child that goes over either is ended and replaced. Why not a library: docs/adr/0012.
"""

import asyncio
import os
import pickle
import signal
import sys
from asyncio import IncompleteReadError, StreamReader, StreamWriter
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import ParamSpec, TypeVar, cast

import structlog

from service import metrics
from service.errors import PrecisError, TextProcessAway, TextTooHard, TextWorkFailed
from service.processes import child

P = ParamSpec("P")
T = TypeVar("T")

# Processes of a pool; a service with its own worker has two pools. A process takes some 250 MB of
# memory, and starts when it is needed.
PROCESSES = 2
# Seconds of CPU that one piece of text work may take: no text is worth more. The chat's summary
# mentions by its size only what is stopped.
SECONDS = 30.0
# Bytes that a process may take: four times what it takes at rest. Not enforced on macOS.
MEMORY = 2**30
_START = 120.0  # seconds that a child may take to load the vocabulary, on a busy machine
# A call may take so many times its bound of CPU by the clock: on a busy machine it waits for its
# turn.
_PATIENCE = 4
# A child gets these of our environment: no key, no password, no address of a server.
_KEPT = ("PATH", "LD_LIBRARY_PATH", "TMPDIR")
_ALONE = {"OPENBLAS_NUM_THREADS": "1"}  # NumPy's threads would take memory for each core

log = structlog.get_logger(__name__)


class Texts:
    """A pool of text processes. They start when they are needed, and live until `aclose`.

    It belongs to one event loop. Linux ends the children with the thread of that loop.
    """

    def __init__(self, processes: int, seconds: float, memory: int) -> None:
        """A pool.

        Args:
            processes: how many children there are at most.
            seconds: of CPU that a call may take; by the clock, four times as many.
            memory: bytes that a child may take in all; some 250 MB of it are the vocabulary.
        """
        self._seconds, self._memory = seconds, memory
        self._places = asyncio.Semaphore(processes)
        self._processes = set[Process]()
        self._idle = list[Process]()
        self._starting: asyncio.Task[None] | None = None
        self._is_closed = False

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """The function's result. Function, arguments and result are pickled.

        A caller that is cancelled ends the call, and the child with it.

        Raises:
            TextTooHard: a bound on time or memory was passed, or the child crashed.
            TextWorkFailed: the function raised an unexpected error. A `PrecisError` is raised here
                as it is.
            TextProcessAway: no child could be started, or the pool was closed.
        """
        async with self._process() as process:
            kind, value = await self._ask(process, (function, args, kwargs))
            if kind == child.NO_MEMORY:  # libraries of the child may be in an undefined state
                raise TextTooHard("memory", f"more than {self._memory >> 20} MB were needed")
        if kind == child.RAISED:
            raise cast(PrecisError, value)
        if kind == child.FAILED:
            raise TextWorkFailed(cast(str, value))
        return cast(T, value)

    async def warm_up(self) -> None:
        """Starts a child, so that the first call need not wait for it."""
        async with self._process():
            pass

    async def aclose(self) -> None:
        """Ends all children, whatever they do."""
        self._is_closed = True
        if self._starting:
            self._starting.cancel()
            await asyncio.wait({self._starting})
        for process in list(self._processes):
            self._end(process)
            await process.wait()

    @asynccontextmanager
    async def _process(self) -> AsyncIterator[Process]:
        """A child that nobody else uses meanwhile; an error within the context ends it."""
        async with self._places:
            process = await self._take()
            try:
                yield process
            except BaseException:
                self._end(process)
                raise
            self._idle.append(process)

    async def _take(self) -> Process:
        """An idle child, or a new one."""
        while True:
            while self._idle:
                process = self._idle.pop()
                if process.returncode is None:
                    return process
                self._end(process)  # it died, perhaps for want of memory on this machine
            if self._starting is None or self._starting.done():
                self._starting = asyncio.create_task(self._start())
            # Shielded, because a start takes longer than a request may: were it ended with a caller
            # that waits no longer, there would never be a child for requests.
            await asyncio.shield(self._starting)

    async def _start(self) -> None:
        """Adds an idle child, once it has said that it is ready."""
        if self._is_closed:  # a call that waited would start a process that nobody ends
            raise TextProcessAway("the service is stopping")
        process = await _spawn(self._seconds, self._memory)
        alive = {one for one in self._processes if one.returncode is None}
        self._processes = alive | {process}
        is_ready = False
        try:
            async with asyncio.timeout(_START):
                is_ready = bool(await cast(StreamReader, process.stdout).read(len(child.READY)))
        except TimeoutError:
            pass
        finally:
            if not is_ready:
                self._end(process)
        if not is_ready:
            status = await process.wait()
            raise TextProcessAway(f"a text process did not start (status {status})")
        self._idle.append(process)

    async def _ask(self, process: Process, work: object) -> tuple[str, object]:
        """The outcome of a child's work (`child.run_message`)."""
        requests = cast(StreamWriter, process.stdin)
        replies = cast(StreamReader, process.stdout)
        try:
            async with asyncio.timeout(self._seconds * _PATIENCE):
                requests.write(child.frame_message(work))
                await requests.drain()
                size = await replies.readexactly(child.HEADER)
                reply = await replies.readexactly(int.from_bytes(size))
        except TimeoutError:
            raise self._too_long() from None
        except (IncompleteReadError, ConnectionError):
            raise self._why_it_ended(await process.wait()) from None
        return cast(tuple[str, object], pickle.loads(reply))

    def _why_it_ended(self, status: int) -> PrecisError:
        if self._is_closed:
            return TextProcessAway("the service is stopping")
        if status == -signal.SIGXCPU:  # the kernel counted its CPU, see `child.bound_cpu`
            return self._too_long()
        return TextTooHard("crash", f"the process ended with status {status}")

    def _too_long(self) -> TextTooHard:
        return TextTooHard("time", f"not done after {self._seconds:g} s")

    def _end(self, process: Process) -> None:
        """Ends a child, without waiting until the system has freed its memory."""
        with suppress(ProcessLookupError):  # it has ended by itself
            process.kill()
        # The rest of a large reply, which nobody reads any more, would keep the pipe open.
        process._transport.get_pipe_transport(1).close()  # type: ignore[attr-defined]
        if not self._is_closed:
            log.warning("texts.process_ended")
            metrics.TEXT_PROCESSES_ENDED.inc()


async def _spawn(seconds: float, memory: int) -> Process:
    """A new process of `child.py`."""
    limits = [str(os.getpid()), str(seconds), str(memory)]
    try:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", child.__file__, *limits, *sys.path),
            env=_ALONE | {name: os.environ[name] for name in _KEPT if name in os.environ},
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            start_new_session=True,  # Ctrl-C in a terminal is for us alone
        )
    except OSError as error:
        raise TextProcessAway(f"a text process cannot be started: {error.strerror}") from error
