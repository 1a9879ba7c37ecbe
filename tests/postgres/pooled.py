"""The command behind `scripts/test-pgbouncer`: the tests that touch the database, behind PgBouncer in transaction mode.

After them it compares the hot read's median with and without PgBouncer, in one run on loopback.
"""

import statistics
import sys
import time

import msgspec
from sqlalchemy import make_url

from service.embedded.servers import embedded_servers
from service.request.edit import RequestShape
from service.runtime import Urls
from service.storage.contexts import Lookup
from service.storage.database import Database, connect, migrate
from service.usecases import context
from tests.conftest import drain, execute, small_window
from tests.conftest import serving as service_on
from tests.postgres import pgbouncer, play
from tests.service.talk import Talk

READS = 3000
TURNS = 30  # fill the small window, so that there is a checkpoint to read


async def main(argv: list[str]) -> int:
    """Runs the tests, then the comparison; prints a line for each."""
    _, options = play.arguments(["--", *argv])
    binary = pgbouncer.program()
    with play.folder() as folder:
        async with (
            embedded_servers(folder / "data", fast=True) as servers,
            pgbouncer.pooling(binary, folder, servers.database) as pooled,
        ):
            outcome = await play.pytest(pooled, servers.redis, options)
            print(f"{pgbouncer.version(binary)}: {outcome.closing}", flush=True)  # noqa: T201 - a command
            if outcome.code == 0:
                print(await _compared(servers.database, pooled, servers.redis))  # noqa: T201 - a command
    return outcome.code


async def _compared(direct: str, pooled: str, redis: str) -> str:
    name = "hot_read"
    await execute(direct, f"create database {name}")
    ways = [make_url(url).set(database=name).render_as_string(hide_password=False) for url in (direct, pooled)]
    await migrate(ways[0])
    settings = small_window(Urls(ways[0], redis))
    async with service_on(settings) as service:
        talk = Talk(service.as_filter)
        leaf = talk.turns(TURNS)
        await talk.ingest(leaf)
        await drain(service.runtime)
    question = talk.question(leaf)
    asked = Lookup(1, talk.chat, question["depth"], question["path"], question["sizes"])
    described = msgspec.convert(question["native"], RequestShape)
    async with connect(ways[0]) as one, connect(ways[1]) as other:
        times = await _interleaved((one, other), asked, described)
    plain, through = (statistics.median(one) for one in times)
    return (
        f"hot read, p50 of {READS}: {plain * 1e3:.2f} ms directly, {through * 1e3:.2f} ms through PgBouncer: "
        f"{through / plain:.2f}"
    )


async def _interleaved(databases: tuple[Database, ...], asked: Lookup, described: RequestShape) -> list[list[float]]:
    times: list[list[float]] = [[] for _ in databases]
    for _ in range(READS):
        for database, seen in zip(databases, times, strict=True):
            start = time.perf_counter()
            answer = await context.answer(database, asked, described)
            seen.append(time.perf_counter() - start)
            assert answer.status == "ready"
    return times


if __name__ == "__main__":
    play.run(main(sys.argv[1:]))
