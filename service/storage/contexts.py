"""Reads what a request's path has stored, and what a recall may see of it.

The read on the request path is one statement, in plain SQL on asyncpg: an ORM, a transaction around
it or a connection reset after it would each cost more than the read itself
(`python -m benchmarks.lookup`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import asyncpg
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from service.planning.plan import Checkpoint
from service.request.native import Node
from service.storage import chats, codec, database, messages, sealing
from service.storage.checkpoints import aad_for_part
from service.storage.database import Database, NumberedStatement
from service.storage.messages import MessageRow
from service.storage.sealing import Cipher
from service.storage.tables import ChatKey

_SQL = database.load_statements("contexts")
_LEAF_LINE = "chat.leaf_line, chat.leaf_savings, chat.leaf_windows"
_HEAD_LINE = """
    (head.ancestors || head.id)[cardinality(head.ancestors) - 14:],
    head.savings[cardinality(head.savings) - 15:], head.windows[cardinality(head.windows) - 15:]
"""
_THIS = "chat.external_id = :chat"
_UNEXPIRED = f"{_THIS} and coalesce(chat.expires_at > now(), true)"


def _make_statement(newest: str, line: str, which: str) -> NumberedStatement:
    """One form of the read."""
    return database.number_parameters(_SQL["read"].format(newest=newest, line=line, which=which))


CONTINUED = _make_statement(_SQL["leaf"], _LEAF_LINE, _UNEXPIRED)
BRANCHED = _make_statement(_SQL["any"], _HEAD_LINE, _THIS)
_DOUBTS = database.number_parameters(_SQL["doubts"])
_FEW = 64  # nodes that are looked for at first: a fork goes off near its leaf


class Lookup(NamedTuple):
    """A request whose path is looked up.

    Attributes:
        tenant: whose chat it is.
        chat: the host's chat id.
        model: which model is asked.
        total: tokens of the request as it came, by our own count.
        limit: tokens above which it needs a summary, as the model's provider counts them.
        window: the model's window in tokens.
    """

    tenant: int
    chat: str
    model: str
    total: int
    limit: int
    window: int


class Doubts(NamedTuple):
    """Why nothing of a request may be stored, though its chat is.

    Attributes:
        is_volatile: an earlier request has shown a path too that none showed again: most likely
            another filter changes what stands in front in each turn. Else something was edited.
        is_told: the host has told messages that no request has shown.
    """

    is_volatile: bool
    is_told: bool


class StoredContext(NamedTuple):
    """The stored part of a request's path, and the checkpoint to serve.

    Attributes:
        chat: where it is stored.
        factor: what the model's provider counts for one of our tokens.
        left_alone: whether the chat's user wants no summaries of it.
        known: the id of the newest stored node of the path, keyed; None when none is stored.
        lacks_text: whether the text of that node was deleted. If so, all texts above it were.
        depth: how many nodes of the path are stored.
        confirmed: whether the newest one was seen before, or told by the host.
        is_told: whether the host has told its own id of the newest one.
        sealed: the summary of the checkpoint, as it is stored for `chat`.
        was_served: whether it, or a newer one, has stood in a request before.
        by_code: whether code wrote it where a model was to write.
        fails: whether work on the chat has failed, and nothing of it went well since.
        told_until: what the host calls the last message that it covers; None until it has told.
        checkpoint: the one to serve if the request needs any; None when there is none.
    """

    chat: ChatKey
    factor: float
    left_alone: bool
    known: str | None
    lacks_text: bool
    depth: int
    confirmed: bool
    is_told: bool
    sealed: bytes
    was_served: bool
    by_code: bool
    fails: bool
    told_until: str | None
    checkpoint: Checkpoint | None


_STORED = len(StoredContext._fields) - 1
"""How many columns are its fields; the others are those of its checkpoint."""


async def find_context(
    database: Database, lookup: Lookup, path: Sequence[Node]
) -> StoredContext | None:
    """Finds what is stored of a path; None when the chat is not stored.

    Args:
        database: where to look.
        lookup: the request.
        path: its nodes, root first.
    """
    cipher = await database.keyring.find_cipher(lookup.tenant)
    leaf = cipher.keyed_hash(path[-1].id) if path else ""
    row = await _read(database, CONTINUED, lookup, {"leaf": leaf})
    if row is None:
        return None
    found = _make_context(row, lookup.tenant)
    if found.known:
        return found
    for few in (path[-_FEW:], path[:-_FEW]):
        if found.known or not few:
            break
        ids = [cipher.keyed_hash(node.id) for node in reversed(few)]
        row = await _read(database, BRANCHED, lookup, {"ids": ids})
        found = _make_context(row, lookup.tenant) if row else found
    return found


async def find_context_below(database: Database, lookup: Lookup, leaf: str) -> StoredContext | None:
    """The same of a request below a stored message of the chat; `leaf` is its id as stored."""
    row = await _read(database, BRANCHED, lookup, {"ids": [leaf]})
    return _make_context(row, lookup.tenant) if row else None


async def find_doubts(database: Database, chat: ChatKey) -> Doubts:
    """Reads why a request shows nothing that is stored of its chat."""
    row = await database.hot.fetchrow(_DOUBTS.sql, chat.tenant, chat.id)
    assert row is not None
    return Doubts(*row)


def open_summary(stored: StoredContext, cipher: Cipher) -> str:
    """The words of its summary; nobody needs those of one that is not served.

    Raises:
        KeyMissing: they are sealed with a key that is not ours.
    """
    assert stored.checkpoint
    place = aad_for_part(stored.chat, stored.checkpoint.id, "summary")
    return codec.unpack_text(cipher.decrypt(place, stored.sealed))


async def _read(
    database: Database, statement: NumberedStatement, lookup: Lookup, more: Mapping[str, Any]
) -> "asyncpg.Record | None":
    values = {**lookup._asdict(), **more}
    return await database.hot.fetchrow(statement.sql, *statement.given(values))


def _make_context(row: "asyncpg.Record", tenant: int) -> StoredContext:
    chat, *stored = row[:_STORED]
    planned = row[_STORED:]
    checkpoint = None if planned[0] is None else Checkpoint(*planned)
    return StoredContext._make([ChatKey(tenant, chat), *stored, checkpoint])


_COVERED = text(database.load_statements("recalls")["covered"])


@dataclass(frozen=True, slots=True)
class RecallScope:
    """The branch that a model asks about, and its user.

    Attributes:
        tenant: whose chat it is.
        chat: Open WebUI's chat id.
        user: who asks.
        node: the id of the node above the newest question of its request.
        checkpoint: the one that its request carries; 0 for none.
        whole: what no checkpoint covers too, because some of it was left out of the request or
            shortened.
    """

    tenant: int
    chat: str
    user: str
    node: str
    checkpoint: int
    whole: bool


@dataclass(frozen=True, slots=True)
class VisiblePath:
    """The part of a path that may be seen, from its root on.

    `left_tokens` is what the model's window leaves for messages; None where no model asks.
    """

    chat: ChatKey
    messages: Sequence[MessageRow]
    left_tokens: int | None = None


async def find_covered_path(connection: AsyncConnection, branch: RecallScope) -> VisiblePath | None:
    """The covered part of one branch, or its `whole`; None when there is nothing of it.

    It is of a chat that the user began, or the user wrote on the branch.
    """
    cipher = await sealing.find_cipher(connection, branch.tenant)
    parameters = {
        "tenant": branch.tenant,
        "chat": branch.chat,
        "node": cipher.keyed_hash(branch.node),
        "checkpoint": branch.checkpoint,
        "whole": branch.whole,
    }
    row = (await connection.execute(_COVERED, parameters)).one_or_none()
    if row is None:
        return None
    key = ChatKey(branch.tenant, row.id)
    began = row.owner == branch.user
    if not began and not await messages.wrote_on(connection, key, branch.user, row.node):
        return None
    path = await messages.load_path(connection, key, row.node)
    for end, message in enumerate(path, 1):
        if message.message_id == row.until:
            return VisiblePath(key, path[:end], row.left_tokens)
    # Nothing is covered by a checkpoint of another branch.
    return None


async def find_newest_path(
    connection: AsyncConnection, tenant: int, chat: str
) -> VisiblePath | None:
    """The whole path that was ingested last; None when this tenant has no such chat."""
    found = await chats.find_chat(connection, tenant, chat)
    if found is None:
        return None
    path = await messages.load_path(connection, found.key, found.leaf) if found.leaf else []
    return VisiblePath(found.key, path)
