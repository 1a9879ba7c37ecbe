"""A loopback port: the given one, or a free one."""

import socket
from collections.abc import Awaitable, Callable
from typing import TypeVar

from service.errors import EmbeddedServerError

HOST = "127.0.0.1"
# Another program may take a free port before the server does; five times in a row is no accident.
ATTEMPTS = 5

Started = TypeVar("Started")


class PortTakenError(EmbeddedServerError):
    """The server could not listen on its port."""

    def __init__(self, name: str, port: int) -> None:
        super().__init__(
            f"{name} cannot listen on {HOST}:{port}: another program has port {port}. Start again."
        )


async def on_port(port: int | None, start: Callable[[int], Awaitable[Started]]) -> Started:
    """Start on this port, or with None on a free one; if it is taken meanwhile, on another."""
    if port is not None:
        return await start(port)
    for _ in range(ATTEMPTS - 1):
        try:
            return await start(free_port())
        except PortTakenError:
            continue
    return await start(free_port())


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        address: tuple[str, int] = listener.getsockname()
    return address[1]
