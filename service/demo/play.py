"""Plays the recorded conversation turn by turn and measures what happens.

The conversation was made in a real Open WebUI 0.12.4. Here its rows are fed to the real filter
file, which talks HTTP to a real service with PostgreSQL, Valkey and an arq worker, all started for
the purpose and thrown away afterwards.
"""

import asyncio
import gzip
import json
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import httpx
from pydantic import SecretStr

from service.api.app import Beside, create_app
from service.api.server import bind, listening
from service.demo.host import Host, Rows, inlet_body, load_filter, outlet_body, path
from service.embedded import embedded_servers
from service.errors import PrecisError
from service.runtime import FIRST_TENANT, Runtime
from service.settings import Settings, load
from service.storage import keys
from service.storage.database import migrate
from service.transcript import Native, asked_tokens, native_tokens, sent_tokens, text_of

TOOL_SPECIFICATIONS = 6_000
"""Tokens of the tool specifications that Open WebUI adds to each request behind the filter, as recorded."""

_PATIENCE = 900.0  # seconds for the background work of one turn: a small local model takes minutes


@dataclass(frozen=True)
class Recording:
    """The bundled conversation: one chat's rows with all branches, and the branch that ends in `leaf`."""

    chat: str
    model: str
    system: str
    user: str
    leaf: str
    rows: Rows
    native_hashes: dict[str, str]
    """By user message id: SHA-256 of the native list that Open WebUI built for that turn."""

    @property
    def tokens(self) -> int:
        """What the whole branch would cost the model."""
        return sum(native_tokens(row) for row in path(self.rows, self.leaf))

    def turns(self) -> Iterator[tuple[str, list[str]]]:
        """(user message, its answers) in the order in which they happened; a regenerated one has two."""
        for row in path(self.rows, self.leaf):
            if row["role"] == "user":
                answers = [
                    key for key, one in self.rows.items() if one.get("parentId") == row["id"]
                ]
                answers = [key for key in answers if self.rows[key]["role"] == "assistant"]
                yield (
                    row["id"],
                    sorted(answers, key=lambda key: self.rows[key].get("timestamp") or 0),
                )


@dataclass(frozen=True)
class Work:
    """What the background has done for the chat so far, as the operators' interface tells it."""

    calls: int = 0
    tokens_read: int = 0
    tokens_written: int = 0
    checkpoints: int = 0
    idle: bool = True


@dataclass(frozen=True)
class Turn:
    """One request and its answer. Tokens are those of the native list; the hold is what the two hooks took."""

    number: int
    question: str
    would_send: int
    sent: int
    covered_messages: int
    hold_ms: float
    calls_while_held: int
    summary: str
    work: Work


def recording() -> Recording:
    """The bundled conversation."""
    packed = resources.files("service.demo").joinpath("conversation.json.gz").read_bytes()
    told = json.loads(gzip.decompress(packed))
    hashes = {one["user_message_id"]: one["sha256"] for one in told["inlets"]}
    return Recording(
        told["chat_id"],
        told["model"],
        told["system"],
        told["user"]["id"],
        told["leaf"],
        told["rows"],
        hashes,
    )


@dataclass
class Stage:
    """A running service, the filter, and the stand-in for Open WebUI that calls it."""

    told: Recording
    runtime: Runtime
    operator: httpx.AsyncClient
    host: Host
    filter: Any

    @property
    def _shown(self) -> Rows:
        return self.host.chats[self.told.chat]

    async def play(self) -> AsyncIterator[Turn]:
        """Plays every turn, the regenerated one twice; the background may finish before the next turn."""
        number, work = 0, Work()
        for user_message, answers in self.told.turns():
            self._shown[user_message] = self.told.rows[user_message]
            for answer in answers or [""]:
                number += 1
                turn = await self._turn(number, user_message, answer, work)
                work = turn.work
                yield turn

    async def _turn(self, number: int, user_message: str, answer: str, before: Work) -> Turn:
        body = inlet_body(
            self._shown,
            user_message,
            chat=self.told.chat,
            model=self.told.model,
            system=self.told.system,
        )
        metadata, full = body["metadata"], body["messages"]
        began = time.perf_counter()
        body = await self.filter.inlet(
            body, __metadata__=metadata, __event_emitter__=self.host.emit
        )
        hold = time.perf_counter() - began
        held = await self.work()
        sent: list[Native] = body["messages"]
        if answer:
            hold += await self._answer(answer, metadata, _size(sent))
        summaries = [
            text_of(m) for m in sent[:2] if m["role"] == "system" and text_of(m) != self.told.system
        ]
        return Turn(
            number,
            text_of(self.told.rows[user_message]),
            _size(full),
            _size(sent),
            _covered(summaries),
            hold * 1000,
            held.calls - before.calls,
            "".join(summaries),
            await self._idle(),
        )

    async def _answer(self, answer: str, metadata: dict[str, Any], sent: int) -> float:
        """Stores the recorded answer and calls outlet, unless the answer failed; returns the seconds that took."""
        row = dict(self.told.rows[answer])
        self._shown[answer] = row
        if row.get("error"):
            return 0.0  # Open WebUI calls no outlet then
        row["usage"] = {"prompt_tokens": sent + TOOL_SPECIFICATIONS + asked_tokens(row)}
        body = outlet_body(self._shown, answer, chat=self.told.chat, model=self.told.model)
        began = time.perf_counter()
        await self.filter.outlet(body, __metadata__=metadata, __user__={"id": self.told.user})
        return time.perf_counter() - began

    async def work(self) -> Work:
        """What the background has done so far."""
        response = await self.operator.get(f"/v1/chats/{self.told.chat}")
        if response.status_code == httpx.codes.NOT_FOUND:
            return Work()
        detail = response.raise_for_status().json()
        return Work(
            **detail["spent"],
            checkpoints=len(detail["checkpoints"]),
            idle=not detail["chat"]["due_at"] and not detail["chat"]["working"],
        )

    async def _idle(self) -> Work:
        """Waits until the hand-over has arrived and its work is done, as it is while a person reads the answer."""
        await asyncio.gather(*self.filter._in_background)
        until = time.monotonic() + _PATIENCE
        while not (work := await self.work()).idle:
            if time.monotonic() > until:
                raise PrecisError(
                    f"the background work of a turn did not end within {_PATIENCE:.0f} s"
                )
            await asyncio.sleep(0.02)
        return work


@asynccontextmanager
async def stage(worker: Beside, *, fleet: bool) -> AsyncIterator[Stage]:
    """Everything that the play needs, on free loopback ports and a folder that is deleted afterwards.

    Args:
        worker: starts the background work beside the service.
        fleet: the service gets its servers by URL, as in a fleet, instead of starting them itself.
    """
    told = recording()
    folder = _folder()
    settings = load(
        data_dir=folder / "data",
        database_url=None,
        redis_url=None,
        debounce=0.02,
        fast_and_unsafe=True,
    )
    host = Host({told.chat: {}})
    try:
        async with AsyncExitStack() as stack:
            if fleet:
                settings = await stack.enter_async_context(_by_url(settings))
            listener = bind("127.0.0.1", 0)
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            runtime = await stack.enter_async_context(
                listening(create_app(settings, worker), listener)
            )
            made = runtime.first_keys or await _keys(runtime)
            headers = {"Authorization": f"Bearer {made['operator']}"}
            operator = await stack.enter_async_context(
                httpx.AsyncClient(base_url=url, headers=headers)
            )
            loaded = load_filter(url, made["filter"])
            with host.importable():
                yield Stage(told, runtime, operator, host, loaded)
            if loaded._http:  # Open WebUI never closes a filter
                await loaded._http.aclose()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def _by_url(settings: Settings) -> AsyncIterator[Settings]:
    """The settings of a fleet, on a PostgreSQL and a Valkey that run for the play only."""
    async with embedded_servers(settings.data_dir, fast=True) as started:
        await migrate(started.database_url)
        urls = {
            "database_url": SecretStr(started.database_url),
            "redis_url": SecretStr(started.redis_url),
        }
        yield settings.model_copy(update=urls)


async def _keys(runtime: Runtime) -> dict[keys.Scope, str]:
    async with runtime.database.engine.begin() as connection:
        scopes: tuple[keys.Scope, ...] = ("filter", "operator")
        return {
            scope: await keys.create(connection, FIRST_TENANT, scope, "demo") for scope in scopes
        }


def _size(messages: Iterable[Native]) -> int:
    """Tokens of a native list, whose messages are the same at each turn but for the newest."""
    return sum(_tokens(json.dumps(message)) for message in messages)


@cache
def _tokens(message: str) -> int:
    return sent_tokens([json.loads(message)])


def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="precis-demo-"))
    folder.chmod(0o711)  # as root, the servers run as another user
    return folder


def _covered(summaries: list[str]) -> int:
    """The number of messages that the summary message says it covers."""
    return int(summaries[0].split("summary: ", 1)[1].split(" ", 1)[0]) if summaries else 0
