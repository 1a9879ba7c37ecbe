"""The yardstick of `context_http` and `load`: a bare FastAPI application in a process of its own, served as ours is."""

import asyncio
import json
from contextlib import AsyncExitStack
from typing import Any

import asyncpg
from fastapi import FastAPI

from service.api.server import bind, listening
from service.cli import shell
from service.cli.logs import set_up_logs
from service.settings import load

_TABLE = "create table bare (id text primary key, digest text, body bytea)"
_STORE = "insert into bare select * from unnest($1::text[], $2::text[], $3::bytea[])"


async def _serve() -> None:
    app = FastAPI()
    app.state.runtime = None  # `listening` hands it on

    @app.get("/hello")
    async def hello() -> dict[str, str]:
        return {"hello": "world"}

    async with AsyncExitStack() as stack:
        if secret := load().database_url:
            pool = await stack.enter_async_context(
                asyncpg.create_pool(secret.get_secret_value(), min_size=8, reset=_nothing)
            )
            await pool.execute(_TABLE)

        @app.put("/store")
        async def store(body: dict[str, Any]) -> dict[str, bool]:
            new = [(one["id"], one["digest"], json.dumps(one).encode()) for one in body["messages"]]
            await pool.execute(_STORE, *zip(*new, strict=True))
            return {"due": False}

        listener = bind("127.0.0.1", 0)
        async with listening(app, listener):
            print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
            await asyncio.Future()


async def _nothing(_: object) -> None:
    """A reset would be a second round trip."""


if __name__ == "__main__":
    set_up_logs(load())
    shell.run(_serve())
