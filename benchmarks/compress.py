"""What `POST /v1/compress` of a summarised chat costs the service: milliseconds of CPU.

All is in the steady state: the path is stored, its messages are counted, and a summary stands in the answer. The time
is that of the whole process, HTTP included, without PostgreSQL; requests come one after the other on a kept connection.
The yardstick is `json.loads` of the same body in this process.

    python -m benchmarks.compress
"""

import itertools
import json
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, closing

import psutil

from benchmarks import stage
from benchmarks.conversation import Message, grown, turns
from benchmarks.filling import Chat, Wanted, fill
from benchmarks.report import Figure, Report, command
from benchmarks.rounds import Call
from benchmarks.wire import Line, request

WINDOW = 24_576
_CHECKPOINTS = 10_000
_EACH = 4  # chats of each kind
_CALLS = 60, 20  # of each kind in a round, and with --quick
_ROUNDS = 10, 4
_QUESTION = next(grown(random.Random(1), sizes=turns(1, 20, 20)))
# By name: messages of a chat, tokens of each, and the milliseconds that are wanted.
_KINDS = {"20_100kb": (20, 1260, None), "200_600kb": (200, 735, 4), "2000_600kb": (2000, 68, 8)}


async def measure(quick: bool) -> Report:
    """The whole benchmark."""
    wanted = [Wanted(count, size + 4, WINDOW, size) for count, size, _ in _KINDS.values() for _ in range(_EACH)]
    async with AsyncExitStack() as stack:
        servers = await stack.enter_async_context(stage.servers())
        urls = await stack.enter_async_context(stage.database(servers))
        key, tenant = await stage.filter_key(urls.database)
        chats = await fill(urls.database, tenant, _CHECKPOINTS, wanted)
        port = await stack.enter_async_context(stage.service(urls))
        line = stack.enter_context(closing(Line(port)))
        kinds = {name: chats[at * _EACH : (at + 1) * _EACH] for at, name in enumerate(_KINDS)}
        bodies = {name: asking(key, some[0].name, some[0].path, _QUESTION) for name, some in kinds.items()}
        calls = {name: asks(line, key, some) for name, some in kinds.items()}
        times = await _cpu(stage.listener(port), calls, _ROUNDS[quick], _CALLS[quick])
    parsing = {name: _parsing(whole.partition(b"\r\n\r\n")[2]) for name, whole in bodies.items()}
    figures = [
        Figure(f"compress_service_ms_{name}", "CPU ms of the service for one request", times[name], bound)
        for name, (_, _, bound) in _KINDS.items()
    ]
    figures += [
        Figure(f"compress_over_json_{name}", "the same ÷ json.loads of the body", times[name] / parsing[name])
        for name in _KINDS
    ]
    ratio = times["2000_600kb"] / times["20_100kb"]
    meaning = "the same, 2,000 messages of 600 kB ÷ 20 of 100 kB"
    figures.append(Figure("compress_2000_over_20", meaning, ratio))
    facts = [
        f"{name}: a body of {len(whole) / 1000:.0f} kB; json.loads takes {parsing[name]:.2f} ms"
        for name, whole in bodies.items()
    ]
    return Report("Requests", figures, facts)


async def _cpu(process: psutil.Process, calls: Mapping[str, Call], rounds: int, count: int) -> dict[str, float]:
    """Milliseconds of a process's CPU for a call of each kind, in the best of some rounds."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            before = sum(process.cpu_times()[:2])
            for _ in range(count):
                await call()
            times[name].append((sum(process.cpu_times()[:2]) - before) * 1000 / count)
    return {name: min(taken) for name, taken in times.items()}


def _parsing(body: bytes) -> float:
    """Milliseconds of CPU that `json.loads` takes."""
    times = []
    for _ in range(30):
        began = time.process_time()
        json.loads(body)
        times.append(time.process_time() - began)
    return min(times) * 1000


def asks(line: Line, key: str, chats: Sequence[Chat]) -> Call:
    """Asks what a chat's next request is sent as, one chat after the other; each answer is checked here once."""
    # Time enough for the first one to count all messages.
    requests = [asking(key, chat.name, chat.path, _QUESTION, seconds=30) for chat in chats]
    for whole in requests:
        answer = line.json(whole)
        assert answer["status"] == "ready", answer
        assert answer["covered_until"], "the host has told its ids"
        assert not answer["whole"], "all of the path is stored"
    turn = itertools.cycle(requests)

    async def ask() -> None:
        status, _ = line.send(next(turn))
        assert status == 200

    return ask


def asking(
    key: str,
    chat: str,
    path: Sequence[Message],
    question: Message,
    window: int = WINDOW,
    seconds: float = 0.6,
) -> bytes:
    """The request for a chat's next question, which may wait for so many seconds."""
    body = {
        "chat": chat,
        "user": chat,
        "model": stage.MODEL,
        "window": window,
        "seconds": seconds,
        "messages": [one.native for one in (*path, question)],
    }
    return request("POST", "/v1/compress", key, body)


if __name__ == "__main__":
    command(measure)
