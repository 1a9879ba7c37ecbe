"""The chats' rows: ingests make them, operators and users look at them and change them.

Every statement names the tenant.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Select,
    delete,
    func,
    literal_column,
    or_,
    select,
    text,
    tuple_,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.errors import Problem
from service.names import ChatState
from service.storage import codec, database, sealing
from service.storage.database import Reads
from service.storage.jobs import CHAT_STATE
from service.storage.sealing import AssociatedData, Cipher
from service.storage.tables import (
    ChatKey,
    chats,
    checkpoints,
    match_chat,
    messages,
    prompts,
    shown_windows,
    update_chat,
)


@dataclass(frozen=True, slots=True)
class ChatOverview:
    """One chat in a list. `path_tokens` and `messages` are those of the branch ingested last.

    `leaf_id` is what the host calls the newest message of that branch.

    `compactor` is who else compresses the chat, `open-webui`; no summary is made here then.
    While there is a `left_alone_at`, its user wants no summaries of it. `title` and `user_name` are
    null while nobody has sent them.
    """

    id: int
    chat_id: str
    user_id: str
    model: str
    window_tokens: int
    window_assumed: bool
    overhead_tokens: int
    leaf_id: str | None
    messages: int
    path_tokens: int
    checkpoints: int
    state: ChatState
    due_at: datetime | None
    working: bool
    attempts: int
    last_error: str | None
    expires_at: datetime | None
    compactor: str | None
    left_alone_at: datetime | None
    title: str | None
    user_name: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class ChatFilters:
    """Conditions on the chats of a list; None for any. `begins` is the beginning of the id."""

    user: str | None = None
    state: ChatState | None = None
    begins: str | None = None
    chat: str | None = None


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last chat of a page: when it was updated, and its id."""

    updated_at: datetime
    id: int


@dataclass(frozen=True, slots=True)
class StoredChat:
    """A chat for whoever looks at it or changes it.

    `owner` began it. `window` and `overhead` are in tokens; `leaf` is the newest message of the
    path ingested last. `working` says that a summary is due or being written, `expired` that the
    next sweep deletes it.
    """

    key: ChatKey
    owner: str
    model: str
    window: int
    overhead: int
    leaf: str | None
    working: bool
    left_alone: bool
    expired: bool


@dataclass(frozen=True, slots=True)
class SavedChat:
    """A chat that Open WebUI stores, by its id there, and who began it."""

    chat_id: str
    begun_by: str


_NOTE_LEAF = text(database.load_statements("chats")["note_leaf"])
COMPACTS_ITSELF = "open-webui"
"""The `compactor` beside which no summary is made: nothing is compressed twice."""
_IS_LEASED = func.coalesce(
    func.greatest(chats.c.lease_until, chats.c.code_until) > func.now(), False
)
LABELS = ("title", "user_name")
"""Sealed columns: what operators recognise a chat by."""
UNSAVED = "content:"
"""How the filter's own ids of chats begin, which Open WebUI does not store."""


def is_saved() -> ColumnElement[bool]:
    """Whether Open WebUI stores the chat."""
    return ~chats.c.external_id.startswith(UNSAVED, autoescape=True)


async def note_leaf(connection: AsyncConnection, chat: ChatKey, leaf: str | None = None) -> None:
    """Copies what the read on the request path needs of the newest path into the chat's row.

    To be called, before the transaction ends, whenever another checkpoint has become the deepest
    one of the leaf; `leaf` None keeps the leaf, and where it is not stored, there is none.
    """
    await connection.execute(_NOTE_LEAF, chat.parameters(leaf=leaf))


async def list_saved_chats(connection: AsyncConnection, tenant: int) -> list[SavedChat]:
    """All chats of a tenant that Open WebUI stores, oldest first."""
    query = select(chats.c.external_id, chats.c.user_id).order_by(chats.c.id)
    saved = query.where(chats.c.tenant_id == tenant, is_saved())
    return [SavedChat(*row) for row in await connection.execute(saved)]


async def find_chat(
    connection: AsyncConnection, tenant: int, chat: str, *, lock: bool = False
) -> StoredChat | None:
    """A chat by Open WebUI's id; None when this tenant has no such chat.

    With `lock`, nobody else may change it until the transaction ends.
    """
    columns = (
        chats.c.user_id,
        chats.c.model,
        chats.c.window_tokens,
        chats.c.overhead_tokens,
        chats.c.leaf_id,
        or_(chats.c.due_at.is_not(None), _IS_LEASED),
        chats.c.left_alone_at.is_not(None),
        func.coalesce(chats.c.expires_at <= func.now(), False),
    )
    query = select(chats.c.id, *columns).where(
        chats.c.tenant_id == tenant, chats.c.external_id == chat
    )
    row = (await connection.execute(query.with_for_update() if lock else query)).one_or_none()
    if row is None:
        return None
    identity, *rest = row
    return StoredChat(ChatKey(tenant, identity), *rest)


async def leave_alone(connection: AsyncConnection, chat: ChatKey) -> None:
    """From now on it is not served, and no work is due; one that is under way may end."""
    left_alone = update_chat(chat).values(left_alone_at=func.now())
    nothing_due = left_alone.values(due_at=None, code_at=None, due_leaves=[], dead_at=None)
    await connection.execute(nothing_due)


async def resume_chat(connection: AsyncConnection, chat: ChatKey) -> None:
    """From now on it is summarised as usual."""
    await connection.execute(update_chat(chat).values(left_alone_at=None))


async def list_overviews(
    connection: AsyncConnection,
    tenant: int,
    which: ChatFilters,
    *,
    after: Cursor | None = None,
    limit: int = 1,
) -> list[ChatOverview]:
    """Chats of a tenant, the newest first: a page of those after a cursor."""
    moment, identity = chats.c.updated_at, chats.c.id
    query = _select_overviews(tenant).where(*_make_conditions(which))
    if after is not None:
        query = query.where(tuple_(moment, identity) < tuple_(after.updated_at, after.id))
    query = query.order_by(moment.desc(), identity.desc()).limit(limit)
    found: list[ChatOverview] = []
    for row in (await connection.execute(query)).mappings():
        fields: dict[str, Any] = dict(row)
        for name in LABELS:
            key = ChatKey(tenant, row["id"])
            fields[name] = await open_label(connection, key, name, row[name])
        found.append(ChatOverview(**fields))
    return found


def seal_label(cipher: Cipher, chat: ChatKey, name: str, text: str | None) -> bytes | None:
    """One of the `LABELS` of a chat, as it is stored."""
    if not text:
        return None
    return cipher.encrypt(_make_label_aad(chat, name), codec.pack_text(text))


async def open_label(
    connection: AsyncConnection, chat: ChatKey, name: str, stored: bytes | None
) -> str | None:
    """One of the `LABELS` of a chat as a text; None where none is stored, or its key is missing."""
    if stored is None:
        return None
    try:
        cipher = await sealing.find_cipher(connection, chat.tenant)
        opened = cipher.decrypt(_make_label_aad(chat, name), stored)
    except Problem:  # operators need the list of chats also when keys are missing or lost
        return None
    return codec.unpack_text(opened)


def _make_label_aad(chat: ChatKey, name: str) -> AssociatedData:
    return AssociatedData(chats.name, name, chat, chat.id)


def _make_conditions(which: ChatFilters) -> Iterator[ColumnElement[bool]]:
    if which.user is not None:
        yield chats.c.user_id == which.user
    if which.state is not None:
        yield literal_column(CHAT_STATE) == which.state
    if which.begins is not None:
        yield func.starts_with(chats.c.external_id, which.begins)
    if which.chat is not None:
        yield chats.c.external_id == which.chat


def _select_overviews(tenant: int) -> Select[Any]:
    """Chats with the fields of `ChatOverview`, most of which are columns of the same name."""
    others: dict[str, ColumnElement[Any]] = {
        "chat_id": chats.c.external_id,
        "leaf_id": func.coalesce(_select_of_leaf(tenant, messages.c.host_id), chats.c.leaf_id),
        "messages": func.coalesce(_select_of_leaf(tenant, messages.c.depth), 0),
        "path_tokens": func.coalesce(chats.c.leaf_tokens, 0),
        "checkpoints": _count_checkpoints(tenant),
        "state": literal_column(CHAT_STATE),
        "working": _IS_LEASED,
    }
    columns = [
        others[name].label(name) if name in others else chats.c[name]
        for name in ChatOverview.__dataclass_fields__
    ]
    return select(*columns).where(chats.c.tenant_id == tenant)


def _select_of_leaf(tenant: int, column: ColumnElement[Any]) -> ColumnElement[Any]:
    leaf = select(column).where(
        messages.c.tenant_id == tenant,
        messages.c.chat_id == chats.c.id,
        messages.c.message_id == chats.c.leaf_id,
    )
    return leaf.scalar_subquery()


def _count_checkpoints(tenant: int) -> ColumnElement[int]:
    count = select(func.count()).where(
        checkpoints.c.tenant_id == tenant, checkpoints.c.chat_id == chats.c.id
    )
    return count.scalar_subquery()


async def let_serve(connection: AsyncConnection, chat: ChatKey, checkpoint: int) -> None:
    """Makes a checkpoint the one that goes on serving while requests fit with it."""
    await connection.execute(update_chat(chat).values(served_id=checkpoint))


async def refuse_running_work(connection: AsyncConnection, chat: ChatKey) -> None:
    """Work that is under way is refused when it comes to publish, and no reply is waited for."""
    await connection.execute(delete(prompts).where(match_chat(chat, prompts)))
    await connection.execute(update_chat(chat).values(epoch=chats.c.epoch + 1))


# A server may be set otherwise since then: what it has shown counts for a week.
_SHOWN: Final = """
select model, window_tokens from shown_windows
where shown_windows.tenant_id = $1 and shown_at > now() - interval '7 days' order by model
"""


async def note_window(connection: AsyncConnection, tenant: int, model: str, window: int) -> None:
    """Notes the window in tokens that an answer of a model has shown."""
    new = insert(shown_windows).values(tenant_id=tenant, model=model, window_tokens=window)
    changed = {"window_tokens": window, "shown_at": func.now()}
    keys = ["tenant_id", "model"]
    await connection.execute(new.on_conflict_do_update(index_elements=keys, set_=changed))


async def find_shown_windows(reads: Reads, tenant: int) -> dict[str, int]:
    """The windows in tokens that answers of a tenant's models have shown lately, by model."""
    return {row["model"]: row["window_tokens"] for row in await reads.fetch(_SHOWN, tenant)}
