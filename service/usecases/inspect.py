"""What operators look at, the same for REST and the command line. Nothing is changed or locked."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from service.errors import NotFound
from service.storage import audit, chats, checkpoints, messages, runs, wishes
from service.storage.audit import Change
from service.storage.chats import EVERY, Filters, Overview
from service.storage.checkpoints import Made
from service.storage.messages import Branch
from service.storage.runs import Run, Spent
from service.storage.tenancy import ChatKey
from service.summarising import message
from service.summarising.memory import Memory, Pin
from service.summarising.utterances import Speaker


@dataclass(frozen=True, slots=True)
class Detail:
    """One chat with its branches, checkpoints and latest rounds of work.

    `wishes` are the sentences that its user wants in its summaries.
    """

    chat: Overview
    branches: list[Branch]
    checkpoints: list[Made]
    runs: list[Run]
    spent: Spent
    wishes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class CoveredMessage:
    """One message that a summary covers."""

    id: str
    role: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Said:
    """One sentence of the talk; a correction names it by its number. `at` is in Unix seconds."""

    number: str
    speaker: Speaker
    text: str
    at: int | None


@dataclass(frozen=True, slots=True)
class Shown:
    """A summary, what it was made of, and what it covers.

    `current` is False when the covered path was edited since. `narrative` is Markdown. `talk` is
    all that is kept; the summary shows what there is room for.
    """

    checkpoint: Made
    summary: str
    narrative: str
    pins: tuple[Pin, ...]
    talk: list[Said]
    current: bool
    covers: list[CoveredMessage]


async def list_chats(
    engine: AsyncEngine,
    tenant: int,
    limit: int,
    after: tuple[datetime, int] | None = None,
    which: Filters = EVERY,
) -> Sequence[Overview]:
    """A page of a tenant's chats, the newest first."""
    async with engine.connect() as connection:
        return await chats.overviews(connection, tenant, after=after, limit=limit, which=which)


async def list_changes(
    engine: AsyncEngine,
    tenant: int,
    limit: int,
    *,
    chat: str | None = None,
    actor: str | None = None,
    before: int | None = None,
) -> list[Change]:
    """A page of what operators changed, the newest first."""
    async with engine.connect() as connection:
        return await audit.page(
            connection, tenant, chat=chat, actor=actor, before=before, limit=limit
        )


async def show_chat(engine: AsyncEngine, tenant: int, chat: str) -> Detail:
    """One chat.

    Raises:
        NotFound: this tenant has no such chat.
    """
    async with engine.connect() as connection:
        found = await chats.overviews(connection, tenant, chat=chat)
        if not found:
            raise no_chat(chat)
        key = ChatKey(tenant, found[0].id)
        wanted = await wishes.find(connection, tenant, chat, None)
        return Detail(
            chat=found[0],
            branches=await messages.branches(connection, key),
            checkpoints=await checkpoints.everyone(connection, key),
            runs=await runs.latest(connection, key),
            spent=await runs.spent(connection, key),
            wishes=wanted.wishes if wanted else (),
        )


async def list_checkpoints(engine: AsyncEngine, tenant: int, chat: str) -> list[Made]:
    """A chat's checkpoints, oldest first.

    Raises:
        NotFound: this tenant has no such chat.
    """
    async with engine.connect() as connection:
        return await checkpoints.everyone(connection, await _key(connection, tenant, chat))


async def show_summary(engine: AsyncEngine, tenant: int, chat: str, checkpoint: int) -> Shown:
    """One summary.

    Raises:
        NotFound: this tenant has no such chat, or the chat no such checkpoint.
    """
    async with engine.connect() as connection:
        key = await _key(connection, tenant, chat)
        made, text = await summary_of(connection, key, chat, checkpoint)
        memory = await memory_of(connection, key, chat, checkpoint)
        path = await messages.path(connection, key, made.covered_until)
    current = bool(path) and path[-1].digest == made.covered_digest
    covers = [CoveredMessage(row.message_id, row.role, row.tokens) for row in path]
    return Shown(
        checkpoint=made,
        summary=text,
        narrative=message.markdown(memory.narrative),
        pins=memory.pins,
        talk=[Said(one.number, one.speaker, one.text, one.at) for one in memory.talk],
        current=current,
        # What an edited path has now is not what the summary was made of.
        covers=covers if current else [],
    )


async def summary_of(
    connection: AsyncConnection, key: ChatKey, chat: str, checkpoint: int
) -> tuple[Made, str]:
    """A checkpoint and its summary message; `chat` is how the error names the chat.

    Raises:
        NotFound: the chat has no such checkpoint.
    """
    found = await checkpoints.summary(connection, key, checkpoint)
    if found is None:
        raise no_checkpoint(chat, checkpoint)
    return found


async def memory_of(
    connection: AsyncConnection, key: ChatKey, chat: str, checkpoint: int
) -> Memory:
    """What a checkpoint says; `chat` is how the error names the chat.

    Raises:
        NotFound: the chat has no such checkpoint.
    """
    found = await checkpoints.memory(connection, key, checkpoint)
    if found is None:
        raise no_checkpoint(chat, checkpoint)
    return found


def no_chat(chat: str) -> NotFound:
    """The error for a chat that a tenant does not have."""
    return NotFound(f"there is no chat {chat!r}")


def no_checkpoint(chat: str, checkpoint: int) -> NotFound:
    """The error for a checkpoint that a chat does not have."""
    return NotFound(f"chat {chat!r} has no checkpoint {checkpoint}")


async def _key(connection: AsyncConnection, tenant: int, chat: str) -> ChatKey:
    key = await chats.find(connection, tenant, chat)
    if key is None:
        raise no_chat(chat)
    return key
