"""A text process: runs one function after the other for the process that started it.

    python -I child.py DESCRIPTOR PARENT_PID

It speaks over a socket, which is DESCRIPTOR. The first message has the parent's import path, how
many seconds of CPU a function may take, and the bound on memory in bytes; the answer says that it
is ready. Each further message is a function with its arguments and is answered with the outcome.
It ends when the other side does.

Nothing of a text leaves this process but in a result: an error is answered by its type and by
where it was raised.
"""

import gc
import os
import pickle
import resource
import signal
import sys
from math import ceil
from multiprocessing.connection import Connection
from typing import Any

NICE = 5  # more than the process that answers requests has, which goes first
DONE, RAISED, FAILED, NO_MEMORY = "done", "raised", "failed", "no memory"


def bound_memory(size: int) -> None:
    """Refuse memory above `size` bytes. macOS accepts the limit and does not enforce it."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (size, most))


def bound_cpu(seconds: float) -> None:
    """Have the kernel end us with SIGXCPU after so many more seconds of CPU, rounded up."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    used = usage.ru_utime + usage.ru_stime
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (ceil(used + seconds), most))


def load() -> None:
    """Load what takes longer than most calls, before the first one: vocabulary, model of languages.

    A model waits two seconds for what it looks up: were they loaded by its call, a busy machine
    would end it, and the next call would begin with loading again.
    """
    from service.processes import intake
    from service.text import languages, tokens

    tokens.count(intake.__doc__ or "")
    languages.detect(intake.__doc__ or "")


def outcome(messages: list[bytes]) -> tuple[str, Any]:
    """What came of a function: its kind, and the result, the error or where it was raised.

    The message is taken out of the list, so that its memory, as much as the text needs, is free
    while the function works.
    """
    from service.errors import PrecisError, class_and_place

    try:
        function, args, kwargs = pickle.loads(messages.pop())
        return DONE, function(*args, **kwargs)
    except MemoryError:
        return NO_MEMORY, None
    except PrecisError as error:  # its words are ours
        return RAISED, error
    except Exception as error:  # its words may quote the text
        return FAILED, class_and_place(error)


def main(descriptor: int, parent: int) -> None:
    """Get ready, then serve until the other side is gone."""
    os.nice(NICE)
    channel = Connection(descriptor)
    path, seconds, memory = pickle.loads(channel.recv_bytes())
    sys.path[:] = path
    from service.tied import die_with

    die_with(parent, signal.SIGKILL)
    load()
    # What is loaded stays: to look through all of it for garbage takes longer than most calls.
    gc.freeze()
    bound_memory(memory)
    channel.send_bytes(b"ready")
    serve(channel, seconds)


def serve(channel: Connection, seconds: float) -> None:
    """Answer one message after the other, each within so many seconds of CPU."""
    while True:
        messages = [channel.recv_bytes()]
        # CPU and not the clock: a text is as hard on a busy machine as on an idle one.
        bound_cpu(seconds)
        kind, value = outcome(messages)
        channel.send_bytes(pickle.dumps((kind, value)))
        if kind == NO_MEMORY:
            return  # libraries may be in an undefined state; the pool starts another process


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]), int(sys.argv[2]))
    except (EOFError, OSError):
        sys.exit()  # the other side is gone
