"""Which checkpoint the one read of the request path chooses, against the rule in plain Python."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import pytest

from service.planning.plan import Checkpoint
from service.planning.policy import Policy
from service.storage import codec, contexts, messages, publishing, work
from service.storage.contexts import Lookup
from service.storage.publishing import Fresh
from service.summarising.memory import Memory
from tests.conftest import Service, execute
from tests.service.harness import Harness
from tests.service.plans import plans
from tests.service.talk import row, run_sql

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass(frozen=True)
class Line:
    """The checkpoints of one path, shallowest first, and the leaf below them."""

    chat: str
    made: Sequence[Checkpoint]
    path_tokens: int

    @property
    def saved(self) -> list[int]:
        return [one.covered_tokens - one.tokens for one in self.made]

    def chosen(self, apply_at: int, overhead: int) -> Checkpoint:
        """The rule: the shallowest that brings the request to at most `apply_at`; when none does, the deepest."""
        size = self.path_tokens + overhead
        fits = [one for one, saved in zip(self.made, self.saved, strict=True) if size - saved <= apply_at]
        return fits[0] if fits else self.made[-1]


def lines(count: int) -> list[Line]:
    """Lines of 1 to 12 checkpoints; some save more from one to the next, some less, some the same, some nothing."""
    rng, found, identity = random.Random(7), [], 0
    for number in range(count):
        covered, made = 0, []
        for depth in range(1, number % 12 + 2):
            identity += 1
            covered += rng.randint(1, 3000)
            tokens = rng.choice([rng.randint(1, 400), rng.randint(1, covered + 500), covered])
            made.append(Checkpoint(identity, f"m{depth}", f"d{depth}", depth, covered, tokens))
        found.append(Line(f"chat-{number}", made, covered + rng.randint(0, 4000)))
    return found


async def store(service: Service, some: Sequence[Line]) -> None:
    """A chat with one message, the leaf, for each line."""
    await run_sql(
        service.runtime,
        "insert into chats (tenant_id, external_id, user_id, model, window_tokens)"
        " select id, 'chat-' || number, 'user', 'model', 8192 from tenants, generate_series(0, :most) number"
        " where name = 'default' order by number",
        most=len(some) - 1,
    )
    await run_sql(
        service.runtime,
        "insert into messages (tenant_id, chat_id, message_id, role, depth, fingerprint, digest, content_hash, tokens,"
        " path_tokens, step_tokens, step_calls, checkpoint_id)"
        " select tenant_id, id, 'leaf', 'user', 99, 'f', :digest, '', 1, size, '{}', '{}', head from chats"
        " join unnest(cast(:chats as text[]), cast(:sizes as bigint[]), cast(:heads as bigint[]))"
        " as line (chat, size, head) on external_id = chat",
        chats=[line.chat for line in some],
        sizes=[line.path_tokens for line in some],
        heads=[line.made[-1].id for line in some],
        digest=(await service.runtime.database.seals.of(1)).keyed("d"),
    )
    async with service.runtime.database.engine.begin() as connection:
        for line in some:
            ids, best = [one.id for one in line.made], list(accumulate(line.saved, max))
            await connection.exec_driver_sql(
                "insert into checkpoints (id, tenant_id, chat_id, parent_id, ancestors, savings, covered_until,"
                " covered_digest, covered_messages, covered_tokens, kind, memory, summary, tokens,"
                " summariser, prompt_version, verdict) overriding system value select $1::bigint, tenant_id, id, $2,"
                " $3, $4, $5, $6, $7, $8, 'llm', '', $11, $9, 'by', '1', '' from chats"
                " where external_id = $10",
                [
                    (
                        one.id,
                        ids[place - 1] if place else 0,
                        ids[:place],
                        best[: place + 1],
                        one.until,
                        one.digest,
                        one.messages,
                        one.covered_tokens,
                        one.tokens,
                        line.chat,
                        codec.pack_text(f"summary {one.id}"),
                    )
                    for place, one in enumerate(line.made)
                ],
            )


def windows(line: Line, overhead: int) -> list[int]:
    """Windows at which the choice changes: what a checkpoint leaves of the request is just about `apply_at`."""
    left = [line.path_tokens + overhead - saved for saved in line.saved]
    found = {max(size * 131_072 // 100_000 + step, 2048) for size in left for step in (-2, -1, 0, 1, 2)}
    return sorted(found | {2048, 1_000_000})


def asked(tenant: int, line: Line, window: int) -> Lookup:
    return Lookup(tenant, line.chat, 99, [("leaf", "d")], [999], window)


async def test_the_statement_chooses_what_the_rule_says(service: Service) -> None:
    some = lines(48)
    await store(service, some)
    tenant = (await row(service.runtime, "select id from tenants where name = 'default'")).id
    turns, differing = 0, set()
    for number, line in enumerate(some):
        overhead = 300 * (number % 3)
        await run_sql(
            service.runtime,
            "update chats set overhead_tokens = :overhead where external_id = :chat",
            overhead=overhead,
            chat=line.chat,
        )
        for window in windows(line, overhead):
            found = await contexts.find(service.runtime.database, asked(tenant, line, window))
            wanted = line.chosen(Policy.sized(window).apply_at, overhead)
            assert found
            assert found.checkpoint == wanted, (line, window)
            assert found.tokens == line.path_tokens + overhead
            assert codec.unpack_text(found.sealed) == f"summary {wanted.id}"
            differing.add(line.made.index(wanted))
            turns += 1

    assert turns > 1000
    assert differing == set(range(12)), "every place of a line was chosen"


async def test_publishing_notes_the_most_that_the_line_saves_so_far(harness: Harness) -> None:
    leaf = await harness.long_chat()
    worker_context = harness.worker_context()
    sizes = [100, 2000, 300, 3000, 200]
    async with worker_context.engine.begin() as connection:
        lease = await work.claim(connection, "worker", None, 4)
        assert lease
        path = await messages.path(connection, lease.chat, leaf)
        parent = 0
        for number, size in enumerate(sizes):
            until = path[2 * number + 1]
            texts = await publishing.pack(worker_context.engine, lease.chat, parent, Memory(), f"summary {number}")
            fresh = Fresh(parent, until, "llm", texts, size, "by", "1")
            parent = await publishing.publish(connection, lease, fresh) or 0
            assert parent

    made = await harness.made()
    saved = [one.covered_tokens - one.tokens for one in made]
    assert saved != sorted(saved)
    assert [list(one.savings) for one in made] == [
        list(accumulate(saved[: number + 1], max)) for number in range(len(sizes))
    ]


MANY_VERSIONS = """
insert into checkpoints
select (jsonb_populate_record(one, jsonb_build_object('id', 10000 + number, 'version', 1 + number))).*
from checkpoints one, generate_series(1, 500) number where one.id = (select max(id) from checkpoints)
"""


async def test_of_many_checkpoints_of_a_chat_one_is_looked_up(harness: Harness) -> None:
    leaf = await harness.long_chat()
    await harness.drain()
    await run_sql(harness.runtime, MANY_VERSIONS)
    await execute(harness.runtime.urls.database, "vacuum analyze")

    explained = await plans(harness.runtime.database.hot, leaf)

    assert all("using pk_checkpoints on checkpoints made" in plan for plan in explained), explained
