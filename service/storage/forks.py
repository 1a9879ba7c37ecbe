"""Forks, clones and imports: they get copies of another chat's checkpoints.

A message's id is the hash of all that was said down to it. So an equal id says that the same was
said up to there, and the summary of it is right in both chats.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Row, select
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage import messages, sealing
from service.storage.checkpoints import CONTENT, aad_for_part, open_content
from service.storage.publishing import Lineage, add_checkpoint, next_id
from service.storage.tables import INTERIM, checkpoints
from service.storage.tenancy import ChatKey, match_chat
from service.storage.terms import in_values


async def adopt_checkpoints(
    connection: AsyncConnection, chat: ChatKey, lender: ChatKey, ids: Sequence[int]
) -> None:
    """Copies a line of another chat, and makes the messages of this one point to it.

    Nothing when a part of it was deleted meanwhile, or was put out of service here, or when another
    summary of one of its boundaries serves here. The copies stay when the other chat is deleted.
    `connection` is in a transaction that has this chat locked and ends with a note of its leaf.
    """
    query = select(checkpoints.c.id, checkpoints.c.windows, *CONTENT).where(
        *match_chat(lender, checkpoints), in_values(checkpoints.c.id, ids)
    )
    cipher = await sealing.cipher_for(connection, chat.tenant)
    # Ids rise from parent to child, so this is the order in which they grew.
    rows = (await connection.execute(query.order_by(checkpoints.c.id))).mappings()
    originals = [open_content(row, cipher, lender) | {"window": row["windows"][-1]} for row in rows]
    # Only this chat is locked: the lender's may have been deleted since they were found.
    if len(originals) < len(ids):
        return
    # Before anything is added: a part of a line would serve nobody.
    copies = await _copy_checkpoints(connection, chat, originals)
    if copies is None:
        return
    line = Lineage([], [], [])
    for original in originals:
        copy = copies.get(original["covered_until"])
        if copy is None:
            line = await add_checkpoint(connection, chat, line, await next_id(connection), original)
        else:
            line = Lineage([*line.ids, copy.id], copy.savings, copy.windows)
    # The deepest first: each message is then pointed to its own at once.
    for place in range(len(ids) - 1, -1, -1):
        until = originals[place]["covered_until"]
        await messages.assign_checkpoint(connection, chat, until, line.ids[place], [])


async def _copy_checkpoints(
    connection: AsyncConnection, chat: ChatKey, originals: Sequence[Mapping[str, Any]]
) -> Mapping[str, Row[Any, Any, Any, Any, Any, Any, Any]] | None:
    """The copies that were made before, as a fork is ingested bit by bit, by their boundaries.

    None when the line fits no more: a copy was put out of service, or another summary of the same
    boundary serves. An interim one does for the time being only.
    """
    by_boundary = {original["covered_until"]: original for original in originals}
    cipher = await sealing.cipher_for(connection, chat.tenant)
    names = ("id", "covered_until", "kind", "savings", "windows", "retired_at", "summary")
    query = select(*(checkpoints.c[name] for name in names)).where(
        *match_chat(chat, checkpoints), in_values(checkpoints.c.covered_until, by_boundary)
    )
    copies = {}
    for row in await connection.execute(query):
        original = by_boundary[row.covered_until]
        # Sealed texts differ even where they say the same, so they are compared here, not in SQL.
        # No two say the same by chance: each names the checkpoint that it was written for.
        is_copy = (
            cipher.decrypt(aad_for_part(chat, row.id, "summary"), row.summary)
            == original["summary"]
        )
        serves = row.retired_at is None
        if is_copy and serves:
            copies[row.covered_until] = row
        elif is_copy or (serves and row.kind != INTERIM):
            return None
    return copies
