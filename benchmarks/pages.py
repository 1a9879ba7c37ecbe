"""The server's time for the operators' pages, over HTTP on loopback, with many chats and with few.

The goals: an overview page within 150 ms and a chat's within 250 ms, whatever the number of chats.

    python -m benchmarks.pages
"""

import itertools
import random
import statistics
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

import httpx

from benchmarks import operated, stage
from benchmarks.report import Figure, Report, command, timed
from service.names import FIRST_TENANT
from service.runtime import Urls
from service.storage import keys
from service.storage.database import connect

_SIZES = _MANY, _FEW = 100_000, 1_000
_TREE = "tree"
_OVERVIEWS = {
    "overview": "/",
    "worth": "/worth",
    "chats": "/chats",
    "chats by tokens": "/chats?order=tokens",
    "chats of a user": "/chats?user=anna",
    "chats of nobody": "/chats?user=nobody",
    "chats of a model": "/chats?model=gpt-4.1-mini",
    "chats with a summary": "/chats?has=summary",
    "chats with a degraded one": "/chats?has=degraded",
    "chats with an expiry": "/chats?has=expiry",
    "dead chats": "/chats?state=dead",
    "idle chats": "/chats?state=idle",
    "chats beginning with": "/chats?begins=0a",
    "jobs": "/jobs",
    "dead jobs": "/jobs?state=dead",
    "people": "/people",
    "audit": "/audit",
}
_CHAT = {"chat": f"/chats/{_TREE}", "checkpoint": f"/chats/{_TREE}/checkpoints/{{newest}}"}
_OVERVIEW_MS, _CHAT_MS = 150, 250


@dataclass
class _Site:
    """A service, with somebody signed in to its pages."""

    client: httpx.AsyncClient
    newest: int

    async def took(self, path: str) -> float:
        """Milliseconds for a page."""
        # As from many clients, because one may ask 50 times in a second.
        forwarded = {"X-Forwarded-For": f"10.0.0.{random.randrange(250)}"}
        start = time.perf_counter_ns()
        answer = await self.client.get(path.format(newest=self.newest), headers=forwarded)
        took = (time.perf_counter_ns() - start) / 1e6
        assert answer.status_code == 200, answer.text
        return took


async def measure(quick: bool) -> Report:
    """The whole benchmark."""
    rounds = 10 if quick else 40
    times: dict[str, list[float]] = {}
    facts = []
    async with AsyncExitStack() as stack:
        servers = await stack.enter_async_context(stage.servers())
        sites = {size: await _site(stack, servers, size) for size in _SIZES}
        for number, (size, (name, path)) in itertools.product(
            range(rounds + 1), itertools.product(_SIZES, (_OVERVIEWS | _CHAT).items())
        ):
            took = await sites[size].took(path)
            # The first round only warms up.
            if number:
                times.setdefault(f"{name}, {size:,}", []).append(took)
    facts += [f"{name} chats: p95 {_p95(values):.1f} ms" for name, values in times.items()]
    in_microseconds = {name: [one * 1000 for one in values] for name, values in times.items()}
    return timed("pages", "Operators' pages", _figures(times), in_microseconds, *facts)


async def _site(stack: AsyncExitStack, servers: Urls, size: int) -> _Site:
    urls = await stack.enter_async_context(stage.database(servers))
    async with connect(urls.database) as opened, opened.engine.begin() as connection:
        key = await keys.create(connection, FIRST_TENANT, "operator", "benchmark")
        found = await keys.find(connection, key)
    assert found
    async with stage.plain(urls.database) as connection:
        await operated.many(connection, found.tenant, size)
        newest = await operated.tree(connection, found.tenant, _TREE)
        await connection.execute("vacuum analyze")
    port = await stack.enter_async_context(stage.service(urls))
    base, headers = f"http://127.0.0.1:{port}", {"Sec-Fetch-Site": "same-origin"}
    client = await stack.enter_async_context(httpx.AsyncClient(base_url=base, headers=headers, timeout=60))
    signed_in = await client.post("/sign-in", data={"key": key})
    assert signed_in.status_code == 303
    return _Site(client, newest)


def _figures(times: Mapping[str, list[float]]) -> list[Figure]:
    figures = []
    for name in _OVERVIEWS | _CHAT:
        whole = times[f"{name}, {_MANY:,}"]
        bound = _CHAT_MS if name in _CHAT else _OVERVIEW_MS
        label = "pages_" + name.replace(" ", "_")
        figures.append(
            Figure(label, f"{name}, ms, median of requests, {_MANY:,} chats", statistics.median(whole), bound)
        )
    for name in ("chats", "chat", "jobs"):
        many, few = (min(times[f"{name}, {size:,}"]) for size in _SIZES)
        figures.append(
            Figure(f"pages_{name}_many_over_few", f"{name}: 100,000 ÷ 1,000 chats, fastest", many / few, 2.0)
        )
    return figures


def _p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]


if __name__ == "__main__":
    command(measure)
