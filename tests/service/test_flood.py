"""Many uploads at once: nobody waits for another's texts, neither for a connection nor for a turn."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import httpx
import pytest
from sqlalchemy.pool import QueuePool

from service.processes import Texts
from service.storage import keys
from tests.conftest import TEXTS, Service, sending
from tests.service.talk import Talk, check_tree, prose, rows, run_sql
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

LARGE = prose(8000, "large")  # above 16 KiB, so that it is read in a text process


@dataclass
class Held(Texts):
    """The pool of all tests, but its work waits until it is let go."""

    begun: int = 0
    go: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.begun += 1
        await self.go.wait()
        return await TEXTS.run(function, *args, **kwargs)


@pytest.fixture
def held(service: Service) -> Iterator[Held]:
    """The text work of ingests, which waits."""
    context, texts = service.app.state.serving, Held()
    before = context.texts
    object.__setattr__(context, "texts", texts)
    yield texts
    object.__setattr__(context, "texts", before)


async def test_while_texts_are_read_no_connection_is_held_and_others_are_answered(service: Service, held: Held) -> None:
    uploads = []
    for number in range(30):
        talk = Talk(service.as_filter, f"chat-{number}", user=f"user-{number}")
        uploads.append(asyncio.create_task(talk.ingest(talk.add("long", None, content=LARGE))))
    await until(lambda: held.begun >= 5)

    pool = cast(QueuePool, service.runtime.database.engine.pool)
    await until(lambda: pool.checkedout() == 0)
    async with service.runtime.database.engine.begin() as connection:
        key = await keys.create_key(connection, "other", "filter", "bystander")
    async with httpx.AsyncClient(base_url=service.url, headers=sending(key), timeout=60) as client:
        bystander = Talk(client, "bystander")
        leaf = bystander.turns(2, tokens=60)
        await bystander.ingest(leaf)
        answer = await bystander.ask(leaf)
        assert (answer["status"], answer["whole"]) == ("not_needed", False)

    held.go.set()
    await asyncio.gather(*uploads)
    await check_tree(service.runtime)


async def test_the_next_upload_of_a_user_does_not_wait_for_a_worker_to_be_woken(
    service: Service,
) -> None:
    """While Redis is away, that takes seconds."""
    woken, go = asyncio.Event(), asyncio.Event()

    async def wake(*_: object) -> None:
        woken.set()
        await go.wait()

    context = service.app.state.serving
    before = context.wake
    object.__setattr__(context, "wake", wake)
    pressing = Talk(service.as_filter, "pressing")
    first = asyncio.create_task(pressing.ingest(pressing.turns(20, tokens=400)))
    await woken.wait()

    other = Talk(service.as_filter, "other")
    await other.ingest(other.turns(1, tokens=60))

    assert not first.done()
    go.set()
    assert await first
    object.__setattr__(context, "wake", before)


async def test_what_changes_while_texts_are_read_is_read_again(service: Service, held: Held) -> None:
    """Of a message whose text is stored, only the hash is wanted, until its chat is gone."""
    talk = Talk(service.as_filter)
    known = talk.turns(2, tokens=60)
    await talk.ingest(known)
    leaf = talk.add("long", known, content=LARGE)
    begun = held.begun
    uploading = asyncio.create_task(talk.ingest(leaf))
    await until(lambda: held.begun > begun)

    await run_sql(service.runtime, "delete from chats")
    held.go.set()
    await uploading

    stored = await rows(service.runtime, "select host_id, body is not null as kept from messages order by depth")
    assert [tuple(one) for one in stored] == [(one["id"], True) for one in talk.path(leaf)]
    await check_tree(service.runtime)
