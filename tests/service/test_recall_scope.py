"""Whatever a chat's tree looks like: a look-up sees the covered part of its own branch, and nothing else.

A word stands in each message and each result of a tool, and nowhere else. Worlds are made at random: a tree of
messages, the same ids in a fork of the same user, in one of another user and at another tenant, what they say the same
down to some depth; paths are handed over, covered and edited in any order. What may be seen is told by the tables of
chats, messages and checkpoints alone, without the statements that are tested.
"""

import asyncio
import random
import re
from collections.abc import AsyncIterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Table, select
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage import chats, checkpoints, codec, keys, memories, messages, sealing, tables
from service.storage.checkpoints import Lineage
from service.storage.tenancy import ChatKey
from service.summarising.memory import Memory
from service.text import languages
from tests.builders import called, returned, said
from tests.conftest import Service
from tests.effort import ALL
from tests.service.harness import emptied
from tests.service.talk import Json, Talk, as_sent

pytestmark = pytest.mark.asyncio(loop_scope="module")

CASES = 10_000 if ALL else 200  # (place, question)
OF_A_WORLD = 40
AT_ONCE = 2  # questions
WORD = re.compile(r"w\d{5}q")
TALKS = (("one", "chat-1", "user-1"), ("one", "chat-2", "user-1"), ("one", "chat-3", "user-2"))
OTHER = ("other", "chat-1", "user-1")  # the same chat at another tenant


@dataclass(frozen=True)
class Plan:
    """How a world is made.

    `parents` are steps back from each message to its parent; `tools`, which answers call a tool; `differ`, from which
    message on each of the other talks says something else; `acts` are (what, talk, message, depth), and any number
    stands for one that is there.
    """

    parents: Sequence[int]
    tools: Sequence[bool]
    differ: Sequence[int]
    acts: Sequence[tuple[str, int, int, int]]
    seed: int


_numbers = st.integers(0, 11)
PLANS = st.integers(4, 11).flatmap(
    lambda size: st.builds(
        Plan,
        parents=st.lists(st.sampled_from([1, 1, 1, 2, 3]), min_size=size, max_size=size),
        tools=st.lists(st.booleans(), min_size=size, max_size=size),
        differ=st.lists(st.integers(0, size), min_size=3, max_size=3),
        acts=st.lists(
            st.tuples(st.sampled_from(["cover", "cover", "cover", "ingest", "edit"]), *[_numbers] * 3),
            min_size=8,
            max_size=24,
        ),
        seed=st.integers(0, 10**6),
    )
)


@dataclass(frozen=True)
class Branch:
    """A path as somebody has it who asks: (id, digest) and row of each message, the root first."""

    tenant: str
    chat: str
    user: str
    pairs: Sequence[tuple[str, str]]
    rows: Sequence[Json]


@dataclass(frozen=True)
class Asked:
    """A place and a question. `user` may be somebody else; `posted` pairs of the branch are sent."""

    branch: Branch
    tenant: str
    user: str
    posted: int
    checkpoint: int | None
    whole: bool
    query: str = ""
    ref: str = ""


@dataclass
class World:
    """Talks, and the branches that were there at any time, also before an edit."""

    service: Service
    clients: dict[str, httpx.AsyncClient]
    talks: list[tuple[str, Talk]] = field(default_factory=list)
    branches: list[Branch] = field(default_factory=list)
    words: int = 0

    def word(self) -> str:
        self.words += 1
        return f"w{self.words:05d}q"

    def fill(self, row: Json) -> None:
        """Gives a message words that stand nowhere else."""
        row["content"] = f"Please look at {self.word()} today."
        if row["output"]:
            row["content"] = ""
            row["output"] = [
                called("call-" + row["id"], "look_up"),
                returned("call-" + row["id"], f"bay {self.word()}\nrow 2"),
                said(f"It says {self.word()}."),
            ]

    def snapshot(self) -> None:
        """Notes all branches as they are."""
        for tenant, talk in self.talks:
            for leaf in talk.rows:
                pairs = [(identity, digest) for identity, _, digest in talk.chain(leaf)]
                branch = Branch(tenant, talk.chat, talk.user, pairs, deepcopy(talk.path(leaf)))
                if branch not in self.branches:
                    self.branches.append(branch)


def tree(world: World, plan: Plan) -> Talk:
    """The first talk."""
    talk = Talk(world.clients["one"], "chat-1", user="user-1", window=8192)
    parent: str | None = None
    for place, back in enumerate(plan.parents):
        if place:
            parent = f"m{max(place - back, 0)}"
        role = "assistant" if parent and talk.rows[parent]["role"] == "user" else "user"
        calls = role == "assistant" and plan.tools[place]
        talk.add(f"m{place}", parent, role, "-", output=[{}] if calls else None)
        world.fill(talk.rows[f"m{place}"])
    return talk


async def build(world: World, plan: Plan) -> None:
    first = tree(world, plan)
    for (tenant, chat, user), differs in zip([*TALKS, OTHER], [len(plan.parents), *plan.differ], strict=True):
        talk = Talk(world.clients[tenant], chat, deepcopy(first.rows), user=user, window=8192)
        for row in list(talk.rows.values())[differs:]:
            world.fill(row)
        world.talks.append((tenant, talk))
    for act, which, message, depth in plan.acts:
        tenant, talk = world.talks[which % len(world.talks)]
        identity = list(talk.rows)[message % len(talk.rows)]
        match act:
            case "ingest":
                await talk.ingest(identity)
            case "cover":
                await talk.ingest(identity)
                await cover(world.service, tenant, talk, identity, depth)
            case "edit":
                world.snapshot()
                world.fill(talk.rows[identity])
    world.snapshot()


async def cover(service: Service, tenant: str, talk: Talk, leaf: str, depth: int) -> None:
    """A summary of a part of a stored branch, below those that it has."""
    known = await facts(service, tenant)
    chat = next(one for one in known if one.chat == talk.chat)
    chain = [(identity, digest) for identity, _, digest in talk.chain(leaf)]
    line = chat.line(chain)
    covered = line[-1].covered_messages if line else 0
    if covered == len(chain):
        return
    until = chain[covered + depth % (len(chain) - covered)][0]
    key = ChatKey(chat.tenant, chat.id)
    async with service.runtime.database.engine.begin() as connection:
        row = (await messages.find(connection, key, [until]))[until]
        content = {
            "covered_until": until,
            "covered_digest": row.digest,
            "covered_messages": row.depth,
            "covered_tokens": row.path_tokens,
            "kind": "llm",
            "summary": codec.pack_text("-"),
            "tokens": 1,
            "verdict": codec.pack({}),
            "served_by": None,
            "memory": memories.packed(Memory()),
            "summariser": "-",
            "prompt_version": "-",
        }
        above = Lineage([one.id for one in line], list(line[-1].savings) if line else [])
        grown = await checkpoints.add(connection, key, above, await checkpoints.next_id(connection), content)
        await messages.point_to(connection, key, until, grown.ids[-1], [])
        await chats.note_leaf(connection, key)


@dataclass(frozen=True)
class Facts:
    """What is stored of a chat: by (id, digest) the checkpoint of a message, and the checkpoints by id."""

    tenant: int
    id: int
    chat: str
    user: str
    stored: dict[tuple[str, str], int | None]
    made: dict[int, Any]

    def line(self, path: Sequence[tuple[str, str]]) -> list[Any]:
        """The checkpoints of a path, the shallowest first. They cover this path indeed."""
        last = self.made.get(self.stored[path[-1]] or 0)
        line = [self.made[one] for one in [*last.ancestors, last.id]] if last else []
        for one in line:
            assert path[one.covered_messages - 1] == (one.covered_until, one.covered_digest)
        return line


Known = dict[str, list[Facts]]
"""By tenant."""


async def facts(service: Service, tenant: str) -> list[Facts]:
    """What is stored of a tenant's chats, the newest chat first."""
    async with service.runtime.database.engine.connect() as connection:
        named = select(tables.tenants.c.id).where(tables.tenants.c.name == tenant).scalar_subquery()
        chats_ = select(tables.chats).where(tables.chats.c.tenant_id == named).order_by(tables.chats.c.id.desc())
        found: list[Facts] = []
        for one in (await connection.execute(chats_)).all():
            of = {"connection": connection, "chat": one.id}
            seal = await sealing.of(connection, one.tenant_id)
            sent = [as_sent(row, seal) for row in await _rows(tables.messages, **of)]
            stored = {(row.message_id, row.digest): row.checkpoint_id for row in sent}
            made = {row.id: as_sent(row, seal) for row in await _rows(tables.checkpoints, **of)}
            found.append(Facts(one.tenant_id, one.id, one.external_id, one.user_id, stored, made))
        return found


async def _rows(table: Table, connection: AsyncConnection, chat: int) -> Sequence[Any]:
    return (await connection.execute(select(table).where(table.c.chat_id == chat))).all()


def boundary(known: Sequence[Facts], asked: Asked) -> int:
    """How many messages of its branch somebody may see."""
    posted = asked.branch.pairs[::-1][: asked.posted]
    digests = {digest for _, digest in posted}
    own = [one for one in known if (one.chat, one.user) == (asked.branch.chat, asked.user)]
    lending = [
        one for one in known if one.user == asked.user and digests & {each.covered_digest for each in one.made.values()}
    ]
    lending.sort(key=lambda one: next((place for place, pair in enumerate(posted) if pair in one.stored), len(posted)))
    for chat in [*own, *lending]:
        newest = next((pair for pair in posted if pair in chat.stored), None)
        if newest is None:
            continue
        depth = asked.branch.pairs.index(newest) + 1
        line = chat.line(asked.branch.pairs[:depth])
        if asked.whole:
            return depth
        if not line:
            continue
        served = next((one for one in line if one.id == asked.checkpoint and one.id in line[-1].ancestors), line[-1])
        return int(served.covered_messages)
    return 0


def calls(rows: Sequence[Json]) -> list[Json]:
    return [row for row in rows if row["output"]]


def words(*rows: Json) -> list[str]:
    return [word for row in rows for word in WORD.findall(str(row["content"]) + str(row["output"]))]


def cases(world: World, known: Known, rng: random.Random) -> list[Asked]:
    """Places and questions about them; about half ask for something that may be seen there, if anything may."""
    everywhere = sorted({word for branch in world.branches for word in words(*branch.rows)})
    lengths = [len(branch.rows) for branch in world.branches]
    made = [one for stored in known.values() for chat in stored for one in chat.made.values()]
    found: list[Asked] = []
    for _ in range(OF_A_WORLD):
        (branch,) = rng.choices(world.branches, lengths)
        digests = {digest for _, digest in branch.pairs}
        covering = [one for one in made if one.covered_digest in digests]
        place = Asked(
            branch,
            tenant=branch.tenant if rng.random() < 0.85 else rng.choice(["one", "other"]),
            user=branch.user if rng.random() < 0.8 else rng.choice(["user-1", "user-2", "user-3"]),
            posted=rng.choice([1, 2, len(branch.pairs), len(branch.pairs)]),
            checkpoint=rng.choice([None, 10**9, *(one.id for one in [*made, *covering * 4])]),
            whole=rng.random() < 0.15,
        )
        covered = branch.rows[: boundary(known[place.tenant], place)]
        rows = covered if covered and rng.random() < 0.6 else branch.rows
        inside = words(*rows)
        questions = [
            {"query": rng.choice(inside)},
            {"query": rng.choice(inside if rows is covered else everywhere)},
            {"ref": f"M{rng.randint(1, len(rows) + (rows is not covered))}"},
            {"ref": f"T{rng.randint(1, len(calls(rows)) + 1)}"},
            {"ref": f"call-{rng.choice(calls(rows) or rows)['id']}"},
        ]
        found.append(Asked(**vars(place) | rng.choice(questions)))
    return found


async def warmed(service: Service) -> None:
    """The text processes have loaded what a search needs, for which a look-up may not wait."""
    sample = "Please look at this today, and tell me what you see there."
    await asyncio.gather(*(service.runtime.texts.run(languages.detect, sample) for _ in range(AT_ONCE)))


async def check(world: World, known: Known, asked: Asked) -> bool:
    """Whether something was found; an AssertionError says what should not have been, or should."""
    client = world.clients[asked.tenant]
    body = {
        "user_id": asked.user,
        "path": asked.branch.pairs[::-1][: asked.posted],
        "checkpoint_id": asked.checkpoint,
        "whole": asked.whole,
        "query": asked.query,
        "ref": asked.ref,
    }
    response = await client.post(f"/v1/chats/{asked.branch.chat}/recall", json=body)
    while response.status_code == 503:  # on a busy machine; who takes too long ends a text process
        await warmed(world.service)
        response = await client.post(f"/v1/chats/{asked.branch.chat}/recall", json=body)
    assert response.status_code == 200, response.text
    answer = response.json()
    covered = asked.branch.rows[: boundary(known[asked.tenant], asked)]

    shown = set(WORD.findall(answer["text"] + answer["content"]))
    assert shown <= set(words(*covered)), (shown, asked)
    expected = sought(covered, asked)
    assert (answer["references"][:1], answer["status"] == "found") == ([*expected[:1]], bool(expected)), (answer, asked)
    if expected:
        wanted = {asked.query} if asked.query else set(expected[1:])
        assert wanted <= shown, (answer, asked)
        assert asked.query or wanted == shown, (answer, asked)
    return bool(expected)


def sought(covered: Sequence[Json], asked: Asked) -> list[str]:
    """The reference that has to be found, and the words that it leads to; empty for none."""
    with_calls = calls(covered)
    of_results = {words(row)[0]: number for number, row in enumerate(with_calls, 1)}
    for depth, row in enumerate(covered, 1):
        own = [word for word in words(row) if word not in of_results]
        if asked.query in own or asked.ref == f"M{depth}":
            return [f"M{depth}", *own]
    for word, number in of_results.items():
        if asked.query == word or asked.ref in (f"T{number}", "call-" + with_calls[number - 1]["id"]):
            return [f"T{number}", word]
    return []


@pytest_asyncio.fixture(loop_scope="module")
async def clients(service: Service) -> AsyncIterator[dict[str, httpx.AsyncClient]]:
    made: dict[str, httpx.AsyncClient] = {}
    for tenant in ("one", "other"):
        async with service.runtime.database.engine.begin() as connection:
            key = await keys.create(connection, tenant, "filter", "scope")
        made[tenant] = httpx.AsyncClient(
            base_url=service.url, headers={"Authorization": f"Bearer {key}"}, timeout=120, trust_env=False
        )
    yield made
    for client in made.values():
        await client.aclose()


async def test_a_look_up_finds_what_is_covered_of_its_branch_and_never_a_word_of_anything_else(
    service: Service, clients: dict[str, httpx.AsyncClient]
) -> None:
    plans: list[Plan] = []

    @settings(max_examples=CASES // OF_A_WORLD, deadline=None, derandomize=True, database=None)
    @given(PLANS)
    def collect(plan: Plan) -> None:
        plans.append(plan)

    collect()
    await warmed(service)
    found = asked = 0
    for plan in plans:
        await emptied(service)
        world = World(service, clients)
        await build(world, plan)
        known = {tenant: await facts(service, tenant) for tenant in clients}
        wanted = cases(world, known, random.Random(plan.seed))
        for start in range(0, len(wanted), AT_ONCE):
            checks = [check(world, known, one) for one in wanted[start : start + AT_ONCE]]
            found += sum(await asyncio.gather(*checks))
            asked += len(checks)
    assert asked == CASES
    assert CASES * 0.1 < found < CASES * 0.85, f"{found} of {asked} have something to find"
