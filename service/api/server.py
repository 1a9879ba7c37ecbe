"""Runs the application on a socket. The command line, the demonstration and the tests share it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from socket import (
    AI_PASSIVE,
    IPPROTO_TCP,
    SO_REUSEADDR,
    SOCK_STREAM,
    SOL_SOCKET,
    getaddrinfo,
    socket,
)

import uvicorn
from fastapi import FastAPI

from service.api.connection import BoundedProtocol
from service.errors import ConfigurationError
from service.runtime import Runtime

# Seconds that open requests may take at shutdown.
_GRACE = 10
# Seconds that a connection may be idle: longer than clients keep one (httpx 5, aiohttp 15, nginx
# 60), or the service closes it in the moment in which they send the next request.
_IDLE = 75


class _HttpServer(uvicorn.Server):
    """uvicorn without its signal handlers, which would end the process before what runs beside it.

    The embedded servers have to be stopped after the last request, by `precis serve` itself.
    """

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def open_listener(host: str, port: int, setting: str = "PRECIS_PORT") -> socket:
    """A listening socket; port 0 takes a free one. An error names the `setting` of the port.

    Raises:
        ConfigurationError: the address is taken, not this machine's, or not allowed.
    """
    # The protocol is named because asyncio switches Nagle's algorithm off only on sockets that say
    # TCP. With it, every answer over a kept connection waits some 40 ms for the client's delayed
    # acknowledgement (measured, Linux).
    try:
        family, kind, protocol, _, address = getaddrinfo(
            host, port, 0, SOCK_STREAM, IPPROTO_TCP, AI_PASSIVE
        )[0]
        listener = socket(family, kind, protocol)
        # A restart need not wait until the system forgets the connections of the process before.
        listener.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1024)
    except OSError as error:
        raise ConfigurationError(
            f"cannot listen on {host}:{port}: {error.strerror}."
            f" Set PRECIS_HOST or {setting} to another one"
        ) from error
    return listener


@asynccontextmanager
async def run_server(app: FastAPI, listener: socket) -> AsyncIterator[Runtime]:
    """Serves `app` on a bound socket, with the resources of its lifespan open, inside the context.

    The lifespan is entered here and not by uvicorn, which would turn an error at the start into a
    log line.
    """
    async with app.router.lifespan_context(app), serve_requests(app, listener):
        yield app.state.runtime


@asynccontextmanager
async def serve_requests(app: FastAPI, listener: socket) -> AsyncIterator[None]:
    """Answers requests on a bound socket inside the context, without a lifespan."""
    config = uvicorn.Config(
        app,
        http=BoundedProtocol,
        lifespan="off",
        log_config=None,
        ws="none",
        timeout_graceful_shutdown=_GRACE,
        timeout_keep_alive=_IDLE,
    )
    server = _HttpServer(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield
    finally:
        server.should_exit = True
        await serving
