"""Use case: delete a chat, messages, a user's chats, or all that is stored of a user.

Each deletion is one transaction with its audit row, which says who did it and why. Work that is
under way publishes nothing of what is deleted. What is deleted by its age is in `retain`.
"""

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from service import metrics
from service.storage import chats, deletions, keys, messages
from service.storage.chats import UNSAVED
from service.storage.deletions import NamedChat
from service.storage.keys import Operator


async def delete_chat(
    engine: AsyncEngine, by: Operator, chat: str, why: str, *, for_good: bool = True
) -> bool:
    """Deletes a chat, by Open WebUI's id, with everything stored for it.

    For a day, nothing of it is stored; if not `for_good`, it is stored again with its next request.

    Returns:
        Whether the chat was stored.
    """
    async with engine.begin() as connection:
        if for_good:
            # Also for a chat that is not stored yet, because its first ingest may be under way.
            name = deletions.name_chat_lock(chat)
            await deletions.lock_for_deletion(connection, by.tenant, name)
            await deletions.put_tombstones(connection, by.tenant, [name])
        locked = await chats.find_chat(connection, by.tenant, chat, lock=True)
        if locked is None:
            return False
        await deletions.delete_chats(connection, by.tenant, [locked.key])
        await keys.record_change(connection, by, "chat.delete", chat, chats=1, why=why)
    metrics.DELETED.labels("chats").inc()
    return True


async def cut_chat(
    engine: AsyncEngine, by: Operator, chat: str, why: str, fingerprints: Mapping[str, str]
) -> None:
    """Deletes the messages that a chat does not have any more, all below them, their summaries.

    `fingerprints` are those of all messages that the chat has, by the host's ids: a stored message
    that differs is deleted. So are then the messages that the host has not told, because they may
    have the same texts; the next request brings them again.
    """
    async with engine.begin() as connection:
        locked = await chats.find_chat(connection, by.tenant, chat, lock=True)
        if locked is None:
            return
        roots = await deletions.find_differing(connection, locked.key, fingerprints)
        if not roots:
            return
        roots |= await messages.find_untold(connection, locked.key)
        gone, lost = await deletions.delete_below(connection, locked, roots)
        await keys.record_change(
            connection, by, "chat.cut", chat, messages=gone, checkpoints=lost, why=why
        )
    metrics.DELETED.labels("messages").inc(gone)
    metrics.DELETED.labels("checkpoints").inc(lost)


async def delete_own_chats(
    engine: AsyncEngine, by: Operator, user: str, why: str, but: Collection[str] | None = None
) -> None:
    """Deletes the chats that a user began.

    With `but`, only those that Open WebUI stores, without the chats of these ids.
    """
    async with engine.begin() as connection:
        own = await _delete_own_chats(connection, by.tenant, user, but)
        if not own:
            return
        await keys.record_change(
            connection, by, "chats.delete", None, chats=len(own), user=user, why=why
        )
    metrics.DELETED.labels("chats").inc(len(own))


async def delete_user(engine: AsyncEngine, by: Operator, user: str, why: str) -> None:
    """Deletes the chats of a user who is gone; for a day, nothing of the user is stored.

    The audit row names the user by a keyed hash.
    """
    async with engine.begin() as connection:
        own = await _delete_user(connection, by.tenant, user)
        if not own:
            return
        hashed = await hash_user(connection, by.tenant, user)
        await keys.record_change(
            connection, by, "chats.delete", None, chats=len(own), user=hashed, why=why
        )
    metrics.DELETED.labels("chats").inc(len(own))


async def erase_user(engine: AsyncEngine, by: Operator, user: str, why: str) -> None:
    """Deletes all that is stored of a user: own chats, chats of others with the user's words.

    For a day, nothing of the user is stored. The audit log keeps keyed hashes of ids.
    """
    async with engine.begin() as connection:
        own = await _delete_user(connection, by.tenant, user)
        shared = await deletions.list_shared_chats(connection, by.tenant, user, lock=True)
        # Not for good: Open WebUI still has these chats, and their owners go on with them.
        await deletions.delete_chats(connection, by.tenant, [chat.key for chat in shared])
        hashed = await hash_user(connection, by.tenant, user)
        await _hide_in_audit(connection, by.tenant, user, hashed, own)
        number = len(own) + len(shared)
        # An erasure is noted even if only the audit log had something of the user.
        await keys.record_change(
            connection, by, "user.erase", None, chats=number, user=hashed, why=why
        )
    metrics.DELETED.labels("chats").inc(number)


async def _delete_own_chats(
    connection: AsyncConnection, tenant: int, user: str, but: Collection[str] | None
) -> list[NamedChat]:
    # From here on, no ingest of this user is under way.
    await deletions.lock_for_deletion(connection, tenant, deletions.name_user_lock(user))
    own = await deletions.list_own_chats(connection, tenant, user, but=but, lock=True)
    # The id of an unsaved chat is made of its first question: the user may ask that again.
    saved = [one.chat_id for one in own if not one.chat_id.startswith(UNSAVED)]
    tombstones = [deletions.name_chat_lock(chat) for chat in saved]
    await deletions.put_tombstones(connection, tenant, tombstones)
    await deletions.delete_chats(connection, tenant, [chat.key for chat in own])
    return own


async def _delete_user(connection: AsyncConnection, tenant: int, user: str) -> list[NamedChat]:
    own = await _delete_own_chats(connection, tenant, user, None)
    await deletions.put_tombstones(connection, tenant, [deletions.name_user_lock(user)])
    return own


async def _hide_in_audit(
    connection: AsyncConnection, tenant: int, user: str, hashed: str, own: Sequence[NamedChat]
) -> None:
    gone = await deletions.list_gone_chats(connection, tenant, user)
    ids = {*gone, *(one.chat_id for one in own)}
    names = {chat: deletions.name_chat_lock(chat) for chat in ids}
    hashes = await deletions.hash_names(connection, tenant, names.values())
    by_chat = {chat: hashes[name].hex() for chat, name in names.items()}
    await deletions.hide_names_in_audit(connection, tenant, user, hashed, by_chat)


async def hash_user(connection: AsyncConnection, tenant: int, user: str) -> str:
    """The name in the audit log of a user whose id it must not keep."""
    name = deletions.name_user_lock(user)
    hashes = await deletions.hash_names(connection, tenant, [name])
    return hashes[name].hex()
