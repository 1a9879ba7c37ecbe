"""What encryption costs: the hot read of sealed summaries against plain ones, and sealing 100,000 stored messages.

Two databases with the same chats; one is sealed by a rotation, while its chats are asked for. Bodies are as large as
those of ordinary turns.

    python -m benchmarks.sealed
"""

import asyncio
import random
import time
from contextlib import AsyncExitStack

from benchmarks import stage
from benchmarks.conversation import prose
from benchmarks.filling import Wanted, timed_fill
from benchmarks.lookup import find
from benchmarks.report import Figure, Report, command, timed
from benchmarks.rounds import Call, best, interleaved
from service.settings import EncryptionKey, EncryptionKeys
from service.storage import codec
from service.storage.database import Database, connect
from service.usecases.rotate import rotate

_CHECKPOINTS = 50_000  # two messages each
_WANTED = [Wanted(200, 1000, 16_384) for _ in range(4)]
_KEYS = EncryptionKeys([EncryptionKey(1, b"k" * 32)], 1)


async def measure(quick: bool) -> Report:
    """The whole benchmark; `quick` saves rounds."""
    body = codec.pack({"role": "user", "content": prose(random.Random(1), 300)})
    variants: dict[str, Call] = {}
    facts: list[str] = []
    async with AsyncExitStack() as stack:
        servers = await stack.enter_async_context(stage.servers())
        for name, keys in (("plain", EncryptionKeys()), ("sealed", _KEYS)):
            urls = await stack.enter_async_context(stage.database(servers))
            _, tenant = await stage.filter_key(urls.database)
            chats, _ = await timed_fill(urls.database, tenant, _CHECKPOINTS, _WANTED)
            await stage.execute(urls.database, f"update messages set body = '\\x{body.hex()}'")
            database = await stack.enter_async_context(connect(urls.database, keys=keys))
            if keys.keys:
                facts.append(await _sealing(database, await find(database, tenant, chats)))
            await stage.execute(urls.database, "vacuum analyze")
            variants[name] = await find(database, tenant, chats)
        medians = await interleaved(variants, rounds=500 if quick else 2000, calls=8)
    ratio = best(medians, "sealed") / best(medians, "plain")
    figure = Figure("hot_read_sealed", "hot read of a sealed summary ÷ of a plain one", ratio, 1.15)
    return timed("sealed", "Encryption at rest", [figure], medians, *facts)


async def _sealing(database: Database, ask: Call) -> str:
    """Seals a database that is asked meanwhile."""
    waits: list[float] = []

    async def ask_on() -> None:
        while True:
            began = time.perf_counter()
            await ask()
            waits.append(time.perf_counter() - began)
            await asyncio.sleep(0.02)

    asking = asyncio.create_task(ask_on())
    began = time.perf_counter()
    held = await rotate(database, lambda _: None)
    seconds = time.perf_counter() - began
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert [one.key for one in held] == [1]
    waits.sort()
    middle, late = (waits[int(len(waits) * share)] * 1e3 for share in (0.5, 0.99))
    return (
        f"100,000 messages and 50,000 checkpoints were sealed in {seconds:.0f} s, while {len(waits)} requests took"
        f" {middle:.1f} ms (median) and {late:.1f} ms (99 %)"
    )


if __name__ == "__main__":
    command(measure)
