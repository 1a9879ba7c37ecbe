"""Forks, clones and imports: they get copies of another chat's checkpoints.

Such a chat has the message ids of the one that it was made from, and a digest is made of ids and
contents alone. So an equal digest says that the same was said up to there, and the summary of it is
right in both.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from service.storage import messages, sealing
from service.storage.checkpoints import CONTENT, opened, place_of
from service.storage.publishing import Lineage, add, next_id
from service.storage.tables import checkpoints
from service.storage.tenancy import ChatKey, of
from service.storage.terms import among


class _Version(NamedTuple):
    """What a chat has at a boundary; `is_copy`: of the original, made as a fork came bit by bit."""

    id: int
    savings: list[int]
    is_copy: bool
    is_retired: bool


async def adopt(
    connection: AsyncConnection, chat: ChatKey, lender: ChatKey, ids: Sequence[int]
) -> dict[int, int]:
    """Copies a line of another chat, and makes the messages of this one point to it.

    Nothing when a part of it was deleted meanwhile, or was put out of service here, or when another
    version of it serves here. The copies stay when the other chat is deleted. `connection` is in a
    transaction that has this chat locked and ends with a note of its leaf.

    Returns:
        The copies by the ids of the originals, shallowest first.
    """
    query = select(checkpoints.c.id, *CONTENT).where(
        *of(lender, checkpoints), among(checkpoints.c.id, ids)
    )
    seal = await sealing.of(connection, chat.tenant)
    # Ids rise from parent to child, so this is the order in which they grew.
    rows = (await connection.execute(query.order_by(checkpoints.c.id))).mappings()
    originals = [opened(row, seal, lender) for row in rows]
    # Only this chat is locked: the lender's may have been deleted since they were found.
    if len(originals) < len(ids):
        return {}
    line = Lineage([], [])
    for original in originals:
        here = await _here(connection, chat, line, original)
        copy = next((one for one in here if one.is_copy), None)
        # Of two versions of one boundary, each would serve the messages below it.
        if any(one.is_retired == one.is_copy for one in here):
            return {}
        if copy:
            line = Lineage([*line.ids, copy.id], copy.savings)
        else:
            line = await add(connection, chat, line, await next_id(connection), original)
    # The deepest first: each message is then pointed to its own at once.
    for place in range(len(ids) - 1, -1, -1):
        until = originals[place]["covered_until"]
        await messages.point_to(connection, chat, until, line.ids[place], [])
    return dict(zip(ids, line.ids, strict=True))


async def _here(
    connection: AsyncConnection, chat: ChatKey, line: Lineage, content: dict[str, Any]
) -> list[_Version]:
    """What this chat has at the boundary of an original whose line above it is copied."""
    seal = await sealing.of(connection, chat.tenant)
    columns = (
        checkpoints.c.id,
        checkpoints.c.parent_id,
        checkpoints.c.savings,
        checkpoints.c.retired_at,
        checkpoints.c.summary,
    )
    query = select(*columns).where(
        *of(chat, checkpoints), checkpoints.c.covered_digest == content["covered_digest"]
    )
    above = line.ids[-1] if line.ids else 0
    here = []
    for row in await connection.execute(query):
        # Sealed texts differ even where they say the same, so they are compared here, not in SQL.
        packed = seal.open(place_of(chat, row.id, "summary"), row.summary)
        is_copy = row.parent_id == above and packed == content["summary"]
        here.append(_Version(row.id, row.savings, is_copy, row.retired_at is not None))
    return here
