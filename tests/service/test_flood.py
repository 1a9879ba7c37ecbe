"""Many uploads at once: nobody waits for another's texts, neither for a connection nor for a turn."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import ParamSpec, TypeVar, cast

import httpx
import pytest
import pytest_asyncio
from sqlalchemy.pool import QueuePool

from service.processes import Texts
from service.runtime import Urls
from service.storage import keys
from tests.conftest import TEXTS, Service, fresh_database, sending, serving, small_window
from tests.effort import ALL
from tests.service.problems import is_problem
from tests.service.talk import Talk, check_tree, prose, rows, run_sql
from tests.texts import strange
from tests.waiting import until

P = ParamSpec("P")
T = TypeVar("T")
pytestmark = pytest.mark.asyncio(loop_scope="module")

LARGE = prose(8000, "large")  # above 16 KiB, so that it is read in a text process
UPLOADS, SIZE = (60, 500_000) if ALL else (24, 60_000)
"""How many uploads a flood has, and bytes of each."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_service(servers: Urls) -> AsyncIterator[Service]:
    """In the place of the service that other tests share: one with text processes of its own."""
    async with fresh_database(servers) as urls, serving(small_window(urls), None) as started:
        yield started


@pytest_asyncio.fixture(loop_scope="module")
async def bystander(service: Service) -> AsyncIterator[Talk]:
    """A chat of another tenant, which is stored already."""
    async with service.runtime.database.engine.begin() as connection:
        key = await keys.create(connection, "other", "filter", "bystander")
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
    runtime, texts = service.app.state.runtime, Held()
    before = runtime.texts
    object.__setattr__(runtime, "texts", texts)
    yield texts
    object.__setattr__(runtime, "texts", before)


def connections(service: Service) -> int:
    """How many of the engine's connections are in use."""
    return cast(QueuePool, service.runtime.database.engine.pool).checkedout()


def one_upload(service: Service, chat: str, user: str, content: str = LARGE) -> asyncio.Task[httpx.Response]:
    """A chat of one long message, on its way."""
    talk = Talk(service.as_filter, user=user)
    return sent(service, chat, json.dumps(talk.transcript(talk.add("long", None, content=content))))


def sent(service: Service, chat: str, body: str) -> asyncio.Task[httpx.Response]:
    """An upload on its way, which is encoded already."""
    return asyncio.create_task(service.as_filter.put(f"/v1/chats/{chat}/transcript", content=body))


async def turn(bystander: Talk) -> float:
    """A question and an upload of a bystander; returns the seconds that the longer one took."""
    leaf = list(bystander.rows)[-1]
    began = perf_counter()
    assert (await bystander.ask(leaf))["known"] == leaf
    answered = perf_counter()
    await bystander.ingest(bystander.turns(1, tokens=60, leaf=leaf), after=leaf)
    return max(answered - began, perf_counter() - answered)


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


async def test_what_changes_while_texts_are_read_is_read_again(service: Service, held: Held) -> None:
    """Of a message whose text is stored, only the hash is wanted, until its text or its chat is gone."""
    talk = Talk(service.as_filter)
    known = talk.turns(2, tokens=60)
    await talk.ingest(known)
    leaf = talk.add("long", known, content=LARGE)
    for change in ("update messages set body = null", "delete from chats"):
        held.go.clear()
        begun = held.begun
        uploading = asyncio.create_task(talk.ingest(leaf))
        await until(lambda begun=begun: held.begun > begun)  # type: ignore[misc]

        await run_sql(service.runtime, change)
        held.go.set()
        await uploading

        stored = await rows(service.runtime, "select message_id, body is not null as kept from messages order by depth")
        assert [tuple(one) for one in stored] == [(one["id"], True) for one in talk.path(leaf)]
        await check_tree(service.runtime)
        leaf = talk.add("longer", leaf, content=LARGE)


async def test_ingests_and_rounds_do_not_wait_for_each_others_texts(service: Service) -> None:
    rounds = service.runtime.worker_context.texts
    endless = [asyncio.create_task(rounds.run(strange.never_ends)) for _ in range(4)]

    response = await one_upload(service, "chat-1", "user-1")

    assert response.status_code == 202
    assert not any(one.done() for one in endless)
    for one in endless:
        one.cancel()
    await asyncio.gather(*endless, return_exceptions=True)


async def test_a_bystander_is_answered_while_one_user_uploads_sixty_long_messages(
    service: Service, bystander: Talk
) -> None:
    talk = Talk(service.as_filter)
    body = json.dumps(talk.transcript(talk.add("long", None, content=prose(SIZE // 3, "flood")[:SIZE])))
    assert (await sent(service, "first", body)).status_code == 202  # a process is started
    began = perf_counter()
    flood = [sent(service, f"chat-{n}", body) for n in range(UPLOADS)]
    waits, left, used = list[float](), list[int](), list[int]()
    while not all(one.done() for one in flood):
        waits.append(await turn(bystander))
        left.append(sum(not one.done() for one in flood))
        used.append(connections(service))
    seconds = perf_counter() - began

    figures = f"{UPLOADS} uploads of {SIZE:,} bytes in {seconds:.1f} s; meanwhile {len(waits)} turns of a bystander,"
    print(f"\n{figures} the longest wait of them {max(waits):.3f} s; {max(used)} connections in use")  # noqa: T201 - the figure
    answers = [await one for one in flood]
    assert left[0] > UPLOADS / 2, "the first turn of the bystander was over when the flood had hardly begun"
    assert max(used) <= 3, "one for the flood, and what runs beside requests"
    refused = [one for one in answers if one.status_code != 202]
    for one in refused:
        is_problem(one, 429)
        assert int(one.headers["Retry-After"]) > 0
    assert len(refused) < UPLOADS / 2
