"""Forks, clones and imports: they get copies of another chat's checkpoints.

Such a chat has the message ids of the one that it was made from, and a digest is made of ids and
contents alone. So an equal digest says that the same was said up to there, and the summary of it is
right in both.
"""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Row, Select, and_, func, or_, select, true
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage import messages, sealing
from service.storage.checkpoints import CONTENT, Lineage, add, next_id, opened, place_of
from service.storage.tables import chats, checkpoints
from service.storage.tenancy import ChatKey, of
from service.storage.terms import among


async def adopt(
    connection: AsyncConnection, chat: ChatKey, user: str | None, digests: Collection[str]
) -> dict[int, int]:
    """Copies the deepest checkpoint of another chat that ends at one of `digests`.

    Those that it grew from are copied too. Of several versions, the one that was not put out of
    service there, nor here. The copies stay when the other chat is deleted.

    Args:
        connection: in a transaction that has this chat locked and ends with `chats.note_leaf`.
        chat: the one that adopts.
        user: whose chats lend; None for anyone's in the tenant. A chat that expires lends nothing.
        digests: of messages of one path of this chat, which are stored.

    Returns:
        The copies by the ids of the originals, shallowest first; none when this chat has one as
        deep itself.
    """
    deepest = (await connection.execute(_deepest(chat, user, digests))).one_or_none()
    # One of our own wins among equals, and needs no copy.
    if deepest is None or deepest.chat_id == chat.id:
        return {}
    return await _copy(connection, chat, ChatKey(chat.tenant, deepest.chat_id), deepest.line)


def _deepest(chat: ChatKey, user: str | None, digests: Collection[str]) -> Select[Any]:
    """The chat and the line of the checkpoint to adopt; of this chat itself, if one is as deep."""
    own = chats.c.id == chat.id
    lends = and_(
        chats.c.expires_at.is_(None),
        checkpoints.c.retired_at.is_(None),
        true() if user is None else chats.c.user_id == user,
    )
    line = func.array_append(checkpoints.c.ancestors, checkpoints.c.id).label("line")
    return (
        select(checkpoints.c.chat_id, line)
        .join(chats, and_(chats.c.tenant_id == chat.tenant, chats.c.id == checkpoints.c.chat_id))
        .where(
            checkpoints.c.tenant_id == chat.tenant,
            among(checkpoints.c.covered_digest, digests),
            or_(own, lends),
        )
        .order_by(checkpoints.c.covered_messages.desc(), own.desc(), checkpoints.c.id.desc())
        .limit(1)
    )


async def _copy(
    connection: AsyncConnection, chat: ChatKey, lender: ChatKey, ids: list[int]
) -> dict[int, int]:
    """Copies a line and makes the messages point to it.

    Nothing when a part of it was deleted meanwhile, or was put out of service here.
    """
    query = select(checkpoints.c.id, *CONTENT).where(
        *of(lender, checkpoints), among(checkpoints.c.id, ids)
    )
    seal = await sealing.of(connection, chat.tenant)
    # Ids rise from parent to child, so this is the order in which they grew.
    rows = (await connection.execute(query.order_by(checkpoints.c.id))).mappings()
    originals = [opened(row, seal, lender) for row in rows]
    # Only this chat is locked: the lender's may have been deleted since they were found.
    if len(originals) < len(ids):
        return {}
    line = Lineage([], [])
    for original in originals:
        copy = await _known(connection, chat, line, original)
        if copy is None:
            line = await add(connection, chat, line, await next_id(connection), original)
        elif copy.retired_at:
            return {}
        else:
            line = Lineage([*line.ids, copy.id], copy.savings)
    # The deepest first: each message is then pointed to its own at once.
    for place in range(len(ids) - 1, -1, -1):
        until = originals[place]["covered_until"]
        await messages.point_to(connection, chat, until, line.ids[place], [])
    return dict(zip(ids, line.ids, strict=True))


async def _known(
    connection: AsyncConnection, chat: ChatKey, line: Lineage, content: dict[str, Any]
) -> Row[Any, Any, Any, Any, Any] | None:
    """The copy that was made before: the fork is ingested bit by bit."""
    seal = await sealing.of(connection, chat.tenant)
    columns = (
        checkpoints.c.id,
        checkpoints.c.savings,
        checkpoints.c.retired_at,
        checkpoints.c.summary,
        checkpoints.c.sealed_summary,
    )
    query = select(*columns).where(
        *of(chat, checkpoints),
        checkpoints.c.parent_id == (line.ids[-1] if line.ids else 0),
        checkpoints.c.covered_digest == content["covered_digest"],
    )
    # Sealed texts differ even where they say the same, so they are compared here and not in SQL.
    for row in await connection.execute(query):
        where = place_of(chat, row.id, "sealed_summary")
        if seal.open_text(where, row.sealed_summary, row.summary) == content["summary"]:
            return row
    return None
