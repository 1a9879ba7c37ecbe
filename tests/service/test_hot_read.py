"""Which checkpoint the one read of the request path chooses, against the rule in plain Python."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import floor

import pytest

from service.planning.plan import Checkpoint
from service.request.native import Node
from service.storage import chats, checkpoints, codec, contexts, messages, work
from service.storage.checkpoints import NewCheckpoint
from service.storage.contexts import Lookup
from service.summarising.memory import Memory
from tests.conftest import Service, execute
from tests.service.harness import Harness
from tests.service.plans import plans
from tests.service.talk import run_sql

pytestmark = pytest.mark.asyncio(loop_scope="module")


WINDOWS = (2048, 4096, 8192, 32_768)
FACTORS = (1.0, 1.3, 2.5)


@dataclass(frozen=True)
class Line:
    """The checkpoints of one path, shallowest first, for which windows they were written, and the leaf below them."""

    chat: str
    made: Sequence[Checkpoint]
    windows: Sequence[int]
    path_tokens: int
    factor: float
    is_newest: bool
    served: int | None

    @property
    def saved(self) -> list[int]:
        """What each saves."""
        return [one.covered_tokens - one.tokens for one in self.made]

    def chosen(self, total: int, limit: int, window: int) -> Checkpoint:
        """The rule.

        Of those that bring the request to at most `limit`, and that were written for a window like this one, else for
        the largest: the one that served last, else the deepest. When none does, the deepest.
        """
        excess = total - floor(limit / self.factor)
        fits = [place for place, saved in enumerate(self.saved) if saved >= excess]
        if not fits:
            return self.made[-1]
        best = max(min(self.windows[place] * 2, window) for place in fits)
        alike = [self.made[place] for place in fits if min(self.windows[place] * 2, window) == best]
        return next((one for one in alike if one.id == self.served), alike[-1])


def lines(count: int) -> list[Line]:
    """Lines of 1 to 12 checkpoints; some save more from one to the next, some less, some the same, some nothing."""
    rng, found, identity = random.Random(7), [], 0
    for number in range(count):
        covered, made = 0, []
        for depth in range(1, number % 12 + 2):
            identity += 1
            covered += rng.randint(1, 3000)
            tokens = rng.choice([rng.randint(1, 400), rng.randint(1, covered + 500), covered])
            made.append(Checkpoint(identity, f"m{depth}", depth, covered, tokens))
        written_for = [rng.choice(WINDOWS) for _ in made]
        size = covered + rng.randint(0, 4000)
        served = rng.choice([None, 10**6, *(one.id for one in made)])
        is_newest = number % 2 == 0
        found.append(Line(f"chat-{number}", made, written_for, size, FACTORS[number % 3], is_newest, served))
    return found


async def store(service: Service, some: Sequence[Line]) -> None:
    """A chat with one message, the leaf, for each line; of every other one it is the newest path."""
    await run_sql(
        service.runtime,
        "insert into chats (tenant_id, external_id, user_id, model, window_tokens, usage_factor, served_id)"
        " select tenants.id, chat, 'user', 'model', 8192, factor, served from tenants,"
        " unnest(cast(:chats as text[]), cast(:factors as float8[]), cast(:served as bigint[]))"
        " as line (chat, factor, served) where name = 'default'",
        chats=[line.chat for line in some],
        factors=[line.factor for line in some],
        served=[line.served for line in some],
    )
    leaf = (await service.runtime.database.keyring.find_cipher(1)).keyed_hash("leaf")
    await run_sql(
        service.runtime,
        "insert into messages (tenant_id, chat_id, message_id, role, depth, tokens, path_tokens, step_tokens,"
        " step_calls, checkpoint_id)"
        " select tenant_id, id, :leaf, 'user', 99, 1, size, '{}', '{}', head from chats"
        " join unnest(cast(:chats as text[]), cast(:sizes as bigint[]), cast(:heads as bigint[]))"
        " as line (chat, size, head) on external_id = chat",
        chats=[line.chat for line in some],
        sizes=[line.path_tokens for line in some],
        heads=[line.made[-1].id for line in some],
        leaf=leaf,
    )
    async with service.runtime.database.engine.begin() as connection:
        for line in some:
            ids = [one.id for one in line.made]
            await connection.exec_driver_sql(
                "insert into checkpoints (id, tenant_id, chat_id, parent_id, ancestors, savings, windows,"
                " covered_until, covered_messages, covered_tokens, kind, memory, summary, tokens,"
                " summariser, prompt_version, verdict) overriding system value select $1::bigint, tenant_id, id, $2,"
                " $3, $4, $5, $6, $7, $8, 'llm', '', $11, $9, 'by', '1', '' from chats"
                " where external_id = $10",
                [
                    (
                        one.id,
                        ids[place - 1] if place else 0,
                        ids[:place],
                        line.saved[: place + 1],
                        list(line.windows[: place + 1]),
                        one.until,
                        one.messages,
                        one.covered_tokens,
                        one.tokens,
                        line.chat,
                        codec.pack_text(f"summary {one.id}"),
                    )
                    for place, one in enumerate(line.made)
                ],
            )
            if line.is_newest:
                chat = await chats.find_chat(connection, 1, line.chat)
                assert chat
                await chats.note_leaf(connection, chat.key, leaf)


def limits(line: Line, total: int) -> list[int]:
    """Limits at which the choice changes: what a checkpoint leaves of the request is just about as large."""
    left = [total - saved for saved in line.saved]
    found = {max(floor(size * line.factor) + step, 0) for size in left for step in (-3, -1, 0, 1, 3)}
    return sorted(found | {0, 1_000_000})


async def test_the_statements_choose_what_the_rule_says(service: Service) -> None:
    some = lines(48)
    await store(service, some)
    asked, differing = 0, set()
    for number, line in enumerate(some):
        total = line.path_tokens + 300 * (number % 3)
        for limit, window in product(limits(line, total), WINDOWS[number % 2 :: 2]):
            lookup = Lookup(1, line.chat, "model", total, limit, window)
            found = await contexts.find_context(service.runtime.database, lookup, [Node("leaf", "user", 0, 1)])
            wanted = line.chosen(total, limit, window)
            assert found
            assert found.checkpoint == wanted, (line, limit, window)
            assert (found.depth, found.factor) == (99, line.factor)
            assert codec.unpack_text(found.sealed) == f"summary {wanted.id}"
            differing.add(line.made.index(wanted))
            asked += 1

    assert asked > 1000
    assert differing == set(range(12)), "every place of a line was chosen"


async def test_of_another_model_no_factor_is_known(service: Service) -> None:
    (line,) = lines(3)[2:]
    await store(service, [line])

    found = await contexts.find_context(
        service.runtime.database, Lookup(1, line.chat, "other", 9000, 1, 8192), [Node("leaf", "user", 0, 1)]
    )

    assert found
    assert (line.factor, found.factor) == (2.5, 1.0)


async def test_publishing_notes_what_each_of_the_line_saves(harness: Harness) -> None:
    await harness.long_chat()
    worker_context = harness.worker_context()
    sizes = [100, 2000, 300, 3000, 200]
    async with worker_context.engine.begin() as connection:
        lease = await work.claim_work(connection, "worker", None, 4)
        assert lease
        path = await messages.load_path(connection, lease.chat, (await harness.chat()).leaf_id)
        parent = 0
        for number, size in enumerate(sizes):
            until = path[2 * number + 1]
            texts = await checkpoints.pack_texts(
                worker_context.engine, lease.chat, parent, Memory(), f"summary {number}"
            )
            fresh = NewCheckpoint(parent, until, "llm", texts, size, WINDOWS[number % 4], "by", "1")
            parent = await checkpoints.publish_checkpoint(connection, lease, fresh) or 0
            assert parent

    made = await harness.made()
    saved = [one.covered_tokens - one.tokens for one in made]
    assert saved != sorted(saved)
    assert [list(one.savings) for one in made] == [saved[: number + 1] for number in range(len(sizes))]
    assert [list(one.windows) for one in made] == [
        [WINDOWS[place % 4] for place in range(number + 1)] for number in range(len(sizes))
    ]


MANY_VERSIONS = """
insert into checkpoints
select (jsonb_populate_record(one, jsonb_build_object('id', 10000 + number, 'version', 1 + number))).*
from checkpoints one, generate_series(1, 500) number where one.id = (select max(id) from checkpoints)
"""


async def test_of_many_checkpoints_of_a_chat_one_is_looked_up(harness: Harness) -> None:
    await harness.long_chat()
    await harness.drain()
    await run_sql(harness.runtime, MANY_VERSIONS)
    await execute(harness.runtime.urls.database, "vacuum analyze")

    explained = await plans(harness.runtime.database.hot, (await harness.chat()).leaf_id)

    assert all("using pk_checkpoints on checkpoints made" in plan for plan in explained), explained
