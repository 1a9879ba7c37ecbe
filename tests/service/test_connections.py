"""Raw connections: what arrives slowly, never, too much, or on too many lines is refused, and nobody else notices.

The clock of these tests is the service's own: a request that stalls is answered 408 after the time that is set, so what
was there before has waited as long.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from resource import RLIMIT_NOFILE, getrlimit, setrlimit
from typing import NamedTuple

import httpx
import pytest
import pytest_asyncio

from service.api import connection
from service.api.connection import Limits
from service.api.server import raise_open_files
from service.runtime import Urls
from service.settings import Settings, load
from tests.conftest import Service, fresh_database, serving
from tests.service.problems import LEAF, TRANSCRIPT, three_turns
from tests.service.talk import Json, rows
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATIENCE = 0.4  # seconds
START = b"GET /livez HTTP/1.1\r\nHost: here\r\n"
WHOLE = START + b"\r\n"
FORWARDED = b"X-Forwarded-For: 9.9.9.9\r\n"
GIANT = 150 * 2**20


class Answer(NamedTuple):
    status: int
    fields: dict[str, str]
    body: Json


class Line:
    """A connection on which bytes are sent as they are."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> Answer:
        """The next answer."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        body = await self.reader.readexactly(int(fields["content-length"]))
        return Answer(int(first.split()[1]), fields, json.loads(body))

    async def refusal(self, status: int) -> Json:
        """The last answer, a problem."""
        answer = await self.answer()
        assert (answer.status, answer.body["status"]) == (status, status)
        assert answer.fields["content-type"] == "application/problem+json"
        assert answer.fields["connection"] == "close"
        assert answer.body["detail"]
        assert await self.reader.read() == b""
        return answer.body

    async def silent(self, seconds: float) -> None:
        """Nothing comes for so long."""
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(self.reader.read(1), seconds)


@asynccontextmanager
async def line(service: Service, address: str = "127.0.0.1") -> AsyncIterator[Line]:
    """A connection from an address of this machine."""
    url = httpx.URL(service.url)
    async with asyncio.timeout(120):
        reader, writer = await asyncio.open_connection(url.host, url.port, local_addr=(address, 0))
        try:
            yield Line(reader, writer)
        finally:
            writer.transport.abort()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_service(servers: Urls) -> AsyncIterator[Service]:
    """In the place of the service that other tests share: one without patience."""
    async with fresh_database(servers) as urls:
        settings = load(database_url=urls.database, redis_url=urls.redis)
        async with serving(settings, limits=Limits(patience=PATIENCE)) as started:
            yield started


def upload(service: Service, size: int, where: str = TRANSCRIPT) -> bytes:
    """The head of an upload."""
    head = f"PUT {where} HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {service.filter_key}\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n".encode()


# Heads


async def test_one_giant_field_is_refused_before_it_is_taken(service: Service) -> None:
    async with line(service) as sender:
        sent = 0
        await sender.send(START + b"X-Giant: ")
        try:
            while sent < GIANT and not sender.reader.at_eof():
                await asyncio.wait_for(sender.send(b"x" * 2**16), 0.2)  # nobody reads on: it would wait for ever
                sent += 2**16
        except (TimeoutError, ConnectionError):
            pass

        assert (await sender.refusal(431))["type"] == "urn:precis:problem:head-too-large"
        assert sent < GIANT / 10, "what lies in the buffers of two sockets"


async def test_a_head_of_many_fields_of_some_size_is_refused_though_it_came_whole(service: Service) -> None:
    async with line(service) as sender:
        fields = b"".join(b"X-%d: %b\r\n" % (number, b"x" * 2000) for number in range(40))

        await sender.send(START + fields + b"\r\n")

        await sender.refusal(431)


@pytest.mark.parametrize(("fields", "status"), [(99, 200), (100, 431)])
async def test_a_hundred_fields_are_taken_and_not_one_more(service: Service, fields: int, status: int) -> None:
    async with line(service) as sender:  # the first of them is `Host`
        await sender.send(START + b"".join(b"X-%d: x\r\n" % number for number in range(fields)) + b"\r\n")

        assert (await sender.answer()).status == status


async def test_a_head_of_nearly_64_kilobytes_is_taken_though_a_large_body_comes_with_it(service: Service) -> None:
    async with line(service) as sender:
        padding = b"X-Much: " + b"x" * 60_000 + b"\r\n\r\n"
        head = upload(service, 100_000).removesuffix(b"\r\n") + padding

        await sender.send(head + b"x" * 100_000)

        assert (await sender.answer()).status == 400  # the body is no JSON


async def test_trailing_fields_without_end_are_refused(service: Service) -> None:
    async with line(service) as sender:
        head = upload(service, 0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        await sender.send(head + b"2\r\n{}\r\n0\r\n")
        await sender.send(b"X-Trailer: " + b"x" * 200_000)

        await sender.refusal(431)


@pytest.mark.parametrize(
    "begun",
    [b"G", b"GET /livez HTTP/1.1\r\n", START, START + b"X-Slow: x", b"\r\n"],
    ids=["a letter", "the request line alone", "a field", "half a field", "a line end"],
)
async def test_a_head_that_stops_is_answered_in_time(service: Service, begun: bytes) -> None:
    async with line(service) as sender:
        await sender.send(begun)

        assert (await sender.refusal(408))["type"] == "urn:precis:problem:request-timeout"


async def test_a_head_that_drips_has_no_more_time_than_one_that_stops(service: Service) -> None:
    async with line(service) as sender:
        await sender.send(START)
        answered = asyncio.create_task(sender.refusal(408))
        dripped = 0
        while not answered.done() and dripped < 200:
            await sender.send(b"X-%d: x\r\n" % (dripped % 10))
            dripped += 1
            await asyncio.wait({answered}, timeout=PATIENCE / 8)

        assert answered.done()
        await answered
        assert dripped < 50


async def test_a_connection_on_which_nothing_is_asked_is_closed_without_a_word(service: Service) -> None:
    async with line(service) as sender:
        assert await sender.reader.read() == b""


async def test_what_is_no_http_is_a_problem(service: Service) -> None:
    async with line(service) as sender:
        await sender.send(b"\x16\x03\x01 hello\r\n\r\n")

        await sender.refusal(400)


# Bodies


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_that_stops_is_answered_in_time_and_nothing_is_stored(service: Service, chunked: bool) -> None:
    async with line(service) as sender:
        head = upload(service, 5000)
        if chunked:
            head = head.replace(b"Content-Length: 5000", b"Transfer-Encoding: chunked")
        await sender.send(head + (b'5\r\n{"mod\r\n' if chunked else b'{"mod'))

        await sender.refusal(408)

    assert await rows(service.runtime, "select 1 from chats") == []


async def test_a_slow_but_steady_upload_is_taken(service: Service) -> None:
    talk = three_turns(service)
    body = json.dumps(talk.transcript(LEAF)).encode()
    step = len(body) // 10 + 1
    async with line(service) as sender:
        await sender.send(upload(service, len(body)))
        for start in range(0, len(body), step):  # ten parts, for longer than one may take
            await sender.silent(PATIENCE / 4)
            await sender.send(body[start : start + step])

        assert (await sender.answer()).status == 202


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_that_drips_has_a_time_for_all_of_it(
    service: Service, monkeypatch: pytest.MonkeyPatch, chunked: bool
) -> None:
    monkeypatch.setattr(connection, "_WHOLE_BODY", 3 * PATIENCE)
    async with line(service) as sender:
        head = upload(service, 50_000)
        if chunked:
            head = head.replace(b"Content-Length: 50000", b"Transfer-Encoding: chunked")
        await sender.send(head)
        refused = asyncio.create_task(sender.refusal(408))
        dripped = 0
        while not refused.done() and dripped < 200:
            await sender.send(b"1\r\n \r\n" if chunked else b" ")
            dripped += 1
            await asyncio.wait({refused}, timeout=PATIENCE / 8)

        assert refused.done()
        assert "the whole body" in (await refused)["detail"]
        assert dripped > 8, "each part came in time"


async def test_a_body_that_stops_after_its_answer_ends_the_connection(service: Service) -> None:
    async with line(service) as sender:
        await sender.send(upload(service, 5000, where="/nowhere"))

        assert (await sender.answer()).status in (404, 405)
        assert await sender.reader.read() == b""


# Connections that are kept


async def test_an_idle_connection_is_not_hit_by_the_time_of_heads(service: Service) -> None:
    async with line(service) as idle, line(service) as clock:
        await idle.send(WHOLE)
        assert (await idle.answer()).status == 200
        await clock.send(START)
        await clock.refusal(408)

        await idle.send(WHOLE)
        assert (await idle.answer()).status == 200


async def test_the_head_after_an_answer_has_a_time_of_its_own(service: Service) -> None:
    async with line(service) as sender:
        await sender.send(WHOLE)
        assert (await sender.answer()).status == 200

        await sender.send(START)

        await sender.refusal(408)


async def test_requests_in_one_piece_are_answered_in_order_and_the_connection_stays(service: Service) -> None:
    async with line(service) as sender:
        await sender.send(WHOLE * 5)
        assert [(await sender.answer()).status for _ in range(5)] == [200] * 5

        await sender.send(WHOLE)
        assert (await sender.answer()).status == 200


async def test_thousands_of_requests_in_one_piece_are_refused(service: Service) -> None:
    async with line(service) as sender:
        await sender.send(WHOLE * 3000)

        answered = (await sender.reader.read()).count(b"HTTP/1.1 200")
        assert answered < 100


# Too many


async def one_too_many(service: Service, address: str, fields: bytes = b"") -> Answer | None:
    """What another connection is told; None if it is served."""
    async with line(service, address) as another:
        await another.send(START + fields + b"\r\n")
        answer = await another.answer()
        return answer if answer.status != 200 else None


async def opened(stack: AsyncExitStack, service: Service, address: str, fields: bytes = b"") -> None:
    """A connection that is served, and stays."""
    one = await stack.enter_async_context(line(service, address))
    await one.send(START + fields + b"\r\n")
    assert (await one.answer()).status == 200


FEW = Limits(connections=8)  # and two of one address


async def test_one_connection_too_many_is_told_so_and_a_place_that_is_free_again_is_given(settings: Settings) -> None:
    async with serving(settings, limits=FEW) as service:
        async with AsyncExitStack() as stack:
            for _ in range(8):  # a proxy's, so that they are not of one address
                await opened(stack, service, "127.0.0.1", FORWARDED)
            refusal = await one_too_many(service, "127.0.0.1")

        assert refusal
        assert (refusal.status, refusal.body["type"]) == (503, "urn:precis:problem:busy")
        assert refusal.fields["content-type"] == "application/problem+json"
        assert refusal.fields["retry-after"] == "1"

        async def welcome() -> bool:
            return await one_too_many(service, "127.0.0.1") is None

        await until(welcome)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2"])
async def test_one_address_has_a_quarter_of_the_connections_and_others_are_served(
    settings: Settings, address: str
) -> None:
    async with serving(settings, limits=FEW) as service, AsyncExitStack() as stack:
        for _ in range(2):
            await opened(stack, service, address, b"Forwarded: for=9.9.9.9\r\n")

        refusal = await one_too_many(service, address)

        assert refusal
        assert (refusal.status, refusal.body["type"]) == (429, "urn:precis:problem:too-many")
        assert refusal.fields["retry-after"] == "1"
        assert await one_too_many(service, "127.0.0.3") is None


@pytest.mark.parametrize(("address", "served"), [("127.0.0.1", True), ("127.0.0.2", False)])
async def test_only_a_trusted_proxys_connections_are_those_of_its_clients(
    settings: Settings, address: str, served: bool
) -> None:
    async with serving(settings, limits=FEW) as service, AsyncExitStack() as stack:
        for _ in range(2):
            await opened(stack, service, address, FORWARDED)

        assert (await one_too_many(service, address, FORWARDED) is None) is served


async def test_as_many_files_may_be_open_as_the_system_allows() -> None:
    before = getrlimit(RLIMIT_NOFILE)
    setrlimit(RLIMIT_NOFILE, (256, before[1]))
    try:
        raise_open_files()

        assert getrlimit(RLIMIT_NOFILE) == (min(before[1], 65_536), before[1])
    finally:
        setrlimit(RLIMIT_NOFILE, before)
