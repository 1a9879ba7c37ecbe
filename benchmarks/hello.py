"""The yardstick of `context_http`: a bare FastAPI application in a process of its own, served as ours is."""

import asyncio

from fastapi import FastAPI

from service.api.server import bind, listening
from service.cli import shell
from service.cli.logs import set_up_logs
from service.settings import load


async def _serve() -> None:
    app = FastAPI()
    app.state.runtime = None  # `listening` hands it on

    @app.get("/hello")
    async def hello() -> dict[str, str]:
        return {"hello": "world"}

    listener = bind("127.0.0.1", 0)
    async with listening(app, listener):
        print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        await asyncio.Future()


if __name__ == "__main__":
    set_up_logs(load())
    shell.run(_serve())
