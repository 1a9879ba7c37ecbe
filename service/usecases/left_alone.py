"""Use case: a user sees what stands for the earlier part of a chat, and has it left alone.

Only who began a chat has it left alone; others look at the branches that they wrote on. An operator
may resume any chat. Each change leaves an audit row, without a word of the chat.
A chat that is not stored, or that is not theirs to see or change, raises NotFound.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from service.clients.wake_ups import Queue
from service.planning import policy
from service.settings import Settings
from service.storage import chats, codec, contexts, keys, messages, work
from service.storage.chats import StoredChat
from service.storage.contexts import Lookup
from service.storage.database import Database
from service.storage.keys import Operator
from service.storage.messages import MessageRow
from service.storage.tables import ChatKey
from service.transcript import read_text, unfold_messages
from service.usecases import inspection

LOOK_EVERY = 0.03
"""Seconds between two looks whether a summary is written."""


@dataclass(frozen=True, slots=True)
class Requester:
    """A `user` who asks about their own chat, by Open WebUI's id, or an operator."""

    by: Operator
    user: str | None = None


@dataclass(frozen=True, slots=True)
class SummaryView:
    """The summary that stands for the earlier part of a branch.

    Attributes:
        left_alone: no summary of the chat is made, and its requests carry none; what is stored
            stays.
        summary: that a request of the branch is sent, in Markdown; empty while there is none.
        messages: how many the branch has.
        covered: how many of them, from the first one on, the summary stands for.
        until: what was said in the last of these, if that is kept.
        before: estimated tokens of a request of the branch without the summary.
        after: and with it.
        window: the model's, in tokens.
        is_needed: whether a request is so large that the summary is put in.
        working: whether a newer summary is due or being written.
    """

    left_alone: bool
    summary: str
    messages: int
    covered: int
    until: str
    before: int
    after: int
    window: int
    is_needed: bool
    working: bool


def make_requester(tenant: int, user: str) -> Requester:
    """A user, as the audit names them."""
    return Requester(Operator(tenant, keys.name_user(user)), user)


async def view_summary(
    database: Database, settings: Settings, asker: Requester, chat: str, message: str
) -> SummaryView:
    """The summary that stands for the earlier part of a branch.

    Args:
        database: where to look.
        settings: those in force.
        asker: who looks.
        chat: the host's id of the chat.
        message: the host's id of a message of the branch; empty for the branch ingested last.
    """
    async with database.engine.connect() as connection:
        own_chat, leaf = await _find_visible_branch(connection, asker, chat, message)
    before = leaf.path_tokens + own_chat.overhead
    limit = policy.apply_at(own_chat.window, settings.apply_share(own_chat.model))
    lookup = Lookup(
        tenant=asker.by.tenant,
        chat=chat,
        model=own_chat.model,
        total=before,
        limit=limit,
        window=own_chat.window,
    )
    stored = await contexts.find_context_below(database, lookup, leaf.message_id)
    made = stored.checkpoint if stored else None
    cipher = await database.keyring.find_cipher(asker.by.tenant)
    text = contexts.open_summary(stored, cipher) if stored and made else ""
    until = await _read_message(database.engine, own_chat.key, made.until if made else None)
    saved = made.covered_tokens - made.tokens if made else 0
    return SummaryView(
        left_alone=own_chat.left_alone,
        summary=text,
        messages=leaf.depth,
        covered=made.messages if made else 0,
        until=until,
        before=before,
        after=before - saved,
        window=own_chat.window,
        is_needed=before > limit,
        working=own_chat.working,
    )


async def leave_alone(engine: AsyncEngine, asker: Requester, chat: str) -> None:
    """Nothing serves this chat any more, and no summary of it is made, until it is resumed.

    What is stored of it stays.
    """
    async with engine.begin() as connection:
        own_chat = await _lock_own_chat(connection, asker, chat)
        await chats.leave_alone(connection, own_chat.key)
        await keys.record_change(connection, asker.by, "chat.leave", chat)


async def resume_chat(engine: AsyncEngine, queue: Queue, asker: Requester, chat: str) -> None:
    """The chat is summarised again, at once if it has grown enough."""
    async with engine.begin() as connection:
        own_chat = await _lock_own_chat(connection, asker, chat)
        await chats.resume_chat(connection, own_chat.key)
        wake_up = await work.mark_due_at_once(connection, own_chat.key)
        await keys.record_change(connection, asker.by, "chat.resume", chat)
    # After the commit: a worker that comes earlier would find no work.
    await queue.wake(wake_up)


async def wait_until_idle(engine: AsyncEngine, asker: Requester, chat: str, seconds: float) -> None:
    """Waits until no summary of a chat is due or being written, so long at most."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            # No event tells of it: another process or machine writes the summary.
            while await is_worked_on(engine, asker.by.tenant, chat):  # noqa: ASYNC110
                await asyncio.sleep(LOOK_EVERY)


async def is_worked_on(engine: AsyncEngine, tenant: int, chat: str) -> bool:
    """Whether a summary of a chat is due or being written."""
    async with engine.connect() as connection:
        found = await chats.find_chat(connection, tenant, chat)
    return found is not None and found.working


async def _read_message(engine: AsyncEngine, chat: ChatKey, message: str | None) -> str:
    """The text of a message; empty if the chat does not have it any more."""
    async with engine.connect() as connection:
        found = await messages.load_bodies(connection, chat, [message] if message else [])
    # In a thread, since one may be megabytes.
    said = [await asyncio.to_thread(_read_body, body) for body in found.values()]
    return "".join(said)


def _read_body(body: bytes) -> str:
    texts = map(read_text, unfold_messages([codec.unpack(body)]))
    return "\n".join(text for text in texts if text)


async def _find_visible_branch(
    connection: AsyncConnection, asker: Requester, chat: str, message: str
) -> tuple[StoredChat, MessageRow]:
    """A chat for somebody who looks at a branch of it, and a message of the branch."""
    own_chat = await chats.find_chat(connection, asker.by.tenant, chat)
    if own_chat is None or own_chat.expired:
        raise inspection.make_no_chat_error(chat)
    leaf = await messages.find_by_host_id(connection, own_chat.key, message) if message else None
    if leaf is None and own_chat.leaf:
        # A message that is not told yet is the newest one, most likely.
        found = await messages.find_messages(connection, own_chat.key, [own_chat.leaf])
        leaf = found.get(own_chat.leaf)
    if leaf is None:
        raise inspection.make_no_chat_error(chat)
    if asker.user not in (None, own_chat.owner) and not await messages.wrote_on(
        connection, own_chat.key, asker.user, leaf.message_id
    ):
        raise inspection.make_no_chat_error(chat)
    return own_chat, leaf


async def _lock_own_chat(connection: AsyncConnection, asker: Requester, chat: str) -> StoredChat:
    """A chat for somebody who may change it, and nobody else until the transaction ends."""
    own_chat = await chats.find_chat(connection, asker.by.tenant, chat, lock=True)
    if own_chat is None or own_chat.expired or asker.user not in (None, own_chat.owner):
        # The same words for a chat of somebody else: nobody learns that it is there.
        raise inspection.make_no_chat_error(chat)
    return own_chat
