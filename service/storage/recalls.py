"""Which messages a recall may see: a branch's hidden part, or an operator's whole branch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage import chats, messages, sealing, statements
from service.storage.messages import MessageRow
from service.storage.tenancy import ChatKey

_SQL = statements.load_statements("recalls")
_LENDERS = text(_SQL["lenders"])
_COVERED = text(_SQL["covered"])


@dataclass(frozen=True, slots=True)
class RecallScope:
    """Which branch a model asks about, and for whom.

    Attributes:
        tenant: whose chat it is.
        chat: Open WebUI's chat id. A fork that is not stored yet sees what its user's other chats
            have of its path.
        user: who asks.
        node: the id of the node above the newest question of its request.
        checkpoint: the one that its request carries; 0 for none.
        whole: what no checkpoint covers too, because some of it was left out of the request or
            shortened.
        lender: whose chats lend to forks; None for anybody's.
    """

    tenant: int
    chat: str
    user: str
    node: str
    checkpoint: int
    whole: bool
    lender: str | None


@dataclass(frozen=True, slots=True)
class VisiblePath:
    """What may be seen: a path from its root on.

    Attributes:
        checkpoint: the one that covers it, if any.
        left_tokens: what the model's window leaves for messages; None where no model asks.
    """

    chat: ChatKey
    checkpoint: int | None
    messages: Sequence[MessageRow]
    left_tokens: int | None = None


async def find_covered_path(connection: AsyncConnection, branch: RecallScope) -> VisiblePath | None:
    """The covered part of one branch, or its `whole`; None when there is nothing of it.

    It is of a chat that the user began, or the user wrote on the branch.
    """
    cipher = await sealing.cipher_for(connection, branch.tenant)
    parameters = {
        "tenant": branch.tenant,
        "user": branch.user,
        "node": cipher.keyed_hash(branch.node),
        "checkpoint": branch.checkpoint,
        "whole": branch.whole,
        "lender": branch.lender,
    }
    this = await chats.find_chat(connection, branch.tenant, branch.chat)
    row = await _find_covered(connection, parameters, [this.key.id] if this else [])
    if row is None or not await _is_theirs(connection, branch, row):
        lenders = list((await connection.execute(_LENDERS, parameters)).scalars())
        row = await _find_covered(connection, parameters, lenders)
    if row is None:
        return None
    key = ChatKey(branch.tenant, row.id)
    path = await messages.load_path(connection, key, row.node)
    # Nothing is covered by a checkpoint of another branch.
    end = next((place for place, one in enumerate(path, 1) if one.message_id == row.until), 0)
    path = path[:end]
    if not path:
        return None
    return VisiblePath(key, row.made, path, row.left_tokens)


async def _find_covered(
    connection: AsyncConnection, parameters: dict[str, Any], ids: list[int]
) -> Row[Any] | None:
    if not ids:
        return None
    return (await connection.execute(_COVERED, parameters | {"chats": ids})).one_or_none()


async def _is_theirs(connection: AsyncConnection, branch: RecallScope, row: Row[Any]) -> bool:
    """Whether the user began the chat that was found, or wrote on this branch of it."""
    if row.owner == branch.user:
        return True
    key = ChatKey(branch.tenant, row.id)
    return await messages.wrote_on(connection, key, branch.user, row.node)


async def find_newest_path(
    connection: AsyncConnection, tenant: int, chat: str
) -> VisiblePath | None:
    """The whole path that was ingested last; None when this tenant has no such chat."""
    found = await chats.find_chat(connection, tenant, chat)
    if found is None:
        return None
    path = await messages.load_path(connection, found.key, found.leaf) if found.leaf else []
    return VisiblePath(found.key, None, path)
