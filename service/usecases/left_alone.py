"""Use case: a user sees what stands for the earlier part of a chat, and has it left alone.

Only who began a chat has it left alone; others look at the branches that they wrote on. An operator
may resume any chat. Each change leaves an audit row, without a word of the chat.
A chat that is not stored, or that is not theirs to see or change, raises NotFound.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from service.settings import Settings
from service.storage import audit, authors, chats, codec, messages, work
from service.storage.audit import Operator
from service.storage.chats import StoredChat
from service.storage.contexts import Lookup
from service.storage.database import Database
from service.storage.tenancy import ChatKey
from service.usecases import context, inspect
from service.usecases.context import ContextStatus, Tokens


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks: a `user` for their own chat, by Open WebUI's id, or an operator for any chat."""

    by: Operator
    user: str | None = None


@dataclass(frozen=True, slots=True)
class View:
    """What a request of a branch would carry now in place of its earlier part.

    Attributes:
        left_alone: no summary of the chat is made, and its requests carry none; what is stored
            stays.
        status: as of `context`; `not_needed` also when the chat is left alone.
        summary: as the model is sent it, in Markdown; empty if it is none.
        messages: how many the branch has.
        covered: how many of them, from the first one on, it stands for.
        until: what was said in the last of these, if that is kept.
        before: estimated tokens of the request without the summary.
        after: and with it.
        window: the model's, in tokens.
        working: whether a newer summary is due or being written.
    """

    left_alone: bool
    status: ContextStatus
    summary: str
    messages: int
    covered: int
    until: str
    before: int
    after: int
    window: int
    working: bool


def of_user(tenant: int, user: str) -> Asker:
    """A user, as the audit names them."""
    return Asker(Operator(tenant, audit.user_actor(user)), user)


async def view(
    database: Database,
    settings: Settings,
    asker: Asker,
    chat: str,
    pairs: Sequence[tuple[str, str]],
    depth: int,
) -> View:
    """What a request of this branch would carry now.

    `pairs` are (id, digest) of its newest messages, leaf first; it has `depth` messages in all.
    """
    async with database.engine.connect() as connection:
        own_chat = await _visible(connection, asker, chat, pairs)
    lookup = Lookup(
        tenant=asker.by.tenant,
        chat=chat,
        depth=depth,
        pairs=pairs,
        sizes=[0] * len(pairs),  # a branch as it is stored: no message of it is new
        apply_at=settings.apply_share(own_chat.model),
    )
    answer, summary = await context.stored(database, lookup)
    tokens = answer.tokens or Tokens(0, 0)
    until = await _said_in(database.engine, own_chat.key, answer.covered_until)
    return View(
        left_alone=own_chat.left_alone,
        status=answer.status,
        summary=summary,
        messages=depth,
        covered=answer.covered_messages or 0,
        until=until,
        before=tokens.before,
        after=tokens.after,
        window=answer.window or own_chat.window,
        working=own_chat.working,
    )


async def leave_alone(engine: AsyncEngine, asker: Asker, chat: str) -> None:
    """Nothing serves this chat any more, and no summary of it is made, until it is resumed.

    What is stored of it stays.
    """
    async with engine.begin() as connection:
        own_chat = await _lock(connection, asker, chat)
        await chats.leave_alone(connection, own_chat.key)
        await audit.record(connection, asker.by, "chat.leave", chat)


async def resume(engine: AsyncEngine, asker: Asker, chat: str) -> str:
    """The chat is summarised again, at once if it has grown enough.

    Returns:
        The wake-up message to send.
    """
    async with engine.begin() as connection:
        own_chat = await _lock(connection, asker, chat)
        await chats.resume(connection, own_chat.key)
        wake_up = await work.mark_due_at_once(connection, own_chat.key)
        await audit.record(connection, asker.by, "chat.resume", chat)
    return wake_up


async def worked(engine: AsyncEngine, asker: Asker, chat: str, seconds: float) -> None:
    """Waits until no summary of a chat is due or being written, so long at most."""

    async def works() -> bool:
        async with engine.connect() as connection:
            own_chat = await chats.look(connection, asker.by.tenant, chat)
        return own_chat is not None and own_chat.working

    await context.wait_while(works, seconds)


async def _said_in(engine: AsyncEngine, chat: ChatKey, message: str | None) -> str:
    """What was said in a message; nothing of one that this chat does not have, or not any more."""
    async with engine.connect() as connection:
        found = await messages.bodies(connection, chat, [message] if message else [])
    # In a thread, since one may be megabytes.
    said = [await asyncio.to_thread(codec.unpack, body) for body in found.values()]
    return str(said[0].get("content") or "") if said else ""


async def _visible(
    connection: AsyncConnection, asker: Asker, chat: str, pairs: Sequence[tuple[str, str]]
) -> StoredChat:
    """A chat for somebody who looks at a branch of it."""
    own_chat = await chats.look(connection, asker.by.tenant, chat)
    if own_chat is None or own_chat.expired:
        raise inspect.no_chat(chat)
    if asker.user in (None, own_chat.owner):
        return own_chat
    if not await authors.wrote_on(connection, own_chat.key, asker.user, pairs):
        raise inspect.no_chat(chat)
    return own_chat


async def _lock(connection: AsyncConnection, asker: Asker, chat: str) -> StoredChat:
    """A chat for somebody who may change it, and nobody else until the transaction ends."""
    own_chat = await chats.look(connection, asker.by.tenant, chat, lock=True)
    if own_chat is None or own_chat.expired or asker.user not in (None, own_chat.owner):
        # The same words for a chat of somebody else: nobody learns that it is there.
        raise inspect.no_chat(chat)
    return own_chat
