"""One chat as Open WebUI has it, and as the filter talks about it to the service.

A `Talk` keeps the tree of stored messages, computes fingerprints and digests, hands paths over and asks for contexts.
`tables`, `check_tree` look into the database.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import SimpleNamespace
from typing import Any

import httpx
import msgspec
from sqlalchemy import Select, Table, select, text

from service.runtime import Runtime
from service.storage import checkpoints
from service.storage.sealing import Seal
from service.storage.tables import metadata
from service.storage.tenancy import ChatKey
from service.transcript import digest
from tests.builders import called, returned, said

Json = dict[str, Any]
Tables = dict[str, list[tuple[Any, ...]]]

UNKNOWN: Json = {"status": "unknown", "window": 8192}
"""The answer for a chat that is not stored."""
OF_THE_EDIT = ("covered_digest", "edit", "summary")
"""What an answer lacks whose pairs do not reach the boundary: the filter asks again with more."""


def prose(tokens: int, seed: str) -> str:
    """About so many tokens of sentences with values, all different for different seeds."""
    number = int(hashlib.sha256(seed.encode()).hexdigest()[:6], 16)
    lines = [
        f"Reading {seed}-{i}: pump P-{(number + i) % 997} showed {(number * (i + 3)) % 9973} bar, below {i + 90}."
        for i in range(max(tokens // 20, 1))
    ]
    return "\n".join(lines)


SENT: dict[str, None] = {}
"""All digests and fingerprints that a `Talk` has computed, in order: what is stored of them cannot be undone."""
_sent_by_keyed: dict[bytes, dict[str, str]] = {}  # by the tenant's secret


@dataclass
class Talk:
    """A chat. Messages are stored messages with `parentId`, by id."""

    client: httpx.AsyncClient
    chat: str = "chat-1"
    rows: dict[str, Json] = field(default_factory=dict)
    model: str = "model-1"
    user: str = "user-1"
    window: int | None = None

    def add(self, identity: str, parent: str | None, role: str = "user", content: str = "", **more: object) -> str:
        """One message; returns its id."""
        self.rows[identity] = {
            "id": identity,
            "parentId": parent,
            "role": role,
            "content": content or prose(30, identity),
            **more,
        }
        return identity

    def turns(self, count: int, tokens: int = 600, leaf: str | None = None, prefix: str = "") -> str:
        """So many turns of a question and an answer below `leaf`, of about `tokens` each; returns the new leaf."""
        for _ in range(count):
            number = len(self.rows)
            leaf = self.add(f"{prefix}u{number}", leaf, content=prose(30, f"{prefix}u{number}"))
            leaf = self.add(f"{prefix}a{number}", leaf, "assistant", prose(tokens - 30, f"{prefix}a{number}"))
        assert leaf
        return leaf

    def calls(self, leaf: str | None, *results: str) -> str:
        """A turn below `leaf` for each result: a question, one call, and what the assistant says; the new leaf."""
        for result in results:
            number = len(self.rows)
            leaf = self.add(f"u{number}", leaf)
            call = called("c", "look_up", json.dumps({"q": result[:40]}))
            told = said(f"Reading a{number} says {result[:60]!r}.")
            leaf = self.add(f"a{number}", leaf, "assistant", output=[call, returned("c", result), told])
        assert leaf
        return leaf

    def edit(self, identity: str, content: str) -> None:
        """Edits a message in place: the same id."""
        self.rows[identity]["content"] = content

    def delete(self, identity: str) -> None:
        """Deletes a message as Open WebUI does: its children get its parent."""
        gone = self.rows.pop(identity)
        for row in self.rows.values():
            if row["parentId"] == identity:
                row["parentId"] = gone["parentId"]

    def path(self, leaf: str) -> list[Json]:
        """The messages from the root to `leaf`."""
        found: list[Json] = []
        here: str | None = leaf
        while here:
            found.append(self.rows[here])
            here = self.rows[here]["parentId"]
        return found[::-1]

    def chain(self, leaf: str) -> list[tuple[str, str, str]]:
        """(id, fingerprint, digest) from the root to `leaf`."""
        above, out = "", []
        for row in self.path(leaf):
            seen = json.dumps([row["role"], row.get("output") or row["content"]], sort_keys=True)
            fingerprint = hashlib.sha256(seen.encode()).hexdigest()[:32]
            above = digest(above, row["id"], fingerprint)
            out.append((row["id"], fingerprint, above))
            SENT.update({fingerprint: None, above: None})
        return out

    def pair(self, identity: str) -> tuple[str, str]:
        """(id, digest) of a message."""
        return identity, self.chain(identity)[-1][2]

    def transcript(self, leaf: str, after: str | None = None, **more: object) -> Json:
        """The body of a hand-over of what follows `after`."""
        chain, path = self.chain(leaf), self.path(leaf)
        start = next(i for i, row in enumerate(path) if row["id"] == after) + 1 if after else 0
        messages = [
            {name: value for name, value in row.items() if name != "parentId"}
            | {"fingerprint": fingerprint, "digest": computed}
            for row, (_, fingerprint, computed) in zip(path[start:], chain[start:], strict=True)
        ]
        body: Json = {
            "model": self.model,
            "user_id": self.user,
            "windows": [self.window] if self.window else [],
            "after": self.pair(after) if after else None,
            "messages": messages,
        }
        return body | more

    async def put(self, body: object, chat: str | None = None) -> httpx.Response:
        """Hands a body over as it is."""
        return await self.client.put(f"/v1/chats/{chat or self.chat}/transcript", json=body)

    async def ingest(self, leaf: str, after: str | None = None, **more: object) -> bool:
        """Hands a path over; returns whether work is due."""
        response = await self.put(self.transcript(leaf, after, **more))
        assert response.status_code == 202, response.text
        due: bool = response.json()["due"]
        return due

    def question(self, leaf: str, pairs: int = 64, **more: object) -> Json:
        """The body of a question for the context of a path; the request is the path behind a system message."""
        chain = self.chain(leaf)
        sizes = [len(str(row["content"])) // 4 for row in self.path(leaf)]
        body: Json = {
            "model": self.model,
            "windows": [self.window] if self.window else [],
            "depth": len(chain),
            "path": [(identity, computed) for identity, _, computed in chain][::-1][:pairs],
            "sizes": sizes[::-1][:pairs],
            "native": self.described(leaf),
        }
        return body | more

    def described(self, leaf: str) -> Json:
        """A request whose list is the path itself behind a system message."""
        users = [place for place, row in enumerate(self.path(leaf)) if row["role"] == "user"][::-1]
        return {
            "leading": 1,
            "questions": [(place + 1, f"words-{place}") for place in users],
            "asked": [(place, f"words-{place}") for place in users],
            "all_questions": len(users),
            "all_asked": len(users),
            "guided": False,
        }

    async def ask(self, leaf: str, pairs: int = 64, **more: object) -> Json:
        """What a request on this path should carry."""
        body = self.question(leaf, pairs, **more)
        response = await self.client.post(f"/v1/chats/{self.chat}/context", json=body)
        assert response.status_code == 200, response.text
        return with_texts(response.json())


def other(talk: Talk, user: str, chat: str = "") -> Talk:
    """Another user with the same messages."""
    return Talk(talk.client, chat or talk.chat, {name: dict(one) for name, one in talk.rows.items()}, user=user)


def with_texts(answer: Json) -> Json:
    """An answer with the `summary` that its edit puts in: the record, which stands in a user's place."""
    inserted = answer.get("edit", {}).get("insert", ())
    texts = [one["content"] for one in inserted if one["role"] == "user"]
    return answer | ({"summary": texts[0]} if texts else {})


async def long_chat(client: httpx.AsyncClient, chat: str = "chat-1") -> tuple[Talk, str]:
    """A chat with work that is due, and its leaf. Users differ, so that no chat is a fork of another."""
    talk = Talk(client, chat, user=f"user of {chat}")
    leaf = talk.turns(20)
    assert await talk.ingest(leaf)
    return talk, leaf


async def tables(runtime: Runtime) -> Tables:
    """All rows of all tables but the sums; of keys without their last use: a running service writes both later."""
    async with runtime.database.engine.connect() as connection:
        return {
            table.name: [tuple(row) for row in await connection.execute(_stored(table))]
            for table in metadata.sorted_tables
            if table.name != "sums"
        }


def _stored(table: Table) -> Select[Any]:
    columns = [column for column in table.columns if column.name != "last_used_at"]
    return select(*columns).order_by(*columns)


async def rows(runtime: Runtime, query: str, **values: object) -> Sequence[Any]:
    """The rows of a query."""
    async with runtime.database.engine.connect() as connection:
        return (await connection.execute(text(query), values)).all()


async def row(runtime: Runtime, query: str, **values: object) -> Any:
    """The one row of a query."""
    (found,) = await rows(runtime, query, **values)
    return found


async def opened(runtime: Runtime, query: str, **values: object) -> list[Any]:
    """The checkpoints of a query, with what they say."""
    found = []
    async with runtime.database.engine.connect() as connection:
        for one in await rows(runtime, query, **values):
            chat = ChatKey(one.tenant_id, one.chat_id)
            memory = await checkpoints.memory(runtime.database.engine, chat, one.id)
            looked_at = await checkpoints.look(connection, chat, one.id)
            summary = await checkpoints.summary(connection, chat, one.id)
            texts = {"summary": summary, "verdict": looked_at and looked_at.verdict}
            said = msgspec.to_builtins(memory, enc_hook=str)
            found.append(SimpleNamespace(**{**one._mapping, **said, **texts}))
    return found


async def run_sql(runtime: Runtime, statement: str, **values: object) -> None:
    """Changes the database behind the service's back."""
    async with runtime.database.engine.begin() as connection:
        await connection.execute(text(statement), values)


async def check_tree(runtime: Runtime) -> None:
    """Every stored row follows from its parent's row, and points to a checkpoint on its own path, the deepest one.

    One that was put out of service does not count, and no row points to it. Two versions never serve both.

    Every chat's row says of its leaf what the leaf's row says.
    """
    stored = await _shown(runtime, "select * from messages")
    made = {one.id: one for one in await _shown(runtime, "select * from checkpoints")}
    by_id = {(one.chat_id, one.message_id): one for one in stored}
    for one in stored:
        above = by_id[one.chat_id, one.parent_id] if one.parent_id is not None else None
        assert one.digest == digest(above.digest if above else "", one.message_id, one.fingerprint)
        assert one.depth == (above.depth if above else 0) + 1
        assert one.path_tokens == (above.path_tokens if above else 0) + one.tokens
        path, here = {}, one
        while here:
            path[here.message_id] = here.digest
            here = by_id[one.chat_id, here.parent_id] if here.parent_id is not None else None
        on_path = [
            checkpoint
            for checkpoint in made.values()
            if checkpoint.chat_id == one.chat_id and path.get(checkpoint.covered_until) == checkpoint.covered_digest
        ]
        in_service = {each.id: (each.covered_messages, each.kind) for each in on_path if not each.retired_at}
        deepest = max((depth for depth, _ in in_service.values()), default=0)
        pointed_to = made[one.checkpoint_id].covered_messages if one.checkpoint_id else 0
        assert pointed_to == deepest, f"{one.message_id} points to {one.checkpoint_id} of {in_service}"
        if one.checkpoint_id:
            chosen = made[one.checkpoint_id]
            assert chosen in on_path
            assert not chosen.retired_at
            assert all(made[ancestor] in on_path for ancestor in chosen.ancestors)
    heads = [made[one.checkpoint_id] for one in stored if one.checkpoint_id]
    serving = [made[number] for number in {number for one in heads for number in (*one.ancestors, one.id)}]
    places = [(one.chat_id, one.parent_id, one.covered_digest) for one in serving]
    assert len(places) == len(set(places)), "of versions of one summary, one serves"
    for chat in await _shown(runtime, "select * from chats where leaf_id is not null"):
        leaf = by_id[chat.id, chat.leaf_id]
        chosen = made[leaf.checkpoint_id] if leaf.checkpoint_id else None
        assert (chat.leaf_digest, chat.leaf_tokens) == (leaf.digest, leaf.path_tokens)
        assert chat.leaf_line == ([*chosen.ancestors, chosen.id][-16:] if chosen else None)
        assert chat.leaf_savings == (list(chosen.savings)[-16:] if chosen else None)


async def _shown(runtime: Runtime, query: str) -> list[Any]:
    return [as_sent(one, await runtime.database.seals.of(one.tenant_id)) for one in await rows(runtime, query)]


def as_sent(row: Any, seal: Seal) -> Any:
    """A row with its digests as a `Talk` has sent them."""
    known = _sent_by_keyed.setdefault(seal._secret, {})
    known |= {seal.keyed(sent): sent for sent in islice(SENT, len(known), None)}
    values = dict(row._mapping)
    digests = [name for name in ("digest", "covered_digest", "leaf_digest", "fingerprint") if values.get(name)]
    return SimpleNamespace(**values | {name: known[values[name]] for name in digests})
