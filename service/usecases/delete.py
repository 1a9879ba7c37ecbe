"""Use case: delete a chat, messages, a user's chats, or all that is stored of a user.

Each deletion is one transaction with its audit row, which says who did it and why. Work that is
under way publishes nothing of what is deleted. What is deleted by its age is in `retain`.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from service import metrics
from service.storage import chats, deletions, keys, messages
from service.storage.chats import UNSAVED
from service.storage.deletions import DeletionTarget, NamedChat
from service.storage.keys import Operator
from service.usecases import inspection


@dataclass(frozen=True, slots=True)
class WholeChat:
    """A chat by Open WebUI's id, with everything stored for it.

    `for_good` says that nothing of it is stored for a day; else it begins anew when it goes on.
    """

    action: ClassVar[str] = "chat.delete"  # as the audit log calls it
    chat: str
    for_good: bool = True


@dataclass(frozen=True, slots=True)
class EditedChat:
    """The messages that a chat does not have any more, with all below them and their summaries.

    `fingerprints` are those of all messages that the chat has, by the host's ids: a stored message
    that differs is deleted. So are then the messages that the host has not told, because they may
    have the same texts; the next request brings them again.
    """

    action: ClassVar[str] = "chat.cut"
    chat: str
    fingerprints: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class OwnChats:
    """The chats that a user began; with `but`, only those that Open WebUI stores, and not these."""

    action: ClassVar[str] = "chats.delete"
    user: str
    but: Collection[str] | None = None


@dataclass(frozen=True, slots=True)
class GoneUser:
    """The chats of a user who is gone. For a day, nothing of the user is stored."""

    action: ClassVar[str] = "chats.delete"
    user: str


@dataclass(frozen=True, slots=True)
class Person:
    """All that is stored of a user: own chats, chats of others with words of the user, figures.

    The audit log keeps keyed hashes of ids.
    """

    action: ClassVar[str] = "user.erase"
    user: str


Deletion = WholeChat | EditedChat | OwnChats | GoneUser | Person


@dataclass(frozen=True, slots=True)
class DeletedRows:
    """The number of deleted chats, with everything stored for them, and of rows of others."""

    chats: int = 0
    messages: int = 0
    checkpoints: int = 0


async def delete(engine: AsyncEngine, by: Operator, what: Deletion, why: str) -> DeletedRows:
    """Deletes what is stored of it, and returns how much; the audit log notes what was there."""
    async with engine.begin() as connection:
        deleted = await _delete(connection, by.tenant, what)
        if deleted != DeletedRows() or isinstance(what, Person):
            await _note(connection, by, what, deleted, why)
    for kind, number in asdict(deleted).items():
        metrics.DELETED.labels(kind).inc(number)
    return deleted


async def delete_chat(
    engine: AsyncEngine, by: Operator, chat: str, *, for_good: bool = False
) -> None:
    """Deletes a chat for an operator.

    Raises:
        NotFound: this tenant has no such chat; `for_good`, it is not stored later either.
    """
    why = "an operator wished it for good" if for_good else "an operator wished it"
    deleted = await delete(engine, by, WholeChat(chat, for_good), why)
    if not deleted.chats:
        raise inspection.make_no_chat_error(chat)


async def _delete(connection: AsyncConnection, tenant: int, what: Deletion) -> DeletedRows:
    match what:
        case WholeChat():
            return await _delete_chat(connection, tenant, what)
        case EditedChat():
            return await _cut(connection, tenant, what)
        case OwnChats(user, but):
            return DeletedRows(chats=len(await _delete_own_chats(connection, tenant, user, but)))
        case GoneUser(user):
            return DeletedRows(chats=len(await _delete_user(connection, tenant, user)))
        case Person(user):
            return await _erase_person(connection, tenant, user)


async def _delete_chat(connection: AsyncConnection, tenant: int, what: WholeChat) -> DeletedRows:
    if what.for_good:
        # Also for a chat that is not stored yet, because its first ingest may be under way.
        name = DeletionTarget("chat", what.chat)
        await deletions.lock_for_deletion(connection, tenant, name)
        await deletions.put_tombstones(connection, tenant, [name])
    locked = await chats.find_chat(connection, tenant, what.chat, lock=True)
    if locked is None:
        return DeletedRows()
    await deletions.delete_chats(connection, tenant, [locked.key])
    return DeletedRows(chats=1)


async def _cut(connection: AsyncConnection, tenant: int, what: EditedChat) -> DeletedRows:
    locked = await chats.find_chat(connection, tenant, what.chat, lock=True)
    if locked is None:
        return DeletedRows()
    roots = await deletions.find_differing(connection, locked.key, what.fingerprints)
    if not roots:
        return DeletedRows()
    roots |= await messages.find_untold(connection, locked.key)
    deleted, lost = await deletions.delete_below(connection, locked, roots)
    return DeletedRows(messages=deleted, checkpoints=lost)


async def _delete_own_chats(
    connection: AsyncConnection, tenant: int, user: str, but: Collection[str] | None
) -> list[NamedChat]:
    # From here on, no ingest of this user is under way.
    await deletions.lock_for_deletion(connection, tenant, DeletionTarget("user", user))
    own = await deletions.list_own_chats(connection, tenant, user, but=but, lock=True)
    # The id of an unsaved chat is made of its first question: the user may ask that again.
    saved = [
        DeletionTarget("chat", one.chat_id) for one in own if not one.chat_id.startswith(UNSAVED)
    ]
    await deletions.put_tombstones(connection, tenant, saved)
    await deletions.delete_chats(connection, tenant, [chat.key for chat in own])
    return own


async def _delete_user(connection: AsyncConnection, tenant: int, user: str) -> list[NamedChat]:
    own = await _delete_own_chats(connection, tenant, user, None)
    await deletions.put_tombstones(connection, tenant, [DeletionTarget("user", user)])
    return own


async def _erase_person(connection: AsyncConnection, tenant: int, user: str) -> DeletedRows:
    own = await _delete_user(connection, tenant, user)
    shared = await deletions.list_shared_chats(connection, tenant, user, lock=True)
    # Not for good: Open WebUI still has these chats, and their owners go on with them.
    await deletions.delete_chats(connection, tenant, [chat.key for chat in shared])
    await _hide_in_audit(connection, tenant, user, own)
    return DeletedRows(chats=len(own) + len(shared))


async def _hide_in_audit(
    connection: AsyncConnection, tenant: int, user: str, own: list[NamedChat]
) -> None:
    gone = await deletions.list_gone_chats(connection, tenant, user)
    names = [DeletionTarget("chat", chat) for chat in {*gone, *(one.chat_id for one in own)}]
    hashes = await deletions.hash_names(connection, tenant, names)
    by_chat = {name.id: one.hex() for name, one in hashes.items()}
    hashed = await hash_user(connection, tenant, user)
    await deletions.hide_names_in_audit(connection, tenant, user, hashed, by_chat)


async def hash_user(connection: AsyncConnection, tenant: int, user: str) -> str:
    """The name in the audit log of a user whose id it must not keep."""
    name = DeletionTarget("user", user)
    return (await deletions.hash_names(connection, tenant, [name]))[name].hex()


async def _note(
    connection: AsyncConnection, by: Operator, what: Deletion, deleted: DeletedRows, why: str
) -> None:
    details: dict[str, Any] = {kind: number for kind, number in asdict(deleted).items() if number}
    details["why"] = why
    chat = None
    match what:
        case WholeChat() | EditedChat():
            chat = what.chat
        case OwnChats():
            details["user"] = what.user
        case GoneUser() | Person():
            details["user"] = await hash_user(connection, by.tenant, what.user)
    await keys.record_change(connection, by, what.action, chat, **details)
