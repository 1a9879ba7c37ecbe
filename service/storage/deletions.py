"""What is deleted, in the caller's transaction: chats, and messages with all below them.

With a message are deleted all that hangs below it and every summary that has read it. Other
branches stay. What is deleted by its age is in `retention`.
"""

from collections.abc import Collection, Mapping
from itertools import takewhile

from sqlalchemy import bindparam, delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage import chats, messages, sealing
from service.storage.audit import name_user
from service.storage.chats import StoredChat
from service.storage.tables import audit, checkpoints, runs
from service.storage.tables import chats as chat_rows
from service.storage.tables import messages as message_rows
from service.storage.tenancy import ChatKey, match_chat
from service.storage.terms import in_values


async def delete_chats(
    connection: AsyncConnection, tenant: int, which: Collection[ChatKey]
) -> None:
    """Deletes chats and, by cascade, everything stored for them."""
    ids = in_values(chat_rows.c.id, [chat.id for chat in which])
    await connection.execute(delete(chat_rows).where(chat_rows.c.tenant_id == tenant, ids))


async def delete_below(
    connection: AsyncConnection, chat: StoredChat, roots: Collection[str]
) -> tuple[int, int]:
    """Deletes these messages, what is below them, and the summaries of them.

    Fences work that is under way. What is not stored any more cannot be traced to a message, so a
    summary of a path that was edited before is deleted as well.

    Returns:
        How many messages and how many checkpoints.
    """
    # Read before anything is deleted, to know the new leaf.
    path = await messages.load_path(connection, chat.key, chat.leaf) if chat.leaf else []
    stays = list(takewhile(lambda message: message not in roots, [row.message_id for row in path]))
    deleted = await messages.drop_below(connection, chat.key, roots)
    lost = await delete_stale_checkpoints(connection, chat.key)
    await chats.note_leaf(connection, chat.key, stays[-1] if stays else "")
    return deleted, lost


async def delete_stale_checkpoints(connection: AsyncConnection, chat: ChatKey) -> int:
    """Deletes the checkpoints of messages that were deleted before; how many.

    Fences work that is under way: a worker may have read the texts already.
    """
    covered = select(message_rows).where(
        *match_chat(chat, message_rows), message_rows.c.message_id == checkpoints.c.covered_until
    )
    lost = delete(checkpoints).where(*match_chat(chat, checkpoints), ~covered.exists())
    count = (await connection.execute(lost)).rowcount
    await _forget_errors(connection, chat)
    await chats.refuse_running_work(connection, chat)
    return count


async def find_differing(
    connection: AsyncConnection, chat: ChatKey, known: Mapping[str, str]
) -> set[str]:
    """The messages that the host has told and does not have any more, or has with other texts.

    `known` are the hashes of all messages that it has, as they were sent, by its own ids.
    """
    columns = message_rows.c.message_id, message_rows.c.host_id, message_rows.c.host_hash
    query = select(*columns).where(
        *match_chat(chat, message_rows), message_rows.c.host_id.is_not(None)
    )
    cipher = await sealing.cipher_for(connection, chat.tenant)
    keyed = {host_id: cipher.keyed_hash(one) for host_id, one in known.items()}
    rows = (await connection.execute(query)).all()
    # Without a hash, only a request has told the id.
    return {
        row.message_id
        for row in rows
        if row.host_id not in keyed or row.host_hash not in (None, keyed[row.host_id])
    }


async def hide_names_in_audit(
    connection: AsyncConnection, tenant: int, user: str, hashed: str, names: Mapping[str, str]
) -> None:
    """Puts hashes in place of a user's id, and of those of chats, in the audit log.

    `hashed` takes the place of the user; `names` are the hashes by the ids of chats.
    """
    log = update(audit).where(audit.c.tenant_id == tenant)
    details = audit.c.details.concat(func.jsonb_build_object("user", hashed))
    did = log.where(audit.c.actor == name_user(user))
    await connection.execute(did.values(actor=name_user(hashed)))
    named = log.where(audit.c.details["user"].astext == user)
    await connection.execute(named.values(details=details))
    if names:
        about = log.where(audit.c.chat == bindparam("which")).values(chat=bindparam("hash"))
        rows = [{"which": name, "hash": one} for name, one in names.items()]
        await connection.execute(about, rows)


async def _forget_errors(connection: AsyncConnection, chat: ChatKey) -> None:
    """An error may quote what a summariser answered."""
    await connection.execute(update(runs).where(*match_chat(chat, runs)).values(reason=None))
    this = update(chat_rows).where(*match_chat(chat, chat_rows))
    await connection.execute(this.values(last_error=None))
