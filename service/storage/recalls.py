"""Which messages a recall may see: a branch's covered part, or an operator's whole branch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ARRAY, Row, Text, bindparam, text
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage import authors, sealing
from service.storage.tenancy import ChatKey

# The newest message of the pairs that is stored, its deepest checkpoint, and of this the one that
# was served: the one asked for, if the branch has it, or else the deepest.
_COVERED = """
select chat.id, made.id as made,
    case when :whole then newest.message_id else made.covered_until end as until,
    case when :whole then newest.digest else made.covered_digest end as digest,
    chat.user_id as owner
from chats chat
cross join lateral (
    select stored.message_id, stored.digest, stored.checkpoint_id, pair.place
    from unnest(cast(:ids as text[]), cast(:digests as text[]))
        with ordinality as pair (id, digest, place)
    join messages stored on stored.tenant_id = :tenant and stored.chat_id = chat.id
        and stored.message_id = pair.id and stored.digest = pair.digest
    order by pair.place limit 1
) newest
join checkpoints head
    on head.tenant_id = :tenant and head.chat_id = chat.id and head.id = newest.checkpoint_id
join checkpoints made
    on made.tenant_id = :tenant and made.chat_id = chat.id and made.id =
        case when :checkpoint = any(head.ancestors) then :checkpoint else head.id end
where chat.tenant_id = :tenant and coalesce(chat.expires_at > now(), true)
"""
_PAIRS = [bindparam(name, type_=ARRAY(Text)) for name in ("ids", "digests")]
_HERE = text(f"{_COVERED} and chat.external_id = :chat").bindparams(*_PAIRS)
# For the first turn of a fork, which is not stored yet: see `contexts`.
_ELSEWHERE = text(f"""{_COVERED}
and (:anyone or chat.user_id = :user)
and chat.expires_at is null and chat.id in (
    select lent.chat_id from checkpoints lent
    where lent.tenant_id = :tenant and lent.covered_digest = any(:digests)
)
order by newest.place, chat.id desc limit 1
""").bindparams(*_PAIRS)
# All branches, because a walk from row to row in SQL takes quadratic time when the planner has no
# statistics yet; the texts are not among the columns.
_ROWS = text("""
select messages.message_id, messages.digest, messages.depth, messages.step_calls,
    messages.body is not null, messages.parent_id
from messages
where messages.tenant_id = :tenant and messages.chat_id = :chat
""")
_LEAF = text(
    "select chats.id, chats.leaf_id from chats"
    " where chats.tenant_id = :tenant and chats.external_id = :chat"
)


@dataclass(frozen=True, slots=True)
class SearchedMessage:
    """A message of a path. `digest` is as it is stored, `step_calls` its calls of tools by step."""

    message_id: str
    digest: str
    depth: int
    step_calls: Sequence[int]
    kept: bool
    """Whether its text is kept."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What may be seen: a path from its root on. `checkpoint` is the one that covers it, if any."""

    chat: ChatKey
    checkpoint: int | None
    path: Sequence[SearchedMessage]


async def covered(
    connection: AsyncConnection,
    tenant: int,
    chat: str,
    user: str,
    pairs: Sequence[tuple[str, str]],
    checkpoint: int | None,
    *,
    whole: bool,
    anyone: bool,
) -> Scope | None:
    """The covered part of one branch; None when none of it is covered.

    It is of a chat that the user began, or the user wrote on the branch.

    Args:
        connection: of a transaction.
        tenant: whose chat it is.
        chat: Open WebUI's chat id. A fork that is not stored yet sees what its user's other chats
            have of its path.
        user: who asks.
        pairs: (id, digest) of the newest messages of the branch, leaf first.
        checkpoint: the one that was served; None for the deepest.
        whole: what is below the checkpoint too, because some of it was left out of the request.
        anyone: whether chats of all users lend to forks.
    """
    seal = await sealing.of(connection, tenant)
    parameters = {
        "tenant": tenant,
        "user": user,
        "ids": [identity for identity, _ in pairs],
        "digests": [seal.keyed(digest) for _, digest in pairs],
        "checkpoint": checkpoint or 0,
        "whole": whole,
    }
    row = (await connection.execute(_HERE, parameters | {"chat": chat})).one_or_none()
    if row is None or not await _is_theirs(connection, tenant, row, user, pairs):
        lent = parameters | {"anyone": anyone}
        row = (await connection.execute(_ELSEWHERE, lent)).one_or_none()
    if row is None:
        return None
    key, checkpoint_id, until, digest = ChatKey(tenant, row.id), row.made, row.until, row.digest
    path = await _path(connection, key, until)
    # Rows below an edit are gone, or have other digests: then nothing of it is covered any more.
    if not path or path[-1].digest != digest:
        return None
    return Scope(key, checkpoint_id, path)


async def _is_theirs(
    connection: AsyncConnection,
    tenant: int,
    row: Row[Any],
    user: str,
    pairs: Sequence[tuple[str, str]],
) -> bool:
    """Whether the user began the chat that was found, or wrote on this branch of it."""
    if row.owner == user:
        return True
    return await authors.wrote_on(connection, ChatKey(tenant, row.id), user, pairs)


async def newest(connection: AsyncConnection, tenant: int, chat: str) -> Scope | None:
    """The whole path that was ingested last; None when this tenant has no such chat."""
    leaf_row = (await connection.execute(_LEAF, {"tenant": tenant, "chat": chat})).one_or_none()
    if leaf_row is None:
        return None
    key = ChatKey(tenant, leaf_row.id)
    path = await _path(connection, key, leaf_row.leaf_id) if leaf_row.leaf_id else []
    return Scope(key, None, path)


async def _path(connection: AsyncConnection, chat: ChatKey, leaf: str) -> list[SearchedMessage]:
    """The path from its root to `leaf`; empty when a part of it is not stored."""
    rows = await connection.execute(_ROWS, {"tenant": chat.tenant, "chat": chat.id})
    by_id = {row.message_id: row for row in rows}
    path: list[SearchedMessage] = []
    above: str | None = leaf
    while above in by_id:
        *place, above = by_id[above]
        path.append(SearchedMessage(*place))
    path.reverse()
    return path if path and path[0].depth == 1 else []
