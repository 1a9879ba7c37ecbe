"""A text process: runs one function after the other for the process that started it.

    python -I child.py PARENT_PID SECONDS MEMORY PATH...

A function may take so many SECONDS of CPU, and the process so many bytes of MEMORY; PATH is the
parent's import path. The process writes `READY` to its standard output when it is. Each message on
its standard input is a function with its arguments, and the outcome is written for it. It ends when
the parent does.

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
from typing import Any, BinaryIO

HEADER = 8  # bytes before each message, which are its length
NICE = 5  # more than the process that answers requests has, which goes first
READY = b"+"
DONE, RAISED, FAILED, NO_MEMORY = "done", "raised", "failed", "no memory"


def frame_message(value: object) -> bytes:
    """A message with this value: its length, and the pickled value."""
    message = pickle.dumps(value)
    return len(message).to_bytes(HEADER) + message


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


def run_message(message: bytes) -> tuple[str, Any]:
    """The outcome of a function: its kind, and the result, the error or where it was raised."""
    from service.errors import PrecisError, describe_unexpected

    try:
        function, args, kwargs = pickle.loads(message)
        del message  # it has the text once more, and the function may need its memory
        return DONE, function(*args, **kwargs)
    except MemoryError:
        return NO_MEMORY, None
    except PrecisError as error:  # its words are ours
        return RAISED, error
    except Exception as error:  # its words may quote the text
        return FAILED, describe_unexpected(error)


def main(parent: int, seconds: float, memory: int, path: list[str]) -> None:
    """Gets ready, and answers messages until the parent is gone."""
    os.nice(NICE)
    sys.path[:] = path
    from service.tied import die_with_parent

    die_with_parent(parent, signal.SIGKILL)
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no reply
    load()
    # What is loaded stays: to look through all of it for garbage takes longer than most calls.
    gc.freeze()
    bound_memory(memory)
    replies.write(READY)
    replies.flush()
    serve(sys.stdin.buffer, replies, seconds)


def serve(requests: BinaryIO, replies: BinaryIO, seconds: float) -> None:
    """Answers one message after the other, each within so many seconds of CPU."""
    while size := requests.read(HEADER):
        # CPU and not the clock: a text is as hard on a busy machine as on an idle one.
        bound_cpu(seconds)
        replies.write(frame_message(run_message(requests.read(int.from_bytes(size)))))
        replies.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
