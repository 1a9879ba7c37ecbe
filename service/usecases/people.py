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
from service.storage.audit import Operator
from service.storage.people import Chat, User, UserTotals
from service.usecases.delete import Person, delete, hashed_user


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
    stored: UserTotals


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
        stored: how much was stored of the user. Texts of messages in chats of others were erased,
            and checkpoints that had read one deleted; figures are nobody's now, and the audit log
            names the user no more.
        remains: what is left.
    """

    dry: bool
    chats: int
    stored: UserTotals
    remains: list[Remains]


@dataclass(frozen=True, slots=True)
class _Holdings:
    """The user's own chats, those of others in which the user wrote, and how much that is."""

    own: list[Chat]
    beside: list[Chat]
    stored: UserTotals


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
        holdings = await _find(connection, by, user)
        await _note(connection, by, "user.show", user)
    own, beside = ([chat.chat_id for chat in chats] for chats in (holdings.own, holdings.beside))
    return ShownUser(user, own, beside, holdings.stored)


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
        holdings = await _find(connection, by, user)
        # Before the first record: an answer that has begun cannot become an error.
        await sealing.of(connection, by.tenant)
        if lacked := await sealing.lacked(connection):
            raise KeyMissing(lacked)
        await _note(connection, by, "user.export", user)
    return _records(engine, by, user, holdings)


async def _records(
    engine: AsyncEngine, by: Operator, user: str, holdings: _Holdings
) -> AsyncIterator[dict[str, Any]]:
    yield {"type": "user", "user_id": user, "stored": holdings.stored}
    for chat in holdings.own:
        async for record in _own_chat(engine, chat, user):
            yield record
    for chat in holdings.beside:
        async with engine.connect() as connection:
            written = await people.read_messages(connection, chat.key, user)
        for message in written:
            yield {"type": "message", "chat_id": chat.chat_id, "own_chat": False, **message}
    async with engine.connect() as connection:
        figures = await people.read_figures(connection, by.tenant, user)
        names = [chat.chat_id for chat in holdings.own]
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
        holdings = await _find(connection, by, user)
    if not dry:
        await delete(engine, by, Person(user), "erasure")
    return _report(holdings, dry=dry)


def _report(holdings: _Holdings, *, dry: bool) -> Erased:
    stored = holdings.stored
    remains = [
        Remains(
            "notes in place of the user's messages in chats of others, with their size and hashes",
            stored.written_beside,
            "other messages of these chats follow from them",
        ),
        Remains(
            "chats of others in which the user wrote",
            len(holdings.beside),
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
    return Erased(dry, len(holdings.own), stored, [one for one in remains if one.count != 0])


async def _find(connection: AsyncConnection, by: Operator, user: str) -> _Holdings:
    """What there is of a user.

    Raises:
        NotFound: nothing.
    """
    own = await people.own(connection, by.tenant, user)
    beside = await people.beside(connection, by.tenant, user)
    stored = await people.counts(connection, by.tenant, user, own, beside)
    if not (own or beside or stored.figures or stored.audit):
        raise NotFound(f"nothing is stored of user {user!r}; see `precis users list`")
    return _Holdings(own, beside, stored)


async def _note(connection: AsyncConnection, by: Operator, action: str, user: str) -> None:
    named = await hashed_user(connection, by.tenant, user)
    await audit.record(connection, by, action, None, user=named)
