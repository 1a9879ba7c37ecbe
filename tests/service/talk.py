"""One chat as Open WebUI has it, and as the filter talks about it to the service.

A `Talk` keeps the tree of stored messages, hands paths over, and asks what requests are sent as.
`tables`, `check_tree` look into the database.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import httpx
import msgspec
from sqlalchemy import select, text

from service.request import native
from service.runtime import Runtime
from service.storage import checkpoints
from service.storage.tables import ChatKey, metadata
from service.summarising import message
from service.transcript import unfold_messages
from tests.builders import called, returned, said

Json = dict[str, Any]
SYSTEM = "You are a careful assistant."
Tables = dict[str, list[tuple[Any, ...]]]


def prose(tokens: int, seed: str) -> str:
    """About so many tokens of sentences with values, all different for different seeds."""
    number = int(hashlib.sha256(seed.encode()).hexdigest()[:6], 16)
    lines = [
        f"Reading {seed}-{i}: pump P-{(number + i) % 997} showed {(number * (i + 3)) % 9973} bar, below {i + 90}."
        for i in range(max(tokens // 20, 1))
    ]
    return "\n".join(lines)


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

    def ids(self, leaf: str) -> list[str]:
        """The ids of the nodes from the root to `leaf`, as the service makes them of what is said."""
        messages = self.native(leaf)[1:]
        prints = [native.hash_message(one) for one in messages]
        return [node.id for node in native.cut_path(messages, prints, 0, len(messages))]

    def native(self, leaf: str) -> list[Json]:
        """The request of a path: a system message, and what the model is sent for each message."""
        return [{"role": "system", "content": SYSTEM}, *unfold_messages(self.path(leaf))]

    def turn(self, leaf: str, after: str | None = None, **more: object) -> Json:
        """The body of a hand-over: the whole branch down to `leaf`, or what follows `after`; `more` is of its state."""
        path = self.path(leaf)
        start = next(i for i, row in enumerate(path) if row["id"] == after) + 1 if after else 0
        rows = [{name: value for name, value in row.items() if name != "parentId"} for row in path[start:]]
        labels = {name: more.pop(name) for name in ("title", "user_name") if name in more}
        state = {
            "chat": self.chat,
            "user": self.user,
            "model": self.model,
            "window": self.window or 8192,
            "above": self.ids(after)[-1] if after else None,
        }
        return {"messages": rows, "whole": after is None, "state": state | more} | labels

    async def put(self, body: object) -> httpx.Response:
        return await self.client.post("/v1/turns", json=body)

    async def ingest(self, leaf: str, after: str | None = None, **more: object) -> bool:
        """Hands a path over; returns whether work is due. `more` is of the turn's state."""
        return await self._accepted(self.turn(leaf, after, **more))

    def finished(self, asked: Json, leaf: str) -> Json:
        """The body of a turn's hand-over by a host that has this answer to its request; `leaf` is what it stored."""
        path = [{name: value for name, value in row.items() if name != "parentId"} for row in self.path(leaf)]
        newest = max(place for place, row in enumerate(path) if row["role"] == "user")
        rows = path if asked["whole"] else path[newest:]
        return {"state": asked["state"], "messages": rows, "whole": asked["whole"]}

    async def finish(self, asked: Json, leaf: str) -> bool:
        """Hands a turn over (`finished`); returns whether work is due."""
        return await self._accepted(self.finished(asked, leaf))

    async def _accepted(self, body: Json) -> bool:
        response = await self.put(body)
        assert response.status_code == 202, response.text
        due: bool = response.json()["due"]
        return due

    def request(self, leaf: str, **more: object) -> Json:
        """The body of a question: what follows `leaf` is asked."""
        messages = self.native(leaf)
        if messages[-1]["role"] != "user":
            messages.append({"role": "user", "content": "And then?"})
        body: Json = {"chat": self.chat, "user": self.user, "model": self.model, "messages": messages, "seconds": 0}
        return body | ({"window": self.window} if self.window else {}) | more

    async def ask(self, leaf: str, **more: object) -> Json:
        """What a request on this path is sent as, with the `summary` that stands in it."""
        body = self.request(leaf, **more)
        response = await self.client.post("/v1/compress", json=body)
        assert response.status_code == 200, response.text
        return with_texts(response.json())


def other(talk: Talk, user: str, chat: str = "") -> Talk:
    return Talk(talk.client, chat or talk.chat, {name: dict(one) for name, one in talk.rows.items()}, user=user)


def with_texts(answer: Json) -> Json:
    """An answer with the `summary` that stands in the request: the record, in a user's place."""
    made = [one for one in answer["messages"] or () if isinstance(one, dict) and one["role"] == "user"]
    texts = [one["content"] for one in made if one["content"].startswith(message.BEGINS)]
    return answer | {"summary": texts[0] if texts else ""}


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
            table.name: [tuple(row) for row in await connection.execute(select(*columns).order_by(*columns))]
            for table in metadata.sorted_tables
            if table.name != "sums"
            for columns in [[column for column in table.columns if column.name != "last_used_at"]]
        }


async def rows(runtime: Runtime, query: str, **values: object) -> Sequence[Any]:
    async with runtime.database.engine.connect() as connection:
        return (await connection.execute(text(query), values)).all()


async def row(runtime: Runtime, query: str, **values: object) -> Any:
    (found,) = await rows(runtime, query, **values)
    return found


async def opened(runtime: Runtime, query: str, **values: object) -> list[Any]:
    """The checkpoints of a query, with what they say, and `until`: what the host calls their last message."""
    found = []
    told = await host_ids(runtime)
    async with runtime.database.engine.connect() as connection:
        for one in await rows(runtime, query, **values):
            chat = ChatKey(one.tenant_id, one.chat_id)
            memory = await checkpoints.load_memory(runtime.database.engine, chat, one.id)
            looked_at = await checkpoints.find_checkpoint(connection, chat, one.id)
            summary = await checkpoints.load_summary(connection, chat, one.id)
            texts = {"summary": summary, "verdict": looked_at and looked_at.verdict}
            said = msgspec.to_builtins(memory, enc_hook=str)
            until = {"until": told.get(one.covered_until)}
            found.append(SimpleNamespace(**{**one._mapping, **said, **texts, **until}))
    return found


async def host_ids(runtime: Runtime) -> dict[str, str]:
    """What the host calls each stored message, by the message's own id."""
    told = await rows(runtime, "select message_id, host_id from messages where host_id is not null")
    return {one.message_id: one.host_id for one in told}


async def run_sql(runtime: Runtime, statement: str, **values: object) -> None:
    """Changes the database behind the service's back."""
    async with runtime.database.engine.begin() as connection:
        await connection.execute(text(statement), values)


async def check_tree(runtime: Runtime) -> None:
    """Every stored row follows from its parent's row, and points to a checkpoint on its own path, the deepest one.

    One that was put out of service does not count, and no row points to it. Two versions never serve both.

    Every chat's row says of its leaf what the leaf's row says.
    """
    stored = await rows(runtime, "select * from messages")
    made = {one.id: one for one in await rows(runtime, "select * from checkpoints")}
    by_id = {(one.chat_id, one.message_id): one for one in stored}
    for one in stored:
        above = by_id[one.chat_id, one.parent_id] if one.parent_id is not None else None
        assert one.depth == (above.depth if above else 0) + 1
        assert one.path_tokens == (above.path_tokens if above else 0) + one.tokens
        assert not one.confirmed or above is None or above.confirmed
        assert one.body is None or above is None or above.body is not None
        path, here = set(), one
        while here:
            path.add(here.message_id)
            here = by_id[one.chat_id, here.parent_id] if here.parent_id is not None else None
        on_path = [
            checkpoint
            for checkpoint in made.values()
            if checkpoint.chat_id == one.chat_id and checkpoint.covered_until in path
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
    places = [(one.chat_id, one.parent_id, one.covered_until) for one in serving]
    assert len(places) == len(set(places)), "of versions of one summary, one serves"
    for chat in await rows(runtime, "select * from chats where leaf_id is not null"):
        leaf = by_id[chat.id, chat.leaf_id]
        chosen = made[leaf.checkpoint_id] if leaf.checkpoint_id else None
        assert chat.leaf_tokens == leaf.path_tokens
        assert chat.leaf_line == ([*chosen.ancestors, chosen.id][-16:] if chosen else None)
        assert chat.leaf_savings == (list(chosen.savings)[-16:] if chosen else None)
        assert chat.leaf_windows == (list(chosen.windows)[-16:] if chosen else None)
