"""What encryption costs: the hot read with it, and sealing the messages of a database.

Two databases with the same chats. The read is timed over HTTP, as the filter asks, and in
process. The other one is sealed and brought to another key by the command, while its chats are asked
for. Bodies are as large as those of ordinary turns. 100,000 messages; `--quick` has 20,000.

    python -m benchmarks.sealed
"""

import asyncio
import base64
import os
import random
import statistics
import sys
import time
from contextlib import AsyncExitStack, closing

from benchmarks import stage
from benchmarks.context_http import asks
from benchmarks.conversation import prose
from benchmarks.filling import Chat, Wanted, timed_fill
from benchmarks.lookup import find
from benchmarks.report import Figure, Report, command, timed
from benchmarks.rounds import Call, best, interleaved
from benchmarks.wire import Line
from service.runtime import Urls
from service.settings import EncryptionKey, EncryptionKeys
from service.storage import codec
from service.storage.database import connect

_MESSAGES, _QUICK = 100_000, 20_000  # half as many checkpoints
_WANTED = [Wanted(200, 1000, 16_384, summary=2400) for _ in range(4)]  # as much as there is room for
_ONE, _TWO = EncryptionKey(1, b"k" * 32), EncryptionKey(2, b"l" * 32)
_PAUSE = 0.02  # seconds between two questions
_ALONE = 250  # questions before


async def measure(quick: bool) -> Report:
    """The whole benchmark; `quick` saves rounds and messages."""
    count = _QUICK if quick else _MESSAGES
    body = codec.pack({"role": "user", "content": prose(random.Random(1), 300)})
    variants: dict[str, Call] = {}
    ports: dict[str, tuple[int, str, list[Chat]]] = {}
    facts: list[str] = []
    figures: list[Figure] = []
    async with AsyncExitStack() as stack:
        servers = await stack.enter_async_context(stage.servers())
        for name in ("plain", "sealed"):
            urls = await stack.enter_async_context(stage.database(servers))
            key, tenant = await stage.filter_key(urls.database)
            chats, _ = await timed_fill(urls.database, tenant, count // 2, _WANTED)
            await stage.execute(urls.database, f"update messages set body = '\\x{body.hex()}'", "vacuum analyze")
            keys = EncryptionKeys([_ONE, _TWO], 1) if name == "sealed" else EncryptionKeys()
            database = await stack.enter_async_context(connect(urls.database, keys=keys))
            ask = await find(database, tenant, chats)
            if name == "sealed":
                facts.append(f"{count:,} messages and {count // 2:,} checkpoints:")
                for what, writes in (("sealed", [_ONE, _TWO]), ("rotated", [_TWO, _ONE])):
                    figure, fact = await _meanwhile(urls, what, writes, ask)
                    figures.append(figure)
                    facts.append(fact)
            await stage.execute(urls.database, "vacuum analyze")
            variants[f"{name}, in process"] = ask
            given = {"PRECIS_ENCRYPTION_KEYS": _as_setting([_TWO, _ONE])} if name == "sealed" else {}
            ports[name] = await stack.enter_async_context(stage.service(urls, **given)), key, chats
        # Only now: an idle connection is closed after some seconds.
        for name, (port, key, chats) in ports.items():
            line = stack.enter_context(closing(Line(port)))
            variants[f"{name}, over HTTP"] = asks(line, key, chats)
        medians = await interleaved(variants, rounds=500 if quick else 2000, calls=8)
    for where, bound in (("over HTTP", 1.15), ("in process", None)):
        ratio = best(medians, f"sealed, {where}") / best(medians, f"plain, {where}")
        named = f"hot_read_sealed_{where.split()[-1].lower()}"
        what = f"hot read with encryption ÷ without, {where}"
        figures.append(Figure(named, what, ratio, bound))
    return timed("sealed", "Encryption", figures, medians, *facts)


async def _meanwhile(urls: Urls, what: str, keys: list[EncryptionKey], ask: Call) -> tuple[Figure, str]:
    """Brings a database to the first of these keys by the command, while it is asked; the median's ratio, and times."""
    before = [await _asked(ask) for _ in range(_ALONE)]
    during = list[float]()
    began = time.perf_counter()
    rotating = asyncio.create_task(_rotate(urls, keys))
    while not rotating.done():
        during.append(await _asked(ask))
    await rotating
    seconds = time.perf_counter() - began
    ratio = statistics.median(during) / statistics.median(before)
    figure = Figure(f"asked_while_{what}", f"median of a question while texts are {what} ÷ before", ratio)
    return figure, (
        f"  {what} in {seconds:.0f} s; {len(during)} questions meanwhile took {_shown(during)}, before {_shown(before)}"
    )


async def _asked(ask: Call) -> float:
    """The seconds of one question, and then a pause."""
    began = time.perf_counter()
    await ask()
    took = time.perf_counter() - began
    await asyncio.sleep(_PAUSE)
    return took


def _shown(seconds: list[float]) -> str:
    percentiles = statistics.quantiles(seconds, n=100)
    return f"{percentiles[49] * 1e3:.1f} ms (median) and {percentiles[94] * 1e3:.1f} ms (95 %)"


async def _rotate(urls: Urls, keys: list[EncryptionKey]) -> None:
    ours = {
        "PRECIS_DATABASE_URL": urls.database,
        "PRECIS_REDIS_URL": urls.redis,
        "PRECIS_ENCRYPTION_KEYS": _as_setting(keys),
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from service.cli import app; app()", "keys", "rotate-encryption"),
        env=os.environ | ours,
        cwd=stage.ROOT,
    )
    if await process.wait():
        raise RuntimeError("the rotation failed, see above")


def _as_setting(keys: list[EncryptionKey]) -> str:
    return ",".join(f"{key.id}:{base64.b64encode(key.secret).decode()}" for key in keys)


if __name__ == "__main__":
    command(measure)
