"""Functions that text processes are asked to run: each does something that work on a text may do."""

import ctypes
import os
import re
import signal
import socket

from service.errors import BadRequest


def shout(text: str) -> str:
    return text.upper()


def never_ends() -> None:
    re.fullmatch(r"(a+)+", "a" * 64 + "b")


def eats_memory() -> int:
    return len(bytearray(2**33))


def crashes() -> None:
    ctypes.string_at(0)


def raises(text: str) -> None:
    raise ValueError(f"cannot read {text}")


def process() -> int:
    return os.getpid()


def session() -> tuple[int, int]:
    return os.getpid(), os.getsid(0)


def environment() -> dict[str, str]:
    return dict(os.environ)


def sockets() -> int:
    """How many sockets this process has."""
    found = 0
    for descriptor in range(256):
        try:
            socket.socket(fileno=os.dup(descriptor)).close()
        except OSError:
            continue
        found += 1
    return found


def dies() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def refuses(text: str) -> None:
    raise BadRequest(f"{len(text)} characters are too many")
