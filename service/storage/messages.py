"""Message rows: what rounds, look-ups and operators read and change; `ingests` writes them.

A row's id is the hash of all words down to it (`request.native`), so a row never changes its place
or its words: an edited message is another row, and what hung below the old one is not below it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage import database, sealing
from service.storage.sealing import AssociatedData
from service.storage.tables import ChatKey, messages


@dataclass(frozen=True, slots=True)
class MessageRow:
    """One stored message; the columns say the rest.

    Its id, its parent's and `host_hash` are keyed (`Cipher.keyed_hash`).
    """

    message_id: str
    parent_id: str | None
    role: str
    depth: int
    host_id: str | None
    host_hash: str | None
    confirmed: bool
    tokens: int
    path_tokens: int
    step_tokens: Sequence[int]
    step_calls: Sequence[int]
    sent_at: int | None
    checkpoint_id: int | None


@dataclass(frozen=True, slots=True)
class Branch:
    """One leaf of the chat tree, as the host calls it, and the deepest checkpoint on its path."""

    leaf_id: str
    messages: int
    path_tokens: int
    checkpoint_id: int | None


SUBTREE = database.load_statements("messages")["subtree"]
"""The first part of a statement about the messages `:roots` and all that hangs below them."""
_SQL = database.load_texts("messages", columns=", ".join(MessageRow.__dataclass_fields__))


async def find_by_host_id(
    connection: AsyncConnection, chat: ChatKey, host_id: str
) -> MessageRow | None:
    """The row of what the host calls so; of an edited one the newest."""
    result = await connection.execute(_SQL["by_host_id"], chat.parameters(host_id=host_id))
    row = result.one_or_none()
    return MessageRow(*row) if row else None


async def find_untold(connection: AsyncConnection, chat: ChatKey) -> set[str]:
    """The ids of what only requests have shown, so that nobody knows what the host calls it."""
    return set(await connection.scalars(_SQL["untold"], chat.parameters()))


async def find_messages(
    connection: AsyncConnection, chat: ChatKey, ids: Collection[str]
) -> dict[str, MessageRow]:
    """The rows of these messages, by id, without their bodies."""
    rows = await connection.execute(_SQL["by_id"], chat.parameters(ids=list(ids)))
    return {row.message_id: MessageRow(*row) for row in rows}


async def load_path(connection: AsyncConnection, chat: ChatKey, leaf: str) -> list[MessageRow]:
    """The rows from the root to `leaf`; empty when `leaf` is not stored."""
    result = await connection.execute(_SQL["path"], chat.parameters(leaf=leaf))
    return [MessageRow(*row) for row in result]


async def wrote_on(connection: AsyncConnection, chat: ChatKey, user: str, leaf: str) -> bool:
    """Whether a user who did not begin the chat sent `leaf` or a message above it."""
    result = await connection.execute(_SQL["wrote_on"], chat.parameters(user=user, leaf=leaf))
    return result.first() is not None


async def list_branches(connection: AsyncConnection, chat: ChatKey) -> list[Branch]:
    """The leaves that are stored, the longest path first."""
    rows = await connection.execute(_SQL["branches"], chat.parameters())
    return [Branch(*row) for row in rows]


async def load_bodies(
    connection: AsyncConnection, chat: ChatKey, ids: Collection[str]
) -> dict[str, bytes]:
    """The packed bodies of these messages; one whose body is gone is left out."""
    cipher = await sealing.find_cipher(connection, chat.tenant)
    rows = await connection.execute(_SQL["bodies"], chat.parameters(ids=list(ids)))
    bodies = {}
    for message_id, body in rows:
        bodies[message_id] = cipher.decrypt(aad_for_body(chat, message_id), body)
    return bodies


def aad_for_body(chat: ChatKey, message_id: str) -> AssociatedData:
    """The place of a body."""
    return AssociatedData(messages.name, messages.c.body.name, chat, message_id)


async def drop_below(connection: AsyncConnection, chat: ChatKey, roots: Collection[str]) -> int:
    """Deletes `roots` and all their descendants.

    Branches that the host still has are ingested again when somebody goes on there.

    Returns:
        How many.
    """
    if not roots:
        return 0
    result = await connection.execute(_SQL["drop_below"], chat.parameters(roots=list(roots)))
    return result.rowcount


async def drop_unconfirmed(
    connection: AsyncConnection, chat: ChatKey, above: Collection[str | None]
) -> int:
    """Deletes messages that one request alone has shown, with all that is below them.

    Args:
        connection: to the database.
        chat: the chat.
        above: the nodes directly below which they stand; None stands for the chat's beginning.

    Returns:
        How many messages.
    """
    parents = [node for node in above if node]
    parameters = chat.parameters(parents=parents, at_beginning=None in above)
    roots = await connection.scalars(_SQL["unconfirmed"], parameters)
    return await drop_below(connection, chat, roots.all())


async def assign_checkpoint(
    connection: AsyncConnection,
    chat: ChatKey,
    until: str,
    checkpoint: int,
    superseded: Collection[int] = (),
    *,
    preferred: bool = False,
) -> None:
    """Makes `checkpoint` the deepest one of its last covered message and of all below it.

    A message keeps one that is deeper, or as deep, unless it is one of `superseded`; if this one is
    `preferred`, none does.
    """
    parameters = chat.parameters(
        roots=[until],
        checkpoint=checkpoint,
        superseded=list(superseded),
        preferred=preferred,
    )
    await connection.execute(_SQL["assign_checkpoint"], parameters)
