"""`POST context` over HTTP, against a bare route of the same framework plus one pooled row read in process.

The service and the bare application run in processes of their own, served in the same way; requests come one after the
other on a kept connection, with 16 pairs and sizes for a path of 2,000 messages, as the filter sends them.

    python -m benchmarks.context_http
"""

import itertools
from collections.abc import Sequence
from contextlib import AsyncExitStack, closing

from benchmarks import stage
from benchmarks.filling import Chat, Wanted, fill
from benchmarks.lookup import one_row
from benchmarks.report import Figure, Report, command, timed
from benchmarks.rounds import Call, best, interleaved
from benchmarks.wire import Line, request
from service.storage.database import connect

LENGTHS = (20, 2000)
_CHECKPOINTS = 10_000
_SIZE = 1000  # tokens of each message
_DESCRIBED = 32  # questions, which most branches below a summary have
_WINDOW = 16_384


async def measure(quick: bool) -> Report:
    """The whole benchmark."""
    wanted = [Wanted(length, _SIZE, _WINDOW) for length in LENGTHS for _ in range(4)]
    async with AsyncExitStack() as stack:
        servers = await stack.enter_async_context(stage.servers())
        urls = await stack.enter_async_context(stage.database(servers))
        key, tenant = await stage.filter_key(urls.database)
        chats = await fill(urls.database, tenant, _CHECKPOINTS, wanted)
        service = stack.enter_context(closing(Line(await stack.enter_async_context(stage.service(urls)))))
        bare = stack.enter_context(
            closing(Line(await stack.enter_async_context(stage.process("-m", "benchmarks.hello"))))
        )
        database = await stack.enter_async_context(connect(urls.database))
        variants: dict[str, Call] = {
            f"context, {length:,} messages": asks(service, key, [c for c in chats if len(c.path) == length])
            for length in LENGTHS
        }
        variants["hello"] = _hello(bare)
        variants["one row, in process"] = one_row(database, chats)
        medians = await interleaved(variants, rounds=600 if quick else 2000, calls=8)
    long, short = (best(medians, f"context, {length:,} messages") for length in (2000, 20))
    floor = best(medians, "hello") + best(medians, "one row, in process")
    figures = [
        Figure("context_http", "POST context, path of 2,000 ÷ (framework hello + one row)", long / floor, 1.5),
        Figure("context_2000_over_20", "POST context, path of 2,000 ÷ of 20", long / short, 1.5),
    ]
    other = f"POST context, path of 20 ÷ (framework hello + one row): {short / floor:.2f}"
    return timed("Hot read over HTTP", figures, medians, other)


def asks(line: Line, key: str, chats: Sequence[Chat]) -> Call:
    """Asks for the context of one chat after the other; each answer is checked here once."""
    requests = [asking(key, chat) for chat in chats]
    for chat, whole in zip(chats, requests, strict=True):
        answer = line.json(whole)
        assert answer["status"] == "ready", answer
        assert (answer["covered_until"], answer["covered_digest"]) == (chat.boundary.id, chat.boundary.digest)
        assert answer["edit"], "the whole answer is timed, with the edit that the filter makes"
    turn = itertools.cycle(requests)

    async def ask() -> None:
        status, _ = line.send(next(turn))
        assert status == 200

    return ask


def asking(key: str, chat: Chat) -> bytes:
    """The request for the context of a chat's next question."""
    pairs = chat.pairs()
    body = {
        "model": stage.MODEL,
        "windows": [_WINDOW],
        "depth": len(chat.path) + 1,
        "path": pairs,
        "sizes": [_SIZE] * len(pairs),
        "native": _described(chat),
    }
    return request("POST", f"/v1/chats/{chat.name}/context", key, body)


def _described(chat: Chat) -> dict[str, object]:
    """The request as the filter describes it: its newest questions, here and on the path."""
    places = [place for place, one in enumerate([*chat.path, None]) if one is None or one.role == "user"]
    words = f"{0:016x}"
    questions = [(place, words) for place in places[::-1]]
    asked = [(place, words) for place in places[::-1]]
    return {
        "leading": 0,
        "questions": questions[:_DESCRIBED],
        "asked": asked[:_DESCRIBED],
        "all_questions": len(questions),
        "all_asked": len(asked),
        "guided": False,
    }


def _hello(line: Line) -> Call:
    whole = request("GET", "/hello")
    assert line.json(whole) == {"hello": "world"}

    async def hello() -> None:
        line.send(whole)

    return hello


if __name__ == "__main__":
    command(measure)
