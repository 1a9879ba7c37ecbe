"""Many uploads at once: nobody waits for another's texts, neither for a connection nor for a turn."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar, cast

import httpx
import pytest
import pytest_asyncio
from sqlalchemy.pool import QueuePool

from service.processes import Texts
from service.storage import keys
from tests.conftest import TEXTS, Service, sending
from tests.service.talk import Talk, check_tree, prose, rows, run_sql
from tests.waiting import until

P = ParamSpec("P")
T = TypeVar("T")
pytestmark = pytest.mark.asyncio(loop_scope="module")


LARGE = prose(8000, "large")  # above 16 KiB, so that it is read in a text process


@pytest_asyncio.fixture(loop_scope="module")
async def bystander(service: Service) -> AsyncIterator[Talk]:
    """A chat of another tenant, which is stored already."""
    async with service.runtime.database.engine.begin() as connection:
        key = await keys.create_key(connection, "other", "filter", "bystander")
    async with httpx.AsyncClient(base_url=service.url, headers=sending(key), timeout=60) as client:
        talk = Talk(client, "bystander")
        await talk.ingest(talk.turns(2, tokens=60))
        yield talk


@dataclass
class Held(Texts):
    """The pool of all tests, but its work waits until it is let go."""

    begun: int = 0
    go: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
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


def connections(service: Service) -> int:
    """How many of the engine's connections are in use."""
    return cast(QueuePool, service.runtime.database.engine.pool).checkedout()


def one_upload(service: Service, chat: str, user: str, content: str = LARGE) -> asyncio.Task[httpx.Response]:
    """A chat of one long message, on its way."""
    talk = Talk(service.as_filter, chat, user=user)
    return asyncio.create_task(talk.put(talk.turn(talk.add("long", None, content=content))))


async def turn(bystander: Talk) -> None:
    """A question and an upload of a bystander."""
    leaf = list(bystander.rows)[-1]
    answer = await bystander.ask(leaf)
    assert (answer["status"], answer["whole"]) == ("not_needed", False)
    await bystander.ingest(bystander.turns(1, tokens=60, leaf=leaf), after=leaf)


async def test_while_texts_are_read_no_connection_is_held_and_others_are_answered(
    service: Service, bystander: Talk, held: Held
) -> None:
    uploads = [one_upload(service, f"chat-{n}", f"user-{n}") for n in range(30)]
    await until(lambda: held.begun >= 5)

    await until(lambda: connections(service) == 0)
    service.app.state.keys._known.clear()  # a key that has to be read
    await turn(bystander)

    held.go.set()
    assert {(await one).status_code for one in uploads} == {202}
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
