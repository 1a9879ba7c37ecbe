"""Prompts that wait for a host which asks one of its own models, and the replies to them.

A worker stores a prompt and puts its round down; the host takes the prompt, once, and hands the
reply in; the round is taken up again, and finds the reply by the digest of its prompt. A chat has
one prompt without a reply at most. Forms and replies are sealed. All times are the database's.
"""

import secrets
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final, Literal

from sqlalchemy import insert
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage import database, jobs, sealing
from service.storage.database import Reads
from service.storage.jobs import Endpoint
from service.storage.sealing import AssociatedData
from service.storage.tables import ChatKey, after_seconds, prompts

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


_SQL = database.load_texts("prompts", columns=", ".join(WaitingPrompt.__dataclass_fields__))
_BASIS = _SQL["basis"].columns(basis=JSONB)
_PROSPECT = database.number_parameters(database.load_statements("prompts")["prospect"])


async def find_prompt(
    connection: AsyncConnection, chat: ChatKey, digest: str
) -> StoredReply | None:
    """The reply to a prompt of a chat, as far as there is one; None for an unknown prompt."""
    cipher = await sealing.find_cipher(connection, chat.tenant)
    parameters = chat.parameters(digest=cipher.keyed_hash(digest))
    row = (await connection.execute(_SQL["by_digest"], parameters)).one_or_none()
    if row is None:
        return None
    answer = None
    if row.reply:
        answer = cipher.decrypt(_aad_for(chat, row.id, "reply"), row.reply)
    return StoredReply(answer, float(row.seconds_left), row.is_taken)


async def find_basis(connection: AsyncConnection, chat: ChatKey) -> Basis | None:
    """The basis of the round that waits for a reply, or has one; None if there is none."""
    row = await connection.scalar(_BASIS, chat.parameters())
    return Basis(**row) if row else None


async def find_waiting(connection: AsyncConnection, chat: ChatKey) -> WaitingPrompt | None:
    """The prompt of a chat that has no reply, if there is one."""
    row = (await connection.execute(_SQL["waiting"], chat.parameters())).one_or_none()
    return WaitingPrompt(*row) if row else None


async def store_prompt(connection: AsyncConnection, chat: ChatKey, new: NewPrompt) -> None:
    """Stores a prompt; the caller holds the chat's lease."""
    cipher = await sealing.find_cipher(connection, chat.tenant)
    number = secrets.token_urlsafe(16)
    form = cipher.encrypt(_aad_for(chat, number, "form"), new.form)
    values = {
        "id": number,
        "digest": cipher.keyed_hash(new.digest),
        "model": new.model,
        "basis": asdict(new.basis),
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
    parameters = {"tenant": endpoint.tenant, "model": model}
    if state == "half-open" and await connection.scalar(_SQL["is_out"], parameters):
        return jobs.PAUSE
    return None


async def take_prompt(
    connection: AsyncConnection, tenant: int, chat: str, seconds: float
) -> TakenPrompt | None:
    """Takes the prompt of a chat that nobody has taken, by the host's id of the chat.

    Nobody else is given it. The round waits for its reply for `seconds`, and then ends.
    """
    parameters = {"tenant": tenant, "external": chat, "seconds": seconds}
    row = (await connection.execute(_SQL["take"], parameters)).one_or_none()
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
    parameters = {"tenant": tenant, "prompt": number}
    row = (await connection.execute(_SQL["wake_round"], parameters)).one_or_none()
    if row is None:
        return None
    cipher = await sealing.find_cipher(connection, tenant)
    aad = _aad_for(ChatKey(tenant, row.id), number, "reply")
    sealed = cipher.encrypt(aad, reply)
    seconds = await connection.scalar(_SQL["reply"], parameters | {"reply": sealed})
    if seconds is None:
        return None
    return ReplyReceipt(f"{row.id}:{row.handed_seq}:{number}", float(seconds))


async def drop_prompts(connection: AsyncConnection, chat: ChatKey) -> None:
    """Deletes what a chat has of prompts and replies: their round has ended, or is refused."""
    await connection.execute(_SQL["drop"], chat.parameters())


def _aad_for(chat: ChatKey, prompt: str, column: str) -> AssociatedData:
    return AssociatedData(prompts.name, column, chat, prompt)
