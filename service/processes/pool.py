"""Runs functions on texts in child processes, so that no text stops or exhausts this process.

Some texts are hard: a pattern or a tokenizer may take minutes or gigabytes for them, and while it
runs in C, nothing else of its process does. So each call has a bound on its time and its memory; a
child that goes over either is ended and replaced. Why not a library: docs/adr/0012.
"""

import asyncio
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection
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
# Seconds of CPU that one piece of text work may take: no text is worth more. What is stopped is
# mentioned by its size only in the chat's next summary.
SECONDS = 30.0
# Bytes that a process may take: four times what it takes at rest. Not enforced on macOS.
MEMORY = 2**30
_START = 120.0  # seconds that a child may take to load the vocabulary, on a busy machine
# A call may take so many times its bound of CPU by the clock: on a busy machine it waits for its
# turn.
_PATIENCE = 4
# What a child gets of our environment: no key, no password, no address of a server.
_KEPT = ("PATH", "LD_LIBRARY_PATH", "TMPDIR")
_ALONE = {"OPENBLAS_NUM_THREADS": "1"}  # NumPy's threads would take memory for each core

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Child:
    """A process and our end of the socket to it."""

    process: subprocess.Popen[bytes]
    channel: Connection

    def end(self) -> int:
        """Ends it at once; returns its exit status, negative for a signal."""
        self.process.kill()
        self.channel.close()
        return self.process.wait()


@dataclass(slots=True)
class _Task:
    """One call: the child that works on it, and whether anybody still wants the result."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    child: _Child | None = None
    given_up: bool = False

    def begin(self, child: _Child) -> bool:
        """Whether the child shall begin: not if the call was given up before its turn."""
        with self.lock:
            self.child = None if self.given_up else child
            return not self.given_up

    def end(self) -> None:
        with self.lock:
            self.child = None

    def give_up(self) -> None:
        """Ends the child in the middle of its work; the thread that waits for it notices."""
        with self.lock:
            self.given_up = True
            if self.child:
                self.child.process.kill()


class Texts:
    """A pool of text processes. They start when they are needed, and live until `close`.

    Each has a thread of ours that waits for it: Linux ends a child with the thread that started it.
    The pool belongs to no event loop.
    """

    def __init__(self, processes: int, seconds: float, memory: int) -> None:
        """A pool.

        Args:
            processes: how many children there are at most.
            seconds: of CPU that a call may take; by the clock, four times as many.
            memory: bytes that a child may take in all; some 250 MB of it are the vocabulary.
        """
        self._seconds, self._memory = seconds, memory
        self._threads = ThreadPoolExecutor(processes, thread_name_prefix="texts")
        self._own = threading.local()
        self._children: set[_Child] = set()
        self._closed = False

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """The function's result. Function, arguments and result are pickled.

        A caller that is cancelled ends the call, and the child with it.

        Raises:
            TextTooHard: a bound on time or memory was passed, or the child crashed.
            TextWorkFailed: the function raised an unexpected error. A `PrecisError` is raised here
                as it is.
            TextProcessAway: no child could be started.
        """
        call, loop = _Task(), asyncio.get_running_loop()
        try:
            result = loop.run_in_executor(
                self._threads, self._in_child, call, (function, args, kwargs)
            )
            return cast(T, await result)
        except asyncio.CancelledError:
            call.give_up()  # the thread cannot be cancelled, only what it waits for
            raise

    async def warm_up(self) -> None:
        """Starts a child, so that the first call need not wait for it."""
        await asyncio.get_running_loop().run_in_executor(self._threads, self._child)

    def close(self) -> None:
        """Ends all children, whatever they do."""
        self._closed = True
        for one in list(self._children):
            one.process.kill()
        self._threads.shutdown(cancel_futures=True)
        for one in list(self._children):
            one.end()
        self._children.clear()

    def _in_child(self, call: _Task, work: object) -> object:
        """Does a call. Runs in one of our threads."""
        message = [pickle.dumps(work)]
        own = self._child()
        if not call.begin(own):
            return None
        try:
            kind, value = self._answered(own, message)
        finally:
            call.end()
        match kind:
            case child.NO_MEMORY:
                self._replace(own)
                raise TextTooHard("memory", f"more than {self._memory >> 20} MB were needed")
            case child.RAISED:
                raise cast(PrecisError, value)
            case child.FAILED:
                raise TextWorkFailed(value)
            case _:
                return value

    def _answered(self, own: _Child, message: list[bytes]) -> tuple[str, object]:
        """The child's outcome for a message, which is taken out of the list and so freed."""
        try:
            own.channel.send_bytes(message.pop())
            if not own.channel.poll(self._seconds * _PATIENCE):
                self._replace(own)
                raise self._too_long()
            kind, value = pickle.loads(own.channel.recv_bytes())
        except (EOFError, OSError):
            status = self._replace(own)
            if status == -signal.SIGXCPU:  # the kernel counted its CPU, see `child.bound_cpu`
                raise self._too_long() from None
            raise TextTooHard("crash", f"the process ended with status {status}") from None
        return kind, value

    def _too_long(self) -> TextTooHard:
        return TextTooHard("time", f"not done after {self._seconds:g} s")

    def _child(self) -> _Child:
        """The child of this thread; one is started if there is none, or it died while idle."""
        own: _Child | None = getattr(self._own, "child", None)
        if own and own.process.poll() is None:
            return own
        if own:
            self._replace(own)
        if self._closed:  # a call that waited in the queue would start a process that nobody ends
            raise TextProcessAway("the service is stopping")
        own = self._own.child = self._started()
        return own

    def _replace(self, own: _Child) -> int:
        """Ends a child; the next call of this thread starts another."""
        self._own.child = None
        self._children.discard(own)
        status = own.end()
        log.warning("texts.process_ended", status=status)
        metrics.TEXT_PROCESSES_ENDED.inc()
        return status

    def _started(self) -> _Child:
        """A new child that has said that it is ready."""
        own = _spawned()
        self._children.add(own)  # before it is ready, so that `close` ends it too
        try:
            own.channel.send_bytes(pickle.dumps((sys.path, self._seconds, self._memory)))
            if own.channel.poll(_START):
                own.channel.recv_bytes()
                return own
        except (EOFError, OSError):
            pass
        self._children.discard(own)
        raise TextProcessAway(f"a text process did not start (status {own.end()})")


def _spawned() -> _Child:
    """A new process of `child.py`, and our end of the socket that it got the other end of."""
    ours, theirs = Pipe()
    command = [sys.executable, "-I", child.__file__, str(theirs.fileno()), str(os.getpid())]
    try:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter
            command,
            env=_ALONE | {name: os.environ[name] for name in _KEPT if name in os.environ},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C in a terminal is for us alone
        )
    except OSError as error:
        ours.close()
        raise TextProcessAway(f"a text process cannot be started: {error.strerror}") from error
    finally:
        theirs.close()
    return _Child(process, ours)
