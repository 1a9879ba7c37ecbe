"""What goes when Open WebUI has deleted or edited something: in go ids of messages or of a user, out come counts.

A message goes with all that hangs below it and with every summary that has read it. Other branches
stay.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import takewhile

from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage import messages
from service.storage.chats import fence, note_leaf
from service.storage.many import not_among
from service.storage.tables import chats, checkpoints, partials
from service.storage.tables import messages as message_rows
from service.storage.tenancy import ChatKey, of

_NO_LEAF = {
    "leaf_id": None,
    "leaf_digest": None,
    "leaf_tokens": None,
    "leaf_line": None,
    "leaf_savings": None,
}


@dataclass(frozen=True, slots=True)
class Cut:
    """How much went."""

    messages: int
    checkpoints: int


async def cut(connection: AsyncConnection, chat: ChatKey, roots: Collection[str]) -> Cut:
    """Deletes these messages, what is below them, and the summaries and the draft that go with them.

    Fences work that is under way. What is not stored any more cannot be traced to a message, so a
    summary of a path that was edited before goes as well.
    """
    leaf = (await connection.execute(select(chats.c.leaf_id).where(*of(chat, chats)))).scalar_one()
    shown = [row.message_id for row in await messages.path(connection, chat, leaf)] if leaf else []
    stays = list(takewhile(lambda message: message not in roots, shown))
    gone = await messages.drop_below(connection, chat, roots, keep=())
    lost = await _drop_lost(connection, chat)
    await fence(connection, chat)
    if stays:
        await note_leaf(connection, chat, stays[-1])
    else:
        await connection.execute(update(chats).where(*of(chat, chats)).values(_NO_LEAF))
    return Cut(gone, lost)


async def differing(
    connection: AsyncConnection, chat: ChatKey, known: Mapping[str, str]
) -> set[str]:
    """The topmost stored messages that are not in `known`, or there with another fingerprint."""
    query = select(
        message_rows.c.message_id, message_rows.c.parent_id, message_rows.c.fingerprint
    ).where(*of(chat, message_rows))
    rows = (await connection.execute(query)).all()
    differ = {row.message_id for row in rows if known.get(row.message_id) != row.fingerprint}
    return {
        row.message_id for row in rows if row.message_id in differ and row.parent_id not in differ
    }


async def forget_of(
    connection: AsyncConnection, tenant: int, user: str, but: Collection[str], prefix: str | None
) -> int:
    """Deletes a user's chats, but those of these ids and those whose id begins with `prefix`; returns how many."""
    query = delete(chats).where(
        chats.c.tenant_id == tenant, chats.c.user_id == user, not_among(chats.c.external_id, but)
    )
    if prefix:
        query = query.where(~chats.c.external_id.startswith(prefix, autoescape=True))
    return (await connection.execute(query)).rowcount


async def _drop_lost(connection: AsyncConnection, chat: ChatKey) -> int:
    """Drops the checkpoints and the draft whose last message is not stored as they have read it."""
    for table, message, digest in (
        (partials, partials.c.message_id, partials.c.digest),
        (checkpoints, checkpoints.c.covered_until, checkpoints.c.covered_digest),
    ):
        here = select(message_rows).where(
            *of(chat, message_rows),
            message_rows.c.message_id == message,
            message_rows.c.digest == digest,
        )
        dropped = await connection.execute(delete(table).where(*of(chat, table), ~here.exists()))
    return dropped.rowcount
