"""Which checkpoint the one read of the request path chooses, against the rule in plain Python."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import floor

import pytest

from service.planning.plan import Checkpoint
from service.request.native import Node
from service.storage import chats, contexts, messages
from service.storage.contexts import Lookup
from service.storage.tables import ChatKey
from tests.service.harness import Harness
from tests.service.talk import run_sql

pytestmark = pytest.mark.asyncio(loop_scope="module")

COUNT = 12
WINDOWS = (2048, 4096, 8192, 32_768)
FACTORS = (2.5, 1.0, 1.3)


@dataclass(frozen=True)
class Line:
    """Checkpoints, shallowest first, each grown from the one before, and for which windows they were written."""

    chat: ChatKey
    made: Sequence[Checkpoint]
    windows: Sequence[int]
    factor: float
    served: int | None

    def choose(self, lookup: Lookup) -> Checkpoint:
        """The rule.

        Of those that bring the request to at most its limit, and that were written for a window like this one, else
        for the largest: the one that served last, else the deepest. When none does, the deepest.
        """
        excess = lookup.total - floor(lookup.limit / self.factor)
        fits = [place for place, one in enumerate(self.made) if one.covered_tokens - one.tokens >= excess]
        if not fits:
            return self.made[-1]
        likeness = [min(window * 2, lookup.window) for window in self.windows]
        best = max(likeness[place] for place in fits)
        alike = [self.made[place] for place in fits if likeness[place] == best]
        return next((one for one in alike if one.id == self.served), alike[-1])

    def list_limits(self, total: int) -> list[int]:
        """Limits at which the choice changes: what a checkpoint leaves of the request is just about as large."""
        left = [total - one.covered_tokens + one.tokens for one in self.made]
        found = {max(floor(size * self.factor) + step, 0) for size in left for step in (-3, -1, 0, 1, 3)}
        return sorted(found | {0, 1_000_000})


async def make_lines(harness: Harness, rng: random.Random) -> list[Line]:
    """The lines of 1 to 12 checkpoints of one path. Some save more than the one before, some less, some nothing."""
    leaf = await harness.long_chat()
    host_ids = [one["id"] for one in harness.talk.path(leaf)]
    lease = await harness.claim()
    made: list[Checkpoint] = []
    windows = rng.choices(WINDOWS, k=COUNT)
    async with harness.runtime.database.engine.connect() as connection:
        path = await messages.load_path(connection, lease.chat, (await harness.chat()).leaf_id)
    for number, window in enumerate(windows):
        place = 2 * number + 1
        covered = path[place].path_tokens
        tokens = rng.choice([rng.randint(1, 400), rng.randint(1, covered + 500), covered])
        parent = made[-1].id if made else 0
        identity = await harness.publish(replace(lease, window=window), parent, host_ids[place], tokens=tokens)
        made.append(Checkpoint(identity, path[place].message_id, place + 1, covered, tokens))
    lines = [made[:length] for length in range(1, COUNT + 1)]
    return [
        Line(lease.chat, line, windows, FACTORS[len(line) % 3], rng.choice([None, 10**6, *(one.id for one in line)]))
        for line in lines
    ]


async def test_the_statements_choose_what_the_rule_says(harness: Harness) -> None:
    lines = await make_lines(harness, random.Random(7))
    saved = [one.covered_tokens - one.tokens for one in lines[-1].made]
    assert saved != sorted(saved)
    database, ids = harness.runtime.database, harness.talk.ids(next(reversed(harness.talk.rows)))
    leaf = (await harness.chat()).leaf_id
    asked, chosen = 0, set()
    for line, is_newest in product(lines, (True, False)):
        depth = line.made[-1].messages
        change = "update chats set model = 'model', usage_factor = :factor, served_id = :served"
        await run_sql(harness.runtime, change, factor=line.factor, served=line.served)
        async with database.engine.begin() as connection:
            await chats.note_leaf(connection, line.chat, line.made[-1].until if is_newest else leaf)
        path = [Node(ids[depth - 1], "assistant", 0, 1)]
        total = line.made[-1].covered_tokens + 300 * (depth % 3)
        for limit, window in product(line.list_limits(total), WINDOWS):
            lookup = Lookup(line.chat.tenant, harness.talk.chat, "model", total, limit, window)
            found = await contexts.find_context(database, lookup, path)
            wanted = line.choose(lookup)
            assert found
            assert found.checkpoint == wanted, (line, lookup)
            assert (found.depth, found.factor) == (depth, line.factor)
            chosen.add(wanted.messages)
            asked += 1
        other = await contexts.find_context(database, lookup._replace(model="other"), path)
        assert other
        assert other.factor == 1, "it is of another model"

    assert asked > 1000
    assert len(chosen) == COUNT, "every place of a line was chosen"
