"""What a turn, a call and a row cost: the figures that docs/howto/scale.md counts with.

Times are CPU times of processes, their children included, so neighbours on the machine are not counted. PostgreSQL
waits for the disk, as in earnest, and all its processes count, also those that write WAL and vacuum. Requests come one
after the other. A server of `TEST_DATABASE_URL` must be on this machine and have nothing else to do.

    python -m benchmarks.capacity
"""

import asyncio
import os
import random
import re
import statistics
import sys
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from dataclasses import dataclass, field

import psutil

from benchmarks import stage
from benchmarks.compress import WINDOW, asks
from benchmarks.conversation import grown, prose, turns
from benchmarks.filling import SUMMARY, Connection, Wanted, fill
from benchmarks.ingest import hands_over
from benchmarks.report import Figure, Report, command
from benchmarks.rounds import Call
from benchmarks.wire import Line
from service.runtime import Runtime, Urls, open_runtime
from service.settings import load

_ROUNDS = 5
_REQUESTS = 500, 200  # of each kind in a round, and with --quick
_CHATS = 24, 8  # that become due in a round, and with --quick
_TURNS = 121  # of each of these, 300 + 300 tokens: one call of some 24,000 tokens makes room enough while others wait
_MADE = 19 * 40  # checkpoints before: of chats of 200 messages, 19 each
_WINDOW = 131_072
_IDLE = 10  # seconds
_MODEL = """
import asyncio, sys
from tests.fakes.scripted_llm import Say, scripted_llm

async def main():
    async with scripted_llm(Say(sys.argv[1])) as llm:
        print(llm.url, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""
_BUSY = "select exists (select from chats where due_at is not null or lease_until is not null)"
_CALLS = "select coalesce(sum(calls), 0)::int from runs"
_COVERED = (
    "select sum(covered) from (select max(covered_tokens) covered from checkpoints"
    " where chat_id in (select chat_id from runs) group by chat_id) chats"
)


@dataclass(frozen=True, slots=True)
class Costs:
    """CPU microseconds of one unit of work, round by round: of one of our processes, and of PostgreSQL."""

    name: str
    who: str
    processes: tuple[psutil.Process, psutil.Process]
    rounds: list[list[float]] = field(default_factory=list)

    async def add(self, work: Awaitable[int]) -> None:
        """Does the work of a round, which says how many units it was."""
        before = [_seconds(process) for process in self.processes]
        units = await work
        self.rounds.append(
            [(_seconds(one) - then) / units * 1e6 for one, then in zip(self.processes, before, strict=True)]
        )

    def times(self) -> dict[str, list[float]]:
        """By whose time it is, the least first, without the first round, which only warmed up."""
        ours, postgres = (sorted(values) for values in zip(*self.rounds[1:], strict=True))
        return {f"{self.name}, {self.who}": ours, f"{self.name}, PostgreSQL": postgres}


async def measure(quick: bool) -> Report:
    """The whole benchmark."""
    async with stage.servers(fast=False) as urls:
        async with stage.database(urls) as own:
            times, memory = await _requests(own, _REQUESTS[quick])
        async with stage.database(urls) as own:
            call, figures, facts = await _work(own, _CHATS[quick])
    times |= call
    medians = [
        Figure(re.sub(r"\W+", "_", name.lower()), f"CPU µs of one {name}", statistics.median(values))
        for name, values in times.items()
    ]
    spread = [f"{name}: {min(values):,.0f} to {max(values):,.0f} µs" for name, values in times.items()]
    return Report("What is used", [*medians, *figures, *memory], [*facts, *spread])


async def _requests(urls: Urls, calls: int) -> tuple[dict[str, list[float]], list[Figure]]:
    """One request that gets a summary, and one hand-over of a turn, in the service's process; and its memory then."""
    key, tenant = await stage.filter_key(urls.database)
    wanted = [Wanted(200, 304, WINDOW, 300) for _ in range(8)] + [Wanted(20, 300, _WINDOW) for _ in range(64)]
    chats = await fill(urls.database, tenant, 10_000, wanted)
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(stage.service(urls))
        line = stack.enter_context(closing(Line(port)))
        processes = stage.listener(port), await _postgres(await stack.enter_async_context(stage.plain(urls.database)))
        compress, turn = Costs("compress", "API", processes), Costs("hand-over", "API", processes)
        ask, ingest = asks(line, key, chats[:8]), hands_over(line, key, chats[8:], (_ROUNDS + 1) * calls)
        line.reconnect()  # making the requests took longer than the service keeps an idle one open
        for _ in range(_ROUNDS + 1):
            await compress.add(_times(calls, ask))
            await turn.add(_times(calls, ingest))
        return compress.times() | turn.times(), _memory("API", processes[0])


async def _times(count: int, call: Call) -> int:
    for _ in range(count):
        await call()
    return count


async def _work(urls: Urls, chats: int) -> tuple[dict[str, list[float]], list[Figure], list[str]]:
    """One call of a `precis worker`; what a waiting one takes; bytes of a checkpoint and of a message."""
    _, tenant = await stage.filter_key(urls.database)
    await fill(urls.database, tenant, _MADE, [Wanted(200, 300, _WINDOW) for _ in range(_MADE // 19)])
    async with AsyncExitStack() as stack:
        connection = await stack.enter_async_context(stage.plain(urls.database))
        filled, before = await _size(connection, "checkpoints"), await _size(connection, "messages")
        bare = before / await connection.fetchval("select count(*) from messages")
        ours = open_runtime(load(database_url=urls.database, redis_url=urls.redis), urls)
        runtime = await stack.enter_async_context(ours)
        worker = await stack.enter_async_context(_worker(urls))
        call = Costs("call", "worker", (worker, await _postgres(connection)))
        for number in range(_ROUNDS + 1):
            await _fall_due(runtime, tenant, [f"due-{number}-{chat}" for chat in range(chats)])
            await call.add(_done(runtime, connection, chats))
        memory = _memory("worker", worker)
        waiting = await _waiting(worker)
        calls, covered = await connection.fetchval(_CALLS), await connection.fetchval(_COVERED)
        checkpoints = (await _size(connection, "checkpoints") - filled) / calls
        message = (await _size(connection, "messages") - before) / ((_ROUNDS + 1) * chats * 2 * _TURNS)
    figures = [
        Figure("waiting_worker", "share of a core that a worker without work takes", waiting),
        Figure("message_bytes", "bytes of a message of 300 tokens, with its indexes, after work", message),
        Figure("bare_message_bytes", "bytes of a message without its text, with its indexes", bare),
        Figure("checkpoint_bytes", "bytes of the checkpoints of a call, with their indexes", checkpoints),
        *memory,
    ]
    return call.times(), figures, [f"{calls} calls, each read {covered / calls:,.0f} tokens of a chat", "the rounds:"]


async def _fall_due(runtime: Runtime, tenant: int, names: Sequence[str]) -> None:
    for name in names:
        path = list(grown(random.Random(name), sizes=turns(_TURNS, 300, 300)))
        is_due = await stage.ingest_into(runtime.database, runtime.texts, tenant, name, path, _WINDOW)
        assert is_due


def _seconds(process: psutil.Process) -> float:
    """CPU time of a process and its children; of those that have ended, too. To some 10 ms for each process."""
    total = 0.0
    for one in [*process.children(recursive=True), process]:  # itself last: it knows of a child that ends meanwhile
        with suppress(psutil.NoSuchProcess):
            total += sum(one.cpu_times()[:4])
    return total


def _memory(name: str, process: psutil.Process) -> list[Figure]:
    """Megabytes of a process and of its text processes; a page that several share is counted once."""
    children = [one.memory_full_info().pss / 1e6 for one in process.children(recursive=True)]
    own = process.memory_full_info().pss / 1e6
    key = name.lower()
    return [
        Figure(
            f"{key}_memory", f"MB of a process, {name}, with its {len(children)} text processes", own + sum(children)
        ),
        Figure(f"{key}_text_memory", f"MB of its largest text process, {name}", max(children, default=0)),
    ]


async def _postgres(connection: Connection) -> psutil.Process:
    """The server's first process, the parent of all others."""
    backend = psutil.Process(await connection.fetchval("select pg_backend_pid()"))
    parent = backend.parent()
    if parent is None or "postgres" not in parent.name():
        raise RuntimeError("PostgreSQL is not on this machine")
    return parent


@asynccontextmanager
async def _worker(urls: Urls) -> AsyncIterator[psutil.Process]:
    """A `precis worker`, and for its time a model in another process that answers at once."""
    async with stage.process("-c", _MODEL, prose(random.Random(1), SUMMARY)) as port:
        outside = {name: value for name, value in os.environ.items() if not name.startswith("PRECIS_")}
        ours = {
            "PRECIS_DATABASE_URL": urls.database,
            "PRECIS_REDIS_URL": urls.redis,
            "PRECIS_SUMMARISER": "openai",
            "PRECIS_SUMMARISER_URL": f"http://127.0.0.1:{port}/v1",
            "PRECIS_SUMMARISER_MODEL": "scripted",
            "PRECIS_LOG_LEVEL": "error",
        }
        # Seldom enough that no sweep begins the work before the clock runs.
        seldom = "from workers import worker; worker.SWEEP_EVERY = 60"
        command = sys.executable, "-c", f"{seldom}; from service.cli import app; app()", "worker"
        started = await asyncio.create_subprocess_exec(*command, env=outside | ours, cwd=stage.ROOT)
        try:
            yield psutil.Process(started.pid)
        finally:
            started.terminate()
            await started.wait()


async def _done(runtime: Runtime, connection: Connection, chats: int) -> int:
    """Rings once for each chat, as hand-overs do, and waits for the end of the work; gives the number of calls."""
    before = await connection.fetchval(_CALLS)
    for _ in range(chats):
        await runtime.queue.wake()
    async with asyncio.timeout(300):
        while await connection.fetchval(_BUSY):  # noqa: ASYNC110 - another process does it
            await asyncio.sleep(0.2)
    calls: int = await connection.fetchval(_CALLS) - before
    return calls


async def _waiting(worker: psutil.Process) -> float:
    before = _seconds(worker)
    await asyncio.sleep(_IDLE)
    return (_seconds(worker) - before) / _IDLE


async def _size(connection: Connection, table: str) -> int:
    size: int = await connection.fetchval("select pg_total_relation_size($1::text::regclass)", table)
    return size


if __name__ == "__main__":
    command(measure)
