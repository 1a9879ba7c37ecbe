"""Message rows: what rounds, look-ups and operators read and change; `ingests` writes them.

A row's id is the hash of all words down to it (`request.native`), so a row never changes its place
or its words: an edited message is another row, and what hung below the old one is not below it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import Select, and_, delete, func, or_, select, true, update
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage import sealing
from service.storage.sealing import AssociatedData
from service.storage.tables import INTERIM, ChatKey, checkpoints, in_values, match_chat, messages


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


_COLUMNS = [messages.c[name] for name in MessageRow.__dataclass_fields__]


async def find_by_host_id(
    connection: AsyncConnection, chat: ChatKey, host_id: str
) -> MessageRow | None:
    """The row of what the host calls so; of an edited one the newest."""
    query = select(*_COLUMNS).where(match_chat(chat, messages), messages.c.host_id == host_id)
    newest = query.order_by(messages.c.created_at.desc()).limit(1)
    row = (await connection.execute(newest)).one_or_none()
    return MessageRow(*row) if row else None


async def find_untold(connection: AsyncConnection, chat: ChatKey) -> set[str]:
    """The ids of what only requests have shown, so that nobody knows what the host calls it."""
    query = select(messages.c.message_id).where(
        match_chat(chat, messages), messages.c.host_id.is_(None)
    )
    return set(await connection.scalars(query))


async def find_messages(
    connection: AsyncConnection, chat: ChatKey, ids: Collection[str]
) -> dict[str, MessageRow]:
    """The rows of these messages, by id, without their bodies."""
    query = select(*_COLUMNS).where(
        match_chat(chat, messages), in_values(messages.c.message_id, ids)
    )
    return {row.message_id: MessageRow(*row) for row in await connection.execute(query)}


async def load_path(connection: AsyncConnection, chat: ChatKey, leaf: str) -> list[MessageRow]:
    """The rows from the root to `leaf`; empty when `leaf` is not stored."""
    up = (
        select(*_COLUMNS)
        .where(match_chat(chat, messages), messages.c.message_id == leaf)
        .cte("up", recursive=True)
    )
    # One at a time by the key. For a join, PostgreSQL's generic plan, which takes a chat for small,
    # read all of its messages for each one: 1.5 s for 1,000.
    parent = (
        select(*_COLUMNS)
        .where(match_chat(chat, messages), messages.c.message_id == up.c.parent_id)
        .limit(1)
        .lateral("parent")
    )
    up = up.union_all(select(parent).select_from(up.join(parent, true())))
    result = await connection.execute(select(up).order_by(up.c.depth))
    rows = [MessageRow(*row) for row in result]
    # Without its root it is no path: a message above was deleted.
    return rows if rows and rows[0].parent_id is None else []


async def wrote_on(connection: AsyncConnection, chat: ChatKey, user: str, leaf: str) -> bool:
    """Whether a user who did not begin the chat sent `leaf` or a message above it."""
    query = select(messages.c.message_id).where(
        match_chat(chat, messages),
        messages.c.author_id == user,
        messages.c.message_id.in_(select_above(chat, leaf)),
    )
    return (await connection.execute(query.limit(1))).first() is not None


async def list_branches(connection: AsyncConnection, chat: ChatKey) -> list[Branch]:
    """The leaves that are stored, the longest path first."""
    columns = (
        func.coalesce(messages.c.host_id, messages.c.message_id),
        messages.c.depth,
        messages.c.path_tokens,
        messages.c.checkpoint_id,
    )
    child = messages.alias()
    # Not `exists`: PostgreSQL's generic plan takes a chat for small, and looks through all of its
    # messages for each one: 1 s for 2,000. This it hashes once.
    parents = select(child.c.parent_id).where(
        match_chat(chat, child), child.c.parent_id.is_not(None)
    )
    leaves = select(*columns).where(
        match_chat(chat, messages), messages.c.message_id.not_in(parents)
    )
    rows = await connection.execute(leaves.order_by(messages.c.depth.desc()))
    return [Branch(*row) for row in rows]


async def load_bodies(
    connection: AsyncConnection, chat: ChatKey, ids: Collection[str]
) -> dict[str, bytes]:
    """The packed bodies of these messages; one whose body is gone is left out."""
    cipher = await sealing.find_cipher(connection, chat.tenant)
    query = select(messages.c.message_id, messages.c.body).where(
        match_chat(chat, messages),
        in_values(messages.c.message_id, ids),
        messages.c.body.is_not(None),
    )
    bodies = {}
    for message_id, body in await connection.execute(query):
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
    statement = delete(messages).where(
        match_chat(chat, messages), messages.c.message_id.in_(select_subtree(chat, roots))
    )
    return (await connection.execute(statement)).rowcount


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
    places = [in_values(messages.c.parent_id, parents)]
    if None in above:
        places.append(messages.c.parent_id.is_(None))
    query = select(messages.c.message_id).where(
        match_chat(chat, messages),
        messages.c.confirmed.is_(False),
        messages.c.host_id.is_(None),
        or_(*places),
    )
    roots = await connection.scalars(query)
    return await drop_below(connection, chat, roots.all())


async def assign_checkpoint(
    connection: AsyncConnection,
    chat: ChatKey,
    until: str,
    checkpoint: int,
    superseded: Collection[int] | None,
) -> None:
    """Makes `checkpoint` the deepest one of its last covered message and of all below it.

    A message keeps one that is deeper, or as deep, unless it is one of `superseded`; with None,
    none does.
    """
    query = update(messages).where(
        match_chat(chat, messages), messages.c.message_id.in_(select_subtree(chat, [until]))
    )
    if superseded is not None:
        query = query.where(
            or_(
                messages.c.checkpoint_id.is_(None),
                in_values(messages.c.checkpoint_id, superseded),
                messages.c.checkpoint_id.in_(_select_outdone(chat, checkpoint)),
            )
        )
    await connection.execute(query.values(checkpoint_id=checkpoint))


def _select_outdone(chat: ChatKey, checkpoint: int) -> Select[tuple[int]]:
    """The ids of those that `checkpoint` is deeper than, and of interim ones that are as deep.

    Not only those that it grew from: code's summaries and copies of another chat's are published
    while a model writes this one.
    """
    other = checkpoints.alias("made")
    new = checkpoints.alias("newest")
    is_shallower = other.c.covered_messages < new.c.covered_messages
    as_deep = other.c.covered_messages == new.c.covered_messages
    return select(other.c.id).where(
        match_chat(chat, other),
        match_chat(chat, new),
        new.c.id == checkpoint,
        or_(is_shallower, and_(as_deep, other.c.kind == INTERIM)),
    )


def select_above(chat: ChatKey, leaf: str) -> Select[tuple[str]]:
    """The ids of `leaf` and of all messages above it."""
    place = messages.c.message_id, messages.c.parent_id
    line = (
        select(*place)
        .where(match_chat(chat, messages), messages.c.message_id == leaf)
        .cte("line", recursive=True)
    )
    parent = select(*place).where(
        match_chat(chat, messages), messages.c.message_id == line.c.parent_id
    )
    return select(line.union_all(parent).c.message_id)


def select_subtree(chat: ChatKey, roots: Collection[str]) -> Select[tuple[str]]:
    """The ids of `roots` and of all that hangs below them."""
    below = select(messages.c.message_id).where(
        match_chat(chat, messages), in_values(messages.c.message_id, roots)
    )
    tree = below.cte("below", recursive=True)
    child = select(messages.c.message_id).where(
        match_chat(chat, messages), messages.c.parent_id == tree.c.message_id
    )
    return select(tree.union_all(child).c.message_id)
