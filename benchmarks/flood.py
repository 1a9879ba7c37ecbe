"""`POST context` while somebody without a key hammers the service, against the same question in peace.

Hundreds of connections of one other process ask as soon as they are answered: for `/v1/chats` with wrong keys, or for
`/readyz`. Before the limits, the median of a question was twelve times as long.

    python -m benchmarks.flood
"""

import asyncio
import statistics
import sys
from contextlib import AsyncExitStack, closing

from benchmarks import stage
from benchmarks.context_http import asks
from benchmarks.filling import Wanted, timed_fill
from benchmarks.report import Figure, Report, command, timed
from benchmarks.rounds import Call, Medians
from benchmarks.wire import Line, request

CONNECTIONS = 200  # one address has 250 at most
_CHECKPOINTS = 2000
_WINDOW = 16_384
_KINDS = ("wrong keys", "readyz")
_SETTLES = 2.0  # seconds until the flood has met its limits


async def measure(quick: bool) -> Report:
    """The whole benchmark."""
    rounds, questions = (3, 200) if quick else (8, 400)
    async with AsyncExitStack() as stack:
        servers = await stack.enter_async_context(stage.servers())
        urls = await stack.enter_async_context(stage.database(servers))
        key, tenant = await stage.filter_key(urls.database)
        wanted = [Wanted(20, 1000, _WINDOW) for _ in range(4)]
        chats, _ = await timed_fill(urls.database, tenant, _CHECKPOINTS, wanted)
        port = await stack.enter_async_context(stage.service(urls))
        line = stack.enter_context(closing(Line(port)))
        ask = asks(line, key, chats)
        medians: Medians = {name: [] for name in ("in peace", *(f"under a flood of {kind}" for kind in _KINDS))}
        for _ in range(rounds):
            for kind in _KINDS:
                medians["in peace"].append(await _median(line, ask, questions))
                async with stage.process("-m", "benchmarks.flood", "--hammer", str(port), kind):
                    await asyncio.sleep(_SETTLES)
                    medians[f"under a flood of {kind}"].append(await _median(line, ask, questions))
    # Not the best round but the usual one: a flood is to be felt in all of them.
    peace = statistics.median(medians["in peace"])
    figures = [
        Figure(
            f"flood_{kind.replace(' ', '_')}",
            f"POST context under a flood of {kind} ÷ in peace",
            statistics.median(medians[f"under a flood of {kind}"]) / peace,
            2,
        )
        for kind in _KINDS
    ]
    fact = f"{CONNECTIONS} connections; medians of {rounds} rounds of {questions} questions"
    return timed("flood", "A flood without a key", figures, medians, fact)


async def _median(line: Line, ask: Call, questions: int) -> float:
    """Microseconds of a question."""
    line.reconnect()
    took = []
    loop = asyncio.get_running_loop()
    for _ in range(questions):
        began = loop.time()
        await ask()
        took.append(loop.time() - began)
    return statistics.median(took) * 1e6


async def _hammer(port: int, kind: str) -> None:
    """Asks on all connections for as long as the process lives."""
    whole = request("GET", "/v1/chats", "precis_op_wrong") if kind == "wrong keys" else request("GET", "/readyz")
    async with asyncio.TaskGroup() as group:
        for _ in range(CONNECTIONS):
            group.create_task(_connection(port, whole))
        print(f"hammers http://127.0.0.1:{port}", flush=True)


async def _connection(port: int, whole: bytes) -> None:
    while True:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            while True:
                writer.write(whole)
                head = await reader.readuntil(b"\r\n\r\n")
                length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length))
        except (OSError, asyncio.IncompleteReadError):
            writer.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--hammer"]:
        asyncio.run(_hammer(int(sys.argv[2]), sys.argv[3]))
    else:
        command(measure)
