"""Partial turns: how far a turn that is too long for one call has been read. At most one a chat."""

import asyncio

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.planning.plan import PartialTurn, Position
from service.storage import memories, sealing, work
from service.storage.sealing import Where
from service.storage.tables import partials
from service.storage.tenancy import ChatKey, of
from service.summarising.memory import Memory


async def find(
    connection: AsyncConnection, chat: ChatKey
) -> tuple[str, PartialTurn, Memory] | None:
    """The chat's partial turn: its message, how far it was read, and what was read so far.

    The place's message index is for the caller to fill in.
    """
    query = select(partials).where(*of(chat, partials))
    row = (await connection.execute(query)).mappings().one_or_none()
    if row is None:
        return None
    position = Position(0, row["step"], row["piece"])
    seal = await sealing.of(connection, chat.tenant)
    place = PartialTurn(row["base_id"] or None, row["digest"], position, row["pieces"])
    packed = memories.Stored(seal.open(place_of(chat), row["memory"]))
    return row["message_id"], place, await asyncio.to_thread(memories.unpacked, [packed])


async def save(
    connection: AsyncConnection,
    lease: work.Lease,
    message_id: str,
    place: PartialTurn,
    packed: bytes,
) -> bool:
    """Keeps what has been read of a long turn, `packed`; False when the lease is lost."""
    if not await work.holds(connection, lease):
        return False
    seal = await sealing.of(connection, lease.chat.tenant)
    values = {
        "base_id": place.base or 0,
        "message_id": message_id,
        "digest": place.digest,
        "step": place.position.step,
        "piece": place.position.piece,
        "pieces": place.pieces,
        "memory": seal.seal(place_of(lease.chat), packed),
    }
    statement = insert(partials).values(**lease.chat.columns, **values)
    statement = statement.on_conflict_do_update(index_elements=["chat_id"], set_=values)
    await connection.execute(statement)
    return True


def place_of(chat: ChatKey) -> Where:
    """Where a chat's partial turn is sealed."""
    return Where(partials.name, "memory", chat)


async def drop(connection: AsyncConnection, chat: ChatKey) -> None:
    """Forgets how far a turn has been read: it is read again from its beginning."""
    await connection.execute(delete(partials).where(*of(chat, partials)))
