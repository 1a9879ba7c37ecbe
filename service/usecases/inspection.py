"""Shows operators what is stored, the same for REST and the pages.

Nothing is changed or locked; who reads a text is noted in the audit log.
What this tenant does not have, a chat or a checkpoint, raises NotFound.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from service.errors import NotFound
from service.storage import chats, checkpoints, keys, messages, prompts, runs
from service.storage.chats import ChatFilters, ChatOverview, Cursor
from service.storage.checkpoints import CheckpointInfo
from service.storage.keys import Change, Operator
from service.storage.messages import Branch
from service.storage.prompts import WaitingPrompt
from service.storage.runs import Run
from service.storage.tables import ChatKey
from service.summarising.ledger import Entry
from service.summarising.markup import make_harmless, quote_marks
from service.summarising.memory import Memory, Pin
from service.summarising.utterances import Speaker, Utterance

CURSOR: Final = "^([0-9]{1,16}-[0-9]{1,18})?$"
"""How the cursor of a list of chats looks; empty for its beginning."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ChatDetail:
    """One chat with its branches, checkpoints and latest rounds of work.

    `prompt` is what a model of its host is to answer now.
    """

    chat: ChatOverview
    branches: list[Branch]
    checkpoints: list[CheckpointInfo]
    runs: list[Run]
    prompt: WaitingPrompt | None


@dataclass(frozen=True, slots=True)
class TalkLine:
    """One sentence of the talk; a correction names it by its number.

    `at` is in Unix seconds; `in_summary` says that the summary has room for it.
    """

    number: str
    speaker: Speaker
    in_summary: bool
    text: str
    at: int | None


@dataclass(frozen=True, slots=True)
class SummaryDetail:
    """A summary, and what it was made of.

    `state` is Markdown. `talk` and `ledger` are all that is kept; the summary shows what there is
    room for.
    """

    checkpoint: CheckpointInfo
    summary: str
    state: str
    pins: tuple[Pin, ...]
    talk: list[TalkLine]
    ledger: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class ChatPage:
    """A page of chats; `next` is the `cursor` for the next page, null on the last one."""

    chats: list[ChatOverview]
    next: str | None


@dataclass(frozen=True, slots=True)
class ChangePage:
    """A page of changes; `next` is the `cursor` for the next page, null on the last one."""

    changes: list[Change]
    next: int | None


async def list_chats(
    engine: AsyncEngine, tenant: int, limit: int, cursor: str, which: ChatFilters
) -> ChatPage:
    """A page of a tenant's chats, the most recently updated first."""
    after = _parse_cursor(cursor) if cursor else None
    async with engine.connect() as connection:
        # One more than the page holds shows whether there is a next page.
        rows = await chats.list_overviews(connection, tenant, which, after=after, limit=limit + 1)
    page = rows[:limit]
    return ChatPage(page, _make_cursor(page[-1]) if len(rows) > limit else None)


async def list_changes(
    engine: AsyncEngine,
    tenant: int,
    limit: int,
    *,
    chat: str | None,
    actor: str | None,
    cursor: int | None,
) -> ChangePage:
    """A page of who changed or read what, the newest first."""
    async with engine.connect() as connection:
        rows = await keys.list_changes(
            connection, tenant, chat=chat, actor=actor, before=cursor, limit=limit + 1
        )
    page = rows[:limit]
    return ChangePage(page, page[-1].id if len(rows) > limit else None)


async def show_chat(engine: AsyncEngine, tenant: int, chat: str) -> ChatDetail:
    """One chat."""
    async with engine.connect() as connection:
        overviews = await chats.list_overviews(connection, tenant, ChatFilters(chat=chat))
        if not overviews:
            raise make_no_chat_error(chat)
        [overview] = overviews
        key = ChatKey(tenant, overview.id)
        return ChatDetail(
            chat=overview,
            branches=await messages.list_branches(connection, key),
            checkpoints=await checkpoints.list_checkpoints(connection, key),
            runs=await runs.list_latest(connection, key),
            prompt=await prompts.find_waiting(connection, key),
        )


async def check_chat(engine: AsyncEngine, tenant: int, chat: str) -> None:
    """Nothing for a chat that is stored; else NotFound."""
    async with engine.connect() as connection:
        await _find_key(connection, tenant, chat)


async def show_summary(
    engine: AsyncEngine, by: Operator, chat: str, checkpoint: int
) -> SummaryDetail:
    """One summary; the audit log notes who reads it."""
    async with engine.begin() as connection:
        key = await _find_key(connection, by.tenant, chat)
        found = await find_checkpoint(connection, key, chat, checkpoint)
        text = await checkpoints.load_summary(connection, key, checkpoint) or ""
        await keys.record_change(connection, by, "summary.read", chat, checkpoint=checkpoint)
    memory = await load_memory(engine, key, chat, checkpoint)
    return SummaryDetail(
        checkpoint=found,
        summary=text,
        state="\n".join(memory.state),
        pins=memory.pins,
        talk=[
            TalkLine(one.number, one.speaker, _is_shown(text, one), one.text, one.at)
            for one in memory.talk
        ],
        ledger=memory.ledger,
    )


def _is_shown(summary: str, one: Utterance) -> bool:
    return make_harmless(quote_marks(one.text)) in summary


async def find_checkpoint(
    connection: AsyncConnection, key: ChatKey, chat: str, checkpoint: int
) -> CheckpointInfo:
    """A checkpoint without its texts; `chat` is how the error names the chat."""
    found = await checkpoints.find_checkpoint(connection, key, checkpoint)
    if found is None:
        raise make_no_checkpoint_error(chat, checkpoint)
    return found


async def load_memory(engine: AsyncEngine, key: ChatKey, chat: str, checkpoint: int) -> Memory:
    """The memory of a checkpoint; `chat` is the chat's name in the error."""
    memory = await checkpoints.load_memory(engine, key, checkpoint)
    if memory is None:
        raise make_no_checkpoint_error(chat, checkpoint)
    return memory


def make_no_chat_error(chat: str) -> NotFound:
    """The error for a chat that a tenant does not have."""
    return NotFound(f"there is no chat {chat!r}")


def make_no_checkpoint_error(chat: str, checkpoint: int) -> NotFound:
    """The error for a checkpoint that a chat does not have."""
    return NotFound(
        f"chat {chat!r} has no checkpoint {checkpoint}; its page and `precis chats show` list them"
    )


async def _find_key(connection: AsyncConnection, tenant: int, chat: str) -> ChatKey:
    found = await chats.find_chat(connection, tenant, chat)
    if found is None:
        raise make_no_chat_error(chat)
    return found.key


def _make_cursor(last: ChatOverview) -> str:
    """The cursor behind a chat, as a client sends it back."""
    # Several chats may have the same moment, so the id decides between them.
    return f"{(last.updated_at - _EPOCH) // timedelta(microseconds=1)}-{last.id}"


def _parse_cursor(text: str) -> Cursor:
    microseconds, identity = map(int, text.split("-"))
    return Cursor(_EPOCH + timedelta(microseconds=microseconds), identity)
