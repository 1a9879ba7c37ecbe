"""What turns cost under load: a closed loop over real HTTP, by 1, 8, 32 and 64 users who wait for each answer.

A turn is a request that shows the whole chat, and a hand-over of a question and an answer of some 300 tokens each. A
chat begins with 20 such messages and has 15 turns, in a window in which it needs a summary; then its user begins the
next one. No worker runs. Our clients are on the same cores. PostgreSQL waits for the disk, as in earnest.

    python -m benchmarks.load
"""

import asyncio
import json
import random
import statistics
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from benchmarks import stage
from benchmarks.compress import asking
from benchmarks.conversation import grown, turns
from benchmarks.filling import Chat, Wanted, fill
from benchmarks.ingest import finished
from benchmarks.report import Figure, Report, command
from service.runtime import Urls

_USERS = (1, 8, 32, 64)
_CHATS, _TURNS = 600, 15  # that there are, and of each chat
_SECONDS = 10, 4  # of each load, and with --quick
_ROUNDS = 5, 2  # of 8 chats whose summaries are waited for
_WINDOW = 16_384
_LOOK = 0.01  # seconds
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


async def _load(port: int, seconds: float, users: int, key: str, chats: Iterator[Chat]) -> dict[str, list[float]]:
    """Seconds that requests took, by their kind: each user sends one after the other until the time is over."""
    end, took = time.perf_counter() + seconds, defaultdict[str, list[float]](list)

    async def user() -> None:
        async with _client(port) as send:
            while time.perf_counter() < end:
                await chat_on(send, next(chats))

    async def chat_on(send: Send, chat: Chat) -> None:
        rng, path = random.Random(chat.name), list(chat.path)
        for _ in range(_TURNS):
            new = list(grown(rng, path[-1].node, sizes=turns(1, 300, 300)))
            answer = await timed(send, "compress", asking(key, chat.name, path, new[0], _WINDOW))
            await timed(send, "turn", finished(key, answer["state"], new))
            path += new
            if time.perf_counter() > end:
                return

    async def timed(send: Send, kind: str, whole: bytes) -> Any:  # noqa: ANN401 - JSON
        began = time.perf_counter()  # making the request does not count
        answer = await send(whole)
        took[kind].append(time.perf_counter() - began)
        return json.loads(answer)

    await asyncio.gather(*(user() for _ in range(users)))
    return took


def _p95(took: Sequence[float]) -> float:
    return statistics.quantiles(took, n=20)[-1]


async def _published(urls: Urls, key: str, rounds: int) -> list[float]:
    """Seconds from a hand-over that makes work due to its summary, of 8 at a time, by the built-in summariser."""
    took: list[float] = []

    async def hand_over(port: int, name: str, waiting: dict[str, float]) -> None:
        new = list(grown(random.Random(name), sizes=turns(18, 300, 300)))
        whole = finished(key, None, new, chat=name, user=name, model=stage.MODEL, window=_WINDOW)
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
        wanted = [Wanted(20, 300, _WINDOW, 300)] * _CHATS
        chats = iter(await fill(urls.database, tenant, 10_000, wanted))
        seconds, took = _SECONDS[quick], {}
        async with stage.service(urls) as port:
            for users in _USERS:
                took[users] = await _load(port, seconds, users, key, chats)
        waited = await _published(urls, key, _ROUNDS[quick])
    waits, published = 1000 * _p95(took[32]["compress"]), statistics.median(waited)
    figures = [
        Figure("turns_per_s", "turns a second, 32 users", len(took[32]["turn"]) / seconds),
        Figure("compress_p95_ms_32", "ms of a request, p95, 32 users", waits),
        Figure("publish_p50_s", "seconds from a hand-over to its summary, p50, 8 users", published, 1.6),
        Figure("publish_p95_s", "the same, p95", _p95(waited), 3),
    ]
    facts = [
        f"{users} users: {len(loop['turn']) / seconds:.0f} turns a second; p95 of a request"
        f" {1000 * _p95(loop['compress']):.1f} ms, of a hand-over {1000 * _p95(loop['turn']):.1f} ms"
        for users, loop in took.items()
    ]
    return Report("Under load", figures, facts)


if __name__ == "__main__":
    command(measure)
