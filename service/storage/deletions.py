"""What is deleted when Open WebUI has deleted or edited something.

In go ids of messages or of a user, out come counts. With a message are deleted all that hangs below
it and every summary that has read it. Other branches stay.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import takewhile

from sqlalchemy import ColumnElement, delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage import chats, messages, sealing
from service.storage.chats import LockedChat
from service.storage.tables import chats as chat_rows
from service.storage.tables import checkpoints, partials
from service.storage.tables import messages as message_rows
from service.storage.tenancy import ChatKey, of
from service.storage.terms import among, not_among

_NO_LEAF = {
    "leaf_id": None,
    "leaf_digest": None,
    "leaf_tokens": None,
    "leaf_line": None,
    "leaf_savings": None,
}


@dataclass(frozen=True, slots=True)
class Cut:
    """How much was deleted."""

    messages: int
    checkpoints: int


async def cut(connection: AsyncConnection, chat: LockedChat, roots: Collection[str]) -> Cut:
    """Deletes these messages, what is below them, and the summaries and the partial turn of them.

    Fences work that is under way. What is not stored any more cannot be traced to a message, so a
    summary of a path that was edited before is deleted as well.
    """
    # Read before anything is deleted, to know the new leaf.
    path = await messages.path(connection, chat.key, chat.leaf) if chat.leaf else []
    stays = list(takewhile(lambda message: message not in roots, [row.message_id for row in path]))
    deleted = await messages.drop_below(connection, chat.key, roots, keep=())
    # After the messages: a summary is lost when what it has read is not there any more.
    lost = await _drop_lost(connection, chat.key)
    # A worker may have read the deleted texts already; it must not publish them.
    await chats.fence(connection, chat.key)
    if stays:
        await chats.note_leaf(connection, chat.key, stays[-1])
    else:
        # `note_leaf` copies from a message, and there is none left to copy from.
        this = update(chat_rows).where(*of(chat.key, chat_rows))
        await connection.execute(this.values(_NO_LEAF))
    return Cut(deleted, lost)


async def differing(
    connection: AsyncConnection, chat: ChatKey, known: Mapping[str, str]
) -> set[str]:
    """The topmost stored messages that are not in `known`, or there with another fingerprint.

    `known` are fingerprints as they were sent, by the ids of messages.
    """
    columns = message_rows.c.message_id, message_rows.c.parent_id, message_rows.c.fingerprint
    query = select(*columns).where(*of(chat, message_rows))
    seal = await sealing.of(connection, chat.tenant)
    rows = (await connection.execute(query)).all()
    keyed = {identity: seal.keyed(fingerprint) for identity, fingerprint in known.items()}
    differ = {row.message_id for row in rows if keyed.get(row.message_id) != row.fingerprint}
    return {
        row.message_id for row in rows if row.message_id in differ and row.parent_id not in differ
    }


async def forget_of(
    connection: AsyncConnection, tenant: int, user: str, but: Collection[str], prefix: str | None
) -> list[str]:
    """Deletes the chats that a user began, but those of these ids or that begin with `prefix`.

    Returns:
        Their ids in Open WebUI.
    """
    query = select(chat_rows.c.id, chat_rows.c.external_id).where(
        chat_rows.c.tenant_id == tenant,
        chat_rows.c.user_id == user,
        not_among(chat_rows.c.external_id, but),
    )
    if prefix:
        query = query.where(~chat_rows.c.external_id.startswith(prefix, autoescape=True))
    # In the order in which everybody locks chats.
    locked = query.order_by(chat_rows.c.id).with_for_update()
    found = (await connection.execute(locked)).all()
    gone = among(chat_rows.c.id, [row.id for row in found])
    await connection.execute(delete(chat_rows).where(chat_rows.c.tenant_id == tenant, gone))
    return [row.external_id for row in found]


async def _drop_lost(connection: AsyncConnection, chat: ChatKey) -> int:
    """Deletes what has read messages that are not stored as they were read.

    Returns:
        How many checkpoints; the partial turn is not counted.
    """
    partial = _is_stored(chat, partials.c.message_id, partials.c.digest)
    await connection.execute(delete(partials).where(*of(chat, partials), ~partial))
    made = _is_stored(chat, checkpoints.c.covered_until, checkpoints.c.covered_digest)
    lost = delete(checkpoints).where(*of(chat, checkpoints), ~made)
    return (await connection.execute(lost)).rowcount


def _is_stored(
    chat: ChatKey, message_id: ColumnElement[str], digest: ColumnElement[str]
) -> ColumnElement[bool]:
    stored = select(message_rows).where(
        *of(chat, message_rows),
        message_rows.c.message_id == message_id,
        message_rows.c.digest == digest,
    )
    return stored.exists()
