"""The whole service as a process, its worker in it, while chats hand over texts that have stopped it."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from service.names import FIRST_TENANT
from service.runtime import Urls
from service.storage import keys
from service.storage.database import connect
from tests.builders import called, returned, said
from tests.cli.test_serve import PRECIS, ROOT, Precis, environment
from tests.conftest import fresh_database
from tests.faults.hostile import texts
from tests.service.talk import Talk
from tests.waiting import until

SIZE = 200_000
MOST = 0.25  # seconds that an answer may take, or
NOISE = 3.0  # times as long as a process without hostile texts takes meanwhile: the machine may be busy itself
PAUSE = 4  # times as long one answer in a hundred may take: a machine may stand still for a moment
_WORKED_ON = """
select count(*) filter (where dead_at is not null) as dead,
    count(*) filter (where exists (
        select from runs where runs.chat_id = chats.id and outcome <> 'running')) as worked_on
from chats where external_id like 'hostile-%'
"""


@asynccontextmanager
async def precis(urls: Urls, *options: str) -> AsyncIterator[httpx.AsyncClient]:
    """A service, by default with its worker, and a filter's client."""
    ours = {"PRECIS_DATABASE_URL": urls.database, "PRECIS_REDIS_URL": urls.redis, "PRECIS_PORT": "0"}
    bounds = {"PRECIS_TEXT_SECONDS": "2", "PRECIS_WINDOW": "8192"}
    process = await asyncio.create_subprocess_exec(
        *PRECIS,
        "serve",
        *options,
        env=environment(ROOT, **ours, **bounds, PYTHONUNBUFFERED="1"),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    service = Precis(process)
    try:
        await service.greet()
        assert process.stdout
        reading = asyncio.create_task(process.stdout.read())  # or its log fills the pipe
        async with connect(urls.database) as database, database.engine.begin() as connection:
            key = await keys.create(connection, FIRST_TENANT, "filter", "test")
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(base_url=service.url, headers=headers, timeout=900) as client:
            yield client
    finally:
        process.terminate()
        await reading
        assert await process.wait() == 0


def hostile(client: httpx.AsyncClient, number: int, name: str, text: str) -> Talk:
    """A chat with a hostile text in a place that changes from chat to chat, and ordinary turns after it."""
    talk = Talk(client, f"hostile-{number}", user=name, window=8192)
    leaf = talk.add("u", None, content=text if number % 3 == 0 else "")
    if number % 3 == 1:
        output = [called("c", "query", text if name == "arguments" else "{}"), returned("c", text), said("Done.")]
        leaf = talk.add("a", leaf, "assistant", "Done.", output=output)
    else:
        leaf = talk.add("a", leaf, "assistant", text if number % 3 == 2 else "")
    talk.turns(12, leaf=leaf)
    return talk


async def answers(talks: list[Talk], leaf: str, end: "asyncio.Future[None]") -> list[list[float]]:
    """Asks both for a context in turn until something is done; what their answers took, in seconds, slowest last."""
    took: list[list[float]] = [[] for _ in talks]
    while not end.done():
        for talk, its in zip(talks, took, strict=True):
            begin = time.perf_counter()
            await talk.ask(leaf)
            its.append(time.perf_counter() - begin)
        await asyncio.sleep(0.02)
    return [sorted(its) for its in took]


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="function")
async def test_no_answer_waits_for_a_hostile_text_and_no_chat_of_them_is_dead(servers: Urls) -> None:
    async with (
        fresh_database(servers) as urls,
        precis(urls) as client,
        precis(urls, "--no-worker") as other,
        connect(urls.database) as database,
    ):
        calm = Talk(client, "calm", window=131_072)
        leaf = calm.turns(5)
        await calm.ingest(leaf)
        beside = Talk(other, "calm", window=131_072, rows=calm.rows)
        talks = [hostile(client, number, *item) for number, item in enumerate(texts(SIZE).items())]
        # Made before, because this process measures.
        bodies = [(f"/v1/chats/{one.chat}/transcript", one.transcript([*one.rows][-1])) for one in talks]

        async def attack() -> None:
            for path, body in bodies:
                response = await client.put(path, json=body)
                assert response.status_code == 202, response.text

        async def worked_on() -> bool:
            async with database.engine.connect() as connection:
                found = (await connection.exec_driver_sql(_WORKED_ON)).one()
            assert found.dead == 0
            return bool(found.worked_on >= len(bodies) // 2)

        async def attack_and_wait() -> None:
            await attack()
            await until(worked_on, 900, every=0.2)

        attacking = asyncio.create_task(attack_and_wait())
        took, floor = await answers([calm, beside], leaf, attacking)
        await attacking

        rare = len(took) * 99 // 100 - 1
        most, told = max(MOST, NOISE * floor[rare]), f"{took[-5:]} s, without hostile texts {floor[-5:]} s"
        assert took[rare] <= most, told
        assert took[-1] <= max(PAUSE * most, NOISE * floor[-1]), told
