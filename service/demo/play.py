"""Plays the recorded conversation turn by turn and measures what happens.

The conversation was recorded in a real Open WebUI 0.12.4. Here its rows are given to the real
filter file, which talks HTTP to a real service with PostgreSQL, Valkey and an arq worker. All of
them are started for the demonstration and deleted afterwards.
"""

import asyncio
import gzip
import json
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from service.api.server import open_listener, run_server
from service.app import BackgroundService, create_app
from service.demo.host import (
    Host,
    Rows,
    list_path,
    load_filter,
    make_inlet_body,
    make_outlet_body,
    pass_hooks,
)
from service.names import FIRST_TENANT
from service.runtime import Runtime
from service.settings import load
from service.storage import jobs, keys, work
from service.summarising.message import BEGINS
from service.text import tokens
from service.transcript import (
    Native,
    count_sent_tokens,
    count_stored_tokens,
    read_text,
    unfold_messages,
)

PACKED = Path(__file__).with_name("conversation.json.gz")

_TOOL = {"name": "look_up", "description": "Looks something up. " * 25, "parameters": {}}
TOOLS = [{"type": "function", "function": _TOOL | {"name": f"look_up_{n}"}} for n in range(50)]
"""Specifications of tools, as many as Open WebUI adds to a request: some 6,000 tokens."""

_PATIENCE = 900.0  # seconds for the background work of one turn: a small local model takes minutes


@dataclass(frozen=True)
class Recording:
    """The bundled conversation: one chat with all branches. The one to `leaf` is played."""

    chat: str
    model: str
    system: str
    user: str
    leaf: str
    rows: Rows

    @property
    def tokens(self) -> int:
        """The tokens that the whole branch would cost the model."""
        return sum(count_stored_tokens(row) for row in list_path(self.rows, self.leaf))

    def turns(self) -> Iterator[tuple[str, list[str]]]:
        """Each user message with its answers, in order; a regenerated one has two."""
        for row in list_path(self.rows, self.leaf):
            if row["role"] == "user":
                yield row["id"], self._answers(row["id"])

    def _answers(self, user_message: str) -> list[str]:
        answers = [
            key
            for key, row in self.rows.items()
            if row.get("parentId") == user_message and row["role"] == "assistant"
        ]
        return sorted(answers, key=lambda key: self.rows[key].get("timestamp") or 0)


@dataclass(frozen=True)
class Turn:
    """One request and its answer.

    `messages` counts the native list, `would_send` and `sent` are tokens with the tools, `hold_ms`
    is the time of both hooks. The filter's `status` line and the `summary` are "" without one.
    """

    number: int
    messages: int
    would_send: int
    sent: int
    hold_ms: float
    status: str
    summary: str


def load_recording() -> Recording:
    """The bundled conversation."""
    recorded = json.loads(gzip.decompress(PACKED.read_bytes()))
    return Recording(
        chat=recorded["chat_id"],
        model=recorded["model"],
        system=recorded["system"],
        user=recorded["user"]["id"],
        leaf=recorded["leaf"],
        rows=recorded["rows"],
    )


@dataclass
class Stage:
    """A running service, the filter, and the fake of Open WebUI that calls it."""

    conversation: Recording
    runtime: Runtime
    host: Host
    filter: Any

    @property
    def _shown(self) -> Rows:
        return self.host.chats[self.conversation.chat]

    async def play(self) -> AsyncIterator[Turn]:
        """Plays every turn, the regenerated one twice.

        The background work of a turn ends before the next one begins.
        """
        number = 0
        for user_message, answers in self.conversation.turns():
            self._shown[user_message] = self.conversation.rows[user_message]
            for answer in answers or [""]:
                number += 1
                yield await self._turn(number, user_message, answer)

    async def _turn(self, number: int, user_message: str, answer: str) -> Turn:
        played = self.conversation
        body = make_inlet_body(
            self._shown, user_message, chat=played.chat, model=played.model, system=played.system
        )
        body["tools"] = TOOLS
        metadata, full = body["metadata"], body["messages"]
        self.host.statuses.clear()
        began = time.perf_counter()
        await pass_hooks(self.filter, body, __metadata__=metadata, __event_emitter__=self.host.emit)
        hold = time.perf_counter() - began
        sent: list[Native] = body["messages"]
        if answer:
            hold += await self._answer(answer, metadata, _count_request(sent))
        await self._idle()
        status = self.host.statuses[-1] if self.host.statuses else ""
        return Turn(
            number,
            messages=len(full),
            would_send=_count_request(full),
            sent=_count_request(sent),
            hold_ms=hold * 1000,
            status=status,
            summary=_find_summary(sent),
        )

    async def _answer(self, answer: str, metadata: dict[str, Any], sent: int) -> float:
        """Stores the recorded answer and calls outlet; returns the seconds that outlet took."""
        row = dict(self.conversation.rows[answer])
        self._shown[answer] = row
        if row.get("error"):
            return 0.0  # Open WebUI calls no outlet for a failed answer
        # As a provider counts: what was sent, the tools, and of the answer what its calls reread.
        asked = unfold_messages([row])[:-1]
        row["usage"] = {"prompt_tokens": sent + count_sent_tokens(asked)}
        body = make_outlet_body(
            self._shown, answer, chat=self.conversation.chat, model=self.conversation.model
        )
        began = time.perf_counter()
        await self.filter.outlet(
            body, __metadata__=metadata, __user__={"id": self.conversation.user}
        )
        return time.perf_counter() - began

    async def _idle(self) -> None:
        """Waits until the turn is ingested and its work is done, as while a person reads."""
        await asyncio.gather(*self.filter._in_background)
        async with asyncio.timeout(_PATIENCE):
            while await self._has_work():  # noqa: ASYNC110 - a worker sends no event
                await asyncio.sleep(0.02)

    async def _has_work(self) -> bool:
        chats = await jobs.count_jobs(self.runtime.database.reads, None)
        return bool(chats.due or chats.working or chats.waiting)


@asynccontextmanager
async def set_stage(worker: BackgroundService) -> AsyncIterator[Stage]:
    """Everything that the play needs, on free loopback ports and in a temporary folder.

    `worker` starts the background work beside the service.
    """
    conversation = load_recording()
    # The play waits for the work of each turn, as a person who reads gives it the time.
    work.DEBOUNCE = 0.02
    folder = Path(tempfile.mkdtemp(prefix="precis-demo-"))
    # As root, the servers run as another user, who has to enter it.
    os.chmod(folder, 0o711)  # noqa: S103 - nobody may list it
    host = Host({conversation.chat: {}})
    try:
        async with AsyncExitStack() as stack:
            settings = load(data_dir=folder / "data", database_url=None, redis_url=None)
            listener = open_listener("127.0.0.1", 0)
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            serving = run_server(create_app(settings, worker), listener)
            runtime = await stack.enter_async_context(serving)
            async with runtime.database.engine.begin() as connection:
                key = await keys.create_key(connection, FIRST_TENANT, "filter", "demo")
            # All of it runs on one machine, which may be busy: what is shown is what is sent.
            loaded = load_filter(url, key, timeout=30.0)
            with host.importable():
                yield Stage(conversation, runtime, host, loaded)
            if loaded._http:  # Open WebUI never closes a filter
                await loaded._http.aclose()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _count_request(messages: Iterable[Native]) -> int:
    """Tokens of a native list and of the tools that are sent with it."""
    return _count_tools() + sum(_count_tokens(json.dumps(message)) for message in messages)


@cache
def _count_tools() -> int:
    return tokens.count(json.dumps(TOOLS))


@cache  # from turn to turn, only the newest messages differ
def _count_tokens(message: str) -> int:
    return count_sent_tokens([json.loads(message)])


def _find_summary(sent: list[Native]) -> str:
    """The record in a request, which stands behind the system message; "" when there is none."""
    texts = (read_text(message) for message in sent[:2])
    return next((text for text in texts if text.startswith(BEGINS)), "")
