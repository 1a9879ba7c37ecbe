"""The hot read in process: finding what is stored for a path, against reading one checkpoint by its primary key.

Both go through the service's own read pool. The mass database has 1,000,000 checkpoints, the small one 1,000. The
newest question of each request is not part of its path, which is stored.

    python -m benchmarks.lookup
"""

import itertools
from collections.abc import Sequence
from contextlib import AsyncExitStack

from benchmarks import stage
from benchmarks.filling import Chat, Wanted, fill
from benchmarks.report import Figure, Report, command, timed
from benchmarks.rounds import Call, Medians, best, interleaved
from service.request.native import Node
from service.storage.database import Database, connect

LENGTHS = (20, 200, 2000)
_EACH = 4  # chats of each length, so that not one single page is read
_SIZES = _MASS, _SMALL = 1_000_000, 1_000
_SIZE, _QUESTION, _WINDOW = 1000, 80, 16_384  # tokens of each message, of a question, and of the window
_WANTED = [Wanted(length, _SIZE, _WINDOW) for length in LENGTHS for _ in range(_EACH)]
_BY_KEY = "select id, covered_until, covered_messages, covered_tokens, tokens, summary from checkpoints where id = $1"


async def measure(quick: bool) -> Report:
    """The whole benchmark. Filling takes most of its time, so `quick` only saves rounds."""
    variants: dict[str, Call] = {}
    async with AsyncExitStack() as stack:
        servers = await stack.enter_async_context(stage.servers())
        for size in (_MASS, _SMALL):
            urls = await stack.enter_async_context(stage.database(servers))
            _, tenant = await stage.filter_key(urls.database)
            chats = await fill(urls.database, tenant, size, _WANTED)
            database = await stack.enter_async_context(connect(urls.database))
            for length in LENGTHS:
                some = [chat for chat in chats if len(chat.path) == length]
                variants[f"find, {length:,} of {size:,}"] = await find(database, tenant, some)
                variants[f"one row, {length:,} of {size:,}"] = one_row(database, some)
        medians = await interleaved(variants, rounds=500 if quick else 2000, calls=8)
    return timed("Hot read in process", _figures(medians), medians)


def _figures(medians: Medians) -> list[Figure]:
    found = {(length, size): best(medians, f"find, {length:,} of {size:,}") for length in LENGTHS for size in _SIZES}
    figures = [
        Figure(
            f"lookup_{length}",
            f"deepest checkpoint ÷ one row by key, {length:,} path messages",
            found[length, _MASS] / best(medians, f"one row, {length:,} of {_MASS:,}"),
            1.4,
        )
        for length in LENGTHS
    ]
    mass, small = (sum(found[length, size] for length in LENGTHS) for size in _SIZES)
    what = "the same in 1,000,000 ÷ in 1,000 checkpoints, all lengths"
    return [*figures, Figure("lookup_1m_over_1k", what, mass / small, 1.2)]


async def find(database: Database, tenant: int, chats: Sequence[Chat]) -> Call:
    """The lookup, of one chat after the other; each answer is checked here once."""
    asked = [(chat.name, _nodes(chat), len(chat.path) * _SIZE + _QUESTION, _WINDOW) for chat in chats]
    for chat, given in zip(chats, asked, strict=True):
        found = await stage.find(database, tenant, *given)
        assert found
        assert found.depth == len(chat.path), "all of the path is stored"
        assert found.checkpoint, "a summary is wanted and there"
        assert found.checkpoint.id == chat.checkpoint, "only the newest checkpoint saves enough"
    turn = itertools.cycle(asked)

    async def look_up() -> None:
        await stage.find(database, tenant, *next(turn))

    return look_up


def _nodes(chat: Chat) -> list[Node]:
    return [Node(one.node, one.role, place, place + 1) for place, one in enumerate(chat.path)]


def one_row(database: Database, chats: Sequence[Chat]) -> Call:
    """The yardstick: a chat's newest checkpoint by its primary key, with all that an answer needs."""
    turn = itertools.cycle([chat.checkpoint for chat in chats])

    async def read() -> None:
        await database.hot.fetchrow(_BY_KEY, next(turn))

    return read


if __name__ == "__main__":
    command(measure)
