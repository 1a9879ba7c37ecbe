"""The whole service as a process, its worker in it, while chats hand over texts that have stopped it."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import httpx
import pytest

from service.names import FIRST_TENANT
from service.runtime import Urls
from service.storage import keys
from service.storage.database import connect
from tests import constants
from tests.builders import called, returned, said
from tests.cli.test_serve import ROOT, Precis, environment
from tests.conftest import fresh_database
from tests.faults.hostile import texts
from tests.service.talk import Talk, prose
from tests.waiting import until

SIZE = 200_000
MOST = 0.25  # seconds that an answer may take, or
NOISE = 3.0  # times as long as while it gets harmless texts of this size: the machine may be busy itself
PAUSE = 4  # times as long one answer in a hundred may take: a machine may stand still for a moment
_WORKED_ON = """
select count(*) filter (where dead_at is not null) as dead,
    count(*) filter (where exists (
        select from runs where runs.chat_id = chats.id and outcome <> 'running')) as worked_on
from chats where external_id like $1
"""


@asynccontextmanager
async def precis(urls: Urls) -> AsyncIterator[httpx.AsyncClient]:
    """A service with its worker, and a filter's client."""
    ours = {"PRECIS_DATABASE_URL": urls.database, "PRECIS_REDIS_URL": urls.redis, "PRECIS_PORT": "0"}
    process = await asyncio.create_subprocess_exec(
        *constants.precis(text_seconds=2),
        "serve",
        env=environment(ROOT, **ours, PRECIS_WINDOW="8192", PYTHONUNBUFFERED="1"),
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


def sender(client: httpx.AsyncClient, kind: str, number: int, name: str, text: str) -> Talk:
    """A chat with a text in a place that changes from chat to chat, and ordinary turns after it."""
    talk = Talk(client, f"{kind}-{number}", user=name, window=8192)
    leaf = talk.add("u", None, content=text if number % 3 == 0 else "")
    if number % 3 == 1:
        output = [called("c", "query", text if name == "arguments" else "{}"), returned("c", text), said("Done.")]
        leaf = talk.add("a", leaf, "assistant", "Done.", output=output)
    else:
        leaf = talk.add("a", leaf, "assistant", text if number % 3 == 2 else "")
    talk.turns(12, leaf=leaf)
    return talk


async def answers(talk: Talk, leaf: str, end: "asyncio.Future[None]") -> list[float]:
    """Asks for a context again and again until something is done; what the answers took, in seconds, slowest last."""
    took: list[float] = []
    while not end.done():
        begin = time.perf_counter()
        await talk.ask(leaf)
        took.append(time.perf_counter() - begin)
        await asyncio.sleep(0.02)
    return sorted(took)


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="function")
async def test_no_answer_waits_for_a_hostile_text_and_no_chat_of_them_is_dead(servers: Urls) -> None:
    async with fresh_database(servers) as urls, precis(urls) as client, connect(urls.database) as database:
        calm = Talk(client, "calm", window=131_072)
        leaf = calm.turns(5)
        await calm.ingest(leaf)

        async def while_sent(kind: str, given: Mapping[str, str]) -> list[float]:
            """What answers take while these texts are sent, and half of their chats are worked on."""
            talks = [sender(client, kind, number, *item) for number, item in enumerate(given.items())]
            # Made before, because this process measures.
            bodies = [(f"/v1/chats/{one.chat}/transcript", one.transcript([*one.rows][-1])) for one in talks]

            async def worked_on() -> bool:
                async with database.engine.connect() as connection:
                    found = (await connection.exec_driver_sql(_WORKED_ON, (f"{kind}-%",))).one()
                assert found.dead == 0
                return bool(found.worked_on >= len(bodies) // 2)

            async def send_and_wait() -> None:
                for path, body in bodies:
                    response = await client.put(path, json=body)
                    assert response.status_code == 202, response.text
                await until(worked_on, 900, every=0.2)

            sending = asyncio.create_task(send_and_wait())
            took = await answers(calm, leaf, sending)
            await sending
            return took

        given = texts(SIZE)
        harmless = await while_sent("harmless", {name: prose(SIZE // 3, name)[:SIZE] for name in given})
        took = await while_sent("hostile", given)

        rare = -1 - len(took) // 100
        most, told = (
            max(MOST, NOISE * harmless[-1 - len(harmless) // 100]),
            f"{took[-5:]} s, of harmless texts {harmless[-5:]} s",
        )
        assert took[rare] <= most, told
        assert took[-1] <= PAUSE * most, told
