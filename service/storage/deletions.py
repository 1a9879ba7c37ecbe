"""Deletes chats, messages and people's data in the caller's transaction, and keeps them deleted.

A message is deleted with everything below it and every summary that has read it. Other branches
stay. `maintenance` deletes rows by their age.

A user's own chats are those that the user began. Shared chats are those of others that have words
of the user (`chat_authors`).

A tombstone stands for each deleted chat and user, so that no ingest under way brings them back. An
ingest holds two locks, of its user and of its chat, shared; a deletion holds one of them alone. So
a deletion waits for the ingests that began before it and takes what they stored, and those that
begin after it find the tombstone. Locks are taken in this order: user, chat, row. A deletion of all
chats of a user holds the user's lock and the rows; an ingest by somebody else looks for the
tombstone once it has the row. Tombstones have ids as hashes, keyed with the tenant's salt, so a
database without a chat does not say that there was one.
"""

import hmac
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import ColumnElement, bindparam, delete, func, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage import chats, database, keys, messages, sealing
from service.storage.chats import StoredChat, is_saved, open_label
from service.storage.tables import (
    ChatKey,
    after_seconds,
    audit,
    chat_authors,
    checkpoints,
    in_values,
    match_chat,
    not_in_values,
    runs,
    tenant_secrets,
    tombstones,
    update_chat,
)
from service.storage.tables import chats as chat_rows
from service.storage.tables import messages as message_rows


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
    new_leaf = ""
    for row in path:
        if row.message_id in roots:
            break
        new_leaf = row.message_id
    deleted = await messages.drop_below(connection, chat.key, roots)
    lost = await delete_stale_checkpoints(connection, chat.key)
    await chats.note_leaf(connection, chat.key, new_leaf)
    return deleted, lost


async def delete_stale_checkpoints(connection: AsyncConnection, chat: ChatKey) -> int:
    """Deletes the checkpoints of messages that were deleted before; how many.

    Fences work that is under way: a worker may have read the texts already.
    """
    covered = select(message_rows).where(
        match_chat(chat, message_rows), message_rows.c.message_id == checkpoints.c.covered_until
    )
    lost = delete(checkpoints).where(match_chat(chat, checkpoints), ~covered.exists())
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
        match_chat(chat, message_rows), message_rows.c.host_id.is_not(None)
    )
    cipher = await sealing.find_cipher(connection, chat.tenant)
    differing = set()
    for row in await connection.execute(query):
        hash_at_host = known.get(row.host_id)
        # Without a stored hash, only a request has told the id, so the texts are not compared.
        if hash_at_host and row.host_hash in (None, cipher.keyed_hash(hash_at_host)):
            continue
        differing.add(row.message_id)
    return differing


async def hide_names_in_audit(
    connection: AsyncConnection, tenant: int, user: str, hashed: str, names: Mapping[str, str]
) -> None:
    """Puts hashes in place of a user's id, and of those of chats, in the audit log.

    `hashed` takes the place of the user; `names` are the hashes by the ids of chats.
    """
    log = update(audit).where(audit.c.tenant_id == tenant)
    did = log.where(audit.c.actor == keys.name_user(user))
    await connection.execute(did.values(actor=keys.name_user(hashed)))
    named = log.where(audit.c.details["user"].astext == user)
    hidden = func.jsonb_build_object("user", hashed)
    await connection.execute(named.values(details=audit.c.details.concat(hidden)))
    if names:
        about = log.where(audit.c.chat == bindparam("which"))
        rows = [{"which": chat, "hash": hashed_chat} for chat, hashed_chat in names.items()]
        await connection.execute(about.values(chat=bindparam("hash")), rows)


async def _forget_errors(connection: AsyncConnection, chat: ChatKey) -> None:
    """An error may quote what a summariser answered."""
    await connection.execute(update(runs).where(match_chat(chat, runs)).values(reason=None))
    await connection.execute(update_chat(chat).values(last_error=None))


@dataclass(frozen=True, slots=True)
class User:
    """A user of Open WebUI who wrote in chats.

    `chats` counts the user's own chats, `shared_chats` those of others; `updated_at` is when one of
    them grew last. `user_name` is null while nobody has sent it.
    """

    user_id: str
    user_name: str | None
    chats: int
    shared_chats: int
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class NamedChat:
    """A chat, by its key and by Open WebUI's id."""

    key: ChatKey
    chat_id: str


_USERS = text(database.load_statements("people")["users"])


async def list_users(
    connection: AsyncConnection, tenant: int, limit: int, after: str, begins: str
) -> list[User]:
    """A page of users by id, behind the user `after`; of those whose id begins so."""
    parameters = {"tenant": tenant, "after": after, "begins": begins, "limit": limit}
    found: list[User] = []
    for row in (await connection.execute(_USERS, parameters)).mappings().all():
        named_by = ChatKey(tenant, row["id"])
        name = await open_label(connection, named_by, "user_name", row["user_name"])
        counted = (row["chats"], row["shared_chats"])
        found.append(User(row["user_id"], name, *counted, row["updated_at"]))
    return found


async def list_own_chats(
    connection: AsyncConnection,
    tenant: int,
    user: str,
    *,
    but: Collection[str] | None = None,
    lock: bool = False,
) -> list[NamedChat]:
    """The chats that a user began, oldest first; with `lock`, nobody else changes them.

    With `but`, only those that Open WebUI stores, without the chats of these ids.
    """
    which = [chat_rows.c.user_id == user]
    if but is not None:
        which += [is_saved(), not_in_values(chat_rows.c.external_id, but)]
    return await _list_chats(connection, tenant, which, lock=lock)


async def list_shared_chats(
    connection: AsyncConnection, tenant: int, user: str, *, lock: bool = False
) -> list[NamedChat]:
    """The chats of others with words of a user, oldest first; `lock` as for `own_chats`."""
    wrote = select(chat_authors.c.chat_id).where(
        chat_authors.c.tenant_id == tenant, chat_authors.c.user_id == user
    )
    which = [chat_rows.c.id.in_(wrote), chat_rows.c.user_id != user]
    return await _list_chats(connection, tenant, which, lock=lock)


async def _list_chats(
    connection: AsyncConnection, tenant: int, which: Sequence[ColumnElement[bool]], *, lock: bool
) -> list[NamedChat]:
    """Chats in the order in which everybody locks them."""
    query = select(chat_rows.c.id, chat_rows.c.external_id).order_by(chat_rows.c.id)
    query = query.where(chat_rows.c.tenant_id == tenant, *which)
    if lock:
        query = query.with_for_update()
    rows = await connection.execute(query)
    return [NamedChat(ChatKey(tenant, row.id), row.external_id) for row in rows]


async def is_in_audit(connection: AsyncConnection, tenant: int, user: str) -> bool:
    """Whether the audit log says what a user did, or names the user."""
    about_user = audit.c.details["user"].astext == user
    is_named = or_(audit.c.actor == keys.name_user(user), about_user)
    rows = select(audit.c.id).where(audit.c.tenant_id == tenant, is_named)
    return bool(await connection.scalar(select(rows.exists())))


async def list_gone_chats(connection: AsyncConnection, tenant: int, user: str) -> list[str]:
    """The chats, by Open WebUI's id, of which a user wanted something, and that are not stored."""
    stored = select(chat_rows.c.id).where(
        chat_rows.c.tenant_id == tenant, chat_rows.c.external_id == audit.c.chat
    )
    query = select(audit.c.chat).where(
        audit.c.tenant_id == tenant, audit.c.actor == keys.name_user(user), ~stored.exists()
    )
    return list(await connection.scalars(query.distinct()))


def name_chat_lock(chat: str) -> str:
    """The name by which an ingest or a deletion locks a chat, and which its tombstone hashes."""
    return f"chat:{chat}"


def name_user_lock(user: str) -> str:
    """The name by which an ingest or a deletion locks a user, and which the tombstone hashes."""
    return f"user:{user}"


SECONDS: Final = 24 * 3600.0
"""How long a tombstone stands: no ingest is under way for longer."""

# In the order in which they are written: the user's, then the chat's.
_SHARED = text("""
select pg_advisory_xact_lock_shared(hashtextextended(:user, :tenant)),
    pg_advisory_xact_lock_shared(hashtextextended(:chat, :tenant))
""")
_ALONE = text("select pg_advisory_xact_lock(hashtextextended(:name, :tenant))")


async def lock_for_ingest(connection: AsyncConnection, tenant: int, chat: str, user: str) -> None:
    """Begins an ingest: until the transaction ends, nobody deletes this chat or this user."""
    names = {"user": name_user_lock(user), "chat": name_chat_lock(chat)}
    await connection.execute(_SHARED, names | {"tenant": tenant})


async def lock_for_deletion(connection: AsyncConnection, tenant: int, name: str) -> None:
    """Waits for the ingests of a chat or a user; those that follow wait for this transaction."""
    await connection.execute(_ALONE, {"name": name, "tenant": tenant})


async def put_tombstones(connection: AsyncConnection, tenant: int, names: Collection[str]) -> None:
    """Puts tombstones of chats and users."""
    if not names:
        return
    hashes = await hash_names(connection, tenant, sorted(names))
    statement = insert(tombstones)
    later = {"until": statement.excluded.until}
    await connection.execute(
        statement.values(until=after_seconds(SECONDS)).on_conflict_do_update(
            index_elements=["tenant_id", "hash"], set_=later
        ),
        [{"tenant_id": tenant, "hash": one} for one in hashes.values()],
    )


async def hash_names(
    connection: AsyncConnection, tenant: int, names: Collection[str]
) -> dict[str, bytes]:
    """The hashes that stand for ids: HMAC-SHA-256, keyed with the tenant's salt.

    Raises:
        SealedForGood: the salt is not in this database.
    """
    query = select(tenant_secrets.c.salt).where(tenant_secrets.c.tenant_id == tenant)
    salt = await connection.scalar(query)
    if salt is None:
        raise await sealing.keyring_of(connection).explain_lost_secrets(tenant)
    return {name: hash_name(salt, name) for name in names}


def hash_name(salt: bytes, name: str) -> bytes:
    """The hash that stands for a name."""
    return hmac.digest(salt, name.encode("utf-8", "surrogatepass"), "sha256")
