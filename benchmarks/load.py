"""What turns cost under load: a closed loop over real HTTP, by 1, 8, 32 and 64 users who wait for each answer.

Each user has a chat of their own. A turn is a question for the context and a hand-over of a question and an answer of
some 300 tokens each. The yardstick is a bare FastAPI route that stores the same bytes with one statement. Our clients
are on the same cores. PostgreSQL waits for the disk, as in earnest.

    python -m benchmarks.load
"""

import asyncio
import itertools
import json
import random
import statistics
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit

from sqlalchemy import make_url

from benchmarks import stage
from benchmarks.context_http import asking
from benchmarks.conversation import grown, turns
from benchmarks.filling import Chat, Wanted, fill
from benchmarks.ingest import handing_over
from benchmarks.report import Figure, Report, command
from benchmarks.wire import request
from service.runtime import Urls

_USERS = (1, 8, 32, 64)
_COUNTED = 200  # hand-overs whose CPU time is taken
_SECONDS = 10, 4  # of each load, and with --quick
_ROUNDS = 5, 2  # of 8 chats whose summaries are waited for
_WINDOW = 16_384
_SLICES = 5
_LOOK = 0.01  # seconds
_ALWAYS = itertools.repeat("ingest")
_SUMMARISED = "select external_id from chats where external_id = any($1) and cardinality(leaf_line) > 0"
Send = Callable[[bytes], Awaitable[bytes]]


@asynccontextmanager
async def _client(port: int) -> AsyncIterator[Send]:
    """A kept connection; an answer that is no good one is an error."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def send(whole: bytes) -> bytes:
        writer.write(whole)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        body = await reader.readexactly(int(head.partition(b"content-length:")[2].partition(b"\r\n")[0]))
        if not head.startswith(b"http/1.1 2"):
            raise RuntimeError(f"{head[:12]!r}: {body!r}")
        return body

    yield send
    writer.close()


async def _load(port: int, seconds: float, users: Sequence[Iterator[tuple[str, bytes]]]) -> dict[str, list[float]]:
    """Seconds that requests took, by their kind: each user sends one after the other until the time is over."""
    end, took = time.perf_counter() + seconds, defaultdict[str, list[float]](list)

    async def user(requests: Iterator[tuple[str, bytes]]) -> None:
        async with _client(port) as send:
            while time.perf_counter() < end:
                kind, whole = next(requests)
                began = time.perf_counter()  # making the request does not count
                await send(whole)
                took[kind].append(time.perf_counter() - began)

    await asyncio.gather(*map(user, users))
    return took


def _p95(took: Sequence[float]) -> float:
    return statistics.quantiles(took, n=20)[-1]


@asynccontextmanager
async def _counting(url: str) -> AsyncIterator[tuple[str, list[int]]]:
    """An address that leads to a database, and the number of round trips through it, as its only element."""
    target, count = urlsplit(url), [0]

    async def forwarded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, counts: bool) -> None:
        while data := await reader.read(2**16):
            # A client waits for each answer, so what it sends at once is one round trip.
            count[0] += counts
            writer.write(data)
        writer.close()

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(target.hostname, target.port)
        await asyncio.gather(forwarded(reader, far_writer, True), forwarded(far_reader, writer, False))

    server = await asyncio.start_server(accepted, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    yield make_url(url).set(host="127.0.0.1", port=port).render_as_string(hide_password=False), count
    server.close()


def _turns(key: str, chat: Chat) -> Iterator[tuple[str, bytes]]:
    """The requests of a user: for the context, and then with the new messages."""
    ask, new = asking(key, chat), handing_over(key, chat)
    while True:
        yield "context", ask
        yield "ingest", next(new)


def _bare(key: str, chat: Chat) -> Iterator[tuple[str, bytes]]:
    for whole in handing_over(key, chat):
        yield "ingest", request("PUT", "/store", key, json.loads(whole.partition(b"\r\n\r\n")[2]))


async def _cost(urls: Urls, key: str, chats: Iterator[Chat]) -> tuple[float, float]:
    """CPU milliseconds of the API process, and round trips to the database, for one hand-over."""
    async with AsyncExitStack() as stack:
        url, counted = await stack.enter_async_context(_counting(urls.database))
        process = stage.listener(port := await stack.enter_async_context(stage.service(Urls(url, urls.redis))))
        send = await stack.enter_async_context(_client(port))
        requests = list(itertools.islice(handing_over(key, next(chats)), 2 * _COUNTED))
        for whole in requests[:_COUNTED]:
            await send(whole)
        before, trips = sum(process.cpu_times()[:2]), []
        for whole in requests[_COUNTED:]:
            counted[0] = 0
            await send(whole)
            trips.append(counted[0])
        # The median, because now and then a key is read again beside the requests.
        return (sum(process.cpu_times()[:2]) - before) / _COUNTED * 1000, statistics.median(trips)


async def _published(urls: Urls, key: str, rounds: int) -> list[float]:
    """Seconds from a hand-over that makes work due to its summary, of 8 at a time, by the built-in summariser."""
    took: list[float] = []

    async def hand_over(port: int, name: str, waiting: dict[str, float]) -> None:
        new = grown(random.Random(name), sizes=turns(18, 300, 300))
        body = {"model": stage.MODEL, "user_id": name, "windows": [_WINDOW], "messages": stage.sent(new)}
        whole = request("PUT", f"/v1/chats/{name}/transcript", key, body | {"after": None, "served": 0})
        async with _client(port) as send:
            waiting[name] = time.perf_counter()
            assert json.loads(await send(whole))["due"]

    serving = stage.process("-c", "from service.cli import app; app()", "serve", urls=urls)
    async with serving as port, stage.plain(urls.database) as connection:
        for number in range(rounds + 1):  # the first one starts the text processes
            waiting: dict[str, float] = {}
            await asyncio.gather(*(hand_over(port, f"waits-{number}-{chat}", waiting) for chat in range(8)))
            while waiting:
                await asyncio.sleep(_LOOK)
                for row in await connection.fetch(_SUMMARISED, list(waiting)):
                    seconds = time.perf_counter() - waiting.pop(row[0])
                    took += [seconds] if number else []
    return took


async def measure(quick: bool) -> Report:
    """The whole benchmark."""
    async with AsyncExitStack() as stack:
        servers = await stack.enter_async_context(stage.servers(fast=False))
        urls = await stack.enter_async_context(stage.database(servers))
        key, tenant = await stage.filter_key(urls.database)
        wanted = [Wanted(20, 300, 131_072)] * (2 + 2 * _USERS[1] + sum(_USERS))
        chats = iter(await fill(urls.database, tenant, 10_000, wanted))
        cpu, trips = await _cost(urls, key, chats)
        seconds, took = _SECONDS[quick], {}
        async with stage.service(urls) as port, stage.process("-m", "benchmarks.hello", urls=urls) as bare_port:
            only = [zip(_ALWAYS, handing_over(key, next(chats)), strict=True) for _ in range(_USERS[1])]
            bare = [_bare(key, next(chats)) for _ in range(_USERS[1])]
            rates = []
            for _ in range(_SLICES):  # in turns, because other work on the machine comes and goes
                ours, theirs = [
                    await _load(*one) for one in ((port, seconds / 4, only), (bare_port, seconds / 4, bare))
                ]
                rates.append((len(ours["ingest"]) / seconds * 4, len(ours["ingest"]) / len(theirs["ingest"])))
            per_second, over_bare = map(statistics.median, zip(*rates, strict=True))
            for users in _USERS:
                took[users] = await _load(port, seconds, [_turns(key, next(chats)) for _ in range(users)])
        waited = await _published(urls, key, _ROUNDS[quick])
    context, published = 1000 * _p95(took[32]["context"]), statistics.median(waited)
    figures = [
        Figure("ingest_cpu_ms", "CPU ms of the API process for a hand-over", cpu, 4),
        Figure("ingest_round_trips", "round trips to PostgreSQL for a hand-over", trips, 6),
        Figure("ingest_per_s", "hand-overs a second of one API process, 8 users", per_second, float("inf"), 120),
        Figure("ingest_over_bare", "that ÷ a bare route", over_bare, float("inf"), 0.4),
        Figure("context_p95_ms_32", "ms of the context, p95, 32 users", context, 50),
        Figure("publish_p50_s", "seconds from a hand-over to its summary, p50, 8 users", published, 1.6),
        Figure("publish_p95_s", "the same, p95", _p95(waited), 3),
    ]
    facts = [
        f"{users} users: {len(loop['ingest']) / seconds:.0f} turns a second; p95 of the context"
        f" {1000 * _p95(loop['context']):.1f} ms, of a hand-over {1000 * _p95(loop['ingest']):.1f} ms"
        for users, loop in took.items()
    ]
    return Report("Under load", figures, facts)


if __name__ == "__main__":
    command(measure)
