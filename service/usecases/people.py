"""Use case: what is stored of one user of Open WebUI is found, exported and erased.

The same for REST and the pages. Each look leaves an audit row, which names the user by a
keyed hash. What an erasure cannot take is part of its report.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from service.errors import KeyMissing, NotFound
from service.storage import audit, people, sealing
from service.storage.people import Chat, Counts, User
from service.usecases.delete import Person, delete, hashed_user
from service.usecases.operate import Operator


@dataclass(frozen=True, slots=True)
class UserPage:
    """A page of users; `next` is the `cursor` for the next page, null on the last one."""

    users: list[User]
    next: str | None


@dataclass(frozen=True, slots=True)
class ShownUser:
    """What is stored of a user.

    `chats` and `beside` are ids in Open WebUI, of the user's own chats and of those of others in
    which the user wrote. `stored` says how much that is.
    """

    user_id: str
    chats: list[str]
    beside: list[str]
    stored: Counts


@dataclass(frozen=True, slots=True)
class Remains:
    """Something that an erasure leaves: how many, and why. `count` is None for what is not here."""

    what: str
    count: int | None
    why: str


@dataclass(frozen=True, slots=True)
class Erased:
    """What an erasure deleted, or would delete (`dry`), and what it leaves.

    Attributes:
        dry: nothing was deleted.
        chats: of the user, with everything stored for them.
        messages: in these.
        checkpoints: of these.
        messages_beside: of the user in chats of others, whose texts were erased.
        checkpoints_beside: of chats of others, deleted because they had read such a message.
        figures: rows of daily figures that are nobody's now.
        audit: rows of the audit log that named the user.
        remains: what is left.
    """

    dry: bool
    chats: int
    messages: int
    checkpoints: int
    messages_beside: int
    checkpoints_beside: int
    figures: int
    audit: int
    remains: list[Remains]


@dataclass(frozen=True, slots=True)
class _Found:
    own: list[Chat]
    beside: list[Chat]
    stored: Counts


async def list_users(
    engine: AsyncEngine, tenant: int, limit: int, cursor: str, begins: str
) -> UserPage:
    """A page of the users who wrote in chats, by id; `begins` as ids begin."""
    async with engine.connect() as connection:
        # One more than the page holds shows whether there is a next page.
        rows = await people.users(connection, tenant, limit + 1, cursor, begins)
    page = rows[:limit]
    return UserPage(page, page[-1].user_id if len(rows) > limit else None)


async def show(engine: AsyncEngine, by: Operator, user: str) -> ShownUser:
    """What is stored of a user, without texts.

    Raises:
        NotFound: nothing is.
    """
    async with engine.begin() as connection:
        found = await _find(connection, by, user)
        await _note(connection, by, "user.show", user)
    own, beside = ([chat.chat_id for chat in chats] for chats in (found.own, found.beside))
    return ShownUser(user, own, beside, found.stored)


async def export(engine: AsyncEngine, by: Operator, user: str) -> AsyncIterator[dict[str, Any]]:
    """Everything that is stored of a user, with texts, one record after the other.

    The first is a `user`; a `chat` comes before what belongs to it. Of chats of others there are
    the user's own messages, and no summary, because it tells what others said. A chat that is
    deleted meanwhile is left out.

    Raises:
        NotFound: nothing is stored of the user.
        Problem: SEALED: texts of the tenant cannot be opened.
        KeyMissing: this process cannot open all texts.
    """
    async with engine.begin() as connection:
        found = await _find(connection, by, user)
        # Before the first record: an answer that has begun cannot become an error.
        await sealing.of(connection, by.tenant)
        if lacked := await sealing.lacked(connection):
            raise KeyMissing(lacked)
        await _note(connection, by, "user.export", user)
    return _records(engine, by, user, found)


async def _records(
    engine: AsyncEngine, by: Operator, user: str, found: _Found
) -> AsyncIterator[dict[str, Any]]:
    yield {"type": "user", "user_id": user, "stored": found.stored}
    for chat in found.own:
        async for record in _own_chat(engine, chat, user):
            yield record
    for chat in found.beside:
        async with engine.connect() as connection:
            written = await people.read_messages(connection, chat.key, user)
        for message in written:
            yield {"type": "message", "chat_id": chat.chat_id, "own_chat": False, **message}
    async with engine.connect() as connection:
        figures = await people.read_figures(connection, by.tenant, user)
        names = [chat.chat_id for chat in found.own]
        changes = await people.read_audit(connection, by.tenant, user, names)
    for figure in figures:
        yield {"type": "figures", **figure}
    for change in changes:
        yield {"type": "audit", **change}


async def _own_chat(engine: AsyncEngine, chat: Chat, user: str) -> AsyncIterator[dict[str, Any]]:
    """One chat at a time is in memory, and read in one transaction."""
    of_chat = {"chat_id": chat.chat_id}
    async with engine.connect() as connection:
        about = await people.read_chat(connection, chat.key)
        if about is None:
            return
        messages = await people.read_messages(connection, chat.key, None)
        checkpoints = await people.read_checkpoints(connection, chat.key)
        rounds = await people.read_work(connection, chat.key)
    yield {"type": "chat", **of_chat, **about}
    for message in messages:
        author = message.pop("author_id")
        yield {
            "type": "message",
            **of_chat,
            "own_chat": True,
            "by_user": author in (None, user),
        } | message
    for checkpoint in checkpoints:
        yield {"type": "checkpoint", **of_chat, **checkpoint}
    for one in rounds:
        yield {"type": "work", **of_chat, **one}


async def erase(engine: AsyncEngine, by: Operator, user: str, *, dry: bool = False) -> Erased:
    """Deletes everything that is stored of a user; a `dry` one only says what that would be.

    The user's own chats go whole. In chats of others, notes take the place of the user's messages,
    and summaries that have read one are deleted and made again. Daily figures become nobody's, ids
    in the audit log keyed hashes. For a day, nothing of the user is stored.

    Raises:
        NotFound: nothing is stored of the user.
    """
    async with engine.connect() as connection:
        found = await _find(connection, by, user)
    if not dry:
        await delete(engine, by, Person(user), "erasure")
    return _report(found, dry=dry)


def _report(found: _Found, *, dry: bool) -> Erased:
    stored = found.stored
    remains = [
        Remains(
            "notes in place of the user's messages in chats of others, with their size and hashes",
            stored.written_beside,
            "other messages of these chats follow from them",
        ),
        Remains(
            "chats of others in which the user wrote",
            len(found.beside),
            "they are another user's own; what others said there may quote the user",
        ),
        Remains("daily figures of nobody", stored.figures, "totals stay right; no id is in them"),
        Remains(
            "rows of the audit log with keyed hashes in place of ids",
            stored.audit,
            "who changed what stays provable for PRECIS_KEEP_AUDIT",
        ),
        Remains("backups", None, "they have what was stored when they were taken; delete them"),
        Remains("Open WebUI's own data", None, "Precis deletes nothing there"),
    ]
    return Erased(
        dry=dry,
        chats=len(found.own),
        messages=stored.messages,
        checkpoints=stored.checkpoints,
        messages_beside=stored.written_beside,
        checkpoints_beside=stored.covered_beside,
        figures=stored.figures,
        audit=stored.audit,
        remains=[one for one in remains if one.count != 0],
    )


async def _find(connection: AsyncConnection, by: Operator, user: str) -> _Found:
    """What there is of a user.

    Raises:
        NotFound: nothing.
    """
    own = await people.own(connection, by.tenant, user)
    beside = await people.beside(connection, by.tenant, user)
    stored = await people.counts(connection, by.tenant, user, own, beside)
    if not (own or beside or stored.figures or stored.audit):
        raise NotFound(f"nothing is stored of user {user!r}; see `precis users list`")
    return _Found(own, beside, stored)


async def _note(connection: AsyncConnection, by: Operator, action: str, user: str) -> None:
    named = await hashed_user(connection, by.tenant, user)
    await audit.record(connection, by.tenant, by.actor, action, None, user=named)
