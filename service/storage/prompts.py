"""Prompts that wait for a host which asks one of its own models, and the replies to them.

A worker stores a prompt and puts its round down; the host takes the prompt, once, and hands the
reply in; the round is taken up again, and finds the reply by the digest of its prompt. A chat has
one prompt without a reply at most. Forms and replies are sealed. All times are the database's.
"""

import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from sqlalchemy import and_, delete, func, insert, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage import database, jobs, sealing
from service.storage.database import Reads
from service.storage.jobs import Endpoint
from service.storage.sealing import AssociatedData
from service.storage.tables import ChatKey, after_seconds, chats, match_chat, prompts

UNTAKEN: Final = 120.0
"""Seconds that a prompt waits for a host to take it; the next turn makes another one."""


Prospect = Literal["there", "soon"]


@dataclass(frozen=True, slots=True)
class Basis:
    """The facts that a round was planned on, so that it can resume whatever the chat does.

    Attributes:
        leaf: the branch; its messages down to here may be read.
        model: the chat's, as of then.
        writer: the host's model that writes; None for another summariser.
        window: of the chat's model, in tokens.
        usage_factor: the tokens that its provider counts for one of ours.
        overhead: tokens of each request that are no messages.
    """

    leaf: str
    model: str
    writer: str | None
    window: int
    usage_factor: float
    overhead: int


@dataclass(frozen=True, slots=True)
class NewPrompt:
    """A prompt about to be stored: the host's model that it is for, and the request, packed."""

    digest: str
    model: str
    basis: Basis
    form: bytes


@dataclass(frozen=True, slots=True)
class TakenPrompt:
    """A prompt that a host has taken; `form` is the request for its model, packed."""

    id: str
    form: bytes


@dataclass(frozen=True, slots=True)
class StoredReply:
    """The reply to a prompt, as far as it is known.

    Attributes:
        answer: what a host handed in, packed; None until then.
        seconds_left: until its round ends without it; negative after that.
        is_taken: whether a host has taken the prompt.
    """

    answer: bytes | None
    seconds_left: float
    is_taken: bool


@dataclass(frozen=True, slots=True)
class WaitingPrompt:
    """A prompt without a reply: for which of the host's models, since when, and when it was taken.

    `taken_at` is null until the host takes it.
    """

    model: str
    created_at: datetime
    taken_at: datetime | None


@dataclass(frozen=True, slots=True)
class ReplyReceipt:
    """A reply was stored, so many seconds after its prompt was taken; with a wake-up message."""

    wake_up: str
    seconds: float


_SQL = database.load_statements("prompts")
_TAKE = text(_SQL["take"])
_PROSPECT = database.number_parameters(_SQL["prospect"])


async def find_prompt(
    connection: AsyncConnection, chat: ChatKey, digest: str
) -> StoredReply | None:
    """The reply to a prompt of a chat, as far as there is one; None for an unknown prompt."""
    cipher = await sealing.find_cipher(connection, chat.tenant)
    left = func.extract("epoch", prompts.c.expires_at - func.now())
    columns = prompts.c.id, prompts.c.reply, prompts.c.taken_at, left
    is_asked = prompts.c.digest == cipher.keyed_hash(digest)
    query = select(*columns).where(match_chat(chat, prompts), is_asked)
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        return None
    number, reply, taken_at, seconds_left = row
    answer = None
    if reply:
        answer = cipher.decrypt(_aad_for(chat, number, "reply"), reply)
    return StoredReply(answer, float(seconds_left), taken_at is not None)


async def find_basis(connection: AsyncConnection, chat: ChatKey) -> Basis | None:
    """The basis of the round that waits for a reply, or has one; None if there is none."""
    query = select(prompts.c.basis).where(match_chat(chat, prompts)).limit(1)
    row = await connection.scalar(query)
    return Basis(**row) if row else None


async def find_waiting(connection: AsyncConnection, chat: ChatKey) -> WaitingPrompt | None:
    """The prompt of a chat that has no reply, if there is one."""
    columns = [prompts.c[name] for name in WaitingPrompt.__dataclass_fields__]
    unanswered = select(*columns).where(match_chat(chat, prompts), prompts.c.reply.is_(None))
    row = (await connection.execute(unanswered.limit(1))).one_or_none()
    return WaitingPrompt(*row) if row else None


async def store_prompt(connection: AsyncConnection, chat: ChatKey, new: NewPrompt) -> None:
    """Stores a prompt; the caller holds the chat's lease."""
    cipher = await sealing.find_cipher(connection, chat.tenant)
    number = secrets.token_urlsafe(16)
    form = cipher.encrypt(_aad_for(chat, number, "form"), new.form)
    fields = {name: getattr(new.basis, name) for name in Basis.__dataclass_fields__}
    values = {
        "id": number,
        "digest": cipher.keyed_hash(new.digest),
        "model": new.model,
        "basis": fields,
        "form": form,
        "expires_at": after_seconds(UNTAKEN),
    }
    await connection.execute(insert(prompts).values(**chat.columns, **values))


async def find_pause(connection: AsyncConnection, endpoint: Endpoint, model: str) -> float | None:
    """Seconds for which a model that failed is left alone; None when it may be asked.

    After them it is asked for one chat; the others wait until that is answered.
    """
    state = await jobs.read_state(connection, endpoint)
    if state == "open":
        return await jobs.find_pause(connection, endpoint)
    is_out = select(prompts.c.id).where(
        prompts.c.tenant_id == endpoint.tenant,
        prompts.c.model == model,
        prompts.c.reply.is_(None),
        prompts.c.expires_at > func.now(),
    )
    if state == "half-open" and await connection.scalar(select(is_out.exists())):
        return jobs.PAUSE
    return None


async def take_prompt(
    connection: AsyncConnection, tenant: int, chat: str, seconds: float
) -> TakenPrompt | None:
    """Takes the prompt of a chat that nobody has taken, by the host's id of the chat.

    Nobody else is given it. The round waits for its reply for `seconds`, and then ends.
    """
    parameters = {"tenant": tenant, "external": chat, "seconds": seconds}
    row = (await connection.execute(_TAKE, parameters)).one_or_none()
    if row is None:
        return None
    cipher = await sealing.find_cipher(connection, tenant)
    aad = _aad_for(ChatKey(tenant, row.chat_id), row.id, "form")
    return TakenPrompt(row.id, cipher.decrypt(aad, row.form))


async def find_prospect(reads: Reads, tenant: int, chat: str) -> Prospect | None:
    """Says whether a prompt of a chat is there to be taken, or may be soon."""
    values = {"tenant": tenant, "external": chat}
    found: Prospect | None = await reads.fetchval(_PROSPECT.sql, *_PROSPECT.given(values))
    return found


async def store_reply(
    connection: AsyncConnection, tenant: int, number: str, reply: bytes
) -> ReplyReceipt | None:
    """Stores the reply to a prompt that was taken, packed, and makes its round due.

    None when no such prompt waits for a reply.
    """
    waits = and_(
        prompts.c.tenant_id == tenant,
        prompts.c.id == number,
        prompts.c.taken_at.is_not(None),
        prompts.c.reply.is_(None),
    )
    # The chat's row first, as whoever changes a chat locks it.
    its_chat = select(prompts.c.chat_id).where(waits).scalar_subquery()
    due = update(chats).where(chats.c.tenant_id == tenant, chats.c.id == its_chat)
    due = due.values(due_at=func.now()).returning(chats.c.id, chats.c.handed_seq)
    row = (await connection.execute(due)).one_or_none()
    if row is None:
        return None
    cipher = await sealing.find_cipher(connection, tenant)
    aad = _aad_for(ChatKey(tenant, row.id), number, "reply")
    sealed = cipher.encrypt(aad, reply)
    replied = update(prompts).where(waits).values(reply=sealed, replied_at=func.now())
    seconds = func.extract("epoch", prompts.c.replied_at - prompts.c.taken_at)
    answered = await connection.scalar(replied.returning(seconds))
    if answered is None:
        return None
    return ReplyReceipt(f"{row.id}:{row.handed_seq}:{number}", float(answered))


async def drop_prompts(connection: AsyncConnection, chat: ChatKey) -> None:
    """Deletes what a chat has of prompts and replies: their round has ended, or is refused."""
    await connection.execute(delete(prompts).where(match_chat(chat, prompts)))


def _aad_for(chat: ChatKey, prompt: str, column: str) -> AssociatedData:
    return AssociatedData(prompts.name, column, chat, prompt)
