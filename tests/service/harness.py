"""A service with one chat, a scripted model, and the workers that use it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import httpx
from redis.asyncio import Redis

from service.clients.summarisers import make_summariser, make_summarisers
from service.runtime import Runtime
from service.settings import Settings
from service.storage import checkpoints, messages, work
from service.storage.checkpoints import NewCheckpoint
from service.storage.codec import unpack_text
from service.storage.work import Lease
from service.summarising.memory import Memory
from service.summarising.reading import Reading, Reply, Summariser
from service.usecases.compress import WorkerContext, compress
from tests import constants
from tests.conftest import Service
from tests.fakes.scripted_llm import Request, ScriptedLLM
from tests.service.talk import Json, Talk, opened, row, rows, run_sql


@dataclass
class Harness:
    service: Service
    talk: Talk
    llm: ScriptedLLM
    http: httpx.AsyncClient

    @property
    def runtime(self) -> Runtime:
        return self.service.runtime

    def worker_context(self, kind: str = "openai", **more: Any) -> WorkerContext:
        """What a worker works with. The summariser's window makes calls of some 2,000 tokens.

        `more` are settings, and constants (`tests.constants`), which hold until another one is made.
        """
        runtime = self.runtime
        url = self.llm.openai_url if kind == "openai" else self.llm.ollama_url
        constants.change(**{name: more.pop(name) for name in constants.PLACES if name in more})
        asked = {"summariser": kind, "summariser_url": url, "summariser_model": "scripted"}
        sizes = {"summariser_window": 5760, "summariser_timeout": 120, "window": 8192}
        settings = Settings(**(asked | sizes | more))
        summariser = make_summariser(settings, self.http)
        others = make_summarisers(settings, self.http)
        return WorkerContext(
            runtime.database.engine, runtime.database.slow, settings, summariser, runtime.texts, others=others
        )

    async def compress(self, worker_context: WorkerContext | None = None) -> float | None:
        """One round of a model's work, with all of code's before and after it; only the latter without a model.

        Returns the seconds until the chat is due again.
        """
        worker_context = worker_context or self.worker_context()
        if worker_context.summariser:
            await self.by_code(worker_context)
        worked = await compress(worker_context)
        if worker_context.summariser:
            await self.by_code(worker_context)
        is_due = await rows(self.runtime, "select 1 from chats where due_at is not null")
        return worked.again if worked and is_due else None

    async def by_code(self, worker_context: WorkerContext | None = None) -> None:
        """Rounds until code has nothing to do."""
        worker_context = worker_context or self.worker_context()
        waits = "select 1 from chats where code_at <= now() and (code_until is null or code_until < now())"
        for _ in range(60):
            if not await rows(self.runtime, waits):
                return
            await compress(worker_context)
        raise AssertionError("code's work is still due")

    async def drain(self, worker_context: WorkerContext | None = None) -> None:
        for _ in range(30):
            if (await self.chat()).due_at is None:
                return
            await self.compress(worker_context)
        raise AssertionError("work is still due")

    async def chat(self) -> Any:
        return await row(self.runtime, "select *, due_at - now() as wait from chats")

    async def runs(self, *, by_code: bool | None = None) -> list[Any]:
        """The rounds of code's work, of the model's, or of both for None."""
        of_kind = {None: "", True: "where by_code", False: "where not by_code"}[by_code]
        stored = await rows(self.runtime, f"select * from runs {of_kind} order by id")
        reasons = [unpack_text(one.reason) if one.reason else "" for one in stored]
        return [SimpleNamespace(**{**one._mapping, "reason": why}) for one, why in zip(stored, reasons, strict=True)]

    async def made(self) -> list[Any]:
        """The checkpoints that others grow from."""
        return await opened(self.runtime, "select * from checkpoints where kind <> 'interim' order by id")

    async def interim(self) -> list[Any]:
        """Those that serve until a summariser has read what they cover."""
        query = "select * from checkpoints where kind = 'interim' and retired_at is null order by id"
        return await opened(self.runtime, query)

    async def due_now(self) -> None:
        """The back-off is over."""
        await run_sql(self.runtime, "update chats set due_at = now() where due_at is not null")
        await run_sql(self.runtime, "update chats set code_at = now() where code_at is not null")

    async def work_off(self) -> None:
        """All work, whenever it is due."""
        for _ in range(12):
            await self.due_now()
            await self.compress()

    async def long_chat(self, turns: int = 20, **more: Any) -> str:
        leaf = self.talk.turns(turns, **more)
        assert await self.talk.ingest(leaf)
        return leaf

    async def claim(self) -> Lease:
        """The lease of the chat, whatever it waits for."""
        await self.due_now()
        async with self.runtime.database.engine.begin() as connection:
            lease = await work.claim_work(connection, "worker", None, 4)
        assert lease
        return lease

    async def publish(
        self,
        lease: Lease,
        parent: int,
        until: str,
        kind: str = "llm",
        tokens: int = 10,
        memory: Memory | None = None,
        superseded: Sequence[int] = (),
    ) -> int:
        """Publishes a checkpoint for the lease's window up to a message, by the host's id; returns its id."""
        engine = self.runtime.database.engine
        texts = await checkpoints.pack_texts(engine, lease.chat, parent, memory or Memory(), "A summary.")
        verdict = {"outcome": kind}
        async with engine.begin() as connection:
            boundary = await messages.find_by_host_id(connection, lease.chat, until)
            assert boundary
            new = NewCheckpoint(parent, boundary, kind, texts, tokens, lease.window, "by", "1", verdict, superseded)
            number = await checkpoints.publish_checkpoint(connection, lease, new)
        assert number
        return number


_NUMBERED = ("chats", "checkpoints", "runs", "audit")
# In 0.6 ms; "truncate … restart identity" takes 5.
_EMPTIED = "".join(
    [
        *(f"delete from {name};" for name in ("chats", "audit", "endpoints", "sums", "tombstones")),
        "update tenants set summariser = null where summariser is not null;",
        *(f"select setval(pg_get_serial_sequence('{name}', 'id'), 1, false);" for name in _NUMBERED),
    ]
)


async def emptied(service: Service) -> None:
    """No chat, no work, no sum and no ring is left."""
    await service.runtime.counting.store()
    async with service.runtime.database.reads.pool.acquire() as connection:
        await connection.execute(f"begin; {_EMPTIED} commit")
    async with Redis.from_url(service.runtime.urls.redis) as redis:
        await redis.flushall()


@asynccontextmanager
async def running(work: Coroutine[Any, Any, Any]) -> AsyncIterator["asyncio.Task[Any]"]:
    """The work as a task that does not outlive the block."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def long_chats(
    harness: Harness, count: int, turns: int = 20, prefix: str = "chat", *, for_code: bool = False
) -> list[tuple[Talk, str]]:
    """So many due chats with the same messages; unless `for_code`, code has done its work before."""
    first = Talk(harness.service.as_filter)
    leaf = first.turns(turns)
    talks = [(Talk(harness.service.as_filter, f"{prefix}-{number}", first.rows), leaf) for number in range(count)]
    for talk, _ in talks:
        assert await talk.ingest(leaf)
    if not for_code:
        await run_sql(harness.runtime, "update chats set code_at = null")
    return talks


def thinking(harness: Harness, change: Callable[[], Coroutine[Any, Any, object]], **more: Any) -> WorkerContext:
    """A bench with which `change` happens while the model thinks."""
    worker_context = harness.worker_context(**more)
    assert worker_context.summariser
    asked: Summariser = worker_context.summariser

    class Thinking:
        name = asked.name

        async def summarise(self, reading: Reading) -> Reply:
            await change()
            return await asked.summarise(reading)

    return replace(worker_context, summariser=Thinking())


def story(call: int) -> str:
    """What the model of a desk answers to its n-th call. In letters, because the gate drops a number of nobody's."""
    return state(f"Story {str(call).translate(_LETTERS)}.")


_LETTERS = str.maketrans("0123456789", "abcdefghij")


def told(row: Any) -> str:
    """The state of a stored checkpoint or draft, as a model would write it."""
    return "\n".join(row.state)


def state(text: str) -> str:
    return f"## State\n- {text}"


class Numbered:
    """Answers that tell the calls apart: `Story b.`, `Story c.`, ..."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, _: list[Json]) -> str:
        self.calls += 1
        return story(self.calls)


def new_in(request: Request) -> str:
    """What a call reads anew, which stands behind the record and its entries."""
    return str(request.messages[1]["content"]).partition("messages that followed")[2]
