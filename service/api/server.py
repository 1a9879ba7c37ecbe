"""Runs the application on a socket. The command line, the demonstration and the tests share it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from socket import socket

import uvicorn
from fastapi import FastAPI

from service.runtime import Runtime

_GRACE = 10  # seconds that open requests may take at shutdown


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: they would end the process before the embedded servers are stopped."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def listening(app: FastAPI, listener: socket) -> AsyncIterator[Runtime]:
    """Serves `app` on a bound socket while the context is open; the application's own resources are open as long.

    The lifespan is entered here and not by uvicorn, so that what goes wrong at the start is an error, not a log line.
    """
    config = uvicorn.Config(app, lifespan="off", log_config=None, ws="none", timeout_graceful_shutdown=_GRACE)
    server = _Server(config)
    async with app.router.lifespan_context(app):
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield app.state.runtime
        finally:
            server.should_exit = True
            await serving
