"""Handing over one new turn over HTTP: what is uploaded and done must not grow with the chat.

A turn is a question and an answer of some 300 tokens each, as the filter sends it. The long chats have their
checkpoints, one for every ten messages, so nothing is due; no worker runs.

    python -m benchmarks.ingest
"""

import random
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, closing
from typing import Any

from benchmarks import stage
from benchmarks.conversation import Message, grown, turns
from benchmarks.filling import Chat, Wanted, fill
from benchmarks.report import Figure, Report, command, timed
from benchmarks.rounds import Call, best, interleaved
from benchmarks.wire import Line, request

_CHECKPOINTS = 10_000
_WINDOW = 131_072
_EACH = 8  # chats of each length, so that none grows much
_CALLS = 10


async def measure(quick: bool) -> Report:
    """The whole benchmark."""
    rounds = 15 if quick else 40
    wanted = [Wanted(length, 300, _WINDOW) for length in (20, 2000) for _ in range(_EACH)]
    async with AsyncExitStack() as stack:
        servers = await stack.enter_async_context(stage.servers())
        urls = await stack.enter_async_context(stage.database(servers))
        key, tenant = await stage.filter_key(urls.database)
        chats = await fill(urls.database, tenant, _CHECKPOINTS, wanted)
        line = stack.enter_context(closing(Line(await stack.enter_async_context(stage.service(urls)))))
        variants = {
            f"one turn into {length:,} messages": hands_over(
                line, key, [chat for chat in chats if len(chat.path) == length], (rounds + 1) * _CALLS
            )
            for length in (20, 2000)
        }
        medians = await interleaved(variants, rounds=rounds, calls=_CALLS)
    long, short = (best(medians, f"one turn into {length:,} messages") for length in (2000, 20))
    figures = [Figure("ingest_2000_over_20", "one new turn into a chat of 2,000 ÷ of 20 messages", long / short, 1.5)]
    return timed("Handing over one turn", figures, medians)


def hands_over(line: Line, key: str, chats: Sequence[Chat], count: int) -> Call:
    """Hands a new turn over at each call, to one chat after the other; all are made before the clock runs."""
    growing = [handing_over(key, chat) for chat in chats]
    ready = iter([next(growing[number % len(growing)]) for number in range(count)])

    async def ingest() -> None:
        assert line.json(next(ready)) == {"due": False}, "a chat has grown so much that work is due"

    return ingest


def handing_over(key: str, chat: Chat) -> Iterator[bytes]:
    """The requests that hand a chat's next turns over, one by one."""
    rng, above = random.Random(chat.name), chat.path[-1].node
    while True:
        new = list(grown(rng, above, sizes=turns(1, 300, 300)))
        state = {
            "chat": chat.name,
            "user": chat.name,
            "model": stage.MODEL,
            "window": _WINDOW,
            "above": above,
            "served": chat.checkpoint,
        }
        yield finished(key, state, new)
        above = new[-1].node


def finished(key: str, state: dict[str, Any] | None, rows: Sequence[Message], **more: object) -> bytes:
    """The request that hands a turn over, whose requests were answered with `state`."""
    body = {"state": state, "messages": [one.stored for one in rows]}
    return request("POST", "/v1/turns", key, body | more)


if __name__ == "__main__":
    command(measure)
